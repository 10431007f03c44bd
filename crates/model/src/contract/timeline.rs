//! Times of the attempts that a contract makes if the receiver always fails at once.

use super::Contract;
use crate::{backoff, delivery::DeliveryState, time::humanize_duration};
use std::{fmt, time::Duration};

/// Time after the first attempt; `earliest` and `latest` differ where jitter applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    pub earliest: Duration,
    pub latest: Duration,
}

/// A possible end of the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEnd {
    /// `Dead` or `Expired`.
    pub state: DeliveryState,
    pub at: TimeWindow,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Every attempt that can happen.
    pub attempts: Vec<TimeWindow>,
    /// How many of them happen whatever the jitter.
    pub certain_attempts: usize,
    /// A single end, or two where jitter decides whether it is dead or too old first.
    pub ends: Vec<TimelineEnd>,
}

impl TimeWindow {
    fn exactly(at: Duration) -> Self {
        Self { earliest: at, latest: at }
    }

    fn plus(self, earliest: Duration, latest: Duration) -> Self {
        Self { earliest: self.earliest + earliest, latest: self.latest + latest }
    }

    fn until(self, end: Duration) -> Self {
        Self { earliest: self.earliest.min(end), latest: self.latest.min(end) }
    }
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T+{}", humanize_duration(self.earliest))?;
        if self.earliest == self.latest { Ok(()) } else { write!(f, "…{}", humanize_duration(self.latest)) }
    }
}

impl fmt::Display for TimelineEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.state.name(), self.at)
    }
}

impl Contract {
    pub fn timeline(&self) -> Timeline {
        let retry = &self.retry;
        let give_up = retry.give_up_after.unwrap_or(Duration::MAX);
        let mut timeline = Timeline { attempts: Vec::new(), certain_attempts: 0, ends: Vec::new() };
        let mut next = TimeWindow::exactly(Duration::ZERO);
        // An attempt that would be due when the delivery is too old is not made.
        for retry_index in 0.. {
            timeline.attempts.push(next.until(give_up));
            timeline.certain_attempts += usize::from(next.latest < give_up);
            let wait = |random| backoff::delay_after(retry, retry_index, random);
            let (Some(earliest), Some(latest)) = (wait(0.0), wait(1.0)) else { break };
            next = next.plus(earliest, latest);
            if next.earliest >= give_up {
                timeline
                    .ends
                    .push(TimelineEnd { state: DeliveryState::Expired, at: TimeWindow::exactly(give_up) });
                return timeline;
            }
        }
        let rest = retry.final_wait.unwrap_or_default();
        let end = next.plus(rest, rest);
        if end.earliest <= give_up {
            timeline.ends.push(TimelineEnd { state: DeliveryState::Dead, at: end.until(give_up) });
        }
        if end.latest > give_up {
            timeline
                .ends
                .push(TimelineEnd { state: DeliveryState::Expired, at: TimeWindow::exactly(give_up) });
        }
        timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::{OverrideLevel, fixtures},
        outcome::{Outcome, OutcomeClass},
        time::Timestamp,
        verdict::{DueAction, RetryContext, Verdict, decide},
    };
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn described(contract: &Contract) -> String {
        let timeline = contract.timeline();
        let attempts: Vec<_> = timeline.attempts.iter().map(ToString::to_string).collect();
        let ends: Vec<_> = timeline.ends.iter().map(ToString::to_string).collect();
        format!("{}; {}", attempts.join(" "), ends.join(" or "))
    }

    fn varied(retry: &Value) -> Contract {
        fixtures::zerofee().with_overrides(&json!({ "retry": retry }), OverrideLevel::Operator).unwrap()
    }

