//! The folder of the evidence, written whole: the same results give the same bytes, and what a former run left is gone.
//!
//! Only files that a manifest of this module's own names are ever removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, ensure};

use super::{Chapter, Report, finding, json, markdown, page};

/// Lists the files that were written here.
const MANIFEST: &str = "files.txt";

/// Of all files together: they are kept in the repository.
const FOLDER_BYTES_MAX: usize = 3 << 20;

/// Files, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// What became of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) files: usize,
    pub(crate) bytes: usize,
    /// Files of a former run that are gone.
    pub(crate) removed: usize,
}

/// Writes a report into a folder, which is made if it is not there.
///
/// # Errors
/// Before anything is written: when a part of the report cannot be shown, or all of it is too large.
pub(crate) fn write(folder: &Path, report: &Report) -> anyhow::Result<Written> {
    let files = files(report)?;
    let bytes = check_size(&files)?;
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let before = read_manifest(folder)?;
    // Named before they are there: whatever interrupts this, the next run knows what is its own.
    let all: BTreeSet<&str> =
        before.iter().map(String::as_str).chain(files.keys().map(String::as_str)).collect();
    write_file(folder, MANIFEST, manifest(all.into_iter()).as_bytes())?;
    for (name, content) in &files {
        write_file(folder, name, content)?;
    }
    let mut removed = 0;
    for name in before.iter().filter(|name| !files.contains_key(*name)) {
        let path = folder.join(name);
        if path.is_file() {
            fs::remove_file(&path).with_context(|| format!("{}", path.display()))?;
            removed += 1;
        }
    }
    write_file(folder, MANIFEST, manifest(files.keys().map(String::as_str)).as_bytes())?;
    Ok(Written { files: files.len(), bytes, removed })
}

/// All of them, but for the manifest.
fn files(report: &Report) -> anyhow::Result<Files> {
    finding::check_ids(&report.findings)?;
    let chapters = report.chapters.iter().map(Chapter::shown).collect::<anyhow::Result<Vec<_>>>()?;
    let mut files = Files::new();
    let mut add = |name: String, content: String| {
        ensure!(name != MANIFEST && !files.contains_key(&name), "two files would be called {name}");
        files.insert(name, content.into_bytes());
        Ok(())
    };
    add("index.html".to_owned(), page::page(report, &chapters)?)?;
    add("README.md".to_owned(), markdown::readme(report, &chapters)?)?;
    add("findings.json".to_owned(), format!("{}\n", serde_json::to_string_pretty(&report.findings)?))?;
    if let Some(peers) = &report.peers {
        add("peers.json".to_owned(), peers.json())?;
    }
    for shown in &chapters {
        add(shown.chapter.json_file(), json::to_json(shown.chapter)?)?;
        for (index, svg) in shown.plots.iter().enumerate() {
            add(shown.chapter.plot_file(index), svg.clone())?;
        }
    }
    Ok(files)
}

fn check_size(files: &Files) -> anyhow::Result<usize> {
    let bytes = files.values().map(Vec::len).sum();
    let largest = files.iter().max_by_key(|(_, content)| content.len());
    ensure!(
        bytes <= FOLDER_BYTES_MAX,
        "the evidence would be {bytes} bytes, and at most {FOLDER_BYTES_MAX} are allowed; the largest file is {} with {}",
        largest.map_or("none", |(name, _)| name),
        largest.map_or(0, |(_, content)| content.len())
    );
    Ok(bytes)
}

fn write_file(folder: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, content).with_context(|| format!("{}", path.display()))
}

fn manifest<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.flat_map(|name| [name, "\n"]).collect()
}

/// The names of a former run; none when there was none. A name that leads elsewhere is not one of ours.
fn read_manifest(folder: &Path) -> anyhow::Result<Vec<String>> {
    let path = folder.join(MANIFEST);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let is_plain = |name: &&str| {
                !name.starts_with('.')
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
            };
            Ok(text.lines().filter(is_plain).filter(|name| !name.is_empty()).map(str::to_owned).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("{}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic::report, *};
    use tempfile::tempdir;

    fn content(folder: &Path) -> Files {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, fs::read(&path).expect("a file"))
            })
            .collect()
    }

    #[test]
    fn the_same_results_give_the_same_bytes() {
        let (one, other) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
        let written = write(one.path(), &report()).expect("written");
        write(other.path(), &report()).expect("written");
        write(other.path(), &report()).expect("written again");
        let files = content(one.path());
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "README.md",
                "files.txt",
                "findings.json",
                "index.html",
                "small-1.svg",
                "small-2.svg",
                "small.json"
            ]
        );
        assert_eq!((written.files, written.removed), (6, 0));
        assert_eq!(files, content(other.path()));
    }

    #[test]
    fn what_is_not_written_any_more_is_removed_and_nothing_else() {
        let folder = tempdir().expect("a folder");
        let outside = tempdir().expect("a folder");
        let kept = outside.path().join("kept");
        fs::write(&kept, "").expect("a file");
        write(folder.path(), &report()).expect("written");
        fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
        let mut manifest = fs::read_to_string(folder.path().join(MANIFEST)).expect("a manifest");
        for elsewhere in [&*kept.to_string_lossy(), "../outside/kept"] {
            manifest.push_str(elsewhere);
            manifest.push('\n');
        }
        fs::write(folder.path().join(MANIFEST), manifest).expect("a manifest");

        let mut fewer = report();
        fewer.chapters[0].plots.truncate(1);
        let written = write(folder.path(), &fewer).expect("written");
        assert_eq!((written.files, written.removed), (5, 1));
        let files = content(folder.path());
        assert!(!files.contains_key("small-2.svg") && files.contains_key("small-1.svg"));
        assert_eq!(files["notes.txt"], b"mine");
        assert!(kept.is_file());
        assert!(!String::from_utf8_lossy(&files[MANIFEST]).contains("small-2.svg"));
    }

    #[test]
    fn what_cannot_be_shown_is_an_error_before_anything_is_written() {
        let error = |report: &Report| {
            let folder = tempdir().expect("a folder");
            let error = write(folder.path(), report).expect_err("an error");
            assert!(content(folder.path()).is_empty());
            format!("{error:#}")
        };
        let mut bad = report();
        bad.findings[0].plots[0].title = "Nothing".to_owned();
        assert_eq!(error(&bad), "finding 1a: small has no plot \"Nothing\"");
        let mut bad = report();
        bad.findings.push(bad.findings[0].clone());
        assert_eq!(error(&bad), "two findings are called 1a");
        let mut bad = report();
        bad.chapters[0].name = "../small".to_owned();
        assert!(error(&bad).contains("names no files"));
        let mut bad = report();
        bad.chapters[0].description = "long ".repeat(FOLDER_BYTES_MAX / 5);
        assert!(error(&bad).contains("the largest file is"));
    }
}
