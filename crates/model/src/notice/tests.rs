//! Tests of the texts of notices, digests and mails, and that names cannot inject anything into them.

use super::*;
use crate::{
    app::{App, AppSettings},
    contract::{Contract, DeadLetterNotice, fixtures},
    delivery::{Delivery, DeliveryState, EndReason},
    endpoint::{Endpoint, EndpointRecord, EndpointSettings},
    ports::EndpointLookup,
    subscription::Patterns,
    target_url::TargetUrl,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_millis(1_794_700_800_000);
const APP: AppId = AppId::from_i64(1);
const ENDPOINT: EndpointId = EndpointId::from_i64(2);

fn app(name: &str) -> App {
    let settings = AppSettings { name: name.into(), ..AppSettings::default() };
    App { id: APP, uid: "bakery".into(), settings, created_at: NOW, updated_at: NOW }
}

/// An app with this endpoint only.
struct OneEndpoint(Arc<Endpoint>);

impl EndpointLookup for OneEndpoint {
    fn endpoint(&self, id: EndpointId) -> Option<Arc<Endpoint>> {
        (self.0.id() == id).then(|| self.0.clone())
    }
}

fn endpoints(url: &str) -> OneEndpoint {
    let contract = Arc::new(fixtures::standard());
    OneEndpoint(Arc::new(Endpoint {
        record: EndpointRecord {
            id: ENDPOINT,
            app: APP,
            uid: "shop".into(),
            settings: EndpointSettings { url: url.into(), ..EndpointSettings::default() },
            disabled: None,
            encrypted_headers: None,
            encrypted_tls: None,
            secrets: Vec::new(),
            revision: 1,
            created_at: NOW,
            updated_at: NOW,
        },
        target: TargetUrl::from_stored("https://example.com/").unwrap(),
        health_url: None,
        patterns: Patterns::all(),
        contract_hash: contract.hash(),
        contract,
        secrets: Vec::new(),
        signing_keys: None,
        headers: Arc::new([]),
        tls: None,
        https_only: true,
    }))
}

fn notice(kind: NoticeKind, text: &str) -> Notice {
    Notice {
        id: NoticeId::from_i64(17),
        app: APP,
        kind,
        endpoint: Some(ENDPOINT),
        delivery: None,
        replay: None,
        at: NOW,
        details: NoticeDetails { text: text.into(), ..NoticeDetails::default() },
        event: None,
        digest: None,
        count: 1,
        mail: MailState::Waiting,
        mail_error: None,
        mailed_at: None,
    }
}

fn written(app: &App, notices: &[Notice], public_url: Option<&str>) -> Email {
    let endpoints = endpoints("https://hooks.bakery.example/in");
    let renderer = EmailRenderer { app, endpoints: &endpoints, public_url };
    renderer.render(notices, "ops@bakery.example".into(), NOW).unwrap()
}

fn event(event_type: &str) -> Event {
    Event {
        id: EventId::from_i64(50),
        app: APP,
        external_id: None,
        event_type: event_type.into(),
        created_at: NOW,
        accepted_at: NOW,
        data: Bytes::new(),
        key: None,
        deliver_at: None,
        has_no_subscribers: false,
    }
}

fn died(reason: EndReason) -> Delivery {
    let mut delivery =
        Delivery::new(DeliveryId::from_i64(51), APP, EventId::from_i64(50), ENDPOINT, NOW, None);
    delivery.state = DeliveryState::Dead;
    delivery.reason = Some(reason);
    delivery.attempt_count = 8;
    delivery.finished_at = Some(NOW);
    delivery
}

fn dead(contract: &Contract, event_type: &str) -> Option<NewNotice> {
    dead_letter(contract, &died(EndReason::Exhausted), &event(event_type), Some("HTTP 500"))
}

#[test]
fn the_five_contracts_notify_of_dead_letters_as_documented() {
    let bastionary = dead(&fixtures::bastionary(), "user.created").unwrap();
    assert_eq!(
        (bastionary.channel, bastionary.digest_window),
        (NoticeChannel::Email, None),
        "an e-mail for each"
    );
    let simpaisa = dead(&fixtures::simpaisa(), "payin.completed").unwrap();
    assert_eq!((simpaisa.channel, simpaisa.digest_window), (NoticeChannel::List, None));
    assert!(simpaisa.details.text.contains("is DLQ: 8 attempts failed"), "{}", simpaisa.details.text);
    for silent in [fixtures::zerofee(), fixtures::orientedos(), fixtures::sendnomi()] {
        assert_eq!(dead(&silent, "a.b"), None, "{}", silent.name);
    }
    assert_eq!(fixtures::zerofee().notices.disabled, NoticeChannel::Email);
    let standard = dead(&fixtures::standard(), "a.b").unwrap();
    assert_eq!(
        (standard.channel, standard.digest_window),
        (NoticeChannel::Email, Some(Duration::from_hours(1)))
    );
}

#[test]
fn a_dead_letter_notice_names_the_reason_and_internal_events_have_none() {
    let contract = fixtures::bastionary();
    for (reason, words) in [
        (EndReason::RefusedByReceiver, "the receiver refused it after 8 attempts"),
        (EndReason::SerialisationFailed, "its body could not be put together"),
        (EndReason::SigningFailed, "it could not be signed"),
    ] {
        let notice = dead_letter(&contract, &died(reason), &event("a.b"), None).unwrap();
        assert!(notice.details.text.contains(words), "{}", notice.details.text);
        assert_eq!(notice.details.reason.as_deref(), Some(reason.name()));
    }
    for own in ["webhook.test", "posthaste.delivery.dead"] {
        assert_eq!(dead(&contract, own), None, "{own}");
    }
    let long = "e".repeat(5000);
    let notice = dead_letter(&contract, &died(EndReason::Exhausted), &event("a.b"), Some(&long)).unwrap();
    assert_eq!(notice.details.last_error.unwrap().chars().count(), 500);
}

#[test]
fn a_mail_has_the_trouble_its_start_the_last_error_advice_and_a_link() {
    let mut off = notice(NoticeKind::EndpointDisabled, "Endpoint shop was switched off.");
    off.details.since = Some(Timestamp::from_millis(NOW.as_millis() - 86_400_000));
    off.details.last_error = Some("HTTP 503".into());
    off.details.reason = Some("auto_disabled_failures".into());
    let app = app("Corner Bakery");
    let email = written(&app, &[off.clone()], Some("https://ph.example"));
    assert_eq!(email.subject, "[Posthaste] Corner Bakery: endpoint shop was switched off");
    for words in [
        "Endpoint shop was switched off.\n",
        "App:         Corner Bakery (bakery)\n",
        "Endpoint:    shop, https://hooks.bakery.example/in\n",
        "Since:       2026-11-14T00:00:00Z\n",
        "Last error:  HTTP 503\n",
        "Reason:      auto_disabled_failures\n",
        "What to do: repair the receiver, then switch the endpoint on again",
        "\nhttps://ph.example/apps/bakery/endpoints/shop\n",
        "https://ph.example/apps/bakery/notices",
    ] {
        assert!(email.body.contains(words), "{words:?} in\n{}", email.body);
    }
    let bare = written(&app, &[off], None);
    assert!(bare.body.contains("\nGET /v1/apps/bakery/endpoints/shop\n"), "{}", bare.body);
    let mut dead = notice(NoticeKind::DeliveryDead, "It is dead.");
    dead.delivery = Some(DeliveryId::from_i64(51));
    dead.event = Some(EventRef::of(&event("order.paid")));
    let email = written(&app, &[dead], Some("https://ph.example"));
    assert!(email.body.contains("https://ph.example/apps/bakery/deliveries/dlv_"), "{}", email.body);
    assert!(email.body.contains("(order.paid)"), "{}", email.body);
}

#[test]
fn many_notices_are_one_mail_of_bounded_size_and_a_repeat_has_the_same_id() {
    let storm: Vec<_> = (1..=1000)
        .map(|number| Notice {
            id: NoticeId::from_i64(number),
            ..notice(NoticeKind::EndpointDisabled, &"x".repeat(2000))
        })
        .collect();
    let app = app("A");
    let email = written(&app, &storm, None);
    assert_eq!(email.subject, "[Posthaste] A: 1000 notices, the first: endpoint shop was switched off");
    assert!(email.body.len() < 30_000, "{}", email.body.len());
    assert!(email.body.contains("- and 890 more"), "{}", email.body);
    assert_eq!(written(&app, &storm, None), email);
    assert_ne!(written(&app, &storm[1..], None).id, email.id);
}

#[test]
fn a_digest_counts_by_endpoint_and_never_grows_beyond_its_limit() {
    let example = |endpoint: i64, delivery: i64| NewNotice {
        endpoint: Some(EndpointId::from_i64(endpoint)),
        delivery: Some(DeliveryId::from_i64(delivery)),
        ..dead(&fixtures::standard(), "order.paid").unwrap()
    };
    let mut digest = Digest::new(&example(2, 1), None);
    let mut size = 0;
    for number in 2..5000 {
        digest.add(&example(2 + number % 40, number), None);
        if number == 100 {
            size = serde_json::to_string(&digest).unwrap().len();
        }
    }
    assert!(serde_json::to_string(&digest).unwrap().len() < size + 200, "it grew");
    let counted: u32 = digest.endpoints().iter().map(|of| of.count).sum();
    assert_eq!((digest.endpoints().len(), counted + digest.other_endpoints), (20, 4999));
    let many = Notice { digest: Some(digest), count: 4999, ..notice(NoticeKind::DeliveryDead, "Many.") };
    let email = written(&app("A"), &[many], None);
    assert_eq!(email.subject, "[Posthaste] A: 4999 deliveries are dead");
    for words in ["- shop, https://hooks.bakery.example/in: ", "- at other endpoints: ", "First: ", "Last:  "]
    {
        assert!(email.body.contains(words), "{words:?} in\n{}", email.body);
    }
}

#[test]
fn webhook_data_of_a_notice_names_all_its_objects() {
    let app = app("A");
    let endpoints = endpoints("https://hooks.bakery.example/in");
    let mut notice = notice(NoticeKind::DeliveryDead, "It is dead.");
    notice.delivery = Some(DeliveryId::from_i64(51));
    notice.event = Some(EventRef::of(&event("order.paid")));
    let data = webhook_data(&notice, &app, &endpoints);
    for (field, value) in [
        ("notice_id", NoticeId::from_i64(17).to_string()),
        ("app_id", "bakery".into()),
        ("endpoint_id", "shop".into()),
        ("url", "https://hooks.bakery.example/in".into()),
        ("delivery_id", DeliveryId::from_i64(51).to_string()),
        ("event_id", EventId::from_i64(50).to_string()),
        ("event_type", "order.paid".into()),
        ("text", "It is dead.".into()),
        ("at", "2026-11-15T00:00:00.000Z".into()),
    ] {
        assert_eq!(data[field], value, "{field}");
    }
    notice.endpoint = Some(EndpointId::from_i64(99));
    assert_eq!(webhook_data(&notice, &app, &endpoints)["endpoint_id"], EndpointId::from_i64(99).to_string());
}

#[test]
fn notice_kinds_keep_their_numbers_and_whether_they_share_mails() {
    let numbers: Vec<_> = NoticeKind::ALL.iter().map(|kind| *kind as i64).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    assert_eq!(NoticeKind::EndpointDisabled.event_type(), "posthaste.endpoint.disabled");
    let alone: Vec<_> = NoticeKind::ALL.iter().filter(|kind| !kind.gathers()).collect();
    assert_eq!(alone, [&NoticeKind::DeliveryDead]);
    assert_eq!(MailState::ALL.map(|state| state as i64), [0, 1, 2, 3]);
    assert!(DeadLetterNotice::None != DeadLetterNotice::Digest);
}

proptest! {
    #[test]
    fn names_and_errors_cannot_break_out_of_their_line(
        name in any::<String>(), url in any::<String>(), text in any::<String>(), error in any::<String>(),
    ) {
        let app = app(&name);
        let endpoints = endpoints(&url);
        let mut degraded = notice(NoticeKind::EndpointDegraded, &text);
        degraded.details.last_error = Some(error);
        let renderer = EmailRenderer { app: &app, endpoints: &endpoints, public_url: None };
        let email = renderer.render(&[degraded], "a@b.c".into(), NOW).unwrap();
        prop_assert!(!email.subject.contains(char::is_control), "{:?}", email.subject);
        prop_assert!(email.subject.chars().count() < 200);
        let plain = written(&self::app("A"), &[Notice {
            details: NoticeDetails { text: "t".into(), last_error: Some("e".into()), ..NoticeDetails::default() },
            ..notice(NoticeKind::EndpointDegraded, "")
        }], None);
        prop_assert_eq!(email.body.lines().count(), plain.body.lines().count());
        prop_assert!(email.body.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
