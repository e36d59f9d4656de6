//! The folder of the evidence: a README that people read, and the plots that it shows.
//!
//! The README is its own list of files: a plot that a former README shows and this one does not is removed, and nothing else
//! ever is. Figures for machines are printed by `sim run --json`, and not kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, ensure};

use super::{Chapter, Report, finding, markdown};

/// What people read.
const README: &str = "README.md";

/// Of all files together: they are kept in the repository.
const FOLDER_BYTES_MAX: usize = 1 << 20;

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
    let mut removed = 0;
    for name in former_plots(folder)?.iter().filter(|name| !files.contains_key(*name)) {
        let path = folder.join(name);
        if path.is_file() {
            fs::remove_file(&path).with_context(|| format!("{}", path.display()))?;
            removed += 1;
        }
    }
    // The README comes first, by its name: whatever interrupts this, the next run knows what is its own.
    for (name, content) in &files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("{}", path.display()))?;
    }
    Ok(Written { files: files.len(), bytes, removed })
}

fn files(report: &Report) -> anyhow::Result<Files> {
    finding::check_ids(&report.findings)?;
    let chapters = report.chapters.iter().map(Chapter::shown).collect::<anyhow::Result<Vec<_>>>()?;
    let mut files = Files::from([(README.to_owned(), markdown::readme(report, &chapters)?.into_bytes())]);
    for shown in &chapters {
        for (index, svg) in shown.plots.iter().enumerate() {
            let name = shown.chapter.plot_file(index);
            ensure!(!files.contains_key(&name), "two files would be called {name}");
            files.insert(name, svg.clone().into_bytes());
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

/// The plots that a former run's README shows; none when there was none. A name that leads elsewhere is not one of ours.
fn former_plots(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let path = folder.join(README);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
    };
    let is_plot = |name: &&str| {
        name.strip_suffix(".svg").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    let linked = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    Ok(linked.filter(is_plot).map(str::to_owned).collect())
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
        assert_eq!(names, ["README.md", "small-1.svg", "small-2.svg"]);
        assert_eq!((written.files, written.removed), (3, 0));
        assert_eq!(files, content(other.path()));
    }

    #[test]
    fn what_is_not_written_any_more_is_removed_and_nothing_else() {
        let folder = tempdir().expect("a folder");
        let outside = tempdir().expect("a folder");
        let kept = outside.path().join("kept.svg");
        fs::write(&kept, "").expect("a file");
        write(folder.path(), &report()).expect("written");
        fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
        let mut readme = fs::read_to_string(folder.path().join(README)).expect("a README");
        for elsewhere in [&*kept.to_string_lossy(), "../outside/kept.svg", "notes.txt", ".svg"] {
            readme.extend(["![mine](", elsewhere, ")\n"]);
        }
        fs::write(folder.path().join(README), readme).expect("a README");

        let mut fewer = report();
        fewer.chapters[0].plots.truncate(1);
        let written = write(folder.path(), &fewer).expect("written");
        assert_eq!((written.files, written.removed), (2, 1));
        let files = content(folder.path());
        assert!(!files.contains_key("small-2.svg") && files.contains_key("small-1.svg"));
        assert_eq!(files["notes.txt"], b"mine");
        assert!(kept.is_file());
        assert!(!String::from_utf8_lossy(&files[README]).contains("small-2.svg"));
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
