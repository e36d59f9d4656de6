use std::{rc::Rc, sync::Arc};

use proptest::prelude::*;
use stargate_routing::{Algorithm, Comparator, PulsarParameters, Seed};

use super::*;

fn policy() -> Policy {
    let with_defaults = |kind: AlgorithmKind| Method { algorithm: kind.with_defaults(), ..Method::default() };
    let bounded = Method::with_fields(
        AlgorithmKind::WaitAndWiden,
        [("max_queue_time_floor_ms", 10_u64.into()), ("max_queue_time_ceil_ms", 20_u64.into())],
    );
    Policy {
        request_methods: [
            with_defaults(AlgorithmKind::Pulsar),
            bounded.unwrap(),
            with_defaults(AlgorithmKind::RoundRobin),
            with_defaults(AlgorithmKind::PulsarWaitAndWiden),
        ]
        .into(),
        ..Policy::default()
    }
}

fn read(expression: &str) -> Result<Method, ExpressionError> {
    method_of(&policy(), expression.as_bytes())
}

#[test]
fn an_algorithm_alone_is_selected_as_it_is_configured() {
    for (expression, kind) in [
        ("pulsar", AlgorithmKind::Pulsar),
        ("  PULSAR\t", AlgorithmKind::Pulsar),
        ("round_robin", AlgorithmKind::RoundRobin),
        ("Power_Of_Two", AlgorithmKind::PowerOfN),
        ("powerOf2", AlgorithmKind::PowerOfN),
        ("groq_multiregion", AlgorithmKind::WaitAndWiden),
        ("pulsar-multiregion", AlgorithmKind::PulsarWaitAndWiden),
    ] {
        let method = read(expression).unwrap();
        assert_eq!(Some(&method), policy().selectable(kind), "{expression:?}");
    }
}

#[test]
fn parameters_are_laid_over_what_is_configured() {
    let pulsar = |seed: &str| {
        Algorithm::Pulsar(PulsarParameters {
            seed: Seed::new(seed),
            consider_kv_free_tokens: true,
            comparator: Comparator::QueueTime,
            ..PulsarParameters::default()
        })
    };
    for (expression, seed) in [
        ("pulsar;seed=stable-a;consider_kv_free_tokens=true;comparator=queue-time", "stable-a"),
        ("pulsar; seed=\"a;b \\\"c\\\"\"; consider_kv_free_tokens=?1;comparator=\"queue-time\"", "a;b \"c\""),
        ("pulsar;consider_kv_free_tokens=TRUE;comparator=QUEUE_TIME;seed=7", "7"),
    ] {
        assert_eq!(read(expression).unwrap().algorithm, pulsar(seed), "{expression}");
    }
    let method = read("wait-and-widen;next_bucket_unlock_factor=\"0.0625\";n=3;max_queue_time_ceil_ms=40");
    let fields = method.unwrap().fields();
    for (name, value) in [
        ("next_bucket_unlock_factor", 0.0625.into()),
        ("n", 3_u64.into()),
        ("max_queue_time_floor_ms", 10_u64.into()),
        ("max_queue_time_ceil_ms", 40_u64.into()),
    ] {
        assert!(fields.contains(&(name, value)), "{name} in {fields:?}");
    }
    assert!(read("round-robin;max_input_work_seconds=1.5;require_input_tokens=true").is_ok());
}

#[test]
fn what_cannot_be_taken_is_refused_with_its_reason() {
    for (expression, words) in [
        ("", "it is blank"),
        ("  \t ", "it is blank"),
        ("pulsar,random", "index 6"),
        ("pulsar, pulsar", "index 6"),
        ("\"pulsar\"", "must begin with the name of an algorithm"),
        ("7", "must begin with the name of an algorithm"),
        ("pulsar;seed", "parameter `seed` has no value"),
        ("pulsar;seed=\"a;n\";consider_kv_free_tokens", "parameter `consider_kv_free_tokens` has no value"),
        ("pulsar;seed=a;seed=b", "parameter `seed` comes twice"),
        ("pulsar;Seed=a", "index 7"),
        ("pulsar;seed= a", "index 12"),
        ("pulsar;seed=:YQ==:", "must be a number, a text"),
        ("pulsar;seed=@5", "index 12"),
        ("wait-and-widen;n=1.2345", "index"),
        ("best", "`best` is no routing algorithm; there are `power-of-n`"),
        ("random", "`random` may not be selected for this model; what may is `power-of-n`, `round-robin`"),
        ("pulsar;n=3", "parameter n: found a field of wait-and-widen, pulsar-wait-and-widen"),
        ("pulsar;widen=3", "parameter widen: found an unknown field"),
        ("wait-and-widen;n=65", "parameter n: found 65, allowed: a whole number from 1 to 64"),
        ("wait-and-widen;n=-1", "parameter n: found -1"),
        ("wait-and-widen;next_bucket_unlock_factor=\"1e3\"", "a finite number from 0"),
        ("wait-and-widen;max_queue_time_floor_ms=30", "found 30 above `max_queue_time_ceil_ms` = 20"),
        ("pulsar-wait-and-widen;max_queue_time_floor_ms=30", "30 without `max_queue_time_ceil_ms`"),
    ] {
        let error = read(expression).unwrap_err().to_string();
        assert!(error.contains(words), "{expression:?}: {words:?} is not in {error:?}");
    }
    let long = format!("pulsar;seed={}", "a".repeat(1013));
    assert!(read(&long).unwrap_err().to_string().contains("it has 1025 bytes, at most 1024"));
    assert!(read(&long[..1024]).is_ok());
    let many = (0..33).map(|number| format!(";p{number}=1")).collect::<Vec<_>>().concat();
    assert!(read(&format!("pulsar{many}")).unwrap_err().to_string().contains("at most 32 parameters"));
    assert!(method_of(&policy(), b"puls\xffar").is_err());
}

#[test]
fn what_was_read_is_found_for_the_same_policy_only() {
    let (one, other) = (Arc::new(policy()), Arc::new(policy()));
    let mut cache = MethodCache::default();
    let kept = cache.insert(&one, b"pulsar", Method::default());
    assert!(Rc::ptr_eq(&cache.get(&one, b"pulsar").unwrap(), &kept));
    assert!(cache.get(&other, b"pulsar").is_none());
    assert!(cache.get(&one, b"pulsar;seed=a").is_none());
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let policy = Arc::new(policy());
    let mut cache = MethodCache::default();
    let expressions = || (0..10_000).map(|number| format!("pulsar;seed={number}"));
    cache.insert(&policy, b"pulsar", Method::default());
    for expression in expressions() {
        cache.insert(&policy, expression.as_bytes(), Method::default());
        assert!(cache.get(&policy, b"pulsar").is_some());
    }
    let kept = expressions().filter(|expression| cache.get(&policy, expression.as_bytes()).is_some()).count();
    assert!(kept < 256, "{kept}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = method_of(&policy(), &bytes);
    }

    #[test]
    fn nor_does_what_looks_like_one(text in "(pulsar|wait-and-widen|x)([; ]{0,2}(n|seed|a)?(=|\")[a-z0-9\\.\"\\\\?:@-]{0,6}){0,5}") {
        let _ = read(&text);
    }
}
