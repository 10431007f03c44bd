//! The audit log: an entry is written together with its change or not at all, and listing is bounded for a log of any length.

use crate::{
    fixture::{Fixture, NOW, after},
    replays::{deliveries, running},
};
use posthaste::{
    domain::{
        api_key::{ApiKey, KeyHash, Scope},
        app::{App, AppSettings},
        audit::{AuditAction, AuditDetail, AuditEntry},
        delivery::DeliveryState,
        endpoint::EndpointRecord,
        id::{AppId, AuditId, DeliveryId, EventId, KeyId, made_at},
        portal_theme::PortalTheme,
        replay::{Replay, ReplayState},
    },
    store::{
        audit::AuditFilter,
        config::Inserted,
        deliveries::{ActionResult, DeliveryAction},
        queries::{Cursor, ROWS_EXAMINED_MAX},
        replays::ReplayChanged,
    },
};

const KEY: KeyId = KeyId::from_i64(7);

fn entry(fixture: &mut Fixture, app: Option<AppId>, action: AuditAction) -> AuditEntry {
    let id = fixture.next_id();
    AuditEntry {
        id: AuditId::from_i64(id),
        at: made_at(id),
        key: KEY,
        key_name: Some("Łódź \"ci\"".into()),
        scope: "app".into(),
        app,
        action,
        object_id: "ep_1".into(),
        detail: AuditDetail::of_fields(&["url".to_owned()]),
    }
}

/// Returns an entry about the fixture's app.
fn own(fixture: &mut Fixture, action: AuditAction) -> AuditEntry {
    let app = fixture.app;
    entry(fixture, Some(app), action)
}

fn app(fixture: &mut Fixture, uid: &str) -> App {
    let settings = AppSettings { name: "Shop".into(), ..AppSettings::default() };
    let id = AppId::from_i64(fixture.next_id());
    App { id, uid: uid.into(), settings, created_at: NOW, updated_at: NOW }
}

fn key(fixture: &mut Fixture, scope: Scope) -> ApiKey {
    let id = KeyId::from_i64(fixture.next_id());
    ApiKey {
        id,
        hash: KeyHash::of(&id.to_string()),
        display_prefix: "phk_abc".into(),
        scope,
        name: None,
        created_at: NOW,
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        theme: None,
    }
}

async fn all(fixture: &Fixture, filter: AuditFilter) -> Vec<AuditEntry> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.store().audit(filter, after, 2).await.unwrap();
        assert!(page.rows.len() <= 2);
        all.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

async fn count(fixture: &Fixture) -> usize {
    all(fixture, AuditFilter::default()).await.len()
}

pub(crate) async fn an_entry_reads_back_as_it_was_written(mut fixture: Fixture) {
    let full = own(&mut fixture, AuditAction::AppCreated);
    let bare = AuditEntry {
        key_name: None,
        app: None,
        detail: None,
        ..entry(&mut fixture, None, AuditAction::KeyCreated)
    };
    for (uid, entry) in [("a", &full), ("b", &bare)] {
        let app = app(&mut fixture, uid);
        fixture.store().add_app(app, Some(entry.clone())).await.unwrap();
    }
    fixture.reopen();
    let joined = fixture.store().join(NOW).await.unwrap();
    assert!(joined.newest_id >= bare.id.as_i64(), "no id of an entry is given out again");
    assert_eq!(all(&fixture, AuditFilter::default()).await, [bare, full], "the newest first");
}

