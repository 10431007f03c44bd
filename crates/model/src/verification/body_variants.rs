//! Variants of a body with the same meaning: its possible forms before it was parsed and written again. Numbers stay
//! unchanged.

use crate::json;
use std::fmt;

/// Larger bodies are tried in fewer variants, beyond the second limit in hardly any: each is a copy.
const ALL_VARIANTS_BYTES_MAX: usize = 256 * 1024;
const JSON_VARIANTS_BYTES_MAX: usize = 1024 * 1024;

/// Where the spaces are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    Compact,
    /// After every comma and colon, as Python's `json.dumps` does it.
    Spaced,
    /// The outermost object compact, all within it spaced: an envelope around data that a Python program published.
    SpacedData,
    /// On lines of their own, indented by so many spaces.
    Indented(usize),
    Tabs,
}

/// Which characters are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    AsGiven,
    /// Only characters that must be.
    Minimal,
    /// Non-ASCII characters, as Python does it.
    Ascii,
    /// Non-ASCII characters and slashes, as PHP does it.
    AsciiAndSlashes,
    /// Characters special to HTML, as Go does it.
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyVariant {
    WithoutNewline,
    WithNewline,
    WithoutBom,
    WithBom,
    LineFeeds,
    CarriageReturns,
    Json { spacing: Spacing, escapes: Escapes, is_sorted: bool },
}

impl fmt::Display for BodyVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Json { spacing, escapes, is_sorted } = self else {
            return f.write_str(match self {
                Self::WithoutNewline => "without the line break at its end",
                Self::WithNewline => "with a line break at its end",
                Self::WithoutBom => "without the byte order mark at its beginning",
                Self::WithBom => "with a byte order mark at its beginning",
                Self::LineFeeds => "with line feeds alone (LF)",
                Self::CarriageReturns | Self::Json { .. } => {
                    "with carriage returns before its line feeds (CRLF)"
                }
            });
        };
        match spacing {
            Spacing::Compact => f.write_str("as compact JSON")?,
            Spacing::Spaced => f.write_str("as JSON with a space after every comma and colon")?,
            Spacing::SpacedData => {
                f.write_str("as compact JSON around data that has a space after every comma and colon")?;
            }
            Spacing::Indented(by) => write!(f, "as JSON on several lines, indented by {by} spaces")?,
            Spacing::Tabs => f.write_str("as JSON on several lines, indented by tabs")?,
        }
        if *is_sorted {
            f.write_str(", with sorted keys")?;
        }
        f.write_str(match escapes {
            Escapes::AsGiven => "",
            Escapes::Minimal => ", with characters that are not ASCII written out",
            Escapes::Ascii => ", with characters that are not ASCII escaped",
            Escapes::AsciiAndSlashes => ", with slashes and characters that are not ASCII escaped",
            Escapes::Html => ", with <, > and & escaped",
        })
    }
}

/// Returns all variants that differ from the body and from each other.
pub(super) fn body_variants(body: &[u8]) -> Vec<(BodyVariant, Vec<u8>)> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let mut found: Vec<(BodyVariant, Vec<u8>)> = Vec::new();
    let mut add = |spelling, bytes: Vec<u8>| {
        if bytes != body && !found.iter().any(|(_, known)| *known == bytes) {
            found.push((spelling, bytes));
        }
    };
    add(
        BodyVariant::WithoutNewline,
        body.strip_suffix(b"\n").map_or(body, |b| b.strip_suffix(b"\r").unwrap_or(b)).to_vec(),
    );
    add(BodyVariant::WithNewline, [body, b"\n"].concat());
    add(BodyVariant::WithoutBom, body.strip_prefix(BOM).unwrap_or(body).to_vec());
    add(BodyVariant::WithBom, [BOM, body].concat());
    let Ok(text) = std::str::from_utf8(body.strip_prefix(BOM).unwrap_or(body)) else { return found };
    let unix = text.replace("\r\n", "\n");
    add(BodyVariant::CarriageReturns, unix.replace('\n', "\r\n").into_bytes());
    add(BodyVariant::LineFeeds, unix.into_bytes());
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if text.len() > JSON_VARIANTS_BYTES_MAX || !is_json() {
        return found;
    }
    let mut sorted = Vec::new();
    let sorted =
        json::write_sorted(&mut sorted, text.as_bytes()).and_then(|()| String::from_utf8(sorted).ok());
    let every = [Escapes::AsGiven, Escapes::Minimal, Escapes::Ascii, Escapes::AsciiAndSlashes, Escapes::Html];
    let escapes = if text.len() <= ALL_VARIANTS_BYTES_MAX { &every[..] } else { &every[..1] };
    let spacings = [
        Spacing::Compact,
        Spacing::SpacedData,
        Spacing::Spaced,
        Spacing::Indented(2),
        Spacing::Indented(4),
        Spacing::Tabs,
    ];
    for (is_sorted, text) in [(false, Some(text)), (true, sorted.as_deref())] {
        for (spacing, escapes) in spacings.iter().flat_map(|s| escapes.iter().map(move |e| (*s, *e))) {
            let Some(text) = text else { continue };
            add(BodyVariant::Json { spacing, escapes, is_sorted }, rewrite(text, spacing, escapes));
        }
    }
    found
}

