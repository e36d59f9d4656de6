use stargate_routing::{Algorithm, WaitAndWidenParameters};

use super::{super::gateway::Until, *};

fn setup(seed: u64) -> Setup {
    Setup {
        seed,
        gateways: 1,
        clusters: 8,
        slots: 6,
        mean_service: Duration::from_secs(1),
        rtt: Duration::from_millis(50),
        reporting: Reporting::Every(Duration::from_secs(1)),
        load: 1.3,
        keys: 64,
        warmup: Duration::from_secs(5),
        measured: Duration::from_secs(20),
    }
}

fn terms(until: Until) -> Terms {
    let algorithm = Algorithm::WaitAndWiden(WaitAndWidenParameters::default());
    Terms { algorithm, until, patience: Duration::from_secs(2) }
}

fn figures(tally: &Tally) -> [u64; 6] {
    let Tally { offered, sent, misrouted, queued, completed, rejected, .. } = *tally;
    [offered, sent, misrouted, queued, completed, rejected]
}

#[test]
fn a_run_follows_from_its_seed() {
    let terms = terms(Until::RoundTrip);
    let [first, again, other] = [1, 1, 2].map(|seed| figures(&run(&setup(seed), &terms)));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn a_gateway_that_is_told_what_reports_include_sends_nothing_where_no_slot_is_free() {
    let exact = run(&setup(1), &terms(Until::Included));
    assert_eq!((exact.misrouted, exact.queued), (0, 0));
    assert!(exact.rejected > 0, "it was no overload");
    let one_round_trip = run(&setup(1), &terms(Until::RoundTrip));
    assert!(one_round_trip.queued > 0, "its reservations ended before the reports that include them");
    let cleared = run(&setup(1), &terms(Until::NextReport));
    assert!(
        cleared.busy < exact.busy,
        "freed slots are seen at reports only: {} {}",
        cleared.busy,
        exact.busy
    );
}
