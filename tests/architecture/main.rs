//! Rules of the architecture, held as tests: the dependencies between the modules of `src/`, and rules of style that a tool can
//! see.
//!
//! Each rule has examples that must break it, so that no rule can stop working unnoticed.

mod documents;
mod model;
mod sentences;
mod source;
mod words;

use posthaste::config::SETTINGS;
use source::{SourceFile, has_word, read_sources};

/// Which modules a module of `src/` may use; a name may be that of a crate. Composing ones (app, cli, main, lib) may use all.
/// What the crates may use is in their `Cargo.toml`.
const ALLOWED_USES: &[(&str, &[&str])] = &[
    ("store", &["domain"]),
    ("engine", &["domain", "functions", "store", "outbound", "runtime"]),
    ("service", &["domain", "functions", "store", "runtime"]),
    ("api", &["service", "domain", "functions", "runtime", "server"]),
];
const MODULES: &[&str] = &["store", "engine", "service", "api", "app", "cli"];
const CRATES: &[&str] = &["domain", "functions", "runtime", "outbound", "server", "config"];

/// Files that may be longer than `LINES_MAX`, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
const LINES_MAX: usize = 400;

/// Makes two tests of a rule: it holds in the sources, and it fails on each red example and passes the green one.
macro_rules! rule {
    ($name:ident, $broken_by:expr, red: [$($red:expr),+ $(,)?], green: $green:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn holds() {
                let broken: Vec<String> = read_sources()
                    .iter()
                    .flat_map(|source| $broken_by(source).into_iter().map(move |why| format!("{}: {why}", source.location)))
                    .collect();
                assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
            }

            #[test]
            fn turns_red_on_its_examples() {
                for (path, text) in [$($red),+] {
                    assert!(!$broken_by(&SourceFile::new(path, text)).is_empty(), "{path}: {text}");
                }
                let (path, text) = $green;
                assert_eq!($broken_by(&SourceFile::new(path, text)), Vec::<String>::new(), "{path}: {text}");
            }
        }
    };
}

rule!(modules_use_only_allowed_modules, forbidden_uses,
    red: [
        ("store/x.rs", "use crate::runtime::Clock;"),
        ("service/x.rs", "use crate::{\n    domain::id::EventId,\n    engine::{self, EndpointQueues},\n};"),
        ("api/x.rs", "fn f(ledger: &dyn crate::store::DeliveryStore) {}"),
        ("engine/mod.rs", "use super::api;"),
        ("engine/queue/x.rs", "super::super::super::api::problem()"),
    ],
    green: ("engine/x.rs", "use crate::{domain::id::EventId, engine::endpoint_queue::EndpointQueue, store::DeliveryStore};\nuse super::app::X;")
);

rule!(sql_stays_in_the_store, sql_outside_the_store,
    red: [
        ("service/x.rs", "let q = \"SELECT id FROM delivery\";"),
        ("engine/x.rs", "let q = r#\"\n    UPDATE delivery SET state = 1\"#;"),
        ("app.rs", "fn f(c: &rusqlite::Connection) {}"),
    ],
    green: ("store/sqlite/x.rs", "use rusqlite::Connection; let q = \"DELETE FROM delivery\";")
);

rule!(shared_sql_is_portable, not_portable,
    red: [
        ("store/sql/x.rs", "let q = \"INSERT OR IGNORE INTO apps (id) VALUES (?1)\";"),
        ("store/sql/x.rs", "let q = \"SELECT ifnull(max(id), 0) FROM events\";"),
        ("store/sql/x.rs", "let q = \"UPDATE deliveries SET due = ?2 WHERE id = ?1\";"),
        ("store/sql/x.rs", "let q = \"DELETE FROM\n  deliveries\";"),
        ("store/sql/store_impl/x.rs", "fn f(c: &rusqlite::Connection) {}"),
    ],
    green: ("store/sql/x.rs", "let q = \"SELECT coalesce(max(id), 0) FROM deliveries\"; // rusqlite, ifnull")
);

rule!(only_outbound_calls_out, calls_out,
    red: [
        ("engine/x.rs", "TcpStream::connect(address).await"),
        ("app.rs", "tokio::net::lookup_host(name)"),
        ("api/x.rs", "use hyper::client::conn::http1;"),
    ],
    green: ("outbound/x.rs", "TcpStream::connect(address).await")
);

rule!(only_config_reads_the_environment, environment,
    red: [("app.rs", "std::env::vars_os()"), ("cli/x.rs", "use std::{env, io};\nlet a = env::var(name);")],
    green: ("config/x.rs", "std::env::vars_os()")
);

