//! What a source file names of its own crate: the paths that begin with `crate`, `self`, `super` or a child module,
//! in `use` and elsewhere.
//!
//! Read from the text, without a parser of Rust: files here are formatted, and a path that is missed costs an edge in a
//! picture. What only tests see is left out.

/// A path of modules and, at its end, most often an item.
pub(super) type Path = Vec<String>;

/// What one file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Imports {
    /// Paths as they are written.
    pub(super) paths: Vec<Path>,
    /// Names that a `use` makes known in this module, and the path of each.
    pub(super) names: Vec<(String, Path)>,
    /// Modules that only tests have.
    pub(super) test_modules: Vec<String>,
}

/// Reads a file whose child modules are these.
pub(super) fn read(text: &str, children: &[String]) -> Imports {
    let mut imports = Imports::default();
    let code = without_tests(text, &mut imports.test_modules);
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < code.len() {
        let word = identifier(&code[at..]);
        if word.is_empty() {
            at += code[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let is_start = at == 0 || !matches!(bytes[at - 1], b':' | b'.' | b'\'');
        let is_use = is_start && is_in_use(&code[..at]);
        let is_own =
            matches!(word, "crate" | "self" | "super") || (is_use && children.iter().any(|it| it == word));
        if is_start && is_own && code[at + word.len()..].starts_with("::") {
            let mut found = Vec::new();
            at += tree(&code[at..], &Vec::new(), &mut found);
            for (path, name) in found {
                if is_use {
                    imports.names.push((name, path.clone()));
                }
                imports.paths.push(path);
            }
        } else {
            at += word.len();
        }
    }
    imports
}

/// The code without comment lines and without items that only tests have; of those, modules are told.
fn without_tests(text: &str, test_modules: &mut Vec<String>) -> String {
    let mut code = String::with_capacity(text.len());
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        let attribute = line.trim_start();
        if !(attribute.starts_with("#[cfg(test)]") || attribute.starts_with("#[cfg(all(test")) {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        let (mut opened, mut closed) = (0, 0);
        for line in lines.by_ref() {
            if let Some((_, module)) = line.split_once("mod ") {
                test_modules.push(identifier(module).to_owned());
            }
            opened += line.matches('{').count();
            closed += line.matches('}').count();
            if opened <= closed && line.trim_end().ends_with([';', '}']) {
                break;
            }
        }
    }
    code
}

/// Whether what follows is the beginning of a `use`.
fn is_in_use(before: &str) -> bool {
    before.strip_suffix("use ").is_some_and(|before| before.is_empty() || before.ends_with([' ', '\n']))
}

/// Reads a tree of paths, as a `use` has, into whole paths and the names that they are known by; returns its length.
fn tree(text: &str, prefix: &Path, found: &mut Vec<(Path, String)>) -> usize {
    let mut path = prefix.clone();
    let mut at = 0;
    loop {
        let word = identifier(&text[at..]);
        at += word.len();
        if word == "self" && !path.is_empty() {
            // `a::{self, b}`: the module itself.
        } else if !word.is_empty() {
            path.push(word.to_owned());
        }
        let Some(rest) = text[at..].strip_prefix("::") else { break };
        if rest.starts_with('{') {
            return at + 2 + group(rest, &path, found);
        }
        if identifier(rest).is_empty() {
            break;
        }
        at += 2;
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if let Some(alias) = text[at..].strip_prefix(" as ") {
        identifier(alias).clone_into(&mut name);
        at += " as ".len() + name.len();
    }
    found.push((path, name));
    at
}

/// Reads `{…}` behind a prefix; returns its length.
fn group(text: &str, prefix: &Path, found: &mut Vec<(Path, String)>) -> usize {
    let mut at = 1;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '}' => return at + 1,
            next if next == '_' || next.is_alphanumeric() => at += tree(&text[at..], prefix, found),
            next => at += next.len_utf8(),
        }
    }
    at
}

/// The identifier at the start of a text, empty where there is none.
fn identifier(text: &str) -> &str {
    let end = text.find(|next: char| next != '_' && !next.is_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        read(text, &["child".to_owned()]).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn trees_are_unfolded() {
        let text = "use crate::{\n    a::{self, b::C as D},\n    e,\n};\nuse super::f::*;\nuse std::g;\n";
        assert_eq!(paths(text), ["crate::a", "crate::a::b::C", "crate::e", "super::f"]);
        let names = read(text, &[]).names.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names, ["a", "D", "e", "f"]);
    }

    #[test]
    fn paths_are_found_outside_of_use_as_well_and_a_child_by_its_name() {
        assert_eq!(paths("fn f() -> crate::a::B { self::c::d(); self.e() }"), ["crate::a::B", "self::c::d"]);
        assert_eq!(paths("pub(crate) use child::X;\nfn f() { other::y() }"), ["child::X"]);
    }

    #[test]
    fn comments_and_tests_are_left_out() {
        let text = "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n#[cfg(test)]\nmod fixtures;\nuse crate::c;\n";
        let imports = read(text, &[]);
        assert_eq!(imports.paths, [["crate", "c"]]);
        assert_eq!(imports.test_modules, ["tests", "fixtures"]);
    }
}
