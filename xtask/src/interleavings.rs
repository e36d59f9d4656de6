//! Runs the tests that try every interleaving of what core threads share, with loom's atomics in place of the
//! real ones.

use anyhow::Result;

use crate::workspace::{cargo, run, target_dir};

/// Runs them all.
pub(crate) fn check() -> Result<()> {
    let test = |arguments: &[&str]| {
        let mut command = cargo();
        command
            .env("RUSTFLAGS", "--cfg loom")
            // Everything is another build under that flag: apart, it throws no other build away.
            .env("CARGO_TARGET_DIR", target_dir().join("loom"))
            .args(["test", "--locked", "--release"])
            .args(arguments);
        run(&mut command)
    };
    test(&["-p", "stargate-loom"])?;
    test(&["-p", "stargate-routing", "--lib", "loom"])
}
