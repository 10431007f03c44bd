//! An event as a product published it. Its data is kept byte for byte.

use super::{
    event_type::ONLY_VERSION,
    id::{AppId, EventId},
    time::Timestamp,
};
use bytes::Bytes;
use std::sync::Arc;

/// The type of test events. The name is reserved: producers cannot publish it.
pub const TEST_EVENT_TYPE: &str = "webhook.test";

/// The prefix of the types of operational webhooks. These names are reserved too.
pub const OPERATIONAL_PREFIX: &str = "posthaste.";

/// Whether events of this type are made by this server and not by a product.
pub fn is_internal_type(event_type: &str) -> bool {
    event_type == TEST_EVENT_TYPE || event_type.starts_with(OPERATIONAL_PREFIX)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub app: AppId,
    /// The producer's own id, verbatim, if one was given.
    pub external_id: Option<String>,
    pub event_type: String,
    /// The producer's time if one was given, else the time of acceptance.
    pub created_at: Timestamp,
    pub accepted_at: Timestamp,
    /// The JSON value exactly as published; empty after erasure.
    pub data: Bytes,
    /// Deliveries with the same key can be kept in order.
    pub key: Option<String>,
    pub deliver_at: Option<Timestamp>,
    /// Whether no endpoint subscribed to it.
    pub has_no_subscribers: bool,
}

/// The data of an event as one endpoint gets it. Empty for most endpoints: they get the data as published.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// The data made by a payload version's function.
    pub converted: Option<Bytes>,
    /// The version's name, if the request carries it and the type has one.
    pub version: Option<Arc<str>>,
}

impl Payload {
    pub fn data<'a>(&'a self, event: &'a Event) -> &'a Bytes {
        self.converted.as_ref().unwrap_or(&event.data)
    }

    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(ONLY_VERSION)
    }
}

impl Event {
    /// Returns the id that receivers and the API see.
    pub fn public_id(&self, id_prefix: &str) -> String {
        self.external_id.clone().unwrap_or_else(|| self.id.with_prefix(id_prefix))
    }
}

/// The deduplication key of a publish: the producer's event id or an `Idempotency-Key`, hashed with its app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DedupKey(pub [u8; 16]);

/// A hash of the published content: an equal key with another fingerprint is a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// The separate namespaces of deduplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupSpace {
    EventId,
    IdempotencyKey,
    /// For the operational webhooks made from notices; producers cannot use it.
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
    /// Hashes type, raw data and the optional fields as given: an absent field differs from any value.
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

/// Returns the first 16 bytes of SHA-256 over the parts, each preceded by its length so that no two lists collide.
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
    fn ids_and_idempotency_keys_are_separate_and_so_are_apps() {
        let key = |app, space| DedupKey::new(AppId::from_i64(app), space, "x");
        assert_ne!(key(1, DedupSpace::EventId), key(1, DedupSpace::IdempotencyKey));
        assert_ne!(key(1, DedupSpace::EventId), key(2, DedupSpace::EventId));
    }

    fn hex(bytes: [u8; 16]) -> String {
        format!("{:032x}", u128::from_be_bytes(bytes))
    }

    /// As commit 80468f2 stored them. Another key or fingerprint would accept an event a second time, or refuse it.
    #[test]
    fn keys_and_fingerprints_are_the_same_in_every_version() {
        let app = AppId::from_i64(381_691_298_467_282_944);
        let key = |space, text| hex(DedupKey::new(app, space, text).0);
        assert_eq!(key(DedupSpace::EventId, "paid-1"), "fe3949a9a55e13d6c513fdfa6f508f62");
        assert_eq!(key(DedupSpace::IdempotencyKey, "idem-1"), "839740e19157b5a403dcc43aef816c74");
        assert_eq!(key(DedupSpace::Notice, "1"), "64c712c6c787ef09353aafd7bb81107c");
        let at = |millis| Some(Timestamp::from_millis(millis));
        let created =
            Fingerprint::new("order.paid", br#"{"total": 5}"#, at(1_767_323_045_678), Some("order-1"), None);
        assert_eq!(hex(created.0), "89e12c1743513447b63ec28f8862b699");
        let later =
            Fingerprint::new("order.paid", br#"{"total": 10}"#, None, Some("order-9"), at(1_795_073_104_000));
        assert_eq!(hex(later.0), "c9566b6893ef66738690262588b032d4");
    }
}
