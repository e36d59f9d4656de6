use super::*;

/// A crate of these files, each named by its module.
fn modules(files: &[(&str, &str)]) -> Modules {
    let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let paths: Vec<ModulePath> = files.iter().map(|(name, _)| path(name)).collect();
    let imports = |(index, (_, text)): (usize, &(&str, &str))| {
        let module = &paths[index];
        let is_child = |other: &&ModulePath| other.len() == module.len() + 1 && other.starts_with(module);
        let children: Vec<_> =
            paths.iter().filter(is_child).filter_map(|child| child.last().cloned()).collect();
        (module.clone(), imports::read(text, &children))
    };
    Modules(files.iter().enumerate().map(imports).collect())
}

fn shown(files: &[(&str, &str)]) -> Vec<String> {
    modules(files)
        .circles()
        .iter()
        .map(|circle| format!("{}: {}", circle.within, circle.rooms.join(" ")))
        .collect()
}

#[test]
fn rooms_that_need_one_another_are_a_circle_and_others_are_none() {
    let files = [
        ("", ""),
        ("a", ""),
        ("a::deep", "use crate::b::X;"),
        ("b", "fn f() { super::c::g() }"),
        ("c", "use crate::{d, a::Y};"),
        ("d", "use std::a::b;"),
        ("e", "use crate::a;"),
    ];
    assert_eq!(shown(&files), [": a b c"]);
}

#[test]
fn a_name_that_is_handed_on_leads_to_where_it_comes_from() {
    let files = [
        ("", "pub use self::b::X;\nuse a::Y;"),
        ("a", "use crate::X;"),
        ("b", ""),
        ("b::inner", "use crate::Y;"),
    ];
    assert_eq!(shown(&files), [": a b"]);
    assert!(shown(&[files[0], files[1], files[2]]).is_empty());
}

#[test]
fn folders_within_are_looked_at_and_parents_with_their_children_are_not() {
    let files =
        [("", ""), ("a", "use self::b::X;"), ("a::b", "use super::{Y, c};"), ("a::c", "use super::b;")];
    assert_eq!(shown(&files), ["a: b c"]);
}
