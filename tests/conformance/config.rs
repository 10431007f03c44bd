//! The configuration: apps, endpoints, keys, event types and contracts read back as stored, and no change overwrites another.

use crate::fixture::{Fixture, NOW, after};
use posthaste::{
    domain::{
        api_key::{ApiKey, KeyHash, Scope},
        app::{App, AppSettings},
        contract::{ContractHash, WaitingWhenDisabled},
        endpoint::{Disabled, DisabledBy, DisabledReason, EncryptedSecret, EndpointRecord, EndpointSettings},
        event_type::{EventTypeDocument, EventTypeRecord, VersionDocument},
        id::{AppId, EndpointId, EventTypeId, KeyId},
        quota::Quota,
        rate_limit::{AppLimits, RateLimit},
    },
    store::config::{EndpointLabel, Inserted},
};
use serde_json::json;

fn full_app(fixture: &mut Fixture, uid: &str) -> App {
    let settings = AppSettings {
        name: "Łódź \u{1f600} \"shop\"".into(),
        contract: Some("standard".into()),
        overrides: Some(json!({"brand": "Łódź", "timeout": "5s"})),
        livemode: true,
        id_prefix: Some("evt2".into()),
        contact_email: Some("ops@example.com".into()),
        quota: Some(Quota { events_per_second: Some(5), bytes_per_second: Some(u64::MAX >> 1) }),
        limits: Some(AppLimits { max_in_flight: Some(9), rate_limit: Some(RateLimit::per_second(7)) }),
        metadata: Some(json!({"z": 1, "a": [null, "\u{0}"]})),
    };
    App {
        id: AppId::from_i64(fixture.next_id()),
        uid: uid.into(),
        settings,
        created_at: NOW,
        updated_at: after(1),
    }
}

fn full_endpoint(fixture: &mut Fixture) -> EndpointRecord {
    let secret = |byte, valid_until| EncryptedSecret {
        encrypted: vec![byte, 0, 255],
        valid_from: after(1),
        valid_until,
    };
    EndpointRecord {
        uid: "hook".into(),
        settings: EndpointSettings {
            url: "https://example.com/ü?x=1".into(),
            event_types: vec!["payment.*".into(), "*".into()],
            contract: Some("zerofee".into()),
            overrides: Some(json!({"retry": {"waits": ["1s"]}})),
            payload_version: Some("2024-01-01".into()),
            ordered: posthaste::domain::ordering::OrderingMode::Key,
            on_dead: Some(posthaste::domain::ordering::OnDead::Skip),
            max_in_flight: Some(3),
            rate_limit: Some(RateLimit { per_second: 5, burst: 2 }),
            health_url: Some("https://example.com/health".into()),
            description: Some(String::new()),
            metadata: Some(json!({})),
        },
        disabled: Some(Disabled {
            reason: DisabledReason::Rule("auto_disabled".into()),
            at: after(2),
            waiting: WaitingWhenDisabled::Cancelled,
            by: Some(DisabledBy::Key { id: "key_1".into(), name: Some("Deploys".into()) }),
        }),
        encrypted_headers: Some(vec![0, 1, 255]),
        encrypted_tls: Some(vec![255, 0]),
        secrets: vec![secret(9, Some(after(9))), secret(1, None)],
        ..fixture.endpoint_record(fixture.app)
    }
}

fn key(fixture: &mut Fixture, scope: Scope) -> ApiKey {
    let id = KeyId::from_i64(fixture.next_id());
    let hash = KeyHash::of(&id.to_string());
    ApiKey {
        id,
        hash,
        display_prefix: "ph_abc".into(),
        scope,
        name: Some("ci".into()),
        created_at: NOW,
        expires_at: Some(after(60)),
        last_used_at: Some(after(1)),
        revoked_at: None,
        theme: None,
    }
}

async fn apps(fixture: &Fixture) -> Vec<App> {
    fixture.store().config_snapshot().await.unwrap().apps
}

async fn endpoints(fixture: &Fixture) -> Vec<EndpointId> {
    fixture.store().config_snapshot().await.unwrap().endpoints.iter().map(|endpoint| endpoint.id).collect()
}

