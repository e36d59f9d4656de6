//! A document that has been read: every value typed, within its bounds, and used by something.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use stargate_routing::{AlgorithmKind, FieldError, Method, PolicyFields, Scalar};

use super::{
    place::join,
    raw::{Raw, Table, serialize_fields},
};
use crate::{
    config::violation::Violation,
    names::{ModelName, excerpt},
};

const DEFAULT: &str = "default";
const REQUEST_ALGORITHMS: &str = "request_algorithms";
const MODELS: &str = "models";
const ALGORITHM: &str = "algorithm";

const AN_ENTRY: &str = "the name of an algorithm, or an object with `algorithm` and its fields";

/// Methods that requests may select, by their algorithm.
pub type Methods = BTreeMap<AlgorithmKind, Method>;

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What holds for models without an entry.
    pub default: Entry,
    /// What requests may select; `None` where the document does not say.
    pub request_algorithms: Option<Methods>,
    /// Entries of models.
    pub models: BTreeMap<ModelName, Entry>,
}

/// What is said of one model, or of all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// How requests are routed that ask for nothing else.
    pub method: Method,
    /// How requests wait, and where their affinity keys come from.
    pub fields: PolicyFields,
    /// What requests for this model may select besides; of a model only.
    pub request_algorithms: Methods,
}

/// Where an entry stands, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Default,
    Model,
    RequestAlgorithm,
}

// === impl Document ===

impl Document {
    pub(super) fn read(table: &Table) -> Result<Self, Violation> {
        let mut document = Self::default();
        for (key, value) in unique("", table)? {
            match key {
                DEFAULT => document.default = entry(DEFAULT, value, Position::Default)?,
                REQUEST_ALGORITHMS => document.request_algorithms = Some(methods(key, value)?),
                MODELS => document.models = models(value)?,
                other => return Err(unknown_section(other)),
            }
        }
        Ok(document)
    }

    /// The entry that holds for `model`.
    pub fn entry(&self, model: &str) -> &Entry {
        self.models.get(model).unwrap_or(&self.default)
    }
}

fn unknown_section(key: &str) -> Violation {
    let is_field = key == ALGORITHM
        || PolicyFields::has(key)
        || AlgorithmKind::ALL.iter().any(|kind| Method::field_names(*kind).any(|name| name == key));
    let hint = if is_field {
        format!("; what holds for all models without an entry goes into `default`, as `default.{key}`")
    } else {
        String::new()
    };
    Violation {
        key: join("", key),
        found: "an unknown field".into(),
        allowed: format!("`{DEFAULT}`, `{REQUEST_ALGORITHMS}` and `{MODELS}`{hint}"),
    }
}

fn models(value: &Raw) -> Result<BTreeMap<ModelName, Entry>, Violation> {
    let allowed = "an object from exact model ids to entries";
    let mut models = BTreeMap::new();
    for (name, value) in unique(MODELS, table(MODELS, value, allowed)?)? {
        let path = join(MODELS, name);
        let model = ModelName::new(name).ok_or_else(|| Violation {
            key: path.clone(),
            found: format!("{:?}", excerpt(name)),
            allowed: ModelName::ALLOWED.into(),
        })?;
        models.insert(model, entry(&path, value, Position::Model)?);
    }
    Ok(models)
}

/// A map from the names of algorithms to entries of the same algorithm.
fn methods(path: &str, value: &Raw) -> Result<Methods, Violation> {
    let allowed = "an object from names of algorithms to entries";
    let mut methods = Methods::new();
    for (name, value) in unique(path, table(path, value, allowed)?)? {
        let path = join(path, name);
        let kind = algorithm(&path, &Scalar::from(name))?;
        let method = entry(&path, value, Position::RequestAlgorithm)?.method;
        let own = method.algorithm.kind();
        if own != kind {
            return Err(Violation {
                key: path,
                found: format!("algorithm `{}` under the key of {}", own.as_str(), kind.as_str()),
                allowed: format!("`{}`, as the key says", kind.as_str()),
            });
        }
        if methods.insert(kind, method).is_some() {
            return Err(Violation {
                key: path,
                found: format!("{} again, under another of its names", kind.as_str()),
                allowed: "each algorithm once".into(),
            });
        }
    }
    Ok(methods)
}

fn entry(path: &str, value: &Raw, position: Position) -> Result<Entry, Violation> {
    match value {
        Raw::Scalar(scalar @ Scalar::Text(_)) => Ok(Entry::of(algorithm(path, scalar)?)),
        Raw::Table(table) => entry_of_table(path, table, position),
        other => Err(Violation { key: path.into(), found: other.to_string(), allowed: AN_ENTRY.into() }),
    }
}

