//! Excuses for late attempts: while no process was there, while the disk took nothing, while all permits or slots were
//! taken, while there was no token, and while an endpoint under an adaptive contract was throttled because it had failed.

use crate::{
    event_log::EventLog,
    network::SeenRequest,
    plan::{MINUTE, Plan, SECOND},
};
use posthaste::domain::contract::{Contract, Pacing};

/// Spans of time that do not overlap, in order, in milliseconds.
pub(crate) struct Excuses(Vec<(i64, i64)>);

/// Commits, queues and the scheduler's turns together stay far below this.
const LATENESS_TOLERANCE: i64 = SECOND;
/// The scheduler tries again a second after the store refused.
const RETRY_AFTER_DISK_TROUBLE: i64 = 1300;
/// Longest time that an open circuit breaker waits for its next probe, and longest pause without a given time.
const THROTTLED_MAX: i64 = 5 * MINUTE;

impl Excuses {
    pub(crate) fn of(plan: &Plan, event_log: &EventLog, receiver: usize, contract: &Contract) -> Self {
        let mut spans = Vec::new();
        let is_shared = plan.permits < 1000 || plan.limits.is_shared();
        // A queue holds a permit while it waits for a token: where permits are few, all wait with it.
        let queues = if is_shared { 0..plan.endpoints.len() } else { receiver..receiver + 1 };
        let token_wait = queues.map(|queue| plan.limits.token_wait(queue)).max().unwrap_or(0);
        for (number, life) in event_log.lives.iter().enumerate() {
            let Some(leaving) = life.leaving_at else { continue };
            let ready = event_log.lives[number + 1..].iter().find_map(|next| next.ready_at);
            let ready = ready.map_or(i64::MAX, |at| at.as_millis() + token_wait);
            spans.push((leaving.as_millis() - LATENESS_TOLERANCE, ready));
        }
        for trouble in &event_log.troubles {
            spans.push((
                trouble.from.as_millis() - LATENESS_TOLERANCE,
                trouble.until.as_millis() + RETRY_AFTER_DISK_TROUBLE,
            ));
        }
        let is_narrow = plan.endpoints[receiver].max_in_flight.is_some() || token_wait > 0;
        let is_adaptive = contract.pacing == Pacing::Adaptive;
        let queue = event_log.endpoints[receiver];
        for post in event_log.posts.iter().filter(|post| is_shared || post.queue == queue) {
            let end = end_of(post);
            let is_own = post.queue == queue;
            let mut until = end.max(post.started_at.as_millis() + token_wait);
            if is_own && is_adaptive && has_failed(post) {
                until = until.max(end + throttled_for(post, contract));
            }
            if is_shared || is_narrow || is_adaptive {
                spans.push((post.started_at.as_millis() - LATENESS_TOLERANCE, until + LATENESS_TOLERANCE));
            }
        }
        Self(merged(spans))
    }

    /// The latest time at which something due at `due` is still on time.
    pub(crate) fn latest(&self, due: i64) -> i64 {
        let index = self.0.partition_point(|(_, to)| *to < due);
        let excused = self.0.get(index).filter(|(from, _)| *from <= due).map_or(due, |(_, to)| *to);
        excused.saturating_add(LATENESS_TOLERANCE)
    }
}

fn end_of(post: &SeenRequest) -> i64 {
    post.ended_at.or(post.dropped_at).unwrap_or(post.started_at).as_millis()
}

fn has_failed(post: &SeenRequest) -> bool {
    post.ended_at.is_some()
        && post.class.is_numbered()
        && post.status.is_none_or(|status| !(200..300).contains(&status))
}

/// Returns how long the endpoint may be throttled: until the next probe, or for as long as the receiver asks, within the
/// contract.
fn throttled_for(post: &SeenRequest, contract: &Contract) -> i64 {
    let longest = contract.retry.waits.iter().max().map_or(0, |wait| wait.as_millis() as i64);
    let requested = post.retry_after.map_or(0, |seconds| (i64::from(seconds) * SECOND).min(longest));
    requested.max(THROTTLED_MAX)
}

fn merged(mut spans: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}
