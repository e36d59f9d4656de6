//! Which of the gateways' attempts a report includes, as its publisher says it (docs/handover.md):
//! `{gateway: {core: {"through": N, "except": […]}}}`, by the parts of the stamp that every attempt carries.
//!
//! An engine answers to all gateways, and says the same to each: a gateway takes out what is its own. Every part
//! has a bound, since it is kept for as long as the report is in force.

use std::sync::Arc;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de,
    ser::{SerializeMap, SerializeStruct},
};
use stargate_dataplane::GatewayId;
use stargate_routing::CoreInclusion;

use super::bounded_map::{bounded_map, key};

/// Most gateways in a report.
const GATEWAYS_MAX: usize = 64;
/// Most cores of a gateway.
const CORES_MAX: usize = 1024;
/// Most exceptions of a core.
const EXCEPTIONS_MAX: usize = 256;

/// The attempts that a report includes. None at all is a statement, too: that of a publisher that hands over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts(Arc<[OfGateway]>);

/// The attempts of one gateway.
#[derive(Clone, Debug, PartialEq)]
struct OfGateway {
    gateway: GatewayId,
    /// Ordered by core.
    cores: Box<[CoreInclusion]>,
}

// === impl Attempts ===

impl Attempts {
    /// Those of `gateway`, ordered by core.
    pub fn of(&self, gateway: GatewayId) -> &[CoreInclusion] {
        let index = self.0.binary_search_by_key(&gateway, |entry| entry.gateway);
        index.map_or(&[], |index| &self.0[index].cores)
    }

    /// Whether none of another gateway than this are among them.
    pub fn are_only_of(&self, gateway: GatewayId) -> bool {
        self.0.iter().all(|entry| entry.gateway == gateway)
    }
}

impl<'de> Deserialize<'de> for Attempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let gateways = bounded_map(deserializer, GATEWAYS_MAX, "gateways")?;
        let of_gateway = |(GatewayKey(gateway), Cores(cores))| OfGateway { gateway, cores };
        Ok(Self(gateways.into_iter().map(of_gateway).collect()))
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GatewayKey(GatewayId);

impl<'de> Deserialize<'de> for GatewayKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        key(deserializer, GatewayId::ALLOWED, |text| text.parse().ok()).map(Self)
    }
}

struct Cores(Box<[CoreInclusion]>);

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cores = bounded_map(deserializer, CORES_MAX, "cores")?;
        let of_core = |(CoreKey(core), marks): (CoreKey, Marks)| CoreInclusion {
            core: u32::from(core),
            through: marks.through,
            except: marks.except.0,
        };
        Ok(Self(cores.into_iter().map(of_core).collect()))
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CoreKey(u16);

impl<'de> Deserialize<'de> for CoreKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // One text a core, or it could be there twice.
        let canonical = |text: &str| text.parse().ok().filter(|core: &u16| core.to_string() == text);
        key(deserializer, "a core from \"0\" to \"65535\"", canonical).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "UncheckedMarks")]
struct Marks {
    through: u64,
    except: Exceptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedMarks {
    through: u64,
    #[serde(default)]
    except: Exceptions,
}

impl TryFrom<UncheckedMarks> for Marks {
    type Error = String;

    fn try_from(marks: UncheckedMarks) -> Result<Self, String> {
        let UncheckedMarks { through, except } = marks;
        match except.0.last() {
            Some(last) if *last >= through => Err(format!(
                "the exception {last} is not below {through}, through which all others are included"
            )),
            _ => Ok(Self { through, except }),
        }
    }
}

#[derive(Default)]
struct Exceptions(Box<[u64]>);

impl<'de> Deserialize<'de> for Exceptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Exceptions;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a list of up to {EXCEPTIONS_MAX} numbers, each greater than the one before")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Exceptions, A::Error> {
                let mut except: Vec<u64> = Vec::new();
                while let Some(sequence) = items.next_element()? {
                    if except.last().is_some_and(|last| *last >= sequence) {
                        return Err(de::Error::invalid_value(de::Unexpected::Unsigned(sequence), &self));
                    }
                    if except.len() == EXCEPTIONS_MAX {
                        return Err(de::Error::invalid_length(except.len() + 1, &self));
                    }
                    except.push(sequence);
                }
                Ok(Exceptions(except.into()))
            }
        }
        deserializer.deserialize_seq(Visitor)
    }
}

impl Serialize for Attempts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Cores<'a>(&'a [CoreInclusion]);
        impl Serialize for Cores<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|core| (core.core, Marks(core))))
            }
        }
        struct Marks<'a>(&'a CoreInclusion);
        impl Serialize for Marks<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut marks = serializer.serialize_struct("Marks", 2)?;
                marks.serialize_field("through", &self.0.through)?;
                marks.serialize_field("except", &self.0.except)?;
                marks.end()
            }
        }
        let mut gateways = serializer.serialize_map(Some(self.0.len()))?;
        for entry in &*self.0 {
            gateways.serialize_entry(&entry.gateway.to_string(), &Cores(&entry.cores))?;
        }
        gateways.end()
    }
}

#[cfg(test)]
mod tests;
