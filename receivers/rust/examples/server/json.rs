//! A minimal JSON reader for finding an id: checks the whole text, and keeps the texts of the outermost object.

const DEPTH_MAX: usize = 128;

pub struct Object(Vec<(String, String)>);

impl Object {
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

/// Reads the outermost object. Returns `None` if the body is not JSON or no object.
pub fn object(body: &[u8]) -> Option<Object> {
    let mut reader = Reader { rest: std::str::from_utf8(body).ok()?, texts: Vec::new() };
    if reader.peek()? != '{' {
        return None;
    }
    reader.value(0)?;
    reader.rest.trim_start_matches(WHITE).is_empty().then_some(Object(reader.texts))
}

const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

struct Reader<'a> {
    rest: &'a str,
    texts: Vec<(String, String)>,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches(WHITE);
        self.rest.chars().next()
    }

    fn eat(&mut self, expected: char) -> Option<()> {
        (self.peek()? == expected).then(|| self.rest = &self.rest[expected.len_utf8()..])
    }

    /// Reads one value. Returns a text as written between its quotes.
    fn value(&mut self, depth: usize) -> Option<Option<&'a str>> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            '"' => return self.text().map(Some),
            '{' => self.items('{', '}', |reader| {
                reader.peek().filter(|c| *c == '"')?;
                let name = reader.text()?;
                reader.eat(':')?;
                let value = reader.value(depth + 1)?;
                // Ids contain no characters that JSON escapes, so a text with escapes is no id.
                if let (0, Some(text)) = (depth, value.filter(|text| !text.contains('\\'))) {
                    reader.texts.push((name.to_owned(), text.to_owned()));
                }
                Some(())
            })?,
            '[' => self.items('[', ']', |reader| reader.value(depth + 1).map(|_| ()))?,
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                (matches!(word, "true" | "false" | "null") || is_number(word)).then_some(())?;
            }
        }
        Some(None)
    }

    fn items(&mut self, start: char, end: char, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.eat(start)?;
        if self.peek()? == end {
            return self.eat(end);
        }
        loop {
            item(self)?;
            if self.peek()? == end {
                return self.eat(end);
            }
            self.eat(',')?;
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        let inside = self.rest.strip_prefix('"')?;
        let mut escaped = false;
        for (at, c) in inside.char_indices() {
            match c {
                _ if c < ' ' => return None,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.rest = &inside[at + 1..];
                    return Some(&inside[..at]);
                }
                _ => {}
            }
        }
        None
    }
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && word.bytes().all(|byte| b"+-.eE0123456789".contains(&byte))
        && word.parse::<f64>().is_ok()
}
