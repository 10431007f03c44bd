//! Compares the built-in contracts with the table of the five systems, cell by cell; one column per contract.

use super::{fixtures::*, *};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn five() -> [Contract; 5] {
    [zerofee(), bastionary(), orientedos(), sendnomi(), simpaisa()]
}

#[track_caller]
fn row<T: PartialEq + fmt::Debug>(cell: impl Fn(&Contract) -> T, expected: [T; 5]) {
    for (contract, expected) in five().iter().zip(expected) {
        assert_eq!(cell(contract), expected, "{}", contract.name);
    }
}

fn names(list: &[StatusPattern]) -> Vec<String> {
    list.iter()
        .map(|statuses| serde_json::from_value(field_reader::FieldValue::write(statuses)).unwrap())
        .collect()
}

#[test]
fn bodies() {
    use BodyForm::{Envelope, Flat};
    use JsonForm::{AsGiven, Sorted};
    use TimeForm::{Milliseconds as Ms, Seconds};
    let fields = |contract: &Contract| {
        let fields = contract.body.fields.iter().map(|field| format!("{}={}", field.name, field.from.name()));
        fields.collect::<Vec<_>>().join(" ")
    };
    row(
        fields,
        [
            // Sorted, as it is sent.
            "created_at=created_at data=data id=event_id type=type".into(),
            "id=event_id type=type created_at=created_at livemode=livemode delivery_id=delivery_id data=data".into(),
            "event=type".into(),
            "id=event_id type=type created_at=created_at data=data".into(),
            "event_id=event_id event_type=type merchant_id=app_id timestamp=created_at version=payload_version data=data".into(),
        ],
    );
    row(|contract| contract.body.form, [Envelope, Envelope, Flat, Envelope, Envelope]);
    row(|contract| contract.body.json, [Sorted, AsGiven, AsGiven, AsGiven, AsGiven]);
    row(|contract| contract.body.time, [Seconds, Ms, Ms, Ms, Ms]);
}

#[test]
fn signatures_and_keys() {
    use SignatureEncoding::{Base64, Hex};
    row(
        |contract| contract.signature.signs.source().to_owned(),
        ["{t}.{body}", "{t}.{body}", "{body}", "{id}.{t}.{body}", "{body}"].map(str::to_owned),
    );
    row(
        |contract| format!("{}: {}", contract.signature.header, contract.signature.hmac_sha256.source()),
        [
            "x-zerofee-signature: t={t},v1={signature}",
            "x-bastionary-signature: t={t},v1={signature}",
            "x-orientedos-signature: sha256={signature}",
            "webhook-signature: v1,{signature}",
            "x-simpaisa-signature: sha256={signature}",
        ]
        .map(str::to_owned),
    );
    row(|contract| contract.signature.encoding, [Hex, Hex, Hex, Base64, Hex]);
    row(|contract| contract.secret.rotation, [Rotation::Switch; 5]);
    row(|contract| contract.secret.key, [KeyForm::Text; 5]);
    row(|contract| contract.secret.prefix.clone(), ["whsec_", "", "", "whsec_", ""].map(str::to_owned));
    row(|contract| contract.signature.ed25519.is_some(), [false; 5]);
}

#[test]
fn headers_agents_and_timeouts() {
    let headers = |contract: &Contract| {
        let headers = contract.headers.iter().map(|(name, value)| format!("{name}: {}", value.source()));
        headers.collect::<Vec<_>>().join(", ")
    };
    row(
        headers,
        [
            "x-zerofee-delivery: {attempt_id}, x-zerofee-event: {type}, x-zerofee-timestamp: {t}",
            "x-bastionary-delivery: {delivery_id}, x-bastionary-event: {type}",
            "x-orientedos-delivery-id: {delivery_id}, x-orientedos-event: {type}",
            "webhook-id: {id}, webhook-timestamp: {t}",
            "x-simpaisa-delivery-attempt: {attempt}, x-simpaisa-event-id: {event_id}, \
             x-simpaisa-event-type: {type}, x-simpaisa-timestamp: {t}",
        ]
        .map(str::to_owned),
    );
    let own = "Posthaste/{version}";
    row(
        |contract| contract.user_agent.source().replace("{brand}", &contract.brand),
        ["ZeroFee-Webhook/1.0", own, "OrientedOS-Webhooks/1.0", own, "Simpaisa-Webhooks/1.0"]
            .map(str::to_owned),
    );
    row(|contract| contract.timeout.as_secs(), [30, 30, 30, 5, 30]);
    row(|contract| contract.https_only, [None, None, None, None, Some(true)]);
    row(|contract| contract.pacing, [Pacing::Strict; 5]);
}

