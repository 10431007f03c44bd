//! Ids: 63-bit, time-ordered, node-slotted integers, printed with a prefix and read back from it.
//!
//! Layout, high to low: 41 bits of milliseconds since 2024, 6 bits of node slot, 16 bits of sequence. An event's
//! deliveries take the numbers that follow its own, so one event and its fan-out are one range of keys.

use super::time::Timestamp;
use std::fmt;

const EPOCH_MS: i64 = 1_704_067_200_000;
const SEQUENCE_BITS: u32 = 16;
const SLOT_BITS: u32 = 6;
const TIME_SHIFT: u32 = SEQUENCE_BITS + SLOT_BITS;
const TIME_MAX: i64 = (1 << 41) - 1;

/// The most numbers one call to `IdSource::next_range` may ask for: an event and its deliveries.
pub const IDS_AT_ONCE_MAX: u32 = 1 << SEQUENCE_BITS;

/// The number of slots: how many nodes can hold one at the same time.
pub const NODE_SLOTS: u8 = 1 << SLOT_BITS;

/// Crockford's alphabet in lower case: ordered as the numbers are, no letters that look alike.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 13;

fn write_base32(number: i64, out: &mut String) {
    for index in (0..DIGITS).rev() {
        out.push(char::from(ALPHABET[(number >> (5 * index)) as usize & 31]));
    }
}

fn read_base32(text: &str) -> Option<i64> {
    if text.len() != DIGITS {
        return None;
    }
    text.bytes().try_fold(0i64, |number, digit| {
        let value = ALPHABET.iter().position(|&a| a == digit)? as i64;
        // A 63-bit number: the first of 13 digits of 5 bits has room for 3.
        (number >> 58 == 0).then_some(number << 5 | value)
    })
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            pub const PREFIX: &str = $prefix;

            pub const fn from_i64(number: i64) -> Self {
                Self(number)
            }

            pub const fn as_i64(self) -> i64 {
                self.0
            }

            /// Reads exactly the form that `Display` writes.
            pub fn parse(text: &str) -> Option<Self> {
                text.strip_prefix(concat!($prefix, "_")).and_then(read_base32).map(Self)
            }

            /// The id under another prefix than its own, as some contracts want it.
            pub fn with_prefix(self, prefix: &str) -> String {
                let mut text = String::with_capacity(prefix.len() + 1 + DIGITS);
                text.push_str(prefix);
                text.push('_');
                write_base32(self.0, &mut text);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.with_prefix(Self::PREFIX))
            }
        }
    };
}

id_type!(AppId, "app");
id_type!(EndpointId, "ep");
id_type!(EventId, "evt");
id_type!(
    /// The delivery of one event to one endpoint. An event's first deliveries carry the numbers right after the event's.
    DeliveryId,
    "dlv"
);
id_type!(KeyId, "key");
id_type!(ReplayId, "rpl");
id_type!(
    /// An entry of the audit log.
    AuditId,
    "aud"
);
id_type!(
    /// An inspection. The events and deliveries of its probes carry the numbers right after its own.
    InspectionId,
    "ins"
);
id_type!(EventTypeId, "typ");
id_type!(NoticeId, "ntc");

/// An HTTP request of a delivery: its position in the delivery's history, from 1. Printed as `del_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub delivery: DeliveryId,
    pub position: u32,
}

impl AttemptId {
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("del_")?;
        let delivery = DeliveryId(read_base32(digits.get(..DIGITS)?)?);
        let position = digits.get(DIGITS..)?;
        let canonical = !position.starts_with('0') && position.bytes().all(|b| b.is_ascii_digit());
        canonical.then(|| position.parse().ok().map(|position| Self { delivery, position }))?
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.delivery.with_prefix("del"), self.position)
    }
}

/// A generator of growing numbers. They also grow when the clock steps back, or when the process restarts on a
/// store whose newest number is `after`.
#[derive(Debug)]
pub struct IdSource {
    slot: i64,
    last: i64,
}

impl IdSource {
    pub fn new(slot: u8, after: i64) -> Self {
        Self { slot: i64::from(slot % NODE_SLOTS), last: after }
    }

