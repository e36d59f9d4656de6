//! Hand-made views for the tests of policies: clusters that are all alike until a test changes one.

use std::time::Duration;

use super::{Asked, Baseline, Choice, ClusterView, View};
use crate::{
    engine::{Engine, EngineSpec},
    model::{AttemptKey, Job, Prompt},
};

/// A gateway's view of a fleet, and its random numbers.
pub(super) struct Fleet {
    pub(super) now: Duration,
    pub(super) clusters: Vec<ClusterView>,
    /// Only for policies that look at them.
    engines: Vec<Engine>,
    attempts: u32,
    pub(super) excluded: Vec<usize>,
    pub(super) rng: fastrand::Rng,
}

/// A prompt of 1000 tokens that only its session shares.
pub(super) fn session(session: u32) -> Prompt {
    Prompt { group: 0, session, group_tokens: 0, session_tokens: 1000, own_tokens: 0, is_continued: false }
}

/// Sent there, where the key belongs.
pub(super) fn home(cluster: usize) -> Choice {
    Choice::Send { cluster, is_overflow: false }
}

/// Sent there, where the key does not belong.
pub(super) fn overflow(cluster: usize) -> Choice {
    Choice::Send { cluster, is_overflow: true }
}

// === impl Fleet ===

impl Fleet {
    /// Idle clusters of 10 slots, 1000 input tokens/s, and 10 ms away.
    pub(super) fn of(clusters: usize) -> Self {
        let cluster = ClusterView {
            is_routable: true,
            running: 0,
            queued: 0,
            queued_tokens: 0,
            slots: 10,
            input_tps: 1000.0,
            rtt: Duration::from_millis(10),
            in_flight: 0,
        };
        Self {
            now: Duration::ZERO,
            clusters: vec![cluster; clusters],
            engines: Vec::new(),
            attempts: 0,
            excluded: Vec::new(),
            rng: fastrand::Rng::with_seed(1),
        }
    }

    /// So many clusters, with engines that are what the clusters say of themselves.
    pub(super) fn with_engines(clusters: usize) -> Self {
        let spec = EngineSpec::Slots {
            slots: 10,
            prefill_tps: 1000.0,
            decode_tps: 10.0,
            kv_tokens: 0,
            block_tokens: 1,
        };
        Self { engines: (0..clusters).map(|_| spec.build()).collect(), ..Self::of(clusters) }
    }

    /// An engine gets so many requests of sessions that no test asks for, until it has that many.
    pub(super) fn occupy(&mut self, cluster: usize, requests: u64) {
        while self.engines[cluster].state().running + self.engines[cluster].state().queued < requests {
            self.arrive(cluster, session(1_000_000 + self.attempts));
        }
    }

    /// An engine serves a request from beginning to end, and has its prompt in its cache.
    pub(super) fn serve(&mut self, cluster: usize, prompt: &Prompt) {
        self.arrive(cluster, *prompt);
        while let Some(due) = self.engines[cluster].next_due() {
            self.now = due;
            self.engines[cluster].advance(due, &mut Vec::new());
        }
    }

    fn arrive(&mut self, cluster: usize, prompt: Prompt) {
        let job = Job { attempt: AttemptKey(self.attempts), prompt, output_tokens: 10 };
        self.attempts += 1;
        self.engines[cluster].arrive(self.now, job);
        self.engines[cluster].advance(self.now, &mut Vec::new());
    }

    pub(super) fn choose(&mut self, policy: &mut dyn Baseline, prompt: &Prompt) -> Choice {
        let view = View { now: self.now, clusters: &self.clusters, engines: &self.engines };
        let asked = Asked { prompt, elapsed: Duration::ZERO, excluded: &self.excluded };
        policy.choose(&view, &asked, &mut self.rng)
    }

    /// The cluster that is chosen, if one is.
    pub(super) fn cluster(&mut self, policy: &mut dyn Baseline, prompt: &Prompt) -> Option<usize> {
        match self.choose(policy, prompt) {
            Choice::Send { cluster, .. } => Some(cluster),
            Choice::Full => None,
        }
    }

    /// Chooses and sends: it is in flight from now on.
    pub(super) fn send(&mut self, policy: &mut dyn Baseline, prompt: &Prompt) -> Option<usize> {
        let cluster = self.cluster(policy, prompt)?;
        policy.sent(cluster, &Asked { prompt, elapsed: Duration::ZERO, excluded: &self.excluded });
        self.clusters[cluster].in_flight += 1;
        Some(cluster)
    }

    /// How many of these sessions each cluster is chosen for.
    pub(super) fn shares(&mut self, policy: &mut dyn Baseline, sessions: u32) -> Vec<usize> {
        let mut shares = vec![0; self.clusters.len()];
        for number in 0..sessions {
            if let Some(cluster) = self.cluster(policy, &session(number)) {
                shares[cluster] += 1;
            }
        }
        shares
    }

    /// Where each of these sessions is sent.
    pub(super) fn places(&mut self, policy: &mut dyn Baseline, sessions: u32) -> Vec<Option<usize>> {
        (0..sessions).map(|number| self.cluster(policy, &session(number))).collect()
    }

    /// What every policy keeps to: clusters that are not routable or have failed are not chosen, and where none is left
    /// there is no place.
    pub(super) fn assert_never_chooses_what_it_may_not(mut self, policy: &mut dyn Baseline) {
        let count = self.clusters.len();
        assert!(count >= 4, "two to leave out, and two to choose");
        self.clusters[0].is_routable = false;
        self.excluded = vec![1];
        let shares = self.shares(policy, 200);
        assert_eq!((shares[0], shares[1], shares.iter().sum::<usize>()), (0, 0, 200), "{shares:?}");
        self.excluded = (1..count).collect();
        assert_eq!(self.choose(policy, &session(0)), Choice::Full);
        self.excluded.clear();
        self.clusters.iter_mut().for_each(|cluster| cluster.is_routable = false);
        assert_eq!(self.choose(policy, &session(0)), Choice::Full);
    }
}
