//! Rules of the sentences: a doc comment begins with a noun or a verb and not with a pronoun, and speaks of components where
//! there are no people.

use std::{
    fs,
    path::{Path, PathBuf},
};

const FOLDERS: [&str; 5] = ["src", "crates", "tests", "bench", "build"];
const NOT_OURS: &[&str] = &["target", "node_modules"];

/// Beginnings that point at something outside the sentence.
const PRONOUNS: &[&str] = &[
    "What",
    "One",
    "Of",
    "The same",
    "It",
    "Nothing",
    "Those",
    "Whoever",
    "Nobody",
    "Somebody",
    "Everybody",
    "He",
    "They",
];
/// Most doc comments of a hundred that may begin with a pronoun.
const PRONOUNS_PER_HUNDRED_MAX: usize = 2;

/// Words for people where there are components. In backticks they are names, as the system's user `nobody`.
const PEOPLE: &[&str] = &["whoever", "nobody", "somebody", "everybody"];

/// A doc comment: the lines of one kind (`///` or `//!`) that follow each other, joined.
struct DocComment {
    location: String,
    text: String,
}

#[test]
fn doc_comments_begin_with_their_subject() {
    let comments = read_doc_comments();
    let broken: Vec<_> = comments.iter().filter(|comment| begins_with_pronoun(&comment.text)).collect();
    println!("{} of {} doc comments begin with a pronoun:", broken.len(), comments.len());
    for comment in &broken {
        println!("{}: {:.80}", comment.location, comment.text);
    }
    assert!(comments.len() > 5000, "the walk found {} doc comments", comments.len());
    assert!(
        !is_too_many(broken.len(), comments.len()),
        "{} of {} doc comments begin with a pronoun, at most {PRONOUNS_PER_HUNDRED_MAX} % may",
        broken.len(),
        comments.len()
    );
}

#[test]
fn doc_comments_speak_of_components() {
    let comments = read_doc_comments();
    let broken: Vec<String> = comments
        .iter()
        .filter_map(|comment| person_in(&comment.text).map(|word| format!("{}: {word}", comment.location)))
        .collect();
    println!(
        "{} of {} doc comments say whoever, nobody, somebody or everybody",
        broken.len(),
        comments.len()
    );
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn the_rules_turn_red_on_their_examples() {
    for text in [
        "What a node does.",
        "The same of an app.",
        "It is a row.",
        "One, or none.",
        "Of an app",
        "They wait.",
    ] {
        assert!(begins_with_pronoun(text), "{text}");
    }
    for text in
        ["Itself a row.", "Whatever is due.", "The sameness.", "Ofttimes.", "Releases a slot. It was sent."]
    {
        assert!(!begins_with_pronoun(text), "{text}");
    }
    for text in ["Whoever asks gets it.", "Sent by somebody.", "Nobody, and nothing.", "(everybody)"] {
        assert!(person_in(text).is_some(), "{text}");
    }
    for text in ["Runs as the user `nobody`.", "`whoever` and `everybody` are words.", "Somebodyelse."] {
        assert_eq!(person_in(text), None, "{text}");
    }
    assert!(is_too_many(3, 100) && is_too_many(1, 49) && !is_too_many(2, 100) && !is_too_many(0, 1));
}

#[test]
fn doc_comments_are_whole_blocks() {
    let text = "//! What this\n//! is.\n\n/// A row.\n    /// It has a state.\nfn f() {} // no\n//// no\n/// Another.\n";
    let found: Vec<_> =
        doc_comments("x.rs", text).into_iter().map(|comment| (comment.location, comment.text)).collect();
    let expected =
        [("x.rs:1", "What this is."), ("x.rs:4", "A row. It has a state."), ("x.rs:8", "Another.")];
    assert_eq!(found, expected.map(|(location, text)| (location.to_owned(), text.to_owned())));
}

fn is_too_many(broken: usize, all: usize) -> bool {
    broken * 100 > all * PRONOUNS_PER_HUNDRED_MAX
}

fn begins_with_pronoun(text: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
    PRONOUNS.iter().any(|pronoun| text.strip_prefix(pronoun).is_some_and(is_end))
}

fn person_in(text: &str) -> Option<&'static str> {
    let prose: String = text.split('`').step_by(2).collect();
    let words: Vec<String> = prose.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    PEOPLE.iter().copied().find(|person| words.iter().any(|word| word == person))
}

fn read_doc_comments() -> Vec<DocComment> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    let mut comments = vec![];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_searched = !NOT_OURS.iter().any(|name| path.ends_with(name));
            if path.is_dir() && is_searched {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(root).expect("below the root").to_string_lossy();
                comments.extend(doc_comments(&below, &fs::read_to_string(&path).expect("a readable file")));
            }
        }
    }
    comments
}

fn doc_comments(path: &str, text: &str) -> Vec<DocComment> {
    let mut comments: Vec<DocComment> = vec![];
    let mut marker_before = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim_start)) {
        let marker =
            ["///", "//!"].into_iter().find(|marker| line.starts_with(marker) && !line.starts_with("////"));
        if let Some(marker) = marker {
            let words = line[marker.len()..].trim();
            match comments.last_mut().filter(|_| marker_before == Some(marker)) {
                Some(comment) => {
                    let separator = if comment.text.is_empty() { "" } else { " " };
                    comment.text.push_str(separator);
                    comment.text.push_str(words);
                }
                None => {
                    comments
                        .push(DocComment { location: format!("{path}:{number}"), text: words.to_owned() });
                }
            }
        }
        marker_before = marker;
    }
    comments
}
