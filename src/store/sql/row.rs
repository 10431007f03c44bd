//! Converts domain values to rows and back. An impossible value is reported with its row, never guessed.

use super::{
    Error, Result, Row, ToValue, Value,
    value::{FromValue, WrongValue},
};
use crate::domain::{
    contract::NoticeChannel,
    delivery::{Delivery, DeliveryState, EndReason, SavedState},
    event::Event,
    id::{
        AppId, AuditId, DeliveryId, EndpointId, EventId, EventTypeId, InspectionId, KeyId, NoticeId, ReplayId,
    },
    inspection::{self, InspectionKind},
    notice::{MailState, NoticeKind},
    ordering::OrderingKey,
    replay::ReplayState,
    time::Timestamp,
    verdict::DueAction,
};
use bytes::Bytes;
use std::fmt::Display;

macro_rules! integer_column {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl ToValue for $type {
            fn value(&self) -> Value<'_> {
                let to: fn(&$type) -> i64 = $to;
                Value::Integer(to(self))
            }
        }

        impl FromValue<'_> for $type {
            fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
                let from: fn(i64) -> Option<$type> = $from;
                let number = i64::from_value(value)?;
                from(number).ok_or(WrongValue::Number(number))
            }
        }
    )*};
}

fn pick<T: Copy>(all: &[T], number: i64) -> Option<T> {
    usize::try_from(number).ok().and_then(|index| all.get(index).copied())
}

const CHANNELS: [NoticeChannel; 3] = [NoticeChannel::Email, NoticeChannel::List, NoticeChannel::None];
const AT_DUE: [DueAction; 4] =
    [DueAction::Attempt, DueAction::Exhaust, DueAction::Expire, DueAction::ExhaustUncounted];

integer_column! {
    Timestamp: |at| at.as_millis(), |n| Some(Timestamp::from_millis(n));
    AppId: |id| id.as_i64(), |n| Some(AppId::from_i64(n));
    EventTypeId: |id| id.as_i64(), |n| Some(EventTypeId::from_i64(n));
    EndpointId: |id| id.as_i64(), |n| Some(EndpointId::from_i64(n));
    EventId: |id| id.as_i64(), |n| Some(EventId::from_i64(n));
    DeliveryId: |id| id.as_i64(), |n| Some(DeliveryId::from_i64(n));
    ReplayId: |id| id.as_i64(), |n| Some(ReplayId::from_i64(n));
    KeyId: |id| id.as_i64(), |n| Some(KeyId::from_i64(n));
    AuditId: |id| id.as_i64(), |n| Some(AuditId::from_i64(n));
    OrderingKey: |ordering_key| ordering_key.as_i64(), |n| Some(OrderingKey::from_i64(n));
    NoticeId: |id| id.as_i64(), |n| Some(NoticeId::from_i64(n));
    NoticeKind: |kind| *kind as i64, |n| pick(NoticeKind::ALL, n);
    NoticeChannel: |channel| CHANNELS.iter().position(|c| c == channel).unwrap_or(0) as i64, |n| pick(&CHANNELS, n);
    MailState: |state| *state as i64, |n| pick(&MailState::ALL, n);
    ReplayState: |state| *state as i64, |n| pick(&ReplayState::ALL, n);
    InspectionId: |id| id.as_i64(), |n| Some(InspectionId::from_i64(n));
    InspectionKind: |kind| *kind as i64, |n| pick(&InspectionKind::ALL, n);
    inspection::InspectionState: |state| *state as i64, |n| pick(&inspection::InspectionState::ALL, n);
    DeliveryState: |state| *state as i64, |n| pick(&DeliveryState::ALL, n);
    EndReason: |reason| *reason as i64, |n| pick(&EndReason::ALL, n);
    DueAction: |at_due| AT_DUE.iter().position(|a| a == at_due).unwrap_or(0) as i64, |n| pick(&AT_DUE, n);
}

/// Adds the row's name to an error of reading it.
pub(super) fn named<T>(row: impl Display, read: Result<T>) -> Result<T> {
    read.map_err(|error| match error {
        Error::Wrong(what) => Error::Wrong(format!("{row}: {what}")),
        other => other,
    })
}

/// Columns that `delivery` reads, in its order.
pub(super) const DELIVERY: &str = "d.id, d.app, d.event, d.endpoint, d.state, d.reason, d.retry_index, d.attempt_count, \
     d.history_len, d.due, d.due_action, d.give_up_at, d.finished_at, d.root, d.replay_of, d.return_to, \
     d.held_at, d.restarted_at, d.ordering_key, d.manual, d.skipped_at, d.order_seq";
pub(super) const DELIVERY_COLUMNS: usize = 22;

pub(super) fn delivery(row: &Row<'_>) -> Result<Delivery> {
    let id = row.get(0)?;
    named(id, read_delivery(row, id))
}

