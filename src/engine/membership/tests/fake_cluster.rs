//! Nodes on one store in memory, in virtual time. Each reaches it over a link that a test can cut or slow down.

use crate::{
    domain::{
        delivery::Delivery,
        endpoint::{Disabled, Endpoint},
        event::{BodyCache, Event, Fingerprint},
        health::HealthSample,
        id::{DeliveryId, EndpointId, EventId, IdGenerator},
        live_update::{LiveUpdate, UpdateSink},
        outcome::{Attempt, Outcome, OutcomeClass},
        ports::{CommitListener, LeasedDelivery, Permit, PermitSource},
        storage::StorageUsage,
        time::Timestamp,
        verdict::{DueAction, Verdict},
    },
    runtime::{Clock, VirtualClock},
    store::{
        CommitObservers, CommitWatch, Reply, Store, StoreError,
        backend::{Backend, Command, MembershipBackend, ReadJob, Readers},
        cluster::{ClusterView, Heartbeat, Joined},
        deliveries::{DeliveryResult, NewDelivery, NewEvent},
        sqlite::{CommitResult, QueueLimits, SharedFile, SimCommitLoop, SimNode},
    },
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

const QUEUE_LIMITS: QueueLimits = QueueLimits { events_max: 100, bytes_max: 1 << 20 };

/// The store that the nodes share, and the time of all of them.
pub(super) struct FakeCluster {
    pub(super) clock: Arc<VirtualClock>,
    file: Arc<SharedFile>,
}

impl FakeCluster {
    pub(super) fn new() -> Arc<Self> {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let of_store = clock.clone();
        let file = SharedFile::new(Arc::new(move || of_store.now())).unwrap();
        Arc::new(Self { clock, file })
    }
}

/// The store as one node reaches it, and as it is reached without the link.
pub(super) struct FakeNode {
    pub(super) store: Store,
    pub(super) direct: Store,
    pub(super) link: Arc<Link>,
    observer: Arc<Observer>,
    committing: AbortHandle,
}

/// The link between a node and the store.
#[derive(Default)]
pub(super) struct Link {
    /// In both directions.
    pub(super) is_cut: AtomicBool,
    /// How long answers are on their way.
    pub(super) delay_ms: AtomicU64,
    /// Commands that never arrive.
    lost: Mutex<Vec<Box<dyn Command>>>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.committing.abort();
    }
}

impl FakeNode {
    pub(super) fn to(cluster: &FakeCluster) -> Self {
        let (observer, link, notify) =
            (Arc::<Observer>::default(), Arc::<Link>::default(), Arc::<Notify>::default());
        let to_wake = notify.clone();
        let observers = CommitObservers {
            engine: observer.clone(),
            live_updates: observer.clone(),
            watch: observer.clone(),
        };
        let wake = Box::new(move || to_wake.notify_one());
        let (direct, writer) = SimNode::enter(&cluster.file, observers, QUEUE_LIMITS, wake).unwrap();
        let committing = tokio::spawn(commit_all(writer, notify)).abort_handle();
        let node = direct.backend().clone();
        let store = Store::new(Arc::new(LinkedBackend { node, link: link.clone() }));
        Self { store, direct, link, observer, committing }
    }

    pub(super) async fn view(&self) -> ClusterView {
        self.direct.nodes().await.unwrap()
    }

    pub(super) async fn shards_of(&self, epoch: i64) -> usize {
        self.view().await.shards.iter().filter(|owner| **owner == epoch).count()
    }

    /// Stores the endpoint, which makes a new version of the configuration.
    pub(super) async fn add(&self, endpoint: &Endpoint) {
        self.direct.add_endpoint(endpoint.record.clone(), None).await.unwrap();
    }

    /// Has so many deliveries to the endpoint in flight.
    pub(super) async fn lease(&self, endpoint: &Endpoint, count: u32, ids: &IdGenerator, now: Timestamp) {
        let first = ids.next_range(now, count + 1);
        let event = Event {
            id: EventId::from_i64(first),
            app: endpoint.record.app,
            external_id: None,
            event_type: "a".into(),
            created_at: now,
            accepted_at: now,
            data: "{}".into(),
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
            body_cache: BodyCache::default(),
        };
        let deliveries = (1..=i64::from(count)).map(|number| {
            let id = DeliveryId::from_i64(first + number);
            let mut delivery = Delivery::new(id, event.app, event.id, endpoint.id(), now, None);
            delivery.start_in_flight();
            NewDelivery { delivery, permit: Some(Permit::new(self.observer.clone(), 0)) }
        });
        let deliveries = deliveries.collect();
        let new =
            NewEvent { event: Arc::new(event), deliveries, dedup: vec![], fingerprint: Fingerprint([0; 16]) };
        self.direct.accept(vec![new]).await.unwrap();
        self.direct.flush().await.unwrap();
        assert_eq!(self.observer.leased.lock().unwrap().len(), count as usize);
    }

