//! Tests of the circuit breaker with made-up endpoints: what opens and closes it, and that it never exceeds its limits.

use super::*;
use proptest::prelude::*;

const FULL: u32 = 64;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(seconds))
}

fn ended(delivery: i64, second: u64, is_probe: bool) -> AttemptResult {
    let at = at(second);
    let (delivery, order) = (DeliveryId::from_i64(delivery), OrderingMode::None);
    AttemptResult { delivery, started_at: at, ended_at: at, is_probe, order }
}

fn requested_pause(status: u16, seconds: Option<u64>) -> RequestedPause {
    RequestedPause { status, wait: seconds.map(Duration::from_secs) }
}

/// Returns a circuit that failures opened at second 0.
fn opened() -> CircuitBreaker {
    let mut circuit = CircuitBreaker::default();
    for delivery in 0..9 {
        assert_eq!(circuit.failed(&ended(delivery, 0, false), None), CircuitTransition::Unchanged);
    }
    assert_eq!(circuit.failed(&ended(9, 0, false), None), CircuitTransition::Stopped);
    circuit
}

/// Sends the next probe, which fails at once; returns the time.
fn probe(circuit: &mut CircuitBreaker, requested: Option<RequestedPause>) -> Timestamp {
    let now = circuit.resumes_at().unwrap();
    assert_eq!(circuit.decide(Timestamp::from_millis(now.as_millis() - 1)), SendDecision::Wait(Some(now)));
    assert_eq!(circuit.decide(now), SendDecision::Probe);
    circuit.fetch_probe();
    assert_eq!(circuit.decide(now), SendDecision::SendProbe);
    circuit.send_probe();
    assert_eq!(circuit.decide(now.plus(PROBE_AFTER_MAX)), SendDecision::Wait(None), "one at a time");
    circuit.failed(&AttemptResult { started_at: now, ended_at: now, ..ended(1, 0, true) }, requested);
    now
}

#[test]
fn ten_failures_of_two_deliveries_open_the_circuit_and_a_success_resets_the_count() {
    opened();
    let mut one = CircuitBreaker::default();
    for _ in 0..30 {
        assert_eq!(
            one.failed(&ended(1, 0, false), None),
            CircuitTransition::Unchanged,
            "one delivery says nothing"
        );
    }
    assert_eq!(one.failed(&ended(2, 0, false), None), CircuitTransition::Stopped);
    let mut mixed = CircuitBreaker::default();
    for round in 0..30 {
        for delivery in 0..9 {
            assert_eq!(mixed.failed(&ended(delivery, round, false), None), CircuitTransition::Unchanged);
        }
        assert_eq!(mixed.succeeded(&ended(99, round, false), FULL), CircuitTransition::Unchanged);
        assert!(mixed.is_fully_closed());
    }
}

#[test]
fn with_an_order_failures_of_one_delivery_open_the_circuit() {
    for (order, most) in
        [(OrderingMode::Endpoint, OPENS_AFTER_FAILURES_ORDERED), (OrderingMode::Key, OPENS_AFTER_FAILURES)]
    {
        let mut circuit = CircuitBreaker::default();
        let first = AttemptResult { order, ..ended(1, 0, false) };
        for _ in 1..most {
            assert_eq!(circuit.failed(&first, None), CircuitTransition::Unchanged);
        }
        assert_eq!(circuit.failed(&first, None), CircuitTransition::Stopped);
    }
}

#[test]
fn probes_start_after_five_seconds_and_back_off_to_five_minutes() {
    let mut circuit = opened();
    let probes: Vec<u64> = (0..9).map(|_| probe(&mut circuit, None).since(at(0)).as_secs()).collect();
    assert_eq!(probes, [5, 15, 35, 75, 155, 315, 615, 915, 1215]);
    assert_eq!(
        circuit.delay_reason(at(1300)),
        Some(DelayReason::Open { failures: 19, probe_at: Some(at(1515)) })
    );
    let mut patient = opened();
    probe(&mut patient, Some(requested_pause(503, Some(3600))));
    assert_eq!(patient.resumes_at(), Some(at(5 + 3600)), "as late as it asks");
    let mut strange = CircuitBreaker::default();
    strange.start_half_open(at(0));
    let probes: Vec<u64> = (0..3).map(|_| probe(&mut strange, None).since(at(0)).as_secs()).collect();
    assert_eq!(probes, [0, 5, 15]);
}

