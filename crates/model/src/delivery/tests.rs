//! Any sequence of transitions follows the design's table and keeps the invariants of a delivery.

mod ordering;
mod table;

use super::*;
use crate::verdict::DeadReason;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use std::{collections::HashSet, time::Duration};
use table::{COPY, TableRow, Transition, TransitionKind, expected, table};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Checks the invariants of every delivery.
fn check_shape(delivery: &Delivery) {
    let state = delivery.state;
    assert_eq!(delivery.finished_at.is_some(), state.is_terminal(), "a terminal state has its time");
    let has_reason = state.is_terminal() && state != DeliveryState::Delivered;
    assert_eq!(delivery.reason.is_some(), has_reason, "a terminal state other than delivered has its reason");
    let has_due = state.is_waiting() || state == DeliveryState::Held;
    assert_eq!(delivery.due.is_some(), has_due, "a waiting or held delivery has a due time");
    assert_eq!(delivery.order_seq.is_some(), delivery.is_queued_behind(), "a queued delivery has a position");
    assert!(!state.is_terminal() || delivery.saved_state.is_none(), "a terminal state has no saved state");
    let manual = delivery.saved_state.is_some();
    assert!(!manual || delivery.at_due == DueAction::Attempt, "an extra attempt has no final wait");
    assert!(!(manual && state == DeliveryState::Retrying), "a manual attempt is pending, not retrying");
    assert!(delivery.attempt_count <= delivery.history_len, "numbers are given to rows of the history");
    let is_on_schedule = state.is_waiting() && !manual && delivery.at_due == DueAction::Attempt;
    assert_eq!(delivery.next_attempt_at(), delivery.due.filter(|_| is_on_schedule));
}

/// Checks what a transition may change besides the state.
fn check_change(before: &Delivery, after: &Delivery, happening: Transition, now: Timestamp) {
    let fixed = |d: &Delivery| (d.id, d.app, d.event, d.endpoint, d.root, d.replay_of, d.ordering_key);
    assert_eq!(fixed(after), fixed(before), "its identity never changes");
    let manual = before.saved_state.is_some();
    let (rows, numbered, used) = match happening {
        Transition::Conclude { verdict, rows, numbered, .. } => {
            let used = match verdict {
                Verdict::Retry { .. } => 1,
                Verdict::Dead { .. } => numbered.min(1),
                Verdict::RetryUncounted { .. } | Verdict::Delivered => 0,
            };
            (rows, numbered, if manual { 0 } else { used })
        }
        Transition::TakeOver(_) => (1, 0, 0),
        _ => (0, 0, 0),
    };
    assert_eq!(after.history_len, before.history_len + rows);
    assert_eq!(after.attempt_count, before.attempt_count + numbered, "numbering continues");
    let is_replay = matches!(happening, Transition::Replay { .. });
    assert_eq!(after.retry_index, if is_replay { 0 } else { before.retry_index + used }, "its retry index");
    let held_for =
        before.held_at.filter(|_| matches!(happening, Transition::Release)).map(|at| now.since(at));
    if !is_replay {
        let give_up_at = before.give_up_at.map(|at| at.plus(held_for.unwrap_or_default()));
        assert_eq!(after.give_up_at, give_up_at, "its age stops while it is held");
    }
    assert_eq!(after.state == DeliveryState::Held, after.held_at.is_some());
    if after.state == DeliveryState::Expired && before.state != DeliveryState::Expired {
        let came_back =
            manual && matches!(before.saved_state, Some(SavedState { state: DeliveryState::Expired, .. }));
        let by_age = matches!(happening, Transition::Claim | Transition::Outlive);
        assert!(came_back || by_age, "only its age or its event's expires it");
    }
    let is_restart = is_replay || matches!(happening, Transition::Retry(_));
    assert_eq!(after.restarted_at, if is_restart { Some(now) } else { before.restarted_at });
    match happening {
        Transition::Retry(_) => {
            let due = before.due;
            let SavedState { state, reason, at_due, finished_at, .. } =
                after.saved_state.expect("a saved state");
            assert_eq!((state, reason, at_due), (before.state, before.reason, before.at_due));
            assert_eq!((after.saved_state.and_then(|back| back.due), finished_at), (due, before.finished_at));
            assert_eq!(after.due, Some(now), "as soon as a permit is free");
        }
        Transition::Replay { give_up_at, .. } => {
            assert_eq!(
                (after.due, after.at_due, after.give_up_at),
                (Some(now), DueAction::Attempt, give_up_at)
            );
        }
        Transition::Release => {
            let due = if before.at_due == DueAction::Expire { after.give_up_at } else { before.due };
            assert_eq!((after.due, after.at_due), (due.max(Some(now)), before.at_due));
        }
        Transition::HandBack(Availability::Enabled) => {
            assert_eq!((after.due, after.at_due), (Some(now), DueAction::Attempt));
        }
        Transition::TakeOver(Availability::Enabled) if !manual => assert_eq!(after.due, Some(now)),
        Transition::Conclude { verdict: Verdict::Retry { due, then }, availability, .. }
            if !manual && matches!(availability, Availability::Enabled | Availability::DisabledHold) =>
        {
            assert_eq!((after.due, after.at_due), (Some(due), then));
        }
        _ => {}
    }
}

