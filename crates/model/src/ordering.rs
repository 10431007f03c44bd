//! Ordered delivery: which deliveries of an endpoint wait for each other, and the effect of a dead one.
//!
//! Deliveries with the same ordering key form an ordering group. They are sent one at a time, each after the previous one has
//! ended. Groups do not wait for each other.

use super::event;
use serde::{Deserialize, Serialize};

/// The ordering mode of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderingMode {
    #[default]
    #[serde(rename = "none")]
    None,
    /// All its deliveries form one ordering group.
    #[serde(rename = "endpoint")]
    Endpoint,
    /// Events with the same `key` form a group; those without a key are not ordered.
    #[serde(rename = "key")]
    Key,
}

/// The effect of a dead delivery on those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDead {
    /// Later deliveries wait until a person resolves it. The default: for receivers that need order a gap is worse than a delay, and
    /// deliveries sent past a gap cannot be recalled.
    #[default]
    #[serde(rename = "block")]
    Block,
    /// Later deliveries are sent without it.
    #[serde(rename = "skip")]
    Skip,
}

/// The key of an ordering group within an endpoint. If two event keys collide, their events are merely ordered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderingKey(i64);

impl OrderingMode {
    pub const ALL: [Self; 3] = [Self::None, Self::Endpoint, Self::Key];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Endpoint => "endpoint",
            Self::Key => "key",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns the ordering group of an event with this key.
    pub fn ordering_key(self, event_key: Option<&str>) -> Option<OrderingKey> {
        match self {
            Self::None => None,
            Self::Endpoint => Some(OrderingKey::WHOLE_ENDPOINT),
            Self::Key => event_key.map(OrderingKey::of),
        }
    }
}

impl OnDead {
    pub const ALL: [Self; 2] = [Self::Block, Self::Skip];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Skip => "skip",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|on_dead| on_dead.name() == name)
    }
}

impl OrderingKey {
    const WHOLE_ENDPOINT: Self = Self(1);

    fn of(event_key: &str) -> Self {
        let hash = event::sha256_parts(&[event_key.as_bytes()]);
        let mut number = [0; 8];
        number.copy_from_slice(&hash[..8]);
        // 63 bits, and never the group of a whole endpoint.
        Self((i64::from_le_bytes(number) & i64::MAX).max(2))
    }

    pub const fn from_i64(number: i64) -> Self {
        Self(number)
    }

    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_share_an_ordering_group_and_different_keys_do_not() {
        let group = |key| OrderingMode::Key.ordering_key(Some(key));
        assert_eq!(group("order-1"), group("order-1"));
        assert_ne!(group("order-1"), group("order-2"));
        assert_ne!(group(""), None, "an empty key is a key");
        let numbers = ["", "a", "b", "order-1"].map(|key| OrderingKey::of(key).as_i64());
        assert!(numbers.iter().all(|number| *number > 1), "{numbers:?}");
    }

    /// As commit 80468f2 stored it. Another number would be another group.
    #[test]
    fn the_number_of_an_ordering_group_is_the_same_in_every_version() {
        assert_eq!(OrderingKey::of("order-9").as_i64(), 7_269_423_979_332_677_445);
        assert_eq!(OrderingKey::WHOLE_ENDPOINT.as_i64(), 1);
    }

    #[test]
    fn only_ordered_deliveries_have_an_ordering_group() {
        assert_eq!(OrderingMode::None.ordering_key(Some("a")), None);
        assert_eq!(OrderingMode::Key.ordering_key(None), None);
        assert_eq!(OrderingMode::Endpoint.ordering_key(None), OrderingMode::Endpoint.ordering_key(Some("a")));
        assert_ne!(OrderingMode::Endpoint.ordering_key(None), None);
    }

    #[test]
    fn order_names_parse_back() {
        assert!(OrderingMode::ALL.iter().all(|order| OrderingMode::parse(order.name()) == Some(*order)));
        assert!(OnDead::ALL.iter().all(|on_dead| OnDead::parse(on_dead.name()) == Some(*on_dead)));
        assert_eq!((OrderingMode::parse("Key"), OnDead::parse("")), (None, None));
    }
}
