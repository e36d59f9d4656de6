use proptest::prelude::*;

use crate::{Algorithm, AlgorithmKind, FieldError, Method, PolicyFields, Scalar};

fn method(kind: AlgorithmKind, fields: &[(&str, Scalar<'_>)]) -> Result<Method, FieldError> {
    Method::with_fields(kind, fields.iter().map(|(name, value)| (*name, value.clone())))
}

#[test]
fn without_fields_a_method_has_its_defaults() {
    for kind in AlgorithmKind::ALL {
        assert_eq!(method(kind, &[]).unwrap().algorithm, kind.with_defaults());
    }
}

#[test]
fn the_fields_are_those_of_the_contract() {
    let admission = ["require_cache_affinity_key", "require_input_tokens", "max_input_work_seconds"];
    let widening = [
        "seed",
        "n",
        "comparator",
        "max_queued",
        "max_queue_time_floor_ms",
        "max_queue_time_ceil_ms",
        "ttft_bucket_size_ms",
        "next_bucket_unlock_factor",
        "ignore_queue_time",
        "ignore_input_processing_time",
        "unknown_concurrency",
        "cache_affinity_backend_selection_count",
        "cache_affinity_wait_ms",
        "cache_affinity_input_tokens_scale",
    ];
    let ring = ["cache_affinity_virtual_nodes"];
    let bands = [
        "rendezvous_weight",
        "consider_kv_free_tokens",
        "primary_admission",
        "fallback_max_queued",
        "cache_affinity_wait_spread",
        "band_widen_interval_ms",
    ];
    let expected: [(AlgorithmKind, Vec<&str>); 6] = [
        (AlgorithmKind::PowerOfN, vec!["sample_count", "comparator"]),
        (AlgorithmKind::RoundRobin, vec![]),
        (AlgorithmKind::Random, vec![]),
        (AlgorithmKind::Pulsar, vec!["seed", "rendezvous_weight", "consider_kv_free_tokens", "comparator"]),
        (AlgorithmKind::WaitAndWiden, [&widening[..], &ring].concat()),
        (AlgorithmKind::PulsarWaitAndWiden, [&widening[..], &bands].concat()),
    ];
    for (kind, mut fields) in expected {
        fields.extend(admission);
        fields.sort_unstable();
        let mut found: Vec<&str> = Method::field_names(kind).collect();
        found.sort_unstable();
        assert_eq!(found, fields, "{kind:?}");
    }
}

#[test]
fn what_is_out_of_bounds_is_named_with_what_is_allowed() {
    use AlgorithmKind::{PowerOfN, Pulsar, PulsarWaitAndWiden, Random, WaitAndWiden};
    for (kind, field, value, found, allowed) in [
        (PowerOfN, "sample_count", 0_u64.into(), "0", "a whole number from 1 to 64"),
        (PowerOfN, "sample_count", 65_u64.into(), "65", "a whole number from 1 to 64"),
        (PowerOfN, "sample_count", 2.0.into(), "2.0", "a whole number from 1 to 64"),
        (PowerOfN, "sample_count", "2x".into(), "\"2x\"", "a whole number from 1 to 64"),
        (PowerOfN, "comparator", "best".into(), "\"best\"", "`num-requests-queued`"),
        (PowerOfN, "comparator", true.into(), "true", "`ttft`"),
        (Pulsar, "seed", true.into(), "true", "text or a whole number"),
        (Pulsar, "consider_kv_free_tokens", 1_u64.into(), "1", "true or false"),
        (WaitAndWiden, "n", 0_u64.into(), "0", "from 1 to 64"),
        (WaitAndWiden, "max_queued", Scalar::Integer(-1), "-1", "a whole number from 0"),
        (
            WaitAndWiden,
            "max_queued",
            Scalar::Integer(1 << 64),
            "18446744073709551616",
            "a whole number from 0",
        ),
        (WaitAndWiden, "ttft_bucket_size_ms", 0_u64.into(), "0", "from 1 to 86400000"),
        (WaitAndWiden, "next_bucket_unlock_factor", (-0.5).into(), "-0.5", "a finite number from 0"),
        (WaitAndWiden, "next_bucket_unlock_factor", f64::INFINITY.into(), "inf", "a finite number from 0"),
        (WaitAndWiden, "next_bucket_unlock_factor", f64::NAN.into(), "NaN", "a finite number from 0"),
        (WaitAndWiden, "next_bucket_unlock_factor", "1e3".into(), "\"1e3\"", "a finite number from 0"),
        (WaitAndWiden, "cache_affinity_input_tokens_scale", 1.5.into(), "1.5", "a number from 0 to 1"),
        (WaitAndWiden, "cache_affinity_virtual_nodes", 1025_u64.into(), "1025", "from 1 to 1024"),
        (WaitAndWiden, "cache_affinity_wait_ms", 60_001_u64.into(), "60001", "from 0 to 60000"),
        (PulsarWaitAndWiden, "band_widen_interval_ms", 60_001_u64.into(), "60001", "from 0 to 60000"),
        (PulsarWaitAndWiden, "cache_affinity_wait_spread", 1.01.into(), "1.01", "a number from 0 to 1"),
        (PulsarWaitAndWiden, "cache_affinity_wait_spread", (-0.1).into(), "-0.1", "a number from 0 to 1"),
        (PulsarWaitAndWiden, "primary_admission", "always".into(), "\"always\"", "`eligible` and `capacity`"),
        (Random, "max_input_work_seconds", 0_u64.into(), "0", "a finite number above 0"),
        (
            Random,
            "sample_count",
            2_u64.into(),
            "power-of-n, which random does not use",
            "for random: `require_",
        ),
        (
            PulsarWaitAndWiden,
            "cache_affinity_virtual_nodes",
            2_u64.into(),
            "a field of wait-and-widen",
            "`n`",
        ),
        (PowerOfN, "sampel_count", 2_u64.into(), "an unknown field", "`sample_count`, `comparator`"),
        (PowerOfN, "algorithm", "random".into(), "an unknown field", "`sample_count`"),
    ] {
        let error = method(kind, &[(field, value)]).unwrap_err();
        assert_eq!(error.field, field);
        assert!(error.found.contains(found), "{error}");
        assert!(error.allowed.contains(allowed), "{error}");
    }
}

#[test]
fn values_are_read_leniently_where_nothing_is_lost() {
    let pulsar = method(
        AlgorithmKind::Pulsar,
        &[("seed", 7_u64.into()), ("rendezvous_weight", "LAST_MEAN_INPUT_TPS".into())],
    );
    let Algorithm::Pulsar(parameters) = pulsar.unwrap().algorithm else { panic!() };
    assert_eq!(
        (parameters.seed.as_str(), parameters.weight),
        ("7", crate::RendezvousWeight::LastMeanInputTps)
    );
    let fields = [
        ("next_bucket_unlock_factor", "0.0625".into()),
        ("n", "3".into()),
        ("ignore_queue_time", "true".into()),
        ("cache_affinity_input_tokens_scale", 1_u64.into()),
        ("cache_affinity_backend_selection_count", 0_u64.into()),
    ];
    let widened = method(AlgorithmKind::PulsarWaitAndWiden, &fields).unwrap();
    let Algorithm::PulsarWaitAndWiden(parameters) = widened.algorithm else { panic!() };
    assert!((parameters.widening.next_bucket_unlock_factor - 0.0625).abs() < f64::EPSILON);
    assert_eq!((parameters.widening.sample_count.get(), parameters.widening.ignore_queue_time), (3, true));
    assert_eq!(parameters.affinity_group, 1, "0 reads as 1");
}

#[test]
fn queue_bounds_go_together_wherever_they_come_from() {
    let (floor, ceil) = ("max_queue_time_floor_ms", "max_queue_time_ceil_ms");
    let kind = AlgorithmKind::WaitAndWiden;
    let both = method(kind, &[(floor, 10_u64.into()), (ceil, 20_u64.into())]).unwrap();
    for (result, field, found) in [
        (method(kind, &[(floor, 10_u64.into())]), floor, "10 without"),
        (method(kind, &[(ceil, 10_u64.into())]), ceil, "10 without"),
        (method(kind, &[(floor, 30_u64.into()), (ceil, 20_u64.into())]), floor, "30 above"),
        (both.overlay([(floor, 30_u64.into())]), floor, "30 above"),
        (both.overlay([(ceil, 5_u64.into())]), floor, "10 above"),
    ] {
        let error = result.unwrap_err();
        assert!(error.field == field && error.found.contains(found), "{error}");
    }
    let changed = both.overlay([(ceil, 40_u64.into())]).unwrap();
    assert_eq!(changed, method(kind, &[(floor, 10_u64.into()), (ceil, 40_u64.into())]).unwrap());
}

#[test]
fn policy_fields_have_bounds() {
    for (field, value) in [
        ("default_max_wait_ms", 60_001_u64.into()),
        ("slo_ms", 0_u64.into()),
        ("wait_order", "newest".into()),
        ("max_waiters", 0_u64.into()),
        ("max_waiters", 65_537_u64.into()),
        ("affinity_from_leading_messages", 65_u64.into()),
        ("sample_count", 2_u64.into()),
    ] {
        let error = PolicyFields::with_fields([(field, value)]).unwrap_err();
        assert_eq!(error.field, field);
    }
    let all = [
        ("default_max_wait_ms", 60_000_u64.into()),
        ("slo_ms", 1_u64.into()),
        ("shed_unreachable", false.into()),
        ("wait_order", "oldest_first".into()),
        ("max_waiters", 1_u64.into()),
        ("affinity_from_leading_messages", 64_u64.into()),
    ];
    let fields = PolicyFields::with_fields(all).unwrap();
    assert_eq!(fields.waiting.max_waiters, 1);
    assert_eq!(PolicyFields::with_fields(fields.fields()).unwrap(), fields);
    assert_eq!(PolicyFields::with_fields([]).unwrap(), PolicyFields::default());
}

fn any_scalar() -> impl Strategy<Value = Scalar<'static>> {
    prop_oneof![
        (-2..70_i128).prop_map(Scalar::Integer),
        any::<i128>().prop_map(Scalar::Integer),
        any::<f64>().prop_map(Scalar::Decimal),
        (0.0..2.0).prop_map(Scalar::Decimal),
        any::<bool>().prop_map(Scalar::Boolean),
        proptest::sample::select(
            &["ttft", "full", "capacity", "0.5", "7", "", "true", "last-mean-input-tps"][..]
        )
        .prop_map(Scalar::from),
    ]
}

proptest! {
    /// Whatever is taken is written so that it reads as the same again; whatever is not names its field.
    #[test]
    fn what_is_written_reads_as_the_same(
        kind in proptest::sample::select(&AlgorithmKind::ALL[..]),
        values in proptest::collection::vec((any::<proptest::sample::Index>(), any_scalar()), 0..12),
    ) {
        let names: Vec<&str> = Method::field_names(kind).collect();
        let mut method = Method { algorithm: kind.with_defaults(), ..Method::default() };
        for (index, value) in values {
            let name = names[index.index(names.len())];
            match method.overlay([(name, value)]) {
                Ok(changed) => method = changed,
                Err(error) => prop_assert!(names.contains(&error.field.as_str())),
            }
        }
        prop_assert_eq!(Method::with_fields(kind, method.fields()).unwrap(), method);
    }
}