    /// Releases everything in flight.
    pub(super) async fn release(&self, now: Timestamp) {
        let leased = std::mem::take(&mut *self.observer.leased.lock().unwrap());
        self.direct.release(leased, now).await.unwrap();
    }

    /// Records that every delivery in flight failed.
    pub(super) async fn fail_all(&self, endpoint: &Endpoint, now: Timestamp) {
        for leased in std::mem::take(&mut *self.observer.leased.lock().unwrap()) {
            let attempt = Attempt {
                started_at: now,
                outcome: Outcome::failed(OutcomeClass::Connect, "refused"),
                contract: endpoint.contract_hash,
                endpoint_revision: 1,
                url: None,
                note: None,
            };
            self.direct.record_result(DeliveryResult {
                leased,
                attempts: vec![attempt],
                verdict: Verdict::Retry { due: now.plus(Duration::from_hours(1)), then: DueAction::Attempt },
                disable: None,
                health_sample: Some(HealthSample { adjusted_time: Duration::ZERO, paused: None }),
                ended_at: now,
                contract: Some(endpoint.contract.clone()),
            });
        }
        self.direct.flush().await.unwrap();
    }
}

async fn commit_all(mut writer: SimCommitLoop, notify: Arc<Notify>) {
    loop {
        notify.notified().await;
        while let CommitResult::Committed(_) = writer.commit_next() {
            tokio::task::yield_now().await;
        }
    }
}

struct LinkedBackend {
    node: Arc<dyn Backend>,
    link: Arc<Link>,
}

impl LinkedBackend {
    /// Calls the node, unless the link is cut: then there is never an answer.
    fn over_link<T: Send + 'static>(&self, call: impl FnOnce(&dyn Backend) -> Reply<T>) -> Reply<T> {
        if self.link.is_cut.load(SeqCst) {
            return Box::pin(std::future::pending());
        }
        let (answer, link) = (call(&*self.node), self.link.clone());
        Box::pin(async move {
            let answer = answer.await;
            let delay = link.delay_ms.load(SeqCst);
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            answer
        })
    }

    fn as_member<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn MembershipBackend) -> Reply<T>,
    ) -> Reply<T> {
        self.over_link(|node| match node.membership() {
            Some(membership) => call(membership),
            None => Box::pin(async { Err(StoreError::Closed) }),
        })
    }
}

impl Backend for LinkedBackend {
    fn submit(&self, command: Box<dyn Command>) {
        if self.link.is_cut.load(SeqCst) {
            return self.link.lost.lock().unwrap().push(command);
        }
        self.node.submit(command);
    }

    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize) {
        self.node.submit_accept(command, events, bytes);
    }

    fn run_read(&self, readers: Readers, job: ReadJob) -> Reply<()> {
        self.over_link(|node| node.run_read(readers, job))
    }

    fn membership(&self) -> Option<&dyn MembershipBackend> {
        Some(self)
    }

    fn measure(&self) -> Reply<StorageUsage> {
        self.over_link(|node| node.measure())
    }

    fn close(&self) {
        self.node.close();
    }
}

impl MembershipBackend for LinkedBackend {
    fn join(&self, now: Timestamp) -> Reply<Joined> {
        self.as_member(|membership| membership.join(now))
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<Option<ClusterView>> {
        self.as_member(|membership| membership.heartbeat(heartbeat))
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<Option<usize>> {
        self.as_member(|membership| membership.take_over(epoch, now))
    }

    fn nodes(&self) -> Reply<ClusterView> {
        self.as_member(|membership| membership.nodes())
    }

    fn epoch(&self) -> i64 {
        self.node.membership().map_or(0, MembershipBackend::epoch)
    }
}

/// Keeps the deliveries that the store passes on.
#[derive(Default)]
struct Observer {
    leased: Mutex<Vec<LeasedDelivery>>,
}

impl CommitListener for Observer {
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>) {
        self.leased.lock().unwrap().extend(leased);
    }
    fn delivery_waiting(&self, _: EndpointId, _: Timestamp) {}
    fn endpoint_disabled(&self, _: EndpointId, _: Disabled, _: u32) {}
    fn inspection_waiting(&self) {}
    fn notice_waiting(&self) {}
}

impl UpdateSink for Observer {
    fn has_subscribers(&self) -> bool {
        false
    }
    fn publish(&self, _: LiveUpdate) {}
}

impl CommitWatch for Observer {
    fn started(&self) -> u64 {
        0
    }
    fn committed(&self, _: u64, _: usize) {}
}

impl PermitSource for Observer {
    fn release(&self, _: usize) {}
    fn add_bytes(&self, _: usize) {}
}
