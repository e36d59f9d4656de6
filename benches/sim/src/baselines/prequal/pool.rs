//! Answers of probes that a gateway has at hand, one a cluster: which of them is best, and when each is dropped.
//!
//! A cluster is hot when its requests in flight are above a quantile of those of recent answers. The best cold one has
//! the lowest latency; where all are hot, the fewest requests in flight win. An answer is dropped when it is old, used
//! up, or the oldest of more than there is room for. As good answers are used up first, bad ones would be left: so one
//! is removed with each request as well, by turns the oldest and the worst.

use std::{collections::VecDeque, time::Duration};

pub(super) struct Pool {
    size: usize,
    age_limit: Duration,
    hot_quantile: f64,
    answers: Vec<Answer>,
    recent: Recent,
    is_worst_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) cluster: usize,
    pub(super) received: Duration,
    /// Requests that the cluster has, and those that were sent there by this answer.
    pub(super) in_flight: u64,
    pub(super) latency_s: f64,
    /// Requests that may still be sent by it.
    pub(super) uses_left: usize,
}

/// Requests in flight by the last answers: what hot is measured by.
struct Recent {
    in_order: VecDeque<u64>,
    sorted: Vec<u64>,
}

/// Two of them, compared: by [`Pool::rank`], lower is better.
type Rank = (bool, f64);

// === impl Pool ===

impl Pool {
    pub(super) fn new(size: usize, age_limit: Duration, hot_quantile: f64) -> Self {
        Self {
            size,
            age_limit,
            hot_quantile,
            answers: Vec::with_capacity(size + 1),
            recent: Recent {
                in_order: VecDeque::with_capacity(Recent::LEN),
                sorted: Vec::with_capacity(Recent::LEN),
            },
            is_worst_next: false,
        }
    }

    /// An answer has come: it replaces the cluster's last one, or else the oldest where there is no room.
    pub(super) fn receive(&mut self, answer: Answer) {
        self.recent.push(answer.in_flight);
        if let Some(last) = self.answers.iter_mut().find(|last| last.cluster == answer.cluster) {
            *last = answer;
            return;
        }
        self.answers.push(answer);
        if self.answers.len() > self.size {
            self.remove_oldest();
        }
    }

    /// Drops answers that have been here for longer than the limit.
    pub(super) fn forget_old(&mut self, now: Duration) {
        self.answers.retain(|answer| now.saturating_sub(answer.received) <= self.age_limit);
    }

    /// The best cluster of those that `may_take` the request, unless there are fewer than two of them; ties are random.
    /// Its answer counts the request, and is dropped when it is used up.
    pub(super) fn take_best(
        &mut self,
        may_take: impl Fn(usize) -> bool,
        rng: &mut fastrand::Rng,
    ) -> Option<usize> {
        let hot_above = self.hot_above();
        let mut best: Option<(Rank, usize)> = None;
        let (mut count, mut ties) = (0, 0_usize);
        for (at, answer) in self.answers.iter().enumerate().filter(|(_, answer)| may_take(answer.cluster)) {
            count += 1;
            let rank = answer.rank(hot_above);
            if best.is_some_and(|(best, _)| best < rank) {
                continue;
            }
            ties = if best.is_some_and(|(best, _)| best == rank) { ties + 1 } else { 1 };
            if ties == 1 || rng.usize(..ties) == 0 {
                best = Some((rank, at));
            }
        }
        let (_, at) = best.filter(|_| count >= 2)?;
        let answer = &mut self.answers[at];
        answer.in_flight += 1;
        answer.uses_left = answer.uses_left.saturating_sub(1);
        let Answer { cluster, uses_left, .. } = *answer;
        if uses_left == 0 {
            self.answers.swap_remove(at);
        }
        Some(cluster)
    }

