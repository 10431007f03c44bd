//! Texts of the notices about deliveries and replays, and the data of a notice's operational webhook.

use super::{EventRef, NewNotice, Notice, NoticeDetails, NoticeKind, one_line};
use crate::{
    app::App,
    contract::{Contract, DeadLetterNotice, NoticeChannel},
    delivery::{Delivery, DeliveryState, EndReason},
    event::{Event, is_internal_type},
    id::{DeliveryId, ReplayId},
    ports::EndpointLookup,
    replay::{Replay, ReplaySelection},
    time::Timestamp,
};
use serde_json::{Value, json};

/// The length limit of a last error, which a receiver may choose freely.
const ERROR_CHARS_MAX: usize = 500;

/// Makes the notice of a delivery that just became dead. Returns `None` if its contract wants none, or if no product published
/// its event: a dead notice must not make another.
pub fn dead_letter(
    contract: &Contract,
    delivery: &Delivery,
    event: &Event,
    last_error: Option<&str>,
) -> Option<NewNotice> {
    let digest = match contract.notices.dead_letter {
        DeadLetterNotice::Each => None,
        DeadLetterNotice::Digest => Some(contract.notices.digest_window),
        DeadLetterNotice::None => return None,
    };
    let at = delivery.finished_at.filter(|_| delivery.state == DeliveryState::Dead)?;
    if is_internal_type(&event.event_type) {
        return None;
    }
    let times = match delivery.attempt_count {
        1 => "one attempt".to_owned(),
        count => format!("{count} attempts"),
    };
    let why = match delivery.reason {
        Some(EndReason::RefusedByReceiver) => format!("the receiver refused it after {times}"),
        Some(EndReason::SerialisationFailed) => "its body could not be put together".to_owned(),
        Some(EndReason::SigningFailed) => "it could not be signed".to_owned(),
        _ => format!("{times} failed, and its schedule is used up"),
    };
    let called = contract.states.of(DeliveryState::Dead, delivery.reason);
    let text = format!("A delivery of {} is {called}: {why}.", one_line(&event.event_type, 128));
    Some(NewNotice {
        app: delivery.app,
        kind: NoticeKind::DeliveryDead,
        endpoint: Some(delivery.endpoint),
        delivery: Some(delivery.id),
        replay: None,
        at,
        channel: contract.notices.dead_letter_by,
        digest_window: digest,
        details: NoticeDetails {
            text,
            since: Some(event.accepted_at),
            last_error: last_error.map(|error| one_line(error, ERROR_CHARS_MAX)),
            reason: delivery.reason.map(|reason| reason.name().to_owned()),
            disables_at: None,
        },
    })
}

/// Returns the sentence of a digest of `count` dead letters.
pub(crate) fn dead_letters_text(count: u32) -> String {
    format!("{count} deliveries could not be delivered and are dead letters now.")
}

/// Makes the notice of a finished replay.
pub fn replay_finished(replay: &Replay, channel: NoticeChannel, now: Timestamp) -> NewNotice {
    let what = match replay.selection {
        ReplaySelection::Deliveries(_) => ("replay", "sent again"),
        ReplaySelection::Backfill(_) => ("backfill", "sent"),
    };
    let refused = match replay.refused {
        0 => String::new(),
        count => format!(", {count} could not be"),
    };
    let text = format!("The {} {} is finished: {} {}{refused}.", what.0, replay.id, replay.replayed, what.1);
    NewNotice {
        app: replay.app,
        kind: NoticeKind::ReplayFinished,
        endpoint: replay.selection.endpoint(),
        delivery: None,
        replay: Some(replay.id),
        at: now,
        channel,
        digest_window: None,
        details: NoticeDetails {
            text,
            since: Some(replay.created_at),
            last_error: replay.last_refusal.as_deref().map(|refusal| one_line(refusal, ERROR_CHARS_MAX)),
            reason: None,
            disables_at: None,
        },
    }
}

/// Returns the data of its operational webhook. `app` is the app it is about, which may differ from the app it is sent to.
pub fn webhook_data(notice: &Notice, app: &App, endpoints: &dyn EndpointLookup) -> Value {
    let endpoint = notice.endpoint.map(|id| (id, endpoints.endpoint(id)));
    let known = endpoint.as_ref().and_then(|(_, known)| known.as_ref());
    let uid = known.map(|known| known.record.uid.clone());
    let facts = &notice.details;
    let mut data = json!({
        "notice_id": notice.id.to_string(),
        "kind": notice.kind.name(),
        "at": notice.at.rfc3339_millis(),
        "app_id": app.uid,
        "endpoint_id": uid.or_else(|| endpoint.as_ref().map(|(id, _)| id.to_string())),
        "url": known.map(|known| known.record.settings.url.clone()),
        "delivery_id": notice.delivery.map(|id: DeliveryId| id.to_string()),
        "event_id": notice.event.as_ref().map(|event: &EventRef| event.public_id(app.id_prefix())),
        "event_type": notice.event.as_ref().map(|event| event.event_type.clone()),
        "replay_id": notice.replay.map(|id: ReplayId| id.to_string()),
        "count": notice.count,
        "text": facts.text,
        "since": facts.since.map(Timestamp::rfc3339_millis),
        "last_error": facts.last_error,
        "reason": facts.reason,
        "off_at": facts.disables_at.map(Timestamp::rfc3339_millis),
    });
    if let Some(digest) = &notice.digest {
        let name =
            |id| endpoints.endpoint(id).map_or_else(|| id.to_string(), |known| known.record.uid.clone());
        let of =
            digest.endpoints().iter().map(|of| json!({ "endpoint_id": name(of.id()), "count": of.count }));
        data["endpoints"] = of.collect();
    }
    data
}
