//! Searches for differences that make a wrong signature right: another variant of the body, another key from the same
//! secret, another signed text, another encoding. The fewest differences win.

use super::{
    Diagnosis, IncomingRequest, Mismatch, SignatureAlgorithm, VerifyOptions, VerifyingKey,
    body_variants::body_variants,
    decode,
    keys::{self, KeyMistake},
    parse::CapturedValues,
    verify,
};
use crate::{
    contract::{BodyForm, Contract, JsonForm, SignatureEncoding, Variable},
    json,
};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD},
};

/// Differences are not tried in pairs for larger bodies.
const PAIRED_SEARCH_BYTES_MAX: usize = 16 * 1024;
/// Only so many readings of the signatures in a header are tried.
const CANDIDATES_MAX: usize = 8;

/// Texts that people sign; each ends with the body.
const COMMON_SIGNED_TEXTS: [(&str, &[TextPart]); 6] = [
    ("{body}", &[]),
    ("{t}.{body}", &[TextPart::Time, TextPart::Literal(".")]),
    ("{id}.{t}.{body}", &[TextPart::Id, TextPart::Literal("."), TextPart::Time, TextPart::Literal(".")]),
    ("{id}.{body}", &[TextPart::Id, TextPart::Literal(".")]),
    ("{t}{body}", &[TextPart::Time]),
    ("{t}:{body}", &[TextPart::Time, TextPart::Literal(":")]),
];

enum TextPart {
    Id,
    Time,
    Literal(&'static str),
}

/// A possible reading of a signature, and its deviation from the contract.
struct Candidate<'a> {
    deviation: Option<Diagnosis>,
    algorithm: SignatureAlgorithm,
    bytes: Vec<u8>,
    known: CapturedValues<'a>,
}

/// Returns possible causes of a mismatch, the likeliest first. `others` are contracts that the sender may follow instead.
pub fn diagnose(
    terms: &VerifyOptions<'_>,
    received: &IncomingRequest<'_>,
    mismatch: &Mismatch,
    others: &[Contract],
) -> Vec<Diagnosis> {
    if matches!(mismatch, Mismatch::TooOld { .. } | Mismatch::TooNew { .. } | Mismatch::NoSecret) {
        return Vec::new();
    }
    let contract = terms.contract;
    let mut found = search(terms, received).unwrap_or_default();
    let others = || others.iter().filter(|other| other.name != contract.name);
    found.extend(
        others()
            .filter(|other| is_signed_under(&VerifyOptions { contract: other, ..*terms }, received))
            .map(|other| Diagnosis::OtherContract(other.name.clone())),
    );
    if !found.is_empty() {
        return found;
    }
    if *mismatch == Mismatch::MissingHeader(contract.signature.header.clone()) {
        let has = |name: &str| received.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        found.extend(others().filter(|other| has(&other.signature.header)).map(|other| {
            Diagnosis::OtherHeader { header: other.signature.header.clone(), contract: other.name.clone() }
        }));
    }
    if *mismatch == Mismatch::WrongSignature {
        if received.body.is_empty() {
            found.push(Diagnosis::EmptyBody);
        } else if let Some(why) = rewrite_reason(contract, received.body) {
            found.push(Diagnosis::Rewritten(why));
        }
        let signatures = CapturedValues::read(contract, received).map_or(1, |known| known.signatures().len());
        found.push(Diagnosis::SecretOrBody { signatures });
    }
    found
}

fn is_signed_under(terms: &VerifyOptions<'_>, received: &IncomingRequest<'_>) -> bool {
    matches!(verify(terms, received), Ok(_) | Err(Mismatch::TooOld { .. } | Mismatch::TooNew { .. }))
}

fn search(terms: &VerifyOptions<'_>, received: &IncomingRequest<'_>) -> Option<Vec<Diagnosis>> {
    let known = CapturedValues::read(terms.contract, received).ok()?;
    let candidates = candidates(&known);
    let keys = candidate_keys(terms);
    let mut best: Option<Vec<Diagnosis>> = None;
    let bodies = std::iter::once((None, received.body.to_vec())).chain(
        body_variants(received.body)
            .into_iter()
            .map(|(spelling, body)| (Some(Diagnosis::Body(spelling)), body)),
    );
    let odd_max = if received.body.len() <= PAIRED_SEARCH_BYTES_MAX { 2 } else { 1 };
    for (odd_body, body) in bodies {
        for candidate in &candidates {
            for (odd_text, text) in signed_texts(&candidate.known, &body) {
                for (odd_key, key) in keys.iter().filter(|(_, key)| key.algorithm() == candidate.algorithm) {
                    let odd = [
                        candidate.deviation.as_ref(),
                        odd_key.as_ref(),
                        odd_text.as_ref(),
                        odd_body.as_ref(),
                    ];
                    let odd: Vec<Diagnosis> = odd.into_iter().flatten().cloned().collect();
                    let is_worth_it =
                        odd.len() <= odd_max && best.as_ref().is_none_or(|best| odd.len() < best.len());
                    if is_worth_it && key.verifies(&text, &candidate.bytes) {
                        best = Some(odd);
                    }
                }
            }
        }
    }
    best
}

