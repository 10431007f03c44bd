//! A file of event types as the API takes it: JSON goes through as it is written, TOML becomes JSON.

use crate::cli::exit::CommandError;
use anyhow::{Context, bail};
use serde_json::{Value, value::RawValue};
use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    path::Path,
};

/// The server's limit, checked here before anything is sent.
const IMPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads a file and returns the body of the request that imports it.
pub(super) fn read(path: &Path, is_rehearsal: bool) -> anyhow::Result<Vec<u8>> {
    read_body(path, is_rehearsal).map_err(|error| CommandError::usage(format!("{error:#}")))
}

fn read_body(path: &Path, is_rehearsal: bool) -> anyhow::Result<Vec<u8>> {
    let about = || path.display().to_string();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().take(IMPORT_BYTES_MAX).read_to_string(&mut text).context("standard input")?;
        text
    } else {
        let bytes = fs::metadata(path).with_context(about)?.len();
        anyhow::ensure!(
            bytes <= IMPORT_BYTES_MAX,
            "{}: a file has at most {IMPORT_BYTES_MAX} bytes",
            path.display()
        );
        fs::read_to_string(path).with_context(about)?
    };
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    body(&text, is_toml, is_rehearsal).with_context(about)
}

fn body(text: &str, is_toml: bool, is_rehearsal: bool) -> anyhow::Result<Vec<u8>> {
    let json;
    let text = if is_toml {
        json = toml::from_str::<Value>(text).map_err(|error| anyhow::anyhow!("{error}"))?.to_string();
        &json
    } else {
        text
    };
    // As it is written, so that a sample keeps its bytes.
    let given: HashMap<String, Box<RawValue>> = serde_json::from_str(text).context("not a JSON object")?;
    if let Some(unknown) = given.keys().find(|name| *name != "event_types") {
        bail!("{unknown:?}: a file has nothing but \"event_types\", a list of them");
    }
    let list = given.get("event_types").context("\"event_types\" is missing: a list of event types")?.get();
    Ok(format!("{{\"dry_run\":{is_rehearsal},\"event_types\":{list}}}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(given: &str, is_toml: bool) -> anyhow::Result<String> {
        body(given, is_toml, true).map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn json_goes_through_as_it_is_written_and_toml_becomes_json() {
        let given = r#"{ "event_types": [ { "name":"a", "sample":{ "n":1.0e3 } } ] }"#;
        let expected = r#"{"dry_run":true,"event_types":[ { "name":"a", "sample":{ "n":1.0e3 } } ]}"#;
        assert_eq!(text(given, false).unwrap(), expected);
        let given = "[[event_types]]\nname = \"a\"\nsample = { n = 1 }\nversions = [{ name = \"1\" }]\n";
        let expected =
            r#"{"dry_run":true,"event_types":[{"name":"a","sample":{"n":1},"versions":[{"name":"1"}]}]}"#;
        assert_eq!(text(given, true).unwrap(), expected);
    }

    #[test]
    fn a_file_without_event_types_is_refused_before_anything_is_sent() {
        for bad in ["[]", "{", "{}", r#"{"event_types":[],"more":1}"#] {
            assert!(text(bad, false).is_err(), "{bad}");
        }
        assert!(text("a = ", true).is_err());
    }
}
