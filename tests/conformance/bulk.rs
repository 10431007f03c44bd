//! A batch that PostgreSQL gets in a few statements gives the same rows, answers and listener calls as the same commands one by
//! one in SQLite, where each takes a few statements of its own.

use crate::{
    fixture::{Fixture, after, attempt, dead, perform, retry_at},
    postgres::{Database, Pooled},
    sqlite::block_on,
    two_nodes::SharedStore,
};
use posthaste::{
    domain::{
        contract::Contract,
        delivery::{Availability, DeliveryState, TransitionError},
        event::{DedupKey, DedupSpace, Fingerprint},
        health::HealthSample,
        id::{DeliveryId, EndpointId},
        ordering::OrderingMode,
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        verdict::{DeadReason, Verdict},
    },
    store::deliveries::{Accepted, ActionResult, DeliveryAction, DeliveryResult, NewEvent},
};
use proptest::{collection::vec, prelude::*};
use std::{collections::HashSet, fmt::Write, sync::Arc, time::Duration};

/// The random numbers of one command: its kind, its object, and its variant.
type Draw = (u8, u8, u8);

const ENDPOINTS: usize = 3;
const LEASED_COUNT: u8 = 24;

/// The columns of all tables that hot-path commands write; of leased deliveries only that they are leased.
const ROWS: &[(&str, &str)] = &[
    (
        "events",
        "id, app, type, external_id, created_at, accepted_at, key, deliver_at, skipped, length(dedup), length(data)",
    ),
    (
        "deliveries",
        "id, app, event, endpoint, state, reason, retry_index, attempt_count, history_len, sign(queue), due, due_action, \
         give_up_at, finished_at, held_at, root, replay_of, return_to, restarted_at, ordering_key, manual, skipped_at, order_seq",
    ),
    (
        "attempts",
        "delivery, position, number, started_at, total_us, dns_us, connect_us, tls_us, first_byte_us, address, status, class, \
         error, length(contract), revision, length(response_headers), length(response_body), url, note",
    ),
    ("dedup", "event, length(key), length(fingerprint)"),
    (
        "health",
        "endpoint, app, consecutive_failures, failed_events, first_failed_at, first_failed_clock, last_error, warned_at, \
         warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel, notified_since, paused_until",
    ),
    ("endpoints", "id, disabled, revision"),
    (
        "statistics",
        "app, endpoint, width, start, ok, failed, delivered, dead, total_us, latency, last_ok_at, events, outcomes, dead_excused, expired",
    ),
    (
        "statistics_by_type",
        "app, type, width, start, ok, failed, delivered, dead, total_us, latency, last_ok_at, events, outcomes, dead_excused, expired",
    ),
    ("statistics_log", "id"),
    ("notices", "app, kind, endpoint, delivery, at, count"),
];

fn rows(shared: &SharedStore) -> String {
    let of = |(table, columns): &(&str, &str)| format!("{table}\n{}\n", shared.rows(columns, table));
    ROWS.iter().map(of).collect::<Vec<_>>().concat()
}

fn contract() -> Arc<Contract> {
    Arc::new(Contract::builtin().unwrap()[0].clone())
}

/// The fixture of a case, with the same ids on every store; the last endpoint is ordered.
struct BulkCase {
    fixture: Fixture,
    endpoints: Vec<EndpointId>,
    leased: Vec<Option<LeasedDelivery>>,
    deliveries: Vec<DeliveryId>,
}

impl BulkCase {
    async fn new(shared: &SharedStore) -> Self {
        let mut fixture = Fixture::new(Box::new(shared.clone())).await;
        let mut endpoints = vec![fixture.endpoint];
        for _ in 1..ENDPOINTS {
            endpoints.push(fixture.new_endpoint(fixture.app).await);
        }
        let mut record = fixture.store().endpoint(endpoints[ENDPOINTS - 1]).await.unwrap().unwrap();
        (record.settings.ordered, record.revision) = (OrderingMode::Key, 2);
        assert!(fixture.store().change_endpoint(record, None).await.unwrap());
        let mut play = Self { fixture, endpoints, leased: vec![], deliveries: vec![] };
        for number in 0..LEASED_COUNT {
            let new = play.event((0, number, 0));
            play.fixture.accept(new).await;
        }
        let mut leased = play.fixture.recorder.take_leased();
        leased.sort_by_key(|leased| leased.delivery.id);
        play.deliveries = leased.iter().map(|leased| leased.delivery.id).collect();
        play.leased = leased.into_iter().map(Some).collect();
        play.fixture.recorder.take_waiting();
        play
    }

