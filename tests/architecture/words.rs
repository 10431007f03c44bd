//! Holds `words.toml`, the list of retired names, against code, SQL, comments and documents; and no two exported types share a name.
//!
//! Generated JSON documents, the changelog and the list itself are not read.

use crate::source::{has_word, lex};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const LIST: &str = "tests/architecture/words.toml";
const ROOTS: [&str; 14] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Cargo.toml",
    "check",
    "bench",
    "build",
    "contracts",
    "crates",
    "dashboard",
    "docs",
    "receivers",
    "src",
    "tests",
];
const FOLDERS_SKIPPED: [&str; 4] = ["node_modules", "target", "dist", "__pycache__"];
const EXTENSIONS: [&str; 17] = [
    "", "css", "go", "html", "js", "md", "mjs", "mts", "php", "py", "rs", "sh", "sql", "toml", "ts", "tsx",
    "txt",
];
/// Words by which a string literal is recognised as SQL.
const SQL_WORDS: [&str; 9] = [
    "SELECT",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "WHERE",
    "ALTER TABLE",
    "CREATE TABLE",
    "FROM",
    "RETURNING",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retired {
    /// Words that occur nowhere, nor as a part of a name, each with what to write instead.
    words: BTreeMap<String, String>,
    /// Names that no item, field, or variable has.
    identifiers: BTreeMap<String, String>,
    /// Names that no table and no column has.
    columns: BTreeMap<String, String>,
    #[serde(default)]
    frozen: Vec<Frozen>,
    #[serde(default)]
    exempt: Vec<Exemption>,
}

/// Files that never change, with whatever names they have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frozen {
    files: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exemption {
    file: String,
    names: Vec<String>,
    reason: String,
}

/// The names of a file, by where each rule looks for them.
struct Names {
    /// All words in lower case, those of names too, with a space before and behind each.
    words: String,
    identifiers: BTreeSet<String>,
    columns: BTreeSet<String>,
}

impl Names {
    fn of(path: &str, text: &str) -> Self {
        let (mut identifiers, mut columns) = (code_spans(text), BTreeSet::new());
        match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "rs" => {
                let (code, texts) = lex(text);
                identifiers.extend(names(&code));
                for sql in texts.iter().filter(|text| SQL_WORDS.iter().any(|word| has_word(text, word))) {
                    columns.extend(names(&sql_code(sql)));
                }
            }
            "sql" => columns.extend(names(&sql_code(text))),
            "ts" | "tsx" | "mjs" | "mts" | "js" | "py" | "go" | "php" => identifiers.extend(declared(text)),
            _ => {}
        }
        Self { words: words(text), identifiers, columns }
    }
}

impl Retired {
    fn read() -> Self {
        let text = fs::read_to_string(root().join(LIST)).expect("the list of retired names");
        toml::from_str(&text).expect("words, identifiers, columns and exemptions")
    }

    /// Returns the retired names in a file, each with the name to use.
    fn found(&self, names: &Names) -> Vec<(&str, &str)> {
        let has = |word: &str| {
            names.words.contains(&format!(" {word} ")) || names.words.contains(&format!(" {word}s "))
        };
        let words = self.words.iter().filter(|(word, _)| has(word));
        let identifiers = self.identifiers.iter().filter(|(name, _)| names.identifiers.contains(*name));
        let columns = self.columns.iter().filter(|(name, _)| names.columns.contains(*name));
        let all = words.chain(identifiers).chain(columns);
        all.map(|(name, instead)| (name.as_str(), instead.as_str())).collect()
    }

    fn exempts(&self, path: &str, name: &str) -> bool {
        let is_frozen = self.frozen.iter().flat_map(|frozen| &frozen.files).any(|file| file == path);
        is_frozen
            || self
                .exempt
                .iter()
                .any(|exempt| exempt.file == path && exempt.names.iter().any(|known| known == name))
    }

    /// Names every retired name that is in use without an exemption.
    fn broken_by(&self, path: &str, text: &str) -> Vec<String> {
        let found = self.found(&Names::of(path, text)).into_iter();
        found
            .filter(|(name, _)| !self.exempts(path, name))
            .map(|(name, instead)| {
                format!("{path}:{}: `{name}` is retired: write {instead}", line_number(text, name))
            })
            .collect()
    }

