//! The clusters that a policy may choose among, and the draws that policies have in common.
//!
//! All go over the clusters in place: a choice allocates nothing, and a random number is drawn only where there is
//! something to decide by it.

use super::{Asked, View};

/// Whether a cluster may be chosen for a request.
pub(super) fn is_eligible(view: &View<'_>, request: &Asked<'_>, cluster: usize) -> bool {
    view.clusters[cluster].is_routable && !request.excluded.contains(&cluster)
}

/// All clusters that may be chosen for a request.
pub(super) fn eligible<'a>(
    view: &'a View<'_>,
    request: &'a Asked<'_>,
) -> impl Iterator<Item = usize> + Clone + 'a {
    (0..view.clusters.len()).filter(move |cluster| is_eligible(view, request, *cluster))
}

/// The one with the least key, one of them at random where several have it.
pub(super) fn least<K: PartialOrd>(
    clusters: impl Iterator<Item = usize>,
    key: impl Fn(usize) -> K,
    rng: &mut fastrand::Rng,
) -> Option<usize> {
    let mut best: Option<(K, usize)> = None;
    let mut ties = 0_usize;
    for cluster in clusters {
        let candidate = key(cluster);
        match &best {
            Some((key, _)) if *key < candidate => {}
            // Each of n that tie replaces those before it with probability 1/n, and so is left with that, too.
            Some((key, _)) if *key == candidate => {
                ties += 1;
                if rng.usize(..ties) == 0 {
                    best = Some((candidate, cluster));
                }
            }
            _ => {
                ties = 1;
                best = Some((candidate, cluster));
            }
        }
    }
    best.map(|(_, cluster)| cluster)
}

/// One of them, at random.
pub(super) fn any(clusters: impl Iterator<Item = usize> + Clone, rng: &mut fastrand::Rng) -> Option<usize> {
    let count = clusters.clone().count();
    if count < 2 {
        return clusters.into_iter().next();
    }
    clusters.into_iter().nth(rng.usize(..count))
}

/// The better of two different ones at random, by the least key; the only one where there is one.
pub(super) fn better_of_two<K: PartialOrd>(
    clusters: impl Iterator<Item = usize> + Clone,
    key: impl Fn(usize) -> K,
    rng: &mut fastrand::Rng,
) -> Option<usize> {
    let count = clusters.clone().count();
    if count < 2 {
        return clusters.into_iter().next();
    }
    let first = rng.usize(..count);
    let second = rng.usize(..count - 1);
    let second = if second < first { second } else { second + 1 };
    let sampled = clusters.enumerate().filter(|(at, _)| *at == first || *at == second);
    least(sampled.map(|(_, cluster)| cluster), key, rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `clusters` comes out of `draws` draws.
    fn counts(
        clusters: usize,
        draws: usize,
        mut draw: impl FnMut(&mut fastrand::Rng) -> usize,
    ) -> Vec<usize> {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = vec![0; clusters];
        for _ in 0..draws {
            counts[draw(&mut rng)] += 1;
        }
        counts
    }

    fn are_within(counts: &[usize], from: usize, to: usize) -> bool {
        counts.iter().all(|count| (from..=to).contains(count))
    }

    #[test]
    fn the_least_is_taken_and_ties_are_random() {
        let keys = [3, 1, 2, 1, 1];
        let drawn = counts(5, 3000, |rng| least(0..5, |cluster| keys[cluster], rng).unwrap());
        assert_eq!((drawn[0], drawn[2]), (0, 0));
        assert!(are_within(&[drawn[1], drawn[3], drawn[4]], 900, 1100), "{drawn:?}");
        assert_eq!(least(0..0, |cluster| cluster, &mut fastrand::Rng::with_seed(1)), None);
    }

    #[test]
    fn any_is_each_alike() {
        let drawn = counts(4, 4000, |rng| any(0..4, rng).unwrap());
        assert!(are_within(&drawn, 900, 1100), "{drawn:?}");
        assert_eq!(any(0..0, &mut fastrand::Rng::with_seed(1)), None);
        assert_eq!(any(7..8, &mut fastrand::Rng::with_seed(1)), Some(7));
    }

    #[test]
    fn the_better_of_two_are_two_different_ones() {
        // Of 4 the worst never wins, the best wins whenever it is sampled: in half of all pairs.
        let drawn = counts(4, 6000, |rng| better_of_two(0..4, |cluster| cluster, rng).unwrap());
        assert!(are_within(&drawn[..1], 2850, 3150), "{drawn:?}");
        assert!(are_within(&drawn[1..2], 1850, 2150), "{drawn:?}");
        assert!(are_within(&drawn[2..3], 900, 1100), "{drawn:?}");
        assert_eq!(drawn[3], 0);
        assert_eq!(better_of_two(7..8, |cluster| cluster, &mut fastrand::Rng::with_seed(1)), Some(7));
    }
}
