//! Ways to break the product on purpose, so that the checker can prove that it notices. `None` in all honest runs.

use crate::{
    event_log::ProcessEnd,
    network::FakeHttpSender,
    plan::{DAY, MINUTE, RetentionPlan},
    process::Process,
};
use posthaste::{
    domain::{
        endpoint::{Disabled, DisabledBy, DisabledReason},
        id::EndpointId,
        ports::{CommitListener, LeasedDelivery},
        storage::StorageUsage,
        time::Timestamp,
        verdict::Verdict,
    },
    engine::{EndpointQueues, SharedLimits},
    outbound::{HttpSender, OutboundRequest, SendFuture},
    store::{
        Reply, Store,
        backend::{Backend, BulkOp, Command, ReadJob, Readers},
        cluster::Joined,
        deliveries::DeliveryResult,
    },
};
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

#[derive(Debug, Default)]
pub(crate) enum Sabotage {
    #[default]
    None,
    /// A kill takes the last commits with it, although they were answered: a disk that lies about its flushes.
    LoseCommits(Snapshots),
    /// Deliveries that a dead process had leased are not taken over.
    SkipTakeover,
    /// Every request is sent twice and recorded once.
    PostTwice,
    /// Waits are longer or shorter than the contract says.
    ShiftWaits(i64),
    /// The engine is not notified of what waits in the store.
    LoseHints,
    /// The success of a first attempt is not believed: there will be a second.
    ForgetSuccess,
    /// The first failure switches its endpoint off.
    ApplyHastily,
    /// No failure counts for an endpoint's health.
    ForgetFailures,
    /// A replay makes each of its deliveries twice.
    TakeTwice,
    /// Records are removed up to two days early.
    ExpireEarly,
    /// A waiting delivery is removed without a notice.
    DropWaiting,
    /// A delivery that waits behind others is released before its turn.
    StepUpEarly,
    /// A delivery whose turn has come is queued again behind none.
    StayBehind,
    /// Rates and limits of the plan are not set.
    LiftLimits,
    /// Later retries are brought forward although no endpoint has recovered, without a note.
    Impatient,
}

/// Copies of the disk before its last few commits.
#[derive(Debug)]
pub(crate) struct Snapshots {
    folder: TempDir,
    taken: Mutex<(u32, VecDeque<u32>)>,
}

const SNAPSHOTS_KEPT: usize = 2;
/// A copy costs more than a commit.
const COMMITS_PER_SNAPSHOT: u32 = 3;

impl Snapshots {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), taken: Mutex::default() }
    }

    fn path(&self, number: u32) -> String {
        self.folder.path().join(number.to_string()).display().to_string()
    }

    fn take(&self, disk: &Connection) {
        let mut taken = self.taken.lock().unwrap();
        taken.0 += 1;
        let number = taken.0;
        if !number.is_multiple_of(COMMITS_PER_SNAPSHOT) {
            return;
        }
        disk.execute("VACUUM INTO ?1", [self.path(number)]).unwrap();
        taken.1.push_back(number);
        if taken.1.len() > SNAPSHOTS_KEPT {
            let oldest = taken.1.pop_front().unwrap();
            std::fs::remove_file(self.path(oldest)).unwrap();
        }
    }

    fn oldest(&self) -> Option<Connection> {
        let oldest = *self.taken.lock().unwrap().1.front()?;
        let disk = Connection::open(self.path(oldest)).unwrap();
        disk.pragma_update(None, "synchronous", "OFF").unwrap();
        disk.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(())).unwrap();
        self.taken.lock().unwrap().1.clear();
        Some(disk)
    }
}

impl Sabotage {
    pub(crate) fn before_commit(&self, disk: &Connection) {
        match self {
            Self::LoseCommits(snapshots) => snapshots.take(disk),
            Self::Impatient => {
                let sql = "UPDATE deliveries SET due = due - 3000 WHERE state = 1 AND due_action = 0 AND id % 3 = 0 AND due % 2 = 0";
                let _ = disk.execute(sql, []);
            }
            Self::DropWaiting => {
                let sql = "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE state IN (1, 3) LIMIT 1)";
                // A disk in trouble refuses this like any other write.
                let _ = disk.execute(sql, []);
            }
            Self::StepUpEarly => {
                let sql =
                    "UPDATE deliveries SET ordering_key = NULL, order_seq = NULL, due = (SELECT at FROM archive_clock) WHERE id IN
                    (SELECT id FROM deliveries WHERE due = 253402300799000 LIMIT 1)";
                let _ = disk.execute(sql, []);
            }
            Self::StayBehind => {
                let sql = "UPDATE deliveries SET due = 253402300799000, order_seq = 1 WHERE id IN
                    (SELECT id FROM deliveries WHERE ordering_key IS NOT NULL AND state = 0 AND return_to IS NULL LIMIT 1)";
                let _ = disk.execute(sql, []);
            }
            _ => {}
        }
    }

    /// Prepares the file of a new process.
    pub(crate) fn prepare(&self, disk: &Connection) {
        let Self::TakeTwice = self else { return };
        disk.execute_batch(
            "CREATE TABLE IF NOT EXISTS taken_twice AS SELECT * FROM deliveries WHERE false;
             CREATE TRIGGER IF NOT EXISTS take_twice AFTER INSERT ON deliveries WHEN new.replay_of IS NOT NULL BEGIN
                 DELETE FROM taken_twice;
                 INSERT INTO taken_twice SELECT * FROM deliveries WHERE id = new.id;
                 UPDATE taken_twice SET id = id + 1000;
                 INSERT INTO deliveries SELECT * FROM taken_twice;
             END;",
        )
        .unwrap();
    }