#[test]
fn requests_in_flight_at_opening_do_not_move_the_probe() {
    let mut circuit = opened();
    for delivery in 10..60 {
        assert_eq!(circuit.failed(&ended(delivery, 3, false), None), CircuitTransition::Unchanged);
    }
    assert_eq!(circuit.resumes_at(), Some(at(5)));
    assert_eq!(
        circuit.succeeded(&ended(60, 4, false), FULL),
        CircuitTransition::Recovered,
        "whatever succeeds"
    );
    let before = AttemptResult { started_at: at(0), ..ended(61, 5, false) };
    assert_eq!(
        circuit.failed(&before, None),
        CircuitTransition::Unchanged,
        "it says nothing about the endpoint now"
    );
    assert_eq!(circuit.decide(at(5)), SendDecision::Send(Some(1)));
}

#[test]
fn concurrency_doubles_after_recovery_and_halves_on_failures() {
    let mut circuit = opened();
    assert_eq!(circuit.succeeded(&ended(1, 10, true), FULL), CircuitTransition::Recovered);
    let mut widths = Vec::new();
    let mut successes = 0;
    while let Some(width) = circuit.width() {
        widths.push((width, successes));
        successes += 1;
        circuit.succeeded(&ended(2, 11, false), FULL);
        widths.dedup_by_key(|(width, _)| *width);
    }
    assert_eq!(widths, [(1, 0), (2, 1), (4, 3), (8, 7), (16, 15), (32, 31)]);
    assert_eq!(successes, 63);
    assert!(circuit.is_fully_closed());
    let mut falling = opened();
    falling.succeeded(&ended(1, 10, true), FULL);
    for _ in 0..7 {
        falling.succeeded(&ended(2, 11, false), FULL);
    }
    let mut fall = || (falling.failed(&ended(3, 12, false), None), falling.width());
    let nothing = |width| (CircuitTransition::Unchanged, Some(width));
    assert_eq!([fall(), fall(), fall()], [nothing(4), nothing(2), nothing(1)]);
    assert_eq!(fall(), (CircuitTransition::Stopped, None));
    assert_eq!(falling.resumes_at(), Some(at(17)), "open again");
}

#[test]
fn a_pause_lasts_as_asked_or_doubles_each_time() {
    let mut circuit = CircuitBreaker::default();
    assert_eq!(
        circuit.failed(&ended(1, 0, false), Some(requested_pause(429, Some(12)))),
        CircuitTransition::Stopped
    );
    assert_eq!(circuit.decide(at(11)), SendDecision::Wait(Some(at(12))));
    assert_eq!(circuit.decide(at(12)), SendDecision::Send(Some(1)));
    let mut now = 12;
    let mut pauses = Vec::new();
    for _ in 0..7 {
        assert_eq!(
            circuit.failed(&ended(1, now, false), Some(requested_pause(503, None))),
            CircuitTransition::Stopped
        );
        let until = circuit.resumes_at().unwrap();
        pauses.push(until.since(at(now)).as_secs());
        now = until.since(at(0)).as_secs();
        assert_eq!(circuit.decide(until), SendDecision::Send(Some(1)));
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60], "the first pause was a step, too");
    circuit.succeeded(&ended(1, now, false), FULL);
    circuit.failed(&ended(1, now, false), Some(requested_pause(503, None)));
    assert_eq!(circuit.resumes_at(), Some(at(now + 1)), "a success ends it");
}

#[test]
fn of_concurrent_requests_only_the_first_starts_a_pause_and_the_longest_wait_counts() {
    let mut circuit = CircuitBreaker::default();
    let together = |second| AttemptResult { started_at: at(0), ..ended(1, second, false) };
    assert_eq!(circuit.failed(&together(1), Some(requested_pause(429, None))), CircuitTransition::Stopped);
    for _ in 0..50 {
        assert_eq!(
            circuit.failed(&together(1), Some(requested_pause(429, None))),
            CircuitTransition::Unchanged
        );
    }
    assert_eq!(circuit.resumes_at(), Some(at(2)));
    circuit.failed(&together(1), Some(requested_pause(429, Some(30))));
    assert_eq!(circuit.resumes_at(), Some(at(31)));
    assert_eq!(
        circuit.succeeded(&together(1), FULL),
        CircuitTransition::Unchanged,
        "what was out before ends no pause"
    );
    assert_eq!(circuit.decide(at(30)), SendDecision::Wait(Some(at(31))));
}

#[test]
fn a_pause_asked_for_before_a_restart_is_resumed() {
    let paused = requested_pause(429, Some(60)).until(at(0)).unwrap();
    assert_eq!(requested_pause(503, None).until(at(0)), None);
    let mut circuit = CircuitBreaker::default();
    circuit.resume_pause(paused, at(10));
    assert_eq!(circuit.decide(at(59)), SendDecision::Wait(Some(at(60))));
    let pace = circuit.delay_reason(at(59)).unwrap().message();
    assert_eq!(pace, "the endpoint asked for a pause (429) until 2027-01-15T08:01:00Z");
    assert_eq!(circuit.decide(at(60)), SendDecision::Send(Some(1)));
    let mut strange = CircuitBreaker::default();
    strange.start_half_open(at(10));
    strange.resume_pause(paused, at(10));
    assert_eq!(strange.decide(at(59)), SendDecision::Wait(Some(at(60))));
    assert_eq!(strange.decide(at(60)), SendDecision::Probe);
}