/// Writes JSON on several lines, for people; `None` if the text is no JSON.
pub fn indent_json(text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    String::from_utf8(rewrite(text, Spacing::Indented(2), Escapes::AsGiven)).ok()
}

/// Rewrites valid JSON with this spacing and these escapes.
fn rewrite(text: &str, spacing: Spacing, escapes: Escapes) -> Vec<u8> {
    let (bytes, mut out, mut depth, mut at) =
        (text.as_bytes(), Vec::with_capacity(text.len() * 2), 0usize, 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = at + json::string_length(&bytes[at..]);
                write_string(&mut out, &text[at - 1..(end + 1).min(text.len())], escapes);
                at = end + 1;
            }
            b'{' | b'[' => {
                out.push(byte);
                let next = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                if next.is_some_and(|next| matches!(next, b'}' | b']')) {
                    depth += 1;
                    continue;
                }
                depth += 1;
                write_line_break(&mut out, spacing, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    write_line_break(&mut out, spacing, depth);
                }
                out.push(byte);
            }
            b',' | b':' => {
                out.push(byte);
                match spacing {
                    Spacing::SpacedData if depth > 1 => out.push(b' '),
                    Spacing::Indented(_) | Spacing::Tabs if byte == b',' => {
                        write_line_break(&mut out, spacing, depth);
                    }
                    Spacing::Spaced | Spacing::Indented(_) | Spacing::Tabs => out.push(b' '),
                    Spacing::Compact | Spacing::SpacedData => {}
                }
            }
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

fn write_line_break(out: &mut Vec<u8>, spacing: Spacing, depth: usize) {
    match spacing {
        Spacing::Indented(by) => {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', by * depth));
        }
        Spacing::Tabs => {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b'\t', depth));
        }
        Spacing::Compact | Spacing::Spaced | Spacing::SpacedData => {}
    }
}

/// Rewrites a string; `raw` has its quotes. A string with a lone surrogate stays unchanged.
fn write_string(out: &mut Vec<u8>, raw: &str, escapes: Escapes) {
    let read = if escapes == Escapes::AsGiven { None } else { serde_json::from_str::<String>(raw).ok() };
    let Some(text) = read else { return out.extend_from_slice(raw.as_bytes()) };
    let from = out.len();
    match escapes {
        Escapes::AsGiven | Escapes::Minimal | Escapes::Html => json::write_string(out, &text),
        Escapes::Ascii | Escapes::AsciiAndSlashes => json::write_ascii_string(out, &text),
    }
    let replaced: &[(char, &str)] = match escapes {
        Escapes::AsciiAndSlashes => &[('/', "\\/")],
        Escapes::Html => &[
            ('<', "\\u003c"),
            ('>', "\\u003e"),
            ('&', "\\u0026"),
            ('\u{2028}', "\\u2028"),
            ('\u{2029}', "\\u2029"),
        ],
        Escapes::AsGiven | Escapes::Minimal | Escapes::Ascii => return,
    };
    let written = String::from_utf8_lossy(&out[from..]).into_owned();
    let written = replaced.iter().fold(written, |text, (from, to)| text.replace(*from, to));
    out.truncate(from);
    out.extend_from_slice(written.as_bytes());
}
