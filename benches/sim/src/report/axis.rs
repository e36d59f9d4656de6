//! What varies within a scenario, and where its values stand on a plot.

use serde::Serialize;

/// One axis of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Axis {
    pub(crate) name: String,
    /// In words, as [`Outcome::point`](super::Outcome::point) has them, in the order in which they are shown.
    pub(crate) values: Vec<String>,
}

/// How an axis is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measure {
    /// All values are numbers of one unit, which may be none: `0.8`, `200 ms`.
    Numbers { values: Vec<f64>, unit: String },
    /// Anything else.
    Words,
}

// === impl Axis ===

impl Axis {
    /// Where this value is, written in the same words or as the same number.
    pub(super) fn position(&self, value: &str) -> Option<usize> {
        let exact = self.values.iter().position(|known| known == value);
        exact.or_else(|| {
            let number: f64 = value.parse().ok()?;
            self.values.iter().position(|known| known.parse() == Ok(number))
        })
    }

    /// How it is measured.
    pub(super) fn measure(&self) -> Measure {
        let read: Option<Vec<(f64, &str)>> = self.values.iter().map(|value| number_and_unit(value)).collect();
        match read.as_deref() {
            Some([(_, unit), ..]) => {
                let read = read.as_deref().unwrap_or_default();
                if read.iter().any(|(_, other)| other != unit) {
                    return Measure::Words;
                }
                let values = read.iter().map(|(number, _)| *number).collect();
                Measure::Numbers { values, unit: (*unit).to_owned() }
            }
            _ => Measure::Words,
        }
    }
}

fn number_and_unit(value: &str) -> Option<(f64, &str)> {
    let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let number: f64 = number.parse().ok()?;
    number.is_finite().then(|| (number, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[&str]) -> Axis {
        Axis { name: "x".to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn values_of_one_unit_are_numbers() {
        let numbers =
            |values: &[f64], unit: &str| Measure::Numbers { values: values.to_vec(), unit: unit.to_owned() };
        assert_eq!(axis(&["0.8", "1.3"]).measure(), numbers(&[0.8, 1.3], ""));
        assert_eq!(axis(&["0 ms", "200 ms"]).measure(), numbers(&[0.0, 200.0], "ms"));
        assert_eq!(axis(&["200 ms", "1 s"]).measure(), Measure::Words);
        assert_eq!(axis(&["off", "1"]).measure(), Measure::Words);
        assert_eq!(axis(&["1.2.3"]).measure(), Measure::Words);
        assert_eq!(axis(&[]).measure(), Measure::Words);
    }

    #[test]
    fn a_value_is_found_by_its_words_or_as_a_number() {
        let axis = axis(&["0.8", "1", "heartbeat 1 s"]);
        assert_eq!(axis.position("1.0"), Some(1));
        assert_eq!(axis.position("heartbeat 1 s"), Some(2));
        assert_eq!(axis.position("1.1"), None);
    }
}
