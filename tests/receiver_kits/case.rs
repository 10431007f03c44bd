//! Test cases: a request as the product renders it, and the response that a receiver must give.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::{Engine, prelude::BASE64_STANDARD};
use posthaste::domain::{
    body::{self, EventParts},
    contract::Contract,
    id::{AttemptId, DeliveryId, EventId},
    request_headers::{self, RequestParts},
    secret::Secret,
    signing_keys::SigningKeys,
    time::Timestamp,
};
use serde_json::{Value, json};

/// 2026-11-15T09:30:00.999Z: an attempt is stamped with the second that it starts in.
const NOW: Timestamp = Timestamp::from_millis(1_794_735_000_999);
pub(crate) const NOW_SECONDS: i64 = NOW.as_seconds();

pub(crate) const CONTRACTS: [&str; 6] =
    ["standard", "sendnomi", "zerofee", "bastionary", "orientedos", "simpaisa"];

/// JSON that a careless receiver would change before it checks the signature.
const DATA: &str = "{ \"b\": \"é 😀 <\u{2028}\\/\", \"a\": {\"z\": 1.0, \"y\": 1e5, \"x\": [ ]} }";

/// A secret that can sign under the contract; another one for each number.
pub(crate) fn secret(contract: &str, number: u8) -> String {
    match contract {
        "standard" => format!("whsec_{}", BASE64_STANDARD.encode([number; 32])),
        "sendnomi" | "zerofee" => format!("whsec_a text as a key, é included, {number}"),
        _ => format!("a text as a key, é included, {number}"),
    }
}

/// An ed25519 key of the sender, and what the receiver has of it.
pub(crate) fn ed25519(number: u8) -> (String, String) {
    let seed = [number; 32];
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let public = BASE64_STANDARD.encode(pair.public_key());
    (format!("whsk_{}", BASE64_STANDARD.encode(seed)), format!("whpk_{public}"))
}

/// A built-in contract, with another brand if one is given.
fn contract(name: &str, brand: Option<&str>) -> Contract {
    let path = format!("{}/contracts/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(&path).unwrap();
    let own = Contract::builtin().unwrap().into_iter().find(|contract| contract.name == name).unwrap().brand;
    if let Some(brand) = brand {
        text = text
            .replace(&format!("\"{own}\""), &format!("\"{brand}\""))
            .replace(&format!("X-{own}-"), &format!("X-{brand}-"));
    }
    Contract::from_toml(&path, &text).unwrap()
}

/// Content of an event.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Data(&'a str),
    /// The usual data, under the id with this number.
    Number(i64),
    /// These bytes instead of the body that the contract would send.
    Bytes(&'a [u8]),
}

/// A request signed by the product, as the receiver gets it, with the secrets and clock of the receiver.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) contract: &'static str,
    pub(crate) brand: Option<&'static str>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) secrets: Vec<String>,
    pub(crate) now: i64,
    pub(crate) tolerance: i64,
}

impl Case {
    /// Signed with the contract's first secret, which is the one that the receiver has.
    pub(crate) fn sent(contract: &'static str) -> Self {
        Self::signed(contract, None, &[secret(contract, 1)], DATA)
    }

    pub(crate) fn signed(
        contract: &'static str,
        brand: Option<&'static str>,
        secrets: &[String],
        data: &str,
    ) -> Self {
        Self::attempted(contract, brand, secrets, NOW, Payload::Data(data))
    }

    /// Signed with the contract's first secret at this instant, as a delivery of its own for each number.
    pub(crate) fn sent_at(contract: &'static str, now: Timestamp, payload: Payload) -> Self {
        Self::attempted(contract, None, &[secret(contract, 1)], now, payload)
    }

    fn attempted(
        name: &'static str,
        brand: Option<&'static str>,
        secrets: &[String],
        now: Timestamp,
        payload: Payload,
    ) -> Self {
        let contract = contract(name, brand);
        let (data, number) = match payload {
            Payload::Data(data) => (data, 1),
            Payload::Number(number) => (DATA, number),
            Payload::Bytes(_) => (DATA, 0),
        };
        let public_id = format!("evt_0dr5k2m8a{number:04}");
        let event = EventParts {
            public_id: &public_id,
            own_id: EventId::from_i64(1),
            event_type: "payment.completed",
            created_at: now,
            data: data.as_bytes(),
            app_uid: "merchant-7",
            livemode: true,
            payload_version: "2024-01-01",
        };
        let root = DeliveryId::from_i64(1 + number);
        let body = match payload {
            Payload::Bytes(bytes) => bytes.to_vec(),
            _ => body::render(&contract, &event, root).unwrap().to_vec(),
        };
        let signing: Vec<Secret> = (0..)
            .zip(secrets)
            .map(|(i, text)| Secret {
                text: text.clone(),
                valid_from: Timestamp::from_millis(i),
                valid_until: None,
            })
            .collect();
        let signing_keys = SigningKeys::prepare(&contract, &signing).unwrap();
        let attempt = AttemptId { delivery: root, position: 1 };
        let request = RequestParts { event: &event, root, attempt, number: 1, now, body: &body };
        // The user agent holds the product's version, which is not tested here.
        let headers = request_headers::render_headers(&contract, &signing_keys, &request)
            .unwrap()
            .into_iter()
            .filter(|(name, _)| name != "user-agent")
            .map(|(name, value)| (name.into_owned(), value))
            .collect();
        let secrets = vec![secret(name, 1)];
        Self { contract: name, brand, headers, body, secrets, now: now.as_seconds(), tolerance: 300 }
    }

