//! The design's table of states, written out, and the transitions of a delivery.
//!
//! `table` is that table; `expected` picks its row for one transition. Neither uses the code under test.

use super::*;
use std::collections::HashSet;

/// Kinds of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TransitionKind {
    Claim,
    Conclude,
    HandBack,
    TakeOver,
    SwitchOff,
    Release,
    Retry,
    Replay,
    ReplayAs,
    Cancel,
    Outlive,
    Close,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Transition {
    Claim,
    Conclude { verdict: Verdict, rows: u32, numbered: u32, availability: Availability },
    HandBack(Availability),
    TakeOver(Availability),
    SwitchOff(Availability),
    Release,
    Retry(Availability),
    Replay { give_up_at: Option<Timestamp>, availability: Availability },
    ReplayAs(Availability),
    Cancel,
    Outlive,
    Close,
}

type NextState = (DeliveryState, Option<EndReason>);
pub(super) type TableRow = (DeliveryState, TransitionKind, NextState);

const CANCELLED_BY_ENDPOINT: [NextState; 2] = [
    (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled)),
    (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)),
];
const DIED: [NextState; 4] = [
    (DeliveryState::Dead, Some(EndReason::Exhausted)),
    (DeliveryState::Dead, Some(EndReason::RefusedByReceiver)),
    (DeliveryState::Dead, Some(EndReason::SerialisationFailed)),
    (DeliveryState::Dead, Some(EndReason::SigningFailed)),
];
/// States that a failed retry restores, besides the waiting states and those of `DIED`.
const BACK_TO: [NextState; 6] = [
    (DeliveryState::Dead, Some(EndReason::Closed)),
    (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled)),
    (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)),
    (DeliveryState::Cancelled, Some(EndReason::Manual)),
    (DeliveryState::Expired, Some(EndReason::GaveUp)),
    (DeliveryState::Expired, Some(EndReason::Retention)),
];

/// All transitions that the table allows.
pub(super) fn table() -> HashSet<TableRow> {
    use DeliveryState::{Cancelled, Dead, Delivered, Expired, Held, InFlight, Pending, Retrying};
    let mut rows: HashSet<TableRow> = HashSet::new();
    let mut add = |from: &[DeliveryState], kind: TransitionKind, to: &[NextState]| {
        rows.extend(from.iter().flat_map(|from| to.iter().map(move |to| (*from, kind, *to))));
    };
    let waiting = [Pending, Retrying];
    add(&waiting, TransitionKind::Claim, &[(InFlight, None), (Expired, Some(EndReason::GaveUp))]);
    // Only a delivery that has used its last slot has a final wait.
    add(&[Retrying], TransitionKind::Claim, &[(Dead, Some(EndReason::Exhausted))]);
    add(
        &[InFlight],
        TransitionKind::Conclude,
        &[(Delivered, None), (Retrying, None), (Pending, None), (Held, None)],
    );
    for ended in [&DIED[..], &CANCELLED_BY_ENDPOINT, &BACK_TO] {
        add(&[InFlight], TransitionKind::Conclude, ended);
        add(&[InFlight], TransitionKind::TakeOver, ended);
    }
    for kind in [TransitionKind::HandBack, TransitionKind::TakeOver] {
        add(&[InFlight], kind, &[(Pending, None), (Retrying, None), (Held, None)]);
        add(&[InFlight], kind, &CANCELLED_BY_ENDPOINT);
    }
    for from in [Pending, Retrying, Held] {
        add(&[from], TransitionKind::SwitchOff, &[(from, None), (Held, None)]);
        add(&[from], TransitionKind::SwitchOff, &CANCELLED_BY_ENDPOINT);
        add(&[from], TransitionKind::Cancel, &[(Cancelled, Some(EndReason::Manual))]);
        add(&[from], TransitionKind::Outlive, &[(Expired, Some(EndReason::Retention))]);
    }
    // Only a manual extra attempt has a terminal state to restore, and is pending or held meanwhile.
    for ended in [&DIED[..], &BACK_TO] {
        add(&[Pending, Held], TransitionKind::Outlive, ended);
    }
    add(&[Held], TransitionKind::Release, &[(Pending, None), (Retrying, None)]);
    add(&[Retrying, Dead, Cancelled, Expired], TransitionKind::Retry, &[(Pending, None), (Held, None)]);
    add(&[Dead, Cancelled, Expired], TransitionKind::Replay, &[(Pending, None), (Held, None)]);
    add(&[Delivered], TransitionKind::ReplayAs, &[(Pending, None), (Held, None)]);
    add(&[Dead], TransitionKind::Close, &[(Dead, Some(EndReason::Closed))]);
    rows
}

impl Transition {
    pub(super) fn kind(self) -> TransitionKind {
        match self {
            Self::Claim => TransitionKind::Claim,
            Self::Conclude { .. } => TransitionKind::Conclude,
            Self::HandBack(_) => TransitionKind::HandBack,
            Self::TakeOver(_) => TransitionKind::TakeOver,
            Self::SwitchOff(_) => TransitionKind::SwitchOff,
            Self::Release => TransitionKind::Release,
            Self::Retry(_) => TransitionKind::Retry,
            Self::Replay { .. } => TransitionKind::Replay,
            Self::ReplayAs(_) => TransitionKind::ReplayAs,
            Self::Cancel => TransitionKind::Cancel,
            Self::Outlive => TransitionKind::Outlive,
            Self::Close => TransitionKind::Close,
        }
    }

