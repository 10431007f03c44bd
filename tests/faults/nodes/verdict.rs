//! The outcome of a load during a fault, in one line: lost and repeated deliveries, and what must hold over all nodes
//! together: order, rates, deliveries in flight, and no request after its success was recorded.

use crate::{
    checker::DeliveryFigures,
    harness::{ReceivedWebhook, TestReceiver, database::TestDatabaseServer, report},
};
use std::{collections::HashMap, fmt, time::Duration};
use tokio::time::Instant;

pub(super) const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);

/// Limits of the endpoints that have some.
pub(super) struct EndpointLimits {
    pub(super) per_second: u32,
    pub(super) burst: u32,
    pub(super) in_flight: usize,
}

pub(super) const ENDPOINT_LIMITS: EndpointLimits = EndpointLimits { per_second: 12, burst: 3, in_flight: 2 };

/// Tolerance: requests are recorded a little later than they were sent, some later than others, and the clocks of two
/// programs are read.
const TIME_TOLERANCE: Duration = Duration::from_millis(500);

/// Violations over all nodes together, since the beginning.
#[derive(Debug, Default)]
pub(super) struct Violations {
    /// Requests that arrived after their success had been committed.
    pub(super) after_success: usize,
    /// Requests that arrived after a later one of their ordering group.
    inversions: usize,
    /// The most requests by which the rate was exceeded.
    over_rate: usize,
    most_in_flight: usize,
}

impl Violations {
    pub(super) fn of(receiver: &TestReceiver, server: &TestDatabaseServer) -> Self {
        Self {
            after_success: after_success(&receiver.receipts(), server),
            inversions: inversions(&receiver.receipts_at("/ordered")),
            over_rate: over_rate(&receiver.receipts_at("/paced")),
            most_in_flight: receiver.open_most_at("/narrow"),
        }
    }
}

/// Counts requests that arrived after the server committed their successful attempt.
fn after_success(receipts: &[ReceivedWebhook], server: &TestDatabaseServer) -> usize {
    let known = server.run(
        "postgres",
        "SELECT e.external_id, p.uid, min(extract(epoch FROM pg_xact_commit_timestamp(a.xmin)) * 1000)::bigint
         FROM posthaste.attempts a JOIN posthaste.deliveries_ended d ON d.id = a.delivery JOIN posthaste.events e ON e.id = d.event
         JOIN posthaste.endpoints p ON p.id = d.endpoint WHERE a.class = 0 AND e.external_id IS NOT NULL GROUP BY e.external_id, p.uid",
    );
    let known = known.unwrap();
    let recorded: HashMap<(&str, &str), i64> = known
        .lines()
        .map(|group| {
            let [event, endpoint, at] = group.split('|').collect::<Vec<_>>().try_into().unwrap();
            ((event, endpoint), at.parse().unwrap())
        })
        .collect();
    let (now, now_ms) = now();
    let is_late = |receipt: &&ReceivedWebhook| {
        let came_ms = now_ms - (now - receipt.at).as_millis() as i64;
        let recorded = recorded.get(&(receipt.id(), receipt.path.trim_start_matches('/')));
        recorded.is_some_and(|at| came_ms > at + TIME_TOLERANCE.as_millis() as i64)
    };
    receipts.iter().filter(is_late).count()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server has the real clock, so must the test that compares with it"
)]
fn now() -> (Instant, i64) {
    (Instant::now(), jiff::Timestamp::now().as_millisecond())
}

/// Counts requests that arrive after a later event of their ordering group; a repeated one is allowed.
fn inversions(receipts: &[ReceivedWebhook]) -> usize {
    let mut newest: HashMap<&str, usize> = HashMap::new();
    let mut inversions = 0;
    for receipt in receipts {
        let (group, number) = receipt.id().rsplit_once('-').unwrap();
        let number = number.parse().unwrap();
        let newest = newest.entry(group).or_insert(number);
        inversions += usize::from(number < *newest);
        *newest = number.max(*newest);
    }
    inversions
}

/// Returns the maximum by which any period exceeds the rate.
pub(super) fn over_rate(receipts: &[ReceivedWebhook]) -> usize {
    let mut most = 0;
    for (first, from) in receipts.iter().enumerate() {
        for (until, count) in receipts[first..].iter().zip(1_u32..) {
            let while_s = (until.at - from.at + TIME_TOLERANCE).as_secs_f64();
            let allowed = f64::from(ENDPOINT_LIMITS.burst) + f64::from(ENDPOINT_LIMITS.per_second) * while_s;
            most = most.max(count.saturating_sub(allowed as u32) as usize);
        }
    }
    most
}

/// The outcome of one fault. Values that are no difference hold since the beginning.
#[derive(Debug)]
pub(super) struct FaultOutcome {
    fault: &'static str,
    pub(super) figures: String,
    pub(super) lost: usize,
    pub(super) stuck: usize,
    pub(super) wrong: usize,
    pub(super) duplicates: usize,
    pub(super) unknown: usize,
    pub(super) in_flight: usize,
    pub(super) totals: Violations,
    /// Events so far that were stored by a single-statement transaction; `None` where none can be.
    pub(super) single_statement_events: Option<usize>,
    /// The time until every delivery had ended, after publishing stopped.
    has_settled: Duration,
    /// The time until other nodes had taken over.
    pub(super) takeover: Option<Duration>,
    /// The time until every node worked again.
    pub(super) back: Option<Duration>,
}

