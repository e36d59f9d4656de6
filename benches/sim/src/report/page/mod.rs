//! The page: everything in one file that needs nothing else, not even the plots beside it.
//!
//! maud: most of a page is tables and lists of typed values, and its templates are Rust expressions over them, checked by the
//! compiler and escaped unless said otherwise. Nothing to parse at run time, no template files, a few kilobytes.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    Report,
    chapter::Shown,
    finding::{Finding, counts, plot_files},
    peers::{PeerTable, Peers},
    plots,
    prose::{Span, paragraphs, spans},
    scope::{self, Part},
    table::Table,
};

const CSS: &str = include_str!("page.css");

/// The row that a reader looks for in the peers' tables.
const OURS: &str = "gateway";

/// Rows above which a table is folded.
const OPEN_ROWS_MAX: usize = 12;

/// Writes it.
pub(super) fn page(report: &Report, chapters: &[Shown<'_>]) -> anyhow::Result<String> {
    let measured = if report.peers.is_some() { scope::MEASURED } else { scope::NOT_MEASURED };
    let findings = report
        .findings
        .iter()
        .map(|finding| self::finding(finding, report))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Stargate: the evidence" }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { "Stargate: the evidence" }
                    p.note {
                        @if let Some(date) = &report.date { "Runs of " (date) ". " }
                        "Made whole by " code { (scope::COMMAND) } "."
                    }
                    div.scope { (part(&scope::SIMULATED)) (part(&measured)) }
                    (contents(report, chapters))
                }
                main {
                    @if !findings.is_empty() {
                        section id="findings" {
                            h2 { "Findings" }
                            p.note { (counts(&report.findings)) "." }
                            @for finding in &findings { (finding) }
                        }
                    }
                    @if let Some(peers) = &report.peers { (measurements(peers)) }
                    @if !chapters.is_empty() {
                        section id="scenarios" {
                            h2 { "Scenarios " span.kind { "simulated" } }
                            p.note { (scope::FIGURES) }
                            @for shown in chapters { (chapter(shown)) }
                        }
                    }
                }
            }
        }
    };
    Ok(format!("{}\n", page.into_string()))
}

fn style() -> String {
    let dark = plots::dark_mode_css("figure");
    format!("{CSS}@media screen and (prefers-color-scheme:dark){{{dark}}}")
}

fn part(part: &Part) -> Markup {
    html! { div { h2 { (part.title) } p { (part.text) } } }
}

fn contents(report: &Report, chapters: &[Shown<'_>]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @if !report.findings.is_empty() { a href="#findings" { "Findings" } }
            @if report.peers.is_some() { a href="#peers" { "Peers" } }
            @for Shown { chapter, .. } in chapters {
                a href={ "#" (chapter.name) } { (chapter.name) }
            }
        }
    }
}

fn finding(finding: &Finding, report: &Report) -> anyhow::Result<Markup> {
    let Finding { id, claim, verdict, evidence, reason, .. } = finding;
    let plots = plot_files(finding, &report.chapters)?;
    Ok(html! {
        article.finding id={ "finding-" (id) } {
            h3 {
                span.verdict.(verdict.word()) { (verdict.word()) }
                " " span.number { (id) } " " (prose(claim))
            }
            @if !evidence.is_empty() { p { (prose(evidence)) } }
            @if !reason.is_empty() { p.reason { (prose(reason)) } }
            @if !plots.is_empty() {
                p.note {
                    "Seen in: "
                    @for (index, (title, file)) in plots.iter().enumerate() {
                        @if index > 0 { ", " }
                        a href={ "#" (anchor(file)) } { (title) }
                    }
                }
            }
        }
    })
}

fn measurements(peers: &Peers) -> Markup {
    html! {
        section id="peers" {
            h2 { "Beside its peers " span.kind { "measured" } }
            p.note { "Sizes: " (peers.sizes()) "." }
            @for PeerTable { scenario, rounds, table, left_out } in peers.tables() {
                h3 { (scenario) }
                p.note { "Median, and from least to greatest, of " (rounds) " rounds." }
                (self::table(&table))
                @for left_out in &left_out { p.note { "Left out: " (left_out) } }
            }
        }
    }
}

