//! References that lead nowhere: a page that is not in this repository, a link to a file or a heading that is not
//! there, a number in a list that a reader cannot open.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::Fault;

/// Kinds of files that people read and write.
const TEXT: [&str; 7] = ["rs", "md", "toml", "py", "sh", "txt", "json"];

/// Folders that are made, not written.
const MADE: [&str; 4] = ["target", ".git", ".venv", "corpus"];

/// Names of what lies outside, as they were cited with a number.
const OUTSIDE: [&str; 7] = ["DESIGN", "FIELD", "PERF", "ROUTING", "STYLE", "WIRE", "issue"];

/// What is wrong in the tree below `root`, each with its file and line.
pub(super) fn faults(root: &Path) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for file in files(root)? {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let is_page = is_page(&name);
        for (line, number) in text.lines().zip(1..) {
            let mut found = missing_pages(line, &file, root);
            found.extend(cited_from_outside(line));
            if is_page {
                found.extend(dead_links(line, &file));
            }
            let place = format!("{name}:{number}");
            faults.extend(found.into_iter().map(|what| Fault { place: place.clone(), what }));
        }
    }
    Ok(faults)
}

/// All text files, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let has = |names: &[&str], part: Option<&std::ffi::OsStr>| {
            part.and_then(|part| part.to_str()).is_some_and(|part| names.contains(&part))
        };
        if path.is_dir() && !path.is_symlink() && !has(&MADE, path.file_name()) {
            found.extend(files(&path)?);
        } else if path.is_file() && has(&TEXT, path.extension()) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether this names a page of prose.
fn is_page(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}

/// Names of pages, seen from the file's folder or from the root, that are not there.
fn missing_pages(line: &str, file: &Path, root: &Path) -> Vec<String> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || "._-/:".contains(part);
    let words = line.split(|part| !is_part(part)).map(|word| word.trim_end_matches(['.', ':']));
    let pages = words.filter(|word| is_page(word) && !word.contains("://"));
    let is_there = |page: &str| {
        file.parent().is_some_and(|folder| folder.join(page).is_file()) || root.join(page).is_file()
    };
    pages.filter(|page| !is_there(page)).map(|page| format!("there is no {page}")).collect()
}

/// `[text](target)` where the target is neither a file nor a heading.
fn dead_links(line: &str, file: &Path) -> Vec<String> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let is_dead = |target: &&str| {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let page = if path.is_empty() { file.to_owned() } else { file.with_file_name("").join(path) };
        !page.exists() || (!heading.is_empty() && !headings(&page).any(|known| known == heading))
    };
    let here = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    here.filter(is_dead).map(|target| format!("the link to {target} is dead")).collect()
}

/// The anchors of a page's headings.
fn headings(page: &Path) -> impl Iterator<Item = String> + use<> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
    lines.into_iter().map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|part| part.is_alphanumeric() || matches!(part, ' ' | '-' | '_'));
        kept.map(|part| if part == ' ' { '-' } else { part }).collect()
    })
}

/// Numbers of what only an author had before them. Sections of an RFC are for all to read.
fn cited_from_outside(line: &str) -> Vec<String> {
    let words: Vec<_> = line.split([' ', '(', ')', ';', ',']).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let cited = words.windows(2).enumerate().filter(|(at, pair)| {
        let is_of_rfc = *at >= 2 && words[at - 2] == "RFC";
        (OUTSIDE.contains(&pair[0]) && (is_number(pair[1]) || pair[1] == "section"))
            || (pair[0] == "section" && is_number(pair[1]) && !is_of_rfc)
    });
    cited
        .map(|(_, pair)| format!("what is \"{} {}\"? say it here, or name a page in docs/", pair[0], pair[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        crate::workspace::root()
    }

    #[test]
    fn pages_are_looked_for_beside_the_file_and_from_the_root() {
        let missing = |line: &str| missing_pages(line, &root().join("docs/api.md"), root()).len();
        for page in ["routing", "docs/routing", "../README", "https://example.org/NOTES"] {
            assert_eq!(missing(&format!("see {page}.md.")), 0, "{page}");
        }
        assert_eq!(missing(&format!("see {}.md", "absent")), 1);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let dead = |target: &str| {
            dead_links(&format!("a [link]({target}) of"), &root().join("docs/routing.md")).len()
        };
        for target in ["stargate.toml", "#rankings", "../docs/stargate.toml", "https://x.y/z"] {
            assert_eq!(dead(target), 0, "{target}");
        }
        for target in ["absent.toml", "#absent", "stargate.toml#absent"] {
            assert_eq!(dead(target), 1, "{target}");
        }
    }

    #[test]
    fn numbers_of_lists_outside_are_found_and_those_of_rfcs_are_not() {
        let cited = |words: [&str; 3]| cited_from_outside(&format!("// a rule ({}).", words.join(" "))).len();
        assert_eq!(cited(["RFC", "9110", "section 7.6.1"]), 0);
        assert_eq!(cited(["RFC", "9669,", "section 3"]), 0);
        assert_eq!(cited(["FIELD", "14,", "client side"]), 1);
        assert_eq!(cited(["see", "section", "3:"]), 1);
    }
}
