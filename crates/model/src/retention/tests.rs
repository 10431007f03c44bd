//! For all contracts and deliveries: nothing is deleted early or unfinished, and what may be deleted is deleted in the end.

use super::*;
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn after(time: Duration) -> Timestamp {
    START.plus(time)
}

fn retention_period() -> impl Strategy<Value = RetentionPeriod> {
    prop_oneof![
        1 => Just(RetentionPeriod::Forever),
        6 => (1u64..500).prop_map(|hours| RetentionPeriod::For(HOUR * hours as u32)),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    (retention_period(), retention_period(), retention_period(), retention_period()).prop_map(
        |(events, attempts, payloads, dead_letters)| Retention { events, attempts, payloads, dead_letters },
    )
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0u32..1000).prop_map(|hours| after(HOUR * hours))
}

fn event() -> impl Strategy<Value = EventFacts> {
    (prop::option::weighted(0.2, instant()), any::<bool>(), any::<bool>(), retention()).prop_map(
        |(deliver_at, has_data, has_idempotency_key, keep)| EventFacts {
            accepted_at: START,
            deliver_at,
            has_data,
            has_idempotency_key,
            keep,
        },
    )
}

fn delivery() -> impl Strategy<Value = DeliveryFacts> {
    let states = prop::sample::select(DeliveryState::ALL.to_vec());
    let restarted = prop::option::weighted(0.3, instant());
    (states, any::<bool>(), restarted, instant(), any::<bool>(), retention()).prop_map(
        |(state, is_closed, restarted_at, finished_at, has_history, keep)| DeliveryFacts {
            state,
            is_closed: is_closed && state == DeliveryState::Dead,
            returns_to_dead: is_closed && matches!(state, DeliveryState::Pending | DeliveryState::Held),
            restarted_at,
            finished_at: state.is_terminal().then_some(finished_at),
            has_history,
            keep,
        },
    )
}

fn deliveries() -> impl Strategy<Value = Vec<DeliveryFacts>> {
    prop::collection::vec(delivery(), 0..4)
}

/// Applies the decision to the facts; `None` once the event is deleted.
fn apply_decision(
    mut event: EventFacts,
    deliveries: &[DeliveryFacts],
    now: Timestamp,
) -> Option<(EventFacts, Vec<DeliveryFacts>)> {
    let fate = decide(&event, deliveries, now);
    event.has_data &= fate.event != EventDecision::LosesData;
    let mut left = Vec::new();
    for (mut one, fate) in deliveries.iter().copied().zip(&fate.deliveries) {
        match fate {
            DeliveryDecision::Stays => {}
            DeliveryDecision::Goes => continue,
            DeliveryDecision::LosesHistory => one.has_history = false,
            DeliveryDecision::Closes => (one.has_history, one.is_closed) = (false, true),
            DeliveryDecision::Ends if one.returns_to_dead => {
                (one.state, one.returns_to_dead, one.finished_at) = (DeliveryState::Dead, false, Some(START));
            }
            DeliveryDecision::Ends => (one.state, one.finished_at) = (DeliveryState::Expired, Some(now)),
        }
        left.push(one);
    }
    (fate.event != EventDecision::Goes).then_some((event, left))
}

