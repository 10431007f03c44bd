//! A second node on the same store: changes made at the first reach its configuration cache within a second, and it reports
//! that.

use crate::{
    fixture::{ADMIN, Behaviour, Fixture},
    node_builder::NodeBuilder,
};
use posthaste::{
    domain::{
        api_key::SETTINGS_KEY_ID,
        cluster::OutageReport,
        endpoint::Endpoint,
        event_type::EventTypeDocument,
        id::{EndpointId, KeyId},
        ports::{Permit, Permits},
        replay::Replay,
        retention::RetentionPolicy,
        storage::StorageUsage,
        time::Timestamp,
    },
    runtime::{Clock, ConfigCache, IdGenerator, NodeLease},
    service::{
        Patch, Service,
        api_keys::NewKey,
        apps::AppPatch,
        endpoints::{EndpointPatch, NewEndpoint},
    },
    store::{
        ClusterStore, ConfigStore, Reply,
        cluster::{
            ClusterView, ConfigChanges, HealthBootstrap, HealthCandidate, Heartbeat, Joined, PurgedRecords,
            RollupResult,
        },
        retention::{OverdueEvents, OverdueSearch},
        sqlite::SqliteStore,
    },
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

/// The store, with configuration changes that the test makes up.
struct ChangesStore {
    store: Arc<SqliteStore>,
    changes: Mutex<ConfigChanges>,
}

macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(fn $name(&self, $($argument: $kind),*) -> Reply<'_, $answer> {
            self.store.$name($($argument),*)
        })+
    };
}

impl ClusterStore for ChangesStore {
    fn changes(&self, after: i64) -> Reply<'_, ConfigChanges> {
        let changes = self.changes.lock().unwrap().clone();
        let is_news = changes.version > after;
        let known = ConfigChanges { version: changes.version, ..ConfigChanges::default() };
        Box::pin(std::future::ready(Ok(if is_news { changes } else { known })))
    }

    pass_on! {
        fn join(now: Timestamp) -> Joined;
        fn heartbeat(heartbeat: Heartbeat) -> Option<ClusterView>;
        fn take_over(epoch: i64, now: Timestamp) -> Option<usize>;
        fn claim_shards(most: usize) -> Vec<u8>;
        fn release_shards(shards: Vec<u8>) -> ();
        fn in_flight_elsewhere(endpoints: Vec<EndpointId>) -> Vec<EndpointId>;
        fn nodes() -> ClusterView;
        fn find_queues() -> Vec<(EndpointId, Timestamp)>;
        fn queues_with_due(queues: Vec<EndpointId>, now: Timestamp) -> Vec<EndpointId>;
        fn purge_deleted_apps() -> bool;
        fn overdue(search: OverdueSearch, keeps: Arc<dyn RetentionPolicy>, now: Timestamp) -> OverdueEvents;
        fn purge_records(before: Timestamp) -> PurgedRecords;
        fn usage() -> StorageUsage;
        fn record_key_uses(uses: Vec<(KeyId, Timestamp)>) -> ();
        fn running_replays() -> Vec<Replay>;
        fn endpoints_to_apply() -> Vec<EndpointId>;
        fn health_bootstrap(now: Timestamp) -> HealthBootstrap;
        fn roll_up(adjusted_time: Duration, now: Timestamp) -> RollupResult;
        fn sync_outage_clock(mine: OutageReport, now: Timestamp) -> OutageReport;
        fn degraded() -> Vec<EndpointId>;
        fn evaluate_health(candidates: Vec<HealthCandidate>, now: Timestamp) -> ();
    }
}

/// Records the endpoints that it is notified of.
#[derive(Default)]
struct RecordingPermits {
    changed: Mutex<Vec<EndpointId>>,
}