pub(crate) async fn a_change_of_the_registry_leaves_one_entry_and_a_refused_one_none(mut fixture: Fixture) {
    let first = app(&mut fixture, "a");
    let twin = App { id: AppId::from_i64(fixture.next_id()), ..first.clone() };
    let noted = Some(own(&mut fixture, AuditAction::AppCreated));
    assert_eq!(fixture.store().add_app(first.clone(), noted).await.unwrap(), Inserted::Added);
    let noted = Some(own(&mut fixture, AuditAction::AppCreated));
    assert_eq!(fixture.store().add_app(twin.clone(), noted).await.unwrap(), Inserted::UidTaken);
    assert_eq!(count(&fixture).await, 1);
    for (app, expected) in [(first.clone(), true), (twin, false)] {
        let noted = Some(own(&mut fixture, AuditAction::AppChanged));
        assert_eq!(fixture.store().change_app(app, noted).await.unwrap(), expected);
    }
    assert_eq!(count(&fixture).await, 2);
    let endpoint = fixture.endpoint_record(first.id);
    for expected in [Inserted::Added, Inserted::UidTaken] {
        let noted = Some(own(&mut fixture, AuditAction::EndpointCreated));
        assert_eq!(fixture.store().add_endpoint(endpoint.clone(), noted).await.unwrap(), expected);
    }
    assert_eq!(count(&fixture).await, 3);
    let mut changed = endpoint.clone();
    changed.revision += 1;
    for expected in [true, false] {
        let noted = Some(own(&mut fixture, AuditAction::EndpointChanged));
        assert_eq!(fixture.store().change_endpoint(changed.clone(), noted).await.unwrap(), expected);
    }
    assert_eq!(count(&fixture).await, 4);
    for expected in [true, false] {
        let noted = Some(own(&mut fixture, AuditAction::EndpointDeleted));
        assert_eq!(fixture.store().remove_endpoint(endpoint.id, NOW, noted).await.unwrap(), expected);
    }
    assert_eq!(count(&fixture).await, 5);
    let made = key(&mut fixture, Scope::Admin);
    let noted = Some(own(&mut fixture, AuditAction::KeyCreated));
    fixture.store().add_key(made.clone(), noted).await.unwrap();
    for expected in [true, false] {
        let noted = Some(own(&mut fixture, AuditAction::KeyRevoked));
        assert_eq!(fixture.store().revoke_key(made.id, NOW, noted).await.unwrap(), expected);
    }
    let actions: Vec<&str> =
        all(&fixture, AuditFilter::default()).await.iter().rev().map(|entry| entry.action.name()).collect();
    assert_eq!(
        actions,
        [
            "app.created",
            "app.changed",
            "endpoint.created",
            "endpoint.changed",
            "endpoint.deleted",
            "key.created",
            "key.revoked"
        ]
    );
}

pub(crate) async fn a_change_of_the_ledger_leaves_one_entry_and_a_refused_one_none(mut fixture: Fixture) {
    let dead = fixture.one_in(DeliveryState::Dead).await;
    let unknown = DeliveryId::from_i64(fixture.next_id());
    let mut asks = Vec::new();
    for (id, ask) in [
        (dead, DeliveryAction::Close),
        (dead, DeliveryAction::Cancel),
        (unknown, DeliveryAction::Retry),
        (dead, DeliveryAction::Delete),
    ] {
        let noted = Some(own(&mut fixture, AuditAction::DeliveryClosed));
        asks.push(fixture.store().act(fixture.app, id, ask, NOW, noted).await.unwrap());
    }
    assert!(
        matches!(
            &asks[..],
            [ActionResult::Done(_), ActionResult::Refused(_), ActionResult::Absent, ActionResult::Deleted]
        ),
        "{asks:?}"
    );
    assert_eq!(count(&fixture).await, 2);
    let new = fixture.one_event();
    let event = new.event.id;
    fixture.accept(new).await;
    for (event, expected) in [(event, true), (EventId::from_i64(fixture.next_id()), false)] {
        let noted = Some(own(&mut fixture, AuditAction::EventErased));
        assert_eq!(fixture.store().erase_data(fixture.app, event, noted).await.unwrap(), expected);
    }
    assert_eq!(count(&fixture).await, 3);
    let replay = replay(&mut fixture);
    let noted = Some(own(&mut fixture, AuditAction::ReplayBegun));
    fixture.store().start_replay(replay.clone(), noted).await.unwrap();
    for is_done in [true, false] {
        let noted = Some(own(&mut fixture, AuditAction::ReplayCancelled));
        let to = ReplayState::Cancelled;
        let changed = fixture.store().change_replay(fixture.app, replay.id, to, NOW, noted).await.unwrap();
        assert_eq!(matches!(changed, ReplayChanged::Done(_)), is_done);
    }
    assert_eq!(count(&fixture).await, 5);
}