proptest! {
    #[test]
    fn unfinished_deliveries_are_never_deleted_and_those_in_flight_stay(
        event in event(), deliveries in deliveries(), now in instant(),
    ) {
        let fate = decide(&event, &deliveries, now);
        for (one, fate) in deliveries.iter().zip(&fate.deliveries) {
            let unended = matches!(fate, DeliveryDecision::Stays | DeliveryDecision::Ends);
            prop_assert!(one.finished_at.is_some() || unended, "{one:?} {fate:?}");
            prop_assert!(one.state != DeliveryState::InFlight || *fate == DeliveryDecision::Stays);
            prop_assert!(*fate != DeliveryDecision::Ends || one.finished_at.is_none());
        }
        if deliveries.iter().any(|one| one.state == DeliveryState::InFlight) {
            prop_assert_eq!(fate.event, EventDecision::Stays);
        }
        if deliveries.iter().any(|one| one.finished_at.is_none()) {
            prop_assert_ne!(fate.event, EventDecision::Goes);
        }
    }

    #[test]
    fn nothing_is_deleted_or_expired_before_the_longest_retention_is_over(
        event in event(), deliveries in deliveries(), now in instant(),
    ) {
        let fate = decide(&event, &deliveries, now);
        let from = event.deliver_at.unwrap_or(START);
        let longest = |one: &DeliveryFacts| match one.keep.events {
            RetentionPeriod::Forever => true,
            RetentionPeriod::For(time) => from.max(one.restarted_at.unwrap_or(from)).plus(time) > now,
        };
        let is_kept = match (deliveries.is_empty(), event.keep.events) {
            (true, RetentionPeriod::Forever) => true,
            (true, RetentionPeriod::For(time)) => from.plus(time) > now,
            (false, _) => deliveries.iter().any(longest),
        };
        if is_kept {
            prop_assert_ne!(fate.event, EventDecision::Goes);
            prop_assert!(!fate.deliveries.contains(&DeliveryDecision::Ends));
        }
        for (one, fate) in deliveries.iter().zip(&fate.deliveries) {
            let Some(finished_at) = one.finished_at else { continue };
            let is_over = |keep| matches!(keep, RetentionPeriod::For(time) if finished_at.plus(time) <= now);
            match fate {
                DeliveryDecision::LosesHistory => prop_assert!(is_over(one.keep.attempts)),
                DeliveryDecision::Closes => {
                    prop_assert!(one.state == DeliveryState::Dead && is_over(one.keep.dead_letters));
                }
                DeliveryDecision::Goes => prop_assert!(!is_kept),
                _ => {}
            }
        }
    }

    #[test]
    fn a_dead_letter_keeps_its_event_its_payload_and_its_history(
        event in event(), mut deliveries in deliveries(), mut dead in delivery(), now in instant(),
    ) {
        let died_at = dead.finished_at.unwrap_or(START);
        (dead.state, dead.is_closed, dead.finished_at) = (DeliveryState::Dead, false, Some(died_at));
        deliveries.push(dead);
        let fate = decide(&event, &deliveries, now);
        let is_over = matches!(dead.keep.dead_letters, RetentionPeriod::For(time) if died_at.plus(time) <= now);
        if is_over {
            prop_assert!(matches!(fate.deliveries.last(), Some(DeliveryDecision::Closes | DeliveryDecision::Goes)));
        } else {
            prop_assert_eq!(fate.deliveries.last(), Some(&DeliveryDecision::Stays));
            prop_assert_eq!(fate.event, EventDecision::Stays);
        }
    }

    #[test]
    fn a_deletion_due_today_is_due_tomorrow_too(
        event in event(), deliveries in deliveries(), now in instant(), later in 0u32..500,
    ) {
        let (today, tomorrow) =
            (decide(&event, &deliveries, now), decide(&event, &deliveries, now.plus(HOUR * later)));
        if today.event == EventDecision::Goes {
            prop_assert_eq!(tomorrow.event, EventDecision::Goes);
        }
        if today.event == EventDecision::LosesData {
            prop_assert_ne!(tomorrow.event, EventDecision::Stays);
        }
        for (today, tomorrow) in today.deliveries.iter().zip(&tomorrow.deliveries) {
            prop_assert!(today == tomorrow || *today == DeliveryDecision::Stays || *tomorrow == DeliveryDecision::Goes);
        }
    }

    #[test]
    fn finite_retention_deletes_in_the_end_and_every_end_was_on_record_before(
        event in event(), deliveries in deliveries(),
    ) {
        let is_finite = |keep: &Retention| {
            let all = [keep.events, keep.attempts, keep.payloads, keep.dead_letters];
            !all.contains(&RetentionPeriod::Forever)
        };
        let all_finite = is_finite(&event.keep)
            && deliveries.iter().all(|one| is_finite(&one.keep) && one.state != DeliveryState::InFlight);
        let mut state = Some((event, deliveries.clone()));
        let (mut now, mut steps) = (START, 0);
        while let Some((event, facts)) = state.clone() {
            let fate = decide(&event, &facts, now);
            if fate.event == EventDecision::Goes {
                prop_assert!(facts.iter().all(|one| one.finished_at.is_some_and(|at| at < now)));
            }
            state = apply_decision(event, &facts, now);
            (now, steps) = (now.plus(HOUR * 7), steps + 1);
            if steps > 1000 {
                break;
            }
        }
        prop_assert!(!all_finite || state.is_none(), "{state:?}");
    }
}

