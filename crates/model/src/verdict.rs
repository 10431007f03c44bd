//! Decides what happens to a delivery after an outcome: a pure function of the outcome, the retry context, the contract, the
//! recorded end of the attempt, and one random number.

use super::{
    backoff,
    contract::{Contract, Pacing, ResponseMeaning, RetryAfter},
    outcome::{Outcome, OutcomeClass},
    retry_after,
    time::Timestamp,
};
use std::time::Duration;

/// First wait after a local failure; doubled for each attempt before it that used no slot.
const LOCAL_FAILURE_WAIT: Duration = Duration::from_secs(5);
const LOCAL_FAILURE_WAIT_MAX: Duration = Duration::from_mins(10);

/// Retry context of a delivery when an attempt of it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryContext {
    /// How many slots of the schedule were used before this attempt.
    pub retry_index: u32,
    /// The end of the contract's `give_up_after`.
    pub give_up_at: Option<Timestamp>,
    /// Attempts so far that used no slot; the wait after a local failure grows with them.
    pub unnumbered: u32,
    /// Most receivers stopped answering at once: this failure is attributed to a local outage.
    pub is_local_outage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    /// The attempt used a slot of the schedule.
    Retry {
        due: Timestamp,
        then: DueAction,
    },
    /// The receiver did not cause the failure: no slot was used.
    RetryUncounted {
        due: Timestamp,
    },
    Dead {
        reason: DeadReason,
        disable_endpoint: bool,
    },
}

/// Action for a delivery when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    Attempt,
    /// The contract's final wait is over: dead without another attempt.
    Exhaust,
    /// Like `Exhaust`, but the last attempt failed in a local outage: the event does not count as failed by the receiver.
    ExhaustUncounted,
    /// Too old for automatic attempts: expired.
    Expire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    Exhausted,
    RefusedByReceiver,
    SerialisationFailed,
    SigningFailed,
}

impl DeadReason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::RefusedByReceiver => "refused_by_receiver",
            Self::SerialisationFailed => "serialisation_failed",
            Self::SigningFailed => "signing_failed",
        }
    }
}

/// Sets the class of a success to `Ok`, and describes any other complete response in words.
pub fn classify(outcome: &mut Outcome, contract: &Contract) {
    let (OutcomeClass::Http, Some(status)) = (outcome.class, outcome.status) else { return };
    if contract.answers.meaning(status) == ResponseMeaning::Success {
        outcome.class = OutcomeClass::Ok;
    } else {
        outcome.error.get_or_insert_with(|| format!("HTTP {status}"));
    }
}

/// Decides the next step. Waits count from `ended_at`; `random` is uniform in [0, 1).
pub fn decide(
    outcome: &Outcome,
    retry_context: &RetryContext,
    contract: &Contract,
    ended_at: Timestamp,
    random: f64,
) -> Verdict {
    let refused =
        |disable| Verdict::Dead { reason: DeadReason::RefusedByReceiver, disable_endpoint: disable };
    let again = |due| or_expiry(retry_context, ended_at, due, Verdict::RetryUncounted { due });
    // Strict contracts keep their times, even in a local outage.
    let is_waited_out = retry_context.is_local_outage && contract.pacing == Pacing::Adaptive;
    let wait_out = || {
        let wait = LOCAL_FAILURE_WAIT.saturating_mul(1 << retry_context.unnumbered.min(10));
        again(ended_at.plus(wait.min(LOCAL_FAILURE_WAIT_MAX)))
    };
    match outcome.class {
        OutcomeClass::Ok => Verdict::Delivered,
        OutcomeClass::Local => wait_out(),
        OutcomeClass::StaleConnection | OutcomeClass::Unknown => again(ended_at),
        OutcomeClass::Http => {
            match outcome.status.map_or(ResponseMeaning::Retry, |status| contract.answers.meaning(status)) {
                ResponseMeaning::Success => Verdict::Delivered,
                ResponseMeaning::Never => refused(false),
                ResponseMeaning::DisableEndpoint => refused(true),
                ResponseMeaning::Retry => retry(
                    retry_context,
                    contract,
                    ended_at,
                    random,
                    requested_wait(outcome, contract, ended_at),
                ),
            }
        }
        OutcomeClass::Timeout | OutcomeClass::Dns | OutcomeClass::Connect | OutcomeClass::Tls
            if is_waited_out =>
        {
            wait_out()
        }
        OutcomeClass::Timeout
        | OutcomeClass::Dns
        | OutcomeClass::Connect
        | OutcomeClass::Tls
        | OutcomeClass::AddressRefused => retry(retry_context, contract, ended_at, random, Duration::ZERO),
    }
}

fn retry(
    retry_context: &RetryContext,
    contract: &Contract,
    ended_at: Timestamp,
    random: f64,
    wait_min: Duration,
) -> Verdict {
    let (wait, then) = match backoff::delay_after(&contract.retry, retry_context.retry_index, random) {
        Some(wait) => (wait.max(wait_min), DueAction::Attempt),
        None => match contract.retry.final_wait {
            Some(wait) if retry_context.is_local_outage => (wait, DueAction::ExhaustUncounted),
            Some(wait) => (wait, DueAction::Exhaust),
            None => return Verdict::Dead { reason: DeadReason::Exhausted, disable_endpoint: false },
        },
    };
    let due = ended_at.plus(wait);
    or_expiry(retry_context, ended_at, due, Verdict::Retry { due, then })
}

/// Returns the verdict, or expiry if the delivery gives up before it is due.
fn or_expiry(retry_context: &RetryContext, ended_at: Timestamp, due: Timestamp, verdict: Verdict) -> Verdict {
    match retry_context.give_up_at {
        Some(give_up_at) if give_up_at < due => {
            Verdict::Retry { due: give_up_at.max(ended_at), then: DueAction::Expire }
        }
        _ => verdict,
    }
}

/// Returns the wait that the receiver requests, as far as the contract allows; it can only lengthen a wait.
pub(super) fn requested_wait(outcome: &Outcome, contract: &Contract, ended_at: Timestamp) -> Duration {
    let honoured = contract.retry.retry_after == RetryAfter::Honour && contract.pacing == Pacing::Adaptive;
    let requested = outcome.retry_after.as_deref().filter(|_| honoured);
    requested
        .and_then(|text| retry_after::parse(text, ended_at))
        .map_or(Duration::ZERO, |wait| wait.min(contract.retry.longest_wait()))
}

#[cfg(test)]
mod tests;