/// Returns the contract's keys and the mistaken ones. Secrets that do not fit the contract give only mistaken ones.
fn candidate_keys(terms: &VerifyOptions<'_>) -> Vec<(Option<Diagnosis>, VerifyingKey)> {
    let rule = &terms.contract.secret;
    let mut keys = Vec::new();
    for secret in terms.secrets {
        let usable = keys::contract_keys(rule, std::slice::from_ref(secret)).unwrap_or_default();
        keys.extend(usable.into_iter().map(|key| (None, key)));
        keys.extend(
            KeyMistake::ALL
                .into_iter()
                .filter_map(|by| Some((Some(Diagnosis::Key(by)), keys::mistaken_key(rule, secret, by)?))),
        );
    }
    keys
}

fn signed_texts(known: &CapturedValues<'_>, body: &[u8]) -> Vec<(Option<Diagnosis>, Vec<u8>)> {
    let signs = known.contract.signature.signs.source();
    let id = [Variable::Id, Variable::EventId, Variable::DeliveryId].into_iter().find_map(|id| known.get(id));
    let other = |(name, parts): &(&'static str, &[TextPart])| {
        let mut text = Vec::new();
        for part in *parts {
            let part = match part {
                TextPart::Id => id?,
                TextPart::Time => known.get(Variable::T)?,
                TextPart::Literal(sign) => sign,
            };
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(body);
        Some((Some(Diagnosis::SignedText { signed: name, contract: signs.to_owned() }), text))
    };
    let own = known.signed_text(body).ok().map(|text| (None, text));
    own.into_iter()
        .chain(COMMON_SIGNED_TEXTS.iter().filter(|(name, _)| *name != signs).filter_map(other))
        .collect()
}

fn candidates<'a>(known: &CapturedValues<'a>) -> Vec<Candidate<'a>> {
    let rule = &known.contract.signature;
    let mut candidates = Vec::new();
    for signature in known.signatures() {
        let with = known.with_captures(&signature.values);
        let own = decode(rule.encoding, signature.text).map(|bytes| (None, bytes));
        let others = other_encodings(signature.text).into_iter().map(|(found, bytes)| {
            (Some(Diagnosis::Encoding { found, contract: rule.encoding.name() }), bytes)
        });
        let all = own
            .into_iter()
            .chain(others)
            .filter(|(_, bytes)| bytes.len() == signature.algorithm.signature_length());
        candidates.extend(all.map(|(odd, bytes)| Candidate {
            deviation: odd,
            algorithm: signature.algorithm,
            bytes,
            known: with.clone(),
        }));
    }
    if candidates.is_empty() {
        let bare = || Some(Diagnosis::BareSignature { contract: rule.hmac_sha256.source().to_owned() });
        for piece in known.signature_header().split([',', ' ', ';']) {
            let text = ["sha256=", "v1=", "v0=", "s="]
                .iter()
                .find_map(|name| piece.strip_prefix(name))
                .unwrap_or(piece);
            let both = [SignatureEncoding::Hex, SignatureEncoding::Base64]
                .into_iter()
                .filter_map(|encoding| decode(encoding, text));
            let fitting = both.filter(|bytes| bytes.len() == SignatureAlgorithm::Hmac.signature_length());
            candidates.extend(fitting.map(|bytes| Candidate {
                deviation: bare(),
                algorithm: SignatureAlgorithm::Hmac,
                bytes,
                known: known.clone(),
            }));
        }
    }
    candidates.truncate(CANDIDATES_MAX);
    candidates
}

fn other_encodings(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let hex = || decode(SignatureEncoding::Hex, &text.to_ascii_lowercase());
    let is_capital = text.bytes().any(|byte| byte.is_ascii_uppercase());
    let all = [
        (if is_capital { "hex in capitals" } else { "hex" }, hex()),
        ("base64", decode(SignatureEncoding::Base64, text)),
        ("base64 without its padding", BASE64_STANDARD_NO_PAD.decode(text).ok()),
        ("base64 for addresses", BASE64_URL_SAFE.decode(text).ok()),
        ("base64 for addresses without its padding", BASE64_URL_SAFE_NO_PAD.decode(text).ok()),
    ];
    all.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))).collect()
}

/// Returns why the body cannot be the one that was sent, if that shows.
fn rewrite_reason(contract: &Contract, body: &[u8]) -> Option<&'static str> {
    let rule = &contract.body;
    let Ok(members) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body) else {
        return Some("it is no JSON object");
    };
    if rule.form != BodyForm::Envelope {
        return None;
    }
    if !members.keys().map(String::as_str).eq(rule.fields.iter().map(|field| field.name.as_str())) {
        return Some("its members are not those of the contract, or in another order");
    }
    let mut sorted = Vec::new();
    if rule.json == JsonForm::Sorted && json::write_sorted(&mut sorted, body).is_some() && sorted != body {
        return Some("the contract writes sorted keys and no spaces");
    }
    has_spaces_outside(body)
        .then_some("there are spaces around its outermost members, where the sender writes none")
}

/// Whether there is a space outside of the values of the outermost object.
fn has_spaces_outside(body: &[u8]) -> bool {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(byte) = body.get(at) {
        at += 1;
        match byte {
            b'"' => at += json::string_length(&body[at..]) + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            space if space.is_ascii_whitespace() && depth <= 1 => return true,
            _ => {}
        }
    }
    false
}
