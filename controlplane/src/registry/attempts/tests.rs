use std::fmt::Write;

use proptest::{collection, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::registry::StatsRequest;

fn read(value: &Value) -> Result<Attempts, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

fn id(gateway: u32) -> GatewayId {
    GatewayId::from(gateway)
}

#[test]
fn a_gateway_finds_its_own_cores_in_order() {
    let attempts = read(&json!({
        "ffffffff": { "0": { "through": 9 } },
        "0000abcd": { "12": { "through": 3, "except": [1, 2] }, "2": { "through": 0, "except": [] } }
    }))
    .unwrap();
    let core = |core, through, except: &[u64]| CoreInclusion { core, through, except: except.into() };
    assert_eq!(attempts.of(id(0xabcd)), [core(2, 0, &[]), core(12, 3, &[1, 2])]);
    assert_eq!(attempts.of(id(u32::MAX)), [core(0, 9, &[])]);
    assert_eq!(attempts.of(id(0)), []);
    assert_eq!(read(&json!({})), Ok(Attempts::default()));
}

#[test]
fn the_example_of_the_documentation_is_one_of_stats() {
    let page = include_str!("../../../../docs/handover.md");
    let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let request: StatsRequest = serde_json::from_str(example).unwrap();
    let attempts = request.models["llama-3"].attempts.clone().unwrap();
    let gateway = "00c0ffee".parse().unwrap();
    let included: Vec<u64> = (1..10).filter(|sequence| attempts.of(gateway)[0].includes(*sequence)).collect();
    assert_eq!(included, [1, 2, 3, 5, 8]);
}

#[test]
fn whatever_breaks_a_bound_is_refused() {
    let marks = |marks: Value| json!({ "00000001": { "0": marks } });
    let cores = |cores: Value| json!({ "00000001": cores });
    for (fault, reason) in [
        (json!([]), "an object of up to 64 gateways"),
        (json!({ "1": {} }), "8 lower-case hexadecimal digits"),
        (json!({ "0000000A": {} }), "8 lower-case hexadecimal digits"),
        (cores(json!(7)), "an object of up to 1024 cores"),
        (cores(json!({ "65536": { "through": 1 } })), "a core from \"0\" to \"65535\""),
        (cores(json!({ "01": { "through": 1 } })), "a core from \"0\" to \"65535\""),
        (cores(json!({ "+1": { "through": 1 } })), "a core from \"0\" to \"65535\""),
        (cores(json!({ "": { "through": 1 } })), "a core from \"0\" to \"65535\""),
        (marks(json!({})), "missing field `through`"),
        (marks(json!({ "through": -1 })), "u64"),
        (marks(json!({ "through": 1.5 })), "u64"),
        (marks(json!({ "through": "1" })), "u64"),
        (marks(json!({ "through": 1, "excpt": [] })), "unknown field `excpt`"),
        (marks(json!({ "through": 3, "except": [3] })), "the exception 3 is not below 3"),
        (marks(json!({ "through": 0, "except": [0] })), "the exception 0 is not below 0"),
        (marks(json!({ "through": 9, "except": [2, 2] })), "each greater than the one before"),
        (marks(json!({ "through": 9, "except": [3, 2] })), "each greater than the one before"),
        (marks(json!({ "through": 9, "except": [-1] })), "u64"),
        (marks(json!({ "through": 9, "except": 1 })), "a list of up to 256 numbers"),
    ] {
        let error = read(&fault).expect_err(&fault.to_string());
        assert!(error.contains(reason), "{fault}: {error}");
    }
}

#[test]
fn as_much_as_is_allowed_is_taken_and_no_more() {
    let gateways =
        |count| Value::Object((0..count).map(|index: u32| (id(index).to_string(), json!({}))).collect());
    let cores = |count| {
        let cores = (0..count).map(|core: u32| (core.to_string(), json!({ "through": 1 }))).collect();
        json!({ "00000001": Value::Object(cores) })
    };
    let exceptions = |count: u64| json!({ "00000001": { "0": { "through": 1000, "except": (1..=count).collect::<Vec<_>>() } } });
    for (most, over) in
        [(gateways(64), gateways(65)), (cores(1024), cores(1025)), (exceptions(256), exceptions(257))]
    {
        assert!(read(&most).is_ok(), "{most}");
        assert!(read(&over).unwrap_err().contains("invalid length"));
    }
}

#[test]
fn a_gateway_or_core_that_is_there_twice_is_refused() {
    let core = r#""0": {"through": 1}"#;
    for text in [format!(r#"{{"00000001": {{{core}, {core}}}}}"#), r#"{"00000001":{},"00000001":{}}"#.into()]
    {
        let error = serde_json::from_str::<Attempts>(&text).unwrap_err().to_string();
        assert!(error.contains("twice"), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        gateways in collection::btree_map(
            any::<u32>(),
            collection::btree_map(any::<u16>(), (any::<u64>(), collection::btree_set(any::<u64>(), 0..9)), 0..4),
            0..4,
        )
    ) {
        let mut text = String::new();
        for (gateway, cores) in &gateways {
            let mut inner = String::new();
            for (core, (through, except)) in cores {
                let below: Vec<u64> = except.iter().copied().filter(|sequence| sequence < through).collect();
                let comma = if inner.is_empty() { "" } else { "," };
                write!(inner, r#"{comma}"{core}":{{"through":{through},"except":{below:?}}}"#).unwrap();
            }
            let comma = if text.is_empty() { "" } else { "," };
            write!(text, r#"{comma}"{gateway:08x}":{{{inner}}}"#).unwrap();
        }
        let text = format!("{{{text}}}");
        let attempts: Attempts = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_value(&attempts).unwrap(), text.parse::<Value>().unwrap());
        for (gateway, cores) in &gateways {
            let found: Vec<u32> = attempts.of(id(*gateway)).iter().map(|core| core.core).collect();
            let expected: Vec<u32> = cores.keys().map(|core| u32::from(*core)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