rule!(the_model_is_pure, impure_model,
    red: [
        ("model/x.rs", "pub async fn f() {}"),
        ("model/x.rs", "use tokio::sync::watch;"),
        ("model/x.rs", "use http::HeaderMap;"),
        ("model/x.rs", "std::fs::read(path)"),
        ("model/x.rs", "let now = SystemTime::UNIX_EPOCH;"),
        ("model/x.rs", "std::thread::spawn(|| ())"),
    ],
    green: ("model/x.rs", "//! Never async, no tokio.\nuse std::net::IpAddr;")
);

rule!(only_the_api_names_status_codes, status_codes,
    red: [("service/x.rs", "Err(StatusCode::CONFLICT)"), ("outbound/x.rs", "status == http::StatusCode::GONE")],
    green: ("api/x.rs", "Err(StatusCode::CONFLICT)")
);

rule!(modules_have_errors_of_their_own, anyhow_in_modules,
    red: [("service/x.rs", "fn f() -> anyhow::Result<()> {}")],
    green: ("app.rs", "fn f() -> anyhow::Result<()> {}")
);

rule!(files_are_short, too_long,
    red: [("engine/x.rs", &"\n".repeat(LINES_MAX + 1))],
    green: ("engine/x.rs", &"\n".repeat(LINES_MAX))
);

rule!(files_begin_with_a_description, no_opening,
    red: [("engine/x.rs", "use std::io;"), ("engine/x.rs", "//!\nuse std::io;")],
    green: ("engine/x.rs", "//! Sends deliveries.\nuse std::io;")
);

rule!(no_unfinished_work_is_left, left_for_later,
    red: [
        ("engine/x.rs", "#[allow(dead_code)]\nfn f() {}"),
        ("engine/x.rs", "// TODO: queues"),
        ("engine/x.rs", "unimplemented!()"),
    ],
    green: ("engine/x.rs", "#[expect(dead_code, reason = \"…\")]\nfn f() {}")
);

rule!(files_are_named_for_what_they_do, vague_name,
    red: [("engine/utils.rs", ""), ("api/types/mod.rs", "")],
    green: ("engine/delivery_worker.rs", "")
);

fn forbidden_uses(source: &SourceFile) -> Vec<String> {
    let Some((room, allowed)) = ALLOWED_USES.iter().find(|(room, _)| *room == source.module()) else {
        return vec![];
    };
    let used = |other: &&&str| {
        let through_super = format!("{}{other}", source.way_up());
        first_names_after_crate(&source.code).contains(*other) || has_word(&source.code, &through_super)
    };
    let foreign =
        MODULES.iter().chain(CRATES).filter(|other| *other != room && !allowed.contains(other)).filter(used);
    foreign.map(|other| format!("{room} may not use {other}")).collect()
}

