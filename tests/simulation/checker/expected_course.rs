//! The course of one delivery, replayed by the checker's own arithmetic: when each attempt was due, and how it had to end.

use super::{
    ends,
    evidence::{AttemptRow, DeliveryFile, Evidence, ReceiverFacts},
    order::OrderingGroups,
    retention,
};
use crate::{
    event_log::{ActionAnswer, ActionFact, Promise, Violation},
    network::SeenRequest,
    plan::ActionKind,
};
use posthaste::domain::{
    circuit_breaker::{EARLY_PROBE_NOTE, UNNEEDED_PROBE_NOTE},
    contract::{Jitter, Pacing, ResponseMeaning, RetryAfter, WaitingWhenDisabled},
    delivery::{Delivery, DeliveryState, EndReason},
    id::made_at,
    outcome::OutcomeClass,
    time::Timestamp,
    verdict::DueAction,
};

/// Wait after a local error, doubled for each row without a number before it.
const LOCAL_ERROR_WAIT: i64 = 5000;
const LOCAL_ERROR_WAIT_MAX: i64 = 600_000;

/// History notes of attempts before their time.
const EARLY_NOTES: [&str; 3] = ["tried early: the endpoint answers again", "a probe", UNNEEDED_PROBE_NOTE];

/// A span of time, in milliseconds, in which something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// How a delivery has ended, as far as this arithmetic can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CourseEnd {
    Delivered(i64),
    Exhausted(i64),
    Refused(i64),
    ByHand,
    Closed,
    /// By an event that is not followed here: an endpoint disabled or deleted, an age reached.
    Elsewhere,
}

/// State of a delivery by the checker's reckoning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedDeliveryState {
    pub(crate) due: Window,
    pub(crate) at_due: DueAction,
    pub(crate) end: Option<CourseEnd>,
    pub(crate) give_up_at: Option<i64>,
    /// The end of the last attempt.
    pub(crate) last_end: i64,
    retry_index: usize,
    /// An extra manual attempt is due; afterwards it goes back to this.
    extra: Option<ReturnState>,
}

#[derive(Clone, Copy, Debug)]
struct ReturnState {
    due: Window,
    at_due: DueAction,
    end: Option<CourseEnd>,
}

impl Window {
    fn at(instant: i64) -> Self {
        Self { from: instant, to: instant }
    }
}

pub(crate) fn check(
    evidence: &Evidence<'_>,
    lines: &OrderingGroups<'_>,
    file: &DeliveryFile<'_>,
    violations: &mut Vec<Violation>,
) {
    let is_murky = file.asks.iter().any(|ask| matches!(ask.said, ActionAnswer::Unknown));
    let receiver = &evidence.receivers[file.receiver];
    let Some(mut expected) = initial_state(evidence, file, receiver) else { return };
    if let Some(order_seq) = lines.turn_of(evidence, file) {
        expected.due.to = expected.due.to.max(order_seq.as_millis());
    }
    let mut course = Course {
        file,
        receiver,
        is_test: evidence.events[&file.event].is_test,
        expected,
        unnumbered: 0,
        violations: Vec::new(),
    };
    course.walk();
    let (mut expected, found) = (course.expected, course.violations);
    if retention::lost_its_data(evidence, file) {
        return;
    }
    // An extra attempt that was not made by the end of its event leaves it where it stood, as it ended before.
    let ended_before = |ask: &&ActionFact| {
        let is_retry = ask.kind == ActionKind::Retry && matches!(ask.said, ActionAnswer::Done(_));
        is_retry && file.finished_at.is_some_and(|at| at < ask.answered_at)
    };
    if evidence.plan.retention.is_some() && file.asks.iter().any(ended_before) {
        expected = expected.back_if_extra();
    }
    if !is_murky {
        violations.extend(found);
    }
    if file.reason == Some(EndReason::Retention) {
        return;
    }
    let is_waiting = file.state == DeliveryState::Pending && file.rows.is_empty();
    if is_waiting && lines.is_blocked(evidence, file) {
        return;
    }
    violations.extend(ends::check(file, receiver, &expected, is_murky));
}

