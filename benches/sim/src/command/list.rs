//! `sim list`: the scenarios that come with the program, with their titles.

use anyhow::Context;

use crate::{catalogue, scenario::Grid};

/// Prints a line for each.
pub(crate) fn list() -> anyhow::Result<()> {
    let width = catalogue::names().map(str::len).max().unwrap_or_default();
    for name in catalogue::names() {
        let grid = Grid::read(name, &catalogue::text(name)?, &[]).with_context(|| name.to_owned())?;
        println!("{name:width$}  {}", grid.title);
    }
    Ok(())
}