#[test]
fn schedules() {
    use Jitter::{Full, None as Exact};
    let last = |contract: &Contract| contract.timeline().attempts.last().unwrap().to_string();
    row(last, ["T+10h36m", "T+0…21m10s", "T+1h21m", "T+44h36m", "T+110h36m"].map(str::to_owned));
    row(|contract| contract.timeline().attempts.len(), [6, 8, 5, 8, 8]);
    let end = |contract: &Contract| contract.timeline().ends[0].to_string();
    row(
        end,
        [
            "dead at T+10h36m",
            "dead at T+0…21m10s",
            "dead at T+7h21m",
            "dead at T+44h36m",
            "dead at T+110h36m",
        ]
        .map(str::to_owned),
    );
    let minutes =
        |contract: &Contract| contract.retry.waits.iter().map(|wait| wait.as_secs() / 60).collect::<Vec<_>>();
    assert_eq!(minutes(&zerofee()), [1, 5, 30, 120, 480]);
    assert_eq!(minutes(&orientedos()), [1, 5, 15, 60]);
    assert_eq!(minutes(&sendnomi()), [1, 5, 30, 120, 360, 720, 1440]);
    assert_eq!(minutes(&simpaisa()), [1, 5, 30, 120, 720, 1440, 4320]);
    for (n, wait) in bastionary().retry.waits.iter().enumerate() {
        assert_eq!(*wait, (Duration::from_secs(10) * 2u32.pow(n as u32)).min(HOUR));
    }
    row(|contract| contract.retry.jitter, [Exact, Full, Exact, Exact, Exact]);
    row(|contract| contract.retry.final_wait, [None, None, Some(6 * HOUR), None, None]);
    row(|contract| contract.retry.give_up_after, [None, None, None, Some(7 * DAY), None]);
    row(|contract| contract.retry.give_up_while_held, [false, false, false, true, false]);
    row(|contract| contract.retry.retry_after, [RetryAfter::Ignore; 5]);
}

#[test]
fn answers() {
    row(|contract| names(&contract.answers.success), [const { "2xx" }; 5].map(|one| vec![one.to_owned()]));
    let list = |five: [&[&str]; 5]| five.map(|list| list.iter().map(|one| (*one).to_owned()).collect());
    row(|contract| names(&contract.answers.never), list([&[], &[], &[], &["4xx"], &[]]));
    row(|contract| names(&contract.answers.disable), list([&[], &[], &[], &["410"], &[]]));
    row(|contract| names(&contract.answers.advise_rotation), list([&[], &[], &[], &["401", "403"], &[]]));
    row(|contract| contract.answers.advice(403).is_some(), [false, false, false, true, false]);
    assert_eq!(
        sendnomi().answers.advice(401).unwrap(),
        "The receiver answered 401: its secret may be out of date; rotate the secret."
    );
    assert_eq!(sendnomi().answers.advice(400), None);
}

#[test]
fn off_and_health() {
    use PublishedWhileDisabled::{Held as Kept, None as Nothing};
    use WaitingWhenDisabled::{Cancelled, Held};
    row(|contract| contract.off.waiting, [Held, Held, Held, Held, Cancelled]);
    row(|contract| contract.off.published, [Kept, Nothing, Nothing, Kept, Nothing]);
    row(|contract| contract.health.off_after_failed_events, [Some(10), None, None, None, None]);
    row(|contract| contract.health.off_after_failing_for, [None, Some(72 * HOUR), None, None, None]);
    row(|contract| contract.health.warning_after, [None, Some(48 * HOUR), None, None, None]);
    row(|contract| contract.health.degraded_above, [None, Some(Percent(80)), None, None, None]);
    row(|contract| contract.health.degraded_window, [None, Some(DAY), None, None, None]);
    assert_eq!(zerofee().health.off_reason, "auto_disabled_failures");
}

#[test]
fn notices() {
    use NoticeChannel::{Email, List};
    row(|contract| contract.notices.disabled, [Email, Email, List, List, List]);
    let each = DeadLetterNotice::Each;
    let none = DeadLetterNotice::None;
    row(|contract| contract.notices.dead_letter, [none, each, none, none, each]);
    row(|contract| contract.notices.dead_letter_by, [List, Email, List, List, List]);
    let bastionary = bastionary().notices;
    assert_eq!((bastionary.degraded, bastionary.off_warning), (Email, Email));
}

