//! Renders a request: for people with its headers and its body over several lines, for programs as one line of JSON.

use super::{
    super::{
        table::{visible, visible_json},
        verify::RequestVerifier,
    },
    VerifyOutcome,
};
use crate::domain::{
    time::Timestamp,
    verification::{IncomingRequest, indent_json},
};
use axum::http::{Method, StatusCode, Uri};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json, value::RawValue};
use std::fmt::Write;

/// Longer bodies are cut for people; programs get the whole body.
const SHOWN_BYTES_MAX: usize = 16 * 1024;
/// Headers that are not shown because they say nothing about the event.
const HIDDEN_HEADERS: [&str; 7] =
    ["host", "accept", "accept-encoding", "connection", "content-length", "transfer-encoding", "date"];

pub(super) struct RequestView<'a> {
    pub(super) at: Timestamp,
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) received: IncomingRequest<'a>,
    pub(super) status: StatusCode,
}

impl RequestView<'_> {
    pub(super) fn text(&self, evaluate: &RequestVerifier, finding: VerifyOutcome<'_>) -> String {
        let Self { at, method, uri, status, .. } = self;
        let mut out = format!("{at}  {method} {}  answered {}\n", visible(&uri.to_string()), status.as_u16());
        match finding {
            Some(finding) => finding.text(&evaluate.contract, self.at).lines().for_each(|line| {
                let _ = writeln!(out, "  {line}");
            }),
            None => out.push_str("  not verified: no secret was given\n"),
        }
        for (name, value) in
            self.received.headers.iter().filter(|(name, _)| !HIDDEN_HEADERS.contains(&name.as_str()))
        {
            let _ = writeln!(out, "  {name}: {}", visible(value));
        }
        self.body().lines().for_each(|line| {
            let _ = writeln!(out, "    {line}");
        });
        out.push('\n');
        out
    }

    fn body(&self) -> String {
        let body = self.received.body;
        if body.is_empty() {
            return "(no body)".into();
        }
        let Ok(text) = std::str::from_utf8(body) else {
            return format!("({} bytes that are no text)", body.len());
        };
        let mut shown = indent_json(text).map_or_else(|| visible(text), |json| visible_json(&json));
        if shown.len() > SHOWN_BYTES_MAX {
            shown.truncate(shown.floor_char_boundary(SHOWN_BYTES_MAX));
            let _ = write!(shown, "\n… ({} bytes in all)", body.len());
        }
        shown
    }

    pub(super) fn json_line(&self, finding: VerifyOutcome<'_>) -> String {
        let mut headers = Map::new();
        for (name, value) in self.received.headers {
            // Values of headers with the same name become a list.
            match headers.get_mut(name) {
                None => drop(headers.insert(name.clone(), json!(value))),
                Some(Value::Array(values)) => values.push(json!(value)),
                Some(one) => *one = json!([one.clone(), value]),
            }
        }
        let mut line = json!({
            "at": self.at.rfc3339_millis(),
            "method": self.method.as_str(),
            "path": self.uri.to_string(),
            "headers": headers,
            "body_base64": BASE64_STANDARD.encode(self.received.body),
            "status": self.status.as_u16(),
        });
        let found = finding.map(super::VerifyResult::json);
        for part in ["verified", "mismatch", "clues"] {
            line[part] = found.as_ref().map_or(Value::Null, |found| found[part].clone());
        }
        let raw = std::str::from_utf8(self.received.body)
            .ok()
            .and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        // As it was written, on one line.
        let body = raw.map(|raw| raw.get().replace(['\n', '\r'], " "));
        let mut text = line.to_string();
        text.pop();
        let _ = writeln!(text, ",\"body\":{}}}", body.as_deref().unwrap_or("null"));
        text
    }
}
