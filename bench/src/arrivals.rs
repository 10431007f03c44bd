//! Arrivals of one transfer: the first of each pair of event and endpoint, and all that should not have come.

use crate::{
    clock,
    messages::{Arrivals, Behaviour, ReceiverCounts, ReceiverPlan, SignatureHeaders, TargetEndpoint},
    signature::Key,
};
use anyhow::Result;
use hyper::HeaderMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct Round {
    /// `/<transfer>/`, with which every path of it begins.
    prefix: String,
    endpoints: Vec<TargetEndpoint>,
    /// Names of the headers, and the key of each endpoint.
    signature: Option<(SignatureHeaders, Vec<Key>)>,
    first_ns: Vec<AtomicU64>,
    distinct: AtomicU64,
    duplicates: AtomicU64,
    bad_signatures: AtomicU64,
    bad_requests: AtomicU64,
    left_hanging: AtomicU64,
    strays: AtomicU64,
    last_arrival_ns: AtomicU64,
}

/// Kind of a request that arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    At(Behaviour),
    Bad,
    Stray,
}

impl Round {
    pub fn new(plan: &ReceiverPlan) -> Result<Self> {
        let key = |endpoint: &TargetEndpoint| Key::of_secret(endpoint.secret.as_deref().unwrap_or_default());
        let signature = match &plan.signature {
            Some(headers) => Some((headers.clone(), plan.endpoints.iter().map(key).collect::<Result<_>>()?)),
            None => None,
        };
        Ok(Self {
            prefix: format!("/{}/", plan.transfer),
            endpoints: plan.endpoints.clone(),
            signature,
            first_ns: (0..plan.events * plan.endpoints.len()).map(|_| AtomicU64::new(0)).collect(),
            distinct: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            bad_signatures: AtomicU64::new(0),
            bad_requests: AtomicU64::new(0),
            left_hanging: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            last_arrival_ns: AtomicU64::new(0),
        })
    }

    pub fn note(&self, path: &str, event: Option<usize>, headers: &HeaderMap, body: &[u8]) -> Seen {
        let Some(endpoint) = path.strip_prefix(&self.prefix) else {
            self.strays.fetch_add(1, Relaxed);
            return Seen::Stray;
        };
        let known = endpoint.parse().ok().filter(|number: &usize| *number < self.endpoints.len());
        let cell = |number: usize| self.first_ns.get(event? * self.endpoints.len() + number);
        let Some((number, cell)) = known.and_then(|number| Some((number, cell(number)?))) else {
            self.bad_requests.fetch_add(1, Relaxed);
            return Seen::Bad;
        };
        if !self.is_signed(number, headers, body) {
            self.bad_signatures.fetch_add(1, Relaxed);
        }
        let behaviour = self.endpoints[number].behaviour;
        if behaviour == Behaviour::Hang {
            self.left_hanging.fetch_add(1, Relaxed);
            return Seen::At(behaviour);
        }
        let now = clock::now_ns();
        if cell.compare_exchange(0, now, Relaxed, Relaxed).is_ok() {
            self.distinct.fetch_add(1, Relaxed);
            self.last_arrival_ns.fetch_max(now, Relaxed);
        } else {
            self.duplicates.fetch_add(1, Relaxed);
        }
        Seen::At(behaviour)
    }

    /// True where signatures are not verified.
    fn is_signed(&self, endpoint: usize, headers: &HeaderMap, body: &[u8]) -> bool {
        let Some((names, keys)) = &self.signature else { return true };
        let value = |name: &str| headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        keys[endpoint].verifies(value(&names.id), value(&names.timestamp), value(&names.signature), body)
    }

    /// Without the connections, which the rounds share.
    pub fn counts(&self) -> ReceiverCounts {
        ReceiverCounts {
            distinct: self.distinct.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            bad_signatures: self.bad_signatures.load(Relaxed),
            bad_requests: self.bad_requests.load(Relaxed),
            left_hanging: self.left_hanging.load(Relaxed),
            strays: self.strays.load(Relaxed),
            connections: 0,
            last_arrival_ns: self.last_arrival_ns.load(Relaxed),
        }
    }

    pub fn arrivals(&self) -> Arrivals {
        Arrivals { first_ns: self.first_ns.iter().map(|time| time.load(Relaxed)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(signature: Option<SignatureHeaders>) -> Round {
        let mut endpoints = vec![TargetEndpoint::of(0, Behaviour::Accept); 2];
        endpoints.push(TargetEndpoint::of(0, Behaviour::Hang));
        for endpoint in &mut endpoints {
            endpoint.secret = Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        }
        Round::new(&ReceiverPlan { transfer: "t1".into(), events: 2, endpoints, signature }).unwrap()
    }

    #[test]
    fn first_arrivals_and_duplicates_are_counted_apart() {
        let round = round(None);
        let none = HeaderMap::new();
        for (path, event) in [("/t1/0", 1), ("/t1/1", 1), ("/t1/0", 1), ("/t1/0", 0)] {
            assert_eq!(round.note(path, Some(event), &none, b""), Seen::At(Behaviour::Accept));
        }
        let counts = round.counts();
        assert_eq!((counts.distinct, counts.duplicates, counts.bad_signatures), (3, 1, 0));
        let arrived: Vec<bool> = round.arrivals().first_ns.iter().map(|time| *time > 0).collect();
        assert_eq!(arrived, [true, false, false, true, true, false]);
    }

    #[test]
    fn whatever_belongs_elsewhere_is_no_arrival() {
        let round = round(None);
        let none = HeaderMap::new();
        assert_eq!(round.note("/t0/0", Some(0), &none, b""), Seen::Stray);
        assert_eq!(round.note("/t1/9", Some(0), &none, b""), Seen::Bad);
        assert_eq!(round.note("/t1/0", Some(2), &none, b""), Seen::Bad);
        assert_eq!(round.note("/t1/0", None, &none, b""), Seen::Bad);
        assert_eq!(round.note("/t1/2", Some(0), &none, b""), Seen::At(Behaviour::Hang));
        let counts = round.counts();
        assert_eq!((counts.distinct, counts.strays, counts.bad_requests, counts.left_hanging), (0, 1, 3, 1));
    }

    #[test]
    fn a_request_without_its_signature_is_counted() {
        let names = |name: &str| name.to_owned();
        let headers = SignatureHeaders {
            id: names("webhook-id"),
            timestamp: names("webhook-timestamp"),
            signature: names("webhook-signature"),
        };
        let round = round(Some(headers));
        round.note("/t1/0", Some(0), &HeaderMap::new(), b"{}");
        let mut signed = HeaderMap::new();
        for (name, value) in [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ] {
            signed.insert(name, value.parse().unwrap());
        }
        round.note("/t1/0", Some(1), &signed, br#"{"test": 2432232314}"#);
        assert_eq!((round.counts().distinct, round.counts().bad_signatures), (2, 1));
    }
}
