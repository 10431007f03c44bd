//! Validates the form of an event, and derives its deduplication keys.

use super::PublishRequest;
use crate::{
    domain::{
        app::App,
        event::{DedupKey, DedupSpace, Fingerprint},
        id::{EXTERNAL_ID_FORM, is_external_id},
        subscription::check_event_type,
        time::Timestamp,
    },
    service::Error,
};
use std::time::Duration;

const DELIVER_AHEAD_MAX: Duration = Duration::from_hours(30 * 24);
const EVENT_KEY_BYTES_MAX: usize = 256;

pub(super) fn check_form(publish: &PublishRequest<'_>, now: Timestamp) -> Result<(), Error> {
    check_event_type(publish.event_type).map_err(|message| Error::field("type", message))?;
    if publish.id.is_some_and(|id| !is_external_id(id)) {
        return Err(Error::field("id", format!("must be {EXTERNAL_ID_FORM}")));
    }
    if publish
        .key
        .is_some_and(|key| !(1..=EVENT_KEY_BYTES_MAX).contains(&key.len()) || key.contains(char::is_control))
    {
        return Err(Error::field(
            "key",
            format!("must be 1 to {EVENT_KEY_BYTES_MAX} bytes without control characters"),
        ));
    }
    let visible = |key: &str| {
        (1..=EVENT_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
    };
    if publish.idempotency_key.is_some_and(|key| !visible(key)) {
        let message = format!("must be 1 to {EVENT_KEY_BYTES_MAX} visible ASCII characters");
        return Err(Error::field("Idempotency-Key", message));
    }
    if publish.deliver_at.is_some_and(|at| at.since(now) > DELIVER_AHEAD_MAX) {
        return Err(Error::field("deliver_at", "must be at most 30 days ahead"));
    }
    Ok(())
}

pub(super) fn dedup_keys(app: &App, publish: &PublishRequest<'_>) -> (Vec<DedupKey>, Fingerprint) {
    let id = publish.id.map(|id| DedupKey::new(app.id, DedupSpace::EventId, id));
    let key = publish.idempotency_key.map(|key| DedupKey::new(app.id, DedupSpace::IdempotencyKey, key));
    if id.is_none() && key.is_none() {
        return (Vec::new(), Fingerprint([0; 16]));
    }
    let fingerprint = Fingerprint::new(
        publish.event_type,
        &publish.data,
        publish.created_at,
        publish.key,
        publish.deliver_at,
    );
    (id.into_iter().chain(key).collect(), fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn event() -> PublishRequest<'static> {
        PublishRequest {
            id: None,
            event_type: "payment.created",
            data: Bytes::from_static(b"{}"),
            created_at: None,
            key: None,
            deliver_at: None,
            idempotency_key: None,
        }
    }

    fn refused_field(publish: &PublishRequest<'_>) -> Option<String> {
        match check_form(publish, Timestamp::from_millis(0)) {
            Ok(()) => None,
            Err(Error::Field(error)) => Some(error.field),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_invalid_field_is_named_in_the_error() {
        let ahead = |days: i64| Some(Timestamp::from_millis(days * 86_400_000));
        let long = "k".repeat(257);
        let cases = [
            (PublishRequest { id: Some("a b"), ..event() }, Some("id")),
            (PublishRequest { id: Some("order:17.a~b-c_D"), ..event() }, None),
            (PublishRequest { event_type: "webhook.test", ..event() }, Some("type")),
            (PublishRequest { key: Some(""), ..event() }, Some("key")),
            (PublishRequest { key: Some("kunde 7, süd"), ..event() }, None),
            (PublishRequest { idempotency_key: Some("a b"), ..event() }, Some("Idempotency-Key")),
            (PublishRequest { idempotency_key: Some(&long), ..event() }, Some("Idempotency-Key")),
            (PublishRequest { deliver_at: ahead(30), ..event() }, None),
            (PublishRequest { deliver_at: ahead(31), ..event() }, Some("deliver_at")),
            (PublishRequest { deliver_at: ahead(-31), ..event() }, None),
        ];
        for (publish, field) in cases {
            assert_eq!(refused_field(&publish).as_deref(), field, "{publish:?}");
        }
    }

    #[test]
    fn an_event_without_id_or_key_is_not_deduplicated() {
        let app = App {
            id: crate::domain::id::AppId::from_i64(1),
            uid: "a".into(),
            settings: crate::domain::app::AppSettings::default(),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        };
        assert_eq!(dedup_keys(&app, &event()), (Vec::new(), Fingerprint([0; 16])));
        let both = PublishRequest { id: Some("x"), idempotency_key: Some("x"), ..event() };
        let (keys, fingerprint) = dedup_keys(&app, &both);
        assert_eq!(keys.len(), 2);
        assert_ne!(keys[0], keys[1], "the two namespaces are separate");
        assert_ne!(fingerprint, Fingerprint([0; 16]));
    }
}