    /// Removes one, by turns the oldest and the worst.
    pub(super) fn remove(&mut self) {
        if self.is_worst_next {
            self.remove_worst();
        } else {
            self.remove_oldest();
        }
        self.is_worst_next = !self.is_worst_next;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    fn remove_oldest(&mut self) {
        let oldest = self.answers.iter().enumerate().min_by_key(|(_, answer)| answer.received);
        if let Some((at, _)) = oldest {
            self.answers.swap_remove(at);
        }
    }

    fn remove_worst(&mut self) {
        let hot_above = self.hot_above();
        let ranks = self.answers.iter().map(|answer| answer.rank(hot_above)).enumerate();
        let worst = ranks.max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if let Some((at, _)) = worst {
            self.answers.swap_remove(at);
        }
    }

    fn hot_above(&self) -> u64 {
        let sorted = &self.recent.sorted;
        let at = (self.hot_quantile * sorted.len().saturating_sub(1) as f64).floor() as usize;
        sorted.get(at).copied().unwrap_or(0)
    }
}

// === impl Answer ===

impl Answer {
    /// Cold before hot; cold ones by latency, hot ones by requests in flight.
    fn rank(&self, hot_above: u64) -> Rank {
        let is_hot = self.in_flight > hot_above;
        (is_hot, if is_hot { self.in_flight as f64 } else { self.latency_s })
    }
}

// === impl Recent ===

impl Recent {
    /// How many answers: enough for a quantile, few enough to follow the load within a second or so.
    const LEN: usize = 100;

