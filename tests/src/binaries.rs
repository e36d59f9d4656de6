//! Finding the programs under test: beside the running test, in the same profile's folder.
//!
//! Cargo tells a test only about the binaries of its own package, so that `cargo test -p stargate-tests` in a
//! fresh clone would find none. They are therefore built here, once a test process; when they are up to date
//! that costs a fraction of a second.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A program under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// The gateway daemon.
    Stargate,
    /// Mock engine and load generator.
    Bench,
}

/// `cargo test` puts test executables into `<target>/<profile>/deps`.
struct TargetLayout {
    target_dir: PathBuf,
    profile_dir: PathBuf,
}

// === impl Binary ===

impl Binary {
    const ALL: [Self; 2] = [Self::Stargate, Self::Bench];

    fn package(self) -> &'static str {
        match self {
            Self::Stargate => "stargate-controlplane",
            Self::Bench => "stargate-bench",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stargate => "stargate",
            Self::Bench => "stargate-bench",
        }
    }

    /// Where it is, built from the sources of this workspace.
    pub fn path(self) -> PathBuf {
        static BUILT: OnceLock<()> = OnceLock::new();
        let layout = layout();
        BUILT.get_or_init(|| build(&layout));
        let path = layout.profile_dir.join(self.name());
        assert!(path.exists(), "cargo built no {}", path.display());
        path
    }
}

/// The cargo target folder of the running test.
pub fn target_dir() -> PathBuf {
    layout().target_dir
}

/// The root of the workspace.
pub fn workspace_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

fn layout() -> TargetLayout {
    let test = env::current_exe().expect("a running test has a path");
    let profile_dir = test.ancestors().nth(2).expect("<target>/<profile>/deps/<test>").to_owned();
    let target_dir = profile_dir.parent().expect("<target>/<profile>").to_owned();
    TargetLayout { target_dir, profile_dir }
}

fn build(layout: &TargetLayout) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(workspace_dir())
        .arg("build")
        .arg("--quiet")
        .arg("--target-dir")
        .arg(&layout.target_dir);
    // The folder of the profile `dev` is called `debug`; every other profile's has its own name.
    match layout.profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => {}
        Some(profile) => {
            cargo.args(["--profile", profile]);
        }
        None => panic!("{} names no profile", layout.profile_dir.display()),
    }
    for binary in Binary::ALL {
        cargo.args(["-p", binary.package(), "--bin", binary.name()]);
    }
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "the programs under test do not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