#[test]
fn dead_letters_ids_and_rendering() {
    let month = RetentionPeriod::For(30 * DAY);
    row(
        |contract| contract.retention.dead_letters,
        [month, month, RetentionPeriod::Forever, month, RetentionPeriod::Forever],
    );
    row(|contract| contract.ids.event.clone(), ["evt", "evt", "evt", "msg", "evt"].map(str::to_owned));
    row(|contract| contract.ids.delivery.clone(), ["dlv"; 5].map(str::to_owned));
    row(|contract| contract.rendering.tries, [1, 1, 1, 1, 3]);
    row(|contract| contract.rendering.timeout.as_secs(), [5; 5]);
}

#[test]
fn names_of_states() {
    use crate::delivery::{DeliveryState, EndReason};
    let text = |contract: &Contract| {
        let mut text: Vec<String> =
            DeliveryState::ALL.iter().map(|state| contract.states.of(*state, None).to_owned()).collect();
        for reason in [EndReason::SerialisationFailed, EndReason::SigningFailed] {
            text.push(contract.states.of(DeliveryState::Dead, Some(reason)).to_owned());
        }
        text.push(contract.states.skipped.clone());
        text.join(" ")
    };
    row(
        text,
        [
            "pending pending pending held delivered failed cancelled expired failed failed skipped",
            "pending pending pending held delivered dead cancelled expired dead dead skipped",
            "pending failed in_flight held success dead cancelled expired dead dead skipped",
            "pending retrying in_flight held delivered dead cancelled expired dead dead skipped",
            "PENDING WAITING_RETRY DELIVERING held DELIVERED DLQ CANCELLED expired SERIALISATION_FAILED SIGNING_FAILED skipped",
        ]
        .map(str::to_owned),
    );
}

#[test]
fn event_types() {
    let zerofee = zerofee().event_types;
    let of = |resource: &str, verbs: &[&str]| -> Vec<String> {
        verbs.iter().map(|verb| format!("{resource}.{verb}")).collect()
    };
    let mut expected = of("payment", &["created", "completed", "failed", "expired", "cancelled"]);
    expected.extend(of("refund", &["created", "completed", "failed"]));
    expected.extend(of("checkout", &["completed", "expired"]));
    assert_eq!(zerofee, expected);
}

#[test]
fn standard() {
    use BodySource::{CreatedAt, Data, EventId, Type};
    let standard = fixtures::standard();
    let fields: Vec<_> = standard.body.fields.iter().map(|field| (&*field.name, field.from)).collect();
    assert_eq!(fields, [("id", EventId), ("type", Type), ("timestamp", CreatedAt), ("data", Data)]);
    assert_eq!(standard.signature.hmac_sha256.source(), "v1,{signature}");
    assert_eq!(standard.signature.ed25519.as_ref().unwrap().source(), "v1a,{signature}");
    assert_eq!((standard.signature.separator.as_str(), standard.secret.rotation), (" ", Rotation::Both));
    assert_eq!((standard.secret.key, standard.secret.prefix.as_str()), (KeyForm::Base64, "whsec_"));
    assert_eq!(standard.signature.signs.source(), "{id}.{t}.{body}");
    assert_eq!(standard.headers.keys().collect::<Vec<_>>(), ["webhook-id", "webhook-timestamp"]);
    let waits: Vec<_> = standard.retry.waits.iter().map(Duration::as_secs).collect();
    assert_eq!(waits, [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    assert_eq!(
        (standard.retry.jitter, standard.retry.retry_after),
        (Jitter::Percent(20), RetryAfter::Honour)
    );
    assert_eq!(standard.retry.give_up_after, Some(7 * DAY));
    assert!(!standard.retry.give_up_while_held);
    let meaning = |status| standard.answers.meaning(status);
    assert_eq!([200, 204].map(meaning), [ResponseMeaning::Success; 2]);
    assert_eq!([301, 401, 404, 408, 425, 429, 500, 503].map(meaning), [ResponseMeaning::Retry; 8]);
    assert_eq!(meaning(410), ResponseMeaning::DisableEndpoint);
    assert_eq!(
        standard.off,
        DisabledRule { waiting: WaitingWhenDisabled::Held, published: PublishedWhileDisabled::Held }
    );
    assert_eq!(standard.health.off_after_failing_for, Some(5 * DAY));
    assert_eq!(standard.health.warning_after, Some(60 * HOUR), "at half that time");
    assert_eq!(standard.retention.dead_letters, RetentionPeriod::For(30 * DAY));
    assert_eq!((standard.timeout.as_secs(), standard.pacing), (15, Pacing::Adaptive));
}