pub(crate) async fn everything_reads_back_as_it_was_stored(mut fixture: Fixture) {
    let (app, endpoint) = (full_app(&mut fixture, "shop-1"), full_endpoint(&mut fixture));
    let keys = [key(&mut fixture, Scope::Admin), key(&mut fixture, Scope::App(app.id))];
    assert_eq!(fixture.store().add_app(app.clone(), None).await.unwrap(), Inserted::Added);
    assert_eq!(fixture.store().add_endpoint(endpoint.clone(), None).await.unwrap(), Inserted::Added);
    for key in &keys {
        fixture.store().add_key(key.clone(), None).await.unwrap();
    }
    fixture.reopen();
    let everything = fixture.store().config_snapshot().await.unwrap();
    assert_eq!(everything.apps[1], app);
    assert_eq!(everything.endpoints[1], endpoint);
    assert_eq!(everything.keys, keys);
    assert_eq!(fixture.store().endpoint(endpoint.id).await.unwrap(), Some(endpoint));
}

pub(crate) async fn an_app_uid_is_unique(mut fixture: Fixture) {
    let (first, second) = (full_app(&mut fixture, "shop"), full_app(&mut fixture, "shop"));
    assert_eq!(fixture.store().add_app(first.clone(), None).await.unwrap(), Inserted::Added);
    assert_eq!(fixture.store().add_app(second, None).await.unwrap(), Inserted::UidTaken);
    assert_eq!(apps(&fixture).await[1..], [first]);
}

pub(crate) async fn an_app_changes_its_settings_and_keeps_its_uid(mut fixture: Fixture) {
    let app = full_app(&mut fixture, "shop");
    fixture.store().add_app(app.clone(), None).await.unwrap();
    let settings = AppSettings { name: "New".into(), ..AppSettings::default() };
    let changed =
        App { settings, uid: "other".into(), updated_at: after(5), created_at: after(5), ..app.clone() };
    assert!(fixture.store().change_app(changed.clone(), None).await.unwrap());
    let expected = App { uid: app.uid, created_at: app.created_at, ..changed };
    assert_eq!(apps(&fixture).await[1..], [expected]);
    let absent = full_app(&mut fixture, "absent");
    assert!(!fixture.store().change_app(absent, None).await.unwrap());
}

pub(crate) async fn removing_an_app_removes_its_endpoints_and_keys_at_once(mut fixture: Fixture) {
    let other = fixture.new_app().await;
    let kept = fixture.new_endpoint(other).await;
    let own = fixture.app;
    let keys = [
        key(&mut fixture, Scope::Admin),
        key(&mut fixture, Scope::App(own)),
        key(&mut fixture, Scope::App(other)),
    ];
    for key in &keys {
        fixture.store().add_key(key.clone(), None).await.unwrap();
    }
    assert!(fixture.store().remove_app(fixture.app, None).await.unwrap());
    assert!(!fixture.store().remove_app(fixture.app, None).await.unwrap(), "it is gone already");
    let everything = fixture.store().config_snapshot().await.unwrap();
    assert_eq!(everything.apps.iter().map(|app| app.id).collect::<Vec<_>>(), [other]);
    assert_eq!(everything.endpoints.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), [kept]);
    assert_eq!(everything.keys, [keys[0].clone(), keys[2].clone()]);
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap(), None);
    let again = App { uid: fixture.app.to_string(), ..full_app(&mut fixture, "") };
    assert_eq!(fixture.store().add_app(again, None).await.unwrap(), Inserted::Added, "its uid is free again");
}

pub(crate) async fn an_endpoint_uid_is_unique_in_its_app_including_deleted_ones(mut fixture: Fixture) {
    let (first, second, third) =
        (full_endpoint(&mut fixture), full_endpoint(&mut fixture), full_endpoint(&mut fixture));
    let elsewhere = EndpointRecord { app: fixture.new_app().await, ..full_endpoint(&mut fixture) };
    assert_eq!(fixture.store().add_endpoint(first.clone(), None).await.unwrap(), Inserted::Added);
    assert_eq!(fixture.store().add_endpoint(second, None).await.unwrap(), Inserted::UidTaken);
    assert_eq!(fixture.store().add_endpoint(elsewhere.clone(), None).await.unwrap(), Inserted::Added);
    fixture.store().remove_endpoint(first.id, NOW, None).await.unwrap();
    assert_eq!(fixture.store().add_endpoint(third, None).await.unwrap(), Inserted::UidTaken);
    assert_eq!(endpoints(&fixture).await, [fixture.endpoint, elsewhere.id]);
}

