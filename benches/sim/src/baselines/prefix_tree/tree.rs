//! What a gateway has sent to which cluster, as far as it remembers: prefixes of groups, of sessions behind them, and
//! what single requests had beyond those, which nothing matches but which takes room.
//!
//! Each cluster's part is bounded, and the prefix that was used least recently goes first. A group is always used as
//! recently as its sessions, and a session as its requests, so what goes is always a leaf.

use std::collections::HashMap;

use crate::model::Prompt;

pub(super) struct Tree {
    max_tokens: u64,
    /// By cluster.
    parts: Vec<Part>,
    /// Of all clusters; places that are free are used again.
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Which clusters have a prefix. Only looked up, never gone over.
    holders: HashMap<Prefix, Vec<Holder>>,
}

/// The cluster that shares most of a prompt, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) cluster: usize,
    pub(super) tokens: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Prefix {
    Group(u32),
    Session(u32),
    /// Of one request only.
    Own,
}

/// A cluster's prefixes, as a list from the most to the least recently used.
#[derive(Clone, Copy)]
struct Part {
    tokens: u64,
    newest: u32,
    oldest: u32,
}

struct Node {
    prefix: Prefix,
    tokens: u32,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy)]
struct Holder {
    cluster: u32,
    node: u32,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

// === impl Tree ===

impl Tree {
    /// Of which each cluster's part has at most `max_tokens`.
    pub(super) fn new(clusters: usize, max_tokens: u64) -> Self {
        let empty = Part { tokens: 0, newest: NONE, oldest: NONE };
        Self {
            max_tokens,
            parts: vec![empty; clusters],
            nodes: Vec::new(),
            free: Vec::new(),
            holders: HashMap::new(),
        }
    }

    /// Tokens of a cluster's part.
    pub(super) fn tokens(&self, cluster: usize) -> u64 {
        self.parts[cluster].tokens
    }

    /// The cluster that shares most of a prompt, of those that `may_take` it; one at random where several do.
    pub(super) fn best_match(
        &self,
        prompt: &Prompt,
        may_take: impl Fn(usize) -> bool,
        rng: &mut fastrand::Rng,
    ) -> Option<Match> {
        // Who has something of the session has its group, too, and so more than all who have only that.
        let session = self.longest(Prefix::Session(prompt.session), prompt.session_tokens, &may_take, rng);
        if let Some(found) = session {
            return Some(Match { tokens: prompt.group_tokens + found.tokens, ..found });
        }
        self.longest(Prefix::Group(prompt.group), prompt.group_tokens, &may_take, rng)
    }

    /// Who has most of `tokens` of a prefix.
    fn longest(
        &self,
        prefix: Prefix,
        tokens: u32,
        may_take: impl Fn(usize) -> bool,
        rng: &mut fastrand::Rng,
    ) -> Option<Match> {
        if tokens == 0 {
            return None;
        }
        let mut best: Option<Match> = None;
        let mut ties = 0_usize;
        for holder in self.holders.get(&prefix)?.iter().filter(|holder| may_take(holder.cluster as usize)) {
            let tokens = self.nodes[holder.node as usize].tokens.min(tokens);
            let most = best.map_or(0, |best| best.tokens);
            if tokens < most {
                continue;
            }
            ties = if tokens == most { ties + 1 } else { 1 };
            if ties == 1 || rng.usize(..ties) == 0 {
                best = Some(Match { cluster: holder.cluster as usize, tokens });
            }
        }
        best
    }

    /// A prompt was sent to a cluster.
    pub(super) fn insert(&mut self, cluster: usize, prompt: &Prompt) {
        // Leaves first, so that each prefix is used later than what is behind it.
        if prompt.own_tokens > 0 {
            let node = self.new_node(Prefix::Own, prompt.own_tokens);
            self.parts[cluster].tokens += u64::from(prompt.own_tokens);
            self.push(cluster, node);
        }
        self.touch(cluster, Prefix::Session(prompt.session), prompt.session_tokens);
        self.touch(cluster, Prefix::Group(prompt.group), prompt.group_tokens);
        while self.parts[cluster].tokens > self.max_tokens {
            self.evict(cluster);
        }
    }