fn initial_state(
    evidence: &Evidence<'_>,
    file: &DeliveryFile<'_>,
    receiver: &ReceiverFacts,
) -> Option<ExpectedDeliveryState> {
    let due = match (file.replay_of, file.made_by) {
        // By a person or by a bulk replay; a backfill has no source among deliveries.
        (_, Some(ask)) => requested_window(ask),
        (None, None) => {
            let event = evidence.events.get(&file.event)?;
            Window::at(event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at)).as_millis())
        }
        // A replay whose answer was lost: it exists or not, and starts at any time.
        (Some(_), None) => return None,
    };
    let age = receiver.contract.retry.give_up_after.map(|age| age.as_millis() as i64);
    Some(ExpectedDeliveryState {
        due,
        at_due: DueAction::Attempt,
        end: None,
        give_up_at: age.map(|age| due.to + age),
        last_end: due.from,
        retry_index: 0,
        extra: None,
    })
}

fn requested_window(ask: &ActionFact) -> Window {
    Window { from: ask.called_at.as_millis(), to: ask.answered_at.as_millis() }
}

struct Course<'a> {
    file: &'a DeliveryFile<'a>,
    receiver: &'a ReceiverFacts,
    is_test: bool,
    expected: ExpectedDeliveryState,
    /// Rows of the history that have no number.
    unnumbered: u32,
    violations: Vec<Violation>,
}