impl FaultOutcome {
    pub(super) fn new(
        fault: &'static str,
        before: &DeliveryFigures,
        figures: &DeliveryFigures,
        totals: Violations,
        has_settled: Duration,
    ) -> Self {
        let DeliveryFigures { lost, stuck, phantom, unexplained, unrecorded, changed, .. } = *figures;
        Self {
            fault,
            figures: figures.to_string(),
            lost,
            stuck,
            wrong: phantom + unexplained + unrecorded + changed,
            duplicates: figures.duplicates.saturating_sub(before.duplicates),
            unknown: figures.unknown.saturating_sub(before.unknown),
            in_flight: 0,
            totals,
            single_statement_events: None,
            has_settled,
            takeover: None,
            back: None,
        }
    }

    /// Sets the number of deliveries in flight at the fault.
    pub(super) fn in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }

    pub(super) fn taken_over(mut self, takeover: Duration) -> Self {
        self.takeover = Some(takeover);
        self
    }

    pub(super) fn back(mut self, back: Duration) -> Self {
        self.back = Some(back);
        self
    }

    /// Asserts the promises for faults after which no delivery needs to be repeated.
    #[track_caller]
    pub(super) fn must_be_kept_and_repeat_nothing(&self) {
        self.must_be_kept();
        assert!(self.repeats_nothing(), "{self}");
    }

    pub(super) fn repeats_nothing(&self) -> bool {
        (self.duplicates, self.unknown) == (0, 0)
    }

    /// Whether all promises that hold for any fault were kept.
    pub(super) fn is_kept(&self) -> bool {
        let Violations { after_success, inversions, over_rate, most_in_flight } = self.totals;
        [self.lost, self.stuck, self.wrong, after_success, inversions, over_rate] == [0; 6]
            && most_in_flight <= ENDPOINT_LIMITS.in_flight
            && self.duplicates <= self.in_flight
            && self.unknown <= self.in_flight
            && self.takeover.is_none_or(|takeover| takeover <= TAKEN_OVER_WITHIN)
    }

    #[track_caller]
    pub(super) fn must_be_kept(&self) {
        report(self);
        assert!(self.is_kept(), "{self}");
        assert!(self.single_statement_events != Some(0), "no event was stored by a single statement: {self}");
    }

    /// Asserts that the same check fails for a control.
    #[track_caller]
    pub(super) fn must_be_broken(&self) {
        report(format_args!("control: {self}"));
        assert!(!self.is_kept(), "nothing was noticed: {self}");
    }
}

impl fmt::Display for FaultOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, lost, stuck, duplicates, unknown, in_flight, .. } = self;
        let Violations { after_success, inversions, over_rate, most_in_flight } = self.totals;
        write!(
            out,
            "three nodes, {fault}: lost={lost} stuck={stuck} after_success={after_success} dup={duplicates} "
        )?;
        write!(
            out,
            "in_flight={in_flight} unknown={unknown} inversions={inversions} over_rate={over_rate} "
        )?;
        write!(out, "most_in_flight={most_in_flight}")?;
        if let Some(at_once) = self.single_statement_events {
            write!(out, " at_once={at_once}")?;
        }
        let has_settled = Some(self.has_settled);
        for (name, took) in [("takeover", self.takeover), ("back", self.back), ("settled", has_settled)] {
            if let Some(took) = took {
                write!(out, " {name}={:.1}s", took.as_secs_f64())?;
            }
        }
        write!(out, " ({})", self.figures)
    }
}

#[test]
fn the_verdict_counts_requests_out_of_order_and_over_the_rate() {
    let begun = Instant::now();
    let receipt = |id: String, after: Duration| ReceivedWebhook {
        method: "POST".to_owned(),
        path: "/x".to_owned(),
        headers: HashMap::from([("webhook-id".to_owned(), id)]),
        body: bytes::Bytes::new(),
        at: begun + after,
        answered: Some(200),
    };
    let group = |numbers: &[usize]| -> Vec<ReceivedWebhook> {
        numbers.iter().map(|number| receipt(format!("a-1-{number}"), Duration::ZERO)).collect()
    };
    assert_eq!(inversions(&group(&[0, 1, 1, 2, 3])), 0);
    assert_eq!(inversions(&group(&[0, 1, 0, 2, 1])), 2);
    let paced = |times: u32| -> Vec<ReceivedWebhook> {
        let every = Duration::from_secs(1) / (ENDPOINT_LIMITS.per_second * times);
        (0..60).map(|n| receipt(format!("p-{n}"), every * n)).collect()
    };
    assert_eq!(over_rate(&paced(1)), 0);
    assert!(over_rate(&paced(3)) > 20, "as if each of three nodes had the rate for itself");
}
