//! A contract: everything a sender promises its receivers, as data.
//!
//! All contracts are values of the fields below; none has code of its own. A `Contract` value has been validated as a
//! whole.

#[cfg(test)]
mod builtin_tests;
mod codec;
mod delivery_rules;
mod field_reader;
mod fields;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod header_names;
mod inheritance;
mod notifications;
mod overrides;
mod stored;
mod template;
#[cfg(test)]
mod tests;
mod timeline;
mod wire_format;

pub use delivery_rules::{
    DisabledRule, Jitter, Pacing, PublishedWhileDisabled, RenderingRule, ResponseMeaning, ResponseRules,
    Retention, RetentionPeriod, RetryAfter, RetryRule, StatusPattern, WaitingWhenDisabled,
};
pub use fields::{CONTRACT_FIELDS, FieldRule, OverrideLevel};
pub use notifications::{DeadLetterNotice, HealthRule, NoticeChannel, Notices, Percent, StateNames};
pub use template::{Segment, Template, Variable};
pub use timeline::{TimeWindow, Timeline, TimelineEnd};
pub use wire_format::{
    BodyField, BodyForm, BodyRule, BodySource, IdPrefixes, JsonForm, KeyForm, Rotation, SecretRule,
    SignatureEncoding, SignatureRule, TimeForm,
};

use super::field_error::FieldError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, time::Duration};

macro_rules! built_in {
    ($($file:literal),+) => { &[$(($file, include_str!(concat!("../../../../", $file)))),+] };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "contracts/standard.toml",
    "contracts/zerofee.toml",
    "contracts/bastionary.toml",
    "contracts/orientedos.toml",
    "contracts/sendnomi.toml",
    "contracts/simpaisa.toml"
];

/// Names one resolved contract, by the SHA-256 of its canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContractHash(pub [u8; 16]);

impl fmt::Display for ContractHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    pub name: String,
    pub description: String,
    /// Replaces `{brand}` in templates and header names.
    pub brand: String,
    /// Names of its event types, for people to read; no event is rejected because of them.
    pub event_types: Vec<String>,
    pub user_agent: Template,
    /// Limit for the whole request, from name resolution to the last byte of the response.
    pub timeout: Duration,
    pub pacing: Pacing,
    /// `None`: as the product's setting says.
    pub https_only: Option<bool>,
    pub body: BodyRule,
    pub signature: SignatureRule,
    pub secret: SecretRule,
    /// Further headers by lower-case name, besides content type, user agent and signature.
    pub headers: BTreeMap<String, Template>,
    pub retry: RetryRule,
    pub answers: ResponseRules,
    pub off: DisabledRule,
    pub health: HealthRule,
    pub notices: Notices,
    pub retention: Retention,
    pub states: StateNames,
    pub ids: IdPrefixes,
    pub rendering: RenderingRule,
    /// Header names as the document writes them (may contain `{brand}`), by their names on the wire.
    header_spellings: BTreeMap<String, String>,
}

/// Error in a contract document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    #[error("{file}: {source}")]
    Field { file: String, source: FieldError },
    #[error("{file}: {message}")]
    Syntax { file: String, message: String },
}

impl Contract {
    /// The contracts that come with the product. Fails only if the product was built with a broken one.
    pub fn builtin() -> Result<Vec<Self>, ContractError> {
        BUILT_IN.iter().map(|(file, text)| Self::from_toml(file, text)).collect()
    }

    fn from_document(document: &Value) -> Result<Self, FieldError> {
        fields::for_each_field(document, |_, _| Ok(()))?;
        codec::read(document)
    }
}

impl Serialize for Contract {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        codec::write(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Contract {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Value::deserialize(deserializer)?;
        Self::from_document(&document).map_err(serde::de::Error::custom)
    }
}
