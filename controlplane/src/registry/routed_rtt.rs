//! What routing sees of a backend's round-trip time, whoever measured it: without what is noise to a
//! decision.
//!
//! A reservation lives for the time as it was measured; a decision compares times, and of two idle neighbours
//! the one with the luckier microseconds would get every request. Every change seen here is also a new
//! snapshot.

use stargate_routing::Nanos;

/// Whole milliseconds, so that neighbours are equally near.
const RESOLUTION_NS: u64 = 1_000_000;
/// Relative change that counts: distant backends jitter by some per cent.
const CHANGE_MIN: f64 = 0.05;

/// The round-trip time to one backend, for routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutedRtt(Option<Nanos>);

// === impl RoutedRtt ===

impl RoutedRtt {
    /// Follows what is measured now, `None` where nothing is. True when what routing sees has changed.
    pub fn follow(&mut self, measured: Option<Nanos>) -> bool {
        let now = measured.map(|rtt| Nanos(rtt.0 / RESOLUTION_NS * RESOLUTION_NS));
        let is_news = match (self.0, now) {
            (Some(seen), Some(now)) => seen.0.abs_diff(now.0) as f64 > seen.0 as f64 * CHANGE_MIN,
            (seen, now) => seen != now,
        };
        if is_news {
            self.0 = now;
        }
        is_news
    }

    /// As routing sees it.
    pub fn get(self) -> Option<Nanos> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_not_seen() {
        let mut rtt = RoutedRtt::default();
        let mut follow = |us: u64| {
            let is_news = rtt.follow(Some(Nanos(us * 1000)));
            (is_news, rtt.get().unwrap().0 / 1_000_000)
        };
        assert_eq!(follow(1600), (true, 1));
        assert_eq!(follow(1999), (false, 1));
        assert_eq!(follow(800), (true, 0), "neighbours are equally near");
        assert_eq!(follow(1), (false, 0));
        assert_eq!(follow(100_900), (true, 100));
        assert_eq!(follow(95_500), (false, 100), "within 5 %");
        assert_eq!(follow(94_500), (true, 94));
    }

    #[test]
    fn what_is_not_measured_any_more_is_not_seen() {
        let mut rtt = RoutedRtt::default();
        assert!(!rtt.follow(None));
        assert!(rtt.follow(Some(Nanos(1))));
        assert!(rtt.follow(None));
        assert_eq!(rtt.get(), None);
    }
}
