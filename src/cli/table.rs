//! Text for people: aligned columns, and escaping of characters that could control the terminal.

use std::fmt::Write;

/// A table whose columns keep their widths from one page to the next, unless a wider value comes.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    widths: Vec<usize>,
    line_chars_max: Option<usize>,
}

impl TextTable {
    /// Makes a table. Lines are cut to `line_chars_max`, if the terminal has a width.
    pub(super) fn within(line_chars_max: Option<usize>) -> Self {
        Self { widths: Vec::new(), line_chars_max }
    }

    pub(super) fn lines<R: AsRef<[String]>>(&mut self, rows: &[R]) -> String {
        for row in rows {
            let row = row.as_ref();
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        for row in rows {
            let cells = row.as_ref().iter().zip(&self.widths).map(|(cell, width)| format!("{cell:width$}"));
            out.push_str(&self.cut(cells.collect::<Vec<_>>().join("  ").trim_end()));
            out.push('\n');
        }
        out
    }

    fn cut(&self, line: &str) -> String {
        match self.line_chars_max {
            Some(max) if line.chars().count() > max => {
                line.chars().take(max.saturating_sub(1)).chain(['…']).collect()
            }
            _ => line.to_owned(),
        }
    }
}

pub(super) fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    TextTable::default().lines(rows)
}

/// Escapes every character that a terminal might obey or that would change how the text reads.
pub(super) fn visible(text: &str) -> String {
    escaped(text, |c, out| match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        other => {
            let _ = write!(out, "{}", other.escape_unicode());
        }
    })
}

/// Escapes such characters in JSON, which stays the same value: whitespace between its parts is left alone.
pub(super) fn visible_json(json: &str) -> String {
    escaped(json, |c, out| match c {
        '\n' | '\t' | '\r' => out.push(c),
        other => {
            let _ = write!(out, "\\u{:04x}", u32::from(other));
        }
    })
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns_text(c) { escape(c, &mut out) } else { out.push(c) }
    }
    out
}

/// Whether the character changes the direction or the lines of the text around it. All of these fit `\uXXXX`.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn columns_stay_aligned_over_pages_and_lines_are_cut_where_there_is_a_width() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        let mut table = TextTable::default();
        assert_eq!(table.lines(&[row(["ID", "NAME"]), row(["abc", ""])]), "ID   NAME\nabc\n");
        assert_eq!(table.lines(&[row(["é", "x"])]), "é    x\n");
        let mut narrow = TextTable::within(Some(6));
        assert_eq!(narrow.lines(&[row(["abc", "d"]), row(["abc", "defg"])]), "abc  d\nabc  …\n");
    }

    #[test]
    fn no_character_that_controls_a_terminal_is_left_in_a_text() {
        assert_eq!(
            visible("a\x1b[2J\u{9b}1m\n\u{202e}b\u{7f}é"),
            "a\\u{1b}[2J\\u{9b}1m\\n\\u{202e}b\\u{7f}é"
        );
    }

    #[test]
    fn json_stays_the_same_value_when_it_is_made_visible() {
        let json = "{\n\"a\": \"\u{9b}31m\u{202e}\u{7f}é\"}";
        let shown = visible_json(json);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n' || turns_text(c)), "{shown}");
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&shown), value(json));
    }
}
