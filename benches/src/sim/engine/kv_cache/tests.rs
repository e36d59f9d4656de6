use super::*;

fn prompt(group: (u32, u32), session: (u32, u32), own_tokens: u32) -> Sequence {
    let prompt = Prompt {
        group: group.0,
        session: session.0,
        group_tokens: group.1,
        session_tokens: session.1,
        own_tokens,
        is_continued: false,
    };
    Sequence { prompt, generated: 0 }
}

#[test]
fn what_is_computed_is_found_again_but_for_the_last_token() {
    let mut cache = KvCache::new(1_000, 10);
    let first = prompt((1, 25), (7, 50), 15);
    let (mut lease, cached) = cache.admit(&first, 95, None).unwrap();
    assert_eq!((cached, cache.used_tokens()), (0, 100));
    assert_eq!(cache.cached_tokens(&first), 0);
    cache.computed(&mut lease, &first, 45);
    assert_eq!(cache.cached_tokens(&first), 40);
    // Another session has the group's whole blocks in common with it.
    assert_eq!(cache.cached_tokens(&prompt((1, 25), (8, 50), 0)), 20);
    cache.release(lease, &first, 95);
    assert_eq!(cache.cached_tokens(&first), 70);
    assert_eq!(cache.cached_tokens(&prompt((1, 25), (7, 45), 0)), 60);
    assert_eq!((cache.used_tokens(), cache.available()), (0, 100));
}
