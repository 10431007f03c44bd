//! An event: what a product published, kept as the bytes it came in.

use super::{
    contract::ContractHash,
    event_type::{ONLY_VERSION, PayloadVersion},
    id::{AppId, EventId},
    time::Timestamp,
};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a test sends. The name is reserved, so nothing else has this type.
pub const TEST_EVENT_TYPE: &str = "webhook.test";

/// What the types of operational webhooks start with. These names are reserved too.
pub const OPERATIONAL_PREFIX: &str = "posthaste.";

/// Whether this server itself made events of this type, and no product did.
pub fn is_our_own(event_type: &str) -> bool {
    event_type == TEST_EVENT_TYPE || event_type.starts_with(OPERATIONAL_PREFIX)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub app: AppId,
    /// The producer's own id, verbatim, if one was given.
    pub given_id: Option<String>,
    pub event_type: String,
    /// The producer's time if one was given, else when it was accepted.
    pub created_at: Timestamp,
    pub accepted_at: Timestamp,
    /// The JSON value exactly as it was published. Empty once it was erased.
    pub data: Bytes,
    /// Deliveries with the same key can be kept in order.
    pub key: Option<String>,
    pub deliver_at: Option<Timestamp>,
    /// No endpoint wanted it.
    pub is_skipped: bool,
    pub bodies: RenderedBodies,
}

/// The data of an event as one endpoint gets it. Most get it as it was published, and then nothing is held here.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// Made by a payload version's function.
    pub converted: Option<Bytes>,
    /// The version's name, where the request tells it and the type has one.
    pub version: Option<Arc<str>>,
}

/// What came of making a payload version: the data, or why there is none, in words.
pub type Converted = Result<Bytes, Arc<str>>;

/// What was made of an event so far: its data once for each payload version, failures included, and a body for each
/// contract and payload, however many endpoints get them.
#[derive(Default)]
pub struct RenderedBodies(Mutex<Rendered>);

#[derive(Default)]
struct Rendered {
    versions: Vec<(Arc<PayloadVersion>, Converted)>,
    bodies: Vec<(ContractHash, Payload, Bytes)>,
}

impl Payload {
    pub fn data<'a>(&'a self, event: &'a Event) -> &'a Bytes {
        self.converted.as_ref().unwrap_or(&event.data)
    }

    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(ONLY_VERSION)
    }

    /// Whether it is the same for the same event: the bytes themselves, not equal ones, and the name.
    fn is(&self, other: &Self) -> bool {
        let place = |payload: &Self| payload.converted.as_ref().map(|data| data.as_ptr());
        place(self) == place(other) && self.version == other.version
    }
}

impl RenderedBodies {
    /// The body of this payload under this contract, rendered by `render` if nobody did so before.
    pub fn get_or_render<E>(
        &self,
        contract: ContractHash,
        payload: &Payload,
        render: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let bodies = &mut self.lock().bodies;
        let known = bodies.iter().find(|(known, of, _)| *known == contract && of.is(payload));
        if let Some((_, _, body)) = known {
            return Ok(body.clone());
        }
        let body = render()?;
        bodies.push((contract, payload.clone(), body.clone()));
        Ok(body)
    }

    /// What came of this very version, if somebody made it before; after a change of its type it is another.
    pub fn converted(&self, version: &Arc<PayloadVersion>) -> Option<Converted> {
        let rendered = self.lock();
        let known = rendered.versions.iter().find(|(known, _)| Arc::ptr_eq(known, version));
        known.map(|(_, converted)| converted.clone())
    }

    pub fn keep_converted(&self, version: Arc<PayloadVersion>, converted: Converted) {
        self.lock().versions.push((version, converted));
    }

    fn lock(&self) -> MutexGuard<'_, Rendered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for RenderedBodies {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Derived from the event and its contracts, so no part of what an event is.
impl PartialEq for RenderedBodies {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RenderedBodies {}

impl std::fmt::Debug for RenderedBodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RenderedBodies")
    }
}