fn read_delivery(row: &Row<'_>, id: DeliveryId) -> Result<Delivery> {
    Ok(Delivery {
        id,
        app: row.get(1)?,
        event: row.get(2)?,
        endpoint: row.get(3)?,
        state: row.get(4)?,
        reason: row.get(5)?,
        retry_index: row.get(6)?,
        attempt_count: row.get(7)?,
        history_len: row.get(8)?,
        due: row.get(9)?,
        at_due: row.get(10)?,
        give_up_at: row.get(11)?,
        finished_at: row.get(12)?,
        held_at: row.get(16)?,
        restarted_at: row.get(17)?,
        ordering_key: row.get(18)?,
        order_seq: row.get(21)?,
        is_manual: row.get::<Option<bool>>(19)?.unwrap_or_default(),
        skipped_at: row.get(20)?,
        root: row.get::<Option<DeliveryId>>(13)?.unwrap_or(id),
        replay_of: row.get(14)?,
        saved_state: row.get::<Option<&str>>(15)?.map(read_saved_state).transpose()?,
    })
}

/// Columns that `event` reads, in its order; `data` comes last so that lists can leave it out, which is read as empty.
macro_rules! event_with {
    ($data:literal) => {
        concat!(
            "e.id, e.app, e.type, e.external_id, e.created_at, e.accepted_at, e.key, e.deliver_at, e.skipped, ",
            $data
        )
    };
}

pub(super) const EVENT: &str = event_with!("e.data");
pub(super) const EVENT_COLUMNS: usize = 10;
pub(super) const EVENT_WITHOUT_DATA: &str = event_with!("NULL");

/// Includes `data` only if it has at most as many bytes as the fifth parameter says.
pub(super) const EVENT_WITH_SMALL_DATA: &str =
    event_with!("CASE WHEN length(e.data) <= CAST(?5 AS bigint) THEN e.data END");

/// Includes `data` only if the event is of the app in the first parameter, and of the type in the second one, if any.
pub(super) const EVENT_WITH_DATA_IF_MATCHING: &str =
    event_with!("CASE WHEN e.app = ?1 AND e.type = coalesce(?2, e.type) THEN e.data END");

pub(super) fn event(row: &Row<'_>, first: usize) -> Result<Event> {
    let id = row.get(first)?;
    named(id, read_event(row, first, id))
}

fn read_event(row: &Row<'_>, first: usize, id: EventId) -> Result<Event> {
    Ok(Event {
        id,
        app: row.get(first + 1)?,
        event_type: row.get(first + 2)?,
        external_id: row.get(first + 3)?,
        created_at: row.get(first + 4)?,
        accepted_at: row.get(first + 5)?,
        key: row.get(first + 6)?,
        deliver_at: row.get(first + 7)?,
        has_no_subscribers: row.get(first + 8)?,
        data: Bytes::from(row.get::<Option<Vec<u8>>>(first + 9)?.unwrap_or_default()),
    })
}

/// Writes `state,reason,due,at_due,finished_at,is_probe`, numbers or nothing: rare, short, and readable in a dump. An older
/// version left out the last.
pub(in crate::store) fn write_saved_state(back: &SavedState) -> String {
    let number = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
    let at_due = AT_DUE.iter().position(|a| *a == back.at_due).unwrap_or(0);
    format!(
        "{},{},{},{at_due},{},{}",
        back.state as i64,
        number(back.reason.map(|reason| reason as i64)),
        number(back.due.map(Timestamp::as_millis)),
        number(back.finished_at.map(Timestamp::as_millis)),
        number(back.is_probe.then_some(1)),
    )
}

