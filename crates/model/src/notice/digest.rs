//! A digest: many occurrences of one kind in one notice. Its size grows with the endpoints concerned, up to a limit, and not
//! with the number of occurrences.

use super::{EventRef, NewNotice};
use crate::{
    id::{DeliveryId, EndpointId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Endpoints that are counted separately.
const ENDPOINTS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    #[serde(rename = "first")]
    pub first: DigestExample,
    #[serde(rename = "last")]
    pub last: DigestExample,
    #[serde(rename = "endpoints")]
    endpoints: Vec<EndpointCount>,
    /// Occurrences at further endpoints.
    #[serde(rename = "elsewhere")]
    pub other_endpoints: u32,
}

/// An example of the occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigestExample {
    #[serde(rename = "at")]
    pub at: Timestamp,
    #[serde(rename = "delivery", default, skip_serializing_if = "Option::is_none")]
    delivery: Option<i64>,
    #[serde(rename = "event", default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventRef>,
    #[serde(rename = "last_error", default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The number of occurrences at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointCount {
    #[serde(rename = "endpoint")]
    endpoint: i64,
    #[serde(rename = "count")]
    pub count: u32,
}

impl EndpointCount {
    pub fn id(&self) -> EndpointId {
        EndpointId::from_i64(self.endpoint)
    }
}

impl DigestExample {
    fn of(notice: &NewNotice, event: Option<&EventRef>) -> Self {
        Self {
            at: notice.at,
            delivery: notice.delivery.map(DeliveryId::as_i64),
            event: event.cloned(),
            last_error: notice.details.last_error.clone(),
        }
    }

    pub fn delivery(&self) -> Option<DeliveryId> {
        self.delivery.map(DeliveryId::from_i64)
    }
}

impl Digest {
    pub fn new(notice: &NewNotice, event: Option<&EventRef>) -> Self {
        let only = DigestExample::of(notice, event);
        let mut digest = Self { first: only.clone(), last: only, endpoints: Vec::new(), other_endpoints: 0 };
        digest.count(notice.endpoint);
        digest
    }

    pub fn add(&mut self, notice: &NewNotice, event: Option<&EventRef>) {
        self.last = DigestExample::of(notice, event);
        self.count(notice.endpoint);
    }

    fn count(&mut self, endpoint: Option<EndpointId>) {
        let Some(endpoint) = endpoint.map(EndpointId::as_i64) else { return };
        let has_room = self.endpoints.len() < ENDPOINTS_MAX;
        match self.endpoints.iter_mut().find(|known| known.endpoint == endpoint) {
            Some(known) => known.count = known.count.saturating_add(1),
            None if has_room => self.endpoints.push(EndpointCount { endpoint, count: 1 }),
            None => self.other_endpoints = self.other_endpoints.saturating_add(1),
        }
    }

    /// Returns the endpoints in the order of their first occurrence.
    pub fn endpoints(&self) -> &[EndpointCount] {
        &self.endpoints
    }
}
