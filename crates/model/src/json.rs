//! JSON as bytes: writes strings, finds members of objects, and makes the sorted form, never turning a number into a
//! float. Input is JSON that was checked when it was accepted; other input never causes a panic.

mod number;

pub use number::first_inexact_number;

/// Deeper nesting than this is refused; it is also refused when an event is accepted.
const DEPTH_MAX: u32 = 128;

/// Whether brackets outside of strings nest deeper than allowed, in JSON that is known to be valid.
pub fn is_too_deep(json: &[u8]) -> bool {
    // Brackets in strings count here too; then the exact count decides.
    let opening = json.iter().filter(|&&byte| byte == b'[' || byte == b'{').count();
    opening > DEPTH_MAX as usize && depth(json) > DEPTH_MAX
}

fn depth(json: &[u8]) -> u32 {
    let (mut depth, mut deepest, mut at) = (0u32, 0, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at += string_length(&json[at..]) + 1,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Writes `text` as a JSON string with no more escapes than needed.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut plain_from = 0;
    for (i, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[plain_from..i]);
        write_code_point(out, u32::from(byte));
        plain_from = i + 1;
    }
    out.extend_from_slice(&text.as_bytes()[plain_from..]);
    out.push(b'"');
}

/// Writes `text` as a JSON string in ASCII, escaped as Python's `json.dumps` does it.
pub(super) fn write_ascii_string(out: &mut Vec<u8>, text: &str) {
    write_code_points(out, text.chars().map(u32::from));
}

/// Returns the bytes between the braces, if `json` is an object.
pub(super) fn object_interior(json: &[u8]) -> Option<&[u8]> {
    json.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")
}

/// Whether `inside`, the bytes between an object's braces, has a member of this name in any spelling.
pub(super) fn has_member(inside: &[u8], name: &str) -> bool {
    let (mut depth, mut at, mut is_key) = (0u32, 0, true);
    while let Some(&byte) = inside.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = at + string_length(&inside[at..]);
                if depth == 0 && is_key && is_spelling_of(&inside[at..end], name) {
                    return true;
                }
                is_key = false;
                at = end + 1;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => is_key = depth == 0,
            _ => {}
        }
    }
    false
}

/// Writes `json` in the sorted form: keys by code point at every depth, of duplicate keys the last, no spaces,
/// strings as Python's `json.dumps` escapes them, numbers as given.
pub(super) fn write_sorted(out: &mut Vec<u8>, json: &[u8]) -> Option<()> {
    let mut reader = JsonReader { rest: std::str::from_utf8(json).ok()?.as_bytes() };
    let node = reader.value(0)?;
    reader.skip_space();
    reader.rest.is_empty().then(|| write_node(out, &node))
}

/// A value parsed as far as sorting needs it.
enum JsonNode<'a> {
    /// A number, `true`, `false` or `null`.
    Literal(&'a [u8]),
    /// A string, as code points: JSON can name lone surrogates, which `str` cannot hold.
    Text(Vec<u32>),
    List(Vec<JsonNode<'a>>),
    Object(Vec<(Vec<u32>, JsonNode<'a>)>),
}

struct JsonReader<'a> {
    rest: &'a [u8],
}

impl<'a> JsonReader<'a> {
    fn value(&mut self, depth: u32) -> Option<JsonNode<'a>> {
        self.skip_space();
        match self.rest.first()? {
            b'{' | b'[' if depth == DEPTH_MAX => None,
            b'{' => self.object(depth + 1),
            b'[' => self.list(depth + 1),
            b'"' => self.string().map(JsonNode::Text),
            _ => self.literal(),
        }
    }

    fn object(&mut self, depth: u32) -> Option<JsonNode<'a>> {
        self.consume(b'{')?;
        let mut members = Vec::new();
        if self.consume(b'}').is_some() {
            return Some(JsonNode::Object(members));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            self.consume(b':')?;
            members.push((key, self.value(depth)?));
            if self.consume(b',').is_none() {
                self.consume(b'}')?;
                break;
            }
        }
        // The sort is stable, so the last of equal keys is the last given.
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        members.reverse();
        members.dedup_by(|(a, _), (b, _)| a == b);
        members.reverse();
        Some(JsonNode::Object(members))
    }

    fn list(&mut self, depth: u32) -> Option<JsonNode<'a>> {
        self.consume(b'[')?;
        let mut entries = Vec::new();
        if self.consume(b']').is_some() {
            return Some(JsonNode::List(entries));
        }
        loop {
            entries.push(self.value(depth)?);
            if self.consume(b',').is_none() {
                self.consume(b']')?;
                return Some(JsonNode::List(entries));
            }
        }
    }

    fn string(&mut self) -> Option<Vec<u32>> {
        self.rest = self.rest.strip_prefix(b"\"")?;
        let (inside, after) = self.rest.split_at(string_length(self.rest));
        self.rest = after.strip_prefix(b"\"")?;
        code_points(inside)
    }

    fn literal(&mut self) -> Option<JsonNode<'a>> {
        let is_bare = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
        let length = self.rest.iter().take_while(|b| is_bare(b)).count();
        let (bare, after) = self.rest.split_at(length);
        self.rest = after;
        (length > 0).then_some(JsonNode::Literal(bare))
    }

    fn consume(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}

