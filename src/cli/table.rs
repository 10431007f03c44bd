//! Text for people: aligned columns, and characters that cannot drive the terminal they are shown on.

use std::fmt::Write;

pub(super) fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The text with everything escaped that a terminal might obey or that would make it read otherwise than it is.
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

/// The same for JSON, which stays the same value: whitespace between its parts is left alone.
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

/// Whether it changes the direction or the lines of the text around it. All of these fit `\uXXXX`.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn nothing_that_drives_a_terminal_is_left_in_a_text() {
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