    pub(crate) fn lifts_limits(&self) -> bool {
        matches!(self, Self::LiftLimits)
    }

    pub(crate) fn ceilings(&self, planned: SharedLimits) -> SharedLimits {
        if self.lifts_limits() { SharedLimits::default() } else { planned }
    }

    /// Returns the disk as the end of a process leaves it.
    pub(crate) fn at_end(&self, disk: Option<Connection>, ending: ProcessEnd) -> Option<Connection> {
        match self {
            Self::LoseCommits(snapshots) if ending == ProcessEnd::Killed => snapshots.oldest().or(disk),
            _ => disk,
        }
    }

    pub(crate) fn join(&self, process: &Process) -> Option<Joined> {
        let Self::SkipTakeover = self else { return None };
        let newest = "SELECT max(ifnull((SELECT max(id) FROM events), 0), ifnull((SELECT max(id) FROM deliveries), 0),
                             ifnull((SELECT max(id) FROM endpoints), 0), ifnull((SELECT max(id) FROM apps), 0))";
        let newest_id = process.with_disk(|disk| disk.query_row(newest, [], |row| row.get(0)).unwrap())?;
        Some(Joined { slot: 0, epoch: 0, is_alone: true, newest_id, taken_over: 0 })
    }

    /// Returns the store as the engine gets it.
    pub(crate) fn store(&self, store: &Store) -> Store {
        let bend: Box<dyn Fn(&mut DeliveryResult) + Send + Sync> = match *self {
            Self::ShiftWaits(shift_ms) => Box::new(move |result| {
                if let Verdict::Retry { due, .. } = &mut result.verdict {
                    *due = Timestamp::from_millis(due.as_millis() + shift_ms);
                }
            }),
            // Once: a repeated attempt has no number, but it is in the history.
            Self::ForgetSuccess => Box::new(|result| {
                if result.verdict == Verdict::Delivered && result.leased.delivery.history_len == 0 {
                    result.verdict = Verdict::RetryUncounted { due: result.ended_at };
                }
            }),
            Self::ApplyHastily => Box::new(disable_hastily),
            Self::ForgetFailures => Box::new(|result| {
                result.health_sample.take_if(|_| result.verdict != Verdict::Delivered);
            }),
            _ => return store.clone(),
        };
        Store::new(Arc::new(SabotagedBackend { backend: store.backend().clone(), bend }))
    }

    /// Returns how long records are kept.
    pub(crate) fn retention(&self, planned: RetentionPlan) -> RetentionPlan {
        let Self::ExpireEarly = self else { return planned };
        let earlier = |kept: i64| (kept - 2 * DAY).max(MINUTE);
        RetentionPlan {
            events: earlier(planned.events),
            attempts: earlier(planned.attempts),
            payloads: earlier(planned.payloads),
            dead_letters: planned.dead_letters.map(earlier),
            ..planned
        }
    }

    pub(crate) fn http_sender(&self, http_sender: Arc<FakeHttpSender>) -> Arc<dyn HttpSender> {
        match self {
            Self::PostTwice => Arc::new(DoublingSender(http_sender)),
            _ => http_sender,
        }
    }

    pub(crate) fn commit_listener(&self, queues: Arc<EndpointQueues>) -> Arc<dyn CommitListener> {
        match self {
            Self::LoseHints => Arc::new(SilentListener(queues)),
            _ => queues,
        }
    }
}

struct DoublingSender(Arc<FakeHttpSender>);

impl HttpSender for DoublingSender {
    fn post(&self, request: OutboundRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let _ = self.0.post(request.clone()).await;
            self.0.post(request).await
        })
    }

    fn get(&self, request: OutboundRequest) -> SendFuture<'_> {
        self.0.get(request)
    }
}

struct SilentListener(Arc<EndpointQueues>);

impl CommitListener for SilentListener {
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>) {
        self.0.deliveries_leased(leased);
    }

    fn delivery_waiting(&self, _: EndpointId, _: Timestamp) {}

    fn endpoint_disabled(&self, endpoint: EndpointId, off: Disabled, revision: u32) {
        self.0.endpoint_disabled(endpoint, off, revision);
    }

    fn inspection_waiting(&self) {
        self.0.inspection_waiting();
    }

    fn notice_waiting(&self) {
        self.0.notice_waiting();
    }
}

/// Changes the results that are recorded, and passes everything else on.
struct SabotagedBackend {
    backend: Arc<dyn Backend>,
    bend: Box<dyn Fn(&mut DeliveryResult) + Send + Sync>,
}

impl Backend for SabotagedBackend {
    fn submit(&self, mut command: Box<dyn Command>) {
        if let BulkOp::Record(recording) = command.bulk_op() {
            (self.bend)(&mut recording.record);
        }
        self.backend.submit(command);
    }

    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize) {
        self.backend.submit_accept(command, events, bytes);
    }

    fn run_read(&self, readers: Readers, job: ReadJob) -> Reply<()> {
        self.backend.run_read(readers, job)
    }

    fn measure(&self) -> Reply<StorageUsage> {
        self.backend.measure()
    }

    fn close(&self) {
        self.backend.close();
    }
}

fn disable_hastily(result: &mut DeliveryResult) {
    if let (Verdict::Retry { .. }, Some(_), Some(contract)) =
        (result.verdict, &result.health_sample, &result.contract)
    {
        result.disable = Some(Disabled {
            reason: DisabledReason::Rule(contract.health.off_reason.clone()),
            at: result.ended_at,
            waiting: contract.off.waiting,
            by: Some(DisabledBy::Posthaste),
        });
    }
}
