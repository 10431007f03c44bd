//! The description of a product's API: how an app and its endpoints are made, and how an event is published.

use crate::{
    api::Api,
    messages::{RequestTemplate, SignatureHeaders, TargetEndpoint},
    template::{self, Variables},
};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

const PAYLOAD: &str = "{{payload}}";
const SECRET_BYTES: usize = 24;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// For people.
    #[serde(default, rename = "about")]
    _about: String,
    /// Values that can be replaced with `--var`.
    #[serde(default)]
    pub variables: Variables,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Calls that make an app.
    #[serde(default)]
    app: Vec<Call>,
    /// Calls that make an endpoint of an app.
    #[serde(default)]
    endpoint: Vec<Call>,
    publish: Call,
    pub idempotency_header: Option<String>,
    /// Absent: the product does not sign, and nothing is verified.
    pub signature: Option<SignatureHeaders>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    method: String,
    url: String,
    #[serde(default)]
    body: Value,
    /// Variables to set from the answer, by JSON pointer.
    #[serde(default)]
    extract: BTreeMap<String, String>,
}

impl Target {
    pub fn of_product() -> Result<Self> {
        serde_json::from_str(include_str!("../targets/posthaste.json")).context("the built-in target")
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no target", path.display()))
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Makes the apps and endpoints of a transfer, fills in the endpoints' secrets, and returns one request per app.
    pub async fn make(
        &self,
        transfer: &str,
        receiver: &str,
        endpoints: &mut [TargetEndpoint],
    ) -> Result<Vec<RequestTemplate>> {
        let apps = apps(endpoints);
        let mut requests = Vec::with_capacity(apps);
        for app in 0..apps {
            let mut variables = self.variables.clone();
            variables.insert("transfer".to_owned(), transfer.to_owned());
            variables.insert("receiver".to_owned(), receiver.to_owned());
            variables.insert("app_number".to_owned(), app.to_string());
            for call in &self.app {
                self.call(call, &mut variables).await?;
            }
            for (number, endpoint) in
                endpoints.iter_mut().enumerate().filter(|(_, endpoint)| endpoint.app == app)
            {
                let mut variables = variables.clone();
                variables.insert("endpoint_url".to_owned(), format!("{receiver}/{transfer}/{number}"));
                variables.insert("secret".to_owned(), random_secret());
                for call in &self.endpoint {
                    self.call(call, &mut variables).await?;
                }
                endpoint.secret = variables.remove("secret");
            }
            requests.push(self.publish_request(&variables)?);
        }
        Ok(requests)
    }

    fn publish_request(&self, variables: &Variables) -> Result<RequestTemplate> {
        // The payload's place stays as it is; a payload is an object, so it stands there without quotes.
        let mut variables = variables.clone();
        variables.insert("payload".to_owned(), PAYLOAD.to_owned());
        let body = fill_json(&self.publish.body, &variables)?.to_string();
        let placeholder = Value::from(PAYLOAD).to_string();
        let (before, after) =
            body.split_once(&placeholder).with_context(|| format!("publish.body lacks {placeholder}"))?;
        Ok(RequestTemplate {
            method: self.publish.method.clone(),
            url: template::fill(&self.publish.url, &variables)?,
            headers: self.filled_headers(&variables)?,
            body: [before.to_owned(), after.to_owned()],
        })
    }

    fn filled_headers(&self, variables: &Variables) -> Result<Vec<(String, String)>> {
        self.headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), template::fill(value, variables)?)))
            .collect()
    }

    async fn call(&self, call: &Call, variables: &mut Variables) -> Result<()> {
        let url = template::fill(&call.url, variables)?;
        let body =
            if call.body.is_null() { String::new() } else { fill_json(&call.body, variables)?.to_string() };
        let answer = Api::of(&url, self.filled_headers(variables)?)?.call(&call.method, &url, body).await?;
        for (name, pointer) in &call.extract {
            let json: Value =
                serde_json::from_str(&answer).with_context(|| format!("{url} did not answer JSON"))?;
            let value = json.pointer(pointer).with_context(|| format!("{url}: no {pointer} in {json}"))?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            variables.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// How many apps these endpoints have.
pub fn apps(endpoints: &[TargetEndpoint]) -> usize {
    endpoints.iter().map(|endpoint| endpoint.app + 1).max().unwrap_or(1)
}

/// Fills in every string of a JSON value.
fn fill_json(value: &Value, variables: &Variables) -> Result<Value> {
    Ok(match value {
        Value::String(text) => Value::String(template::fill(text, variables)?),
        Value::Array(items) => items.iter().map(|item| fill_json(item, variables)).collect::<Result<_>>()?,
        Value::Object(fields) => {
            let fill = |(name, field): (&String, &Value)| Ok((name.clone(), fill_json(field, variables)?));
            Value::Object(fields.iter().map(fill).collect::<Result<_>>()?)
        }
        other => other.clone(),
    })
}

fn random_secret() -> String {
    let bytes: Vec<u8> = (0..SECRET_BYTES).map(|_| fastrand::u8(..)).collect();
    format!("whsec_{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_that_come_with_the_tool_can_be_read() {
        Target::of_product().unwrap();
        for name in ["posthaste", "svix", "generic.example", "loopback"] {
            Target::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("targets/{name}.json")))
                .unwrap();
        }
    }

    #[test]
    fn the_payload_replaces_its_string_with_the_quotes() {
        let mut target = Target::of_product().unwrap();
        target.set("base", "http://127.0.0.1:1");
        target.set("key", "k\"ey");
        target.set("app", "app_1");
        let request = target.publish_request(&target.variables).unwrap();
        assert_eq!(request.url, "http://127.0.0.1:1/v1/apps/app_1/events");
        let body = request.body.join("{\"bench_event\":1}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["data"]["bench_event"], 1);
    }

    #[test]
    fn values_cannot_break_out_of_their_string() {
        let variables = Variables::from([("a".to_owned(), "x\",\"y\":\"z".to_owned())]);
        let filled = fill_json(&serde_json::json!({"a": ["{{a}}", 1, null]}), &variables).unwrap();
        assert_eq!(filled["a"][0], "x\",\"y\":\"z");
    }
}