    /// Returns the last number that was handed out.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// Returns the first of `count` consecutive numbers that were never handed out before.
    pub fn next_range(&mut self, now: Timestamp, count: u32) -> i64 {
        let count = i64::from(count.clamp(1, IDS_AT_ONCE_MAX));
        let clock_ms = (now.as_millis() - EPOCH_MS).clamp(0, TIME_MAX);
        let first = self.start_of(clock_ms).max(self.last + 1);
        let fits = first & (self.start_of(0) | ((1 << SLOT_BITS) - 1) << SEQUENCE_BITS) == self.start_of(0)
            && (first & (i64::from(IDS_AT_ONCE_MAX) - 1)) + count <= i64::from(IDS_AT_ONCE_MAX);
        // A range must not cross into another slot's numbers: it moves to the next millisecond.
        let first = if fits { first } else { self.start_of((first >> TIME_SHIFT) + 1) };
        self.last = first + count - 1;
        first
    }

    fn start_of(&self, ms: i64) -> i64 {
        ms << TIME_SHIFT | self.slot << SEQUENCE_BITS
    }
}

/// Returns the smallest number of an id made at `at`, to turn a time filter into a key range.
pub fn first_id_at(at: Timestamp) -> i64 {
    (at.as_millis() - EPOCH_MS).clamp(0, TIME_MAX) << TIME_SHIFT
}

/// Returns the slot of the node that made a number.
pub fn node_slot_of(number: i64) -> u8 {
    (number >> SEQUENCE_BITS) as u8 % NODE_SLOTS
}

/// When a number was made, to the millisecond (a busy node may run a little ahead of its clock).
pub fn made_at(number: i64) -> Timestamp {
    Timestamp::from_millis((number >> TIME_SHIFT) + EPOCH_MS)
}

/// The form of an id given by a caller, for error messages.
pub const EXTERNAL_ID_FORM: &str = "1 to 128 characters out of A-Z a-z 0-9 _ . : ~ -";

pub fn is_external_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'~' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_reads_back_as_it_was_written(number in 0i64..) {
            let id = EventId::from_i64(number);
            prop_assert_eq!(EventId::parse(&id.to_string()), Some(id));
            prop_assert_eq!(DeliveryId::parse(&id.to_string()), None);
        }

        #[test]
        fn written_ids_sort_as_their_numbers(a in 0i64.., b in 0i64..) {
            let (x, y) = (EventId::from_i64(a), EventId::from_i64(b));
            prop_assert_eq!(x.cmp(&y), x.to_string().cmp(&y.to_string()));
        }

        #[test]
        fn an_attempt_id_reads_back(number in 0i64.., position in 1u32..) {
            let id = AttemptId { delivery: DeliveryId::from_i64(number), position };
            prop_assert_eq!(AttemptId::parse(&id.to_string()), Some(id));
        }

        #[test]
        fn ranges_never_overlap_and_stay_in_their_slot(
            slot in 0u8..NODE_SLOTS,
            asks in prop::collection::vec((-5i64..5, 1u32..=IDS_AT_ONCE_MAX), 1..50),
        ) {
            let mut source = IdSource::new(slot, 0);
            let (mut now, mut end) = (1_800_000_000_000, 0);
            for (step, count) in asks {
                now += step;
                let first = source.next_range(Timestamp::from_millis(now), count);
                prop_assert!(first > end);
                end = first + i64::from(count) - 1;
                for edge in [first, end] {
                    prop_assert_eq!(node_slot_of(edge), slot);
                }
            }
        }
    }

    #[test]
    fn numbers_grow_past_the_newest_of_the_store_even_with_a_clock_in_the_past() {
        let mut before = IdSource::new(3, 0);
        let newest = before.next_range(Timestamp::from_millis(1_900_000_000_000), 5) + 4;
        let mut after = IdSource::new(3, newest);
        assert!(after.next_range(Timestamp::from_millis(1_700_000_000_000), 1) > newest);
    }

    #[test]
    fn text_in_another_form_is_no_id() {
        for bad in ["", "evt_", "evt_0", "evt_zzzzzzzzzzzzz", "EVT_0000000000000", "evt_000000000000o"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
        for bad in ["del_00000000000000", "del_000000000000001x", "del_0000000000000"] {
            assert_eq!(AttemptId::parse(bad), None, "{bad}");
        }
    }
}