    /// Names every exemption of this file that nothing needs.
    fn useless(&self, path: &str, text: &str) -> Vec<String> {
        let names = Names::of(path, text);
        let found: Vec<&str> = self.found(&names).into_iter().map(|(name, _)| name).collect();
        let of_file =
            self.exempt.iter().filter(|exempt| exempt.file == path).flat_map(|exempt| &exempt.names);
        let needless = of_file.filter(|name| !found.contains(&name.as_str())).map(String::as_str);
        let is_frozen = self.frozen.iter().flat_map(|frozen| &frozen.files).any(|file| file == path);
        let needless = needless.chain((is_frozen && found.is_empty()).then_some("anything"));
        needless.map(|name| format!("{path} needs no exemption for {name} any more")).collect()
    }

    /// All files with an exemption, each with its reason.
    fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        let frozen =
            self.frozen.iter().flat_map(|frozen| frozen.files.iter().map(|file| (file, &frozen.reason)));
        let exempt = self.exempt.iter().map(|exempt| (&exempt.file, &exempt.reason));
        frozen.chain(exempt).map(|(file, reason)| (file.as_str(), reason.as_str()))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Splits a text into lower-case words; `QueueState` and `queue_state` are two words each.
fn words(text: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends_capitals =
            characters.peek().is_some_and(|next| next.is_lowercase()) && before.is_uppercase();
        let starts = character.is_uppercase() && (before.is_lowercase() || ends_capitals);
        if (starts || !character.is_alphabetic()) && !words.ends_with(' ') {
            words.push(' ');
        }
        if character.is_alphabetic() {
            words.extend(character.to_lowercase());
        }
        before = character;
    }
    words.push(' ');
    words
}

fn names(code: &str) -> impl Iterator<Item = String> + '_ {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Names in backticks, as comments and documents write them.
fn code_spans(text: &str) -> BTreeSet<String> {
    let is_name = |span: &&str| !span.is_empty() && span.chars().all(|c| c.is_alphanumeric() || c == '_');
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

/// SQL without its comments and its string literals.
fn sql_code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(|line| line.split('\'').step_by(2).chain(["\n"])).collect()
}

/// Names that a file in a language other than Rust declares.
fn declared(text: &str) -> BTreeSet<String> {
    let declares = ["const", "let", "function", "class", "type", "interface", "enum", "def", "func", "var"];
    let mut declared = BTreeSet::new();
    for line in text.lines() {
        let mut before = "";
        for name in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if declares.contains(&before) {
                declared.insert(name.to_owned());
            }
            before = name;
        }
    }
    declared
}

/// The first line with a name, for the message.
fn line_number(text: &str, name: &str) -> usize {
    let has = |line: &str| has_word(line, name) || words(line).contains(&format!(" {name}"));
    text.lines().position(has).map_or(0, |line| line + 1)
}

/// Reads every file that a contributor writes.
fn read_files() -> Vec<(String, String)> {
    let mut paths: Vec<_> = ROOTS.iter().map(|path| root().join(path)).collect();
    let mut files = vec![];
    while let Some(path) = paths.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !FOLDERS_SKIPPED.contains(&name.as_str()) {
                paths.extend(
                    fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()),
                );
            }
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let below = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        if EXTENSIONS.contains(&extension.as_str()) && below != LIST && !name.starts_with('.') {
            files.push((below, fs::read_to_string(&path).expect("a readable file")));
        }
    }
    assert!(files.len() > 500, "the walk found next to nothing");
    files.sort();
    files
}

