//! Order, where an endpoint keeps it: of an ordering group one delivery is under way at a time, in the order in which they
//! were published, and a dead one blocks the rest or not, as chosen. Replays by people are outside the order.

use super::evidence::{DeliveryFile, Evidence};
use crate::{
    event_log::{Promise, Violation},
    network::SeenRequest,
    order::{self, EndNote},
    plan::AvailabilityAction,
};
use posthaste::domain::{
    delivery::{DeliveryState, EndReason},
    id::EventId,
    ordering::{OnDead, OrderingMode},
    time::Timestamp,
};
use rusqlite::Connection;
use std::{collections::BTreeMap, time::Duration};

const COMMITTED_WITHIN: Duration = Duration::from_millis(500);

/// A receiver, and the key of its events if it keeps order by that.
type OrderingGroupKey = (usize, Option<&'static str>);

/// Facts about each ordering group.
pub(crate) struct OrderingGroups<'a> {
    members: BTreeMap<OrderingGroupKey, Vec<OrderedDelivery<'a>>>,
}

pub(crate) struct OrderedDelivery<'a> {
    file: &'a DeliveryFile<'a>,
    /// Published not before this; known to be accepted by that.
    called_at: Timestamp,
    answered_at: Option<Timestamp>,
    /// Requests before a replay.
    posts: Vec<&'a SeenRequest>,
    /// From here on it blocks no other.
    over_at: Option<Timestamp>,
    /// Times at which the next may have become the head because of it.
    ends: Vec<Timestamp>,
}

impl<'a> OrderingGroups<'a> {
    pub(crate) fn of(evidence: &'a Evidence<'a>, disk: &Connection) -> Self {
        let mut notes: BTreeMap<_, Vec<EndNote>> = BTreeMap::new();
        for note in order::notes(disk) {
            notes.entry(note.delivery).or_default().push(note);
        }
        let mut members: BTreeMap<OrderingGroupKey, Vec<OrderedDelivery<'a>>> = BTreeMap::new();
        for file in &evidence.files {
            if let Some(group) = group_of(evidence, file) {
                let ends = notes.remove(&file.id).unwrap_or_default();
                members.entry(group).or_default().push(OrderedDelivery::of(evidence, file, &ends));
            }
        }
        Self { members }
    }

    pub(crate) fn check(&self, violations: &mut Vec<Violation>) {
        for members in self.members.values() {
            for (index, one) in members.iter().enumerate() {
                for other in &members[index + 1..] {
                    violations.extend(one.check_with(other));
                }
            }
        }
    }

    fn others(
        &self,
        evidence: &Evidence<'_>,
        file: &DeliveryFile<'_>,
    ) -> impl Iterator<Item = &OrderedDelivery<'a>> {
        let group = group_of(evidence, file).and_then(|group| self.members.get(&group));
        group.into_iter().flatten().filter(|member| member.file.id != file.id)
    }

    /// Returns when the last delivery ended that it may have waited for; none if it is in no ordering group.
    pub(crate) fn turn_of(&self, evidence: &Evidence<'_>, file: &DeliveryFile<'_>) -> Option<Timestamp> {
        // An end without a request is dated when it was decided, and noted when it was committed.
        let ended_at = file.finished_at.map(|at| at.plus(COMMITTED_WITHIN));
        let started_at = file.posts.first().map(|post| post.started_at).or(ended_at)?;
        let ends = self.others(evidence, file).flat_map(|other| other.ends.iter().copied());
        ends.filter(|at| *at <= started_at).max()
    }

    /// Whether a dead delivery blocks it for good, and no person resolved that.
    pub(crate) fn is_blocked(&self, evidence: &Evidence<'_>, file: &DeliveryFile<'_>) -> bool {
        file.posts.is_empty()
            && self.others(evidence, file).any(|other| {
                let DeliveryFile { state, reason, .. } = other.file;
                other.over_at.is_none() && *state == DeliveryState::Dead && *reason != Some(EndReason::Closed)
            })
    }
}

/// Returns the ordering group; replays, backfills and tests have none.
fn group_of(evidence: &Evidence<'_>, file: &DeliveryFile<'_>) -> Option<OrderingGroupKey> {
    let endpoint = &evidence.plan.endpoints[file.receiver];
    let came_with_its_event = file.id.as_i64() <= file.event.as_i64() + 65_535;
    if endpoint.ordered.is_none() || !came_with_its_event || file.replay_of.is_some() {
        return None;
    }
    let key = evidence.plan.events[number_of(evidence, file.event)?].key;
    match endpoint.ordered {
        OrderingMode::Key => key.map(|key| (file.receiver, Some(key))),
        _ => Some((file.receiver, None)),
    }
}

/// The number of the event in the plan, which is its data.
fn number_of(evidence: &Evidence<'_>, event: EventId) -> Option<usize> {
    let event = evidence.events.get(&event).filter(|event| !event.is_test)?;
    let data: serde_json::Value = serde_json::from_slice(&event.data).ok()?;
    data["number"].as_u64().map(|number| number as usize)
}

impl<'a> OrderedDelivery<'a> {
    fn of(evidence: &Evidence<'a>, file: &'a DeliveryFile<'a>, notes: &[EndNote]) -> Self {
        let plan = &evidence.plan.endpoints[file.receiver];
        let skipped = evidence
            .event_log
            .availability_changes
            .iter()
            .find(|fact| fact.endpoint == file.receiver && fact.kind == AvailabilityAction::Skip);
        let from_start = plan.on_dead == Some(OnDead::Skip);
        let over_at = |note: &EndNote| match skipped {
            _ if !note.is_dead || note.is_closed || from_start => Some(note.at),
            Some(skipped) => Some(note.at.max(skipped.called_at)),
            None => None,
        };
        let first_end = notes.first().map(|note| note.at);
        let is_of_first_life = |post: &&&SeenRequest| first_end.is_none_or(|end| post.started_at < end);
        let number = number_of(evidence, file.event).unwrap_or_default();
        let answers = evidence.event_log.answers.iter().filter(|answer| answer.event == file.event);
        let mut ends: Vec<_> = notes.iter().map(|note| note.at).collect();
        ends.extend(skipped.map(|skipped| skipped.answered_at));
        Self {
            file,
            called_at: order::called_at(&evidence.plan.events[number]),
            answered_at: answers.map(|answer| answer.answered_at).min(),
            posts: file.posts.iter().filter(is_of_first_life).copied().collect(),
            over_at: notes.iter().filter_map(over_at).min(),
            ends,
        }
    }

    fn came_before(&self, other: &Self) -> bool {
        self.answered_at.is_some_and(|at| at < other.called_at)
    }

    /// Whether nothing of it was sent while the other blocked it.
    fn waited_for(&self, other: &Self) -> bool {
        let over_at = other.over_at.unwrap_or(Timestamp::NEVER);
        self.posts.iter().all(|post| post.started_at >= over_at)
    }

    fn check_with(&self, other: &Self) -> Option<Violation> {
        let is_right = if self.came_before(other) {
            other.waited_for(self)
        } else if other.came_before(self) {
            self.waited_for(other)
        } else {
            // They were published at the same time: one after the other, in whatever order.
            self.waited_for(other) || other.waited_for(self)
        };
        let text = |member: &Self| {
            let OrderedDelivery { called_at, answered_at, over_at, posts, file, .. } = member;
            format!("{} {called_at}..{answered_at:?} over {over_at:?} {posts:?}", file.id)
        };
        (!is_right).then(|| {
            let what = format!("out of order: {} and {}", text(self), text(other));
            self.file.complain(Promise::Order, what)
        })
    }
}
