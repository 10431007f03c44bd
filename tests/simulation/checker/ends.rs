//! End of a delivery: one terminal state, for the right reason, at the right instant; or held, because its endpoint is
//! disabled.

use super::{
    evidence::{DeliveryFile, ReceiverFacts},
    expected_course::{CourseEnd, ExpectedDeliveryState},
};
use crate::event_log::{Promise, Violation};
use posthaste::domain::{
    contract::{PublishedWhileDisabled, WaitingWhenDisabled},
    delivery::{DeliveryState, EndReason},
    outcome::OutcomeClass,
    time::Timestamp,
    verdict::DueAction,
};

pub(crate) fn check(
    file: &DeliveryFile<'_>,
    receiver: &ReceiverFacts,
    expected: &ExpectedDeliveryState,
    is_murky: bool,
) -> Option<Violation> {
    let finished_at = file.finished_at.map_or(0, Timestamp::as_millis);
    let complain = |promise, what: &str| {
        let text = format!(
            "{what}: {:?} {:?} finished {finished_at}, {expected:?} rows {:?}",
            file.state, file.reason, file.rows
        );
        Some(file.complain(promise, text))
    };
    match (file.state, file.reason) {
        (DeliveryState::Pending | DeliveryState::Retrying | DeliveryState::InFlight, _) => {
            return complain(Promise::Stuck, "never ended");
        }
        (DeliveryState::Held, _) if !receiver.is_disabled => {
            return complain(Promise::Stuck, "held for an endpoint that is on");
        }
        (DeliveryState::Held, _) => return None,
        _ => {}
    }
    if file.state == DeliveryState::Delivered {
        return delivered(file).or_else(|| {
            let is_right =
                is_murky || matches!(expected.end, Some(CourseEnd::Delivered(at)) if at == finished_at);
            if is_right { None } else { complain(Promise::WrongEnd, "delivered at another time") }
        });
    }
    if is_murky || expected.end == Some(CourseEnd::Elsewhere) {
        return None;
    }
    let is_right = match (file.state, file.reason) {
        (DeliveryState::Dead, Some(EndReason::Exhausted)) => match expected.end {
            Some(CourseEnd::Exhausted(at)) => at == finished_at,
            None => {
                expected.at_due == DueAction::Exhaust
                    && is_punctual(receiver, expected, expected.due.from, finished_at)
            }
            _ => false,
        },
        (DeliveryState::Dead, Some(EndReason::RefusedByReceiver)) => {
            expected.end == Some(CourseEnd::Refused(finished_at))
        }
        (DeliveryState::Dead, Some(EndReason::Closed)) => {
            expected.end == Some(CourseEnd::Closed) || file.was_closed_by_retention()
        }
        (DeliveryState::Cancelled, Some(EndReason::Manual)) => expected.end == Some(CourseEnd::ByHand),
        (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled)) => {
            let off = receiver.contract.off;
            let cancels = off.waiting == WaitingWhenDisabled::Cancelled
                || off.published != PublishedWhileDisabled::Held;
            expected.end.is_none()
                && cancels
                && receiver.availability_changes.may_have_been_disabled(finished_at)
        }
        (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)) => {
            expected.end.is_none() && receiver.availability_changes.was_deleted(finished_at)
        }
        (DeliveryState::Expired, Some(EndReason::GaveUp)) => {
            let give_up_at = expected.give_up_at.unwrap_or(i64::MAX);
            expected.end.is_none() && is_punctual(receiver, expected, give_up_at, finished_at)
        }
        _ => false,
    };
    if is_right { None } else { complain(Promise::WrongEnd, "ended wrongly") }
}

/// Whether it ended not before `from`, and as soon as it could.
fn is_punctual(
    receiver: &ReceiverFacts,
    expected: &ExpectedDeliveryState,
    from: i64,
    finished_at: i64,
) -> bool {
    let asked_a_little_earlier = from - 100;
    let latest = expected.latest(receiver, finished_at).max(receiver.excuses.latest(from));
    finished_at >= asked_a_little_earlier && finished_at <= latest
}

/// Delivered means that the last attempt succeeded, and that the receiver really got it.
fn delivered(file: &DeliveryFile<'_>) -> Option<Violation> {
    let last = file.rows.last().filter(|row| row.class == OutcomeClass::Ok);
    let receipt = last.and_then(|row| file.post_of(row)).filter(|post| post.done_at.is_some());
    match receipt {
        Some(_) => None,
        None => Some(file.complain(Promise::Lost, format!("delivered, and never received: {:?}", file.rows))),
    }
}
