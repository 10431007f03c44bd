//! Renders the headers of an attempt, signature included, by the contract's templates.
//!
//! The signature covers exactly the `body` that is sent.

use super::{
    body::EventParts,
    contract::{Contract, Segment, SignatureEncoding, Template, Variable},
    id::{AttemptId, DeliveryId},
    signing_keys::{SigningError, SigningKey, SigningKeys},
    time::Timestamp,
};
use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_STANDARD};
use std::borrow::Cow;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An attempt as its headers describe it.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    pub event: &'a EventParts<'a>,
    /// The delivery at the root of all replays.
    pub root: DeliveryId,
    pub attempt: AttemptId,
    /// The attempt's number, from 1.
    pub number: u32,
    /// When the attempt starts.
    pub now: Timestamp,
    pub body: &'a [u8],
}

/// A header's name, in lower case, and its value.
pub type Header = (Cow<'static, str>, String);

/// Renders every header of the contract. Fails if no secret of the endpoint is valid at the attempt's start.
pub fn render_headers(
    contract: &Contract,
    signing_keys: &SigningKeys,
    request: &RequestParts,
) -> Result<Vec<Header>, SigningError> {
    let values = TemplateValues::new(contract, request);
    let mut headers = Vec::with_capacity(contract.headers.len() + 3);
    headers.push((Cow::Borrowed("content-type"), "application/json".to_owned()));
    headers.push((Cow::Borrowed("user-agent"), values.fill(&contract.user_agent, "")));
    for (name, template) in &contract.headers {
        headers.push((Cow::Owned(name.clone()), values.fill(template, "")));
    }
    let signatures = sign(contract, signing_keys, request, &values)?;
    headers.push((Cow::Owned(contract.signature.header.clone()), signatures));
    Ok(headers)
}

fn sign(
    contract: &Contract,
    signing_keys: &SigningKeys,
    request: &RequestParts,
    values: &TemplateValues,
) -> Result<String, SigningError> {
    let rule = &contract.signature;
    let mut header = String::new();
    for key in signing_keys.keys_at(request.now) {
        let (template, signature) = match key {
            SigningKey::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                values.signed_text(&rule.signs, request.body, |piece| context.update(piece));
                (&rule.hmac_sha256, encode(rule.encoding, context.sign().as_ref()))
            }
            SigningKey::Ed25519(pair) => {
                let Some(template) = &rule.ed25519 else { continue };
                let mut text = Vec::with_capacity(request.body.len() + 160);
                values.signed_text(&rule.signs, request.body, |piece| text.extend_from_slice(piece));
                (template, encode(rule.encoding, pair.sign(&text).as_ref()))
            }
        };
        if !header.is_empty() {
            header.push_str(&rule.separator);
        }
        header.push_str(&values.fill(template, &signature));
    }
    if header.is_empty() { Err(SigningError::NoValidSecret) } else { Ok(header) }
}

fn encode(encoding: SignatureEncoding, bytes: &[u8]) -> String {
    match encoding {
        SignatureEncoding::Base64 => BASE64_STANDARD.encode(bytes),
        SignatureEncoding::Hex => {
            let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
            bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
        }
    }
}

/// Values of the variables in an attempt.
struct TemplateValues<'a> {
    contract: &'a Contract,
    request: &'a RequestParts<'a>,
    id: Cow<'a, str>,
    t: String,
}

impl<'a> TemplateValues<'a> {
    fn new(contract: &'a Contract, request: &'a RequestParts<'a>) -> Self {
        let event = request.event;
        // Dots separate the parts of the signed text: with a dot in the id, one text could stand for two requests.
        let ambiguous = event.public_id.contains('.') && contract.signature.signs.contains(Variable::Id);
        let id = if ambiguous {
            Cow::Owned(event.own_id.with_prefix(&contract.ids.event))
        } else {
            Cow::Borrowed(event.public_id)
        };
        Self { contract, request, id, t: request.now.as_seconds().to_string() }
    }

    /// Returns a variable's text; empty for the body, which is bytes, and the signature, which is not made yet.
    fn text(&self, variable: Variable) -> Cow<'_, str> {
        match variable {
            Variable::Id => Cow::Borrowed(&self.id),
            Variable::EventId => Cow::Borrowed(self.request.event.public_id),
            Variable::Type => Cow::Borrowed(self.request.event.event_type),
            Variable::T => Cow::Borrowed(&self.t),
            Variable::Attempt => Cow::Owned(self.request.number.to_string()),
            Variable::AttemptId => Cow::Owned(self.request.attempt.to_string()),
            Variable::DeliveryId => Cow::Owned(self.request.root.with_prefix(&self.contract.ids.delivery)),
            Variable::Brand => Cow::Borrowed(&self.contract.brand),
            Variable::Version => Cow::Borrowed(VERSION),
            Variable::Body | Variable::Signature => Cow::Borrowed(""),
        }
    }

    fn fill(&self, template: &Template, signature: &str) -> String {
        let mut out = String::with_capacity(template.source().len() + signature.len() + 24);
        for segment in template.segments() {
            match segment {
                Segment::Literal(literal) => out.push_str(literal),
                Segment::Variable(Variable::Signature) => out.push_str(signature),
                Segment::Variable(variable) => out.push_str(&self.text(*variable)),
            }
        }
        out
    }

    fn signed_text(&self, template: &Template, body: &[u8], mut feed: impl FnMut(&[u8])) {
        for segment in template.segments() {
            match segment {
                Segment::Literal(literal) => feed(literal.as_bytes()),
                Segment::Variable(Variable::Body) => feed(body),
                Segment::Variable(variable) => feed(self.text(*variable).as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