fn replay(fixture: &mut Fixture) -> Replay {
    running(fixture, deliveries(Some(fixture.endpoint), None, &[DeliveryState::Dead]))
}

/// Writes the entry with an arbitrary change.
async fn write(fixture: &mut Fixture, entry: AuditEntry) {
    let settings = AppSettings { name: entry.object_id.clone(), ..AppSettings::default() };
    let app = App { id: fixture.app, uid: "a".into(), settings, created_at: NOW, updated_at: NOW };
    assert!(fixture.store().change_app(app, Some(entry)).await.unwrap());
}

pub(crate) async fn filters_combine_and_apps_do_not_mix(mut fixture: Fixture) {
    let other = fixture.new_app().await;
    let mut ids = Vec::new();
    for (app, key, action) in [
        (Some(fixture.app), 1, AuditAction::AppChanged),
        (Some(fixture.app), 2, AuditAction::AppChanged),
        (Some(fixture.app), 1, AuditAction::KeyRevoked),
        (Some(other), 1, AuditAction::AppChanged),
        (None, 1, AuditAction::AppChanged),
    ] {
        let entry = AuditEntry { key: KeyId::from_i64(key), ..entry(&mut fixture, app, action) };
        ids.push(entry.id);
        write(&mut fixture, entry).await;
    }
    let (one, ours) = (Some(KeyId::from_i64(1)), Some(fixture.app));
    let nothing = AuditFilter::default();
    for (filter, expected) in [
        (nothing, vec![4, 3, 2, 1, 0]),
        (AuditFilter { app: ours, ..nothing }, vec![2, 1, 0]),
        (AuditFilter { app: Some(other), ..nothing }, vec![3]),
        (AuditFilter { key: one, ..nothing }, vec![4, 3, 2, 0]),
        (AuditFilter { app: ours, key: one, action: Some(AuditAction::AppChanged), ..nothing }, vec![0]),
        (AuditFilter { to: Some(NOW), ..nothing }, vec![]),
        (AuditFilter { from: Some(NOW), to: Some(after(1)), ..nothing }, vec![4, 3, 2, 1, 0]),
        (AuditFilter { from: Some(after(1)), ..nothing }, vec![]),
    ] {
        let found: Vec<AuditId> = all(&fixture, filter).await.iter().map(|entry| entry.id).collect();
        let expected: Vec<AuditId> = expected.into_iter().map(|index: usize| ids[index]).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub(crate) async fn a_rare_entry_is_found_behind_ten_thousand_others_in_bounded_steps(mut fixture: Fixture) {
    let rare = own(&mut fixture, AuditAction::KeyRevoked);
    write(&mut fixture, rare.clone()).await;
    let settings = AppSettings { name: "Shop".into(), ..AppSettings::default() };
    let app = App { id: fixture.app, uid: "a".into(), settings, created_at: NOW, updated_at: NOW };
    let many: Vec<Option<AuditEntry>> =
        (0..ROWS_EXAMINED_MAX).map(|_| Some(own(&mut fixture, AuditAction::AppChanged))).collect();
    let store = fixture.shared_store();
    let writing: Vec<_> = many.into_iter().map(|noted| store.change_app(app.clone(), noted)).collect();
    for written in writing {
        assert!(written.await.unwrap());
    }
    for app in [None, Some(fixture.app)] {
        let filter = AuditFilter { app, action: Some(AuditAction::KeyRevoked), ..AuditFilter::default() };
        let first = fixture.store().audit(filter, None, 10).await.unwrap();
        assert!(first.rows.is_empty(), "a page looks at ten thousand rows and no more");
        let next: Option<Cursor> = first.next;
        let second = fixture.store().audit(filter, Some(next.expect("more to look at")), 10).await.unwrap();
        assert_eq!((second.rows, second.next), (vec![rare.clone()], None));
    }
}

pub(crate) async fn the_audit_log_of_an_app_is_deleted_with_it_except_the_deletion(mut fixture: Fixture) {
    let kept_app = fixture.new_app().await;
    let kept = entry(&mut fixture, Some(kept_app), AuditAction::KeyCreated);
    write(&mut fixture, kept.clone()).await;
    for _ in 0..3 {
        let about = own(&mut fixture, AuditAction::AppChanged);
        write(&mut fixture, about).await;
    }
    let end = entry(&mut fixture, None, AuditAction::AppDeleted);
    assert!(fixture.store().remove_app(fixture.app, Some(end.clone())).await.unwrap());
    let again = entry(&mut fixture, None, AuditAction::AppDeleted);
    let newest = again.id;
    assert!(!fixture.store().remove_app(fixture.app, Some(again)).await.unwrap());
    assert_eq!(
        all(&fixture, AuditFilter::default()).await,
        [end.clone(), kept.clone()],
        "before it is purged"
    );
    let of_it = AuditFilter { app: Some(fixture.app), ..AuditFilter::default() };
    assert!(all(&fixture, of_it).await.is_empty());
    while fixture.store().purge_deleted_apps().await.unwrap() {}
    assert_eq!(all(&fixture, AuditFilter::default()).await, [end.clone(), kept]);
    fixture.reopen();
    let joined = fixture.store().join(NOW).await.unwrap().newest_id;
    assert!(joined >= end.id.as_i64() && joined < newest.as_i64());
}

pub(crate) async fn a_revoked_key_is_still_known_and_the_last_use_only_grows(mut fixture: Fixture) {
    let app = fixture.app;
    let scopes = [Scope::Admin, Scope::App(app), Scope::Publish(app), Scope::Read(app)];
    let mut keys: Vec<ApiKey> = scopes.map(|scope| key(&mut fixture, scope)).into();
    for key in &keys {
        fixture.store().add_key(key.clone(), None).await.unwrap();
    }
    let unknown = KeyId::from_i64(fixture.next_id());
    let uses = vec![(keys[0].id, after(5)), (keys[1].id, after(6)), (unknown, after(7))];
    fixture.store().record_key_uses(uses).await.unwrap();
    fixture.store().record_key_uses(vec![(keys[0].id, after(4))]).await.unwrap();
    assert!(fixture.store().revoke_key(keys[1].id, after(8), None).await.unwrap());
    (keys[0].last_used_at, keys[1].last_used_at) = (Some(after(5)), Some(after(6)));
    keys[1].revoked_at = Some(after(8));
    fixture.reopen();
    let store = fixture.store();
    assert_eq!(store.keys(KeyId::from_i64(0), 100).await.unwrap(), keys);
    assert_eq!(store.keys(keys[0].id, 2).await.unwrap(), keys[1..3]);
    assert_eq!(store.key(keys[1].id).await.unwrap().as_ref(), Some(&keys[1]));
    assert_eq!(store.key(unknown).await.unwrap(), None);
    keys.remove(1);
    assert_eq!(store.config_snapshot().await.unwrap().keys, keys, "what works");
}

pub(crate) async fn a_portal_link_is_no_key_and_is_purged_a_day_after_expiry(mut fixture: Fixture) {
    const DAY: u64 = 24 * 60 * 60;
    let (own, other) = (fixture.app, AppId::from_i64(fixture.next_id()));
    let link = |fixture: &mut Fixture, scope, made: u64, lives: u64| ApiKey {
        created_at: after(made),
        expires_at: Some(after(made + lives)),
        theme: Some(PortalTheme { name: Some("Bakery".into()), ..PortalTheme::default() }),
        ..key(fixture, scope)
    };
    let first = link(&mut fixture, Scope::Portal(own), 0, 60);
    let elsewhere = link(&mut fixture, Scope::Portal(other), 0, 60);
    let longer = link(&mut fixture, Scope::PortalRead(own), 0, 2 * DAY);
    let plain = ApiKey { expires_at: Some(after(1)), ..key(&mut fixture, Scope::App(own)) };
    let last = link(&mut fixture, Scope::Portal(own), DAY + 60, 60);
    let late = link(&mut fixture, Scope::PortalRead(own), DAY + 61, 60);
    for added in [&first, &elsewhere, &longer, &plain, &last] {
        let gone = fixture.store().add_key(added.clone(), None).await.unwrap();
        assert_eq!(gone, [], "not before a day is over");
    }
    assert_eq!(fixture.store().add_key(late.clone(), None).await.unwrap(), [first.id]);
    fixture.reopen();
    let store = fixture.store();
    let listed = store.keys(KeyId::from_i64(0), 100).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&plain), "the list is of keys");
    assert_eq!(store.key(longer.id).await.unwrap().as_ref(), Some(&longer));
    assert_eq!(store.key(first.id).await.unwrap(), None);
    let mut found = store.config_snapshot().await.unwrap().keys;
    found.sort_by_key(|key| key.id);
    assert_eq!(found, [elsewhere, longer, plain, last, late]);
}

