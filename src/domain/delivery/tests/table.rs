//! The design's table of states, written out by hand, and the transitions of a delivery.
//!
//! `table` is that table; `expected` picks its row for one transition. Neither uses the code under test.

use super::*;
use std::collections::HashSet;

/// Kinds of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
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
pub(super) enum Happening {
    Claim,
    Conclude { verdict: Verdict, rows: u32, numbered: u32, switch: Switch },
    HandBack(Switch),
    TakeOver(Switch),
    SwitchOff(Switch),
    Release,
    Retry(Switch),
    Replay { give_up_at: Option<Timestamp>, switch: Switch },
    ReplayAs(Switch),
    Cancel,
    Outlive,
    Close,
}

type Ended = (State, Option<Reason>);
pub(super) type Row = (State, Kind, Ended);

const CANCELLED_BY_SWITCH: [Ended; 2] =
    [(State::Cancelled, Some(Reason::EndpointOff)), (State::Cancelled, Some(Reason::EndpointDeleted))];
const DIED: [Ended; 4] = [
    (State::Dead, Some(Reason::Exhausted)),
    (State::Dead, Some(Reason::RefusedByReceiver)),
    (State::Dead, Some(Reason::SerialisationFailed)),
    (State::Dead, Some(Reason::SigningFailed)),
];
/// States that a failed retry restores, besides the waiting states and those of `DIED`.
const BACK_TO: [Ended; 6] = [
    (State::Dead, Some(Reason::Closed)),
    (State::Cancelled, Some(Reason::EndpointOff)),
    (State::Cancelled, Some(Reason::EndpointDeleted)),
    (State::Cancelled, Some(Reason::ByHand)),
    (State::Expired, Some(Reason::GaveUp)),
    (State::Expired, Some(Reason::Retention)),
];

/// All transitions that the table allows.
pub(super) fn table() -> HashSet<Row> {
    use State::{Cancelled, Dead, Delivered, Expired, Held, InFlight, Pending, Retrying};
    let mut rows: HashSet<Row> = HashSet::new();
    let mut add = |from: &[State], kind: Kind, to: &[Ended]| {
        rows.extend(from.iter().flat_map(|from| to.iter().map(move |to| (*from, kind, *to))));
    };
    let waiting = [Pending, Retrying];
    add(&waiting, Kind::Claim, &[(InFlight, None), (Expired, Some(Reason::GaveUp))]);
    // Only a delivery that has used its last slot has a final wait.
    add(&[Retrying], Kind::Claim, &[(Dead, Some(Reason::Exhausted))]);
    add(&[InFlight], Kind::Conclude, &[(Delivered, None), (Retrying, None), (Pending, None), (Held, None)]);
    for ended in [&DIED[..], &CANCELLED_BY_SWITCH, &BACK_TO] {
        add(&[InFlight], Kind::Conclude, ended);
        add(&[InFlight], Kind::TakeOver, ended);
    }
    for kind in [Kind::HandBack, Kind::TakeOver] {
        add(&[InFlight], kind, &[(Pending, None), (Retrying, None), (Held, None)]);
        add(&[InFlight], kind, &CANCELLED_BY_SWITCH);
    }
    for from in [Pending, Retrying, Held] {
        add(&[from], Kind::SwitchOff, &[(from, None), (Held, None)]);
        add(&[from], Kind::SwitchOff, &CANCELLED_BY_SWITCH);
        add(&[from], Kind::Cancel, &[(Cancelled, Some(Reason::ByHand))]);
        add(&[from], Kind::Outlive, &[(Expired, Some(Reason::Retention))]);
    }
    // Only a manual extra attempt has a terminal state to restore, and is pending or held meanwhile.
    for ended in [&DIED[..], &BACK_TO] {
        add(&[Pending, Held], Kind::Outlive, ended);
    }
    add(&[Held], Kind::Release, &[(Pending, None), (Retrying, None)]);
    add(&[Retrying, Dead, Cancelled, Expired], Kind::Retry, &[(Pending, None), (Held, None)]);
    add(&[Dead, Cancelled, Expired], Kind::Replay, &[(Pending, None), (Held, None)]);
    add(&[Delivered], Kind::ReplayAs, &[(Pending, None), (Held, None)]);
    add(&[Dead], Kind::Close, &[(Dead, Some(Reason::Closed))]);
    rows
}