/// Applies a sequence of transitions to a new delivery, checks every step, and returns the rows of the table it visited.
fn run(new: Delivery, happenings: Vec<(Transition, u64)>) -> Vec<TableRow> {
    let rows = table();
    let (mut delivery, mut now, mut seen) = (new, START, Vec::new());
    // The delivery before an extra attempt was requested.
    let mut before_retry: Option<Delivery> = None;
    for (happening, wait_ms) in happenings {
        now = now.plus(Duration::from_millis(wait_ms));
        let happening = happening.at(now);
        let before = delivery.clone();
        let step = format!("{happening:?} at {now}\n on {before:?}");
        let got = happening.apply(&mut delivery, now);
        let Some(to) = expected(&before, happening, now) else {
            assert!(got.is_err(), "not refused: {step}");
            assert_eq!(delivery, before, "refused but changed: {step}");
            continue;
        };
        let got = got.unwrap_or_else(|refusal| panic!("{refusal}: {step}"));
        assert_eq!((got.state, got.reason), to, "{step}");
        let row = (before.state, happening.kind(), to);
        assert!(rows.contains(&row), "{row:?} is not in the table: {step}");
        seen.push(row);
        check_shape(&got);
        if before.state == DeliveryState::Delivered {
            assert_eq!(delivery, before, "what was delivered never changes: {step}");
            check_copy(&before, &got, now);
            continue;
        }
        check_change(&before, &delivery, happening, now);
        if matches!(happening, Transition::Retry(_)) {
            before_retry = Some(before.clone());
        }
        let came_back = before.saved_state.is_some() && before.state == DeliveryState::InFlight && {
            matches!(happening.kind(), TransitionKind::Conclude | TransitionKind::TakeOver)
                && to.0 != DeliveryState::Delivered
        };
        if came_back {
            check_return(&before_retry.take().expect("it was retried"), &delivery);
        }
    }
    seen
}

/// Checks that a failed retry restored the delivery, except its history and the effects of a disabled endpoint.
fn check_return(was: &Delivery, is: &Delivery) {
    let history = |d: &Delivery| Delivery {
        history_len: is.history_len,
        attempt_count: is.attempt_count,
        give_up_at: is.give_up_at,
        held_at: is.held_at,
        restarted_at: is.restarted_at,
        ..d.clone()
    };
    match is.state {
        DeliveryState::Held => assert_eq!(*is, Delivery { state: DeliveryState::Held, ..history(was) }),
        DeliveryState::Cancelled if was.state == DeliveryState::Retrying => {
            assert_eq!(is.retry_index, was.retry_index);
        }
        _ => assert_eq!(*is, history(was)),
    }
}

fn check_copy(old: &Delivery, copy: &Delivery, now: Timestamp) {
    assert_eq!((copy.id, copy.root, copy.replay_of), (COPY, old.root, Some(old.id)));
    assert_eq!((copy.app, copy.event, copy.endpoint), (old.app, old.event, old.endpoint));
    assert_eq!((copy.retry_index, copy.attempt_count, copy.history_len), (0, 0, 0));
    assert_eq!((copy.due, copy.at_due, copy.saved_state), (Some(now), DueAction::Attempt, None));
}

