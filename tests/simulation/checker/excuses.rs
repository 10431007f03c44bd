//! When an attempt may be late: while no process was there, while the disk took nothing, while all hands were full.

use crate::{
    journal::Journal,
    plan::{Plan, SECOND},
};
use posthaste::domain::time::Timestamp;

/// Spans of time that do not overlap, in order, in milliseconds.
pub(crate) struct Excuses(Vec<(i64, i64)>);

/// Commits, queues and the scheduler's turns together stay far below this.
const TOLERANCE: i64 = SECOND;
/// The scheduler looks again a second after the store refused.
const AFTER_TROUBLE: i64 = 1300;

impl Excuses {
    pub(crate) fn of(plan: &Plan, journal: &Journal, receiver: usize) -> Self {
        let mut spans = Vec::new();
        for (number, life) in journal.lives.iter().enumerate() {
            let Some(leaving) = life.leaving_at else { continue };
            let ready = journal.lives[number + 1..].iter().find_map(|next| next.ready_at);
            spans.push((leaving.as_millis() - TOLERANCE, ready.map_or(i64::MAX, Timestamp::as_millis)));
        }
        for trouble in &journal.troubles {
            spans.push((trouble.from.as_millis() - TOLERANCE, trouble.until.as_millis() + AFTER_TROUBLE));
        }
        let is_scarce = plan.hands < 1000;
        if is_scarce || plan.endpoints[receiver].max_in_flight.is_some() {
            let lane = journal.endpoints[receiver];
            for post in journal.posts.iter().filter(|post| is_scarce || post.lane == lane) {
                let end = post.ended_at.or(post.dropped_at).unwrap_or(post.started_at);
                spans.push((post.started_at.as_millis() - TOLERANCE, end.as_millis() + TOLERANCE));
            }
        }
        spans.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// The latest time at which something due at `due` is still on time.
    pub(crate) fn latest(&self, due: i64) -> i64 {
        let place = self.0.partition_point(|(_, to)| *to < due);
        let excused = self.0.get(place).filter(|(from, _)| *from <= due).map_or(due, |(_, to)| *to);
        excused.saturating_add(TOLERANCE)
    }
}
