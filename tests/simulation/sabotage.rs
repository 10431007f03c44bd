//! Ways to break the product on purpose, so that the checker can prove that it notices. `None` in all honest runs.

use crate::{event_log::ProcessEnd, network::FakeHttpSender, process::Process};
use posthaste::{
    domain::{
        audit::Entry,
        endpoint::{OffReason, SwitchedBy, SwitchedOff},
        id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
        inspection::{Inspection, Report},
        port::{Carried, Handover},
        replay::{Replay, ReplayState},
        retention::Keeps,
        time::Timestamp,
        verdict::Verdict,
    },
    engine::{EndpointQueues, SharedLimits},
    outbound::{HttpSender, OutboundRequest, SendFuture},
    store::{
        Ledger, Reply, StoreError,
        cluster::Joined,
        inbox::Intake,
        ledger::{
            Accepted, Ask, Asked, BroughtForward, NewEvent, Ordered, Record, Recovery, Refilled, Settle, Want,
        },
        notices::{MailEnd, MailTurn, Outgoing},
        replays::{ReplayChanged, ReplayPage, Source},
        retention::{Expired, Ranges},
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
    SwitchHastily,
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

    pub(crate) fn ledger(&self, store: Arc<SqliteStore>) -> Arc<dyn Ledger> {
        match self {
            Self::ShiftWaits(shift_ms) => {
                Arc::new(SabotagedStore { shift_ms: *shift_ms, ..SabotagedStore::on(store) })
            }
            Self::ForgetSuccess => Arc::new(SabotagedStore { forgets: true, ..SabotagedStore::on(store) }),
            Self::SwitchHastily => Arc::new(SabotagedStore { is_hasty: true, ..SabotagedStore::on(store) }),
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

    pub(crate) fn carrier(&self, line: Arc<FakeHttpSender>) -> Arc<dyn HttpSender> {
        match self {
            Self::PostTwice => Arc::new(DoublingSender(line)),
            _ => line,
        }
    }

    pub(crate) fn handover(&self, lanes: Arc<EndpointQueues>) -> Arc<dyn Handover> {
        match self {
            Self::LoseHints => Arc::new(SilentListener(lanes)),
            _ => lanes,
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

impl Handover for SilentListener {
    fn carry(&self, carried: Vec<Carried>) {
        self.0.carry(carried);
    }

    fn waiting(&self, _: EndpointId, _: Timestamp) {}

    fn switched_off(&self, endpoint: EndpointId, off: SwitchedOff, revision: u32) {
        self.0.switched_off(endpoint, off, revision);
    }

    fn inspections_wait(&self) {
        self.0.inspections_wait();
    }

    fn notices_wait(&self) {
        self.0.notices_wait();
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
        let Some(replay) = self.store.proceed(first, now).await? else { return Ok(None) };
        let again = |source: &Source| Source {
            as_new: DeliveryId::from_i64(source.as_new.as_i64() + 1000),
            ..*source
        };
        let sources = page.sources.iter().map(again).collect();
        self.store.proceed(ReplayPage { after_id: replay.reached, sources, ..page }, now).await
    }

    fn sabotage_verdict(&self, record: &mut Record) {
        if let (true, Verdict::Retry { .. }, Some(_), Some(contract)) =
            (self.is_hasty, record.verdict, &record.sighting, &record.contract)
        {
            let health = &contract.health;
            record.switch_off = Some(SwitchedOff {
                reason: OffReason::Rule(health.off_reason.clone()),
                at: record.ended_at,
                waiting: contract.off.waiting,
                by: Some(SwitchedBy::Posthaste),
            });
        }
        record.sighting.take_if(|_| self.is_lenient && record.verdict != Verdict::Delivered);
        match &mut record.verdict {
            Verdict::Retry { due, .. } => *due = Timestamp::from_millis(due.as_millis() + self.shift_ms),
            // Once: a repeated attempt has no number, but it is in the history.
            Verdict::Delivered if self.forgets && record.carried.delivery.history_len == 0 => {
                record.verdict = Verdict::Again { due: record.ended_at };
            }
            _ => {}
        }
    }
}

impl Ledger for SabotagedStore {
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        self.store.accept(events)
    }

    fn take_in(&self, intake: Intake) -> Reply<'_, Vec<Accepted>> {
        self.store.take_in(intake)
    }

    fn record(&self, mut record: Record) {
        self.sabotage_verdict(&mut record);
        self.store.record(record);
    }

    fn refill(&self, wants: Vec<Want>, now: Timestamp) -> Reply<'_, Vec<Refilled>> {
        self.store.refill(wants, now)
    }

    fn hand_back(&self, carried: Vec<Carried>, now: Timestamp) -> Reply<'_, ()> {
        self.store.hand_back(carried, now)
    }

    fn bring_forward(&self, recovery: Recovery, now: Timestamp) -> Reply<'_, BroughtForward> {
        self.store.bring_forward(recovery, now)
    }

    fn ask(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: Ask,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, Asked> {
        self.store.ask(app, delivery, ask, now, entry)
    }

    fn settle(&self, endpoint: EndpointId, settle: Settle, most: usize, now: Timestamp) -> Reply<'_, usize> {
        self.store.settle(endpoint, settle, most, now)
    }

    fn erase_data(&self, app: AppId, event: EventId, entry: Option<Entry>) -> Reply<'_, bool> {
        self.store.erase_data(app, event, entry)
    }

    fn expire(&self, ranges: Ranges, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Expired> {
        self.store.expire(ranges, keeps, now.plus(self.expires_early))
    }

    fn begin_replay(&self, replay: Replay, entry: Option<Entry>) -> Reply<'_, ()> {
        self.store.begin_replay(replay, entry)
    }

    fn proceed(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>> {
        if self.takes_twice {
            return Box::pin(self.proceed_twice(page, now));
        }
        self.store.proceed(page, now)
    }

    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, ReplayChanged> {
        self.store.change_replay(app, replay, to, now, entry)
    }
    fn order_inspection(&self, inspection: Inspection) -> Reply<'_, Ordered> {
        self.store.order_inspection(inspection)
    }

    fn take_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>> {
        self.store.take_inspection(per_app_max)
    }

    fn end_inspection(&self, id: InspectionId, report: Option<Report>, now: Timestamp) -> Reply<'_, bool> {
        self.store.end_inspection(id, report, now)
    }

    fn take_mail(&self, turn: MailTurn, now: Timestamp) -> Reply<'_, Outgoing> {
        self.store.take_mail(turn, now)
    }

    fn end_mail(&self, app: AppId, first: NoticeId, end: MailEnd, now: Timestamp) -> Reply<'_, ()> {
        self.store.end_mail(app, first, end, now)
    }

    fn close_digests(&self, now: Timestamp) -> Reply<'_, ()> {
        self.store.close_digests(now)
    }

    fn published_notices(&self, notices: Vec<NoticeId>) -> Reply<'_, ()> {
        self.store.published_notices(notices)
    }

    fn flush(&self) -> Reply<'_, ()> {
        self.store.flush()
    }
}
