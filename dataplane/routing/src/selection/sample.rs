//! Distinct uniform samples without allocation, in time that depends on the sample and not on what it is
//! taken from.
//!
//! R. Floyd's algorithm ("Programming Pearls: a sample of brilliance", CACM 30(9), 1987): every subset of
//! the size asked for is equally likely. The order within a sample is not random.

use crate::fields::field::{Place, Whole};

/// A sample size within 1..=64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount(u8);

/// A sample of distinct numbers below `population`, drawn one at a time.
pub(crate) struct DistinctSample {
    population: u32,
    size: u32,
    drawn: [u32; SampleCount::MAX as usize],
    drawn_len: usize,
}

// === impl SampleCount ===

impl SampleCount {
    /// The largest sample.
    pub const MAX: u8 = 64;

    /// Both of "the power of two choices" (Mitzenmacher, 2001).
    pub(crate) const TWO: Self = Self(2);

    /// `None` outside 1..=64.
    pub fn new(count: u64) -> Option<Self> {
        u8::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count)).map(Self)
    }

    /// Where it lies in a draft, and its bounds.
    pub(crate) const fn place<D>(at: fn(&mut D) -> &mut dyn Whole) -> Place<D> {
        Place::Whole { at, min: 1, max: Self::MAX as u64 }
    }

    /// The count.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Whole for SampleCount {
    fn get(&self) -> Option<u64> {
        Some(self.0.into())
    }

    fn set(&mut self, value: u64) {
        *self = Self::new(value).unwrap_or_default();
    }
}

impl Default for SampleCount {
    fn default() -> Self {
        Self::TWO
    }
}

// === impl DistinctSample ===

impl DistinctSample {
    /// A sample of `count`, or of the whole population when it is no larger.
    pub(crate) fn new(population: u32, count: SampleCount) -> Self {
        let size = population.min(count.get() as u32);
        Self { population, size, drawn: [0; SampleCount::MAX as usize], drawn_len: 0 }
    }

    /// The next member; `None` when the sample is complete.
    pub(crate) fn next(&mut self, rng: &mut fastrand::Rng) -> Option<u32> {
        let position = self.drawn_len as u32;
        if position == self.size {
            return None;
        }
        let member = if self.size == self.population {
            position
        } else {
            let newest = self.population - self.size + position;
            let member = rng.u32(0..=newest);
            // `newest` has not been in reach of any earlier draw.
            if self.drawn[..self.drawn_len].contains(&member) { newest } else { member }
        };
        self.drawn[self.drawn_len] = member;
        self.drawn_len += 1;
        Some(member)
    }
}

#[cfg(test)]
mod tests;
