use super::*;
use crate::{
    Seed, TargetName,
    ranking::{Slot, score::Base},
};

fn slot_hash(number: u16) -> SlotHash {
    let name = TargetName { routing_key: None, model: "m".into() };
    Base::new(&Seed::default(), &name).slot(Slot(number))
}

fn ranked(candidates: &[Candidate]) -> Vec<usize> {
    Row::rank(slot_hash(1), candidates.iter().copied()).clusters().map(|cluster| cluster.0).collect()
}

#[test]
fn of_equal_scores_the_earlier_cluster_is_ahead() {
    // Scores of the second weight are infinite.
    for weight in [1.0, f64::MAX] {
        let same = [Candidate { id_hash: 1, weight }; 12];
        assert_eq!(ranked(&same), (0..8).collect::<Vec<_>>(), "weight {weight}");
        let mut best = Best::new();
        for position in [5, 11, 0, 3, 2, 1, 9, 4, 7, 6] {
            best.offer(slot_hash(1), position, same[0]);
        }
        assert_eq!(best.row(), Row::rank(slot_hash(1), same.into_iter()));
        assert_eq!(best.last().map(|(_, position)| position), Some(7));
    }
}

#[test]
fn clusters_without_a_weight_take_no_rank() {
    let candidate = |weight| Candidate { id_hash: 1, weight };
    assert_eq!(ranked(&[candidate(0.0), candidate(1.0), candidate(0.0)]), [1]);
    assert!(!Row::rank(slot_hash(1), [candidate(1.0); 7].into_iter()).is_full());
    assert!(Row::rank(slot_hash(1), [candidate(1.0); 8].into_iter()).is_full());
    assert_eq!(ranked(&[]), [0_usize; 0]);
}

#[test]
fn a_row_is_16_bytes_and_says_where_its_clusters_are_now() {
    assert_eq!(size_of::<Row>(), 16);
    let row = Row::rank(slot_hash(1), [Candidate { id_hash: 1, weight: 1.0 }; 3].into_iter());
    let moved: Vec<usize> = row.map(|position| position + 10).clusters().map(|cluster| cluster.0).collect();
    assert_eq!(moved, [10, 11, 12]);
    assert_eq!((row.get(2), row.get(3), row.get(8)), (Some(ClusterIndex(2)), None, None));
}

#[test]
fn clusters_beyond_what_a_position_holds_have_no_rank() {
    let many = vec![Candidate { id_hash: 1, weight: 0.0 }; Row::POSITIONS_MAX];
    let heavy = Candidate { id_hash: 1, weight: 1.0 };
    assert_eq!(ranked(&[&many[1..], &[heavy]].concat()), [Row::POSITIONS_MAX - 1]);
    assert_eq!(ranked(&[&many[..], &[heavy]].concat()), [0_usize; 0]);
}
