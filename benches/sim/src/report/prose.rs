//! The little markup of descriptions and findings: empty lines part paragraphs, backticks mark code.

/// A stretch of a paragraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span<'a> {
    Words(&'a str),
    Code(&'a str),
}

/// Its paragraphs.
pub(super) fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty())
}

/// What a paragraph consists of. A backtick without its fellow is a backtick.
pub(super) fn spans(paragraph: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut rest = paragraph;
    while let Some((words, (code, after))) =
        rest.split_once('`').and_then(|(words, rest)| Some((words, rest.split_once('`')?)))
    {
        if !words.is_empty() {
            spans.push(Span::Words(words));
        }
        spans.push(Span::Code(code));
        rest = after;
    }
    if !rest.is_empty() {
        spans.push(Span::Words(rest));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_mark_code() {
        let Span::Words(words) = spans("a")[0] else { panic!("words") };
        assert_eq!(words, "a");
        assert_eq!(spans("a `b` c"), [Span::Words("a "), Span::Code("b"), Span::Words(" c")]);
        assert_eq!(spans("`b`"), [Span::Code("b")]);
        assert_eq!(spans("a ` b"), [Span::Words("a ` b")]);
        assert_eq!(paragraphs("a\nb\n\n\nc\n").collect::<Vec<_>>(), ["a\nb", "c"]);
    }
}
