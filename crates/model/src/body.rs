//! The body of a request: the bytes that are signed and sent.
//!
//! `data` goes through byte for byte unless the contract asks for the sorted form; it is never parsed into numbers.

use super::{
    contract::{BodyForm, BodySource, Contract, JsonForm, TimeForm},
    id::{DeliveryId, EventId},
    json,
    time::Timestamp,
};
use bytes::Bytes;

/// Parts of an event that a request is made from.
#[derive(Clone, Copy, Debug)]
pub struct EventParts<'a> {
    /// Public id: the producer's, or else the event's own.
    pub public_id: &'a str,
    pub own_id: EventId,
    pub event_type: &'a str,
    pub created_at: Timestamp,
    /// A JSON value, as it was published or as the endpoint's payload version has it.
    pub data: &'a [u8],
    pub app_uid: &'a str,
    pub livemode: bool,
    pub payload_version: &'a str,
}

/// Why no body can be made of this event's data under the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SerialisationError {
    #[error("the contract sends a flat body, and the event's data is not an object")]
    NotAnObject,
    #[error(
        "the contract sends a flat body, and the event's data has a member with the name of one of its fields"
    )]
    NameTaken,
    #[error("the event's data is not JSON of at most 128 levels")]
    NotJson,
    #[error("the event's data was erased")]
    Erased,
}

/// Renders the body. `root` is the delivery at the root of all replays.
pub fn render(
    contract: &Contract,
    event: &EventParts,
    root: DeliveryId,
) -> Result<Bytes, SerialisationError> {
    if event.data.is_empty() {
        return Err(SerialisationError::Erased);
    }
    let rule = &contract.body;
    let names: usize = rule.fields.iter().map(|field| field.name.len() + 40).sum();
    let mut out =
        Vec::with_capacity(event.data.len() + event.public_id.len() + event.event_type.len() + names);
    out.push(b'{');
    for (i, field) in rule.fields.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\":");
        write_value(&mut out, contract, field.from, event, root)?;
    }
    if rule.form == BodyForm::Flat {
        let inside = json::object_interior(event.data).ok_or(SerialisationError::NotAnObject)?;
        if rule.fields.iter().any(|field| json::has_member(inside, &field.name)) {
            return Err(SerialisationError::NameTaken);
        }
        if !inside.trim_ascii().is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(inside);
    }
    out.push(b'}');
    Ok(out.into())
}

/// Whether the body contains the payload version.
pub fn contains_payload_version(contract: &Contract) -> bool {
    contract.body.fields.iter().any(|field| field.from == BodySource::PayloadVersion)
}

/// Whether every delivery of an event needs a body of its own under this contract.
pub fn depends_on_delivery(contract: &Contract) -> bool {
    contract.body.fields.iter().any(|field| field.from == BodySource::DeliveryId)
}

