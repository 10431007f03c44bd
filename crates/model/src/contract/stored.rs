//! Contracts as they are stored: a document with a format number, under the hash of the fields that differ from their defaults.
//!
//! A new field with its default changes no hash. A stored document that cannot be read is an error, never "no contract".

use super::{Contract, ContractError, ContractHash, codec};
use aws_lc_rs::digest;
use serde_json::{Map, Value, json};

const FORMAT: &str = "format";
/// Grows when a field gets another name, meaning or default. A migration then rewrites the stored documents, which keep the
/// hashes that they were stored under.
const NUMBER: u64 = 1;

/// Fields that every document must have. They are part of every hash.
const REQUIRED: [&str; 10] = [
    "/name",
    "/description",
    "/timeout",
    "/body/fields",
    "/signature/header",
    "/signature/signs",
    "/signature/hmac_sha256",
    "/signature/encoding",
    "/secret/key",
    "/retry/waits",
];

/// Returns the defaults of all other fields.
fn defaults() -> Map<String, Value> {
    let required = json!({
        "name": "a",
        "description": "a",
        "timeout": "1s",
        "body": { "fields": [{ "name": "data", "from": "data" }] },
        "signature": {
            "header": "x-signature", "signs": "{body}", "hmac_sha256": "{signature}", "encoding": "hex",
        },
        "secret": { "key": "text" },
        "retry": { "waits": [] },
    });
    let read = Contract::from_document(&required);
    let mut defaults = read.map_or(Value::Null, |contract| codec::write(&contract));
    for path in REQUIRED {
        let (section, name) = path.rsplit_once('/').unwrap_or_default();
        defaults.pointer_mut(section).and_then(Value::as_object_mut).and_then(|fields| fields.remove(name));
    }
    members(defaults)
}

impl Contract {
    /// Reads a stored document.
    pub fn from_json(text: &str) -> Result<Self, ContractError> {
        let file = || "stored contract".to_owned();
        let syntax = |message| ContractError::Syntax { file: file(), message };
        let mut document: Value = serde_json::from_str(text).map_err(|error| syntax(error.to_string()))?;
        let format = document.as_object_mut().and_then(|fields| fields.remove(FORMAT));
        match format.as_ref().map(Value::as_u64) {
            Some(Some(NUMBER)) => {}
            Some(_) => {
                return Err(syntax(format!("its format is not {NUMBER}, the one that this version reads")));
            }
            None => return Err(syntax("it has no format number".to_owned())),
        }
        Self::from_document(&document).map_err(|source| ContractError::Field { file: file(), source })
    }

    /// Returns the document to store: the format number and every field, defaults included, in one order, without spaces.
    pub fn to_json(&self) -> String {
        with_format(members(codec::write(self)))
    }

    /// Names the contract by its required fields and those that differ from their defaults.
    pub fn hash(&self) -> ContractHash {
        let digest = digest::digest(&digest::SHA256, self.hashed().as_bytes());
        let mut hash = [0; 16];
        hash.copy_from_slice(&digest.as_ref()[..16]);
        ContractHash(hash)
    }

    fn hashed(&self) -> String {
        let mut fields = members(codec::write(self));
        leave_out(&mut fields, &defaults());
        with_format(fields)
    }
}

fn members(document: Value) -> Map<String, Value> {
    if let Value::Object(members) = document { members } else { Map::new() }
}

fn with_format(fields: Map<String, Value>) -> String {
    let mut document = Map::from_iter([(FORMAT.to_owned(), NUMBER.into())]);
    document.extend(fields);
    Value::Object(document).to_string()
}

/// Removes what equals its default, and sections that are empty then.
fn leave_out(fields: &mut Map<String, Value>, defaults: &Map<String, Value>) {
    fields.retain(|name, value| match (value, defaults.get(name)) {
        (Value::Object(fields), Some(Value::Object(defaults))) => {
            leave_out(fields, defaults);
            !fields.is_empty()
        }
        (value, Some(default)) => *value != *default,
        (_, None) => true,
    });
}

#[cfg(test)]
mod tests;