fn entry_of_table(path: &str, table: &Table, position: Position) -> Result<Entry, Violation> {
    let mut kind = None;
    let mut of_method = Vec::new();
    let mut of_policy = Vec::new();
    let mut request_algorithms = Methods::new();
    for (name, value) in unique(path, table)? {
        let key = || join(path, name);
        if name == REQUEST_ALGORITHMS {
            if position != Position::Model {
                return Err(Violation {
                    key: key(),
                    found: "a map that would be ignored".into(),
                    allowed: format!(
                        "`{REQUEST_ALGORITHMS}` at the top level, and in an entry of `{MODELS}`"
                    ),
                });
            }
            request_algorithms = methods(&key(), value)?;
            continue;
        }
        let Raw::Scalar(scalar) = value else {
            // Whatever the field is, it is a scalar; its bounds are not worth naming before that.
            return Err(Violation {
                key: key(),
                found: value.to_string(),
                allowed: "a number, a text, true or false".into(),
            });
        };
        if name == ALGORITHM {
            kind = Some(algorithm(&key(), scalar)?);
        } else if !PolicyFields::has(name) {
            of_method.push((name, scalar.clone()));
        } else if position == Position::RequestAlgorithm {
            return Err(Violation {
                key: key(),
                found: "a field of a model, which selecting an algorithm cannot change".into(),
                allowed: format!("in `{DEFAULT}` and in entries of `{MODELS}`"),
            });
        } else {
            of_policy.push((name, scalar.clone()));
        }
    }
    let kind = kind.ok_or_else(|| Violation {
        key: join(path, ALGORITHM),
        found: "nothing".into(),
        allowed: algorithms_allowed(),
    })?;
    let method = Method::with_fields(kind, of_method).map_err(|error| fault(path, error, position))?;
    let fields = PolicyFields::with_fields(of_policy).map_err(|error| fault(path, error, position))?;
    Ok(Entry { method, fields, request_algorithms })
}

fn algorithm(path: &str, value: &Scalar<'_>) -> Result<AlgorithmKind, Violation> {
    let kind = match value {
        Scalar::Text(text) => AlgorithmKind::parse(text),
        _ => None,
    };
    kind.ok_or_else(|| Violation {
        key: path.to_owned(),
        found: value.to_string(),
        allowed: algorithms_allowed(),
    })
}

fn algorithms_allowed() -> String {
    let names: Vec<String> = AlgorithmKind::ALL.iter().map(|kind| format!("`{}`", kind.as_str())).collect();
    format!("one of {}", names.join(", "))
}

fn fault(path: &str, error: FieldError, position: Position) -> Violation {
    let is_known =
        AlgorithmKind::ALL.iter().any(|kind| Method::field_names(*kind).any(|name| name == error.field));
    let mut allowed = error.allowed;
    if !is_known && !PolicyFields::has(&error.field) && position != Position::RequestAlgorithm {
        let more: Vec<String> = PolicyFields::names().map(|name| format!("`{name}`")).collect();
        allowed = format!("{allowed}; for a model: {}", more.join(", "));
        if position == Position::Model {
            allowed = format!("{allowed}, `{REQUEST_ALGORITHMS}`");
        }
    }
    Violation { key: join(path, &error.field), found: error.found, allowed }
}

fn table<'a>(path: &str, value: &'a Raw, allowed: &str) -> Result<&'a Table, Violation> {
    match value {
        Raw::Table(table) => Ok(table),
        other => Err(Violation { key: path.into(), found: other.to_string(), allowed: allowed.into() }),
    }
}

/// The entries of `table`, each key of which must come once.
fn unique<'a>(
    path: &str,
    table: &'a Table,
) -> Result<impl Iterator<Item = (&'a str, &'a Raw)> + use<'a>, Violation> {
    let mut seen = std::collections::HashSet::new();
    if let Some((key, _)) = table.0.iter().find(|(key, _)| !seen.insert(key.as_str())) {
        return Err(Violation {
            key: join(path, key),
            found: "the same key again".into(),
            allowed: "each key once".into(),
        });
    }
    Ok(table.0.iter().map(|(key, value)| (key.as_str(), value)))
}

// === impl Entry ===

impl Entry {
    fn of(kind: AlgorithmKind) -> Self {
        let method = Method { algorithm: kind.with_defaults(), ..Method::default() };
        Self { method, ..Self::default() }
    }
}

// === writing ===

/// The document with everything that it does not say: reading it gives the same.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(DEFAULT, &self.default)?;
        if let Some(methods) = &self.request_algorithms {
            map.serialize_entry(REQUEST_ALGORITHMS, &MethodsView(methods))?;
        }
        map.serialize_entry(MODELS, &self.models)?;
        map.end()
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(ALGORITHM, self.method.algorithm.kind().as_str())?;
        serialize_fields(&mut map, &self.method.fields())?;
        serialize_fields(&mut map, &self.fields.fields())?;
        if !self.request_algorithms.is_empty() {
            map.serialize_entry(REQUEST_ALGORITHMS, &MethodsView(&self.request_algorithms))?;
        }
        map.end()
    }
}

/// A method as it is written wherever one is shown.
#[derive(Debug)]
pub struct MethodView<'a>(pub &'a Method);

impl Serialize for MethodView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(ALGORITHM, self.0.algorithm.kind().as_str())?;
        serialize_fields(&mut map, &self.0.fields())?;
        map.end()
    }
}

struct MethodsView<'a>(&'a Methods);

impl Serialize for MethodsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(kind, method)| (kind.as_str(), MethodView(method))))
    }
}