fn month(state: DeliveryState, finished_at: Option<Timestamp>) -> DeliveryFacts {
    let keep = Retention {
        events: RetentionPeriod::For(DAY * 30),
        attempts: RetentionPeriod::For(DAY * 30),
        payloads: RetentionPeriod::For(DAY * 30),
        dead_letters: RetentionPeriod::For(DAY * 30),
    };
    DeliveryFacts {
        state,
        is_closed: false,
        returns_to_dead: false,
        restarted_at: None,
        finished_at,
        has_history: true,
        keep,
    }
}

fn plain(keep: Retention) -> EventFacts {
    let (has_data, has_idempotency_key) = (true, false);
    EventFacts { accepted_at: START, deliver_at: None, has_data, has_idempotency_key, keep }
}

#[test]
fn a_delivered_event_is_deleted_as_a_whole_after_its_retention() {
    let one = month(DeliveryState::Delivered, Some(after(HOUR)));
    let event = plain(one.keep);
    assert!(decide(&event, &[one], after(DAY * 29)).changes_nothing());
    let gone = RetentionDecision { event: EventDecision::Goes, deliveries: vec![DeliveryDecision::Goes] };
    assert_eq!(decide(&event, &[one], after(DAY * 30)), gone);
}

#[test]
fn a_waiting_delivery_ends_first_and_stays_on_record_without_its_payload() {
    let waiting = month(DeliveryState::Held, None);
    let (event, end) = (plain(waiting.keep), after(DAY * 30));
    let fate = decide(&event, &[waiting], end);
    assert_eq!(
        fate,
        RetentionDecision { event: EventDecision::LosesData, deliveries: vec![DeliveryDecision::Ends] }
    );
    let (event, ended) = apply_decision(event, &[waiting], end).unwrap();
    assert!(decide(&event, &ended, after(DAY * 59)).changes_nothing());
    assert_eq!(decide(&event, &ended, after(DAY * 60)).event, EventDecision::Goes);
}

#[test]
fn a_payload_is_deleted_once_all_got_it_and_stays_while_one_may_need_it() {
    let mut done = month(DeliveryState::Delivered, Some(after(HOUR)));
    done.keep.payloads = RetentionPeriod::For(DAY);
    let event = plain(done.keep);
    let at = |others: &[DeliveryState], now| {
        let other = |state: &DeliveryState| DeliveryFacts { state: *state, ..done };
        let all: Vec<_> = [done].into_iter().chain(others.iter().map(other)).collect();
        decide(&event, &all, now).event
    };
    assert_eq!(at(&[], after(HOUR * 23)), EventDecision::Stays);
    assert_eq!(at(&[], after(DAY)), EventDecision::LosesData);
    assert_eq!(at(&[DeliveryState::Cancelled], after(DAY)), EventDecision::LosesData);
    assert_eq!(at(&[DeliveryState::Expired], after(DAY)), EventDecision::Stays, "it may be replayed");
    assert_eq!(at(&[DeliveryState::Dead], after(DAY)), EventDecision::Stays);
    assert_eq!(decide(&event, &[], after(DAY)).event, EventDecision::LosesData, "no endpoint subscribed");
}