impl Happening {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Claim => Kind::Claim,
            Self::Conclude { .. } => Kind::Conclude,
            Self::HandBack(_) => Kind::HandBack,
            Self::TakeOver(_) => Kind::TakeOver,
            Self::SwitchOff(_) => Kind::SwitchOff,
            Self::Release => Kind::Release,
            Self::Retry(_) => Kind::Retry,
            Self::Replay { .. } => Kind::Replay,
            Self::ReplayAs(_) => Kind::ReplayAs,
            Self::Cancel => Kind::Cancel,
            Self::Outlive => Kind::Outlive,
            Self::Close => Kind::Close,
        }
    }

    /// Shifts the instants of a generated transition to count from `now`.
    pub(super) fn at(mut self, now: Timestamp) -> Self {
        let later = |at: &mut Timestamp| *at = now.plus(at.since(Timestamp::from_millis(0)));
        match &mut self {
            Self::Conclude { verdict: Verdict::Retry { due, .. } | Verdict::Again { due }, .. } => later(due),
            Self::Replay { give_up_at: Some(at), .. } => later(at),
            _ => {}
        }
        self
    }

    /// Applies the transition. Returns the delivery itself, or the copy that a replay of a delivered one makes.
    pub(super) fn happen(self, delivery: &mut Delivery, now: Timestamp) -> Result<Delivery, Refusal> {
        match self {
            Self::Claim => {
                let claimed = delivery.claim(now)?;
                assert_eq!(claimed == Claimed::Carry, delivery.state == State::InFlight);
            }
            Self::Conclude { verdict, rows, numbered, switch } => {
                delivery.conclude(&verdict, (rows, numbered), switch, now)?;
            }
            Self::HandBack(switch) => delivery.hand_back(switch, now, now)?,
            Self::TakeOver(switch) => delivery.take_over(switch, now)?,
            Self::SwitchOff(switch) => delivery.switch_off(switch, now)?,
            Self::Release => delivery.release(false, now)?,
            Self::Retry(switch) => delivery.retry(switch, now)?,
            Self::Replay { give_up_at, switch } => delivery.replay(give_up_at, switch, now)?,
            Self::ReplayAs(switch) => return delivery.replay_as(COPY, None, switch, now),
            Self::Cancel => delivery.cancel(now)?,
            Self::Outlive => delivery.outlive(now)?,
            Self::Close => delivery.close()?,
        }
        Ok(delivery.clone())
    }
}

pub(super) const COPY: DeliveryId = DeliveryId::from_i64(99);

/// Returns the next state by the table, or `None` where the table has no row and the transition is refused.
pub(super) fn expected(before: &Delivery, happening: Happening, now: Timestamp) -> Option<Ended> {
    use State::{Cancelled, Dead, Delivered, Expired, Held, InFlight, Pending, Retrying};
    let from = before.state;
    let by_hand = before.return_to.is_some();
    let scheduled = if by_hand || before.place == 0 { Pending } else { Retrying };
    let switched = |state: State, switch: Switch| match switch {
        Switch::On => (state, None),
        Switch::OffHolding => (Held, None),
        Switch::OffCancelling => CANCELLED_BY_SWITCH[0],
        Switch::Deleted => CANCELLED_BY_SWITCH[1],
    };
    let back = |back: ReturnTo, switch| match back.state {
        Retrying => switched(Retrying, switch),
        ended => (ended, back.reason),
    };
    let asked = |switch: Switch| match switch {
        Switch::On => Some((Pending, None)),
        Switch::OffHolding | Switch::OffCancelling => Some((Held, None)),
        Switch::Deleted => None,
    };
    match (happening, from) {
        (Happening::Claim, Pending | Retrying) => Some(match before.at_due {
            AtDue::Exhaust | AtDue::ExhaustUnblamed => (Dead, Some(Reason::Exhausted)),
            AtDue::Expire => (Expired, Some(Reason::GaveUp)),
            AtDue::Attempt if !by_hand && before.give_up_at.is_some_and(|at| at <= now) => {
                (Expired, Some(Reason::GaveUp))
            }
            AtDue::Attempt => (InFlight, None),
        }),
        (Happening::Conclude { verdict: Verdict::Delivered, .. }, InFlight) => Some((Delivered, None)),
        (Happening::Conclude { switch, .. } | Happening::TakeOver(switch), InFlight) if by_hand => {
            before.return_to.map(|to| back(to, switch))
        }
        (Happening::Conclude { verdict, switch, .. }, InFlight) => Some(match verdict {
            Verdict::Dead { reason, .. } => (Dead, Some(Reason::from(reason))),
            Verdict::Retry { .. } => switched(Retrying, switch),
            Verdict::Again { .. } | Verdict::Delivered => switched(scheduled, switch),
        }),
        (Happening::HandBack(switch) | Happening::TakeOver(switch), InFlight) => {
            Some(switched(scheduled, switch))
        }
        (Happening::SwitchOff(switch), Pending | Retrying | Held) => Some(switched(from, switch)),
        (Happening::Release, Held) => Some((scheduled, None)),
        (Happening::Retry(switch), Retrying | Dead | Cancelled | Expired)
        | (Happening::Replay { switch, .. }, Dead | Cancelled | Expired)
        | (Happening::ReplayAs(switch), Delivered) => asked(switch),
        (Happening::Cancel, Pending | Retrying | Held) => Some((Cancelled, Some(Reason::ByHand))),
        (Happening::Outlive, Pending | Retrying | Held) => Some(match before.return_to {
            Some(back) if back.state != Retrying => (back.state, back.reason),
            _ => (Expired, Some(Reason::Retention)),
        }),
        (Happening::Close, Dead) => Some((Dead, Some(Reason::Closed))),
        _ => None,
    }
}
