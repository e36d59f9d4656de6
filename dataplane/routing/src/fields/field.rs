//! A field of a draft: where its value lies and what may be put there.
//!
//! A draft holds every value as plain data, so that fields can come in any order; what spans several of them
//! is checked when the draft is made into parameters.

use super::{FieldError, listed, scalar::Scalar};

/// A field of the draft `D`.
pub(crate) struct Field<D> {
    pub(crate) name: &'static str,
    pub(crate) place: Place<D>,
}

/// Where a value lies, and its bounds.
pub(crate) enum Place<D> {
    /// A whole number.
    Whole { at: fn(&mut D) -> &mut u64, min: u64, max: u64 },
    /// A whole number that may be missing.
    OptionalWhole { at: fn(&mut D) -> &mut Option<u64>, min: u64, max: u64 },
    /// A finite number from `min` to `max`.
    Number { at: fn(&mut D) -> &mut f64, min: f64, max: f64 },
    /// A finite number above 0 that may be missing.
    OptionalPositive { at: fn(&mut D) -> &mut Option<f64> },
    /// True or false.
    Flag { at: fn(&mut D) -> &mut bool },
    /// Any text.
    Text { at: fn(&mut D) -> &mut String },
    /// One of some words.
    Word { read: fn(&mut D, &str) -> bool, write: fn(&D) -> &'static str, words: fn() -> Vec<&'static str> },
}

/// A choice among words.
pub(crate) trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;

    fn words() -> Vec<&'static str> {
        Self::ALL.iter().map(|value| value.word()).collect()
    }

    /// Puts the value of `text` into `place`; false when there is none. Case is ignored, `_` reads as `-`.
    fn put(place: &mut Self, text: &str) -> bool {
        let text = text.to_ascii_lowercase().replace('_', "-");
        let found = Self::ALL.iter().find(|value| value.word() == text);
        found.inspect(|value| *place = **value).is_some()
    }
}

// === impl Field ===

impl<D: Clone> Field<D> {
    /// Puts `value` into `draft`.
    pub(crate) fn read(&self, draft: &mut D, value: &Scalar<'_>) -> Result<(), FieldError> {
        match self.place.put(draft, value) {
            Some(()) => Ok(()),
            None => Err(FieldError::new(self.name, value.to_string(), self.place.allowed())),
        }
    }

    /// The value in `draft`; `None` where it is missing.
    pub(crate) fn write(&self, draft: &mut D) -> Option<Scalar<'static>> {
        match &self.place {
            Place::Whole { at, .. } => Some((*at(draft)).into()),
            Place::OptionalWhole { at, .. } => at(draft).map(Scalar::from),
            Place::Number { at, .. } => Some((*at(draft)).into()),
            Place::OptionalPositive { at } => at(draft).map(Scalar::from),
            Place::Flag { at } => Some((*at(draft)).into()),
            Place::Text { at } => Some(Scalar::Text(at(draft).clone().into())),
            Place::Word { write, .. } => Some(write(draft).into()),
        }
    }
}

// === impl Place ===

impl<D> Place<D> {
    fn put(&self, draft: &mut D, value: &Scalar<'_>) -> Option<()> {
        let whole = |min, max| value.whole().filter(|value| (min..=max).contains(value));
        match self {
            Self::Whole { at, min, max } => *at(draft) = whole(*min, *max)?,
            Self::OptionalWhole { at, min, max } => *at(draft) = Some(whole(*min, *max)?),
            Self::Number { at, min, max } => {
                *at(draft) = value.number().filter(|value| (*min..=*max).contains(value))?;
            }
            Self::OptionalPositive { at } => {
                *at(draft) = Some(value.number().filter(|value| *value > 0.0)?);
            }
            Self::Flag { at } => *at(draft) = value.flag()?,
            Self::Text { at } => *at(draft) = value.text()?.into_owned(),
            Self::Word { read, .. } => {
                let Scalar::Text(text) = value else { return None };
                return read(draft, text).then_some(());
            }
        }
        Some(())
    }

    fn allowed(&self) -> String {
        match self {
            Self::Whole { min, max: u64::MAX, .. } | Self::OptionalWhole { min, max: u64::MAX, .. } => {
                format!("a whole number from {min}")
            }
            Self::Whole { min, max, .. } | Self::OptionalWhole { min, max, .. } => {
                format!("a whole number from {min} to {max}")
            }
            Self::Number { min, max: f64::MAX, .. } => format!("a finite number from {min}"),
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::OptionalPositive { .. } => "a finite number above 0".to_owned(),
            Self::Flag { .. } => "true or false".to_owned(),
            Self::Text { .. } => "text or a whole number".to_owned(),
            Self::Word { words, .. } => format!("one of {}", listed(words())),
        }
    }
}