    fn header_name(&self, end: &str) -> String {
        match self.contract {
            "standard" | "sendnomi" => format!("webhook-{end}"),
            contract => format!("x-{}-{end}", self.brand.unwrap_or(contract).to_ascii_lowercase()),
        }
    }

    /// A header by the end of its name, such as `signature`.
    pub(crate) fn value(&self, end: &str) -> String {
        let name = self.header_name(end);
        self.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()).unwrap()
    }

    pub(crate) fn with_value(mut self, end: &str, value: &str) -> Self {
        let name = self.header_name(end);
        let header = self.headers.iter_mut().find(|(key, _)| *key == name).unwrap();
        value.clone_into(&mut header.1);
        self
    }

    pub(crate) fn without(mut self, end: &str) -> Self {
        let name = self.header_name(end);
        self.headers.retain(|(key, _)| *key != name);
        self
    }

    pub(crate) fn repeated(mut self, end: &str) -> Self {
        self.headers.push((self.header_name(end), self.value(end)));
        self
    }

    pub(crate) fn names(mut self, change: impl Fn(&str) -> String) -> Self {
        for (name, _) in &mut self.headers {
            *name = change(name);
        }
        self
    }

    pub(crate) fn body(mut self, change: impl Fn(&mut Vec<u8>)) -> Self {
        change(&mut self.body);
        self
    }

    pub(crate) fn secrets(mut self, secrets: &[&str]) -> Self {
        self.secrets = secrets.iter().map(|&text| text.to_owned()).collect();
        self
    }

    pub(crate) fn at(mut self, seconds_later: i64) -> Self {
        self.now += seconds_later;
        self
    }

    pub(crate) fn tolerance(mut self, seconds: i64) -> Self {
        self.tolerance = seconds;
        self
    }

    pub(crate) fn brand(mut self, brand: &'static str) -> Self {
        self.brand = Some(brand);
        self
    }

    /// Where the time of the attempt stands: in a header of its own, in the signature, or nowhere.
    pub(crate) fn with_timestamp(self, text: &str) -> Self {
        match self.contract {
            "zerofee" | "bastionary" => {
                let (_, signature) = self
                    .value("signature")
                    .split_once(',')
                    .map(|(a, b)| (a.to_owned(), b.to_owned()))
                    .unwrap();
                self.with_value("signature", &format!("t={text},{signature}"))
            }
            _ => self.with_value("timestamp", text),
        }
    }

    /// The case as in the file. Expected values of a genuine request are read from the request, not from a kit.
    pub(crate) fn write(&self, name: &str, expect: &str, without_ed25519: Option<&str>) -> Value {
        let mut case = json!({
            "name": name,
            "contract": self.contract,
            "brand": self.brand,
            "headers": self.headers,
            "body": BASE64_STANDARD.encode(&self.body),
            "secrets": self.secrets,
            "now": self.now,
            "tolerance": self.tolerance,
            "expect": expect,
            "expect_without_ed25519": without_ed25519.unwrap_or(expect),
        });
        if expect == "ok" {
            let plain = self.clone().names(str::to_ascii_lowercase);
            let (id, id_field, timestamp) = match self.contract {
                "standard" | "sendnomi" => (json!(plain.value("id")), json!(null), json!(NOW_SECONDS)),
                "zerofee" => (json!(null), json!("id"), json!(NOW_SECONDS)),
                "bastionary" => (json!(null), json!("delivery_id"), json!(NOW_SECONDS)),
                "orientedos" => (json!(plain.value("delivery-id")), json!(null), json!(null)),
                _ => {
                    (json!(null), json!("event_id"), json!(plain.value("timestamp").parse::<i64>().unwrap()))
                }
            };
            case["verified"] = json!({ "id": id, "id_field": id_field, "timestamp": timestamp });
        }
        case
    }
}