fn chapter(shown: &Shown<'_>) -> Markup {
    let Shown { chapter, table, plots, .. } = shown;
    html! {
        article.chapter id=(chapter.name) {
            h3 { (chapter.title) }
            p.note { code { (chapter.name) } }
            @for paragraph in paragraphs(&chapter.description) { p { (prose(paragraph)) } }
            div.plots {
                @for (index, svg) in plots.iter().enumerate() {
                    // By plotters and our own hand, which escape what is text in it.
                    figure id=(anchor(&chapter.plot_file(index))) { (PreEscaped(svg)) }
                }
            }
            details open[table.rows.len() <= OPEN_ROWS_MAX] {
                summary { "Figures: " (table.rows.len()) " rows, mean and range over seeds" }
                (self::table(table))
            }
            details {
                summary { "Parameters" }
                pre { code { (chapter.parameters) } }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let Table { head, names, rows } = table;
    html! {
        div.table tabindex="0" {
            table {
                thead { tr {
                    @for (column, title) in head.iter().enumerate() {
                        th class=[(column < *names).then_some("name")] scope="col" { (title) }
                    }
                } }
                tbody {
                    @for (index, row) in rows.iter().enumerate() {
                        // Where a name but the last changes, another group begins.
                        @let begins = index > 0 && *names > 1 && row[..*names - 1] != rows[index - 1][..*names - 1];
                        @let row_class = if row[0].value == OURS { Some("ours") } else { begins.then_some("begins") };
                        tr class=[row_class] {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[(column < *names).then_some("name")] {
                                    (cell.value)
                                    @if let Some(range) = &cell.range { small { (range) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn prose(text: &str) -> Markup {
    html! {
        @for span in spans(text) {
            @match span {
                Span::Words(words) => (words),
                Span::Code(words) => code { (words) },
            }
        }
    }
}

/// A plot's place on the page, by its file.
fn anchor(file: &str) -> &str {
    file.trim_end_matches(".svg")
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic::report, *};
    use crate::report::peers;

    fn text(report: &Report) -> String {
        let shown: Vec<Shown<'_>> =
            report.chapters.iter().map(|chapter| chapter.shown().expect("a chapter")).collect();
        page(report, &shown).expect("a page")
    }

    #[test]
    fn text_is_escaped_and_nothing_is_fetched() {
        let mut report = report();
        report.peers = Some(Peers::read(peers::EXAMPLE).expect("peers"));
        report.chapters[0].plots[0].title = "<script>".to_owned();
        report.findings[0].plots[0].title = "<script>".to_owned();
        let page = text(&report);
        for part in [
            "Goodput &lt;holds&gt; with <code>max_queued</code>.",
            "Queues &amp; caches.",
            "With <code>code</code> in &lt;brackets&gt;.",
            "seeds = [1, 2] # a &lt; b",
            "<a href=\"#small-1\">&lt;script&gt;</a>",
            "envoy: it &lt;ended&gt;",
            "<tr class=\"ours\">",
            "<span class=\"verdict partly\">partly</span>",
        ] {
            assert!(page.contains(part), "no {part:?} in {page}");
        }
        assert!(!page.contains("<script"), "{page}");
        let fetched = ["src=", "<link", "@import", "url("].into_iter().find(|word| page.contains(word));
        assert_eq!(fetched, None);
        // Links lead to places on the page.
        for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!(" id=\"{link}\"")), "nothing is called {link}");
        }
    }

    #[test]
    fn it_says_what_is_simulated_and_what_is_measured_before_anything_else() {
        let mut report = report();
        let place = |page: &str, part: &str| page.find(part).unwrap_or_else(|| panic!("no {part:?}"));
        let page = text(&report);
        assert!(place(&page, scope::SIMULATED.text) < place(&page, "id=\"findings\""));
        assert!(page.contains(scope::NOT_MEASURED.text) && !page.contains("id=\"peers\""));
        report.peers = Some(Peers::read(peers::EXAMPLE).expect("peers"));
        let page = self::text(&report);
        assert!(place(&page, scope::MEASURED.text) < place(&page, "id=\"peers\""));
        assert_eq!(page.matches("<svg ").count(), 2);
        assert!(place(&page, "<details open>") < place(&page, "<summary>Parameters"));
    }
}
