//! A closed store and an engine without permits, for tests that need neither.

use super::{NodeInfo, Service, ServiceDeps, ServiceLimits};
use crate::{
    domain::{
        address_policy::AddressPolicy,
        api_key::ApiKey,
        app::App,
        audit::AuditEntry,
        cluster::OutageReport,
        contract::{Contract, ContractHash},
        encryption::Keyring,
        endpoint::EndpointRecord,
        event::{DedupKey, Event, Fingerprint},
        event_type::EventTypeRecord,
        id::{AppId, DeliveryId, EndpointId, EventId, EventTypeId, InspectionId, KeyId, NoticeId, ReplayId},
        inspection::{Inspection, InspectionReport},
        notice::Notice,
        ports::{LeasedDelivery, Permit, Permits},
        replay::{Replay, ReplayState},
        retention::RetentionPolicy,
        storage::StorageUsage,
        time::Timestamp,
    },
    runtime::{IdGenerator, NodeLease, SeededEntropy, SystemClock},
    store::{
        ClusterStore, ConfigStore, DeliveryStore, QueryStore, Reply, StoreError,
        audit::AuditFilter,
        cluster::{
            ClusterView, ConfigChanges, HealthBootstrap, HealthCandidate, Heartbeat, Joined, PurgedRecords,
            RollupResult,
        },
        config::{ConfigSnapshot, EndpointLabel, Inserted},
        deliveries::{
            Accepted, ActionResult, AdvanceRetries, AdvancedRetries, AvailabilityChange, DeliveryAction,
            DeliveryResult, InspectionRequested, LeaseRequest, LeaseResult, NewEvent,
        },
        inbox::{InboxBatch, InboxEvent},
        notices::{MailCursor, MailOutcome, NoticeBatch, NoticeFilter, NoticesWaiting},
        queries::{
            AttemptRow, Cursor, DeliveryListFilter, DeliveryRow, EventFilter, HealthReport, ObjectId, Owner,
            Page,
        },
        replays::{ReplayChanged, ReplayPage, SourceSearch, Sources},
        retention::{EventIdRanges, ExpireResult, OverdueEvents, OverdueSearch},
        statistics::{Statistics, StatisticsSearch},
    },
};
use std::{sync::Arc, time::Duration};

pub(crate) const ADMIN_KEY: &str = "an admin key for tests";

/// Returns a service with an admin key, on a closed store.
pub(crate) fn service() -> Service {
    let service = Service::new(ServiceDeps {
        config_cache: Arc::default(),
        delivery_store: Arc::new(ClosedStore),
        config_store: Arc::new(ClosedStore),
        query_store: Arc::new(ClosedStore),
        cluster_store: Arc::new(ClosedStore),
        node_state: Arc::new(NodeLease::single_node()),
        permits: Arc::new(ClosedStore),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SeededEntropy::new(1)),
        ids: IdGenerator::new(0, 0),
        contracts: Contract::builtin().unwrap(),
        keyring: Keyring::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap(),
        addresses: AddressPolicy::default(),
        limits: ServiceLimits::default(),
        node_info: NodeInfo::default(),
        metrics: Arc::default(),
        storage: Arc::default(),
        streams: Arc::default(),
    });
    service.config_cache.put_key(service.key_of_settings(ADMIN_KEY));
    service
}

struct ClosedStore;

fn closed<'a, T: Send + 'a>() -> Reply<'a, T> {
    Box::pin(async { Err(StoreError::Closed) })
}

/// Implements each method as `StoreError::Closed`.
macro_rules! all_closed {
    ($(fn $name:ident($($kind:ty),*) -> $answer:ty;)+) => {
        $(fn $name(&self, $(_: $kind),*) -> Reply<'_, $answer> {
            closed()
        })+
    };
}

impl ClusterStore for ClosedStore {
    all_closed! {
        fn join(Timestamp) -> Joined;
        fn heartbeat(Heartbeat) -> Option<ClusterView>;
        fn take_over(i64, Timestamp) -> Option<usize>;
        fn claim_shards(usize) -> Vec<u8>;
        fn release_shards(Vec<u8>) -> ();
        fn in_flight_elsewhere(Vec<EndpointId>) -> Vec<EndpointId>;
        fn changes(i64) -> ConfigChanges;
        fn nodes() -> ClusterView;
        fn find_queues() -> Vec<(EndpointId, Timestamp)>;
        fn queues_with_due(Vec<EndpointId>, Timestamp) -> Vec<EndpointId>;
        fn purge_deleted_apps() -> bool;
        fn overdue(OverdueSearch, Arc<dyn RetentionPolicy>, Timestamp) -> OverdueEvents;
        fn purge_records(Timestamp) -> PurgedRecords;
        fn usage() -> StorageUsage;
        fn record_key_uses(Vec<(KeyId, Timestamp)>) -> ();
        fn running_replays() -> Vec<Replay>;
        fn endpoints_to_apply() -> Vec<EndpointId>;
        fn health_bootstrap(Timestamp) -> HealthBootstrap;
        fn roll_up(Duration, Timestamp) -> RollupResult;
        fn sync_outage_clock(OutageReport, Timestamp) -> OutageReport;
        fn degraded() -> Vec<EndpointId>;
        fn evaluate_health(Vec<HealthCandidate>, Timestamp) -> ();
    }
}

