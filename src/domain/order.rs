//! Order, where an endpoint asks for it: which of its deliveries wait for one another, and what a dead one does to the rest.
//!
//! Deliveries with the same order key stand in one line and are sent one after another, each when the one before it has
//! ended. Lines do not wait for one another.

use super::event;
use serde::{Deserialize, Serialize};

/// What an endpoint keeps in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    None,
    /// Everything that it gets.
    Endpoint,
    /// Events with the same `key`; those without one are not ordered.
    Key,
}

/// What a dead delivery does to those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// They wait until a person does something about it. Whoever asks for order has receivers for which a gap is worse than
    /// a delay, and what was sent past a gap cannot be called back: so this is the default.
    #[default]
    Block,
    /// They go on without it.
    Skip,
}

/// Names a line of an endpoint. Two keys that happen to have the same one are ordered together, and nothing worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderKey(i64);

impl Order {
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

    /// The line that an event with this key stands in.
    pub fn line_of(self, event_key: Option<&str>) -> Option<OrderKey> {
        match self {
            Self::None => None,
            Self::Endpoint => Some(OrderKey::WHOLE_ENDPOINT),
            Self::Key => event_key.map(OrderKey::of),
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

impl OrderKey {
    const WHOLE_ENDPOINT: Self = Self(1);

    fn of(event_key: &str) -> Self {
        let hash = event::sha256_parts(&[event_key.as_bytes()]);
        let mut number = [0; 8];
        number.copy_from_slice(&hash[..8]);
        // 63 bits, and never the line of a whole endpoint.
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
    fn the_same_key_is_the_same_line_and_another_key_is_another() {
        let line = |key| Order::Key.line_of(Some(key));
        assert_eq!(line("order-1"), line("order-1"));
        assert_ne!(line("order-1"), line("order-2"));
        assert_ne!(line(""), None, "an empty key is a key");
        let numbers = ["", "a", "b", "order-1"].map(|key| OrderKey::of(key).as_i64());
        assert!(numbers.iter().all(|number| *number > 1), "{numbers:?}");
    }

    #[test]
    fn only_what_asks_for_order_stands_in_a_line() {
        assert_eq!(Order::None.line_of(Some("a")), None);
        assert_eq!(Order::Key.line_of(None), None);
        assert_eq!(Order::Endpoint.line_of(None), Order::Endpoint.line_of(Some("a")));
        assert_ne!(Order::Endpoint.line_of(None), None);
    }

    #[test]
    fn names_read_back() {
        assert!(Order::ALL.iter().all(|order| Order::parse(order.name()) == Some(*order)));
        assert!(OnDead::ALL.iter().all(|on_dead| OnDead::parse(on_dead.name()) == Some(*on_dead)));
        assert_eq!((Order::parse("Key"), OnDead::parse("")), (None, None));
    }
}
