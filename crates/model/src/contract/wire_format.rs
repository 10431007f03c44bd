//! Contract sections that a receiver sees: body, signature, secret, ids.

use super::{
    field_reader::{FieldValue, string_enum},
    template::Template,
};
use serde_json::{Value, json};

string_enum!(
    /// Structure of the body.
    BodyForm {
        /// An object with the fields of the contract, `data` being one of them.
        Envelope = "envelope",
        /// The fields of the contract followed by the members of `data`, all in one object.
        Flat = "flat",
    }
);

string_enum!(
    /// How JSON is written.
    JsonForm {
        /// `data` goes out byte for byte as it came in.
        AsGiven = "as_given",
        /// Keys sorted by code point at every depth, no spaces, escapes as Python's `json.dumps` writes them,
        /// numbers as given, of duplicate keys the last.
        Sorted = "sorted",
    }
);

string_enum!(
    /// Precision of an event's time, in RFC 3339.
    TimeForm {
        Milliseconds = "milliseconds",
        Seconds = "seconds",
    }
);

string_enum!(
    /// Where the value of a body field comes from.
    BodySource {
        EventId = "event_id",
        Type = "type",
        CreatedAt = "created_at",
        Data = "data",
        Livemode = "livemode",
        /// The id of the delivery at the root of all replays.
        DeliveryId = "delivery_id",
        AppId = "app_id",
        PayloadVersion = "payload_version",
    }
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyField {
    pub name: String,
    pub from: BodySource,
}

impl FieldValue for BodyField {
    fn allowed_form() -> String {
        let name = "1 to 64 characters out of A-Z a-z 0-9 _ . : -";
        format!("{{ name = {name}, from = {} }}", BodySource::allowed_form())
    }

    fn read(value: &Value) -> Option<Self> {
        let members = value.as_object().filter(|members| members.len() == 2)?;
        let name = members.get("name")?.as_str()?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(plain);
        let from = BodySource::read(members.get("from")?)?;
        fits.then(|| Self { name: name.to_owned(), from })
    }

    fn write(&self) -> Value {
        json!({ "name": self.name, "from": self.from.name() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyRule {
    pub form: BodyForm,
    pub json: JsonForm,
    pub time: TimeForm,
    /// In the order they are written. Names need no escaping.
    pub fields: Vec<BodyField>,
}

string_enum!(
    /// How the bytes of a signature become text.
    SignatureEncoding {
        Base64 = "base64",
        Hex = "hex",
    }
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRule {
    /// In lower case.
    pub header: String,
    /// The text that is signed.
    pub signs: Template,
    /// Form of an HMAC-SHA256 signature in the header.
    pub hmac_sha256: Template,
    /// Form of an ed25519 signature, where the contract has them.
    pub ed25519: Option<Template>,
    pub encoding: SignatureEncoding,
    /// Stands between signatures when several secrets are valid.
    pub separator: String,
}

string_enum!(
    /// How a secret becomes the bytes of a key.
    KeyForm {
        /// The base64 after the prefix is decoded.
        Base64 = "base64",
        /// The UTF-8 of the whole secret, its prefix included.
        Text = "text",
    }
);

string_enum!(
    /// Which secrets sign while an old and a new one are both valid.
    Rotation {
        Both = "both",
        /// Only the newest, from the instant it becomes valid.
        Switch = "switch",
    }
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRule {
    pub key: KeyForm,
    /// Stands before generated secrets; under `KeyForm::Base64` before given ones too. May be empty.
    pub prefix: String,
    /// How many random bytes a generated secret is made of.
    pub bytes: u32,
    pub rotation: Rotation,
    /// Stands before ed25519 private keys, where the contract has them.
    pub ed25519_prefix: Option<String>,
}

impl SecretRule {
    /// Whether the secret is an ed25519 private key rather than a shared secret.
    pub fn is_ed25519_key(&self, secret: &str) -> bool {
        self.ed25519_prefix.as_deref().is_some_and(|prefix| secret.starts_with(prefix))
    }
}

/// Prefixes, before the `_`, of ids that this product generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefixes {
    pub event: String,
    pub delivery: String,
}
