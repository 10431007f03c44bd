//! Rules of the documents: `docs/ARCHITECTURE.md` is short, has its four pictures, shows the modules and the states as they are
//! in the code, and explains each word once. Paths that documents and comments name exist.

use super::{ALLOWED_USES, source::read_sources};
use posthaste::domain::delivery::DeliveryState;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const DECISIONS_INDEX: &str = "docs/decisions/README.md";
const WORDS_MAX: usize = 2000;

/// Words of the glossary that the code uses.
const GLOSSARY: &[&str] = &[
    "app",
    "event",
    "event type",
    "endpoint",
    "contract",
    "delivery",
    "attempt",
    "outcome",
    "verdict",
    "dead letter",
    "retry",
    "extra attempt",
    "replay",
    "backfill",
    "fan-out",
    "endpoint queue",
    "permit",
    "lease",
    "group commit",
    "commit listener",
    "live update",
    "ordering group",
    "circuit breaker",
    "outage detector",
    "outage-adjusted time",
    "notice",
    "inspection",
    "probe",
    "epoch",
    "shard",
    "heartbeat",
    "node lease",
    "takeover",
    "leader",
    "send gate",
];

/// Folders that are made by tools or belong to other projects.
const NOT_OURS: &[&str] = &["target", "node_modules", ".git"];
const FILE_ENDINGS: &[&str] =
    &["rs", "md", "toml", "json", "sql", "js", "mjs", "ts", "tsx", "css", "html", "py", "php", "go", "sh"];

/// Every file and folder of the repository, relative to its root.
static PATHS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut paths = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            paths.insert(path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(paths.len() > 500, "the walk found next to nothing");
    paths
});

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_architecture_document_holds_its_rules() {
    let text = read(ARCHITECTURE);
    let broken: Vec<String> = [too_many_words, wrong_pictures, wrong_glossary, missing_paths]
        .iter()
        .flat_map(|rule| rule(&text))
        .collect();
    assert!(broken.is_empty(), "{ARCHITECTURE}:\n{}\n", broken.join("\n"));
}

