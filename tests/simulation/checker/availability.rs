//! When an endpoint was certainly disabled, and when it was enabled again, as far as the outside can know.

use super::excuses::Excuses;
use crate::{event_log::EventLog, plan::AvailabilityAction};
use posthaste::domain::time::Timestamp;

pub(crate) struct AvailabilityHistory(Vec<AvailabilitySpan>);

struct AvailabilitySpan {
    kind: AvailabilityAction,
    /// Took effect not before this and not after that.
    from: i64,
    to: i64,
}

impl AvailabilityHistory {
    /// `gone`: when answers came that disable the endpoint and are in the history.
    pub(crate) fn of(event_log: &EventLog, endpoint: usize, gone: Vec<Timestamp>, excuses: &Excuses) -> Self {
        let manual = event_log
            .availability_changes
            .iter()
            .filter(|fact| {
                fact.endpoint == endpoint
                    && !matches!(fact.kind, AvailabilityAction::Touch | AvailabilityAction::Skip)
            })
            .map(|fact| AvailabilitySpan {
                kind: fact.kind,
                from: fact.called_at.as_millis(),
                to: fact.answered_at.as_millis(),
            });
        let gone = gone.into_iter().map(|at| AvailabilitySpan {
            kind: AvailabilityAction::Off,
            from: at.as_millis(),
            to: excuses.latest(at.as_millis()),
        });
        Self(manual.chain(gone).collect())
    }

    fn disablings(&self) -> impl Iterator<Item = &AvailabilitySpan> {
        self.0.iter().filter(|fact| fact.kind != AvailabilityAction::On)
    }

    fn enablings(&self) -> impl Iterator<Item = &AvailabilitySpan> {
        self.0.iter().filter(|fact| fact.kind == AvailabilityAction::On)
    }

    pub(crate) fn is_certainly_disabled(&self, at: i64) -> bool {
        self.disablings()
            .any(|off| off.to < at && !self.enablings().any(|on| on.to >= off.from && on.from <= at))
    }

    /// Whether it may have been disabled at some time before `at`.
    pub(crate) fn may_have_been_disabled(&self, at: i64) -> bool {
        self.disablings().any(|off| off.from <= at)
    }

    fn is_certainly_enabled(&self, at: i64) -> bool {
        self.disablings()
            .filter(|off| off.from < at)
            .all(|off| self.enablings().any(|on| on.from > off.to && on.to < at))
    }

    /// Whether it was enabled for certain, and then disabled for certain, between the two.
    pub(crate) fn was_disabled_between(&self, after: i64, before: i64) -> bool {
        self.disablings()
            .any(|off| off.from > after && off.to < before && self.is_certainly_enabled(off.from))
    }

    pub(crate) fn was_deleted(&self, by: i64) -> bool {
        self.0.iter().any(|fact| fact.kind == AvailabilityAction::Delete && fact.from <= by)
    }

    /// Returns the last time before `at` at which it may have been enabled again.
    pub(crate) fn last_enabled(&self, at: i64) -> Option<i64> {
        self.enablings().filter(|on| on.from <= at).map(|on| on.to).max()
    }
}
