//! Where the values of an axis stand, and which of them are written at it.

/// Ticks of an axis, about.
const TICKS: f64 = 6.0;

/// Steps between ticks, of each power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// What is shown beyond the last tick, so that marks there are whole.
const HEADROOM: f64 = 1.03;

/// One axis of a plot. Everything is in its units; [`Self::place`] says where that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) label: String,
    pub(super) ticks: Vec<(f64, String)>,
    /// What is shown, from and to.
    pub(super) from: f64,
    pub(super) to: f64,
    /// Equal factors at equal distances; then all of it is above 0.
    pub(super) is_log: bool,
}

// === impl Scale ===

impl Scale {
    /// From 0 to a round number at or above `most`.
    pub(super) fn from_zero(label: String, most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_step(most / TICKS);
        let count = (most / step - 1e-9).ceil();
        let digits = decimals(step);
        let tick = |index: u32| {
            let value = f64::from(index) * step;
            (value, format!("{value:.digits$}"))
        };
        Self {
            label,
            ticks: (0..=count as u32).map(tick).collect(),
            from: 0.0,
            to: HEADROOM * count * step,
            is_log: false,
        }
    }

    /// Around these values, all above 0, by factors.
    pub(super) fn by_factors(label: String, least: f64, most: f64) -> Self {
        let (from, to) = (least / 1.15, most * 1.15);
        let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
        let within = |steps: &[f64]| -> Vec<(f64, String)> {
            let all =
                decades.clone().flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            all.filter(|value| (from..=to).contains(value)).map(|value| (value, plain(value))).collect()
        };
        // Whole decades where there are enough of them.
        let mut ticks = within(&[1.0]);
        if ticks.len() < 4 {
            ticks = within(&STEPS[..3]);
        }
        if ticks.len() < 2 {
            ticks = [least, most].map(|value| (value, plain(value))).to_vec();
        }
        Self { label, ticks, from, to, is_log: true }
    }

    /// With a tick at each of these values, and a margin.
    pub(super) fn at(label: String, ticks: Vec<(f64, String)>, is_log: bool) -> Self {
        let values = || ticks.iter().map(|(value, _)| *value);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = if is_log {
            let factor = (most / least).powf(0.03).max(1.05);
            (least / factor, most * factor)
        } else {
            let margin = if most > least { 0.03 * (most - least) } else { 0.5 };
            (least - margin, most + margin)
        };
        Self { label, ticks, from, to, is_log }
    }

    /// With a tick for each of these words, at 0, 1, 2 ….
    pub(super) fn of_words(label: String, words: Vec<String>) -> Self {
        let ticks: Vec<_> = words.into_iter().enumerate().map(|(index, word)| (index as f64, word)).collect();
        let to = ticks.len() as f64 - 0.5;
        Self { label, ticks, from: -0.5, to, is_log: false }
    }

    /// Where a value is drawn, in whatever unit [`Self::range`] is; `None` where it cannot be.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if self.is_log { (value > 0.0).then(|| value.log10()) } else { Some(value) }
    }

    /// Where the axis begins and ends, as [`Self::place`] has it.
    pub(super) fn range(&self) -> (f64, f64) {
        if self.is_log { (self.from.log10(), self.to.log10()) } else { (self.from, self.to) }
    }
}

/// The least round step that is no less than this.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powi(least.log10().floor() as i32);
    let step = STEPS.into_iter().find(|step| step * power >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    step * power
}

fn decimals(step: f64) -> usize {
    (-step.log10().floor()).max(0.0) as usize
}

/// A round number with as many decimals as it needs.
fn plain(value: f64) -> String {
    let digits = decimals(value);
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let scale = Scale::from_zero(String::new(), 312.0);
        assert_eq!((scale.to, labels(&scale)), (412.0, vec!["0", "100", "200", "300", "400"]));
        let scale = Scale::from_zero(String::new(), 0.9);
        assert_eq!(labels(&scale), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(Scale::from_zero(String::new(), 100.0).range(), (0.0, 103.0));
        assert_eq!(Scale::from_zero(String::new(), 0.0).range(), (0.0, 1.03));
    }

    #[test]
    fn factors_have_round_ticks() {
        let scale = Scale::by_factors(String::new(), 30.0, 900.0);
        assert_eq!(labels(&scale), ["50", "100", "200", "500", "1000"]);
        let scale = Scale::by_factors(String::new(), 0.01, 1000.0);
        assert_eq!(labels(&scale), ["0.01", "0.1", "1", "10", "100", "1000"]);
        let scale = Scale::by_factors(String::new(), 300.0, 310.0);
        assert_eq!(labels(&scale), ["300", "310"]);
        assert_eq!(scale.place(1000.0), Some(3.0));
        assert_eq!(scale.place(0.0), None);
    }

    #[test]
    fn ticks_of_axes_have_a_margin() {
        let scale = Scale::at(String::new(), vec![(1.0, "1".to_owned()), (2.0, "2".to_owned())], false);
        assert_eq!(scale.range(), (0.97, 2.03));
        let words = Scale::of_words(String::new(), vec!["off".to_owned(), "on".to_owned()]);
        assert_eq!(words.range(), (-0.5, 1.5));
    }
}
