//! JSON objects that take no more than so many keys, each once.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

use crate::names::excerpt;

/// Reads an object of up to `entries_max` keys. A key that is there twice is an error: which of the two counts is
/// anybody's guess.
pub(super) fn bounded_map<'de, D, K, V>(
    deserializer: D,
    entries_max: usize,
    allowed: &'static str,
) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    deserializer.deserialize_map(Visitor { entries_max, allowed, entry: PhantomData })
}

/// Reads a key that `parse` understands.
pub(super) fn key<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    allowed: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    let invalid = || de::Error::invalid_value(de::Unexpected::Str(&excerpt(&text)), &allowed);
    parse(&text).ok_or_else(invalid)
}

struct Visitor<K, V> {
    entries_max: usize,
    allowed: &'static str,
    entry: PhantomData<(K, V)>,
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> de::Visitor<'de> for Visitor<K, V> {
    type Value = BTreeMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of up to {} {}", self.entries_max, self.allowed)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            if map.insert(key, value).is_some() {
                return Err(de::Error::custom("a key is there twice"));
            }
            if map.len() > self.entries_max {
                return Err(de::Error::invalid_length(map.len(), &self));
            }
        }
        Ok(map)
    }
}