pub(crate) async fn a_change_replaces_settings_secrets_headers_and_state(mut fixture: Fixture) {
    let record = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    let full = full_endpoint(&mut fixture);
    let changed = EndpointRecord {
        id: record.id,
        uid: record.uid,
        revision: record.revision + 1,
        updated_at: after(7),
        ..full
    };
    assert!(fixture.store().change_endpoint(changed.clone(), None).await.unwrap());
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap(), Some(changed.clone()));
    let bare = EndpointRecord {
        disabled: None,
        encrypted_headers: None,
        encrypted_tls: None,
        secrets: vec![],
        revision: changed.revision + 1,
        ..changed
    };
    assert!(fixture.store().change_endpoint(bare.clone(), None).await.unwrap());
    fixture.reopen();
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap(), Some(bare));
}

pub(crate) async fn a_change_of_another_revision_is_refused(fixture: Fixture) {
    let stored = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    for revision in [0, stored.revision, stored.revision + 2] {
        let secrets = vec![];
        let stale = EndpointRecord { revision, secrets, updated_at: after(9), ..stored.clone() };
        assert!(!fixture.store().change_endpoint(stale, None).await.unwrap(), "{revision}");
    }
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap(), Some(stored));
}

pub(crate) async fn of_two_concurrent_endpoint_changes_one_conflicts(fixture: Fixture) {
    let stored = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    let change = |at| EndpointRecord { revision: stored.revision + 1, updated_at: at, ..stored.clone() };
    let (one, two) = (
        fixture.store().change_endpoint(change(after(1)), None),
        fixture.store().change_endpoint(change(after(2)), None),
    );
    assert_eq!((one.await.unwrap(), two.await.unwrap()), (true, false));
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap().updated_at, after(1));
}

pub(crate) async fn a_deleted_endpoint_keeps_its_uid_and_loses_its_secrets(mut fixture: Fixture) {
    let endpoint = full_endpoint(&mut fixture);
    fixture.store().add_endpoint(endpoint.clone(), None).await.unwrap();
    assert!(fixture.store().remove_endpoint(endpoint.id, NOW, None).await.unwrap());
    assert!(!fixture.store().remove_endpoint(endpoint.id, NOW, None).await.unwrap(), "it is gone already");
    assert_eq!(fixture.store().endpoint(endpoint.id).await.unwrap(), None);
    let change = EndpointRecord { revision: endpoint.revision + 1, ..endpoint.clone() };
    assert!(!fixture.store().change_endpoint(change, None).await.unwrap(), "it cannot come back");
    let unknown = EndpointId::from_i64(fixture.next_id());
    let requested = vec![endpoint.id, unknown, fixture.endpoint];
    let names = fixture.store().endpoint_names(requested).await.unwrap();
    let deleted = EndpointLabel { id: endpoint.id, uid: "hook".into(), url: endpoint.settings.url };
    assert_eq!(names[0], deleted);
    assert_eq!(
        (names[1].id, names[1].uid.as_str()),
        (fixture.endpoint, fixture.endpoint.to_string().as_str())
    );
    assert_eq!(names.len(), 2);
    assert_eq!(endpoints(&fixture).await, [fixture.endpoint]);
    assert!(!fixture.store().remove_endpoint(unknown, NOW, None).await.unwrap());
}

pub(crate) async fn a_revoked_key_stays_revoked(mut fixture: Fixture) {
    let app = fixture.app;
    let (revoked, kept) = (key(&mut fixture, Scope::Admin), key(&mut fixture, Scope::App(app)));
    for key in [&revoked, &kept] {
        fixture.store().add_key(key.clone(), None).await.unwrap();
    }
    assert!(fixture.store().revoke_key(revoked.id, after(1), None).await.unwrap());
    assert!(!fixture.store().revoke_key(revoked.id, after(2), None).await.unwrap());
    let unknown = KeyId::from_i64(fixture.next_id());
    assert!(!fixture.store().revoke_key(unknown, NOW, None).await.unwrap());
    fixture.reopen();
    assert_eq!(fixture.store().config_snapshot().await.unwrap().keys, [kept]);
}