/// Returns the number of bytes before the quote that ends a string.
pub(super) fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn is_spelling_of(raw: &[u8], name: &str) -> bool {
    if !raw.contains(&b'\\') {
        return raw == name.as_bytes();
    }
    code_points(raw).is_some_and(|points| points.iter().copied().eq(name.chars().map(u32::from)))
}

/// Decodes the bytes between a string's quotes.
fn code_points(raw: &[u8]) -> Option<Vec<u32>> {
    let text = std::str::from_utf8(raw).ok()?;
    let mut points = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            points.push(u32::from(c));
            continue;
        }
        let point = match chars.next()? {
            'b' => 0x08,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'u' => hexadecimal(&mut chars)?,
            c @ ('"' | '\\' | '/') => u32::from(c),
            _ => return None,
        };
        match points.last_mut() {
            // Only escapes yield surrogates, so a high one just before is the other half of a pair.
            Some(high) if (0xd800..0xdc00).contains(high) && (0xdc00..0xe000).contains(&point) => {
                *high = 0x10000 + ((*high - 0xd800) << 10) + (point - 0xdc00);
            }
            _ => points.push(point),
        }
    }
    Some(points)
}

fn hexadecimal(chars: &mut std::str::Chars) -> Option<u32> {
    (0..4).try_fold(0, |number, _| Some(number << 4 | chars.next()?.to_digit(16)?))
}

fn write_node(out: &mut Vec<u8>, node: &JsonNode) {
    match node {
        JsonNode::Literal(bare) => out.extend_from_slice(bare),
        JsonNode::Text(points) => write_code_points(out, points.iter().copied()),
        JsonNode::List(entries) => {
            out.push(b'[');
            for (i, entry) in entries.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_node(out, entry);
            }
            out.push(b']');
        }
        JsonNode::Object(members) => {
            out.push(b'{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_code_points(out, key.iter().copied());
                out.push(b':');
                write_node(out, value);
            }
            out.push(b'}');
        }
    }
}

fn write_code_points(out: &mut Vec<u8>, points: impl Iterator<Item = u32>) {
    out.push(b'"');
    points.for_each(|point| write_code_point(out, point));
    out.push(b'"');
}

/// Writes a character as Python's `json.dumps` does with its defaults.
fn write_code_point(out: &mut Vec<u8>, point: u32) {
    match point {
        0x22 => out.extend_from_slice(b"\\\""),
        0x5c => out.extend_from_slice(b"\\\\"),
        0x20..=0x7e => out.push(point as u8),
        0x08 => out.extend_from_slice(b"\\b"),
        0x09 => out.extend_from_slice(b"\\t"),
        0x0a => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        0x0d => out.extend_from_slice(b"\\r"),
        0x10000.. => {
            let above = point - 0x10000;
            write_unit(out, 0xd800 + (above >> 10));
            write_unit(out, 0xdc00 + (above & 0x3ff));
        }
        _ => write_unit(out, point),
    }
}

fn write_unit(out: &mut Vec<u8>, unit: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    out.extend((0..4).rev().map(|index| DIGITS[(unit >> (4 * index)) as usize & 15]));
}

#[cfg(test)]
mod tests;
