//! A document as written: tables and scalars, nothing judged but its shape.
//!
//! Keys keep their order and their repetitions, which JSON allows, so that a repeated one can be refused.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess},
    ser::SerializeMap,
};
use stargate_routing::Scalar;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    /// A number, a text, true or false.
    Scalar(Scalar<'static>),
    /// Keys and values.
    Table(Table),
    /// A list, of anything.
    List,
    /// JSON's null.
    Null,
}

/// Keys and values as they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table(pub(super) Vec<(String, Raw)>);

pub(super) fn deserialize_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Table, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Table;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a routing document: an object with `default`, `request_algorithms` and `models`")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(Table(entries))
        }
    }
    deserializer.deserialize_map(Visitor)
}

// === impl Raw ===

/// As it is shown in errors.
impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Table(_) => f.write_str("an object"),
            Self::List => f.write_str("a list"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, true or false, or an object")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Scalar(Scalar::Boolean(value)))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
                Ok(Raw::Scalar(Scalar::Integer(value.into())))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
                Ok(Raw::Scalar(Scalar::Integer(value.into())))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
                Ok(Raw::Scalar(Scalar::Decimal(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
                Ok(Raw::Scalar(Scalar::Text(Cow::Owned(value.to_owned()))))
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Raw::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Raw::Table(Table(entries)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(scalar) => serialize_scalar(scalar, serializer),
            Self::Table(table) => table.serialize(serializer),
            Self::List => serializer.collect_seq(std::iter::empty::<()>()),
            Self::Null => serializer.serialize_unit(),
        }
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A scalar, to be written.
pub(super) struct Written<'a>(pub(super) &'a Scalar<'a>);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_scalar(self.0, serializer)
    }
}

fn serialize_scalar<S: Serializer>(scalar: &Scalar<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    match scalar {
        Scalar::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => serializer.serialize_i64(value),
            (_, Ok(value)) => serializer.serialize_u64(value),
            _ => serializer.serialize_i128(*value),
        },
        Scalar::Decimal(value) => serializer.serialize_f64(*value),
        Scalar::Text(text) => serializer.serialize_str(text),
        Scalar::Boolean(value) => serializer.serialize_bool(*value),
    }
}

/// Writes fields into an object that is being written.
pub(super) fn serialize_fields<M: SerializeMap>(
    map: &mut M,
    fields: &[(&'static str, Scalar<'static>)],
) -> Result<(), M::Error> {
    fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, &Written(value)))
}