pub(crate) async fn a_contract_is_kept_under_its_hash(mut fixture: Fixture) {
    let (hash, other) = (ContractHash([0; 16]), ContractHash([255; 16]));
    for document in ["{\"a\":1}", "{\"a\":1}"] {
        fixture.store().store_contract(hash, document.into()).await.unwrap();
    }
    fixture.reopen();
    assert_eq!(fixture.store().contract(hash).await.unwrap().as_deref(), Some("{\"a\":1}"));
    assert_eq!(fixture.store().contract(other).await.unwrap(), None);
}

fn event_type(fixture: &mut Fixture, name: &str) -> EventTypeRecord {
    EventTypeRecord {
        id: EventTypeId::from_i64(fixture.next_id()),
        name: name.into(),
        document: EventTypeDocument {
            description: Some("A payment, \u{1f600}".into()),
            sample: Some(r#"{ "amount": 12345678901234567890, "a":"\u0000" }"#.into()),
            versions: vec![
                VersionDocument { name: "1".into(), ..VersionDocument::default() },
                VersionDocument {
                    name: "2024-01-01".into(),
                    description: Some("flat".into()),
                    schema: Some(json!({ "z": 1, "a": [true, null] })),
                    function: Some("data => {\n  return data\n}".into()),
                },
            ],
            enforce_schema: true,
            archived_at: Some(after(3)),
        },
        revision: 1,
        created_at: NOW,
        updated_at: after(1),
    }
}

async fn event_types(fixture: &Fixture) -> Vec<EventTypeRecord> {
    fixture.store().config_snapshot().await.unwrap().event_types
}

pub(crate) async fn an_event_type_reads_back_and_can_be_removed(mut fixture: Fixture) {
    let (first, second) = (event_type(&mut fixture, "payment.created"), event_type(&mut fixture, "a"));
    for record in [&first, &second] {
        assert!(fixture.store().put_event_type(record.clone(), None).await.unwrap());
    }
    fixture.reopen();
    assert_eq!(event_types(&fixture).await, [first.clone(), second.clone()], "in order of creation");
    assert!(fixture.store().remove_event_type(first.id, None).await.unwrap());
    assert!(!fixture.store().remove_event_type(first.id, None).await.unwrap(), "it is gone already");
    assert_eq!(event_types(&fixture).await, [second]);
    let again = event_type(&mut fixture, "payment.created");
    assert!(fixture.store().put_event_type(again, None).await.unwrap(), "its name is free again");
}

pub(crate) async fn of_two_concurrent_event_type_changes_one_conflicts(mut fixture: Fixture) {
    let first = event_type(&mut fixture, "payment.created");
    assert!(fixture.store().put_event_type(first.clone(), None).await.unwrap());
    let same_name = event_type(&mut fixture, "payment.created");
    assert!(!fixture.store().put_event_type(same_name, None).await.unwrap(), "the name is taken");
    let document = EventTypeDocument::default();
    let changed = EventTypeRecord { document, revision: 2, updated_at: after(5), ..first.clone() };
    assert!(fixture.store().put_event_type(changed.clone(), None).await.unwrap());
    for stale in [
        first.clone(),
        EventTypeRecord { revision: 2, ..first.clone() },
        EventTypeRecord { revision: 4, ..first },
    ] {
        assert!(!fixture.store().put_event_type(stale, None).await.unwrap());
    }
    assert_eq!(event_types(&fixture).await, [changed]);
}

pub(crate) async fn several_event_types_are_stored_together_or_not_at_all(mut fixture: Fixture) {
    let kept = event_type(&mut fixture, "kept");
    assert!(fixture.store().put_event_type(kept.clone(), None).await.unwrap());
    let (first, taken) = (event_type(&mut fixture, "first"), event_type(&mut fixture, "kept"));
    let stale = EventTypeRecord { revision: 3, ..kept.clone() };
    for refused in [vec![(first.clone(), None), (taken, None)], vec![(first.clone(), None), (stale, None)]] {
        assert!(!fixture.store().put_event_types(refused).await.unwrap());
        assert_eq!(event_types(&fixture).await, std::slice::from_ref(&kept));
    }
    let changed = EventTypeRecord { document: EventTypeDocument::default(), revision: 2, ..kept };
    let all = vec![(first.clone(), None), (changed.clone(), None)];
    assert!(fixture.store().put_event_types(all).await.unwrap());
    fixture.reopen();
    assert_eq!(event_types(&fixture).await, [changed, first]);
}
