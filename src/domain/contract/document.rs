//! A contract as a document: how each field is read, bounded and written.
//!
//! `read` and `write` are each other's inverse; the written form, defaults included, is what is hashed and stored.

use super::{
    Contract,
    course::{
        Answers, Jitter, Keep, OffRule, Pacing, PublishedWhileOff, RenderingRule, Retention, RetryAfter,
        RetryRule, Statuses, WaitingWhenOff,
    },
    reader::{Field, Section},
    template::{Place, Template},
    wire::{
        BodyForm, BodyRule, IdPrefixes, JsonForm, KeyForm, Rotation, SecretRule, SignatureRule, Source,
        TimeForm,
    },
};
use crate::domain::{field::FieldError, static_headers, time::format_duration};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};

const DAY: Duration = Duration::from_hours(24);
const WAITS_MAX: usize = 32;
const WAIT_MAX: Duration = DAY.saturating_mul(30);
const TIMEOUT_MAX: Duration = Duration::from_mins(1);
const TIMEOUT_MIN: Duration = Duration::from_millis(10);

type Read<T> = Result<T, FieldError>;

/// Reads a document whose field names are already known to exist.
pub(super) fn read(document: &Value) -> Read<Contract> {
    let root = Section::root(document)?;
    let empty = Map::new();
    let section = |name| root.section(name, &empty);
    let contract = Contract {
        name: read_name(&root)?,
        description: root.required("description")?,
        brand: printable(&root, "brand", "Posthaste")?,
        user_agent: template(&root, "user_agent", Some("Posthaste/{version}"), Place::UserAgent)?,
        timeout: within(&root, "timeout", root.required("timeout")?, TIMEOUT_MIN, TIMEOUT_MAX)?,
        pacing: root.or("pacing", Pacing::Strict)?,
        https_only: root.optional("https_only")?,
        body: read_body(&section("body")?)?,
        signature: read_signature(&section("signature")?)?,
        secret: read_secret(&section("secret")?)?,
        headers: read_headers(&section("headers")?)?,
        retry: read_retry(&section("retry")?)?,
        answers: read_answers(&section("answers")?)?,
        off: read_off(&section("off")?)?,
        retention: read_retention(&section("retention")?)?,
        ids: read_ids(&section("ids")?)?,
        rendering: read_rendering(&section("rendering")?)?,
    };
    if contract.headers.contains_key(&contract.signature.header) {
        return Err(FieldError::new("signature.header", "is also one of the other headers"));
    }
    if contract.signature.ed25519.is_some() != contract.secret.ed25519_prefix.is_some() {
        let message = "and `secret.ed25519_prefix` must be given both or neither";
        return Err(FieldError::new("signature.ed25519", message));
    }
    Ok(contract)
}