impl Course<'_> {
    fn walk(&mut self) {
        for position in 0..=self.file.rows.len() {
            for ask in &self.file.asks {
                if let ActionAnswer::Done(after) = &ask.said
                    && after.history_len as usize == position
                {
                    self.ask(ask, after);
                }
            }
            if let Some(row) = self.file.rows.get(position) {
                self.row(row);
            }
        }
    }

    fn complain(&mut self, promise: Promise, what: &str, at: i64) {
        let Self { file, expected, .. } = self;
        let text = format!(
            "{what} at {}: {expected:?} rows {:?} asks {:?}",
            Timestamp::from_millis(at),
            file.rows,
            file.asks
        );
        self.violations.push(self.file.complain(promise, text));
    }

    fn ask(&mut self, ask: &ActionFact, after: &Delivery) {
        let at = ask.answered_at.as_millis();
        let expected = self.expected;
        match ask.kind {
            ActionKind::Retry => {
                let Some(back) = after.saved_state else {
                    return self.complain(Promise::Schedule, "a retry that goes back nowhere", at);
                };
                let mut stood = ReturnState { due: expected.due, at_due: expected.at_due, end: expected.end };
                if back.state == DeliveryState::Retrying {
                    self.must_have_waited(back.due.map_or(0, Timestamp::as_millis), at);
                    stood.due = Window::at(back.due.map_or(0, Timestamp::as_millis));
                    stood.at_due = back.at_due;
                } else {
                    stood.end = stood.end.or(Some(CourseEnd::Elsewhere));
                }
                self.expected.extra = Some(stood);
                self.expected.due = requested_window(ask);
                self.expected.at_due = DueAction::Attempt;
                self.expected.end = None;
            }
            ActionKind::Replay => {
                let age = self.receiver.contract.retry.give_up_after.map(|age| age.as_millis() as i64);
                self.expected = ExpectedDeliveryState {
                    due: requested_window(ask),
                    at_due: DueAction::Attempt,
                    end: None,
                    give_up_at: age.map(|age| at + age),
                    retry_index: 0,
                    extra: None,
                    ..expected
                };
            }
            ActionKind::Cancel => {
                self.expected =
                    ExpectedDeliveryState { end: Some(CourseEnd::ByHand), extra: None, ..expected }
            }
            ActionKind::Close => {
                self.expected =
                    ExpectedDeliveryState { end: Some(CourseEnd::Closed), extra: None, ..expected }
            }
            ActionKind::Test => {}
        }
    }

    /// Checks the due time of a delivery that was retrying when an extra attempt was requested.
    fn must_have_waited(&mut self, due: i64, at: i64) {
        let expected = self.expected;
        let released = self.receiver.availability_changes.last_enabled(at).unwrap_or(0);
        let is_brought_forward = self.receiver.contract.pacing == Pacing::Adaptive
            && due <= made_at(self.file.id.as_i64()).as_millis().max(released);
        // The end of its age counts from when a replay was requested, a little before its answer.
        let from = expected.due.from - if expected.at_due == DueAction::Expire { 100 } else { 0 };
        let is_right = expected.end.is_none()
            && (due >= from || is_brought_forward)
            && due <= expected.due.to.max(released) + 1;
        if !is_right {
            self.complain(Promise::Schedule, &format!("was to be due {}", Timestamp::from_millis(due)), at);
        }
    }

    fn row(&mut self, row: &AttemptRow) {
        let post = self.file.post_of(row);
        let started_at = row.started_at.as_millis();
        // A probe of a throttled endpoint: an extra attempt, after which everything is as it was.
        let is_early_probe = row.has_note(EARLY_PROBE_NOTE) || row.has_note(UNNEEDED_PROBE_NOTE);
        if is_early_probe && self.expected.extra.is_none() {
            let ExpectedDeliveryState { due, at_due, end, .. } = self.expected;
            self.expected.extra = Some(ReturnState { due, at_due, end });
        }
        let Some(post) = post else {
            // A takeover: due at once, or back to where it was before the extra attempt.
            let mut next =
                ExpectedDeliveryState { due: Window::at(started_at), last_end: started_at, ..self.expected };
            next.at_due = DueAction::Attempt;
            self.expected = next.back_if_extra();
            self.unnumbered += 1;
            return;
        };
        self.must_be_on_time(post, row, started_at);
        let end = post.ended_at.or(post.dropped_at).unwrap_or(post.started_at).as_millis();
        self.expected.last_end = end;
        match row.class {
            OutcomeClass::Ok => self.expected.end = Some(CourseEnd::Delivered(end)),
            OutcomeClass::StaleConnection if !is_early_probe => self.expected.due = Window::at(end),
            // An automatic one: it ends like any other.
            _ if is_early_probe && self.refuses(post) => self.expected.end = Some(CourseEnd::Refused(end)),
            _ if self.expected.extra.is_some() => self.expected = self.expected.back_if_extra(),
            OutcomeClass::Unknown => self.expected.due = Window::at(end),
            OutcomeClass::Local => {
                let wait = (LOCAL_ERROR_WAIT << self.unnumbered.min(10)).min(LOCAL_ERROR_WAIT_MAX);
                self.wait(Window::at(end + wait), DueAction::Attempt);
            }
            _ => self.failed(post, end),
        }
        self.unnumbered += u32::from(!row.class.is_numbered());
    }

    fn must_be_on_time(&mut self, post: &SeenRequest, row: &AttemptRow, at: i64) {
        let (expected, receiver) = (self.expected, self.receiver);
        if expected.end.is_some() {
            return self.complain(Promise::AfterEnd, "an attempt after the end", at);
        }
        if expected.at_due != DueAction::Attempt {
            return self.complain(Promise::Schedule, "one attempt too many", at);
        }
        // A recovered endpoint need not wait, and the history says so; being held in between makes it forget.
        let was_held =
            receiver.availability_changes.last_enabled(at).is_some_and(|on| on >= expected.last_end);
        let may_be_early = receiver.contract.pacing == Pacing::Adaptive
            && (EARLY_NOTES.iter().any(|note| row.has_note(note)) || was_held);
        if at < expected.due.from && !may_be_early {
            self.complain(Promise::Schedule, &format!("{} ms early", expected.due.from - at), at);
        }
        let latest = expected.latest(receiver, at);
        if at > latest {
            self.complain(Promise::Schedule, &format!("{} ms late", at - latest), at);
        }
        if !self.is_test && !post.fresh && receiver.availability_changes.is_certainly_disabled(at) {
            self.complain(Promise::AfterEnd, "an attempt to an endpoint that is off", at);
        }
        let cancels =
            receiver.contract.off.waiting == WaitingWhenDisabled::Cancelled && expected.extra.is_none();
        let waited_from = receiver.excuses.latest(expected.last_end.max(expected.due.from.min(at)));
        if cancels && !self.is_test && receiver.availability_changes.was_disabled_between(waited_from, at) {
            self.complain(Promise::AfterEnd, "an attempt after the endpoint's being off cancelled it", at);
        }
    }

    /// Whether the answer says that there is no point in trying again.
    fn refuses(&self, post: &SeenRequest) -> bool {
        let answers = &self.receiver.contract.answers;
        let meaning =
            post.status.filter(|_| post.class == OutcomeClass::Http).map(|status| answers.meaning(status));
        matches!(meaning, Some(ResponseMeaning::Never | ResponseMeaning::DisableEndpoint))
    }

    /// A numbered attempt failed and used a slot of the schedule.
    fn failed(&mut self, post: &SeenRequest, end: i64) {
        let contract = &self.receiver.contract;
        if self.refuses(post) {
            self.expected.end = Some(CourseEnd::Refused(end));
            return;
        }
        let wait = contract.retry.waits.get(self.expected.retry_index);
        self.expected.retry_index += 1;
        match (wait, contract.retry.final_wait) {
            (Some(wait), _) => {
                let requested = self.requested_wait(post);
                let window = spread(wait.as_millis() as i64, contract.retry.jitter);
                self.wait(
                    Window { from: end + window.from.max(requested), to: end + window.to.max(requested) },
                    DueAction::Attempt,
                );
            }
            (None, Some(wait)) => self.wait(Window::at(end + wait.as_millis() as i64), DueAction::Exhaust),
            (None, None) => self.expected.end = Some(CourseEnd::Exhausted(end)),
        }
    }

    /// Returns the wait that the receiver asked for, as far as the contract honours it.
    fn requested_wait(&self, post: &SeenRequest) -> i64 {
        let contract = &self.receiver.contract;
        let honours = contract.pacing == Pacing::Adaptive && contract.retry.retry_after == RetryAfter::Honour;
        let longest = contract.retry.waits.iter().max().map_or(0, |wait| wait.as_millis() as i64);
        post.retry_after.filter(|_| honours).map_or(0, |seconds| (i64::from(seconds) * 1000).min(longest))
    }

    fn wait(&mut self, due: Window, at_due: DueAction) {
        self.expected.due = due;
        self.expected.at_due = at_due;
        if let Some(give_up_at) = self.expected.give_up_at
            && give_up_at < due.to
        {
            let is_certain = give_up_at < due.from;
            let from = give_up_at.max(self.expected.last_end);
            self.expected.due =
                Window { from: if is_certain { from } else { due.from }, to: from.max(due.from) };
            self.expected.at_due = if is_certain { DueAction::Expire } else { at_due };
        }
    }
}

impl ExpectedDeliveryState {
    /// Returns the latest start, or end, at which a delivery that is due as it stands is on time.
    pub(crate) fn latest(&self, receiver: &ReceiverFacts, at: i64) -> i64 {
        let released = receiver.availability_changes.last_enabled(at).unwrap_or(0);
        receiver.excuses.latest(self.due.to.max(self.last_end).max(released))
    }

    fn back_if_extra(mut self) -> Self {
        if let Some(back) = self.extra.take() {
            (self.due, self.at_due, self.end) = (back.due, back.at_due, back.end);
        }
        self
    }
}

fn spread(wait: i64, jitter: Jitter) -> Window {
    match jitter {
        Jitter::None => Window::at(wait),
        Jitter::Full => Window { from: 0, to: wait },
        Jitter::Percent(percent) => {
            let reach = wait * i64::from(percent) / 100 + 1;
            Window { from: wait - reach, to: wait + reach }
        }
    }
}
