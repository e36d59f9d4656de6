use std::cell::Cell;

use super::*;
use crate::ranking::{row::Candidate, score::Base};

/// Asks for a row and tells whether it had to be ranked.
fn is_ranked(memo: &mut RankingMemo, revision: u64, seed: &str, weight: RendezvousWeight, slot: u16) -> bool {
    let ranked = Cell::new(false);
    memo.row(revision, &Seed::new(seed), weight, Slot(slot), || {
        ranked.set(true);
        Row::EMPTY
    });
    ranked.get()
}

#[test]
fn a_row_is_ranked_once_for_all_that_it_depends_on() {
    const MAX: RendezvousWeight = RendezvousWeight::MaxInputTps;
    const MEAN: RendezvousWeight = RendezvousWeight::LastMeanInputTps;
    let mut memo = RankingMemo::default();
    for (revision, seed, weight, slot) in
        [(1, "", MAX, 0), (2, "", MAX, 0), (1, "a", MAX, 0), (1, "", MEAN, 0), (1, "", MAX, 1)]
    {
        assert!(is_ranked(&mut memo, revision, seed, weight, slot));
        assert!(!is_ranked(&mut memo, revision, seed, weight, slot));
    }
}

#[test]
fn nothing_is_remembered_under_revision_0() {
    let mut memo = RankingMemo::default();
    for _ in 0..2 {
        assert!(is_ranked(&mut memo, 0, "", RendezvousWeight::default(), 0));
    }
}

#[test]
fn what_falls_on_the_same_places_takes_one_and_is_never_mistaken() {
    let mut memo = RankingMemo::default();
    let seed = Seed::default();
    let name = crate::TargetName { routing_key: None, model: "m".into() };
    let rank = |number: u16| {
        let candidates = (0..20).map(|id_hash| Candidate { id_hash, weight: 1.0 });
        Row::rank(Base::new(&seed, &name).slot(Slot(number)), candidates)
    };
    for number in (0..4_000).chain(0..4_000) {
        let row = memo.row(1, &seed, RendezvousWeight::default(), Slot(number), || rank(number));
        assert_eq!(row, rank(number), "slot {number}");
    }
    let remembered = (3_000..4_000)
        .filter(|slot| !is_ranked(&mut memo, 1, "", RendezvousWeight::default(), *slot))
        .count();
    assert!(remembered > 500, "{remembered} of 1000");
}