    fn event(&mut self, (what, which, how): Draw) -> NewEvent {
        let index = usize::from(which) % ENDPOINTS;
        let mut new = self.fixture.draft(&[self.endpoints[index]]);
        Arc::get_mut(&mut new.event).unwrap().event_type = format!("payment.{}", how % 3);
        if what & 1 == 1 {
            new.dedup.push(self.fixture.dedup(DedupSpace::EventId, &(which % 5).to_string()));
        }
        if what & 2 == 2 {
            new.dedup.push(self.fixture.dedup(DedupSpace::IdempotencyKey, &(how % 7).to_string()));
        }
        if !new.dedup.is_empty() {
            new.fingerprint = Fingerprint([how % 3 / 2; 16]);
        }
        let new_delivery = &mut new.deliveries[0];
        if index == ENDPOINTS - 1 {
            new_delivery.delivery.ordering_key = OrderingMode::Key.ordering_key(Some(&(how % 2).to_string()));
        }
        match how % 4 {
            0 | 1 => {
                new_delivery.delivery.start_in_flight();
                new_delivery.permit = Some(self.fixture.permits.take());
            }
            2 if what & 4 == 4 => {
                new_delivery.delivery.apply_availability(Availability::DisabledHold, after(0));
            }
            3 if what & 4 == 4 => {
                new_delivery.delivery.apply_availability(Availability::DisabledCancel, after(0));
            }
            _ => {}
        }
        new
    }

    fn take(&mut self, which: u8) -> Option<LeasedDelivery> {
        let index = usize::from(which) % self.leased.len();
        self.leased[index].take()
    }

    fn record(&mut self, (what, which, how): Draw) {
        let Some(leased) = self.take(which) else { return };
        let (class, verdict) = match how % 8 {
            0 => (OutcomeClass::Http, retry_at(after(60))),
            1 => (OutcomeClass::Http, dead(DeadReason::Exhausted)),
            2 => (OutcomeClass::Http, Verdict::RetryUncounted { due: after(30) }),
            _ => (OutcomeClass::Ok, Verdict::Delivered),
        };
        let mut attempts = vec![attempt(class, if class == OutcomeClass::Ok { 200 } else { 500 })];
        if how & 0x30 == 0x30 {
            attempts.insert(0, attempt(OutcomeClass::StaleConnection, 0));
        }
        let health_sample =
            (what & 8 == 8).then_some(HealthSample { adjusted_time: Duration::from_secs(5), paused: None });
        let (disable, contract, ended_at) = (None, Some(contract()), after(u64::from(how)));
        let record = DeliveryResult { leased, attempts, verdict, disable, health_sample, ended_at, contract };
        self.fixture.store().record_result(record);
    }
}

/// Rolls up all statistics; returns the endpoints whose health must be checked.
async fn roll_up(fixture: &Fixture) -> String {
    let mut candidates = vec![];
    loop {
        let rolled_up = fixture.store().roll_up(Duration::from_secs(5), after(1000)).await.unwrap();
        candidates.extend(rolled_up.candidates);
        if !rolled_up.has_more {
            return format!("{candidates:?}\n");
        }
    }
}

/// Whether an event is written before earlier commands of its batch. It is not if it is ordered or held, or shares a key with
/// another event that stays.
fn overtakes(new: &NewEvent, taken: &mut HashSet<DedupKey>) -> bool {
    let is_in_line = new.deliveries.iter().any(|new_delivery| {
        new_delivery.delivery.ordering_key.is_some() || new_delivery.delivery.state == DeliveryState::Held
    });
    let stays = is_in_line || new.dedup.iter().any(|key| taken.contains(key));
    taken.extend(new.dedup.iter().filter(|_| stays));
    !stays
}

/// Whether the command is a manual request. It may wait for other nodes, so a batch writes it after all others.
fn is_manual((what, ..): Draw) -> bool {
    what % 8 == 5
}