    /// A prefix of so many tokens was used: it is kept as the longest that was.
    fn touch(&mut self, cluster: usize, prefix: Prefix, tokens: u32) {
        if tokens == 0 {
            return;
        }
        let holders = self.holders.entry(prefix).or_default();
        if let Some(holder) = holders.iter().find(|holder| holder.cluster as usize == cluster) {
            let at = holder.node;
            let node = &mut self.nodes[at as usize];
            let grown = tokens.saturating_sub(node.tokens);
            node.tokens += grown;
            self.parts[cluster].tokens += u64::from(grown);
            self.unlink(cluster, at);
            self.push(cluster, at);
            return;
        }
        let node = self.new_node(prefix, tokens);
        self.holders.entry(prefix).or_default().push(Holder { cluster: cluster as u32, node });
        self.parts[cluster].tokens += u64::from(tokens);
        self.push(cluster, node);
    }

    fn new_node(&mut self, prefix: Prefix, tokens: u32) -> u32 {
        let node = Node { prefix, tokens, newer: NONE, older: NONE };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Puts a node in front of its cluster's list.
    fn push(&mut self, cluster: usize, at: u32) {
        let part = &mut self.parts[cluster];
        let second = std::mem::replace(&mut part.newest, at);
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NONE, second);
        match self.nodes.get_mut(second as usize) {
            Some(second) => second.newer = at,
            None => part.oldest = at,
        }
    }

    fn unlink(&mut self, cluster: usize, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        let part = &mut self.parts[cluster];
        match self.nodes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => part.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => part.oldest = newer,
        }
    }

