//! Retention, by the checker's own arithmetic: no record is removed before its time or before it has ended, and in the end
//! every record is removed that is not kept forever.

use super::evidence::{DeliveryFile, Evidence};
use crate::{
    event_log::{ActionAnswer, ActionFact, Promise, Violation},
    plan::{ActionKind, DAY, MINUTE, RetentionPlan},
};
use posthaste::domain::{
    delivery::{DeliveryState, EndReason},
    id::EventId,
    time::Timestamp,
};

pub(crate) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for file in &evidence.files {
        let complaint = match (file.gone_at, evidence.plan.retention) {
            (None, _) => None,
            (Some(_), None) => Some("went although it is kept".to_owned()),
            (Some(at), Some(keeps)) => went_early(evidence, file, &keeps, at.as_millis()),
        };
        let history = evidence.plan.retention.and_then(|keeps| history_went_early(file, &keeps));
        let ended = ended_early(evidence, file);
        for what in [complaint, history, ended].into_iter().flatten() {
            violations.push(file.complain(Promise::Kept, format!("{what}: {file:?}")));
        }
    }
    let Some(keeps) = evidence.plan.retention else { return };
    for (id, event) in &evidence.events {
        let files = || evidence.files.iter().filter(|file| file.event == *id);
        let what = match event.gone_at.map(Timestamp::as_millis) {
            Some(at) if at < end_at(evidence, *id, at) => "an event went early",
            Some(at) if at < known_until(evidence, *id) => "an Idempotency-Key went early",
            Some(at) if files().any(|file| file.gone_at.is_none_or(|gone| gone.as_millis() > at)) => {
                "an event went before its deliveries"
            }
            None if !files().any(|file| is_dead_letter(file) && keeps.dead_letters.is_none()) => {
                "an event is kept too long"
            }
            _ if event.erased_at.is_some_and(|at| was_needed(evidence, *id, &keeps, at.as_millis())) => {
                "a payload went early"
            }
            _ => continue,
        };
        let about: Vec<_> = files().collect();
        let what = format!("{what}: {id} {event:?} {about:?}");
        violations.push(Violation { promise: Promise::Kept, what });
    }
}

fn is_dead_letter(file: &DeliveryFile<'_>) -> bool {
    file.state == DeliveryState::Dead && file.reason != Some(EndReason::Closed)
}

/// Returns the earliest time at which retention may have closed an open dead letter.
fn closed_after(file: &DeliveryFile<'_>, keeps: &RetentionPlan) -> Option<i64> {
    let died_at = file.finished_at.filter(|_| file.was_closed_by_retention())?;
    Some(keeps.dead_letters.map_or(i64::MAX, |kept| died_at.as_millis() + kept))
}

/// Returns when a person restarted it, as far as that is known by `at`.
fn restarts(file: &DeliveryFile<'_>, at: i64) -> impl Iterator<Item = i64> {
    let is_restart = |ask: &&&ActionFact| {
        matches!(ask.said, ActionAnswer::Done(_))
            && matches!(ask.kind, ActionKind::Retry | ActionKind::Replay)
    };
    let asks = file.asks.iter().filter(is_restart).copied().chain(file.made_by);
    asks.filter(move |ask| ask.answered_at.as_millis() <= at).map(|ask| ask.called_at.as_millis())
}

/// Returns until when an event is kept at least, by what is known of its deliveries at that time.
fn end_at(evidence: &Evidence<'_>, id: EventId, at: i64) -> i64 {
    let (Some(keeps), Some(event)) = (evidence.plan.retention, evidence.events.get(&id)) else {
        return i64::MAX;
    };
    let from = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at)).as_millis();
    let is_there = |file: &&DeliveryFile<'_>| file.gone_at.is_none_or(|gone| gone.as_millis() >= at);
    let files = evidence.files.iter().filter(|file| file.event == id).filter(is_there);
    files.flat_map(|file| restarts(file, at)).fold(from, i64::max) + keeps.events
}

