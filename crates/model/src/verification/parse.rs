//! Parses headers by the templates that wrote them: id, time, signatures.

use super::{IncomingRequest, Mismatch, SignatureAlgorithm};
use crate::contract::{Contract, Segment, Template, Variable};

/// Longer signature headers are not read: this product sends none.
const HEADER_CHARS_MAX: usize = 2000;
/// Unix seconds have ten digits until the year 2286.
const TIME_DIGITS_MAX: usize = 12;

type Captures<'a> = Vec<(Variable, &'a str)>;

/// Values captured from the headers of a request.
#[derive(Clone)]
pub(super) struct CapturedValues<'a> {
    pub(super) contract: &'a Contract,
    signature: &'a str,
    values: Captures<'a>,
}

/// A signature from the header, not decoded yet.
pub(super) struct CapturedSignature<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) text: &'a str,
    pub(super) values: Captures<'a>,
}

impl<'a> CapturedValues<'a> {
    /// Reads the contract's headers. Fails if one is repeated or malformed, or if the signature or a header with an id or
    /// the time is missing.
    pub(super) fn read(contract: &'a Contract, received: &IncomingRequest<'a>) -> Result<Self, Mismatch> {
        let signature = single_header(received, &contract.signature.header)?;
        let mut known = Self { contract, signature, values: Vec::new() };
        for (name, template) in &contract.headers {
            let carries = |variable| template.contains(variable);
            let is_needed =
                [Variable::Id, Variable::EventId, Variable::DeliveryId, Variable::AttemptId, Variable::T]
                    .into_iter()
                    .any(carries);
            match single_header(received, name) {
                Ok(value) => {
                    let other = || malformed(name, template.source());
                    let values = capture(template, value).ok_or_else(other)?;
                    known.values.extend(values);
                }
                Err(Mismatch::MissingHeader(_)) if !is_needed => {}
                Err(mismatch) => return Err(mismatch),
            }
        }
        if known
            .get(Variable::Id)
            .is_some_and(|id| !id.bytes().all(|b| b.is_ascii_graphic()) || id.len() > 256)
        {
            let name = contract.headers.iter().find(|(_, template)| template.contains(Variable::Id));
            return Err(malformed(name.map_or("", |(name, _)| name), "an id without spaces"));
        }
        Ok(known)
    }

    /// Returns the signatures that match a template of the contract; others in the header are ignored.
    pub(super) fn signatures(&self) -> Vec<CapturedSignature<'a>> {
        let rule = &self.contract.signature;
        if self.signature.len() > HEADER_CHARS_MAX {
            return Vec::new();
        }
        let one = |part: &'a str| {
            let by = |kind, template: &Template| {
                let values = capture(template, part)?;
                let text = values.iter().find(|(variable, _)| *variable == Variable::Signature)?.1;
                Some(CapturedSignature { algorithm: kind, text, values })
            };
            by(SignatureAlgorithm::Hmac, &rule.hmac_sha256)
                .or_else(|| by(SignatureAlgorithm::Ed25519, rule.ed25519.as_ref()?))
        };
        if rule.separator.is_empty() {
            return one(self.signature).into_iter().collect();
        }
        let parts: Vec<&str> = self.signature.split(rule.separator.as_str()).collect();
        // A leading, trailing or doubled separator: the header is malformed.
        if parts.contains(&"") {
            return Vec::new();
        }
        parts.into_iter().filter_map(one).collect()
    }

    /// The signature header as received.
    pub(super) fn signature_header(&self) -> &'a str {
        self.signature
    }

    pub(super) fn with_captures(&self, values: &Captures<'a>) -> Self {
        let mut with = self.clone();
        // Values beside the signature take precedence over other headers: they were signed.
        with.values.splice(0..0, values.iter().copied());
        with
    }

    pub(super) fn get(&self, variable: Variable) -> Option<&str> {
        let known = self.values.iter().find(|(known, _)| *known == variable).map(|(_, text)| *text);
        known.or_else(|| (variable == Variable::Brand).then_some(self.contract.brand.as_str()))
    }

    pub(super) fn time(&self) -> Result<i64, Mismatch> {
        let other = || {
            let carries = |(_, template): &(&String, &Template)| template.contains(Variable::T);
            let header = self.contract.headers.iter().find(carries).map_or("", |(name, _)| name);
            let header = if header.is_empty() { &self.contract.signature.header } else { header };
            malformed(header, "whole seconds since 1970, in digits")
        };
        let text = self.get(Variable::T).ok_or_else(other)?;
        let is_time = (1..=TIME_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| is_time).ok_or_else(other)
    }

    /// Builds the text that the sender signs for this body.
    pub(super) fn signed_text(&self, body: &[u8]) -> Result<Vec<u8>, Mismatch> {
        if self.contract.signature.signs.contains(Variable::T) {
            self.time()?;
        }
        let mut text = Vec::with_capacity(body.len() + 160);
        for segment in self.contract.signature.signs.segments() {
            match segment {
                Segment::Literal(literal) => text.extend_from_slice(literal.as_bytes()),
                Segment::Variable(Variable::Body) => text.extend_from_slice(body),
                Segment::Variable(variable) => {
                    let value = self.get(*variable).ok_or_else(|| self.malformed_signature())?;
                    text.extend_from_slice(value.as_bytes());
                }
            }
        }
        Ok(text)
    }

    pub(super) fn malformed_signature(&self) -> Mismatch {
        let rule = &self.contract.signature;
        malformed(&rule.header, &format!("{} in {}", rule.hmac_sha256.source(), rule.encoding.name()))
    }
}

fn malformed(header: &str, form: &str) -> Mismatch {
    Mismatch::MalformedHeader { header: header.to_owned(), form: form.to_owned() }
}

/// The value of the only header of this name.
fn single_header<'a>(received: &IncomingRequest<'a>, name: &str) -> Result<&'a str, Mismatch> {
    let mut values = received.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    match (values.next(), values.next()) {
        (Some((_, value)), None) if !value.is_empty() => Ok(value),
        (Some(_), Some(_)) => Err(Mismatch::RepeatedHeader(name.to_owned())),
        _ => Err(Mismatch::MissingHeader(name.to_owned())),
    }
}

/// Returns the value of each variable, if the text matches the template.
pub(super) fn capture<'a>(template: &Template, text: &'a str) -> Option<Captures<'a>> {
    let (mut rest, mut values) = (text, Vec::new());
    let mut segments = template.segments().iter().peekable();
    while let Some(segment) = segments.next() {
        match segment {
            Segment::Literal(literal) => rest = rest.strip_prefix(literal.as_ref())?,
            Segment::Variable(variable) => {
                let end = match segments.peek() {
                    None => rest.len(),
                    Some(Segment::Literal(next)) => rest.find(next.as_ref())?,
                    Some(Segment::Variable(_)) => return None,
                };
                values.push((*variable, &rest[..end]));
                rest = &rest[end..];
            }
        }
    }
    rest.is_empty().then_some(values)
}
