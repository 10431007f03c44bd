//! Reads the sections that a receiver sees: `body`, `signature`, `secret`, `headers`, `ids`.

use super::{FieldResult, read_printable, read_template};
use crate::{
    contract::{
        field_reader::Section,
        header_names::HeaderNames,
        template::{Template, TemplateUse},
        wire_format::{
            BodyForm, BodyRule, BodySource, IdPrefixes, JsonForm, KeyForm, Rotation, SecretRule,
            SignatureRule, TimeForm,
        },
    },
    field_error::FieldError,
};
use std::collections::BTreeMap;

pub(super) fn read_body(body: &Section) -> FieldResult<BodyRule> {
    let mut rule = BodyRule {
        form: body.or("form", BodyForm::Envelope)?,
        json: body.or("json", JsonForm::AsGiven)?,
        time: body.or("time", TimeForm::Milliseconds)?,
        fields: body.list("fields", 32, None)?,
    };
    let refuse = |message| Err(FieldError::new("body.fields", message));
    if rule.fields.iter().enumerate().any(|(i, f)| rule.fields[..i].iter().any(|g| f.name == g.name)) {
        return refuse("must not name a field twice");
    }
    match (rule.form, rule.fields.iter().filter(|f| f.from == BodySource::Data).count()) {
        (BodyForm::Envelope, 1) => {}
        (BodyForm::Envelope, _) => return refuse("must have exactly one field from \"data\""),
        (BodyForm::Flat, 0) if !rule.fields.is_empty() => {}
        (BodyForm::Flat, _) => {
            return refuse("must have at least one field and none from \"data\" in a flat body");
        }
    }
    match (rule.json, rule.form) {
        (JsonForm::AsGiven, _) => {}
        // The names are ASCII, whose bytes sort as its code points do.
        (JsonForm::Sorted, BodyForm::Envelope) => rule.fields.sort_by(|a, b| a.name.cmp(&b.name)),
        (JsonForm::Sorted, BodyForm::Flat) => {
            return Err(FieldError::new("body.json", "must be \"as_given\" in a flat body"));
        }
    }
    Ok(rule)
}

pub(super) fn read_signature(signature: &Section, names: &mut HeaderNames) -> FieldResult<SignatureRule> {
    Ok(SignatureRule {
        header: names.add(&signature.at("header"), &signature.required::<String>("header")?)?,
        signs: read_template(signature, "signs", None, TemplateUse::SignedText)?,
        hmac_sha256: read_template(signature, "hmac_sha256", None, TemplateUse::SignatureValue)?,
        ed25519: signature
            .optional::<String>("ed25519")?
            .map(|_| read_template(signature, "ed25519", None, TemplateUse::SignatureValue))
            .transpose()?,
        encoding: signature.required("encoding")?,
        separator: read_printable(signature, "separator", " ")?,
    })
}

pub(super) fn read_secret(secret: &Section) -> FieldResult<SecretRule> {
    let rule = SecretRule {
        key: secret.required("key")?,
        prefix: secret.optional("prefix")?.unwrap_or_default(),
        bytes: secret.or("bytes", 32)?,
        rotation: secret.or("rotation", Rotation::Switch)?,
        ed25519_prefix: secret.optional("ed25519_prefix")?,
    };
    if !(24..=64).contains(&rule.bytes) {
        return Err(FieldError::new("secret.bytes", "must be from 24 to 64"));
    }
    if rule.key == KeyForm::Base64 && rule.ed25519_prefix.as_ref() == Some(&rule.prefix) {
        return Err(FieldError::new("secret.ed25519_prefix", "must differ from `secret.prefix`"));
    }
    Ok(rule)
}

pub(super) fn read_headers(
    headers: &Section,
    names: &mut HeaderNames,
) -> FieldResult<BTreeMap<String, Template>> {
    let mut read = BTreeMap::new();
    for name in headers.members().keys() {
        let value = read_template(headers, name, None, TemplateUse::Header)?;
        read.insert(names.add(&headers.at(name), name)?, value);
    }
    Ok(read)
}

pub(super) fn read_ids(ids: &Section) -> FieldResult<IdPrefixes> {
    let prefix = |name, default: &str| {
        let text = ids.or(name, default.to_owned())?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if text.len() <= 16 && text.bytes().all(plain) && text.as_bytes()[0].is_ascii_lowercase() {
            return Ok(text);
        }
        Err(FieldError::new(ids.at(name), "must be 1 to 16 characters out of a-z 0-9, the first a letter"))
    };
    Ok(IdPrefixes { event: prefix("event", "evt")?, delivery: prefix("delivery", "dlv")? })
}
