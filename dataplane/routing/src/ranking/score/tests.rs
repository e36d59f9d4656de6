use proptest::prelude::*;

use super::*;

fn name(routing_key: Option<&str>, model: &str) -> TargetName {
    TargetName { routing_key: routing_key.map(Into::into), model: model.into() }
}

proptest! {
    #[test]
    fn a_draw_that_may_not_reach_a_score_does_not(
        draws in [any_draw(), any_draw()],
        weights in [weight_of_any_size(), weight_of_any_size()],
    ) {
        let leader = draws[0].score(weights[0]);
        let draw = draws[1];
        prop_assert!(draw.may_reach(leader, weights[1]) || draw.score(weights[1]) < leader);
        prop_assert!(draw.may_reach(draw.score(weights[1]), weights[1]));
        prop_assert!(draw.may_reach(f64::NEG_INFINITY, weights[1]));
    }
}

/// Often near 1, where winners are and where the bound on a score is tightest.
fn any_draw() -> impl Strategy<Value = Draw> {
    let bits = prop_oneof![0..1_u64 << 52, (0..44_u32).prop_map(|shift| (1 << 52) - (1 << shift))];
    bits.prop_map(|bits| Draw((bits as f64 + 0.5) * Draw::STEP))
}

fn weight_of_any_size() -> impl Strategy<Value = f64> {
    let extremes = [5e-324, 1e-323, f64::MIN_POSITIVE, 1e300, 1e308, f64::MAX];
    prop_oneof![
        4 => 1.0..100_000.0,
        2 => any::<f64>().prop_map(f64::abs).prop_filter("valid", |weight| *weight > 0.0 && weight.is_finite()),
        1 => proptest::sample::select(extremes.to_vec()),
    ]
}

#[test]
fn the_random_number_is_never_0_or_1() {
    let lowest = ((0_u64 >> 12) as f64 + 0.5) * Draw::STEP;
    let highest = ((u64::MAX >> 12) as f64 + 0.5) * Draw::STEP;
    assert_eq!((lowest, highest), (2_f64.powi(-53), 1.0 - 2_f64.powi(-53)));
    // The mixer maps 0 to 0, whatever else it does.
    assert_eq!(Draw::new(SlotHash(5), 5), Draw(lowest));
    for extreme in [Draw(lowest), Draw(highest)] {
        let score = extreme.score(1.0);
        assert!(score > 0.0 && score.is_finite(), "{extreme:?} scores {score}");
    }
}

#[test]
fn every_part_of_a_ranking_and_every_border_between_parts_counts() {
    let hash = |seed: &str, name: TargetName, slot| Base::new(&Seed::new(seed), &name).slot(Slot(slot));
    let variants = [
        hash("", name(None, "ab"), 0),
        hash("", name(None, "ab"), 1),
        hash("", name(None, "ab"), 0x100),
        hash("0", name(None, "ab"), 0),
        hash("", name(Some(""), "ab"), 0),
        hash("", name(None, "abc"), 0),
        hash("", name(Some("a"), "b"), 0),
        hash("", name(Some("ab"), ""), 0),
        hash("", name(None, "ab\0\0\0\0"), 0),
    ];
    for (position, variant) in variants.iter().enumerate() {
        assert!(!variants[..position].contains(variant), "variant {position}");
    }
}