fn availability() -> impl Strategy<Value = Availability> {
    prop_oneof![
        4 => Just(Availability::Enabled),
        1 => Just(Availability::DisabledHold),
        1 => Just(Availability::DisabledCancel),
        1 => Just(Availability::Deleted),
    ]
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0i64..100_000).prop_map(Timestamp::from_millis)
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let then = prop::sample::select(vec![
        DueAction::Attempt,
        DueAction::Attempt,
        DueAction::Exhaust,
        DueAction::ExhaustUncounted,
        DueAction::Expire,
    ]);
    let reason = prop::sample::select(vec![
        DeadReason::Exhausted,
        DeadReason::RefusedByReceiver,
        DeadReason::SerialisationFailed,
        DeadReason::SigningFailed,
    ]);
    prop_oneof![
        1 => Just(Verdict::Delivered),
        4 => (instant(), then).prop_map(|(due, then)| Verdict::Retry { due, then }),
        2 => instant().prop_map(|due| Verdict::RetryUncounted { due }),
        3 => (reason, any::<bool>()).prop_map(|(reason, disable_endpoint)| Verdict::Dead { reason, disable_endpoint }),
    ]
}

fn transition() -> impl Strategy<Value = Transition> {
    let apply_verdict =
        (verdict(), 0u32..4, 0u32..4, availability()).prop_map(|(verdict, rows, numbered, availability)| {
            Transition::Conclude { verdict, rows, numbered: numbered.min(rows), availability }
        });
    let replay = (prop::option::of(instant()), availability())
        .prop_map(|(give_up_at, availability)| Transition::Replay { give_up_at, availability });
    prop_oneof![
        6 => Just(Transition::Claim),
        6 => apply_verdict,
        1 => availability().prop_map(Transition::HandBack),
        1 => availability().prop_map(Transition::TakeOver),
        2 => availability().prop_map(Transition::SwitchOff),
        2 => Just(Transition::Release),
        3 => availability().prop_map(Transition::Retry),
        2 => replay,
        1 => availability().prop_map(Transition::ReplayAs),
        1 => Just(Transition::Cancel),
        1 => Just(Transition::Outlive),
        1 => Just(Transition::Close),
    ]
}

fn transitions() -> impl Strategy<Value = Vec<(Transition, u64)>> {
    prop::collection::vec((transition(), 0u64..20_000), 1..60)
}

fn new_delivery(give_up_at: Option<Timestamp>) -> Delivery {
    let id = |n| (DeliveryId::from_i64(n), AppId::from_i64(1), EventId::from_i64(6), EndpointId::from_i64(2));
    let (id, app, event, endpoint) = id(7);
    Delivery::new(id, app, event, endpoint, START, give_up_at)
}

fn new_deliveries() -> impl Strategy<Value = Delivery> {
    let age = prop::option::weighted(0.3, 0u64..400_000);
    (age, any::<bool>()).prop_map(|(age, leased)| {
        let mut delivery = new_delivery(age.map(|ms| START.plus(Duration::from_millis(ms))));
        if leased {
            delivery.start_in_flight();
        }
        check_shape(&delivery);
        delivery
    })
}

proptest! {
    #![proptest_config(Config::with_cases(2000))]

    #[test]
    fn a_delivery_moves_only_as_the_table_says(new in new_deliveries(), happenings in transitions()) {
        run(new, happenings);
    }
}

#[test]
fn every_row_of_the_table_can_be_reached() {
    let mut runner = TestRunner::deterministic();
    let mut unseen = table();
    for _ in 0..20_000 {
        let one = (new_deliveries(), transitions()).new_tree(&mut runner).unwrap().current();
        for row in run(one.0, one.1) {
            unseen.remove(&row);
        }
    }
    assert_eq!(unseen, HashSet::new());
}

/// Returns a delivery in this state.
fn delivery_in(state: DeliveryState) -> Delivery {
    let mut delivery = new_delivery(None);
    let retry = Verdict::Retry { due: START, then: DueAction::Attempt };
    let dead = Verdict::Dead { reason: DeadReason::Exhausted, disable_endpoint: false };
    let steps: Vec<Transition> = match state {
        DeliveryState::Pending => vec![],
        DeliveryState::InFlight => vec![Transition::Claim],
        DeliveryState::Retrying => vec![Transition::Claim, ended(retry)],
        DeliveryState::Held => vec![Transition::SwitchOff(Availability::DisabledHold)],
        DeliveryState::Delivered => vec![Transition::Claim, ended(Verdict::Delivered)],
        DeliveryState::Dead => vec![Transition::Claim, ended(dead)],
        DeliveryState::Cancelled => vec![Transition::Cancel],
        DeliveryState::Expired => {
            delivery.give_up_at = Some(START);
            vec![Transition::Claim]
        }
    };
    for step in steps {
        step.apply(&mut delivery, START).unwrap();
    }
    assert_eq!(delivery.state, state);
    delivery
}

