//! The id of a request: the caller's, or a UUID of version 7 (RFC 9562), which sorts by time.

use uuid::Uuid;

/// Longest id taken from a caller.
const MAX_BYTES: usize = 128;

/// An id, printable ASCII without spaces, so that it can stand in any header and log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(smallvec::SmallVec<[u8; 36]>);

// === impl RequestId ===

impl RequestId {
    pub(crate) fn generate(rng: &mut fastrand::Rng) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let millis = now.as_millis() as u64;
        let mut random = [0; 10];
        rng.fill(&mut random);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
        Self::from(id)
    }

    /// A caller's id; `None` when it is empty, too long or not printable.
    pub(crate) fn from_caller(value: &[u8]) -> Option<Self> {
        let is_valid =
            !value.is_empty() && value.len() <= MAX_BYTES && value.iter().all(u8::is_ascii_graphic);
        is_valid.then(|| Self(value.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<Uuid> for RequestId {
    fn from(id: Uuid) -> Self {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        id.hyphenated().encode_lower(&mut text);
        Self(text.as_slice().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_version_7_and_differ() {
        let mut rng = fastrand::Rng::with_seed(1);
        let ids = [RequestId::generate(&mut rng), RequestId::generate(&mut rng)];
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            assert_eq!(Uuid::parse_str(id.as_str()).unwrap().get_version_num(), 7);
        }
    }

    #[test]
    fn a_callers_id_must_be_printable_and_short() {
        assert_eq!(RequestId::from_caller(b"abc-1").unwrap().as_str(), "abc-1");
        for bad in [&b""[..], b"a b", b"a\tb", &[b'a'; 129], "é".as_bytes()] {
            assert!(RequestId::from_caller(bad).is_none());
        }
    }
}
