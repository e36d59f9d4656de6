//! A value as a document or a header gives it, before it is known what it must be.

use std::{borrow::Cow, fmt};

use super::excerpt;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A whole number; wide enough for those of JSON, TOML and RFC 8941.
    Integer(i128),
    /// A number with a fraction.
    Decimal(f64),
    /// Text, or a bare token.
    Text(Cow<'a, str>),
    /// True or false.
    Boolean(bool),
}

// === impl Scalar ===

impl Scalar<'_> {
    /// The whole number that it is or, as text, writes; `None` when it is none, or beyond `u64`.
    pub(super) fn whole(&self) -> Option<u64> {
        match self {
            Self::Integer(value) => u64::try_from(*value).ok(),
            // `+5` and the like are nobody's number.
            Self::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        }
    }

    /// The finite number that it is or, as text, writes in plain decimals: no exponent, no `inf`.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match self {
            Self::Integer(value) => *value as f64,
            Self::Decimal(value) => *value,
            Self::Text(text) if is_plain_decimal(text) => text.parse().ok()?,
            _ => return None,
        };
        // Zero has one sign, so that what is written reads as what it was.
        number.is_finite().then_some(if number == 0.0 { 0.0 } else { number })
    }

    /// True or false, or as text the words.
    pub(super) fn flag(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    /// Text, or a whole number's decimal text.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Integer(value) => Some(Cow::Owned(value.to_string())),
            _ => None,
        }
    }
}

fn is_plain_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// As it is shown in errors.
impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{:?}", excerpt(text)),
            Self::Boolean(value) => write!(f, "{value}"),
        }
    }
}

impl From<u64> for Scalar<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Scalar<'_> {
    fn from(value: f64) -> Self {
        Self::Decimal(value)
    }
}

impl From<bool> for Scalar<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl<'a> From<&'a str> for Scalar<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}