fn ended(verdict: Verdict) -> Transition {
    Transition::Conclude { verdict, rows: 1, numbered: 1, availability: Availability::Enabled }
}

#[test]
fn manual_actions_are_refused_in_exactly_the_states_of_the_design() {
    use DeliveryState::{Cancelled, Dead, Delivered, Expired, Held, InFlight, Pending, Retrying};
    let refused = |happening: Transition| -> Vec<DeliveryState> {
        let refuses = |state: &DeliveryState| match happening.apply(&mut delivery_in(*state), START) {
            Ok(_) => false,
            Err(TransitionError::WrongState { state: named, .. }) => named == *state,
            Err(TransitionError::EndpointDeleted) => panic!("{happening:?} of {state:?}"),
        };
        DeliveryState::ALL.into_iter().filter(refuses).collect()
    };
    let replay = Transition::Replay { give_up_at: None, availability: Availability::Enabled };
    assert_eq!(refused(Transition::Retry(Availability::Enabled)), [Pending, InFlight, Held, Delivered]);
    assert_eq!(refused(Transition::Cancel), [InFlight, Delivered, Dead, Cancelled, Expired]);
    assert_eq!(refused(replay), [Pending, Retrying, InFlight, Held, Delivered]);
    assert_eq!(refused(Transition::Close).len(), 7, "all but the dead");
}

#[test]
fn retries_and_replays_to_a_deleted_endpoint_are_refused() {
    let gone = Availability::Deleted;
    let replay = Transition::Replay { give_up_at: None, availability: gone };
    for (state, happening) in [
        (DeliveryState::Retrying, Transition::Retry(gone)),
        (DeliveryState::Dead, Transition::Retry(gone)),
        (DeliveryState::Expired, replay),
        (DeliveryState::Delivered, Transition::ReplayAs(gone)),
    ] {
        assert_eq!(
            happening.apply(&mut delivery_in(state), START),
            Err(TransitionError::EndpointDeleted),
            "{state:?}"
        );
    }
}

#[test]
fn a_terminal_delivery_cannot_be_claimed_concluded_or_taken_over() {
    for state in DeliveryState::ALL.into_iter().filter(|state| state.is_terminal()) {
        let mut delivery = delivery_in(state);
        for again in
            [Transition::Claim, ended(Verdict::Delivered), Transition::TakeOver(Availability::Enabled)]
        {
            assert!(again.apply(&mut delivery, START).is_err());
        }
        assert_eq!(delivery, delivery_in(state));
    }
}

#[test]
fn a_retry_in_a_final_wait_goes_back_to_that_wait() {
    let due = START.plus(Duration::from_hours(6));
    let mut delivery = new_delivery(None);
    delivery.claim(START).unwrap();
    let last = Verdict::Retry { due, then: DueAction::Exhaust };
    delivery.apply_verdict(&last, (1, 1), Availability::Enabled, START).unwrap();
    assert_eq!(delivery.next_attempt_at(), None, "nothing will be sent after a final wait");
    delivery.retry(Availability::Enabled, START).unwrap();
    assert_eq!(delivery.claim(START), Ok(ClaimResult::Attempt));
    delivery.apply_verdict(&last, (1, 1), Availability::Enabled, START).unwrap();
    assert_eq!(
        (delivery.state, delivery.due, delivery.at_due),
        (DeliveryState::Retrying, Some(due), DueAction::Exhaust)
    );
    assert_eq!((delivery.retry_index, delivery.attempt_count), (1, 2));
    assert_eq!(delivery.claim(due), Ok(ClaimResult::Ended));
    assert_eq!((delivery.state, delivery.reason), (DeliveryState::Dead, Some(EndReason::Exhausted)));
}

#[test]
fn states_and_reasons_have_names_of_their_own_and_states_are_read_back() {
    for state in DeliveryState::ALL {
        assert_eq!(DeliveryState::parse(state.name()), Some(state));
    }
    assert_eq!(DeliveryState::parse("Pending"), None);
    assert_eq!(
        EndReason::ALL.map(EndReason::name).into_iter().collect::<HashSet<_>>().len(),
        EndReason::ALL.len()
    );
    let mut worst_first = DeliveryState::ALL;
    worst_first.sort_by_key(|state| std::cmp::Reverse(state.severity()));
    let names = worst_first.map(DeliveryState::name);
    assert_eq!(names[..4], ["retrying", "held", "in_flight", "pending"]);
    assert_eq!(names[4..], ["dead", "expired", "cancelled", "delivered"]);
}