/// Runs a case as one batch or one by one; returns the answers, the listener's calls, and the rows.
async fn run_case(shared: &SharedStore, first: &[Draw], accepts: &[Draw], is_batch: bool) -> [String; 3] {
    let mut play = BulkCase::new(shared).await;
    let store = play.fixture.shared_store();
    if is_batch {
        play.fixture.recorder.gate.shut();
    }
    let before = play.fixture.one_event();
    let blocking = store.accept(vec![before]);
    if is_batch {
        play.fixture.recorder.gate.wait_for_the_store();
    } else {
        store.flush().await.unwrap();
    }
    let mut published: Vec<Option<NewEvent>> = accepts.iter().map(|draw| Some(play.event(*draw))).collect();
    let mut answers: Vec<Option<_>> = accepts.iter().map(|_| None).collect();
    let mut taken = HashSet::new();
    for (new, answer) in published.iter_mut().zip(&mut answers).filter(|_| !is_batch) {
        if let Some(new) = new.take_if(|new| overtakes(new, &mut taken)) {
            *answer = Some(store.accept(vec![new]));
            store.flush().await.unwrap();
        }
    }
    let (mut requested, mut filled, mut back) = (vec![], vec![], vec![]);
    let cancel = |play: &BulkCase, which: u8| {
        let delivery = play.deliveries[usize::from(which) % play.deliveries.len()];
        store.act(play.fixture.app, delivery, DeliveryAction::Cancel, after(90), None)
    };
    for draw in first.iter().copied().filter(|draw| is_batch || !is_manual(*draw)) {
        let (what, which, how) = draw;
        let index = usize::from(which) % play.deliveries.len();
        match what % 8 {
            5 => requested.push(cancel(&play, which)),
            6 => {
                // Up to three queues, or one of them several times.
                let (queues, step) = (0..=usize::from(how / 4 % 3), usize::from(how >> 6));
                let queue = |n| play.endpoints[(index + n * step) % ENDPOINTS];
                let requests =
                    queues.map(|n| play.fixture.refill_request(queue(n), usize::from(how % 4))).collect();
                filled.push(store.lease_due(requests, after(100)));
            }
            7 => back.extend(play.take(which).map(|leased| store.release(vec![leased], after(80)))),
            _ => play.record(draw),
        }
        if !is_batch {
            store.flush().await.unwrap();
        }
    }
    for (new, answer) in published.into_iter().zip(&mut answers) {
        let Some(new) = new else { continue };
        *answer = Some(store.accept(vec![new]));
        if !is_batch {
            store.flush().await.unwrap();
        }
    }
    if !is_batch {
        for (_, which, _) in first.iter().filter(|draw| is_manual(**draw)) {
            requested.push(cancel(&play, *which));
            store.flush().await.unwrap();
        }
    }
    play.fixture.recorder.gate.open();
    blocking.await.unwrap();
    let mut said = String::new();
    for answer in answers.into_iter().flatten() {
        writeln!(said, "{:?}", answer.await.unwrap()).unwrap();
    }
    for answer in requested {
        writeln!(said, "{:?}", answer.await.unwrap()).unwrap();
    }
    for answer in filled {
        writeln!(said, "{:?}", answer.await.unwrap()).unwrap();
    }
    for answer in back {
        answer.await.unwrap();
    }
    play.fixture.wait_until_idle().await;
    said += &roll_up(&play.fixture).await;
    // The results of deliveries still leased add to rows that exist by now.
    for which in 0..LEASED_COUNT {
        play.record((8, which, which));
    }
    play.fixture.wait_until_idle().await;
    said += &roll_up(&play.fixture).await;
    let mut leased: Vec<_> =
        play.fixture.recorder.take_leased().into_iter().map(|one| (one.delivery, one.due)).collect();
    leased.sort_by_key(|(delivery, _)| delivery.id);
    let mut waiting = play.fixture.recorder.take_waiting();
    waiting.sort();
    [said, format!("{leased:#?} {waiting:#?}"), rows(shared)]
}

/// Calls `ask` while the store is held at an earlier commit, so that all its commands form one batch.
async fn in_one_batch<T>(fixture: &mut Fixture, ask: impl FnOnce(&mut Fixture) -> T) -> T {
    fixture.recorder.gate.shut();
    let (store, before) = (fixture.shared_store(), fixture.one_event());
    let blocking = store.accept(vec![before]);
    fixture.recorder.gate.wait_for_the_store();
    let requested = ask(fixture);
    fixture.recorder.gate.open();
    blocking.await.unwrap();
    requested
}

