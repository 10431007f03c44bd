//! The bodies made from one event in flight, shared by its deliveries on this node.

use crate::{
    domain::{
        contract::ContractHash,
        event::{Event, Payload},
    },
    functions::PayloadVersion,
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The result of making a payload version: the data, or the reason for its failure in words.
pub(super) type ConversionResult = Result<Bytes, Arc<str>>;

/// A cache of the results made from one event. Holds the data once per payload version, failures included, and one body
/// per contract and payload, shared by all endpoints.
#[derive(Default)]
pub(super) struct BodyCache(Mutex<CachedBodies>);

#[derive(Default)]
struct CachedBodies {
    versions: Vec<(Arc<PayloadVersion>, ConversionResult)>,
    bodies: Vec<(ContractHash, Payload, Bytes)>,
}

/// The caches of a batch of deliveries. Deliveries that share their event get the same cache.
#[derive(Default)]
pub(super) struct BodyCaches(HashMap<*const Event, Arc<BodyCache>>);

impl BodyCaches {
    pub(super) fn of(&mut self, event: &Arc<Event>) -> Arc<BodyCache> {
        self.0.entry(Arc::as_ptr(event)).or_default().clone()
    }
}

impl BodyCache {
    /// Returns the body of this payload under this contract, calling `render` if it is not cached.
    pub(super) fn get_or_render<E>(
        &self,
        contract: ContractHash,
        payload: &Payload,
        render: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let bodies = &mut self.lock().bodies;
        let known = bodies.iter().find(|(known, of, _)| *known == contract && is_same_payload(of, payload));
        if let Some((_, _, body)) = known {
            return Ok(body.clone());
        }
        let body = render()?;
        bodies.push((contract, payload.clone(), body.clone()));
        Ok(body)
    }

    /// Returns the cached result of this version. A version is another one after a change of its type.
    pub(super) fn converted(&self, version: &Arc<PayloadVersion>) -> Option<ConversionResult> {
        let rendered = self.lock();
        let known = rendered.versions.iter().find(|(known, _)| Arc::ptr_eq(known, version));
        known.map(|(_, converted)| converted.clone())
    }

    pub(super) fn cache_converted(&self, version: Arc<PayloadVersion>, converted: ConversionResult) {
        self.lock().versions.push((version, converted));
    }

    fn lock(&self) -> MutexGuard<'_, CachedBodies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for BodyCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BodyCache")
    }
}

/// Whether both are the same payload of one event. Compares the version and the identity of the bytes, not their content.
fn is_same_payload(one: &Payload, other: &Payload) -> bool {
    let address = |payload: &Payload| payload.converted.as_ref().map(|data| data.as_ptr());
    address(one) == address(other) && one.version == other.version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_made_once_for_each_contract_and_payload() {
        let rendered = BodyCache::default();
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
}
