//! Accepted events are stored: the same id gave the same event, and every endpoint that subscribed has its delivery.

use super::evidence::{EventRow, Evidence};
use crate::event_log::{AnswerFact, Promise, Violation};
use posthaste::domain::contract::PublishedWhileDisabled;
use std::collections::BTreeMap;

pub(crate) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let mut complain = |promise, what: String| violations.push(Violation { promise, what });
    let mut first: BTreeMap<usize, &AnswerFact> = BTreeMap::new();
    for answer in &evidence.event_log.answers {
        let mut earlier = *first.entry(answer.plan).or_insert(answer);
        // A producer that asks again after the event was removed publishes another one.
        let gone_at = evidence.events.get(&earlier.event).and_then(|event| event.gone_at);
        if gone_at.is_some_and(|at| at <= answer.answered_at) {
            first.insert(answer.plan, answer);
            earlier = answer;
        }
        let again = !std::ptr::eq(earlier, answer);
        if (earlier.event, &earlier.deliveries) != (answer.event, &answer.deliveries)
            || (again && answer.is_new)
        {
            complain(
                Promise::Accept,
                format!("event {} was answered differently: {earlier:?} {answer:?}", answer.plan),
            );
        }
        if !evidence.events.contains_key(&answer.event) {
            complain(Promise::Lost, format!("event {} was accepted and is gone", answer.plan));
            continue;
        }
        for (delivery, uid) in &answer.deliveries {
            let found = evidence.files.iter().find(|file| file.id == *delivery);
            let is_right = found.is_some_and(|file| {
                file.event == answer.event && evidence.plan.endpoints[file.receiver].uid == *uid
            });
            if !is_right {
                complain(Promise::Lost, format!("{delivery} of event {} to {uid} is gone", answer.plan));
            }
        }
        for what in missing(evidence, answer) {
            complain(Promise::Lost, what);
        }
    }
    // In order of their ids: of the same event the next may only come when the last one is gone.
    let mut last: BTreeMap<&[u8], &EventRow> = BTreeMap::new();
    for event in evidence.events.values().filter(|event| !event.is_test) {
        let before = last.insert(&event.data, event);
        if before.is_some_and(|before| before.gone_at.is_none_or(|gone_at| gone_at > event.accepted_at)) {
            let data = String::from_utf8_lossy(&event.data);
            complain(Promise::Accept, format!("two events of {data}"));
        }
    }
}

/// Returns the endpoints that certainly existed and got no delivery.
fn missing(evidence: &Evidence<'_>, answer: &AnswerFact) -> Vec<String> {
    let (plan, at) = (evidence.plan, answer.answered_at.as_millis());
    let mut missing = Vec::new();
    for (receiver, endpoint) in evidence.receivers.iter().zip(&plan.endpoints) {
        let may_skip = receiver.contract.off.published == PublishedWhileDisabled::None;
        let may_be_left_out = receiver.availability_changes.was_deleted(at)
            || (may_skip && receiver.availability_changes.may_have_been_disabled(at));
        if !may_be_left_out && !answer.deliveries.iter().any(|(_, uid)| *uid == endpoint.uid) {
            missing.push(format!("event {} has no delivery to {}", answer.plan, endpoint.uid));
        }
    }
    missing
}