pub(super) fn write(contract: &Contract) -> Value {
    let Contract { body, signature, secret, retry, answers, off, retention, ids, rendering, .. } = contract;
    let list = |statuses: &[Statuses]| statuses.iter().map(Field::write).collect::<Vec<_>>();
    let headers: Map<_, _> = contract.headers.iter().map(|(k, v)| (k.clone(), v.source().into())).collect();
    json!({
        "name": contract.name,
        "description": contract.description,
        "brand": contract.brand,
        "user_agent": contract.user_agent.source(),
        "timeout": contract.timeout.write(),
        "pacing": contract.pacing.name(),
        "https_only": contract.https_only,
        "body": {
            "form": body.form.name(),
            "json": body.json.name(),
            "time": body.time.name(),
            "fields": body.fields.iter().map(Field::write).collect::<Vec<_>>(),
        },
        "signature": {
            "header": signature.header,
            "signs": signature.signs.source(),
            "hmac_sha256": signature.hmac_sha256.source(),
            "ed25519": signature.ed25519.as_ref().map(Template::source),
            "encoding": signature.encoding.name(),
            "separator": signature.separator,
        },
        "secret": {
            "key": secret.key.name(),
            "prefix": Some(&secret.prefix).filter(|prefix| !prefix.is_empty()),
            "bytes": secret.bytes,
            "rotation": secret.rotation.name(),
            "ed25519_prefix": secret.ed25519_prefix,
        },
        "headers": headers,
        "retry": {
            "waits": retry.waits.iter().map(Field::write).collect::<Vec<_>>(),
            "jitter": retry.jitter.write(),
            "final_wait": retry.final_wait.map(format_duration),
            "give_up_after": retry.give_up_after.map(format_duration),
            "give_up_while_held": retry.give_up_while_held,
            "retry_after": retry.retry_after.name(),
        },
        "answers": {
            "success": list(&answers.success),
            "never": list(&answers.never),
            "switch_off": list(&answers.switch_off),
        },
        "off": { "waiting": off.waiting.name(), "published": off.published.name() },
        "retention": {
            "events": retention.events.write(),
            "attempts": retention.attempts.write(),
            "payloads": retention.payloads.write(),
            "dead_letters": retention.dead_letters.write(),
        },
        "ids": { "event": ids.event, "delivery": ids.delivery },
        "rendering": { "tries": rendering.tries, "timeout": rendering.timeout.write() },
    })
}

