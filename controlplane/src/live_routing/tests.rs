use std::{env, fs, path::PathBuf, sync::Arc};

use super::*;
use crate::config::{Config, Routing};

/// A directory of its own, removed with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("stargate-live-routing-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn config(&self, routing: &str) -> Config {
        let mut config: Config = toml::from_str(routing).unwrap();
        config.admin.state_dir = self.0.join("state");
        config
    }

    fn start(&self, routing: &str) -> (LiveRouting, Store) {
        let (live, store) = LiveRouting::start(&self.config(routing)).unwrap();
        (live, store.unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn put(algorithm: &str) -> Change {
    document(&format!(r#"{{"default":"{algorithm}"}}"#))
}

fn document(text: &str) -> Change {
    Change::Put(Arc::new(Routing::from_json(text).unwrap().read().unwrap()))
}

fn plan(live: &LiveRouting, change: Change) -> LiveRouting {
    live.plan(change, &Precondition::None).unwrap()
}

fn default_of(live: &LiveRouting) -> &'static str {
    live.policies().policy("m").method.algorithm.kind().as_str()
}

#[test]
fn versions_count_up_and_are_bounded() {
    let (mut live, store) = LiveRouting::start(&Config::default()).unwrap();
    assert!(store.is_none());
    assert_eq!((live.current().number, live.current().source), (1, Source::File));
    live = plan(&live, put("power-of-n"));
    assert_eq!(live.current().number, 1, "the same document is no new version");
    for _ in 0..VERSIONS_MAX {
        live = plan(&plan(&live, put("random")), put("pulsar"));
    }
    assert_eq!(live.current().number, 1 + 2 * VERSIONS_MAX as u64);
    assert_eq!(live.versions().count(), VERSIONS_MAX);
}

#[test]
fn a_rollback_is_a_new_version() {
    let (live, _) = LiveRouting::start(&Config::default()).unwrap();
    assert!(matches!(
        live.plan(Change::RollBack(None), &Precondition::None),
        Err(ChangeError::NothingBefore { current: 1 })
    ));
    let live = plan(&plan(&live, put("random")), put("pulsar"));
    let back = plan(&live, Change::RollBack(None));
    assert_eq!((back.current().number, back.current().source), (4, Source::Rollback(2)));
    assert_eq!(default_of(&back), "random");
    let first = plan(&live, Change::RollBack(Some(1)));
    assert_eq!((first.current().number, default_of(&first)), (4, "power-of-n"));
    assert!(matches!(
        live.plan(Change::RollBack(Some(9)), &Precondition::None),
        Err(ChangeError::NoSuchVersion { version: 9, first: 1, last: 3 })
    ));
}

#[test]
fn a_caller_that_knows_another_version_changes_nothing() {
    let (live, _) = LiveRouting::start(&Config::default()).unwrap();
    let error = live.plan(put("random"), &Precondition::OneOf(vec![2])).unwrap_err();
    assert_eq!(error.to_string(), "version 1 is in force, not 2");
    assert!(live.plan(put("random"), &Precondition::OneOf(vec![2, 1])).is_ok());
}

#[test]
fn unchanged_policies_stay_the_same_object() {
    let (live, _) = LiveRouting::start(&Config::default()).unwrap();
    let live = plan(&live, document(r#"{"models":{"a":"random","b":"random"}}"#));
    let next = plan(&live, document(r#"{"models":{"a":"random","b":"pulsar"}}"#));
    assert!(Arc::ptr_eq(live.policies().policy("a"), next.policies().policy("a")));
    assert!(Arc::ptr_eq(live.policies().policy("x"), next.policies().policy("y")));
    let applied = next.applied(&live, [Arc::from("x")].into_iter());
    assert_eq!(applied.models, [Arc::from("b")]);
    assert!(applied.is_new && !applied.is_default_changed);
}

#[test]
fn what_was_put_goes_on_after_a_restart() {
    let scratch = Scratch::new("restart");
    let (live, store) = scratch.start("[routing]\ndefault = 'random'");
    store.write(&plan(&live, put("pulsar")).stored()).unwrap();
    let (live, _) = scratch.start("[routing]\ndefault = 'random'");
    assert_eq!((live.current().number, default_of(&live)), (2, "pulsar"));
    assert_eq!(live.versions().count(), 2);
}

#[test]
fn a_file_that_changed_since_wins_once() {
    let scratch = Scratch::new("changed");
    let (live, store) = scratch.start("[routing]\ndefault = 'random'");
    store.write(&plan(&live, put("pulsar")).stored()).unwrap();
    let (live, store) = scratch.start("[routing]\ndefault = 'round-robin'");
    assert_eq!((live.current().number, default_of(&live)), (3, "round-robin"));
    assert_eq!(live.current().source, Source::File);
    // From then on it is what was put that goes on.
    store.write(&plan(&live, put("pulsar")).stored()).unwrap();
    let (live, _) = scratch.start("[routing]\ndefault = 'round-robin'");
    assert_eq!((live.current().number, default_of(&live)), (4, "pulsar"));
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let scratch = Scratch::new("damaged");
    let (_, store) = scratch.start("");
    let good = fs::read_to_string(store.path()).unwrap();
    for (text, words) in [
        (good[..good.len() / 2].to_owned(), "EOF"),
        (String::new(), "EOF"),
        (good.replace("\"format\": 1", "\"format\": 2"), "format 2"),
        (good.replace("power-of-n", "best"), "file.default.algorithm: found \"best\""),
        (r#"{"format":1,"file":{},"versions":[]}"#.to_owned(), "versions: found 0"),
    ] {
        fs::write(store.path(), text).unwrap();
        let error = LiveRouting::start(&scratch.config("")).unwrap_err().to_string();
        assert!(error.contains("routing.json: cannot be used") && error.contains(words), "{error}");
    }
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    let error = LiveRouting::start(&scratch.config("")).unwrap_err().to_string();
    assert!(error.contains("routing.json: cannot be read"), "{error}");
}