#[test]
fn a_failure_right_after_a_pause_pauses_again() {
    let mut circuit = CircuitBreaker::default();
    circuit.failed(&ended(1, 0, false), Some(requested_pause(503, None)));
    assert_eq!(circuit.decide(at(1)), SendDecision::Send(Some(1)));
    assert_eq!(circuit.failed(&ended(1, 1, false), None), CircuitTransition::Stopped);
    assert_eq!(circuit.decide(at(2)), SendDecision::Wait(Some(at(3))));
    assert_eq!(circuit.delay_reason(at(2)), Some(DelayReason::Paused { until: at(3), status: None }));
}

#[test]
fn delays_and_probes_are_described_in_words() {
    let mut circuit = opened();
    let failing = "a probe: the endpoint had failed 10 times in a row since 2027-01-15T08:00:00Z";
    assert_eq!(circuit.probe_note(false), failing);
    assert!(
        circuit.probe_note(true).starts_with("a probe ahead of its time: the endpoint had failed 10 times")
    );
    let pace = circuit.delay_reason(at(1)).unwrap().message();
    assert_eq!(pace, "the endpoint failed 10 times in a row; one is tried at 2027-01-15T08:00:05Z");
    circuit.succeeded(&ended(1, 65, true), FULL);
    let note = circuit.wait_note(at(5)).unwrap();
    assert_eq!(note, "waited 1m longer: the endpoint did not answer");
    assert_eq!(circuit.wait_note(at(65)), None);
    let mut paused = CircuitBreaker::default();
    paused.failed(&ended(1, 0, false), Some(requested_pause(429, Some(12))));
    let pace = paused.delay_reason(at(1)).unwrap().message();
    assert_eq!(pace, "the endpoint asked for a pause (429) until 2027-01-15T08:00:12Z");
    assert_eq!(paused.decide(at(12)), SendDecision::Send(Some(1)));
    let note = paused.wait_note(at(2)).unwrap();
    assert_eq!(note, "waited 10s longer: the endpoint asked for a pause (429, Retry-After 12)");
    assert_eq!(paused.wait_note(at(12)), None, "nothing on the happy path");
}

proptest! {
    /// Only one probe is out while the circuit is open, and never more requests than the limit. A circuit that blocks names the
    /// next time to ask, at most five minutes ahead unless the receiver asked for more.
    #[test]
    fn the_circuit_never_admits_more_than_its_limits(
        steps in prop::collection::vec((0u64..40, 0u8..12, 1i64..5, prop::option::of(0u64..100)), 1..400),
    ) {
        let (mut circuit, mut now) = (CircuitBreaker::default(), 0);
        let mut out: Vec<AttemptResult> = Vec::new();
        for (step, what, delivery, wait) in steps {
            now += step;
            let sent = |is_probe| AttemptResult { started_at: at(now), ..ended(delivery, now, is_probe) };
            match circuit.decide(at(now)) {
                SendDecision::Send(width) if out.len() < width.unwrap_or(FULL) as usize => out.push(sent(false)),
                SendDecision::Probe => {
                    circuit.fetch_probe();
                    prop_assert!(circuit.is_open());
                    if what == 11 {
                        circuit.drop_probe();
                    } else {
                        prop_assert_eq!(circuit.decide(at(now)), SendDecision::SendProbe);
                        circuit.send_probe();
                        out.push(sent(true));
                    }
                }
                SendDecision::Wait(Some(until)) => prop_assert!(until > at(now) && until <= at(now + 300)),
                SendDecision::Wait(None) => prop_assert_eq!(out.iter().filter(|one| one.is_probe).count(), 1),
                SendDecision::Send(_) | SendDecision::SendProbe => {}
            }
            if what < 8 && !out.is_empty() {
                let one = AttemptResult { ended_at: at(now), ..out.remove(usize::from(what) % out.len()) };
                match what {
                    0..3 => circuit.succeeded(&one, FULL),
                    3 => circuit.failed(&one, Some(requested_pause(429, wait))),
                    _ => circuit.failed(&one, None),
                };
                // A probe that returned after its circuit closed and opened again belongs to the earlier opening.
                if !circuit.is_open() {
                    for one in &mut out {
                        one.is_probe = false;
                    }
                }
            }
        }
    }
}