fn read_body(body: &Section) -> Read<BodyRule> {
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
    match (rule.form, rule.fields.iter().filter(|f| f.from == Source::Data).count()) {
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

fn read_signature(signature: &Section) -> Read<SignatureRule> {
    Ok(SignatureRule {
        header: header_name(&signature.at("header"), &signature.required::<String>("header")?)?,
        signs: template(signature, "signs", None, Place::SignedText)?,
        hmac_sha256: template(signature, "hmac_sha256", None, Place::SignatureValue)?,
        ed25519: signature
            .optional::<String>("ed25519")?
            .map(|_| template(signature, "ed25519", None, Place::SignatureValue))
            .transpose()?,
        encoding: signature.required("encoding")?,
        separator: printable(signature, "separator", " ")?,
    })
}

fn read_secret(secret: &Section) -> Read<SecretRule> {
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

fn read_headers(headers: &Section) -> Read<BTreeMap<String, Template>> {
    let mut read = BTreeMap::new();
    for name in headers.members().keys() {
        let lower = header_name(&headers.at(name), name)?;
        if read.insert(lower, template(headers, name, None, Place::Header)?).is_some() {
            return Err(FieldError::new(headers.at(name), "is given twice; header names ignore case"));
        }
    }
    Ok(read)
}

fn read_retry(retry: &Section) -> Read<RetryRule> {
    let waits: Vec<Duration> = retry.list("waits", WAITS_MAX, None)?;
    for (i, wait) in waits.iter().enumerate() {
        within(retry, &format!("waits[{i}]"), *wait, TIMEOUT_MIN, WAIT_MAX)?;
    }
    let bounded = |name, max| {
        let duration: Option<Duration> = retry.optional(name)?;
        duration.map(|duration| within(retry, name, duration, TIMEOUT_MIN, max)).transpose()
    };
    Ok(RetryRule {
        waits,
        jitter: retry.or("jitter", Jitter::None)?,
        final_wait: bounded("final_wait", WAIT_MAX)?,
        give_up_after: bounded("give_up_after", DAY * 365)?,
        give_up_while_held: retry.or("give_up_while_held", false)?,
        retry_after: retry.or("retry_after", RetryAfter::Ignore)?,
    })
}

fn read_answers(section: &Section) -> Read<Answers> {
    let answers = Answers {
        success: section.list("success", 32, Some(vec![Statuses::Hundred(2)]))?,
        never: section.list("never", 32, Some(Vec::new()))?,
        switch_off: section.list("switch_off", 32, Some(Vec::new()))?,
    };
    if answers.success.is_empty() {
        return Err(FieldError::new(
            "answers.success",
            "must name a status; nothing could ever be delivered",
        ));
    }
    let earlier: Vec<_> = answers.success.iter().chain(&answers.never).collect();
    if answers.never.iter().any(|statuses| answers.success.contains(statuses)) {
        return Err(FieldError::new("answers.never", "names what `answers.success` names"));
    }
    if answers.switch_off.iter().any(|statuses| earlier.contains(&statuses)) {
        return Err(FieldError::new("answers.switch_off", "names what another list of `answers` names"));
    }
    Ok(answers)
}

fn read_off(off: &Section) -> Read<OffRule> {
    Ok(OffRule {
        waiting: off.or("waiting", WaitingWhenOff::Held)?,
        published: off.or("published", PublishedWhileOff::Held)?,
    })
}

fn read_retention(retention: &Section) -> Read<Retention> {
    let keep = |name| match retention.or(name, Keep::For(DAY * 30))? {
        Keep::Forever => Ok(Keep::Forever),
        Keep::For(d) => within(retention, name, d, Duration::from_mins(1), DAY * 3650).map(Keep::For),
    };
    Ok(Retention {
        events: keep("events")?,
        attempts: keep("attempts")?,
        payloads: keep("payloads")?,
        dead_letters: keep("dead_letters")?,
    })
}

fn read_ids(ids: &Section) -> Read<IdPrefixes> {
    let prefix = |name, default: &str| {
        let text = ids.or(name, default.to_owned())?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if text.len() <= 16 && text.bytes().all(plain) {
            return Ok(text);
        }
        Err(FieldError::new(ids.at(name), "must be 1 to 16 characters out of a-z 0-9"))
    };
    Ok(IdPrefixes { event: prefix("event", "evt")?, delivery: prefix("delivery", "dlv")? })
}

fn read_rendering(rendering: &Section) -> Read<RenderingRule> {
    let timeout = rendering.or("timeout", Duration::from_secs(5))?;
    let rule = RenderingRule {
        tries: rendering.or("tries", 1)?,
        timeout: within(rendering, "timeout", timeout, TIMEOUT_MIN, TIMEOUT_MAX)?,
    };
    if (1..=10).contains(&rule.tries) {
        return Ok(rule);
    }
    Err(FieldError::new("rendering.tries", "must be from 1 to 10"))
}

fn read_name(root: &Section) -> Read<String> {
    let name: String = root.required("name")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if name.len() <= 64 && name.bytes().all(plain) {
        return Ok(name);
    }
    Err(FieldError::new("name", "must be 1 to 64 characters out of a-z 0-9 _ -"))
}

fn template(section: &Section, name: &str, default: Option<&str>, place: Place) -> Read<Template> {
    let source = match default {
        Some(default) => section.or(name, default.to_owned())?,
        None => section.required::<String>(name)?,
    };
    Template::parse(&source, place).map_err(|message| FieldError::new(section.at(name), message))
}

/// Text that will stand in a header.
fn printable(section: &Section, name: &str, default: &str) -> Read<String> {
    let text = section.or(name, default.to_owned())?;
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Ok(text);
    }
    Err(FieldError::new(section.at(name), "must be printable ASCII characters"))
}

fn header_name(field: &str, name: &str) -> Read<String> {
    let name = name.to_ascii_lowercase();
    if !static_headers::is_name(&name) {
        return Err(FieldError::new(field, "must be a header name of 1 to 128 characters"));
    }
    if static_headers::belongs_to_the_request(&name) {
        return Err(FieldError::new(field, "is written by the product itself"));
    }
    Ok(name)
}

fn within(section: &Section, name: &str, duration: Duration, min: Duration, max: Duration) -> Read<Duration> {
    if (min..=max).contains(&duration) {
        return Ok(duration);
    }
    let message = format!("must be from {} to {}", format_duration(min), format_duration(max));
    Err(FieldError::new(section.at(name), message))
}