    fn push(&mut self, in_flight: u64) {
        if self.in_order.len() == Self::LEN {
            let oldest = self.in_order.pop_front().and_then(|oldest| self.sorted.binary_search(&oldest).ok());
            if let Some(at) = oldest {
                self.sorted.remove(at);
            }
        }
        self.in_order.push_back(in_flight);
        let at = self.sorted.partition_point(|other| *other < in_flight);
        self.sorted.insert(at, in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answer(cluster: usize, in_flight: u64, latency_s: f64) -> Answer {
        Answer { cluster, received: ms(0), in_flight, latency_s, uses_left: 9 }
    }

    fn pool(answers: &[Answer]) -> Pool {
        let mut pool = Pool::new(4, ms(1000), 0.84);
        for answer in answers {
            pool.receive(*answer);
        }
        pool
    }

    fn clusters(pool: &Pool) -> Vec<usize> {
        let mut clusters: Vec<usize> = pool.answers.iter().map(|answer| answer.cluster).collect();
        clusters.sort_unstable();
        clusters
    }

    fn best(pool: &mut Pool) -> Option<usize> {
        pool.take_best(|_| true, &mut fastrand::Rng::with_seed(1))
    }

    #[test]
    fn the_cold_one_with_the_lowest_latency_is_taken_and_hot_ones_only_by_load() {
        // Of 4 answers the threshold is the third: 7. What is at it is cold, what is above it hot.
        let answers = [answer(0, 5, 0.3), answer(1, 6, 0.2), answer(2, 7, 0.1), answer(3, 8, 0.0)];
        assert_eq!(best(&mut pool(&answers)), Some(2));
        // The pool counts what was sent by it: 2 has 8 now, and is hot.
        let mut pool = pool(&answers);
        assert_eq!([best(&mut pool), best(&mut pool), best(&mut pool)], [Some(2), Some(1), Some(1)]);
        assert_eq!(best(&mut pool), Some(0));
        // Among hot ones, the fewest requests: 2 and 3 have 8, and latency tells nothing.
        let hot = pool.take_best(|cluster| cluster != 0 && cluster != 2, &mut fastrand::Rng::with_seed(1));
        assert_eq!((hot, pool.answers[1].in_flight, pool.answers[3].in_flight), (Some(1), 9, 8));
        let hot = pool.take_best(|cluster| cluster != 0 && cluster != 2, &mut fastrand::Rng::with_seed(1));
        assert_eq!(hot, Some(3));
    }

    #[test]
    fn ties_are_drawn_alike() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut drawn = [0; 3];
        for _ in 0..3000 {
            let mut pool = pool(&[answer(0, 5, 0.1), answer(1, 5, 0.1), answer(2, 5, 0.1)]);
            drawn[pool.take_best(|_| true, &mut rng).unwrap()] += 1;
        }
        assert!(drawn.iter().all(|count| (900..=1100).contains(count)), "{drawn:?}");
    }

    #[test]
    fn one_answer_is_no_choice() {
        assert_eq!(best(&mut pool(&[answer(0, 1, 0.1)])), None);
        let mut pool = pool(&[answer(0, 1, 0.1), answer(1, 1, 0.2)]);
        assert_eq!(pool.take_best(|cluster| cluster == 1, &mut fastrand::Rng::with_seed(1)), None);
        assert_eq!(pool.answers[1].in_flight, 1);
        assert_eq!(best(&mut pool), Some(0));
    }

    #[test]
    fn answers_are_dropped_when_old_used_up_or_too_many() {
        let mut pool = pool(&[]);
        for (cluster, received) in [(0, 10), (1, 0), (2, 20), (3, 30)] {
            pool.receive(Answer { received: ms(received), ..answer(cluster, 1, 0.1) });
        }
        pool.receive(Answer { received: ms(40), ..answer(0, 2, 0.1) });
        assert_eq!((clusters(&pool), pool.answers[0].in_flight), (vec![0, 1, 2, 3], 2));
        pool.receive(Answer { received: ms(50), uses_left: 2, ..answer(4, 1, 0.0) });
        assert_eq!(clusters(&pool), [0, 2, 3, 4]);
        pool.forget_old(ms(1020));
        assert_eq!(clusters(&pool), [0, 2, 3, 4]);
        pool.forget_old(ms(1021));
        assert_eq!(clusters(&pool), [0, 3, 4]);
        assert_eq!(best(&mut pool), Some(4));
        assert_eq!(clusters(&pool), [0, 3, 4]);
        // It has 2 in flight by now, as many as the quantile of 1, 1, 1, 1, 2 and 1 allows: no more than 1.
        assert_eq!(best(&mut pool), Some(3));
        let last = pool.take_best(|cluster| cluster != 3, &mut fastrand::Rng::with_seed(2));
        assert!(last == Some(4) || last == Some(0));
    }

    #[test]
    fn removals_take_the_oldest_and_the_worst_by_turns() {
        let mut pool = pool(&[]);
        for (cluster, received, in_flight, latency_s) in
            [(0, 3, 5, 0.9), (1, 1, 5, 0.1), (2, 2, 9, 0.1), (3, 4, 5, 0.2)]
        {
            pool.receive(Answer { received: ms(received), ..answer(cluster, in_flight, latency_s) });
        }
        pool.remove();
        assert_eq!(clusters(&pool), [0, 2, 3], "the oldest");
        pool.remove();
        assert_eq!(clusters(&pool), [0, 3], "the hot one, whatever its latency");
        pool.remove();
        assert_eq!(clusters(&pool), [3], "the oldest");
        pool.receive(Answer { received: ms(5), ..answer(0, 5, 0.9) });
        pool.remove();
        assert_eq!(clusters(&pool), [3], "the cold one with the highest latency");
        pool.remove();
        pool.remove();
        assert_eq!(clusters(&pool), [] as [usize; 0]);
    }

    #[test]
    fn hot_is_measured_by_the_last_hundred() {
        let mut pool = pool(&[]);
        (0..100).for_each(|in_flight| pool.receive(answer(0, in_flight, 0.1)));
        assert_eq!(pool.hot_above(), 83);
        (0..50).for_each(|_| pool.receive(answer(0, 1000, 0.1)));
        assert_eq!((pool.hot_above(), pool.recent.sorted.len()), (1000, 100));
        (0..84).for_each(|_| pool.receive(answer(0, 7, 0.1)));
        assert_eq!(pool.hot_above(), 7);
    }
}