impl Event {
    /// The id that receivers and the API see.
    pub fn public_id(&self, id_prefix: &str) -> String {
        self.given_id.clone().unwrap_or_else(|| self.id.with_prefix(id_prefix))
    }
}

/// Names a publish for deduplication: the producer's event id or an `Idempotency-Key`, hashed with its app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DedupKey(pub [u8; 16]);

/// What was published, hashed: the same key with another fingerprint is a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// The separate namespaces of deduplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupSpace {
    EventId,
    IdempotencyKey,
    /// Of the operational webhooks that notices become; no producer can name one.
    Notice,
}

impl DedupKey {
    pub fn new(app: AppId, space: DedupSpace, text: &str) -> Self {
        let space = match space {
            DedupSpace::EventId => b"i",
            DedupSpace::IdempotencyKey => b"k",
            DedupSpace::Notice => b"n",
        };
        Self(sha256_parts(&[&app.as_i64().to_le_bytes(), space, text.as_bytes()]))
    }
}

impl Fingerprint {
    /// Of type, raw data, and the optional fields as they were given: an absent one differs from any value.
    pub fn new(
        event_type: &str,
        data: &[u8],
        created_at: Option<Timestamp>,
        key: Option<&str>,
        deliver_at: Option<Timestamp>,
    ) -> Self {
        let time = |at: Option<Timestamp>| {
            at.map_or([0u8; 9], |at| {
                let mut bytes = [1u8; 9];
                bytes[1..].copy_from_slice(&at.as_millis().to_le_bytes());
                bytes
            })
        };
        let has_key = [u8::from(key.is_some())];
        Self(sha256_parts(&[
            event_type.as_bytes(),
            data,
            &time(created_at),
            &has_key,
            key.unwrap_or_default().as_bytes(),
            &time(deliver_at),
        ]))
    }
}

/// SHA-256 of the parts, each preceded by its length so that no two lists look alike; the first 16 bytes.
pub(super) fn sha256_parts(parts: &[&[u8]]) -> [u8; 16] {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut short = [0; 16];
    short.copy_from_slice(&context.finish().as_ref()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_field_differs_from_every_given_one() {
        let at = Some(Timestamp::from_millis(0));
        let all = [
            Fingerprint::new("a", b"1", None, None, None),
            Fingerprint::new("a", b"1", at, None, None),
            Fingerprint::new("a", b"1", None, Some(""), None),
            Fingerprint::new("a", b"1", None, None, at),
            Fingerprint::new("a1", b"", None, None, None),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "{i}");
        }
    }

    #[test]
    fn a_body_is_made_once_for_each_contract_and_payload() {
        let rendered = RenderedBodies::default();
        let converted = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
        let named = |name: &str| Payload { version: Some(name.into()), ..Payload::default() };
        let payloads = [
            Payload::default(),
            named("1"),
            named("2"),
            Payload { converted: converted(b"{}"), ..named("2") },
            Payload { converted: converted(b"[]"), ..named("2") },
        ];
        let mut made = 0;
        for _ in 0..2 {
            for contract in [ContractHash([0; 16]), ContractHash([1; 16])] {
                for payload in &payloads {
                    let body = rendered.get_or_render(contract, payload, || {
                        made += 1;
                        Ok::<_, ()>(Bytes::from(made.to_string()))
                    });
                    assert!(body.is_ok());
                }
            }
        }
        assert_eq!(made, 10);
    }

    #[test]
    fn ids_and_idempotency_keys_are_separate_and_so_are_apps() {
        let key = |app, space| DedupKey::new(AppId::from_i64(app), space, "x");
        assert_ne!(key(1, DedupSpace::EventId), key(1, DedupSpace::IdempotencyKey));
        assert_ne!(key(1, DedupSpace::EventId), key(2, DedupSpace::EventId));
    }
}
