//! The syntax of a routing expression, by the parser of structured fields and a few rules of ours: every
//! parameter has a value, and none comes twice. Both are legal there, and both are slips of whoever wrote them.

use std::{borrow::Cow, fmt};

use sfv::{
    BareItemFromInput, KeyRef, Parser, Version,
    visitor::{ItemVisitor, ParameterVisitor},
};
use stargate_routing::Scalar;

use super::error::{ExpressionError, excerpt};

/// Longest expression, in bytes.
const BYTES_MAX: usize = 1024;
/// Most parameters.
const PARAMETERS_MAX: usize = 32;

/// An expression as written.
#[derive(Debug, PartialEq)]
pub(super) struct Expression<'a> {
    /// Name of the algorithm.
    pub(super) algorithm: &'a str,
    /// Names and values, each name once.
    pub(super) parameters: Vec<(&'a str, Scalar<'a>)>,
}

/// A rule that the expression breaks.
#[derive(Debug)]
struct Broken(String);

struct Name;

struct Parameters<'a>(Expression<'a>);

// === impl Expression ===

impl<'a> Expression<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ExpressionError> {
        let malformed = |why: String| ExpressionError::Malformed(why);
        if bytes.len() > BYTES_MAX {
            return Err(malformed(format!("it has {} bytes, at most {BYTES_MAX} are allowed", bytes.len())));
        }
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            return Err(malformed("it is blank".to_owned()));
        }
        let parser = Parser::new(bytes).with_version(Version::Rfc8941);
        let expression =
            parser.parse_item_with_visitor(Name).map_err(|error| malformed(error.to_string()))?;
        match bare_parameter(bytes) {
            Some(name) => Err(malformed(format!("parameter `{}` has no value", excerpt(name)))),
            None => Ok(expression),
        }
    }
}

/// The first parameter without `=value`, which reads as true. For what has been parsed: a semicolon that is
/// not in a quoted string begins a parameter.
fn bare_parameter(bytes: &[u8]) -> Option<&str> {
    let mut is_quoted = false;
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'\\' if is_quoted => rest = after.get(1..).unwrap_or_default(),
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => {
                let name = after.trim_ascii_start();
                let end = name.iter().position(|byte| !is_key_byte(*byte)).unwrap_or(name.len());
                if name.get(end) != Some(&b'=') {
                    return std::str::from_utf8(&name[..end]).ok();
                }
            }
            _ => {}
        }
    }
    None
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
}

// === visitors ===

impl<'a> ItemVisitor<'a> for Name {
    type Out = Expression<'a>;
    type Error = Broken;

    fn bare_item(
        self,
        item: BareItemFromInput<'a>,
    ) -> Result<impl ParameterVisitor<'a, Out = Expression<'a>>, Broken> {
        match item {
            BareItemFromInput::Token(token) => {
                Ok(Parameters(Expression { algorithm: token.as_str(), parameters: Vec::new() }))
            }
            _ => Err(Broken("it must begin with the name of an algorithm".to_owned())),
        }
    }
}

impl<'a> ParameterVisitor<'a> for Parameters<'a> {
    type Out = Expression<'a>;
    type Error = Broken;

    fn parameter(&mut self, key: &'a KeyRef, value: BareItemFromInput<'a>) -> Result<(), Broken> {
        let (name, parameters) = (key.as_str(), &mut self.0.parameters);
        let broken = |why: &str| Err(Broken(format!("parameter `{}` {why}", excerpt(name))));
        if parameters.len() == PARAMETERS_MAX {
            return Err(Broken(format!("at most {PARAMETERS_MAX} parameters are allowed")));
        }
        if parameters.iter().any(|(known, _)| *known == name) {
            return broken("comes twice");
        }
        let value = match value {
            BareItemFromInput::Integer(value) => Scalar::Integer(i64::from(value).into()),
            BareItemFromInput::Decimal(value) => Scalar::Decimal(value.into()),
            BareItemFromInput::Boolean(value) => Scalar::Boolean(value),
            BareItemFromInput::Token(token) => Scalar::from(token.as_str()),
            BareItemFromInput::String(Cow::Borrowed(text)) => Scalar::from(text.as_str()),
            BareItemFromInput::String(Cow::Owned(text)) => Scalar::Text(Cow::Owned(text.into())),
            _ => return broken("must be a number, a text, or true or false"),
        };
        parameters.push((name, value));
        Ok(())
    }

    fn finish(self) -> Result<Expression<'a>, Broken> {
        Ok(self.0)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}
