//! From file, environment and flags to one [`Config`].
//!
//! The file is read by itself first, so that its errors have a line. Then each override is laid over it and
//! the whole is read again: an error then is that override's, and is reported by its name. Rules across keys
//! are checked last, and reported where the key in question was said last.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use super::{
    error::{ConfigError, Origin},
    sections::Config,
};

/// Prefix of variables that override a key of the file; `__` goes one level down.
const VARIABLE_PREFIX: &str = "STARGATE__";
/// Largest file that is read: some thousand backends.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One value that replaces another.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    origin: Origin,
    path: Vec<String>,
    value: Value,
}

/// All that a configuration is made of.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    file: Option<(PathBuf, String)>,
    overrides: Vec<Override>,
}

// === impl Override ===

impl Override {
    /// Of `--set KEY=VALUE`, where KEY is written as in TOML: `timeouts.connect_ms`, `routing.models."a.b".seed`.
    pub fn set(argument: &str) -> Result<Self, ConfigError> {
        let origin = Origin::Flag(format!("--set {argument}"));
        let fail = |problem: &str| ConfigError::Value {
            origin: Origin::Flag(format!("--set {argument}")),
            key: None,
            problem: problem.into(),
        };
        let (key, value) = argument
            .split_once('=')
            .ok_or_else(|| fail("found no `=`, expected KEY=VALUE such as timeouts.connect_ms=500"))?;
        let path =
            key_path(key).ok_or_else(|| fail("the key is not a TOML key such as timeouts.connect_ms"))?;
        Ok(Self { origin, path, value: value_of(value) })
    }

    /// Of a variable `STARGATE__SECTION__KEY`; `None` when it is not one of these.
    pub fn variable(name: &str, value: &str) -> Option<Self> {
        let path = name.strip_prefix(VARIABLE_PREFIX)?;
        Some(Self {
            origin: Origin::Variable(name.to_owned()),
            path: path.split("__").map(str::to_ascii_lowercase).collect(),
            value: value_of(value),
        })
    }

    /// Of a flag, or a variable, that stands for the key `section.key`.
    pub fn named(origin: Origin, section: &str, key: &str, value: impl Into<Value>) -> Self {
        Self { origin, path: vec![section.into(), key.into()], value: value.into() }
    }

    /// Lays the value over `table`. The error is the part of the path that is no section.
    fn apply(&self, table: &mut Table) -> Result<(), String> {
        let (last, sections) = self.path.split_last().ok_or("an empty key")?;
        let mut table = table;
        for (depth, section) in sections.iter().enumerate() {
            table = table
                .entry(section.clone())
                .or_insert_with(|| Value::Table(Table::new()))
                .as_table_mut()
                .ok_or_else(|| self.path[..=depth].join("."))?;
        }
        table.insert(last.clone(), self.value.clone());
        Ok(())
    }

    fn says(&self, key: &[Segment]) -> bool {
        self.path.iter().zip(key).all(|(own, segment)| matches!(segment, Segment::Key(key) if key == own))
            && self.path.len() <= key.len()
    }
}

/// The parts of a TOML key.
fn key_path(key: &str) -> Option<Vec<String>> {
    // A line break would smuggle in a second key.
    if key.contains(['\n', '\r', '#', '=']) {
        return None;
    }
    let mut level: Value = Value::Table(toml::from_str(&format!("{key} = 0")).ok()?);
    let mut path = Vec::new();
    while let Value::Table(table) = level {
        let (name, inner) = table.into_iter().next()?;
        path.push(name);
        level = inner;
    }
    Some(path)
}

/// A value as TOML where it is TOML, else as a string: `500`, `true`, `["a"]`, but also `127.0.0.1:80`.
fn value_of(text: &str) -> Value {
    if text.contains(['\n', '\r']) {
        return Value::String(text.to_owned());
    }
    match toml::from_str::<Table>(&format!("value = {text}")) {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or(Value::String(text.to_owned())),
        _ => Value::String(text.to_owned()),
    }
}

// === impl Layers ===