#[test]
fn retired_names_stay_retired() {
    let retired = Retired::read();
    let broken: Vec<String> =
        read_files().iter().flat_map(|(path, text)| retired.broken_by(path, text)).collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn every_exemption_is_needed_and_has_a_reason() {
    let (retired, files) = (Retired::read(), read_files());
    let useless: Vec<String> = files.iter().flat_map(|(path, text)| retired.useless(path, text)).collect();
    assert!(useless.is_empty(), "\n{}\n", useless.join("\n"));
    for (file, reason) in retired.reasons() {
        assert!(files.iter().any(|(path, _)| path == file), "{file} is no file");
        assert!(reason.split_whitespace().count() > 3, "{file}: say why");
    }
}

fn example() -> Retired {
    let list = "[words]\nzeppelin = \"airship\"\n\"left luggage\" = \"baggage\"\n[identifiers]\nhum = \"noise\"\n\
        [columns]\nlost = \"missing\"\n[[exempt]]\nfile = \"src/old.rs\"\nnames = [\"zeppelin\"]\nreason = \"It is a stored name.\"\n\
        [[frozen]]\nfiles = [\"src/first.sql\"]\nreason = \"It never changes at all.\"\n";
    toml::from_str(list).expect("a list")
}

#[test]
fn each_rule_turns_red_on_its_examples() {
    for (path, text) in [
        ("src/x.rs", "struct ZeppelinState;"),
        ("src/x.rs", "let open_zeppelins = 1;"),
        ("src/x.rs", "// Waits for the zeppelin."),
        ("docs/x.md", "All left\n  luggage is kept."),
        ("tests/x.rs", "fn no_left_luggage_remains() {}"),
        ("src/x.rs", "let hum = 1;"),
        ("src/x.rs", "/// Reads `hum`."),
        ("docs/x.md", "The type `hum` is noise."),
        ("dashboard/src/x.ts", "export const hum = 1"),
        ("receivers/x.py", "def hum():"),
        ("src/x.rs", "let q = \"SELECT lost FROM t\";"),
        ("src/x.sql", "ALTER TABLE t ADD COLUMN lost bigint;"),
    ] {
        assert!(!example().broken_by(path, text).is_empty(), "{path}: {text}");
    }
    for (path, text) in [
        ("src/x.rs", "// They hum, and are lost. The luggage left.\nlet humming = \"hum\"; let lost = 1;"),
        ("src/x.rs", "let q = \"SELECT a FROM t WHERE b = 'lost'\";"),
        ("src/x.sql", "-- It is lost.\nSELECT a FROM t"),
        ("docs/x.md", "They hum."),
        ("src/old.rs", "let zeppelin = 1;"),
        ("src/first.sql", "CREATE TABLE zeppelins (lost bigint)"),
    ] {
        assert_eq!(example().broken_by(path, text), Vec::<String>::new(), "{path}: {text}");
    }
    assert_eq!(example().useless("src/old.rs", "let zeppelin = 1;"), Vec::<String>::new());
    assert!(!example().useless("src/old.rs", "let airship = 1;").is_empty());
    assert!(!example().useless("src/first.sql", "CREATE TABLE airships (id bigint)").is_empty());
}

/// Files whose exported types must have names of their own: those of the product, and the load generator, which uses them.
const EXPORTING: [&str; 3] = ["src/", "bench/src/", "crates/"];

/// Returns the exported types of a file. A module's own `Error` is named by its module.
fn exported_types(text: &str) -> Vec<String> {
    let (code, _) = lex(text);
    let mut types = vec![];
    for (at, _) in code.match_indices("pub") {
        let item = code[at + 3..].trim_start();
        // Behind `pub` there may be a scope in parentheses.
        let item =
            item.strip_prefix('(').map_or(item, |scope| scope.split_once(')').map_or("", |(_, item)| item));
        let mut words =
            item.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        if let Some("struct" | "enum" | "trait" | "union" | "type") = words.next() {
            // A name in lower case is the argument of a macro.
            let is_type = |name: &&str| *name != "Error" && name.starts_with(char::is_uppercase);
            types.extend(words.next().filter(is_type).map(str::to_owned));
        }
    }
    types
}

/// Names every exported type that a file before has exported too.
fn exported_twice(files: &[(String, String)]) -> Vec<String> {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    let mut twice = vec![];
    for (path, text) in files.iter().filter(|(path, _)| EXPORTING.iter().any(|root| path.starts_with(root))) {
        for name in exported_types(text) {
            if let Some(other) = known.insert(name.clone(), path) {
                twice.push(format!("{path}: {other} exports a type `{name}` too"));
            }
        }
    }
    twice
}

#[test]
fn no_two_exported_types_have_one_name() {
    let files: Vec<_> = read_files()
        .into_iter()
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|extension| extension == "rs"))
        .collect();
    let twice = exported_twice(&files);
    assert!(twice.is_empty(), "\n{}\n", twice.join("\n"));

    let files = |second: &str| {
        [("src/a.rs", "pub struct Queue;"), ("bench/src/b.rs", second)]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
    };
    for second in ["pub enum Queue {}", "pub(crate) type Queue = u8;", "pub(in crate::x) trait Queue {}"] {
        assert_eq!(exported_twice(&files(second)).len(), 1, "{second}");
    }
    for second in [
        "struct Queue;",
        "pub struct Queues;",
        "pub enum Error {}\npub enum Error {}",
        "// pub struct Queue;",
    ] {
        assert_eq!(exported_twice(&files(second)), Vec::<String>::new(), "{second}");
    }
}