impl Permits for ClosedStore {
    fn take(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn take_for_test(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn endpoint_changed(&self, _: EndpointId) {}
    fn replays_changed(&self) {}
}

impl DeliveryStore for ClosedStore {
    fn accept(&self, _: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        closed()
    }
    fn accept_inbox(&self, _: InboxBatch) -> Reply<'_, Vec<Accepted>> {
        closed()
    }
    fn record_result(&self, _: DeliveryResult) {}
    fn lease_due(&self, _: Vec<LeaseRequest>, _: Timestamp) -> Reply<'_, Vec<LeaseResult>> {
        closed()
    }
    fn release(&self, _: Vec<LeasedDelivery>, _: Timestamp) -> Reply<'_, ()> {
        closed()
    }
    fn advance_retries(&self, _: AdvanceRetries, _: Timestamp) -> Reply<'_, AdvancedRetries> {
        closed()
    }
    fn act(
        &self,
        _: AppId,
        _: DeliveryId,
        _: DeliveryAction,
        _: Timestamp,
        _: Option<AuditEntry>,
    ) -> Reply<'_, ActionResult> {
        closed()
    }
    fn apply_to_waiting(
        &self,
        _: EndpointId,
        _: AvailabilityChange,
        _: usize,
        _: Timestamp,
    ) -> Reply<'_, usize> {
        closed()
    }
    fn erase_data(&self, _: AppId, _: EventId, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn expire(&self, _: EventIdRanges, _: Arc<dyn RetentionPolicy>, _: Timestamp) -> Reply<'_, ExpireResult> {
        closed()
    }
    fn start_replay(&self, _: Replay, _: Option<AuditEntry>) -> Reply<'_, ()> {
        closed()
    }
    fn advance_replay(&self, _: ReplayPage, _: Timestamp) -> Reply<'_, Option<Replay>> {
        closed()
    }
    fn change_replay(
        &self,
        _: AppId,
        _: ReplayId,
        _: ReplayState,
        _: Timestamp,
        _: Option<AuditEntry>,
    ) -> Reply<'_, ReplayChanged> {
        closed()
    }
    fn request_inspection(&self, _: Inspection) -> Reply<'_, InspectionRequested> {
        closed()
    }
    fn start_next_inspection(&self, _: u32) -> Reply<'_, Option<Inspection>> {
        closed()
    }
    fn finish_inspection(
        &self,
        _: InspectionId,
        _: Option<InspectionReport>,
        _: Timestamp,
    ) -> Reply<'_, bool> {
        closed()
    }
    fn next_mail(&self, _: MailCursor, _: Timestamp) -> Reply<'_, NoticeBatch> {
        closed()
    }
    fn finish_mail(&self, _: AppId, _: NoticeId, _: MailOutcome, _: Timestamp) -> Reply<'_, ()> {
        closed()
    }
    fn close_digests(&self, _: Timestamp) -> Reply<'_, ()> {
        closed()
    }
    fn mark_notices_published(&self, _: Vec<NoticeId>) -> Reply<'_, ()> {
        closed()
    }
    fn flush(&self) -> Reply<'_, ()> {
        closed()
    }
}

impl ConfigStore for ClosedStore {
    fn config_snapshot(&self) -> Reply<'_, ConfigSnapshot> {
        closed()
    }
    fn add_app(&self, _: App, _: Option<AuditEntry>) -> Reply<'_, Inserted> {
        closed()
    }
    fn change_app(&self, _: App, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn remove_app(&self, _: AppId, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn add_endpoint(&self, _: EndpointRecord, _: Option<AuditEntry>) -> Reply<'_, Inserted> {
        closed()
    }
    fn change_endpoint(&self, _: EndpointRecord, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn change_endpoint_and_replay(
        &self,
        _: EndpointRecord,
        _: AuditEntry,
        _: Vec<(Replay, AuditEntry)>,
    ) -> Reply<'_, bool> {
        closed()
    }
    fn remove_endpoint(&self, _: EndpointId, _: Timestamp, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn app(&self, _: AppId) -> Reply<'_, Option<App>> {
        closed()
    }
    fn event_type(&self, _: EventTypeId) -> Reply<'_, Option<EventTypeRecord>> {
        closed()
    }
    fn endpoint(&self, _: EndpointId) -> Reply<'_, Option<EndpointRecord>> {
        closed()
    }
    fn endpoint_names(&self, _: Vec<EndpointId>) -> Reply<'_, Vec<EndpointLabel>> {
        closed()
    }
    fn key(&self, _: KeyId) -> Reply<'_, Option<ApiKey>> {
        closed()
    }
    fn keys(&self, _: KeyId, _: u32) -> Reply<'_, Vec<ApiKey>> {
        closed()
    }
    fn add_key(&self, _: ApiKey, _: Option<AuditEntry>) -> Reply<'_, Vec<KeyId>> {
        closed()
    }
    fn revoke_key(&self, _: KeyId, _: Timestamp, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn put_event_types(&self, _: Vec<(EventTypeRecord, Option<AuditEntry>)>) -> Reply<'_, bool> {
        closed()
    }
    fn remove_event_type(&self, _: EventTypeId, _: Option<AuditEntry>) -> Reply<'_, bool> {
        closed()
    }
    fn store_contract(&self, _: ContractHash, _: String) -> Reply<'_, ()> {
        closed()
    }
    fn contract(&self, _: ContractHash) -> Reply<'_, Option<String>> {
        closed()
    }
}