pub(super) fn read_saved_state(text: &str) -> Result<SavedState> {
    let parse = || {
        let mut parts = text.split(',').map(|part| (!part.is_empty()).then(|| part.parse::<i64>().ok()));
        let mut next = || parts.next().map(Option::flatten);
        Some(SavedState {
            state: pick(&DeliveryState::ALL, next()??)?,
            reason: next()?.map(|n| pick(&EndReason::ALL, n)).map_or(Some(None), |r| r.map(Some))?,
            due: next()?.map(Timestamp::from_millis),
            at_due: pick(&AT_DUE, next()??)?,
            finished_at: next()?.map(Timestamp::from_millis),
            is_probe: next().flatten() == Some(1),
        })
    };
    parse().ok_or_else(|| Error::Wrong(format!("return_to {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::{
        super::attempts::{class_from, class_number},
        *,
    };
    use crate::domain::{
        api_key::Scope,
        audit::AuditAction,
        outcome::{Outcome, OutcomeClass},
        statistics::ResultCode,
    };

    #[test]
    fn a_saved_state_reads_back() {
        let at = Timestamp::from_millis(1_800_000_000_123);
        for (reason, due, finished_at) in
            [(None, Some(at), None), (Some(EndReason::Exhausted), None, Some(at)), (None, None, None)]
        {
            let (state, at_due, is_probe) = (DeliveryState::Retrying, DueAction::Exhaust, due.is_some());
            let back = SavedState { state, reason, due, at_due, finished_at, is_probe };
            assert_eq!(read_saved_state(&write_saved_state(&back)).unwrap(), back);
        }
        assert!(!read_saved_state("1,,,0,").unwrap().is_probe, "as an older version wrote it");
        assert!(read_saved_state("1,99,,0,").is_err());
        assert!(read_saved_state("").is_err());
    }

    #[test]
    fn a_saved_state_is_the_same_text_in_every_version() {
        let at = Timestamp::from_millis;
        let back = SavedState {
            state: DeliveryState::Dead,
            reason: Some(EndReason::Closed),
            due: Some(at(1_800_000_000_123)),
            at_due: DueAction::Expire,
            finished_at: Some(at(1_800_000_000_456)),
            is_probe: true,
        };
        assert_eq!(write_saved_state(&back), "5,4,1800000000123,2,1800000000456,1");
    }

    /// The names in the order of the numbers that are stored.
    macro_rules! assert_numbers {
        ($type:ty: $($name:literal)+) => {
            let numbers = [$($name),+].into_iter().zip(0..);
            for (name, number) in numbers.clone() {
                let found = <$type>::from_value(Value::Integer(number)).unwrap();
                assert_eq!((found.name(), found.value()), (name, Value::Integer(number)));
            }
            assert!(<$type>::from_value(Value::Integer(numbers.count() as i64)).is_err());
        };
    }

    #[test]
    fn stored_numbers_mean_the_same_in_every_version() {
        assert_numbers!(DeliveryState: "pending" "retrying" "in_flight" "held" "delivered" "dead" "cancelled" "expired");
        assert_numbers!(EndReason: "exhausted" "refused_by_receiver" "serialisation_failed" "signing_failed" "closed"
            "endpoint_off" "endpoint_deleted" "by_hand" "give_up_after" "retention");
        assert_numbers!(inspection::InspectionState: "waiting" "running" "finished" "interrupted" "cancelled");
        assert_numbers!(InspectionKind: "inspect" "ping");
        assert_numbers!(NoticeKind: "endpoint.degraded" "endpoint.warning" "endpoint.disabled" "endpoint.recovered"
            "delivery.dead" "replay.finished");
        assert_numbers!(NoticeChannel: "email" "list" "none");
        assert_numbers!(MailState: "none" "waiting" "sent" "refused");
        assert_numbers!(ReplayState: "running" "paused" "finished" "cancelled");
        let due = [DueAction::Attempt, DueAction::Exhaust, DueAction::Expire, DueAction::ExhaustUncounted];
        assert_eq!(due.each_ref().map(ToValue::value), [0, 1, 2, 3].map(Value::Integer));
        let classes = "ok http timeout dns connect tls stale_connection address_refused local unknown";
        for (name, number) in classes.split(' ').zip(0..) {
            let class = class_from(number).unwrap();
            assert_eq!((class.name(), class_number(class)), (name, number));
        }
        let code = |class, status| {
            let code = ResultCode::of(&Outcome { status, ..Outcome::failed(class, "") });
            serde_json::to_value(code).unwrap()
        };
        assert_eq!(code(OutcomeClass::Ok, Some(204)), 204);
        assert_eq!(code(OutcomeClass::Http, Some(503)), -503);
        for (number, class) in (0_i64..).zip(OutcomeClass::ALL).skip(2) {
            assert_eq!(code(class, None), -number, "{}", class.name());
        }
    }

    #[test]
    fn stored_words_are_the_same_in_every_version() {
        let app = AppId::from_i64(1);
        let scopes = [Scope::Publish(app), Scope::Read(app), Scope::Portal(app), Scope::PortalRead(app)];
        let scopes = [Scope::Admin, Scope::App(app)].into_iter().chain(scopes);
        for (scope, name) in scopes.zip(["admin", "app", "publish", "read", "portal", "portal_read"]) {
            assert_eq!((scope.name(), Scope::named(name, scope.app())), (name, Some(scope)));
        }
        let names: Vec<&str> = AuditAction::ALL.iter().map(|action| action.name()).collect();
        let stored = "app.created app.changed app.deleted endpoint.created endpoint.changed endpoint.enabled endpoint.disabled
            endpoint.deleted secret.rotated key.created key.revoked portal_link.created portal_link.revoked event_type.created
            event_type.changed event_type.deleted event_type.archived event_type.unarchived event.erased delivery.retried
            delivery.replayed delivery.cancelled delivery.closed delivery.deleted replay.begun replay.paused replay.resumed
            replay.cancelled";
        assert_eq!(names, stored.split_whitespace().collect::<Vec<_>>());
    }
}