impl Layers {
    /// Takes the file at `path`.
    pub fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let fail = |source| ConfigError::Read { path: path.to_owned(), source };
        let size = fs::metadata(path).map_err(fail)?.len();
        if size > FILE_BYTES_MAX {
            let problem = format!("it has {size} bytes, at most {FILE_BYTES_MAX} are read");
            return Err(fail(io::Error::new(io::ErrorKind::FileTooLarge, problem)));
        }
        self.file_text(path, fs::read_to_string(path).map_err(fail)?);
        Ok(())
    }

    /// Takes `text` as the file at `path`.
    pub fn file_text(&mut self, path: &Path, text: String) {
        self.file = Some((path.to_owned(), text));
    }

    /// Adds an override, which wins over those added before.
    pub fn push(&mut self, layer: Override) {
        self.overrides.push(layer);
    }

    /// The configuration, or the first error.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        let mut table = Table::new();
        if let Some((path, text)) = &self.file {
            (config, table) = read(path, text)?;
        }
        for layer in &self.overrides {
            let fail = |key: Option<String>, problem: String| ConfigError::Value {
                origin: layer.origin.clone(),
                key,
                problem,
            };
            layer
                .apply(&mut table)
                .map_err(|section| fail(Some(layer.path.join(".")), format!("{section} is not a section")))?;
            config = serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
                let key = display_path(error.path());
                fail(key, error.into_inner().message().trim_end().to_owned())
            })?;
        }
        config.validate().map_err(|violation| {
            let key = parse_path(&violation.key);
            let origin = self.origin_of(&key);
            ConfigError::violation(origin, violation)
        })?;
        Ok(config)
    }

    /// Where `key` was said last.
    fn origin_of(&self, key: &[Segment]) -> Origin {
        if let Some(layer) = self.overrides.iter().rev().find(|layer| layer.says(key)) {
            return layer.origin.clone();
        }
        let Some((path, text)) = &self.file else { return Origin::Default };
        match find_key(text, key) {
            Some(offset) => at(path, text, offset),
            None => Origin::Default,
        }
    }
}

fn read(path: &Path, text: &str) -> Result<(Config, Table), ConfigError> {
    let fail = |error: &toml::de::Error, key: Option<String>| ConfigError::Value {
        origin: match error.span() {
            Some(span) => at(path, text, span.start),
            None => Origin::File { path: path.to_owned(), line: 0, column: 0 },
        },
        key,
        problem: error.message().trim_end().replace('\n', ", "),
    };
    let deserializer = toml::Deserializer::parse(text).map_err(|error| fail(&error, None))?;
    let config = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let key = display_path(error.path());
        fail(error.inner(), key)
    })?;
    let table = Table::deserialize(toml::Deserializer::parse(text).map_err(|error| fail(&error, None))?)
        .map_err(|error| fail(&error, None))?;
    Ok((config, table))
}

fn at(path: &Path, text: &str, offset: usize) -> Origin {
    let before = &text[..offset.min(text.len())];
    Origin::File {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    }
}

/// A part of a key path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

fn display_path(path: &serde_path_to_error::Path) -> Option<String> {
    use serde_path_to_error::Segment as S;
    let mut text = String::new();
    for segment in path {
        match segment {
            S::Seq { index } => {
                let _ = write!(text, "[{index}]");
            }
            S::Map { key } | S::Enum { variant: key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
                    text.push_str(key);
                } else {
                    let _ = write!(text, "{key:?}");
                }
            }
            S::Unknown => {}
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Reads `a.b[0]."c.d"`, as [`display_path`] and the validation write it.
fn parse_path(text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').unwrap_or((inner, ""));
            segments.push(Segment::Index(index.parse().unwrap_or(usize::MAX)));
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('"') {
            let mut key = String::new();
            let mut chars = inner.char_indices();
            let mut end = inner.len();
            while let Some((position, char)) = chars.next() {
                match char {
                    '\\' => key.extend(chars.next().map(|(_, escaped)| escaped)),
                    '"' => {
                        end = position + 1;
                        break;
                    }
                    other => key.push(other),
                }
            }
            segments.push(Segment::Key(key));
            rest = &inner[end..];
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            segments.push(Segment::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    segments
}

/// Where `key`, or the longest part of it that is there, stands in the file.
fn find_key(text: &str, key: &[Segment]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut table = Some(root.get_ref());
    let mut array: Option<&toml::de::DeArray<'_>> = None;
    for segment in key {
        let value = match segment {
            Segment::Key(name) => {
                let Some((key, value)) = table
                    .and_then(|table| table.iter().find(|(key, _)| key.get_ref().as_ref() == name.as_str()))
                else {
                    break;
                };
                found = Some(key.span().start);
                value
            }
            Segment::Index(index) => {
                let Some(value) = array.and_then(|array| array.get(*index)) else { break };
                found = Some(value.span().start);
                value
            }
        };
        (table, array) = match value.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(array) => (None, Some(array)),
            _ => (None, None),
        };
    }
    found
}