    /// Forgets what the cluster has used least recently. It has something.
    fn evict(&mut self, cluster: usize) {
        let at = self.parts[cluster].oldest;
        self.unlink(cluster, at);
        let Node { prefix, tokens, .. } = self.nodes[at as usize];
        self.parts[cluster].tokens -= u64::from(tokens);
        self.free.push(at);
        if let Some(holders) = self.holders.get_mut(&prefix) {
            holders.retain(|holder| holder.node != at);
            if holders.is_empty() {
                self.holders.remove(&prefix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(group: u32, session: u32, tokens: [u32; 3]) -> Prompt {
        let [group_tokens, session_tokens, own_tokens] = tokens;
        Prompt { group, session, group_tokens, session_tokens, own_tokens, is_continued: false }
    }

    fn best(tree: &Tree, prompt: &Prompt) -> Option<(usize, u32)> {
        let found = tree.best_match(prompt, |_| true, &mut fastrand::Rng::with_seed(1))?;
        Some((found.cluster, found.tokens))
    }

    #[test]
    fn the_longest_shared_prefix_is_found() {
        let mut tree = Tree::new(3, 1000);
        tree.insert(0, &prompt(1, 10, [100, 0, 7]));
        tree.insert(1, &prompt(1, 11, [100, 50, 7]));
        tree.insert(2, &prompt(1, 11, [100, 30, 7]));
        assert_eq!([0, 1, 2].map(|cluster| tree.tokens(cluster)), [107, 157, 137]);
        // What is the request's own matches nothing, and no more matches than is asked for.
        assert_eq!(best(&tree, &prompt(1, 11, [100, 50, 7])), Some((1, 150)));
        assert_eq!(best(&tree, &prompt(1, 11, [100, 90, 7])), Some((1, 150)));
        assert_eq!(best(&tree, &prompt(1, 12, [100, 50, 7])).map(|found| found.1), Some(100));
        assert_eq!(best(&tree, &prompt(2, 13, [100, 50, 7])), None);
        assert_eq!(best(&tree, &prompt(2, 13, [0, 0, 7])), None);
        let found =
            tree.best_match(&prompt(1, 11, [100, 50, 7]), |cluster| cluster != 1, &mut fastrand::Rng::new());
        assert_eq!(found, Some(Match { cluster: 2, tokens: 130 }));
    }

    #[test]
    fn those_that_share_as_much_are_drawn_alike() {
        let mut tree = Tree::new(4, 1000);
        for cluster in 0..3 {
            tree.insert(cluster, &prompt(1, 10, [100, 50, 0]));
        }
        tree.insert(3, &prompt(1, 10, [100, 49, 0]));
        let mut rng = fastrand::Rng::with_seed(1);
        let mut drawn = [0; 4];
        for _ in 0..3000 {
            drawn[tree.best_match(&prompt(1, 10, [100, 50, 0]), |_| true, &mut rng).unwrap().cluster] += 1;
        }
        assert!(drawn[..3].iter().all(|count| (900..=1100).contains(count)) && drawn[3] == 0, "{drawn:?}");
    }

    #[test]
    fn a_session_that_grows_is_one_prefix() {
        let mut tree = Tree::new(1, 1000);
        for tokens in [100, 180, 150] {
            tree.insert(0, &prompt(1, 10, [20, tokens, 0]));
        }
        assert_eq!((tree.tokens(0), tree.nodes.len()), (200, 2));
        assert_eq!(best(&tree, &prompt(1, 10, [20, 300, 0])), Some((0, 200)));
    }

    #[test]
    fn the_least_recently_used_goes_first_and_leaves_before_what_they_hang_on() {
        let mut tree = Tree::new(2, 400);
        tree.insert(0, &prompt(1, 10, [100, 90, 5]));
        tree.insert(0, &prompt(1, 11, [100, 90, 5]));
        tree.insert(0, &prompt(1, 12, [100, 90, 5]));
        assert_eq!(tree.tokens(0), 385);
        // Used again, so that 11 is the oldest session. The first request's own 5 tokens go before it, and suffice.
        tree.insert(0, &prompt(1, 10, [100, 90, 19]));
        assert_eq!(tree.tokens(0), 399);
        assert_eq!(best(&tree, &prompt(1, 11, [100, 90, 0])), Some((0, 190)));
        // Now its own 5 tokens and the session 11 itself have to go, and no more.
        tree.insert(0, &prompt(1, 13, [100, 30, 0]));
        assert_eq!(tree.tokens(0), 334);
        for (session, expected) in [(10, 190), (11, 100), (12, 190), (13, 130)] {
            assert_eq!(best(&tree, &prompt(1, session, [100, 90, 0])), Some((0, expected)), "{session}");
        }
        // The group outlives all its sessions, and what is bounded is each cluster's part.
        tree.insert(0, &prompt(2, 20, [0, 300, 0]));
        assert_eq!((tree.tokens(0), best(&tree, &prompt(1, 13, [100, 90, 0]))), (400, Some((0, 100))));
        tree.insert(0, &prompt(2, 21, [0, 1, 0]));
        assert_eq!((tree.tokens(0), best(&tree, &prompt(1, 13, [100, 90, 0]))), (301, None));
        tree.insert(1, &prompt(3, 30, [0, 400, 0]));
        assert_eq!([tree.tokens(0), tree.tokens(1)], [301, 400]);
        // More than there is room for leaves nothing; places are used again.
        tree.insert(1, &prompt(3, 30, [0, 401, 0]));
        assert_eq!((tree.tokens(1), best(&tree, &prompt(3, 30, [0, 401, 0]))), (0, None));
        let places = tree.nodes.len();
        for session in 100..200 {
            tree.insert(1, &prompt(4, session, [50, 100, 50]));
            assert!(tree.tokens(1) <= 400);
        }
        assert!(tree.nodes.len() <= places + 6, "{} places", tree.nodes.len());
    }
}