    #[test]
    fn the_built_in_contracts_have_the_timelines_of_their_articles() {
        assert_eq!(described(&fixtures::zerofee()), "T+0 T+1m T+6m T+36m T+2h36m T+10h36m; dead at T+10h36m");
        assert_eq!(
            described(&fixtures::bastionary()),
            "T+0 T+0…10s T+0…30s T+0…1m10s T+0…2m30s T+0…5m10s T+0…10m30s T+0…21m10s; dead at T+0…21m10s"
        );
        assert_eq!(described(&fixtures::orientedos()), "T+0 T+1m T+6m T+21m T+1h21m; dead at T+7h21m");
        assert_eq!(
            described(&fixtures::sendnomi()),
            "T+0 T+1m T+6m T+36m T+2h36m T+8h36m T+20h36m T+44h36m; dead at T+44h36m"
        );
        assert_eq!(
            described(&fixtures::simpaisa()),
            "T+0 T+1m T+6m T+36m T+2h36m T+14h36m T+38h36m T+110h36m; dead at T+110h36m"
        );
        let standard = fixtures::standard().timeline();
        assert_eq!((standard.attempts.len(), standard.certain_attempts), (10, 10));
        assert_eq!(standard.attempts[1].to_string(), "T+4s…6s");
        assert_eq!(standard.ends[0].to_string(), "dead at T+60h28m4s…90h42m6s");
    }

    #[test]
    fn age_ends_a_timeline_and_both_ends_are_listed_where_chance_decides() {
        let expires = varied(&json!({ "waits": ["1m", "1h", "1h"], "give_up_after": "61m" }));
        assert_eq!(
            described(&expires),
            "T+0 T+1m; expired at T+1h1m",
            "too old exactly when it would be due"
        );
        let waits = varied(&json!({ "waits": ["1m"], "final_wait": "1h", "give_up_after": "30m" }));
        assert_eq!(described(&waits), "T+0 T+1m; expired at T+30m");
        let chance = varied(&json!({ "waits": ["1m", "1m"], "jitter": "full", "give_up_after": "90s" }));
        assert_eq!(described(&chance), "T+0 T+0…1m T+0…1m30s; dead at T+0…1m30s or expired at T+1m30s");
        assert_eq!(chance.timeline().certain_attempts, 2);
        assert_eq!(described(&varied(&json!({ "waits": [] }))), "T+0; dead at T+0");
    }

    proptest! {
        /// Verdicts keep to the timeline for all random values.
        #[test]
        fn verdicts_happen_within_the_timeline(
            random in prop::collection::vec(0.0..1.0f64, 12),
            waits in prop::collection::vec(1u32..600, 0..8),
            jitter in prop_oneof![Just("none"), Just("full"), Just("20%"), Just("100%")],
            give_up in prop::option::of(1u32..2000),
            final_wait in prop::option::of(1u32..500),
        ) {
            let waits: Vec<_> = waits.iter().map(|wait| format!("{wait}s")).collect();
            let seconds = |n: Option<u32>| n.map(|n| format!("{n}s"));
            let contract = varied(&json!({
                "waits": waits, "jitter": jitter, "give_up_after": seconds(give_up), "final_wait": seconds(final_wait),
            }));
            let timeline = contract.timeline();
            let start = Timestamp::from_millis(0);
            let give_up_at = contract.retry.give_up_after.map(|age| start.plus(age));
            let outcome = Outcome { status: Some(500), ..Outcome::failed(OutcomeClass::Http, "") };
            let inside = |span: TimeWindow, at: Timestamp| (span.earliest..=span.latest).contains(&at.since(start));
            let (mut now, mut made) = (start, 0);
            let (state, at) = loop {
                prop_assert!(inside(timeline.attempts[made], now), "attempt {} at {now}", made + 1);
                let retry_context = RetryContext { retry_index: made as u32, give_up_at, unnumbered: 0, is_local_outage: false };
                let verdict = decide(&outcome, &retry_context, &contract, now, random[made]);
                made += 1;
                match verdict {
                    // Claimed when it is too old already, it expires.
                    Verdict::Retry { due, then: DueAction::Attempt } if give_up_at.is_some_and(|at| at <= due) => {
                        break (DeliveryState::Expired, due);
                    }
                    Verdict::Retry { due, then: DueAction::Attempt } => now = due,
                    Verdict::Retry { due, then: DueAction::Exhaust } => break (DeliveryState::Dead, due),
                    Verdict::Retry { due, then: DueAction::Expire } => break (DeliveryState::Expired, due),
                    Verdict::Dead { .. } => break (DeliveryState::Dead, now),
                    other => panic!("{other:?}"),
                }
            };
            prop_assert!((timeline.certain_attempts..=timeline.attempts.len()).contains(&made));
            let ended = timeline.ends.iter().any(|ending| ending.state == state && inside(ending.at, at));
            prop_assert!(ended, "{state:?} at {at}: {timeline:?}");
        }
    }
}
