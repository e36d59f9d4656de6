use super::*;
use crate::{Millis, PatienceSource, Wait, WaitReason};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Finds what it was told to, once alone and once as one of many, and promises a time to first token.
struct Script {
    alone: Result<&'static str, NoChoice>,
    one_of_many: Result<&'static str, NoChoice>,
    best: Option<Duration>,
    decided: u32,
}

impl Script {
    fn always(found: Result<&'static str, NoChoice>) -> Self {
        Self { alone: found, one_of_many: found, best: None, decided: 0 }
    }
}

impl Decides for Script {
    type Place = &'static str;

    fn decide(&mut self, request: &RoutingRequest<'_>, _: &Exclusions) -> Result<&'static str, NoChoice> {
        self.decided += 1;
        if request.is_waiting { self.one_of_many } else { self.alone }
    }

    fn best_ttft(&mut self, _: &RoutingRequest<'_>, _: &Exclusions) -> Option<Duration> {
        self.best
    }
}

const FULL: NoChoice = NoChoice::Unavailable(UnavailableReason::NoCapacity);
const HELD_FOR_ROOM: WaitedFor = WaitedFor::Change(UnavailableReason::NoCapacity);

fn opening(until_ms: u64) -> NoChoice {
    NoChoice::Wait(Wait { until: ms(until_ms), reason: WaitReason::Affinity })
}

/// Rules on a request that arrived at 1 s, so long after that.
fn rule(script: &mut Script, source: PatienceSource, after: Duration) -> Ruling<&'static str> {
    claim(&Exclusions::default(), source, None).rule(script, ms(1_000) + after)
}

fn claim(exclusions: &Exclusions, source: PatienceSource, slo_ms: Option<u64>) -> Claim<'_> {
    Claim {
        request: RoutingRequest { slo: slo_ms.map(Millis), ..RoutingRequest::default() },
        exclusions,
        patience: Patience { deadline: ms(100), source },
        shed_unreachable: true,
        arrived: ms(1_000),
    }
}

#[test]
fn a_place_is_taken_and_an_opening_waited_for() {
    let nobody = PatienceSource::Nobody;
    assert_eq!(rule(&mut Script::always(Ok("a")), nobody, ms(0)), Ruling::Placed("a"));
    let hold = Hold { until: ms(30), reason: WaitedFor::Opening(WaitReason::Affinity) };
    assert_eq!(rule(&mut Script::always(Err(opening(30))), nobody, ms(5)), Ruling::Held(hold));
}

#[test]
fn room_is_waited_for_to_the_deadline_with_a_budget_only() {
    let refused = Ruling::Refused(Refused::Unavailable(UnavailableReason::NoCapacity));
    let held = Ruling::Held(Hold { until: ms(100), reason: HELD_FOR_ROOM });
    for (source, ruling) in
        [(PatienceSource::Request, held), (PatienceSource::Model, held), (PatienceSource::Nobody, refused)]
    {
        assert_eq!(rule(&mut Script::always(Err(FULL)), source, ms(5)), ruling, "{source:?}");
    }
}

#[test]
fn a_place_is_taken_at_the_deadline_but_not_waited_for_beyond_it() {
    let source = PatienceSource::Request;
    let expired = |hold| Ruling::Refused(Refused::Expired(hold));
    let for_room = Hold { until: ms(100), reason: HELD_FOR_ROOM };
    assert_eq!(rule(&mut Script::always(Err(FULL)), source, ms(100)), expired(for_room));
    assert_eq!(rule(&mut Script::always(Ok("a")), source, ms(100)), Ruling::Placed("a"));
}

#[test]
fn who_has_waited_as_long_as_it_may_takes_no_place_any_more() {
    let exclusions = Exclusions::default();
    let claim = claim(&exclusions, PatienceSource::Request, None);
    let held = Hold { until: ms(100), reason: HELD_FOR_ROOM };
    let mut script = Script::always(Ok("a"));
    assert_eq!(claim.rule_again(held, &mut script, ms(1_099)), Ruling::Placed("a"));
    assert_eq!(claim.rule_again(held, &mut script, ms(1_100)), Ruling::Refused(Refused::Expired(held)));
    assert_eq!(script.decided, 1);
}

#[test]
fn who_would_be_refused_takes_a_place_that_is_anothers() {
    let exclusions = Exclusions::default();
    for (source, ruling, decided) in [
        (PatienceSource::Nobody, Ruling::Placed("another's"), 2),
        (PatienceSource::Request, Ruling::Held(Hold { until: ms(100), reason: HELD_FOR_ROOM }), 1),
    ] {
        let mut claim = claim(&exclusions, source, None);
        claim.request.is_waiting = true;
        let mut script = Script { alone: Ok("another's"), one_of_many: Err(FULL), best: None, decided: 0 };
        assert_eq!(claim.rule(&mut script, ms(1_000)), ruling, "{source:?}");
        assert_eq!(script.decided, decided, "{source:?}");
    }
}

#[test]
fn who_cannot_be_in_time_is_not_held_and_takes_no_place() {
    let exclusions = Exclusions::default();
    let held = Hold { until: ms(100), reason: HELD_FOR_ROOM };
    for (best_ms, after_ms, shed, is_late) in
        [(20, 30, true, false), (20, 31, true, true), (20, 31, false, false), (0, 51, true, true)]
    {
        let mut claim = claim(&exclusions, PatienceSource::Request, Some(50));
        claim.shed_unreachable = shed;
        let now = ms(1_000 + after_ms);
        let late = Refused::SloUnreachable { best: ms(best_ms), slo: ms(50) };
        let script = |found| Script { best: Some(ms(best_ms)), ..Script::always(found) };

        let ruling = claim.rule(&mut script(Err(FULL)), now);
        assert_eq!(ruling, if is_late { Ruling::Refused(late) } else { Ruling::Held(held) });
        let ruling = claim.rule_again(held, &mut script(Ok("a")), now);
        assert_eq!(ruling, if is_late { Ruling::Refused(late) } else { Ruling::Placed("a") });
        // One that comes is not late as long as there is a place.
        assert_eq!(claim.rule(&mut script(Ok("a")), now), Ruling::Placed("a"));
    }
}
