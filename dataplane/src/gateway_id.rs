//! Which gateway an attempt came from, and which of its attempts it is: engines see both in `x-stargate-attempt`, and
//! name them in their reports.

use std::{fmt, str::FromStr};

/// Names one run of a gateway, so that its attempts are never taken for those of another or of its own former run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GatewayId(u32);

/// Names an attempt uniquely, so that a stats publisher can say which ones its report includes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptStamp {
    /// Drawn when the process started.
    pub(crate) gateway: GatewayId,
    /// CPU number.
    pub(crate) core: usize,
    /// Counts the core's attempts at the backend, from 1 and without gaps.
    pub(crate) sequence: u64,
}

/// A text that names no gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a gateway is named by {}", GatewayId::ALLOWED)]
pub struct InvalidGatewayId;

// === impl GatewayId ===

impl GatewayId {
    /// What its text is.
    pub const ALLOWED: &str = "exactly 8 lower-case hexadecimal digits";

    const DIGITS: usize = 8;

    /// Drawn at random: runs need not know of each other.
    pub(crate) fn draw() -> Self {
        Self(fastrand::u32(..))
    }
}

impl From<u32> for GatewayId {
    fn from(id: u32) -> Self {
        Self(id)
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:0digits$x}", self.0, digits = Self::DIGITS)
    }
}

impl FromStr for GatewayId {
    type Err = InvalidGatewayId;

    fn from_str(text: &str) -> Result<Self, InvalidGatewayId> {
        let is_canonical =
            text.len() == Self::DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id = if is_canonical { u32::from_str_radix(text, 16).ok() } else { None };
        id.map(Self).ok_or(InvalidGatewayId)
    }
}

// === impl AttemptStamp ===

impl fmt::Display for AttemptStamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.gateway, self.core, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_one_text() {
        for (id, text) in [(0, "00000000"), (0xab, "000000ab"), (u32::MAX, "ffffffff")] {
            assert_eq!(GatewayId(id).to_string(), text);
            assert_eq!(text.parse(), Ok(GatewayId(id)));
        }
        for text in ["", "ab", "000000AB", "0000000ab", "+00000ab", "0x0000ab", "0000000g", "0000000é"] {
            assert_eq!(text.parse::<GatewayId>(), Err(InvalidGatewayId), "{text}");
        }
    }
}
