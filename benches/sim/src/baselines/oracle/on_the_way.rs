//! What gateways with an oracle share: the requests that they have sent and that have not arrived, and how fast
//! clusters end theirs.
//!
//! How many requests a cluster ends per second with all its slots taken is measured, second by second: as many as it
//! ended, times its slots, over those that were taken when requests were decided. An idle cluster is thus not taken for
//! a slow one.

use std::time::Duration;

pub(in crate::baselines) struct OnTheWay {
    clusters: Vec<Cluster>,
    second_began: Duration,
}

#[derive(Clone, Default)]
struct Cluster {
    sent: Vec<Sent>,
    /// Of those.
    tokens: u64,
    /// In the second that goes on: ended, how often it was looked at, and the slots that were taken then.
    ended: u64,
    looks: u64,
    taken: u64,
    slots: u64,
    ends_per_s: Option<f64>,
}

#[derive(Clone, Copy)]
struct Sent {
    arrives: Duration,
    tokens: u64,
}

// === impl OnTheWay ===

impl OnTheWay {
    pub(in crate::baselines) fn new(clusters: usize) -> Self {
        Self { clusters: vec![Cluster::default(); clusters], second_began: Duration::ZERO }
    }

    /// Time has gone on: what has arrived is on the way no more.
    pub(super) fn arrive(&mut self, now: Duration) {
        for cluster in &mut self.clusters {
            let Cluster { sent, tokens, .. } = cluster;
            sent.retain(|sent| {
                let is_here = sent.arrives <= now;
                *tokens -= if is_here { sent.tokens } else { 0 };
                !is_here
            });
        }
        let passed = now.saturating_sub(self.second_began);
        if passed >= Duration::from_secs(1) {
            self.clusters.iter_mut().for_each(|cluster| cluster.count(passed.as_secs_f64()));
            self.second_began = now;
        }
    }

    pub(super) fn send(&mut self, cluster: usize, arrives: Duration, tokens: u64) {
        let cluster = &mut self.clusters[cluster];
        cluster.sent.push(Sent { arrives, tokens });
        cluster.tokens += tokens;
    }

    pub(super) fn end(&mut self, cluster: usize) {
        self.clusters[cluster].ended += 1;
    }

    /// A cluster was looked at for a decision.
    pub(super) fn see(&mut self, cluster: usize, taken: u64, slots: u64) {
        let cluster = &mut self.clusters[cluster];
        cluster.looks += 1;
        cluster.taken += taken.min(slots);
        cluster.slots = slots;
    }

    /// On the way to a cluster.
    pub(super) fn requests(&self, cluster: usize) -> u64 {
        self.clusters[cluster].sent.len() as u64
    }

    /// Tokens that these have to compute.
    pub(super) fn tokens(&self, cluster: usize) -> u64 {
        self.clusters[cluster].tokens
    }

    /// Requests that a cluster ends per second with all slots taken, once it is known.
    pub(super) fn ends_per_s(&self, cluster: usize) -> Option<f64> {
        self.clusters[cluster].ends_per_s
    }
}

// === impl Cluster ===

impl Cluster {
    /// So many seconds are over. One in which nothing ended tells nothing.
    fn count(&mut self, seconds: f64) {
        if self.ended > 0 && self.taken > 0 {
            let taken = self.taken as f64 / self.looks as f64;
            let measured = self.ended as f64 / seconds * self.slots as f64 / taken;
            // Half of what it was evens out a second's chance.
            self.ends_per_s =
                Some(self.ends_per_s.map_or(measured, |before| f64::midpoint(before, measured)));
        }
        (self.ended, self.looks, self.taken) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_sent_is_on_the_way_until_it_arrives() {
        let mut shared = OnTheWay::new(2);
        shared.send(1, ms(30), 100);
        shared.send(1, ms(20), 7);
        shared.arrive(ms(19));
        assert_eq!((shared.requests(1), shared.tokens(1), shared.requests(0)), (2, 107, 0));
        shared.arrive(ms(20));
        assert_eq!((shared.requests(1), shared.tokens(1)), (1, 100));
        shared.arrive(ms(40));
        assert_eq!((shared.requests(1), shared.tokens(1)), (0, 0));
    }

    #[test]
    fn ends_are_measured_as_of_a_full_cluster() {
        let mut shared = OnTheWay::new(2);
        // 6 a second with a quarter of its slots taken are 24 with all.
        shared.see(0, 2, 10);
        shared.see(0, 3, 10);
        (0..6).for_each(|_| shared.end(0));
        shared.arrive(ms(999));
        assert_eq!(shared.ends_per_s(0), None);
        shared.arrive(ms(1000));
        assert_eq!((shared.ends_per_s(0), shared.ends_per_s(1)), (Some(24.0), None));
        // Queued ones take no slots: 24 in 2 seconds with all taken are 12, and 18 is midway.
        shared.see(0, 30, 10);
        (0..24).for_each(|_| shared.end(0));
        shared.arrive(ms(3000));
        assert_eq!(shared.ends_per_s(0), Some(18.0));
        shared.see(0, 10, 10);
        shared.arrive(ms(4000));
        assert_eq!(shared.ends_per_s(0), Some(18.0));
    }
}