impl Permits for RecordingPermits {
    fn take(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn take_for_test(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn endpoint_changed(&self, endpoint: EndpointId) {
        self.changed.lock().unwrap().push(endpoint);
    }
    fn replays_changed(&self) {}
}

struct SecondNode {
    service: Arc<Service>,
    changes_store: Arc<ChangesStore>,
    node_state: Arc<NodeLease>,
    config_cache: Arc<ConfigCache>,
    permits: Arc<RecordingPermits>,
    following: AbortHandle,
}

impl Drop for SecondNode {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl SecondNode {
    async fn start(fixture: &Fixture) -> Self {
        let (node_state, config_cache) = (Arc::<NodeLease>::default(), Arc::<ConfigCache>::default());
        let changes_store =
            Arc::new(ChangesStore { store: fixture.store.clone(), changes: Mutex::default() });
        let builder = NodeBuilder {
            config_cache: config_cache.clone(),
            store: fixture.store.clone(),
            cluster: changes_store.clone(),
            node_state: node_state.clone(),
            clock: fixture.clock.clone(),
            ids: IdGenerator::new(1, 0),
        };
        let permits = Arc::<RecordingPermits>::default();
        let service = builder.service(permits.clone());
        service.load_config(Some("the key of the settings")).await.unwrap();
        let following = service.clone();
        let following =
            tokio::spawn(async move { following.sync_config(&Notify::new()).await }).abort_handle();
        Self { service, changes_store, node_state, config_cache, permits, following }
    }

    /// Makes these changes known and waits until they are followed, which takes up to a second.
    async fn apply(&self, fixture: &Fixture, changes: ConfigChanges) {
        let version = self.changes_store.changes.lock().unwrap().version + 1;
        *self.changes_store.changes.lock().unwrap() = ConfigChanges { version, ..changes };
        fixture.pass(Duration::from_millis(500)).await;
        assert_eq!(self.node_state.config_version(), version, "others may rely on it");
    }

    fn url(&self, uid: &str) -> Option<String> {
        let entry = self.service.app(ADMIN, "a").ok()?;
        entry.endpoint(uid).map(|endpoint| endpoint.record.settings.url.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_added_changed_and_removed_with_their_secrets_and_the_queues_are_notified() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    assert!(second.url("ep").is_some());
    let new =
        NewEndpoint { uid: Some("new".into()), url: "https://new.example/".into(), ..NewEndpoint::default() };
    let added = fixture.service.add_endpoint(ADMIN, &fixture.entry, new).await.unwrap();
    let endpoints = vec![added.id()];
    second.apply(&fixture, ConfigChanges { endpoints: endpoints.clone(), ..ConfigChanges::default() }).await;
    let entry = second.service.app(ADMIN, "a").unwrap();
    assert_eq!(entry.endpoint("new").unwrap().secrets[0].text, added.secrets[0].text);
    assert_eq!(*second.permits.changed.lock().unwrap(), endpoints);
    // Once more, as a node learns of a change of its own.
    second.apply(&fixture, ConfigChanges { endpoints: endpoints.clone(), ..ConfigChanges::default() }).await;
    assert_eq!(second.permits.changed.lock().unwrap().len(), 1, "which is no news");
    let patch = EndpointPatch { url: Some("https://other.example/".into()), ..EndpointPatch::default() };
    fixture.service.change_endpoint(ADMIN, &fixture.entry, "new", patch).await.unwrap();
    second.apply(&fixture, ConfigChanges { endpoints: endpoints.clone(), ..ConfigChanges::default() }).await;
    assert_eq!(second.url("new").as_deref(), Some("https://other.example/"));
    fixture.service.remove_endpoint(ADMIN, &fixture.entry, "new").await.unwrap();
    second.apply(&fixture, ConfigChanges { endpoints, ..ConfigChanges::default() }).await;
    assert_eq!(second.url("new"), None);
    assert_eq!(second.permits.changed.lock().unwrap().len(), 3);
}

/// Other nodes rely on this one not to send more than it may, even if it cannot use the endpoint otherwise.
#[tokio::test(start_paused = true)]
async fn the_limits_of_an_endpoint_hold_even_where_it_cannot_be_loaded() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    let id = fixture.entry.endpoint("ep").unwrap().id();
    let mut record = fixture.store.endpoint(id).await.unwrap().unwrap();
    record.settings.max_in_flight = Some(1);
    record.encrypted_headers = Some(b"sealed with a key that is not known here".to_vec());
    record.revision += 1;
    assert!(fixture.store.change_endpoint(record, None).await.unwrap());
    second.apply(&fixture, ConfigChanges { endpoints: vec![id], ..ConfigChanges::default() }).await;
    let endpoint = second.service.app(ADMIN, "a").unwrap().endpoint("ep").unwrap();
    assert_eq!(endpoint.record.settings.max_in_flight, Some(1));
    assert!(endpoint.signing_keys.is_some(), "and it is sent to as before");
    assert_eq!(*second.permits.changed.lock().unwrap(), [id]);
    let reasons = || second.service.readiness().reasons(fixture.clock.now());
    assert!(reasons().iter().any(|reason| reason.code == "differs"), "traffic is for others");
    fixture.service.remove_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    second.apply(&fixture, ConfigChanges { endpoints: vec![id], ..ConfigChanges::default() }).await;
    assert!(!reasons().iter().any(|reason| reason.code == "differs"));
}

/// As after a restore, or with a standby that had not got everything.
#[tokio::test(start_paused = true)]
async fn changes_that_the_store_lost_are_undone() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    let (id, stored) = (fixture.entry.endpoint("ep").unwrap().id(), second.url("ep"));
    let lose_two = || {
        let known = second.config_cache.endpoint(id).unwrap();
        let mut lost = Endpoint::clone(&known);
        lost.record.revision += 2;
        lost.record.settings.url = "https://lost.example/".into();
        assert!(second.config_cache.put_endpoint(Arc::new(lost)));
    };
    lose_two();
    second.apply(&fixture, ConfigChanges { endpoints: vec![id], ..ConfigChanges::default() }).await;
    assert_eq!(second.url("ep"), stored);
    assert_eq!(*second.permits.changed.lock().unwrap(), [id]);
    lose_two();
    let patch = EndpointPatch { url: Some("https://next.example/".into()), ..EndpointPatch::default() };
    let entry = second.service.app(ADMIN, "a").unwrap();
    second.service.change_endpoint(ADMIN, &entry, "ep", patch).await.unwrap();
    assert_eq!(
        second.url("ep").as_deref(),
        Some("https://next.example/"),
        "it is not looked for without end"
    );
}

#[tokio::test(start_paused = true)]
async fn another_contract_of_an_app_holds_for_its_endpoints_there_too() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    let overrides = json!({ "timeout": "7s" });
    let patch = AppPatch { overrides: Patch::Value(overrides), ..AppPatch::default() };
    fixture.service.change_app(ADMIN, "a", patch).await.unwrap();
    second
        .apply(&fixture, ConfigChanges { apps: vec![fixture.entry.app().id], ..ConfigChanges::default() })
        .await;
    let entry = second.service.app(ADMIN, "a").unwrap();
    assert_eq!(entry.endpoint("ep").unwrap().contract.timeout, Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn keys_and_event_types_come_and_go() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    let new = NewKey { scope: "app".into(), app: Some("a".into()), name: None, expires_at: None };
    let (key, _) = fixture.service.add_key(ADMIN, new).await.unwrap();
    let kind = fixture.service.add_event_type(ADMIN, "order.paid".into(), EventTypeDocument::default());
    // A payload function is tried on a thread of its own, which takes real time.
    tokio::time::resume();
    let event_types = vec![kind.await.unwrap().record.id];
    tokio::time::pause();
    let changes = ConfigChanges { keys: vec![key.id], event_types, ..ConfigChanges::default() };
    second.apply(&fixture, changes.clone()).await;
    let works = async |id| {
        second.service.keys(ADMIN, false, None, 100).await.unwrap().rows.iter().any(|key| key.id == id)
    };
    assert!(works(key.id).await && second.service.event_type("order.paid").is_ok());
    fixture.service.revoke_key(ADMIN, &key.id.to_string()).await.unwrap();
    fixture.service.remove_event_type(ADMIN, "order.paid").await.unwrap();
    second.apply(&fixture, changes).await;
    assert!(!works(key.id).await && second.service.event_type("order.paid").is_err());
    assert!(works(SETTINGS_KEY_ID).await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_far_behind_reads_everything_anew() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let second = SecondNode::start(&fixture).await;
    fixture.add_endpoint("new", None).await;
    fixture.service.remove_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    second.apply(&fixture, ConfigChanges { is_all: true, ..ConfigChanges::default() }).await;
    assert!(second.url("new").is_some() && second.url("ep").is_none());
    fixture.service.remove_app(ADMIN, "a").await.unwrap();
    second.apply(&fixture, ConfigChanges { is_all: true, ..ConfigChanges::default() }).await;
    assert!(second.service.app(ADMIN, "a").is_err());
    let keys = second.service.keys(ADMIN, false, None, 100).await.unwrap();
    assert!(keys.rows.iter().any(|key| key.id == SETTINGS_KEY_ID), "the key of the settings stays");
}
