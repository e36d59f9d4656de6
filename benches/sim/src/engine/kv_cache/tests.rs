//! Small cases by hand; `blocks` compares many with a cache that keeps every block by itself.

mod blocks;

use super::{super::super::model::Prompt, *};

/// A sequence whose runs have so many tokens each; session 7 is of group 1.
fn sequence(group_tokens: u32, session: u32, session_tokens: u32, own_tokens: u32) -> Sequence {
    let prompt = Prompt { group: 1, session, group_tokens, session_tokens, own_tokens, is_continued: false };
    Sequence { prompt, generated: 0 }
}

/// Lets a sequence run to its end by itself: what was cached of it.
fn serve(cache: &mut KvCache, sequence: &Sequence) -> u32 {
    let (lease, cached) = cache.admit(sequence, sequence.tokens(), None).unwrap();
    cache.release(lease, sequence, sequence.tokens());
    cached
}

#[test]
fn what_is_computed_is_found_again_but_for_the_last_token() {
    let mut cache = KvCache::new(1_000, 10);
    let first = sequence(25, 7, 50, 15);
    let (mut lease, cached) = cache.admit(&first, 95, None).unwrap();
    assert_eq!((cached, cache.used_tokens()), (0, 100));
    assert_eq!(cache.cached_tokens(&first), 0);
    cache.computed(&mut lease, &first, 45);
    assert_eq!(cache.cached_tokens(&first), 40);
    // Another session has the group's whole blocks in common with it.
    assert_eq!(cache.cached_tokens(&sequence(25, 8, 50, 0)), 20);
    cache.release(lease, &first, 95);
    assert_eq!(cache.cached_tokens(&first), 70);
    assert_eq!(cache.cached_tokens(&sequence(25, 7, 45, 0)), 60);
    assert_eq!((cache.used_tokens(), cache.available()), (0, 100));
}

#[test]
fn the_least_recently_used_is_given_up_from_its_end_and_sessions_before_their_group() {
    let mut cache = KvCache::new(200, 10);
    let (old, new) = (sequence(20, 7, 50, 10), sequence(20, 8, 50, 10));
    serve(&mut cache, &old);
    assert_eq!(serve(&mut cache, &new), 20);
    let cached = |cache: &KvCache| (cache.cached_tokens(&old), cache.cached_tokens(&new));
    assert_eq!((cached(&cache), cache.free), ((70, 70), 6));
    // A stranger takes the room that is left, then the old request's own block, then its session's from the end.
    let stranger = |tokens| {
        let mut stranger = sequence(0, 9, 0, tokens);
        stranger.prompt.group = 2;
        stranger
    };
    let (lease, _) = cache.admit(&stranger(90), 90, None).unwrap();
    assert_eq!(cached(&cache), (50, 70));
    assert_eq!((cache.used_tokens(), cache.available()), (90, 11));
    cache.release(lease, &stranger(90), 0);
    // Nothing of it was computed, so that its room is free again; all but the group is given up in turn.
    assert!(cache.admit(&stranger(210), 210, None).is_some(), "what is too large has all there is");
    assert_eq!((cached(&cache), cache.used_tokens(), cache.available()), ((0, 0), 200, 0));
}

#[test]
fn what_a_running_request_uses_stays() {
    let mut cache = KvCache::new(100, 10);
    let first = sequence(20, 7, 30, 0);
    serve(&mut cache, &first);
    let (lease, cached) = cache.admit(&first, 55, None).unwrap();
    assert_eq!((cached, cache.used_tokens()), (40, 60));
    let other = sequence(0, 9, 0, 41);
    assert!(cache.admit(&other, 41, None).is_none());
    assert_eq!((cache.cached_tokens(&first), cache.used_tokens()), (40, 60));
    cache.release(lease, &first, 55);
    assert!(cache.admit(&other, 41, None).is_some());
}

#[test]
fn a_session_that_goes_on_has_its_answers_cached() {
    let mut cache = KvCache::new(1_000, 10);
    let mut turn = sequence(20, 7, 35, 0);
    turn.prompt.is_continued = true;
    let (mut lease, _) = cache.admit(&turn, 55, None).unwrap();
    cache.computed(&mut lease, &turn, 55);
    turn.generated = 30;
    cache.grow(&mut lease, 84);
    assert_eq!(cache.used_tokens(), 90);
    cache.release(lease, &turn, 84);
    let mut next = sequence(20, 7, 35 + 30 + 12, 0);
    next.prompt.is_continued = true;
    assert_eq!(cache.cached_tokens(&next), 80);
    assert_eq!(serve(&mut cache, &next), 80);
    assert_eq!(cache.cached_tokens(&next), 90);
}

#[test]
fn a_request_that_goes_on_finds_what_is_left_of_its_own() {
    let mut cache = KvCache::new(120, 10);
    let first = sequence(20, 7, 30, 50);
    let (lease, _) = cache.admit(&first, 100, None).unwrap();
    let leftover = cache.release(lease, &first, 97).unwrap();
    // Three free blocks, and one of its own.
    let other = sequence(0, 9, 0, 31);
    let (lease, _) = cache.admit(&other, 31, None).unwrap();
    cache.release(lease, &other, 0);
    let (lease, cached) = cache.admit(&first, 100, Some(leftover)).unwrap();
    assert_eq!((cached, cache.used_tokens(), cache.available()), (80, 100, 2));
    cache.release(lease, &first, 97);
    // What was left the first time is not there any more, whatever is in its place.
    let (_, cached) = cache.admit(&first, 100, Some(leftover)).unwrap();
    assert_eq!(cached, 50);
}

#[test]
fn of_two_who_compute_the_same_the_second_holds_its_own_copy() {
    let mut cache = KvCache::new(1_000, 10);
    let twin = sequence(0, 7, 50, 0);
    let (first, _) = cache.admit(&twin, 50, None).unwrap();
    let (second, cached) = cache.admit(&twin, 50, None).unwrap();
    assert_eq!((cached, cache.used_tokens()), (0, 100));
    cache.release(first, &twin, 50);
    assert_eq!((cache.cached_tokens(&twin), cache.used_tokens()), (40, 100));
    cache.release(second, &twin, 50);
    assert_eq!((cache.cached_tokens(&twin), cache.used_tokens(), cache.free), (40, 0, 90));
}

#[test]
fn without_a_limit_only_what_can_be_found_again_is_kept() {
    let mut cache = KvCache::new(0, 10);
    let first = sequence(20, 7, 30, 1_000);
    serve(&mut cache, &first);
    assert_eq!((cache.capacity_tokens(), cache.used_tokens(), cache.evictable), (0, 0, 5));
    assert_eq!(cache.cached_tokens(&first), 50);
    cache.clear();
    assert_eq!((cache.cached_tokens(&first), cache.evictable), (0, 0));
}

#[test]
fn a_shorter_prompt_has_room_where_a_longer_one_was() {
    let mut cache = KvCache::new(100, 10);
    serve(&mut cache, &sequence(0, 7, 90, 0));
    let short = sequence(0, 7, 40, 0);
    let (lease, cached) = cache.admit(&short, 80, None).unwrap();
    assert_eq!((cached, cache.used_tokens()), (30, 80));
    cache.release(lease, &short, 40);
    assert_eq!(cache.cached_tokens(&sequence(0, 7, 90, 0)), 40);
}
