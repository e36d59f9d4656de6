//! A field: its name, where its value lies in the draft that it is a field of, and what may be put there.
//!
//! In most drafts the value is the very one that is configured. Only where bounds span several fields does a draft differ
//! from what it is made into: fields come in any order.

use std::time::Duration;

use super::{FieldError, listed, scalar::Scalar};
use crate::Millis;

/// One day, the longest time of a field that has no bound of its own, in milliseconds.
pub(crate) const DAY_MS: u64 = 86_400_000;

/// A field of the draft `D`.
pub(crate) struct Field<D> {
    pub(crate) name: &'static str,
    pub(crate) place: Place<D>,
}

/// Where a value lies, and its bounds.
pub(crate) enum Place<D> {
    /// A whole number.
    Whole { at: fn(&mut D) -> &mut dyn Whole, min: u64, max: u64 },
    /// A finite number from `min` to `max`.
    Number { at: fn(&mut D) -> &mut f64, min: f64, max: f64 },
    /// A finite number above 0 that may be missing.
    OptionalPositive { at: fn(&mut D) -> &mut Option<f64> },
    /// True or false.
    Flag { at: fn(&mut D) -> &mut bool },
    /// Any text.
    Text { at: fn(&mut D) -> &mut dyn Text },
    /// One of some words.
    Word { at: fn(&mut D) -> &mut dyn AnyWord },
}

/// What a whole number is read into; a time counts its milliseconds.
pub(crate) trait Whole {
    /// `None` where it is missing.
    fn get(&self) -> Option<u64>;
    /// Takes a number within the bounds of the field, which are within those of the type.
    fn set(&mut self, value: u64);
}

/// What any text is read into.
pub(crate) trait Text {
    fn get(&self) -> &str;
    fn set(&mut self, text: &str);
}

/// A choice among words.
pub(crate) trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;
}

/// A value of any type of [`Word`].
pub(crate) trait AnyWord {
    fn get(&self) -> &'static str;
    /// Takes the value of `text`; false when there is none. Case is ignored, `_` reads as `-`.
    fn set(&mut self, text: &str) -> bool;
    /// All that there are.
    fn words(&self) -> Vec<&'static str>;
}

// === impl Field ===

impl<D> Field<D> {
    /// Puts `value` into `draft`.
    pub(crate) fn read(&self, draft: &mut D, value: &Scalar<'_>) -> Result<(), FieldError> {
        match self.place.put(draft, value) {
            Some(()) => Ok(()),
            None => Err(FieldError::new(self.name, value.to_string(), self.place.allowed(draft))),
        }
    }

    /// The value in `draft`; `None` where it is missing.
    pub(crate) fn write(&self, draft: &mut D) -> Option<Scalar<'static>> {
        match &self.place {
            Place::Whole { at, .. } => at(draft).get().map(Scalar::from),
            Place::Number { at, .. } => Some((*at(draft)).into()),
            Place::OptionalPositive { at } => at(draft).map(Scalar::from),
            Place::Flag { at } => Some((*at(draft)).into()),
            Place::Text { at } => Some(Scalar::Text(at(draft).get().to_owned().into())),
            Place::Word { at } => Some(at(draft).get().into()),
        }
    }
}

// === impl Place ===

impl<D> Place<D> {
    fn put(&self, draft: &mut D, value: &Scalar<'_>) -> Option<()> {
        match self {
            Self::Whole { at, min, max } => {
                at(draft).set(value.whole().filter(|value| (*min..=*max).contains(value))?);
            }
            Self::Number { at, min, max } => {
                *at(draft) = value.number().filter(|value| (*min..=*max).contains(value))?;
            }
            Self::OptionalPositive { at } => {
                *at(draft) = Some(value.number().filter(|value| *value > 0.0)?);
            }
            Self::Flag { at } => *at(draft) = value.flag()?,
            Self::Text { at } => at(draft).set(&value.text()?),
            Self::Word { at } => {
                let Scalar::Text(text) = value else { return None };
                return at(draft).set(text).then_some(());
            }
        }
        Some(())
    }

    fn allowed(&self, draft: &mut D) -> String {
        match self {
            Self::Whole { min, max: u64::MAX, .. } => format!("a whole number from {min}"),
            Self::Whole { min, max, .. } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max: f64::MAX, .. } => format!("a finite number from {min}"),
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::OptionalPositive { .. } => "a finite number above 0".to_owned(),
            Self::Flag { .. } => "true or false".to_owned(),
            Self::Text { .. } => "text or a whole number".to_owned(),
            Self::Word { at } => format!("one of {}", listed(at(draft).words())),
        }
    }
}

// === impl Whole ===

impl Whole for u64 {
    fn get(&self) -> Option<u64> {
        Some(*self)
    }

    fn set(&mut self, value: u64) {
        *self = value;
    }
}

impl Whole for u32 {
    fn get(&self) -> Option<u64> {
        Some((*self).into())
    }

    fn set(&mut self, value: u64) {
        *self = value as u32;
    }
}

impl Whole for usize {
    fn get(&self) -> Option<u64> {
        Some(*self as u64)
    }

    fn set(&mut self, value: u64) {
        *self = value as usize;
    }
}

impl Whole for Duration {
    fn get(&self) -> Option<u64> {
        Some(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }

    fn set(&mut self, value: u64) {
        *self = Self::from_millis(value);
    }
}

impl Whole for Millis {
    fn get(&self) -> Option<u64> {
        Some(self.0)
    }

    fn set(&mut self, value: u64) {
        self.0 = value;
    }
}

impl<T: Whole + Default> Whole for Option<T> {
    fn get(&self) -> Option<u64> {
        self.as_ref()?.get()
    }

    fn set(&mut self, value: u64) {
        self.get_or_insert_default().set(value);
    }
}

// === impl AnyWord ===

impl<W: Word> AnyWord for W {
    fn get(&self) -> &'static str {
        self.word()
    }

    fn set(&mut self, text: &str) -> bool {
        let text = text.to_ascii_lowercase().replace('_', "-");
        let found = W::ALL.iter().find(|value| value.word() == text);
        found.inspect(|value| *self = **value).is_some()
    }

    fn words(&self) -> Vec<&'static str> {
        W::ALL.iter().map(|value| value.word()).collect()
    }
}

/// Makes types that have `ALL` and `as_str` words.
macro_rules! words {
    ($($kind:ty),*) => {
        $(impl $crate::fields::field::Word for $kind {
            const ALL: &'static [Self] = &Self::ALL;
            fn word(self) -> &'static str {
                self.as_str()
            }
        })*
    };
}

pub(crate) use words;
