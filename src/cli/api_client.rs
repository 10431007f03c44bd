//! API client of the commands: calls a running server and turns failures into messages.

use super::{
    exit::{CommandError, ExitStatus},
    table::visible,
};
use crate::{
    config::{ClientSettings, HiddenText},
    outbound::{CliClient, ClientRequest},
};
use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use url::form_urlencoded;

const API_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a waiting command asks a server that does not answer before it gives up.
const POLL_TRIES_MAX: usize = 10;
const POLL_RETRY_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct ServerClient {
    http: CliClient,
    server: String,
    key: HiddenText,
}

/// A request to the API.
#[derive(Clone, Debug)]
pub(super) struct ApiCall {
    pub method: Method,
    /// As `path` makes it.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    /// JSON, or empty.
    pub body: Bytes,
}

impl ApiCall {
    pub(super) fn new(method: Method, path: String) -> Self {
        Self { method, path, query: Vec::new(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path)
    }
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct ApiAnswer {
    pub status: StatusCode,
    /// JSON, or empty.
    pub body: Bytes,
}

impl ApiAnswer {
    pub(super) fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body).context("the server does not answer as Posthaste does")
    }

    /// The body as it was written.
    pub(super) fn text(&self) -> anyhow::Result<&str> {
        std::str::from_utf8(&self.body).context("the server does not answer as Posthaste does")
    }
}

impl ServerClient {
    pub(super) fn new(settings: &ClientSettings) -> anyhow::Result<Self> {
        let runner = CliClient::new()?;
        runner.target(&settings.server).map_err(|error| {
            CommandError::usage(format!("the server's address {}: {error}", settings.server))
        })?;
        Ok(Self { http: runner, server: settings.server.clone(), key: settings.key.clone() })
    }

    /// Calls the API and returns a successful answer. Any other is an error with the server's message.
    pub(super) async fn call(&self, call: &ApiCall) -> anyhow::Result<ApiAnswer> {
        let mut url = format!("{}{}", self.server, call.path);
        if !call.query.is_empty() {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&call.query).finish();
            url = url + "?" + &query;
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", self.key.reveal()))?;
        bearer.set_sensitive(true);
        let mut headers = call.headers.clone();
        headers.insert(header::AUTHORIZATION, bearer);
        let target =
            self.http.target(&url).map_err(|error| CommandError::usage(format!("{url}: {error}")))?;
        let (method, body) = (call.method.clone(), call.body.clone());
        let answer =
            self.http.send(ClientRequest { method, target, headers, body, timeout: API_TIMEOUT }).await;
        let answer = answer.map_err(|error| {
            CommandError::with_exit(
                ExitStatus::TryAgain,
                format!("cannot ask the server at {}: {error}", self.server),
            )
        })?;
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            return Ok(ApiAnswer { status: head.status, body });
        }
        let problem = serde_json::from_slice(&body).unwrap_or_default();
        let words = refusal_message(head.status, &problem) + &every_error(&problem);
        Err(CommandError::with_exit(ExitStatus::of(head.status.as_u16()), words))
    }

    /// Calls `path` for a command that polls. Waits for a server that restarts meanwhile.
    pub(super) async fn poll(&self, path: &str) -> anyhow::Result<ApiAnswer> {
        let call = ApiCall::get(path.to_owned());
        for _ in 1..POLL_TRIES_MAX {
            match self.call(&call).await {
                Err(error) if ExitStatus::from_error(&error) == ExitStatus::TryAgain => {
                    tokio::time::sleep(POLL_RETRY_PAUSE).await;
                }
                answer => return answer,
            }
        }
        self.call(&call).await
    }
}

/// Describes a refusal, in the server's own words where it has some.
fn refusal_message(status: StatusCode, problem: &Value) -> String {
    let text = |name: &str| problem[name].as_str().map(visible);
    let said = match (text("detail"), text("code")) {
        (Some(detail), Some(code)) => format!("{detail} ({}, {code})", status.as_u16()),
        _ => format!("the server answered {status}"),
    };
    match text("field") {
        Some(field) if !said.contains(&field) => format!("{field}: {said}"),
        _ if status == StatusCode::UNAUTHORIZED => format!(
            "{said}\nGive a key that the server knows with --key, the variable POSTHASTE_KEY or a profile."
        ),
        _ => said,
    }
}

/// Lists all errors of a problem, one per line.
fn every_error(problem: &Value) -> String {
    let errors = problem["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| Some(format!("\n  {}", visible(error["detail"].as_str()?)))).collect()
}

/// A path of the API, `{…}` in it replaced by the values in their order.
pub(super) fn path(template: &str, values: &[&str]) -> anyhow::Result<String> {
    let mut values = values.iter();
    let mut out = String::new();
    for part in template.split('/').skip(1) {
        out.push('/');
        if part.starts_with('{') {
            out.push_str(&segment(values.next().context("a part of the path is missing")?)?);
        } else {
            out.push_str(part);
        }
    }
    Ok(out)
}

/// Escapes a part of a path, so that no character in it can change the path.
fn segment(text: &str) -> anyhow::Result<String> {
    // Even escaped, the dots lead upwards; an empty part leads to the list.
    if matches!(text, "" | "." | "..") {
        return Err(CommandError::usage(format!("{text:?} is no id that an address can name")));
    }
    Ok(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_id_can_change_the_path() {
        let made = |text| path("/v1/apps/{app}/events", &[text]).unwrap_or_default();
        assert_eq!(made("shop-1_a.b"), "/v1/apps/shop-1_a.b/events");
        assert_eq!(made("a/b?c#d+é ~:"), "/v1/apps/a%2Fb%3Fc%23d%2B%C3%A9%20%7E%3A/events");
        assert_eq!([made(".."), made("."), made("")], ["", "", ""]);
    }

    #[test]
    fn refusals_show_the_server_s_words_and_the_field() {
        let conflict = json!({ "detail": "Busy.\x1b[2J", "code": "conflict" });
        assert_eq!(refusal_message(StatusCode::CONFLICT, &conflict), "Busy.\\u{1b}[2J (409, conflict)");
        let field = json!({ "detail": "health_url: is not set", "code": "invalid", "field": "health_url" });
        assert_eq!(
            refusal_message(StatusCode::UNPROCESSABLE_ENTITY, &field),
            "health_url: is not set (422, invalid)"
        );
        assert!(refusal_message(StatusCode::UNAUTHORIZED, &Value::Null).contains("--key"));
        assert_eq!(
            refusal_message(StatusCode::BAD_GATEWAY, &Value::Null),
            "the server answered 502 Bad Gateway"
        );
    }
}
