//! Every request is in the history, once; the history is numbered without gaps; duplicates have an excuse.

use super::evidence::{AttemptRow, DeliveryFile, Evidence};
use crate::{
    event_log::{ProcessEnd, Promise, Violation},
    network::SeenRequest,
};
use posthaste::domain::outcome::OutcomeClass;

pub(crate) fn check(evidence: &Evidence<'_>, file: &DeliveryFile<'_>, violations: &mut Vec<Violation>) {
    violations.extend(numbering(file));
    for row in &file.rows {
        let matching = file.posts.iter().filter(|post| tells_of(row, post)).count();
        // A delivery whose payload is gone is not sent, and its history says so.
        let erased_at = evidence.events.get(&file.event).and_then(|event| event.erased_at);
        let is_empty = row.class == OutcomeClass::Local && erased_at.is_some_and(|at| at <= row.started_at);
        if row.class != OutcomeClass::Unknown && matching != 1 && !(is_empty && matching == 0) {
            let what = format!("{matching} requests fit the row {row:?}");
            violations.push(file.complain(Promise::Hidden, what));
        }
    }
    for post in &file.posts {
        let is_told = file.rows.iter().any(|row| tells_of(row, post));
        if !is_told && !is_unknown(evidence, file, post) {
            violations
                .push(file.complain(Promise::Hidden, format!("{post:?} is in no row of {:?}", file.rows)));
        }
    }
    violations.extend(duplicates(file));
}

fn numbering(file: &DeliveryFile<'_>) -> Option<Violation> {
    let mut number = 0;
    for (row, position) in file.rows.iter().zip(1..) {
        number += u32::from(row.class.is_numbered());
        let expected = row.class.is_numbered().then_some(number);
        if row.position != position || row.number != expected {
            return Some(file.complain(Promise::Hidden, format!("gaps in {:?}", file.rows)));
        }
    }
    let is_counted = file.attempt_count == number && file.history_len as usize == file.rows.len();
    (!is_counted).then(|| {
        file.complain(Promise::Hidden, format!("counts {} attempts in {:?}", file.attempt_count, file.rows))
    })
}

/// Whether the row is about this request and says what its sender saw.
fn tells_of(row: &AttemptRow, post: &SeenRequest) -> bool {
    let is_same = row.position == post.attempt.position && row.started_at == post.started_at;
    let class = match (post.ended_at, post.class) {
        (None, _) => OutcomeClass::Unknown,
        (_, OutcomeClass::Http) if post.status.is_some_and(|status| status < 300) => OutcomeClass::Ok,
        (_, class) => class,
    };
    is_same && class == row.class && (class == OutcomeClass::Unknown || row.status == post.status)
}

/// Whether the process died before it could record the request, and the next one recorded that in its place. The second
/// request of a pair (lost connection, then fresh) shares the place of the first.
fn is_unknown(evidence: &Evidence<'_>, file: &DeliveryFile<'_>, post: &SeenRequest) -> bool {
    let life = &evidence.event_log.lives[post.life as usize];
    let died = matches!(life.ending, Some(ProcessEnd::Killed | ProcessEnd::Exited))
        || !evidence.event_log.troubles.is_empty();
    let takeover = |position| {
        let row = file.rows.iter().find(|row| row.position == position && row.class == OutcomeClass::Unknown);
        row.is_some_and(|row| life.ended_at.is_some_and(|ended| ended <= row.started_at))
    };
    let position = post.attempt.position;
    died && (takeover(position) || (post.fresh && position > 1 && takeover(position - 1)))
}

/// A receiver does its work again only if the sender cannot know that it was done.
fn duplicates(file: &DeliveryFile<'_>) -> Option<Violation> {
    let done: Vec<&&SeenRequest> = file.posts.iter().filter(|post| post.done_at.is_some()).collect();
    let known = done.iter().filter(|post| file.is_recorded_success(post)).count();
    let lost = done
        .iter()
        .filter(|post| post.ended_at.is_none() || !file.rows.iter().any(|row| tells_of(row, post)));
    let lies =
        done.iter().filter(|post| post.ended_at.is_some() && post.status.is_none_or(|status| status >= 300));
    let excused = lost.count() + lies.count();
    let is_excused = known <= 1 && done.len() <= excused + 1;
    (!is_excused)
        .then(|| file.complain(Promise::Duplicate, format!("received {} times: {done:?}", done.len())))
}