#[test]
fn paths_in_other_documents_exist() {
    let broken: Vec<String> = PATHS
        .iter()
        .filter(|path| is_for_developers(path))
        .flat_map(|path| {
            missing_tails(&read(path), &[""]).into_iter().map(move |why| format!("{path}: {why}"))
        })
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn paths_in_comments_exist() {
    let broken: Vec<String> = read_sources()
        .iter()
        .flat_map(|source| {
            let why = missing_tails(&comments_of(&source.whole), &["src/", "crates/"]);
            why.into_iter().map(|why| format!("{}: {why}", source.location))
        })
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn the_index_lists_every_decision() {
    let index = read(DECISIONS_INDEX);
    let decisions: Vec<&str> = PATHS
        .iter()
        .filter_map(|path| path.strip_prefix("docs/decisions/"))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    assert!(decisions.len() > 20, "the walk found {decisions:?}");
    let broken: Vec<String> = decisions
        .iter()
        .flat_map(|name| wrong_decision(name, &read(&format!("docs/decisions/{name}")), &index))
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn the_rules_of_documents_turn_red_on_their_examples() {
    let text = read(ARCHITECTURE);
    let change = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    for (rule, changed) in [
        (too_many_words as fn(&str) -> Vec<String>, "word ".repeat(WORDS_MAX + 1)),
        (wrong_pictures, change("\n## Modules\n", "\n## Rooms\n")),
        (wrong_pictures, change("```mermaid\nstateDiagram-v2", "stateDiagram-v2")),
        (wrong_pictures, change("    store --> model\n", "    store --> model & engine\n")),
        (wrong_pictures, change("    runtime --> functions & model\n", "")),
        (wrong_pictures, text.replace("expired", "outdated")),
        (wrong_pictures, change("\"src/api/publish.rs: ", "\"src/api/no_such_file.rs: ")),
        (wrong_glossary, change("| shard | ", "| part | ")),
        (wrong_glossary, change("| shard | ", "| lease | twice |\n| shard | ")),
        (missing_paths, change("`crates/model/src/verdict.rs`", "`crates/model/src/no_such_file.rs`")),
        (missing_paths, change("`tests/conformance`", "`tests/no_such_folder`")),
        (missing_paths, change("`crates/model/src/verdict.rs`", "`verdict.rs`")),
    ] {
        assert!(!rule(&changed).is_empty(), "no rule was broken by:\n{changed:.300}");
    }
    for text in [
        "`store/sql/no_such_file.rs`",
        "`docs/decisions/0000-nothing.md`",
        "`tests/no_such_folder/`",
        "`no_such_file.rs`",
    ] {
        assert!(!missing_tails(text, &[""]).is_empty(), "{text}");
    }
    for text in
        ["`store/sql/mod.rs`", "`docs/decisions/`", "`/dev/shm/x.md`", "`a --b c.rs`", "no_such_file.rs"]
    {
        assert_eq!(missing_tails(text, &[""]), Vec::<String>::new(), "{text}");
    }
    assert!(!missing_tails("`architecture/main.rs`", &["src/"]).is_empty(), "a test's file is none of src");
    assert_eq!(comments_of("let a = 1; // one\nlet b = 2;\n/// `c`\n"), "// one\n/// `c`\n");
}

#[test]
fn the_rule_of_decisions_turns_red_on_its_examples() {
    let (name, row) =
        ("0001-a.md", "| [0001](0001-a.md) | A title | accepted | 2026-11-15 | In a sentence. |");
    let decision = "# 1. A title\n\nStatus: accepted\nDate: 2026-11-15\n\n## Context\n\n## Decision\n\n## Consequences\n";
    assert_eq!(wrong_decision(name, decision, row), Vec::<String>::new());
    for (from, to) in [
        ("A title", "Another"),
        ("accepted", "superseded by 0002"),
        ("2026-11-15", "2026-11-16"),
        ("# 1.", "# 2."),
        ("Status: ", ""),
        ("## Context", "## Why"),
        ("## Consequences", ""),
    ] {
        assert!(!wrong_decision(name, &decision.replace(from, to), row).is_empty(), "{from}");
    }
    assert!(!wrong_decision("0003-b.md", decision, row).is_empty());
}

/// Documents about the code. Documents for users also name files of theirs.
fn is_for_developers(path: &str) -> bool {
    const NAMES: &[&str] =
        &["CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "dashboard/README.md", "docs/performance.md"];
    NAMES.contains(&path) || path.starts_with("docs/decisions/") && is_markdown(path)
}

fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Returns the comments of Rust code, each to the end of its line.
fn comments_of(code: &str) -> String {
    code.lines().filter_map(|line| line.find("//").map(|at| format!("{}\n", &line[at..]))).collect()
}

/// A decision has a title, status, date and three sections, and its row of the index says the same.
fn wrong_decision(name: &str, text: &str, index: &str) -> Vec<String> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
    let number = name.split('-').next().unwrap_or_default();
    let title = line(&format!("# {}. ", number.trim_start_matches('0')));
    let (status, date) = (line("Status: "), line("Date: "));
    let mut broken = vec![];
    for (part, found) in [("title", title), ("status", status), ("date", date)] {
        if found.is_empty() {
            broken.push(format!("{name}: no {part}"));
        }
    }
    let has = |section: &&str| text.lines().any(|line| line == format!("## {section}"));
    let sections = ["Context", "Decision", "Consequences"];
    broken.extend(
        sections.iter().filter(|section| !has(section)).map(|section| format!("{name}: no {section}")),
    );
    let row = format!("| [{number}]({name}) | {title} | {status} | {date} | ");
    if !index.lines().any(|line| line.starts_with(&row)) {
        broken.push(format!("{name}: the index has no row {row}"));
    }
    broken
}

fn too_many_words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().count();
    if words > WORDS_MAX { vec![format!("{words} words, at most {WORDS_MAX}")] } else { vec![] }
}

/// The pictures: concepts, modules, states, the way of an event. Those of modules and states say what the code says.
fn wrong_pictures(text: &str) -> Vec<String> {
    let picture = |heading: &str| {
        let section = text.split("\n## ").find(|section| section.lines().next() == Some(heading))?;
        let (_, picture) = section.split_once("```mermaid\n")?;
        Some(picture.split_once("```")?.0)
    };
    let pictures = ["The idea", "Modules", "States of a delivery", "The way of an event"];
    let mut broken: Vec<String> = pictures
        .into_iter()
        .filter(|heading| picture(heading).is_none())
        .map(|heading| format!("no picture: {heading}"))
        .collect();
    if let Some(modules) = picture("Modules") {
        // Modules of `src/` call the model by its former name.
        let named = |uses: &[&str]| uses.iter().map(|name| name.replace("domain", "model")).collect();
        let of_modules = ALLOWED_USES.iter().map(|(module, uses)| ((*module).to_owned(), named(uses)));
        for (part, allowed) in of_modules.chain(crate_dependencies()) {
            let drawn: BTreeSet<String> =
                arrows(modules).remove(&*part).unwrap_or_default().into_iter().map(str::to_owned).collect();
            if drawn != allowed {
                broken.push(format!("{part} may use {allowed:?}, and the picture shows {drawn:?}"));
            }
        }
    }
    if let Some(states) = picture("States of a delivery") {
        let known: BTreeSet<&str> = states.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let missing = DeliveryState::ALL.into_iter().filter(|state| !known.contains(state.name()));
        broken.extend(missing.map(|state| format!("the state {} is not in the picture", state.name())));
    }
    if let Some(way) = picture("The way of an event") {
        let files =
            way.split(['"', ':']).filter(|part| part.starts_with("src/") || part.starts_with("crates/"));
        broken
            .extend(files.filter(|file| !PATHS.contains(*file)).map(|file| format!("{file} does not exist")));
    }
    broken
}

/// Returns each crate with those that it depends on.
fn crate_dependencies() -> Vec<(String, BTreeSet<String>)> {
    let folders = PATHS.iter().filter_map(|path| path.strip_prefix("crates/"));
    let names: BTreeSet<&str> = folders.filter(|path| !path.contains('/')).collect();
    let dependencies = |name: &str| {
        let manifest: toml::Table = read(&format!("crates/{name}/Cargo.toml")).parse().expect("a manifest");
        let all = manifest.get("dependencies").and_then(toml::Value::as_table).expect("dependencies");
        all.keys().filter(|key| names.contains(key.as_str())).cloned().collect()
    };
    names.iter().map(|name| ((*name).to_owned(), dependencies(name))).collect()
}

/// Returns the targets of each source in lines like `a --> b & c`.
fn arrows(picture: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in picture.lines().filter_map(|line| line.split_once("-->")) {
        arrows.entry(from.trim()).or_default().extend(to.split('&').map(str::trim));
    }
    arrows
}

/// The glossary has every word once.
fn wrong_glossary(text: &str) -> Vec<String> {
    let section = text.split("\n## ").find(|section| section.starts_with("Glossary")).unwrap_or_default();
    let row =
        |line: &'_ str| line.strip_prefix("| ").and_then(|row| row.split_once(" | ")).map(|row| row.0.len());
    let words: Vec<&str> =
        section.lines().filter_map(|line| row(line).map(|end| &line[2..2 + end])).collect();
    let wrong = GLOSSARY.iter().filter(|word| words.iter().filter(|known| known == word).count() != 1);
    wrong.map(|word| format!("the glossary must explain `{word}` once")).collect()
}

/// Paths of the text that do not exist. They begin at the root of the repository.
fn missing_paths(text: &str) -> Vec<String> {
    named_paths(text)
        .filter(|path| !PATHS.contains(*path))
        .map(|path| format!("{path} does not exist"))
        .collect()
}

/// Paths of the text that exist neither from the root nor as the end of a path below one of `folders`.
fn missing_tails(text: &str, folders: &[&str]) -> Vec<String> {
    let below = || PATHS.iter().filter(|path| folders.iter().any(|folder| path.starts_with(folder)));
    let exists = |tail: &str| PATHS.contains(tail) || below().any(|path| Path::new(path).ends_with(tail));
    named_paths(text).filter(|path| !exists(path)).map(|path| format!("{path} does not exist")).collect()
}

/// Returns what stands in backticks and looks like a path: a file's name, or folders of this repository.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let in_backticks = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    in_backticks.map(|token| token.trim_end_matches('/')).filter(|token| {
        let is_plain = token.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        let has_ending = token
            .rsplit_once('.')
            .is_some_and(|(name, ending)| !name.is_empty() && FILE_ENDINGS.contains(&ending));
        let first = token.split('/').next().unwrap_or_default();
        let is_folder = token.contains('/') && PATHS.contains(first);
        is_plain && !token.starts_with(['/', '.']) && (has_ending || is_folder)
    })
}