async fn a_request_in_the_batch_that_ends_its_delivery_finds_it_ended(mut fixture: Fixture) {
    let [first, second] = [fixture.leased().await, fixture.leased().await];
    let (ended, store) = (first.delivery.id, fixture.shared_store());
    let requested = in_one_batch(&mut fixture, |fixture| {
        for leased in [first, second] {
            let (attempts, verdict) = (vec![attempt(OutcomeClass::Ok, 200)], Verdict::Delivered);
            let (disable, health_sample, contract, ended_at) = (None, None, None, after(1));
            let record =
                DeliveryResult { leased, attempts, verdict, disable, health_sample, ended_at, contract };
            fixture.store().record_result(record);
        }
        store.act(fixture.app, ended, DeliveryAction::Cancel, after(2), None)
    });
    let requested = requested.await.await.unwrap();
    let refused = TransitionError::WrongState { state: DeliveryState::Delivered, verb: "cancelled" };
    assert_eq!(requested, ActionResult::Refused(refused));
    assert_eq!(fixture.history(ended).await.len(), 1);
}

async fn a_repeated_event_takes_no_key_and_delays_no_other(mut fixture: Fixture) {
    let [known, new, other] = ["known", "new", "other"].map(|key| fixture.dedup(DedupSpace::EventId, key));
    let mut keyed = |keys: &[DedupKey]| NewEvent { dedup: keys.to_vec(), ..fixture.one_event() };
    let (stored, again, beside, later) =
        (keyed(&[known]), keyed(&[new, known]), keyed(&[other]), keyed(&[new]));
    let id = stored.event.id;
    assert_eq!(fixture.accept(stored).await, Accepted::New);
    let store = fixture.shared_store();
    let both = in_one_batch(&mut fixture, |_| [store.accept(vec![again]), store.accept(vec![beside])]);
    let [again, beside] = both.await;
    let again = again.await.unwrap();
    assert!(matches!(&again[..], [Accepted::Repeated { event, .. }] if event.id == id), "{again:?}");
    assert_eq!(beside.await.unwrap(), [Accepted::New]);
    assert_eq!(fixture.accept(later).await, Accepted::New, "its key was left to others");
}

#[test]
fn commands_of_one_batch_see_what_came_before_them() {
    for make in [Database::new_place, Pooled::new_place] {
        perform(make, a_request_in_the_batch_that_ends_its_delivery_finds_it_ended);
        perform(make, a_repeated_event_takes_no_key_and_delays_no_other);
    }
}

fn ends_alike(first: &[Draw], accepts: &[Draw]) -> Result<(), TestCaseError> {
    let run = |shared: SharedStore, is_batch| block_on(run_case(&shared, first, accepts, is_batch));
    let (in_bulk, one_by_one) = (run(SharedStore::database(), true), run(SharedStore::file(), false));
    for (in_bulk, one_by_one) in in_bulk.iter().zip(&one_by_one) {
        prop_assert_eq!(in_bulk, one_by_one);
    }
    Ok(())
}

/// Turns a draw into a delivery that succeeds at its first attempt, to an unordered endpoint.
fn as_plain_record((what, which, how): Draw) -> Draw {
    (what & 8, which - u8::from(usize::from(which) % ENDPOINTS == ENDPOINTS - 1), 4 | how & 0b1000_0011)
}

/// Turns a draw into an event to an unordered endpoint that is enabled.
fn as_plain_event((what, which, how): Draw) -> Draw {
    (what & 3, which - u8::from(usize::from(which) % ENDPOINTS == ENDPOINTS - 1), how)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_bulk_batch_has_the_same_result_as_its_commands_one_by_one(
        first in vec(any::<Draw>(), 0..60),
        accepts in vec(any::<Draw>(), 0..40),
    ) {
        ends_alike(&first, &accepts)?;
    }

    /// Such a batch is a single statement, unless two of its events have the same key.
    #[test]
    fn a_simple_batch_has_the_same_result_as_its_commands_one_by_one(
        first in vec(any::<Draw>().prop_map(as_plain_record), 0..30),
        accepts in vec(any::<Draw>().prop_map(as_plain_event), 0..12),
    ) {
        ends_alike(&first, &accepts)?;
    }
}