#[test]
fn a_closed_dead_letter_is_kept_as_any_other_delivery() {
    let mut closed = month(DeliveryState::Dead, Some(after(HOUR)));
    closed.keep.dead_letters = RetentionPeriod::Forever;
    let event = plain(closed.keep);
    assert!(decide(&event, &[closed], after(DAY * 400)).changes_nothing());
    closed.is_closed = true;
    assert_eq!(decide(&event, &[closed], after(DAY * 30)).event, EventDecision::Goes);
}

#[test]
fn a_dead_letter_of_a_shorter_time_is_closed_and_its_event_is_kept_as_long_as_its_endpoint_says() {
    let mut dead = month(DeliveryState::Dead, Some(after(HOUR)));
    dead.keep.dead_letters = RetentionPeriod::For(DAY);
    let mut event = plain(dead.keep);
    event.keep.events = RetentionPeriod::For(DAY);
    let fate = decide(&event, &[dead], after(DAY * 2));
    assert_eq!((fate.event, fate.deliveries), (EventDecision::Stays, vec![DeliveryDecision::Closes]));
    let (event, closed) = apply_decision(event, &[dead], after(DAY * 2)).unwrap();
    assert!(decide(&event, &closed, after(DAY * 29)).changes_nothing());
    assert_eq!(decide(&event, &closed, after(DAY * 30)).event, EventDecision::Goes);
}

#[test]
fn a_dead_letter_that_is_held_for_an_extra_attempt_keeps_its_payload() {
    let mut held = DeliveryFacts { returns_to_dead: true, ..month(DeliveryState::Held, None) };
    held.keep.dead_letters = RetentionPeriod::Forever;
    let fate = decide(&plain(held.keep), &[held], after(DAY * 31));
    assert_eq!((fate.event, fate.deliveries), (EventDecision::Stays, vec![DeliveryDecision::Ends]));
}

#[test]
fn a_scheduled_event_counts_from_its_time_and_a_replay_from_when_it_was_asked_for() {
    let done = month(DeliveryState::Delivered, Some(after(DAY * 20)));
    let scheduled = EventFacts { deliver_at: Some(after(DAY * 20)), ..plain(done.keep) };
    assert!(decide(&scheduled, &[done], after(DAY * 49)).changes_nothing());
    assert_eq!(decide(&scheduled, &[done], after(DAY * 50)).event, EventDecision::Goes);
    let replayed =
        DeliveryFacts { restarted_at: Some(after(DAY * 100)), ..month(DeliveryState::Pending, None) };
    assert!(decide(&plain(done.keep), &[replayed], after(DAY * 129)).changes_nothing());
    let fate = decide(&plain(done.keep), &[replayed], after(DAY * 130));
    assert_eq!(fate.deliveries, [DeliveryDecision::Ends]);
}

#[test]
fn an_idempotency_key_outlives_an_event_that_is_kept_for_an_hour() {
    let mut done = month(DeliveryState::Delivered, Some(START));
    done.keep.events = RetentionPeriod::For(HOUR);
    let event = EventFacts { has_idempotency_key: true, ..plain(done.keep) };
    assert_eq!(decide(&event, &[done], after(HOUR)).event, EventDecision::LosesData);
    assert_eq!(decide(&event, &[done], after(HOUR * 23)).event, EventDecision::LosesData);
    assert_eq!(decide(&event, &[done], after(DAY)).event, EventDecision::Goes);
}

#[test]
fn ages_are_the_finite_retention_periods() {
    let mut keep = month(DeliveryState::Pending, None).keep;
    (keep.attempts, keep.dead_letters) = (RetentionPeriod::For(DAY), RetentionPeriod::Forever);
    assert_eq!(retention_ages([keep, keep]).into_iter().collect::<Vec<_>>(), [DAY, DAY * 30]);
    assert!(retention_ages([Retention::FOREVER]).is_empty());
}