fn known_until(evidence: &Evidence<'_>, id: EventId) -> i64 {
    let has_key =
        |answer: usize| evidence.plan.events.get(answer).is_some_and(|plan| plan.idempotency_key.is_some());
    let is_keyed = evidence.event_log.answers.iter().any(|answer| answer.event == id && has_key(answer.plan));
    if is_keyed { evidence.events[&id].accepted_at.as_millis() + DAY } else { 0 }
}

/// Whether a delivery was requested when its payload was gone.
pub(crate) fn lost_its_data(evidence: &Evidence<'_>, file: &DeliveryFile<'_>) -> bool {
    let erased_at = evidence.events.get(&file.event).and_then(|event| event.erased_at);
    erased_at.is_some_and(|at| {
        let ends = file.reason == Some(EndReason::SerialisationFailed);
        ends || file.rows.iter().any(|row| row.started_at >= at && file.post_of(row).is_none())
    })
}

fn went_early(
    evidence: &Evidence<'_>,
    file: &DeliveryFile<'_>,
    keeps: &RetentionPlan,
    at: i64,
) -> Option<String> {
    let Some(finished_at) = file.finished_at.map(Timestamp::as_millis) else {
        return Some("went without having ended".to_owned());
    };
    let end = end_at(evidence, file.event, at);
    let until = if let Some(closed_after) = closed_after(file, keeps) {
        closed_after.max(end)
    } else if is_dead_letter(file) {
        keeps.dead_letters.map_or(i64::MAX, |kept| finished_at + kept)
    } else if finished_at > end + MINUTE {
        // The delivery ended only after its event: how is on record for as long as attempts are kept.
        finished_at + keeps.attempts
    } else {
        end
    };
    (at < until).then(|| format!("went {} ms early", until - at))
}

/// Finds attempts that were removed before their delivery. Where people restarted it, the time of its earlier end is not
/// known.
fn history_went_early(file: &DeliveryFile<'_>, keeps: &RetentionPlan) -> Option<String> {
    if !file.asks.is_empty() {
        return None;
    }
    let kept = file.finished_at.map_or(i64::MAX, |at| at.as_millis() + keeps.attempts);
    let until = closed_after(file, keeps).unwrap_or(kept);
    let alone = file.rows.iter().filter(|row| row.gone_at.is_some() && row.gone_at != file.gone_at);
    let early = alone.filter_map(|row| row.gone_at).any(|at| at.as_millis() < until || is_dead_letter(file));
    early.then(|| "its history went early".to_owned())
}

fn ended_early(evidence: &Evidence<'_>, file: &DeliveryFile<'_>) -> Option<String> {
    let at = file.finished_at.filter(|_| file.reason == Some(EndReason::Retention))?.as_millis();
    (at < end_at(evidence, file.event, at)).then(|| "retention ended it early".to_owned())
}

/// Whether the payload was erased although it was kept, or although an automatic delivery needed it.
fn was_needed(evidence: &Evidence<'_>, id: EventId, keeps: &RetentionPlan, at: i64) -> bool {
    let event = &evidence.events[&id];
    let from = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at)).as_millis();
    let is_over = at >= end_at(evidence, id, at);
    let mut untouched = evidence
        .files
        .iter()
        .filter(|file| file.event == id && file.asks.is_empty() && file.made_by.is_none());
    let needs = |file: &DeliveryFile<'_>| {
        let ended = file.finished_at.is_some_and(|finished| finished.as_millis() <= at);
        let is_gone = file.gone_at.is_some_and(|gone| gone.as_millis() <= at);
        let is_closed = file.reason == Some(EndReason::Closed);
        let is_settled =
            matches!(file.state, DeliveryState::Delivered | DeliveryState::Cancelled) || is_closed;
        closed_after(file, keeps).is_some_and(|closed| at < closed)
            || !ended
            || (is_dead_letter(file) && !is_gone)
            || !(is_over || is_settled || is_dead_letter(file))
    };
    let is_replay_unseen = |file: &DeliveryFile<'_>| file.replay_of.is_some();
    (!is_over && at < from + keeps.payloads) || untouched.any(|file| !is_replay_unseen(file) && needs(file))
}
