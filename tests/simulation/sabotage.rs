//! Ways to break the product on purpose, so that the checker can prove that it notices. `None` in all honest runs.

use crate::{event_log::ProcessEnd, network::FakeHttpSender, process::Process};
use posthaste::{
    domain::{
        audit::AuditEntry,
        endpoint::{Disabled, DisabledBy, DisabledReason},
        id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
        inspection::{Inspection, InspectionReport},
        ports::{CommitListener, LeasedDelivery},
        replay::{Replay, ReplayState},
        retention::RetentionPolicy,
        time::Timestamp,
        verdict::Verdict,
    },
    engine::{EndpointQueues, SharedLimits},
    outbound::{HttpSender, OutboundRequest, SendFuture},
    store::{
        DeliveryStore, Reply, StoreError,
        cluster::Joined,
        deliveries::{
            Accepted, ActionResult, AdvanceRetries, AdvancedRetries, AvailabilityChange, DeliveryAction,
            DeliveryResult, InspectionRequested, LeaseRequest, LeaseResult, NewEvent,
        },
        inbox::InboxBatch,
        notices::{MailCursor, MailOutcome, NoticeBatch},
        replays::{ReplayChanged, ReplayPage, ReplaySource},
        retention::{EventIdRanges, ExpireResult},
        sqlite::SqliteStore,
    },
};
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
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
    /// A replay does each of its pages a second time.
    TakeTwice,
    /// Records are removed two days early.
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

    pub(crate) fn delivery_store(&self, store: Arc<SqliteStore>) -> Arc<dyn DeliveryStore> {
        match self {
            Self::ShiftWaits(shift_ms) => {
                Arc::new(SabotagedStore { shift_ms: *shift_ms, ..SabotagedStore::on(store) })
            }
            Self::ForgetSuccess => Arc::new(SabotagedStore { forgets: true, ..SabotagedStore::on(store) }),
            Self::ApplyHastily => Arc::new(SabotagedStore { is_hasty: true, ..SabotagedStore::on(store) }),
            Self::ForgetFailures => {
                Arc::new(SabotagedStore { is_lenient: true, ..SabotagedStore::on(store) })
            }
            Self::TakeTwice => Arc::new(SabotagedStore { takes_twice: true, ..SabotagedStore::on(store) }),
            Self::ExpireEarly => Arc::new(SabotagedStore {
                expires_early: Duration::from_hours(48),
                ..SabotagedStore::on(store)
            }),
            _ => store,
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

/// Passes everything on, and bends some verdicts.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
struct SabotagedStore {
    store: Arc<SqliteStore>,
    shift_ms: i64,
    forgets: bool,
    is_hasty: bool,
    is_lenient: bool,
    takes_twice: bool,
    expires_early: Duration,
}

impl SabotagedStore {
    fn on(store: Arc<SqliteStore>) -> Self {
        Self {
            store,
            shift_ms: 0,
            forgets: false,
            is_hasty: false,
            is_lenient: false,
            takes_twice: false,
            expires_early: Duration::ZERO,
        }
    }

    async fn proceed_twice(&self, page: ReplayPage, now: Timestamp) -> Result<Option<Replay>, StoreError> {
        let first = ReplayPage { is_last: false, ..page.clone() };
        let Some(replay) = self.store.advance_replay(first, now).await? else { return Ok(None) };
        let again = |source: &ReplaySource| ReplaySource {
            new_id: DeliveryId::from_i64(source.new_id.as_i64() + 1000),
            ..*source
        };
        let sources = page.sources.iter().map(again).collect();
        self.store.advance_replay(ReplayPage { after_id: replay.reached, sources, ..page }, now).await
    }

    fn sabotage_verdict(&self, record: &mut DeliveryResult) {
        if let (true, Verdict::Retry { .. }, Some(_), Some(contract)) =
            (self.is_hasty, record.verdict, &record.health_sample, &record.contract)
        {
            let health = &contract.health;
            record.disable = Some(Disabled {
                reason: DisabledReason::Rule(health.off_reason.clone()),
                at: record.ended_at,
                waiting: contract.off.waiting,
                by: Some(DisabledBy::Posthaste),
            });
        }
        record.health_sample.take_if(|_| self.is_lenient && record.verdict != Verdict::Delivered);
        match &mut record.verdict {
            Verdict::Retry { due, .. } => *due = Timestamp::from_millis(due.as_millis() + self.shift_ms),
            // Once: a repeated attempt has no number, but it is in the history.
            Verdict::Delivered if self.forgets && record.leased.delivery.history_len == 0 => {
                record.verdict = Verdict::RetryUncounted { due: record.ended_at };
            }
            _ => {}
        }
    }
}

impl DeliveryStore for SabotagedStore {
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        self.store.accept(events)
    }

    fn accept_inbox(&self, intake: InboxBatch) -> Reply<'_, Vec<Accepted>> {
        self.store.accept_inbox(intake)
    }

    fn record_result(&self, mut record: DeliveryResult) {
        self.sabotage_verdict(&mut record);
        self.store.record_result(record);
    }

    fn lease_due(&self, requests: Vec<LeaseRequest>, now: Timestamp) -> Reply<'_, Vec<LeaseResult>> {
        self.store.lease_due(requests, now)
    }

    fn release(&self, leased: Vec<LeasedDelivery>, now: Timestamp) -> Reply<'_, ()> {
        self.store.release(leased, now)
    }

    fn advance_retries(&self, recovery: AdvanceRetries, now: Timestamp) -> Reply<'_, AdvancedRetries> {
        self.store.advance_retries(recovery, now)
    }

    fn act(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: DeliveryAction,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ActionResult> {
        self.store.act(app, delivery, ask, now, entry)
    }

    fn apply_to_waiting(
        &self,
        endpoint: EndpointId,
        settle: AvailabilityChange,
        most: usize,
        now: Timestamp,
    ) -> Reply<'_, usize> {
        self.store.apply_to_waiting(endpoint, settle, most, now)
    }

    fn erase_data(&self, app: AppId, event: EventId, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.store.erase_data(app, event, entry)
    }

    fn expire(
        &self,
        ranges: EventIdRanges,
        keeps: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<'_, ExpireResult> {
        self.store.expire(ranges, keeps, now.plus(self.expires_early))
    }

    fn start_replay(&self, replay: Replay, entry: Option<AuditEntry>) -> Reply<'_, ()> {
        self.store.start_replay(replay, entry)
    }

    fn advance_replay(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>> {
        if self.takes_twice {
            return Box::pin(self.proceed_twice(page, now));
        }
        self.store.advance_replay(page, now)
    }

    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ReplayChanged> {
        self.store.change_replay(app, replay, to, now, entry)
    }
    fn request_inspection(&self, inspection: Inspection) -> Reply<'_, InspectionRequested> {
        self.store.request_inspection(inspection)
    }

    fn start_next_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>> {
        self.store.start_next_inspection(per_app_max)
    }

    fn finish_inspection(
        &self,
        id: InspectionId,
        report: Option<InspectionReport>,
        now: Timestamp,
    ) -> Reply<'_, bool> {
        self.store.finish_inspection(id, report, now)
    }

    fn next_mail(&self, cursor: MailCursor, now: Timestamp) -> Reply<'_, NoticeBatch> {
        self.store.next_mail(cursor, now)
    }

    fn finish_mail(&self, app: AppId, first: NoticeId, end: MailOutcome, now: Timestamp) -> Reply<'_, ()> {
        self.store.finish_mail(app, first, end, now)
    }

    fn close_digests(&self, now: Timestamp) -> Reply<'_, ()> {
        self.store.close_digests(now)
    }

    fn mark_notices_published(&self, notices: Vec<NoticeId>) -> Reply<'_, ()> {
        self.store.mark_notices_published(notices)
    }

    fn flush(&self) -> Reply<'_, ()> {
        self.store.flush()
    }
}