    /// Shifts the instants of a generated transition to count from `now`.
    pub(super) fn at(mut self, now: Timestamp) -> Self {
        let later = |at: &mut Timestamp| *at = now.plus(at.since(Timestamp::from_millis(0)));
        match &mut self {
            Self::Conclude {
                verdict: Verdict::Retry { due, .. } | Verdict::RetryUncounted { due }, ..
            } => later(due),
            Self::Replay { give_up_at: Some(at), .. } => later(at),
            _ => {}
        }
        self
    }

    /// Applies the transition. Returns the delivery itself, or the copy that a replay of a delivered one makes.
    pub(super) fn apply(self, delivery: &mut Delivery, now: Timestamp) -> Result<Delivery, TransitionError> {
        match self {
            Self::Claim => {
                let claimed = delivery.claim(now)?;
                assert_eq!(claimed == ClaimResult::Attempt, delivery.state == DeliveryState::InFlight);
            }
            Self::Conclude { verdict, rows, numbered, availability } => {
                delivery.apply_verdict(&verdict, (rows, numbered), availability, now)?;
            }
            Self::HandBack(availability) => delivery.release(availability, now, now)?,
            Self::TakeOver(availability) => delivery.take_over(availability, now)?,
            Self::SwitchOff(availability) => delivery.hold_or_cancel(availability, now)?,
            Self::Release => delivery.resume(false, now)?,
            Self::Retry(availability) => delivery.retry(availability, now)?,
            Self::Replay { give_up_at, availability } => delivery.replay(give_up_at, availability, now)?,
            Self::ReplayAs(availability) => return delivery.replay_as(COPY, None, availability, now),
            Self::Cancel => delivery.cancel(now)?,
            Self::Outlive => delivery.expire_by_retention(now)?,
            Self::Close => delivery.close()?,
        }
        Ok(delivery.clone())
    }
}

pub(super) const COPY: DeliveryId = DeliveryId::from_i64(99);

/// Returns the next state by the table, or `None` where the table has no row and the transition is refused.
pub(super) fn expected(before: &Delivery, happening: Transition, now: Timestamp) -> Option<NextState> {
    use DeliveryState::{Cancelled, Dead, Delivered, Expired, Held, InFlight, Pending, Retrying};
    let from = before.state;
    let manual = before.saved_state.is_some();
    let scheduled = if manual || before.retry_index == 0 { Pending } else { Retrying };
    let switched = |state: DeliveryState, availability: Availability| match availability {
        Availability::Enabled => (state, None),
        Availability::DisabledHold => (Held, None),
        Availability::DisabledCancel => CANCELLED_BY_ENDPOINT[0],
        Availability::Deleted => CANCELLED_BY_ENDPOINT[1],
    };
    let back = |back: SavedState, availability| match back.state {
        Retrying => switched(Retrying, availability),
        ended => (ended, back.reason),
    };
    let requested = |availability: Availability| match availability {
        Availability::Enabled => Some((Pending, None)),
        Availability::DisabledHold | Availability::DisabledCancel => Some((Held, None)),
        Availability::Deleted => None,
    };
    match (happening, from) {
        (Transition::Claim, Pending | Retrying) => Some(match before.at_due {
            DueAction::Exhaust | DueAction::ExhaustUncounted => (Dead, Some(EndReason::Exhausted)),
            DueAction::Expire => (Expired, Some(EndReason::GaveUp)),
            DueAction::Attempt if !manual && before.give_up_at.is_some_and(|at| at <= now) => {
                (Expired, Some(EndReason::GaveUp))
            }
            DueAction::Attempt => (InFlight, None),
        }),
        (Transition::Conclude { verdict: Verdict::Delivered, .. }, InFlight) => Some((Delivered, None)),
        (Transition::Conclude { availability, .. } | Transition::TakeOver(availability), InFlight)
            if manual =>
        {
            before.saved_state.map(|to| back(to, availability))
        }
        (Transition::Conclude { verdict, availability, .. }, InFlight) => Some(match verdict {
            Verdict::Dead { reason, .. } => (Dead, Some(EndReason::from(reason))),
            Verdict::Retry { .. } => switched(Retrying, availability),
            Verdict::RetryUncounted { .. } | Verdict::Delivered => switched(scheduled, availability),
        }),
        (Transition::HandBack(availability) | Transition::TakeOver(availability), InFlight) => {
            Some(switched(scheduled, availability))
        }
        (Transition::SwitchOff(availability), Pending | Retrying | Held) => {
            Some(switched(from, availability))
        }
        (Transition::Release, Held) => Some((scheduled, None)),
        (Transition::Retry(availability), Retrying | Dead | Cancelled | Expired)
        | (Transition::Replay { availability, .. }, Dead | Cancelled | Expired)
        | (Transition::ReplayAs(availability), Delivered) => requested(availability),
        (Transition::Cancel, Pending | Retrying | Held) => Some((Cancelled, Some(EndReason::Manual))),
        (Transition::Outlive, Pending | Retrying | Held) => Some(match before.saved_state {
            Some(back) if back.state != Retrying => (back.state, back.reason),
            _ => (Expired, Some(EndReason::Retention)),
        }),
        (Transition::Close, Dead) => Some((Dead, Some(EndReason::Closed))),
        _ => None,
    }
}