impl QueryStore for ClosedStore {
    fn find_event(&self, _: AppId, _: String, _: Option<EventId>) -> Reply<'_, Option<Event>> {
        closed()
    }
    fn find_duplicate(&self, _: Vec<DedupKey>, _: Fingerprint) -> Reply<'_, Accepted> {
        closed()
    }
    fn inbox_page(&self) -> Reply<'_, Option<Vec<InboxEvent>>> {
        closed()
    }
    fn events(&self, _: AppId, _: EventFilter, _: Option<Cursor>, _: u32) -> Reply<'_, Page<Event>> {
        closed()
    }
    fn deliveries_of(&self, _: EventId) -> Reply<'_, Vec<DeliveryRow>> {
        closed()
    }
    fn delivery(&self, _: AppId, _: DeliveryId) -> Reply<'_, Option<(DeliveryRow, Vec<AttemptRow>)>> {
        closed()
    }
    fn deliveries(
        &self,
        _: AppId,
        _: DeliveryListFilter,
        _: Option<Cursor>,
        _: u32,
    ) -> Reply<'_, Page<DeliveryRow>> {
        closed()
    }
    fn queue(&self, _: Vec<EndpointId>, _: Option<Cursor>, _: u32) -> Reply<'_, Page<DeliveryRow>> {
        closed()
    }
    fn dead_letters(
        &self,
        _: AppId,
        _: Option<EndpointId>,
        _: bool,
        _: Option<Cursor>,
        _: u32,
    ) -> Reply<'_, Page<DeliveryRow>> {
        closed()
    }
    fn count_sources(&self, _: SourceSearch) -> Reply<'_, Sources> {
        closed()
    }

    fn replay_sources(&self, _: SourceSearch, _: usize) -> Reply<'_, Sources> {
        closed()
    }
    fn replays(&self, _: AppId, _: Option<Cursor>, _: u32) -> Reply<'_, Page<Replay>> {
        closed()
    }
    fn replay(&self, _: AppId, _: ReplayId) -> Reply<'_, Option<Replay>> {
        closed()
    }
    fn audit(&self, _: AuditFilter, _: Option<Cursor>, _: u32) -> Reply<'_, Page<AuditEntry>> {
        closed()
    }
    fn inspections(&self, _: EndpointId, _: Option<Cursor>, _: u32) -> Reply<'_, Page<Inspection>> {
        closed()
    }
    fn inspection(&self, _: AppId, _: InspectionId) -> Reply<'_, Option<Inspection>> {
        closed()
    }
    fn health(&self, _: AppId, _: EndpointId, _: Timestamp) -> Reply<'_, HealthReport> {
        closed()
    }
    fn unhealthy_endpoints(&self, _: AppId) -> Reply<'_, Vec<EndpointId>> {
        closed()
    }
    fn recent_attempts(&self, _: AppId, _: EndpointId, _: usize) -> Reply<'_, Vec<(DeliveryId, AttemptRow)>> {
        closed()
    }
    fn owner(&self, _: ObjectId) -> Reply<'_, Option<Owner>> {
        closed()
    }
    fn events_by_dedup_key(&self, _: Vec<DedupKey>) -> Reply<'_, Vec<(EventId, AppId)>> {
        closed()
    }
    fn notices(&self, _: NoticeFilter, _: Option<Cursor>, _: u32) -> Reply<'_, Page<Notice>> {
        closed()
    }
    fn notice(&self, _: AppId, _: NoticeId) -> Reply<'_, Option<Notice>> {
        closed()
    }
    fn unpublished_notices(&self, _: usize) -> Reply<'_, NoticeBatch> {
        closed()
    }
    fn notices_waiting(&self) -> Reply<'_, NoticesWaiting> {
        closed()
    }
    fn statistics(&self, _: StatisticsSearch) -> Reply<'_, Statistics> {
        closed()
    }
    fn waiting_count(&self) -> Reply<'_, u64> {
        closed()
    }
}
