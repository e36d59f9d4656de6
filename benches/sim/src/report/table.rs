//! Tables: what a row and a cell say is decided once, and shown in the terminal, in Markdown and in HTML.

use anyhow::Context;
use comfy_table::{CellAlignment, LineStyle, TableStyle};

use super::{
    figure::{self, FIGURES, Figure},
    summary::Summary,
};

/// The figures that tables show, and their titles.
const COLUMNS: [(&str, &str); 12] = [
    ("offered", "offered\n/s"),
    ("goodput", "goodput\n/s"),
    ("of_bound", "of bound\n%"),
    ("rejected", "rejected\n/s"),
    ("timed_out", "timed out\n/s"),
    ("ttft_p50", "TTFT p50\nms"),
    ("ttft_p99", "TTFT p99\nms"),
    ("e2e_p99", "e2e p99\nms"),
    ("reuse", "reuse\n%"),
    ("overflow", "overflow\n%"),
    ("attempts", "attempts"),
    ("fairness", "fairness"),
];

/// What stands where there is no figure.
pub(super) const NONE: &str = "–";

/// A table of texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(super) head: Vec<String>,
    /// How many columns from the left are names rather than figures.
    pub(super) names: usize,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// One of its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) value: String,
    /// From – to, over seeds or rounds.
    pub(super) range: Option<String>,
}

// === impl Table ===

impl Table {
    /// Of a scenario: its axes of more than one value, the policy, and the figures.
    pub(crate) fn of(summary: &Summary) -> anyhow::Result<Self> {
        let varies: Vec<bool> = summary.axes.iter().map(|axis| axis.values.len() > 1).collect();
        let columns: Vec<Figure> = COLUMNS
            .iter()
            .map(
                |(name, _)| Ok(FIGURES[figure::position(name).with_context(|| format!("no figure {name}"))?]),
            )
            .collect::<anyhow::Result<_>>()?;
        let axes = summary
            .axes
            .iter()
            .zip(&varies)
            .filter(|(_, varies)| **varies)
            .map(|(axis, _)| axis.name.clone());
        let mut head: Vec<String> = axes.chain(["policy".to_owned()]).collect();
        let names = head.len();
        head.extend(COLUMNS.map(|(_, title)| title.to_owned()));
        let rows = summary.rows.iter().map(|row| {
            let point = summary.point(row).zip(&varies).filter(|(_, varies)| **varies);
            let point = point.map(|((_, value), _)| Cell::plain(value));
            let figures = columns.iter().map(|figure| match row.figure(figure.name) {
                Some(spread) => Cell { value: figure.mean(spread), range: figure.range(spread) },
                None => Cell::plain(NONE),
            });
            point.chain([Cell::plain(&summary.policies[row.policy])]).chain(figures).collect()
        });
        Ok(Self { head, names, rows: rows.collect() })
    }

    /// For a terminal: the range stands below its mean.
    pub(crate) fn text(&self) -> String {
        let mut table = self.laid_out(|cell| match &cell.range {
            Some(range) => format!("{}\n{range}", cell.value),
            None => cell.value.clone(),
        });
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')));
        // Without blanks at the ends of lines.
        table.to_string().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    /// For a page of Markdown: the range stands beside its mean.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut markdown = line(&mut self.head.iter().map(|title| escaped(title)));
        let rule = |column| if column < self.names { "---" } else { "---:" };
        markdown.push_str(&line(&mut (0..self.head.len()).map(|column| rule(column).to_owned())));
        for row in &self.rows {
            markdown.push_str(&line(&mut row.iter().map(|cell| match &cell.range {
                Some(range) => format!("{} [{}]", escaped(&cell.value), escaped(range)),
                None => escaped(&cell.value),
            })));
        }
        markdown
    }

    fn laid_out(&self, text: impl Fn(&Cell) -> String) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.set_header(&self.head);
        for row in &self.rows {
            table.add_row(row.iter().map(&text));
        }
        for column in table.column_iter_mut().skip(self.names) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

// === impl Cell ===

impl Cell {
    /// Without a range.
    pub(super) fn plain(value: &str) -> Self {
        Self { value: value.to_owned(), range: None }
    }
}

/// So that Markdown shows it as it is.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "\\<").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic::chapter, *};

    fn table() -> Table {
        let mut chapter = chapter();
        chapter.outcomes.retain(|outcome| outcome.point["load"] != "1.6");
        let summary = Summary::new("small", &chapter.axes, &chapter.policies, &chapter.outcomes);
        Table::of(&summary.expect("a summary")).expect("a table")
    }

    #[test]
    fn the_terminal_has_ranges_below_their_means() {
        let rule = "─".repeat(131);
        let lines = [
            " load  policy  offered  goodput   of bound  rejected  timed out  TTFT p50   TTFT p99  e2e p99  reuse  overflow  attempts  fairness",
            "                    /s       /s          %        /s         /s        ms         ms       ms      %         %",
            rule.as_str(),
            " 0.8   a           120       82       81.5       1.0        0.0       100       1082     4000   75.0       5.0      1.25     0.987",
            "                          81–82  81.0–82.0                                 1081–1082",
            " 0.8   b           120       40       40.0       1.0        0.0       100       1040     4000   75.0       5.0      1.25     0.987",
        ];
        let text = table().text();
        assert_eq!(text.lines().take(lines.len()).collect::<Vec<_>>(), lines, "{text}");
        assert_eq!(text.lines().count(), 9);
    }

    #[test]
    fn markdown_has_ranges_beside_their_means() {
        assert_eq!(
            table().markdown(),
            "| load | policy | offered /s | goodput /s | of bound % | rejected /s | timed out /s | TTFT p50 ms | TTFT p99 ms \
             | e2e p99 ms | reuse % | overflow % | attempts | fairness |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
             | 0.8 | a | 120 | 82 [81–82] | 81.5 [81.0–82.0] | 1.0 | 0.0 | 100 | 1082 [1081–1082] | 4000 | 75.0 | 5.0 \
             | 1.25 | 0.987 |\n\
             | 0.8 | b | 120 | 40 | 40.0 | 1.0 | 0.0 | 100 | 1040 | 4000 | 75.0 | 5.0 | 1.25 | 0.987 |\n\
             | 1.3 | a | 120 | 96 [96–97] | 96.5 [96.0–97.0] | 1.0 | 0.0 | 100 | 1096 [1096–1097] | 4000 | 75.0 | 5.0 \
             | 1.25 | 0.987 |\n\
             | 1.3 | b | 120 | 48 | 47.5 | 1.0 | 0.0 | 100 | 1048 | 4000 | 75.0 | 5.0 | 1.25 | 0.987 |\n"
        );
    }
}