pub(crate) async fn old_keys_and_audit_entries_are_purged(mut fixture: Fixture) {
    let (old, other) = (own(&mut fixture, AuditAction::AppChanged), fixture.app);
    let changed = app(&mut fixture, "another");
    fixture.store().add_app(changed, Some(old)).await.unwrap();
    let scopes = [Scope::Admin, Scope::App(other), Scope::Read(other)];
    let mut keys: Vec<ApiKey> = scopes.map(|scope| key(&mut fixture, scope)).into();
    keys[1].expires_at = Some(after(8));
    for key in &keys {
        fixture.store().add_key(key.clone(), None).await.unwrap();
    }
    fixture.store().revoke_key(keys[0].id, after(8), None).await.unwrap();
    let forget =
        async |fixture: &Fixture, seconds| fixture.store().purge_records(after(seconds)).await.unwrap();
    assert_eq!(forget(&fixture, 8).await.keys, [], "not before it is that old");
    let forgotten = forget(&fixture, 9).await;
    assert_eq!((forgotten.keys, forgotten.has_more), (vec![keys[0].id, keys[1].id], false));
    assert_eq!(fixture.store().keys(KeyId::from_i64(0), 100).await.unwrap(), keys[2..]);
    let log = fixture.store().audit(AuditFilter::default(), None, 10).await.unwrap();
    assert!(log.rows.is_empty(), "{:?}", log.rows);
    let newest = keys[2].id.as_i64();
    fixture.reopen();
    assert!(fixture.store().join(NOW).await.unwrap().newest_id >= newest);
}

pub(crate) async fn replays_begin_with_the_change_or_not_at_all(mut fixture: Fixture) {
    let stored = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    let changed = EndpointRecord { revision: stored.revision + 1, ..stored };
    for expected in [true, false] {
        let replay = replay(&mut fixture);
        let entries =
            [AuditAction::EndpointEnabled, AuditAction::ReplayBegun].map(|action| own(&mut fixture, action));
        let [switched, begun] = entries;
        let replays = vec![(replay.clone(), begun)];
        let done =
            fixture.store().change_endpoint_and_replay(changed.clone(), switched, replays).await.unwrap();
        let kept = fixture.store().replay(fixture.app, replay.id).await.unwrap();
        assert_eq!((done, kept.is_some()), (expected, expected));
        assert_eq!(count(&fixture).await, 2, "two entries, of the first");
    }
}
