//! What the runs say about a claim, with the numbers that say it.

use std::{collections::BTreeMap, fmt};

use anyhow::{Context, ensure};

use super::Chapter;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Confirmed,
    Refuted,
    /// Confirmed in some of its parts or under some conditions.
    Partly,
}

/// A claim and what became of it. In its texts, backticks mark code.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Short, such as `2b`.
    pub(crate) id: String,
    pub(crate) claim: String,
    pub(crate) verdict: Verdict,
    /// The numbers.
    pub(crate) evidence: String,
    /// Why it is so.
    pub(crate) reason: String,
    /// Where it can be seen.
    pub(crate) plots: Vec<PlotReference>,
}

/// A plot of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlotReference {
    pub(crate) scenario: String,
    pub(crate) title: String,
}

// === impl Verdict ===

impl Verdict {
    /// In a word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Partly => "partly",
        }
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    /// For a terminal.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:4} {:9}  {}", self.id, self.verdict.word(), self.claim)?;
        for text in [&self.evidence, &self.reason] {
            if !text.is_empty() {
                writeln!(out, "{:16}{text}", "")?;
            }
        }
        Ok(())
    }
}

// === impl PlotReference ===

impl PlotReference {
    /// The plot's place in its chapter, and the chapter.
    ///
    /// # Errors
    /// When there is no such plot.
    pub(super) fn resolve<'a>(&self, chapters: &'a [Chapter]) -> anyhow::Result<(&'a Chapter, usize)> {
        let chapter = chapters.iter().find(|chapter| chapter.name == self.scenario);
        let chapter = chapter.with_context(|| format!("no scenario {}", self.scenario))?;
        let plot = chapter.plots.iter().position(|plot| plot.title == self.title);
        Ok((chapter, plot.with_context(|| format!("{} has no plot {:?}", self.scenario, self.title))?))
    }
}

/// For a finding's plots: the title, and the file.
pub(super) fn plot_files<'a>(
    finding: &'a Finding,
    chapters: &[Chapter],
) -> anyhow::Result<Vec<(&'a str, String)>> {
    let file = |reference: &'a PlotReference| {
        let (chapter, plot) = reference.resolve(chapters)?;
        Ok((reference.title.as_str(), chapter.plot_file(plot)))
    };
    finding
        .plots
        .iter()
        .map(file)
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("finding {}", finding.id))
}

/// How many there are of each verdict, such as "3 confirmed, 1 refuted".
pub(super) fn counts(findings: &[Finding]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.verdict.word()).or_default() += 1;
    }
    counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// Two findings of one id could not be told apart.
pub(super) fn check_ids(findings: &[Finding]) -> anyhow::Result<()> {
    for (index, finding) in findings.iter().enumerate() {
        ensure!(
            findings[..index].iter().all(|other| other.id != finding.id),
            "two findings are called {}",
            finding.id
        );
    }
    Ok(())
}