fn write_value(
    out: &mut Vec<u8>,
    contract: &Contract,
    from: BodySource,
    event: &EventParts,
    root: DeliveryId,
) -> Result<(), SerialisationError> {
    let sorted = contract.body.json == JsonForm::Sorted;
    let text = if sorted { json::write_ascii_string } else { json::write_string };
    match from {
        BodySource::EventId => text(out, event.public_id),
        BodySource::Type => text(out, event.event_type),
        BodySource::CreatedAt => match contract.body.time {
            TimeForm::Milliseconds => text(out, &event.created_at.rfc3339_millis()),
            TimeForm::Seconds => text(out, &event.created_at.rfc3339_seconds()),
        },
        BodySource::Data if sorted => {
            json::write_sorted(out, event.data).ok_or(SerialisationError::NotJson)?;
        }
        BodySource::Data => out.extend_from_slice(event.data),
        BodySource::Livemode => out.extend_from_slice(if event.livemode { b"true" } else { b"false" }),
        BodySource::DeliveryId => text(out, &root.with_prefix(&contract.ids.delivery)),
        BodySource::AppId => text(out, event.app_uid),
        BodySource::PayloadVersion => text(out, event.payload_version),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixtures;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn event(data: &str) -> EventParts<'_> {
        EventParts {
            public_id: "order:42",
            own_id: EventId::from_i64(1),
            event_type: "payment.created",
            created_at: Timestamp::from_millis(1_794_735_000_123),
            data: data.as_bytes(),
            app_uid: "merchant-7",
            livemode: true,
            payload_version: "2024-01-01",
        }
    }

    fn body(contract: &Contract, data: &str) -> Result<String, SerialisationError> {
        let bytes = render(contract, &event(data), DeliveryId::from_i64(2))?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    const DATA: &str = r#"{ "b": 1.0, "a": "é", "a": "ü" }"#;

    #[test]
    fn every_contract_sends_its_own_body() {
        let expected = [
            (
                fixtures::standard(),
                r#"{"id":"order:42","type":"payment.created","timestamp":"2026-11-15T09:30:00.123Z","data":{ "b": 1.0, "a": "é", "a": "ü" }}"#,
            ),
            (
                fixtures::zerofee(),
                r#"{"created_at":"2026-11-15T09:30:00Z","data":{"a":"\u00fc","b":1.0},"id":"order:42","type":"payment.created"}"#,
            ),
            (
                fixtures::bastionary(),
                r#"{"id":"order:42","type":"payment.created","created_at":"2026-11-15T09:30:00.123Z","livemode":true,"delivery_id":"dlv_0000000000002","data":{ "b": 1.0, "a": "é", "a": "ü" }}"#,
            ),
            (fixtures::orientedos(), r#"{"event":"payment.created", "b": 1.0, "a": "é", "a": "ü" }"#),
            (
                fixtures::sendnomi(),
                r#"{"id":"order:42","type":"payment.created","created_at":"2026-11-15T09:30:00.123Z","data":{ "b": 1.0, "a": "é", "a": "ü" }}"#,
            ),
            (
                fixtures::simpaisa(),
                r#"{"event_id":"order:42","event_type":"payment.created","merchant_id":"merchant-7","timestamp":"2026-11-15T09:30:00.123Z","version":"2024-01-01","data":{ "b": 1.0, "a": "é", "a": "ü" }}"#,
            ),
        ];
        for (contract, expected) in expected {
            assert_eq!(body(&contract, DATA).unwrap(), expected, "{}", contract.name);
        }
    }

    #[test]
    fn erased_data_has_no_body_under_any_contract() {
        for contract in fixtures::all() {
            assert_eq!(body(&contract, ""), Err(SerialisationError::Erased), "{}", contract.name);
        }
    }

    #[test]
    fn only_a_body_with_the_delivery_s_id_differs_between_deliveries() {
        for contract in fixtures::all() {
            let by = |id| render(&contract, &event("{}"), DeliveryId::from_i64(id)).unwrap();
            assert_eq!(depends_on_delivery(&contract), contract.name == "bastionary");
            assert_eq!(depends_on_delivery(&contract), by(1) != by(2), "{}", contract.name);
        }
    }

    #[test]
    fn a_flat_body_refuses_data_that_it_cannot_hold() {
        let flat = fixtures::orientedos();
        for data in ["1", "null", "[]", "\"{}\"", "[{}]"] {
            assert_eq!(body(&flat, data), Err(SerialisationError::NotAnObject), "{data}");
        }
        for data in [r#"{"event":1}"#, r#"{"a":1,"\u0065vent":2}"#] {
            assert_eq!(body(&flat, data), Err(SerialisationError::NameTaken), "{data}");
        }
        for empty in ["{}", "{ }"] {
            let sent: serde_json::Value = serde_json::from_str(&body(&flat, empty).unwrap()).unwrap();
            assert_eq!(sent, serde_json::json!({ "event": "payment.created" }));
        }
    }

    #[test]
    fn text_that_we_write_ourselves_is_escaped() {
        let mut parts = event("1");
        parts.app_uid = "a\"b\\c\n";
        let bytes = render(&fixtures::simpaisa(), &parts, DeliveryId::from_i64(2)).unwrap();
        let sent: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(sent["merchant_id"], parts.app_uid);
    }

    proptest! {
        #[test]
        fn data_arrives_byte_for_byte(space in "[ \n\t]{0,3}", text: String, number in "-?[1-9][0-9]{0,40}(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?") {
            #[derive(serde::Deserialize)]
            struct ReceivedBody<'a> {
                #[serde(borrow)]
                data: &'a RawValue,
            }
            let quoted = serde_json::to_string(&text).unwrap();
            let data = format!("{{{space}{quoted}{space}:{space}[{number}{space},{quoted}]}}");
            for contract in [fixtures::standard(), fixtures::bastionary(), fixtures::sendnomi(), fixtures::simpaisa()] {
                let sent = body(&contract, &data).unwrap();
                prop_assert_eq!(serde_json::from_str::<ReceivedBody>(&sent).unwrap().data.get(), &data);
            }
            prop_assert!(body(&fixtures::zerofee(), &data).unwrap().contains(&number));
        }
    }
}
