//! The endpoints of one app with an index by event type, so that finding subscribers takes a look-up for any number of them.

use model::{endpoint::Endpoint, event::OPERATIONAL_PREFIX};
use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, OnceLock},
};

/// Up to this many endpoints are checked one by one: that is cheaper than an index.
const LINEAR_SCAN_MAX: usize = 16;

/// The endpoints in order of creation. The index is built on first use, so that a change costs only a new list.
#[derive(Debug, Default)]
pub struct SubscriberIndex {
    endpoints: Vec<Arc<Endpoint>>,
    index: OnceLock<TypeIndex>,
}

/// Positions in the list, ascending.
#[derive(Debug, Default)]
struct TypeIndex {
    every_type: Vec<u32>,
    exact: HashMap<Box<str>, Vec<u32>>,
    /// By prefix, which ends with a dot.
    prefixes: HashMap<Box<str>, Vec<u32>>,
}

impl SubscriberIndex {
    pub fn new(endpoints: Vec<Arc<Endpoint>>) -> Self {
        Self { endpoints, index: OnceLock::new() }
    }

    /// Returns the endpoints that subscribe to this type, in order of creation.
    pub fn matching(&self, event_type: &str) -> Vec<&Arc<Endpoint>> {
        if self.endpoints.len() <= LINEAR_SCAN_MAX {
            return self.endpoints.iter().filter(|endpoint| endpoint.patterns.matches(event_type)).collect();
        }
        let index = self.index.get_or_init(|| TypeIndex::of(&self.endpoints));
        let is_operational = event_type.starts_with(OPERATIONAL_PREFIX);
        let mut positions = if is_operational { Vec::new() } else { index.every_type.clone() };
        positions.extend(index.exact.get(event_type).into_iter().flatten());
        for (dot, _) in event_type.match_indices('.') {
            positions.extend(index.prefixes.get(&event_type[..=dot]).into_iter().flatten());
        }
        positions.sort_unstable();
        positions.dedup();
        positions.into_iter().filter_map(|position| self.endpoints.get(position as usize)).collect()
    }
}

impl TypeIndex {
    fn of(endpoints: &[Arc<Endpoint>]) -> Self {
        let mut index = Self::default();
        for (position, endpoint) in (0..).zip(endpoints) {
            let patterns = &endpoint.patterns;
            if patterns.matches_every_type() {
                index.every_type.push(position);
            }
            for exact in patterns.exact() {
                index.exact.entry(exact.clone()).or_default().push(position);
            }
            for prefix in patterns.prefixes() {
                index.prefixes.entry(prefix.clone()).or_default().push(position);
            }
        }
        index
    }
}

impl Deref for SubscriberIndex {
    type Target = [Arc<Endpoint>];

    fn deref(&self) -> &Self::Target {
        &self.endpoints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::endpoint::{EndpointSettings, fixtures::endpoint};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_index_finds_exactly_those_that_match(
            lists in prop::collection::vec(
                prop::collection::vec(
                    prop::sample::select(vec![
                        "*", "a", "a.b", "a.*", "a.b.*", "a.b.c", "b.*", "ab", "posthaste.*", "posthaste.a",
                    ]), 1..4), 0..40),
            event_type in prop::sample::select(vec![
                "a", "a.b", "a.b.c", "ab", "b", "b.a", "c", "a.c", "posthaste.a", "posthaste.a.b", "posthaste.c",
            ]),
        ) {
            let endpoints: Vec<_> = (0..)
                .zip(&lists)
                .map(|(n, list)| {
                    let event_types = list.iter().map(ToString::to_string).collect();
                    endpoint(n, EndpointSettings { event_types, ..EndpointSettings::default() })
                })
                .collect();
            let expected: Vec<_> =
                endpoints.iter().filter(|e| e.patterns.matches(event_type)).map(|e| e.id()).collect();
            let subscribers = SubscriberIndex::new(endpoints);
            let found: Vec<_> = subscribers.matching(event_type).iter().map(|e| e.id()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
