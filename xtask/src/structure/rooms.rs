//! Circles between the rooms of a crate: modules of one folder that need one another.
//!
//! A room is a module with everything below it. Between two rooms of a folder the way should lead in one direction, so
//! that one of them can be read, and changed, without the other. What a module and its own children have of each other
//! is not looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    graph::Graph,
    imports::{self, Imports, Path as ModulePath},
};

/// How many names in a row may stand for another name.
const ALIASES_MAX: usize = 8;

/// Rooms of one folder that need one another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// The folder's module; empty for the crate's root.
    within: String,
    rooms: Vec<String>,
    /// The shortest circles: each a list of rooms with, for every step, what says so.
    shortest: Vec<Vec<String>>,
    /// Whether two of the rooms at least have modules of their own, and are not only single files.
    pub(super) is_of_folders: bool,
}

/// The modules of a crate and what they say.
#[derive(Debug, Default)]
struct Modules(BTreeMap<ModulePath, Imports>);

/// The circles in a crate whose root lies in this folder.
pub(super) fn circles(source: &Path) -> Result<Vec<Circle>> {
    Ok(Modules::read(source)?.circles())
}

/// The shortest circles of a knot, as lists of rooms that begin and end with the same: all of two rooms, or else one.
fn shortest(knot: &[String], needs: &Graph) -> Vec<Vec<String>> {
    let mut circles = Vec::new();
    for (index, a) in knot.iter().enumerate() {
        let mutual = knot[index + 1..].iter().filter(|b| needs.has(a, b) && needs.has(b, a));
        circles.extend(mutual.map(|b| vec![a.clone(), b.clone(), a.clone()]));
    }
    if circles.is_empty() {
        circles.extend(knot.iter().filter_map(|room| needs.way(room, room)).min_by_key(Vec::len));
    }
    circles
}

// === impl Modules ===

impl Modules {
    fn read(source: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(source, &Vec::new(), &mut files)?;
        let mut modules = BTreeMap::new();
        for (module, file) in &files {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let is_child = |other: &&ModulePath| other.len() == module.len() + 1 && other.starts_with(module);
            let children: Vec<_> =
                files.keys().filter(is_child).filter_map(|child| child.last().cloned()).collect();
            modules.insert(module.clone(), imports::read(&text, &children));
        }
        let for_tests = |(module, imports): (&ModulePath, &Imports)| {
            imports
                .test_modules
                .iter()
                .map(|name| [&module[..], std::slice::from_ref(name)].concat())
                .collect::<Vec<_>>()
        };
        let for_tests: Vec<_> = modules.iter().flat_map(for_tests).collect();
        modules.retain(|module, _| !for_tests.iter().any(|tests| module.starts_with(tests)));
        Ok(Self(modules))
    }

    fn circles(&self) -> Vec<Circle> {
        let mut needs = BTreeMap::new();
        for (module, imports) in &self.0 {
            for path in &imports.paths {
                if let Some(target) = self.resolve(module, path, 0) {
                    needs.entry((module, target)).or_insert_with(|| path.join("::"));
                }
            }
        }
        let folders: BTreeSet<_> = self.0.keys().filter_map(|module| Some(module.split_last()?.1)).collect();
        folders.into_iter().flat_map(|folder| self.circles_in(folder, &needs)).collect()
    }

    /// The circles between the rooms of one folder.
    fn circles_in(
        &self,
        folder: &[String],
        needs: &BTreeMap<(&ModulePath, ModulePath), String>,
    ) -> Vec<Circle> {
        let room = |module: &ModulePath| module.strip_prefix(folder)?.first().cloned();
        let mut graph = Graph::default();
        let mut examples = BTreeMap::new();
        for ((from, to), path) in needs {
            if let (Some(a), Some(b)) = (room(from), room(to))
                && a != b
            {
                graph.add(&a, [b.clone()]);
                examples.entry((a, b)).or_insert_with(|| format!("{} names {path}", from.join("::")));
            }
        }
        let has_modules = |room: &&String| {
            let is_below = |module: &ModulePath| {
                module.len() > folder.len() + 1
                    && module.starts_with(folder)
                    && module[folder.len()] == **room
            };
            self.0.keys().any(is_below)
        };
        let step = |pair: &[String]| {
            let [a, b] = pair else { unreachable!("windows of two") };
            format!("{a} → {b}: {}", examples[&(a.clone(), b.clone())])
        };
        let circle = |rooms: Vec<String>| Circle {
            within: folder.join("::"),
            shortest: shortest(&rooms, &graph).iter().map(|way| way.windows(2).map(step).collect()).collect(),
            is_of_folders: rooms.iter().filter(has_modules).count() > 1,
            rooms,
        };
        graph.knots().into_iter().map(circle).collect()
    }

    /// The module in which what `path` names is found, seen from `module`.
    fn resolve(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let mut found = if path[0] == "crate" { Vec::new() } else { module.clone() };
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" | "self" => continue,
                "super" => {
                    found.pop()?;
                    continue;
                }
                name => found.push(name.to_owned()),
            }
            if self.0.contains_key(&found) {
                continue;
            }
            found.pop();
            let known = self.0.get(&found)?.names.iter().find(|(known, _)| known == name);
            return match known {
                Some((_, other)) if depth < ALIASES_MAX => {
                    let whole = [&other[..], &path[index + 1..]].concat();
                    self.resolve(&found, &whole, depth + 1)
                }
                _ => Some(found),
            };
        }
        Some(found)
    }
}

/// Finds the file of each module; other programs of the package, which are crates of their own, are left out.
fn collect(folder: &Path, module: &ModulePath, files: &mut BTreeMap<ModulePath, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let child = [&module[..], std::slice::from_ref(&name)].concat();
        if path.is_dir() && !(module.is_empty() && name == "bin") {
            collect(&path, &child, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_folders = name == "mod" || (module.is_empty() && (name == "lib" || name == "main"));
            // A library's root comes before that of the program beside it.
            if name != "main" || !module.is_empty() || !folder.join("lib.rs").exists() {
                files.insert(if is_folders { module.clone() } else { child }, path);
            }
        }
    }
    Ok(())
}

// === impl Circle ===

impl fmt::Display for Circle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = if self.within.is_empty() { "the crate's root" } else { &self.within };
        write!(
            formatter,
            "in {within} {} modules need one another: {}",
            self.rooms.len(),
            self.rooms.join(", ")
        )?;
        self.shortest.iter().try_for_each(|circle| write!(formatter, "\n    {}", circle.join("; ")))
    }
}

#[cfg(test)]
mod tests;
