//! A file of `src/` or of a crate, split just enough for the rules: code without comments and string literals, and the literals
//! alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) struct SourceFile {
    /// Below `src/`, or the name of its crate and the path below that crate's `src/`; with slashes.
    pub(crate) path: String,
    /// Where it is in the repository.
    pub(crate) location: String,
    pub(crate) whole: String,
    /// The code: comments removed, string literals emptied, unit tests cut off.
    pub(crate) code: String,
    /// The string literals, outside the unit tests.
    pub(crate) texts: Vec<String>,
}

impl SourceFile {
    pub(crate) fn new(path: &str, whole: &str) -> Self {
        let is_test = path.ends_with("_test.rs") || path.ends_with("/tests.rs") || path.contains("/tests/");
        let (code, texts) = if is_test { (String::new(), vec![]) } else { lex(without_unit_tests(whole)) };
        Self { path: path.to_owned(), location: format!("src/{path}"), whole: whole.to_owned(), code, texts }
    }

    /// The folder or file directly below `src/`, or the crate.
    pub(crate) fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// Returns `super::` as often as it takes to get from this file to the crate.
    pub(crate) fn way_up(&self) -> String {
        "super::".repeat(self.path.trim_end_matches("/mod.rs").split('/').count())
    }

    pub(crate) fn is_in(&self, modules: &[&str]) -> bool {
        modules.contains(&self.module())
    }

    /// Returns those words that appear in the code as whole words (a word may be a path).
    pub(crate) fn words<'w>(&self, words: &[&'w str]) -> Vec<&'w str> {
        words.iter().copied().filter(|word| has_word(&self.code, word)).collect()
    }
}

fn without_unit_tests(whole: &str) -> &str {
    let cut =
        ["#[cfg(test)]\nmod ", "#[cfg(test)]\n#[path"].iter().filter_map(|start| whole.find(start)).min();
    &whole[..cut.unwrap_or(whole.len())]
}

pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let inner_edge = |edge: Option<char>| edge.is_some_and(is_part);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !(inner_edge(word.chars().next()) && before.is_some_and(is_part)
            || inner_edge(word.chars().next_back()) && after.is_some_and(is_part))
    })
}

/// Splits Rust into code and string literals. Knows comments, plain and raw strings, and characters (apart from
/// lifetimes).
pub(crate) fn lex(text: &str) -> (String, Vec<String>) {
    let (mut code, mut texts, mut rest) = (String::new(), vec![], text);
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((start, end, after)) = string_at(rest, &code) {
            texts.push(rest[start..end].to_owned());
            code.push_str("\"\"");
            after
        } else if rest.starts_with("'\\") || (first == '\'' && rest.chars().nth(2) == Some('\'')) {
            // The escape itself may be a quote, so the search starts behind it.
            let from = rest
                .char_indices()
                .nth(if rest.starts_with("'\\") { 3 } else { 2 })
                .map_or(rest.len(), |(i, _)| i);
            rest[from..].find('\'').map_or(rest.len(), |end| from + end + 1)
        } else {
            code.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    (code, texts)
}

/// Finds a string that starts here: where its content starts and ends, and where the code goes on.
fn string_at(rest: &str, before: &str) -> Option<(usize, usize, usize)> {
    if rest.starts_with('"') {
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let closes = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            closes
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        return Some((1, end, (end + 1).min(rest.len())));
    }
    let hashes = rest.strip_prefix('r')?.bytes().take_while(|byte| *byte == b'#').count();
    let in_a_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with('b');
    if in_a_word || !rest[1 + hashes..].starts_with('"') {
        return None;
    }
    let (start, close) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
    let end = rest[start..].find(&close).map_or(rest.len(), |at| start + at);
    Some((start, end, (end + close.len()).min(rest.len())))
}

/// Reads every Rust file below `src/` and below the `src/` of each crate.
pub(crate) fn read_sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = read_below(&root.join("src"), |path| (path.to_owned(), format!("src/{path}")));
    for entry in fs::read_dir(root.join("crates")).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a plain name");
        sources.extend(read_below(&entry.path().join("src"), |path| {
            (format!("{name}/{path}"), format!("crates/{name}/src/{path}"))
        }));
    }
    sources.sort_by(|a, b| a.location.cmp(&b.location));
    sources
}

fn read_below(folder: &Path, names: impl Fn(&str) -> (String, String)) -> Vec<SourceFile> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut sources = vec![];
    while let Some(open) = folders.pop() {
        for entry in fs::read_dir(open).expect("a folder") {
            let file = entry.expect("an entry").path();
            if file.is_dir() {
                folders.push(file);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let (path, location) = names(&file.strip_prefix(folder).expect("below it").to_string_lossy());
                let whole = fs::read_to_string(&file).expect("a readable file");
                sources.push(SourceFile { location, ..SourceFile::new(&path, &whole) });
            }
        }
    }
    assert!(!sources.is_empty(), "the walk found nothing below {}", folder.display());
    sources
}

#[test]
fn comments_texts_and_unit_tests_are_separated_from_code() {
    let source = SourceFile::new(
        "engine/x.rs",
        "//! tokio\nlet c = '\"'; let q = '\\''; /* axum */ f(\"SELECT \\\" // x\", r#\"raw \"q\" \"#); fn g<'a>() {}\n\
         #[cfg(test)]\nmod tests { use hyper; }",
    );
    assert_eq!(source.texts, ["SELECT \\\" // x", "raw \"q\" "]);
    assert!(source.code.contains("f(\"\", \"\"); fn g<'a>() {}"), "{}", source.code);
    assert_eq!(source.words(&["tokio", "axum", "hyper", "SELECT"]), Vec::<&str>::new());
}

#[test]
fn words_are_whole() {
    assert!(has_word("use http::Uri", "http::"));
    assert!(!has_word("my_http::Uri", "http::"));
    assert!(!has_word("hyperlink", "hyper"));
}
