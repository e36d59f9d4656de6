//! What the runs say about the claims that were made beforehand: each finding has its criteria here, in code, and takes its
//! verdict and its numbers from the outcomes.
//!
//! A finding that needs a run which was not made is an error that names it, so that none rests on nothing.

mod beyond;
mod checks;
mod facts;
mod facts_of_load;
mod published;
mod recovery;
mod results;

use self::results::Results;
use super::report::{Chapter, Finding};

/// With reports as soon as something changes.
const EVERY_CHANGE: (&str, &str) = ("reports", "every change");
/// With a report a second.
const EVERY_SECOND: (&str, &str) = ("reports", "every second");

/// All of them, in the order of the report; `chapters` are those of the whole catalogue.
///
/// # Errors
/// For a scenario, a policy, a point or a figure that is not there.
pub(super) fn findings(chapters: &[Chapter]) -> anyhow::Result<Vec<Finding>> {
    let results = Results::new(chapters)?;
    let mut findings = published::findings(&results)?;
    findings.extend(facts::findings(&results)?);
    findings.extend(facts_of_load::findings(&results)?);
    findings.extend(beyond::findings(&results)?);
    Ok(findings)
}
