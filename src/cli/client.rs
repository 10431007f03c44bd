//! Talks to a running server for the commands that need one, and puts what goes wrong into words.

use super::table::visible;
use crate::{
    config::{ClientSettings, Secret},
    outbound::{Errand, Runner},
};
use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use std::time::Duration;
use url::form_urlencoded;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Client {
    runner: Runner,
    server: String,
    key: Secret,
}

impl Client {
    pub(super) fn new(settings: &ClientSettings) -> anyhow::Result<Self> {
        let runner = Runner::new()?;
        runner
            .target(&settings.server)
            .with_context(|| format!("the server's address {}", settings.server))?;
        Ok(Self { runner, server: settings.server.clone(), key: settings.key.clone() })
    }

    pub(super) async fn get(&self, path: &[&str]) -> anyhow::Result<Value> {
        self.call(Method::GET, path, &[], Bytes::new()).await
    }

    /// An action that needs no body.
    pub(super) async fn act(&self, path: &[&str]) -> anyhow::Result<Value> {
        self.call(Method::POST, path, &[], Bytes::new()).await
    }

    /// The JSON of an answer that is a success, null if it is empty; any other is an error that says what the server said.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Bytes,
    ) -> anyhow::Result<Value> {
        let mut url = self.server.clone();
        for part in path {
            url = url + "/" + &segment(part)?;
        }
        if !query.is_empty() {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            url = url + "?" + &query;
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", self.key.reveal()))?;
        bearer.set_sensitive(true);
        let errand = Errand {
            method,
            target: self.runner.target(&url).with_context(|| url.clone())?,
            headers: HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]),
            body,
            timeout: ANSWER_WITHIN,
        };
        let answer = self.runner.run(errand).await;
        let answer = answer.with_context(|| format!("cannot ask the server at {}", self.server))?;
        if answer.status().is_success() && answer.body().is_empty() {
            return Ok(Value::Null);
        }
        let body = serde_json::from_slice(answer.body());
        if answer.status().is_success() {
            let about = || format!("{} does not answer as Posthaste does", self.server);
            return body.with_context(about);
        }
        let problem = body.unwrap_or_default();
        bail!("{}{}", refusal(answer.status(), &problem), every_error(&problem));
    }
}

/// What the server refused, in its own words where it has some.
fn refusal(status: StatusCode, problem: &Value) -> String {
    let text = |name: &str| problem[name].as_str();
    let said = match (text("detail"), text("code")) {
        (Some(detail), Some(code)) => format!("{detail} ({}, {code})", status.as_u16()),
        _ => format!("the server answered {status}"),
    };
    match text("field") {
        Some(field) if !said.contains(field) => format!("{field}: {said}"),
        _ if status == StatusCode::UNAUTHORIZED => {
            format!("{said}\nGive a key that the server knows with --key or the variable POSTHASTE_KEY.")
        }
        _ => said,
    }
}

/// All that is wrong with a list, a line each.
fn every_error(problem: &Value) -> String {
    let errors = problem["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| Some(format!("\n  {}", visible(error["detail"].as_str()?)))).collect()
}

/// One part of a path, so that nothing in it can mean another path.
fn segment(text: &str) -> anyhow::Result<String> {
    // Even escaped, these two lead upwards.
    anyhow::ensure!(!matches!(text, "." | ".."), "{text:?} is no id that an address can name");
    Ok(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_id_can_leave_its_place_in_the_path() {
        let made = |text| segment(text).unwrap_or_default();
        assert_eq!(made("shop-1_a.b"), "shop-1_a.b");
        assert_eq!(made("a/b?c#d+é ~:"), "a%2Fb%3Fc%23d%2B%C3%A9%20%7E%3A");
        assert_eq!((made(".."), made(".")), (String::new(), String::new()));
    }

    #[test]
    fn refusals_are_said_in_the_server_s_words_with_the_field() {
        let conflict = json!({ "detail": "Busy.", "code": "conflict" });
        assert_eq!(refusal(StatusCode::CONFLICT, &conflict), "Busy. (409, conflict)");
        let field = json!({ "detail": "health_url: is not set", "code": "invalid", "field": "health_url" });
        assert_eq!(
            refusal(StatusCode::UNPROCESSABLE_ENTITY, &field),
            "health_url: is not set (422, invalid)"
        );
        assert!(refusal(StatusCode::UNAUTHORIZED, &Value::Null).contains("--key"));
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, &Value::Null), "the server answered 502 Bad Gateway");
    }
}
