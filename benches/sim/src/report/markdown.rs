//! The folder's README: findings and tables in Markdown, plots beside it.

use std::fmt::Write as _;

use super::{
    Report,
    chapter::Shown,
    finding::{Finding, counts, plot_files},
    prose::{Span, paragraphs, spans},
    scope::{self, Part},
};

/// Writes it.
pub(super) fn readme(report: &Report, chapters: &[Shown<'_>]) -> anyhow::Result<String> {
    let mut out = String::from("# The evidence\n\n");
    let date = report.date.as_ref().map(|date| format!("Runs of {date}. ")).unwrap_or_default();
    let _ = write!(
        out,
        "{date}Made whole by `{}`; do not edit. What a scenario consists of is in `benches/sim/scenarios/NAME.toml`; \
         `stargate-bench sim run NAME --json` prints its figures.\n\n",
        scope::COMMAND
    );
    let measured = if report.peers.is_some() { scope::MEASURED } else { scope::NOT_MEASURED };
    for Part { title, text } in [scope::SIMULATED, measured] {
        let _ = writeln!(out, "**{title}:** {text}\n");
    }
    if !report.findings.is_empty() {
        let _ = writeln!(out, "## Findings\n\n{}.\n", counts(&report.findings));
        for finding in &report.findings {
            out.push_str(&self::finding(finding, report)?);
        }
        out.push('\n');
    }
    if let Some(peers) = &report.peers {
        let _ = writeln!(out, "## Measured beside its peers\n\nSizes: {}.\n", text(&peers.sizes()));
        for table in peers.tables() {
            let _ = writeln!(
                out,
                "### {}\n\nMedian [least–greatest] of {} rounds.\n",
                text(&table.scenario),
                table.rounds
            );
            let _ = writeln!(out, "{}", table.table.markdown());
            for left_out in &table.left_out {
                let _ = writeln!(out, "Left out: {}\n", text(left_out));
            }
        }
    }
    if !chapters.is_empty() {
        let _ = writeln!(out, "## Scenarios (simulated)\n\n{}\n", scope::FIGURES);
    }
    for Shown { chapter, table, .. } in chapters {
        let _ = writeln!(out, "### {}\n\n`{}`\n", text(&chapter.title), chapter.name);
        for paragraph in paragraphs(&chapter.description) {
            let _ = writeln!(out, "{}\n", text(paragraph));
        }
        for (index, plot) in chapter.plots.iter().enumerate() {
            let title = text(&plot.title).replace(['[', ']'], "");
            let _ = writeln!(out, "![{title}]({})\n", chapter.plot_file(index));
        }
        let _ = writeln!(out, "{}", table.markdown());
    }
    Ok(format!("{}\n", out.trim_end()))
}

fn finding(finding: &Finding, report: &Report) -> anyhow::Result<String> {
    let Finding { id, claim, verdict, evidence, reason, .. } = finding;
    let mut line = format!("- **{id}, {}:** {}", verdict.word(), text(claim));
    for (label, content) in [("Evidence", evidence), ("Reason", reason)] {
        if !content.is_empty() {
            let _ = write!(line, "\n  *{label}:* {}", text(content));
        }
    }
    let plots = plot_files(finding, &report.chapters)?;
    if !plots.is_empty() {
        let links: Vec<String> = plots
            .iter()
            .map(|(title, file)| format!("[{}]({file})", text(title).replace(['[', ']'], "")))
            .collect();
        let _ = write!(line, "\n  *Seen in:* {}", links.join(", "));
    }
    line.push('\n');
    Ok(line)
}

/// Prose as Markdown: its code stays code, and the rest is no HTML.
fn text(prose: &str) -> String {
    let span = |span: &Span<'_>| match span {
        Span::Words(words) => words.replace('<', "\\<").replace('*', "\\*"),
        Span::Code(code) => format!("`{code}`"),
    };
    spans(prose).iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{peers, peers::Peers, synthetic::report},
        *,
    };

    #[test]
    fn it_says_what_is_simulated_and_what_is_measured_before_anything_else() {
        let text = |report: &Report| {
            let shown = [report.chapters[0].shown().expect("a chapter")];
            readme(report, &shown).expect("a README")
        };
        let place = |page: &str, part: &str| page.find(part).unwrap_or_else(|| panic!("no {part:?}"));
        let mut report = report();
        let page = text(&report);
        assert!(place(&page, scope::SIMULATED.text) < place(&page, "## Findings"));
        assert!(page.contains(scope::NOT_MEASURED.text) && !page.contains("## Measured beside"));
        report.peers = Some(Peers::read(peers::EXAMPLE).expect("peers"));
        let page = text(&report);
        assert!(place(&page, scope::MEASURED.text) < place(&page, "## Measured beside"));
        assert!(page.contains("Left out: envoy: it \\<ended>"), "{page}");
        assert_eq!(page.matches("\n![").count(), 2);
    }

    #[test]
    fn it_has_the_findings_the_plots_and_the_tables() {
        let report = report();
        let shown = [report.chapters[0].shown().expect("a chapter")];
        let readme = readme(&report, &shown).expect("a README");
        for part in [
            "Runs of 2026-11-30.",
            "**Measured:** Nothing",
            "1 partly.",
            "- **1a, partly:** Goodput \\<holds> with `max_queued`.\n  *Evidence:* 96.5 of 100 at 1.3\n",
            "  *Seen in:* [Goodput](small-1.svg)\n",
            "With `code` in \\<brackets>.",
            "### A small one\n\n`small`\n\nTwo policies & three loads.\n",
            "![Goodput](small-1.svg)\n\n![Overload](small-2.svg)\n\n| load | policy | offered /s |",
            "| 0.8 | a | 120 | 82 [81–82] |",
        ] {
            assert!(readme.contains(part), "no {part:?} in {readme}");
        }
    }
}
