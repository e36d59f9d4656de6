//! A hash of all that the object is made of: the crates' sources and manifests, what the workspace says about them, the
//! locked versions of every crate in their build, and how they are built.
//!
//! A change in any of them asks for a new build, also one that leaves the object the same (a comment): telling those
//! apart would take the build itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::{
    build::{PROFILE, RUSTFLAGS},
    digest,
    toolchain::TARGET,
};

/// The crate that is built.
const PACKAGE: &str = "stargate-ebpf";

/// Folders of the crates whose sources are hashed.
const CRATES: [&str; 2] = ["ebpf", "ebpf/common"];

/// The hash, of the workspace in this folder.
pub(super) fn hash(root: &Path) -> Result<String> {
    let mut parts = Parts(Sha256::new());
    parts.add("how", &format!("{TARGET} {PROFILE} {RUSTFLAGS}"));
    let workspace = table(&root.join("Cargo.toml"))?;
    let mut inherited = vec![vec!["workspace", "package"], vec!["workspace", "resolver"]];
    inherited.extend([vec!["profile", PROFILE], vec!["profile", "release"]]);
    let manifests = CRATES.map(|folder| table(&root.join(folder).join("Cargo.toml")));
    let manifests = manifests.into_iter().collect::<Result<Vec<_>>>()?;
    for name in manifests.iter().flat_map(shared_dependencies) {
        inherited.push(vec!["workspace", "dependencies", name]);
    }
    for path in inherited {
        let value = at(&workspace, &path).map_or_else(String::new, Value::to_string);
        parts.add(&path.join("."), &value);
    }
    for folder in CRATES {
        for file in sources(&root.join(folder))? {
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            parts.add(&name, &text);
        }
    }
    for package in locked(&table(&root.join("Cargo.lock"))?)? {
        parts.add("locked", &package);
    }
    Ok(parts.finish())
}

/// A hash over named parts, each with its length, so that no two lists of parts look alike.
struct Parts(Sha256);

// === impl Parts ===

impl Parts {
    fn add(&mut self, name: &str, content: &str) {
        for text in [name, content] {
            self.0.update((text.len() as u64).to_le_bytes());
            self.0.update(text);
        }
    }

    fn finish(self) -> String {
        digest::shown(&self.0.finalize())
    }
}

/// The manifest and every source file of a crate, in order.
fn sources(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::from([folder.join("Cargo.toml")]);
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// The dependencies whose versions and features the workspace's manifest says.
fn shared_dependencies(manifest: &Table) -> impl Iterator<Item = &str> {
    let dependencies = manifest.get("dependencies").and_then(Value::as_table);
    let shared = dependencies.into_iter().flatten().filter(|(_, value)| value.get("workspace").is_some());
    shared.map(|(name, _)| name.as_str())
}

/// Every package that takes part in the build, as `name version checksum`, in order.
fn locked(lock: &Table) -> Result<BTreeSet<String>> {
    let packages = lock.get("package").and_then(Value::as_array).context("Cargo.lock lists no packages")?;
    let text =
        |package: &Value, key: &str| package.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut by_name: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for package in packages {
        by_name.entry(text(package, "name")).or_default().push(package);
    }
    let mut found = BTreeSet::new();
    let mut wanted = vec![PACKAGE.to_owned()];
    while let Some(dependency) = wanted.pop() {
        // `name`, or `name version` where the lock file has several.
        let mut words = dependency.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let candidates = by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        let package = match version {
            None => candidates.first(),
            Some(version) => candidates.iter().find(|package| text(package, "version") == version),
        };
        let Some(package) = package else { bail!("Cargo.lock has no {dependency}") };
        if found.insert(format!("{name} {} {}", text(package, "version"), text(package, "checksum"))) {
            let dependencies = package.get("dependencies").and_then(Value::as_array);
            wanted.extend(dependencies.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    Ok(found)
}

fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    text.parse().with_context(|| format!("{}", path.display()))
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    /// A copy of all that is hashed.
    struct Workspace(PathBuf);

    impl Workspace {
        fn copy(name: &str) -> Self {
            let copy = Self(std::env::temp_dir().join(format!("stargate-{name}-{}", std::process::id())));
            let mut files = vec![root().join("Cargo.toml"), root().join("Cargo.lock")];
            for folder in CRATES {
                files.extend(sources(&root().join(folder)).expect("sources"));
            }
            for file in files {
                let to = copy.0.join(file.strip_prefix(root()).expect("in the workspace"));
                fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
                fs::copy(&file, &to).expect("a copy");
            }
            copy
        }

        fn hash(&self) -> String {
            hash(&self.0).expect("a hash")
        }

        /// The hash with `from` replaced in a file.
        fn hash_with(&self, file: &str, from: &str, to: &str) -> String {
            let path = self.0.join(file);
            let before = fs::read_to_string(&path).expect("the file");
            assert!(before.contains(from), "{file} has no {from:?}");
            fs::write(&path, before.replacen(from, to, 1)).expect("a change");
            let hash = self.hash();
            fs::write(&path, before).expect("the change undone");
            hash
        }
    }

    impl Drop for Workspace {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the copy can be removed");
        }
    }

    #[test]
    fn the_hash_is_of_all_that_makes_the_object_and_of_nothing_else() {
        let workspace = Workspace::copy("sources");
        let hash = workspace.hash();
        assert_eq!(hash, super::hash(root()).expect("a hash"), "it depends on where the workspace lies");
        let changed = [
            ("ebpf/src/main.rs", "GO_ON: u32 = 1", "GO_ON: u32 = 0"),
            ("ebpf/common/src/lib.rs", "RECENT_SAMPLES: usize = 8", "RECENT_SAMPLES: usize = 4"),
            ("ebpf/Cargo.toml", "aya-ebpf = \"0.2\"", "aya-ebpf = \"0.3\""),
            ("Cargo.toml", "codegen-units = 1", "codegen-units = 2"),
            ("Cargo.toml", "bytemuck = { version = \"1\"", "bytemuck = { version = \"2\""),
            ("Cargo.lock", "name = \"aya-ebpf\"\nversion = \"", "name = \"aya-ebpf\"\nversion = \"9"),
            // Of a macro's macro: what makes sources is a source.
            ("Cargo.lock", "name = \"proc-macro2\"\nversion = \"", "name = \"proc-macro2\"\nversion = \"9"),
        ];
        for (file, from, to) in changed {
            assert_ne!(workspace.hash_with(file, from, to), hash, "{file}: {to} is not seen");
        }
        let unrelated = [
            ("Cargo.toml", "anyhow = \"1\"", "anyhow = \"2\""),
            ("Cargo.lock", "name = \"tokio\"\nversion = \"", "name = \"tokio\"\nversion = \"9"),
        ];
        for (file, from, to) in unrelated {
            assert_eq!(workspace.hash_with(file, from, to), hash, "{file}: {to} has nothing to do with it");
        }
    }
}
