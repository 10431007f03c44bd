//! The payload of an event, which carries the event's number.

use std::fmt::Write;

const MARK: &[u8] = b"\"bench_event\":";
/// Closes the string of padding and the object.
const END: &str = "\"}";

/// A JSON object of exactly this many bytes, unless it cannot be so short.
pub fn render(event: usize, bytes: usize) -> String {
    let mut payload = String::with_capacity(bytes.max(64));
    // Writing to a string cannot fail.
    let _ = write!(payload, r#"{{"bench_event":{event},"pad":""#);
    let pad = bytes.saturating_sub(payload.len() + END.len());
    payload.extend(std::iter::repeat_n('x', pad));
    payload.push_str(END);
    payload
}

/// The number of the event whose payload stands somewhere in this body.
pub fn event_number(body: &[u8]) -> Option<usize> {
    let at = body.windows(MARK.len()).position(|window| window == MARK)?;
    let digits = body[at + MARK.len()..].iter().skip_while(|byte| **byte == b' ');
    let digits: String =
        digits.take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_size_and_its_number() {
        for event in [0, 17, 123_456] {
            let payload = render(event, 512);
            assert_eq!(payload.len(), 512);
            serde_json::from_str::<serde_json::Value>(&payload).unwrap();
            assert_eq!(event_number(payload.as_bytes()), Some(event));
        }
        assert!(render(1, 3).len() > 3);
    }

    #[test]
    fn the_number_is_found_in_any_envelope() {
        assert_eq!(event_number(br#"{"id":"evt_9","data":{"pad":"", "bench_event": 4}}"#), Some(4));
        assert_eq!(event_number(br#"{"data":{}}"#), None);
        assert_eq!(event_number(br#"{"bench_event":"x"}"#), None);
    }
}