/// The first name of every path that starts at the crate, those in `use crate::{…}` included.
fn first_names_after_crate(code: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut names = vec![];
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        if !rest.starts_with('{') {
            names.push(&rest[..name(rest)]);
            continue;
        }
        let (mut depth, mut begins) = (0, false);
        for (at, c) in rest.char_indices() {
            match c {
                '{' => (depth, begins) = (depth + 1, depth == 0),
                '}' => depth -= 1,
                ',' => begins = depth == 1,
                _ if begins && !c.is_whitespace() => {
                    names.push(&rest[at..at + name(&rest[at..])]);
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

fn sql_outside_the_store(source: &SourceFile) -> Vec<String> {
    if source.is_in(&["store"]) {
        return vec![];
    }
    let verbs =
        ["SELECT ", "INSERT INTO ", "INSERT OR ", "UPDATE ", "DELETE FROM ", "CREATE TABLE ", "PRAGMA "];
    let is_sql = |text: &&String| verbs.iter().any(|verb| text.trim_start().starts_with(verb));
    let mut found: Vec<String> =
        source.texts.iter().filter(is_sql).map(|text| format!("SQL: {text:.60}")).collect();
    found.extend(broken("SQL belongs in store", source.words(&["rusqlite", "tokio_postgres"])));
    found
}

/// SQL shared by the stores must be portable. `deliveries` is a view in one of them. Only store/sql/error.rs may name
/// a database driver, because errors are the drivers' own.
fn not_portable(source: &SourceFile) -> Vec<String> {
    if !source.path.starts_with("store/sql/") {
        return vec![];
    }
    let foreign =
        ["ifnull", "INSERT OR", "GLOB", "LIKE", "rowid", "json_each", "sqlite_sequence", "total(", "x''"];
    let changes = ["INSERT INTO deliveries", "UPDATE deliveries", "DELETE FROM deliveries"];
    let mut found = vec![];
    for text in &source.texts {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: Vec<_> = foreign.into_iter().filter(|word| has_word(&text, word)).collect();
        found.extend(broken("not every store knows that", words));
        let words: Vec<_> = changes.into_iter().filter(|words| has_word(&text, words)).collect();
        found.extend(broken("say it by a method of Sql", words));
    }
    if source.path != "store/sql/error.rs" {
        found.extend(broken("belongs to one store", source.words(&["rusqlite", "tokio_postgres"])));
    }
    found
}

fn calls_out(source: &SourceFile) -> Vec<String> {
    let ways = [
        "TcpStream::connect",
        "TcpSocket::connect",
        "UdpSocket",
        "lookup_host",
        "to_socket_addrs",
        "hyper::client",
        "client::conn",
        "client::legacy",
    ];
    if source.is_in(&["outbound"]) { vec![] } else { broken("only outbound calls out", source.words(&ways)) }
}

fn environment(source: &SourceFile) -> Vec<String> {
    let ways =
        ["std::env", "env::var", "env::vars", "env::var_os", "env::vars_os", "env::args", "env::set_var"];
    if source.is_in(&["config"]) {
        vec![]
    } else {
        broken("only config reads the environment", source.words(&ways))
    }
}

fn impure_model(source: &SourceFile) -> Vec<String> {
    let impure = [
        "async",
        "await",
        "tokio",
        "std::fs",
        "std::process",
        "TcpStream",
        "TcpListener",
        "SystemTime",
        "Instant",
        "Timestamp::now",
        "http::",
        "hyper",
        "axum",
        "thread",
    ];
    if source.is_in(&["model"]) { broken("the model is pure", source.words(&impure)) } else { vec![] }
}

fn status_codes(source: &SourceFile) -> Vec<String> {
    if source.is_in(&["model", "functions", "runtime", "store", "outbound", "engine", "service"]) {
        broken("only the api names status codes", source.words(&["StatusCode::"]))
    } else {
        vec![]
    }
}

fn anyhow_in_modules(source: &SourceFile) -> Vec<String> {
    if source.is_in(&["app", "cli", "main"]) {
        vec![]
    } else {
        broken("a module has its own error", source.words(&["anyhow"]))
    }
}

fn too_long(source: &SourceFile) -> Vec<String> {
    let lines = source.whole.lines().count();
    let is_excused = LONG_FILES.iter().any(|(path, _)| *path == source.path);
    if lines > LINES_MAX && !is_excused { vec![format!("{lines} lines: is it one thing?")] } else { vec![] }
}

fn no_opening(source: &SourceFile) -> Vec<String> {
    let opens = source.whole.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 10);
    if opens { vec![] } else { vec!["the first line must say what this is (//! …)".to_owned()] }
}

fn left_for_later(source: &SourceFile) -> Vec<String> {
    let mut found = broken("finish it", source.words(&["todo!", "unimplemented!", "dbg!"]));
    found.extend(broken("use #[expect(…, reason)]", source.words(&["#[allow", "#![allow"])));
    let notes = ["TODO", "FIXME", "XXX"].into_iter().filter(|note| has_word(&source.whole, note)).collect();
    found.extend(broken("finish it or file an issue", notes));
    found
}

fn vague_name(source: &SourceFile) -> Vec<String> {
    let vague = ["utils", "util", "common", "helpers", "helper", "manager", "types", "misc"];
    let parts = source.path.trim_end_matches(".rs").split('/');
    parts.filter(|part| vague.contains(part)).map(|part| format!("{part} says nothing")).collect()
}

fn broken(rule: &str, words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(|word| format!("{word}: {rule}")).collect()
}

#[test]
fn every_setting_has_a_reader() {
    let composition: String = read_sources()
        .iter()
        .filter(|source| source.is_in(&["app", "cli"]))
        .map(|source| source.code.as_str())
        .collect();
    let is_read = |name: &str| has_word(&composition, &format!("settings.{name}"));
    let unread: Vec<_> = SETTINGS.iter().map(|key| key.name).filter(|name| !is_read(name)).collect();
    assert!(unread.is_empty(), "app and cli never read settings.{unread:?}: wire them or remove them");
    assert!(!is_read("no_such_setting"));
}

#[test]
fn every_module_is_in_the_table() {
    let known = |source: &SourceFile| source.is_in(MODULES) || source.is_in(&["main", "lib"]);
    let strangers: Vec<_> = read_sources()
        .into_iter()
        .filter(|source| source.location.starts_with("src/") && !known(source))
        .map(|source| source.path)
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}: say in ALLOWED_USES what they may use");
}

#[test]
fn a_file_excused_for_its_length_is_still_long() {
    let sources = read_sources();
    for (path, _reason) in LONG_FILES {
        let is_long = sources.iter().any(|s| s.path == *path && s.whole.lines().count() > LINES_MAX);
        assert!(is_long, "{path} needs no excuse any more");
    }
}
