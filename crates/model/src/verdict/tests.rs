//! Timelines of the contracts, the meaning of responses, and which failures use a slot.

use super::*;
use crate::{
    contract::{Jitter, OverrideLevel, fixtures},
    time::format_duration,
};
use proptest::prelude::*;
use serde_json::json;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const FRESH: RetryContext =
    RetryContext { retry_index: 0, give_up_at: None, unnumbered: 0, is_local_outage: false };

fn answer(status: u16) -> Outcome {
    Outcome { status: Some(status), error: None, ..Outcome::failed(OutcomeClass::Http, "") }
}

fn failed(class: OutcomeClass) -> Outcome {
    Outcome::failed(class, "failed")
}

/// Returns the attempts, as times after the start, of a delivery whose receiver always answers 500 at once, and its end.
fn run_schedule(contract: &Contract, random: f64) -> (Vec<String>, String) {
    let give_up_at = contract.retry.give_up_after.map(|after| START.plus(after));
    let (mut now, mut attempts) = (START, vec![]);
    for retry_index in 0.. {
        attempts.push(format_duration(now.since(START)));
        let end = |due: Timestamp, how| format!("{how} at {}", format_duration(due.since(START)));
        match decide(&answer(500), &RetryContext { retry_index, give_up_at, ..FRESH }, contract, now, random)
        {
            Verdict::Retry { due, then: DueAction::Attempt } => now = due,
            Verdict::Retry { due, then: DueAction::Exhaust } => return (attempts, end(due, "exhausted")),
            Verdict::Retry { due, then: DueAction::Expire } => return (attempts, end(due, "expired")),
            Verdict::Dead { reason, .. } => return (attempts, end(now, reason.name())),
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

fn minutes(list: &[u64]) -> Vec<String> {
    list.iter().map(|&m| format_duration(Duration::from_mins(m))).collect()
}

#[test]
fn a_receiver_that_always_fails_sees_every_contract_s_attempts_at_their_instants() {
    let strict = |contract: Contract| run_schedule(&contract, 0.7);
    assert_eq!(strict(fixtures::zerofee()), (minutes(&[0, 1, 6, 36, 156, 636]), "exhausted at 636m".into()),);
    assert_eq!(
        strict(fixtures::orientedos()),
        (minutes(&[0, 1, 6, 21, 81]), "exhausted at 441m".into()),
        "six hours of waiting before it is dead"
    );
    assert_eq!(
        strict(fixtures::sendnomi()),
        (minutes(&[0, 1, 6, 36, 156, 516, 1236, 2676]), "exhausted at 2676m".into()),
    );
    assert_eq!(
        strict(fixtures::simpaisa()),
        (minutes(&[0, 1, 6, 36, 156, 876, 2316, 6636]), "exhausted at 6636m".into()),
    );
    let mut standard = fixtures::standard();
    standard.retry.jitter = Jitter::None;
    let seconds = [0, 5, 305, 2105, 9305, 27_305, 63_305, 113_705, 185_705, 272_105];
    let instants: Vec<_> = seconds.iter().map(|&s| format_duration(Duration::from_secs(s))).collect();
    assert_eq!(run_schedule(&standard, 0.7), (instants, "exhausted at 272105s".into()));
}

#[test]
fn bastionary_s_full_jitter_spreads_eight_attempts_over_at_most_1270_seconds() {
    let (attempts, end) = run_schedule(&fixtures::bastionary(), 0.5);
    assert_eq!(attempts, ["0ms", "5s", "15s", "35s", "75s", "155s", "315s", "635s"]);
    assert_eq!(end, "exhausted at 635s");
    assert_eq!(run_schedule(&fixtures::bastionary(), 0.0).1, "exhausted at 0ms");
    assert_eq!(run_schedule(&fixtures::bastionary(), 1.0 - f64::EPSILON).1, "exhausted at 1270s");
}

#[test]
fn standard_spreads_its_waits_by_a_fifth_to_either_side() {
    let last = |random| run_schedule(&fixtures::standard(), random).1;
    assert_eq!(last(0.0), "exhausted at 217684s");
    assert_eq!(last(0.5), "exhausted at 272105s");
}

#[test]
fn answers_mean_what_the_contract_says() {
    for status in 100..=599 {
        let by = |contract: &Contract| decide(&answer(status), &FRESH, contract, START, 0.5);
        let refused =
            |disable| Verdict::Dead { reason: DeadReason::RefusedByReceiver, disable_endpoint: disable };
        let retried = |seconds| Verdict::Retry {
            due: START.plus(Duration::from_secs(seconds)),
            then: DueAction::Attempt,
        };
        let standard = match status {
            200..=299 => Verdict::Delivered,
            410 => refused(true),
            _ => retried(5),
        };
        assert_eq!(by(&fixtures::standard()), standard, "{status}");
        let sendnomi = match status {
            200..=299 => Verdict::Delivered,
            410 => refused(true),
            400..=499 => refused(false),
            _ => retried(60),
        };
        assert_eq!(by(&fixtures::sendnomi()), sendnomi, "{status}");
        let others = if status / 100 == 2 { Verdict::Delivered } else { retried(60) };
        for contract in [fixtures::zerofee(), fixtures::orientedos(), fixtures::simpaisa()] {
            assert_eq!(by(&contract), others, "{status} under {}", contract.name);
        }
    }
}

#[test]
fn classify_recognises_success_and_describes_failure() {
    let classified = |status| {
        let mut outcome = answer(status);
        classify(&mut outcome, &fixtures::standard());
        (outcome.class, outcome.error)
    };
    assert_eq!(classified(204), (OutcomeClass::Ok, None));
    assert_eq!(classified(500), (OutcomeClass::Http, Some("HTTP 500".into())));
    assert_eq!(classified(302), (OutcomeClass::Http, Some("HTTP 302".into())));
    let mut timeout = failed(OutcomeClass::Timeout);
    classify(&mut timeout, &fixtures::standard());
    assert_eq!(timeout, failed(OutcomeClass::Timeout));
}

#[test]
fn a_local_outage_uses_no_slot_under_adaptive_pacing_and_strict_contracts_keep_their_times() {
    let retry_context = RetryContext { is_local_outage: true, retry_index: 2, ..FRESH };
    let by = |class, contract: &Contract| decide(&failed(class), &retry_context, contract, START, 0.5);
    let plain = |class, contract: &Contract| {
        decide(
            &failed(class),
            &RetryContext { is_local_outage: false, ..retry_context },
            contract,
            START,
            0.5,
        )
    };
    let builtin = Contract::builtin().unwrap();
    for class in [OutcomeClass::Timeout, OutcomeClass::Dns, OutcomeClass::Connect, OutcomeClass::Tls] {
        for contract in &builtin {
            let expected = match contract.pacing {
                Pacing::Adaptive => Verdict::RetryUncounted { due: START.plus(Duration::from_secs(5)) },
                Pacing::Strict => plain(class, contract),
            };
            assert_eq!(by(class, contract), expected, "{} {}", contract.name, class.name());
        }
    }
    let adaptive = fixtures::standard();
    for class in [OutcomeClass::Ok, OutcomeClass::Http, OutcomeClass::AddressRefused] {
        assert_eq!(
            by(class, &adaptive),
            plain(class, &adaptive),
            "{}: not affected by an outage",
            class.name()
        );
    }
}

#[test]
fn a_final_wait_after_a_failure_in_a_local_outage_does_not_count_against_the_receiver() {
    let patient =
        Contract::builtin().unwrap().into_iter().find(|one| one.retry.final_wait.is_some()).unwrap();
    let retry_index = patient.retry.waits.len() as u32;
    for (is_local_outage, expected) in [(false, DueAction::Exhaust), (true, DueAction::ExhaustUncounted)] {
        let retry_context = RetryContext { retry_index, is_local_outage, ..FRESH };
        let verdict = decide(&failed(OutcomeClass::Timeout), &retry_context, &patient, START, 0.5);
        assert!(matches!(verdict, Verdict::Retry { then, .. } if then == expected), "{verdict:?}");
    }
}

#[test]
fn local_failures_use_no_slot_of_the_schedule() {
    let by = |class| decide(&failed(class), &FRESH, &fixtures::standard(), START, 0.5);
    assert_eq!(by(OutcomeClass::Local), Verdict::RetryUncounted { due: START.plus(Duration::from_secs(5)) });
    let after = |unnumbered| {
        let retry_context = RetryContext { unnumbered, ..FRESH };
        decide(&failed(OutcomeClass::Local), &retry_context, &fixtures::standard(), START, 0.5)
    };
    assert_eq!(after(2), Verdict::RetryUncounted { due: START.plus(Duration::from_secs(20)) });
    assert_eq!(after(u32::MAX), Verdict::RetryUncounted { due: START.plus(Duration::from_mins(10)) });
    assert_eq!(by(OutcomeClass::StaleConnection), Verdict::RetryUncounted { due: START });
    assert_eq!(by(OutcomeClass::Unknown), Verdict::RetryUncounted { due: START });
    for class in OutcomeClass::ALL {
        let is_again = matches!(by(class), Verdict::RetryUncounted { .. });
        assert_eq!(is_again, !class.is_numbered(), "{}", class.name());
    }
}

#[test]
fn a_request_that_never_reached_the_receiver_is_retried_on_schedule() {
    for class in [
        OutcomeClass::Timeout,
        OutcomeClass::Dns,
        OutcomeClass::Connect,
        OutcomeClass::Tls,
        OutcomeClass::AddressRefused,
    ] {
        let verdict = decide(&failed(class), &FRESH, &fixtures::sendnomi(), START, 0.5);
        let due = START.plus(Duration::from_mins(1));
        assert_eq!(verdict, Verdict::Retry { due, then: DueAction::Attempt }, "{}", class.name());
    }
}

#[test]
fn a_delivery_that_gives_up_before_its_next_attempt_expires_at_that_instant() {
    let contract = fixtures::zerofee();
    let at = |millis| START.plus(Duration::from_millis(millis));
    let by = |give_up_at, class| {
        decide(&failed(class), &RetryContext { give_up_at: Some(give_up_at), ..FRESH }, &contract, START, 0.5)
    };
    let due = at(60_000);
    assert_eq!(by(due, OutcomeClass::Timeout), Verdict::Retry { due, then: DueAction::Attempt });
    let due = at(59_999);
    assert_eq!(by(due, OutcomeClass::Timeout), Verdict::Retry { due, then: DueAction::Expire });
    let past = Timestamp::from_millis(START.as_millis() - 1);
    assert_eq!(by(past, OutcomeClass::Timeout), Verdict::Retry { due: START, then: DueAction::Expire });
    assert_eq!(by(at(4999), OutcomeClass::Local), Verdict::Retry { due: at(4999), then: DueAction::Expire });
    assert_eq!(by(at(5000), OutcomeClass::Local), Verdict::RetryUncounted { due: at(5000) });
}

#[test]
fn giving_up_also_cuts_a_final_wait_short() {
    let overrides = json!({ "retry": { "give_up_after": "2h" } });
    let contract = fixtures::orientedos().with_overrides(&overrides, OverrideLevel::App).unwrap();
    assert_eq!(run_schedule(&contract, 0.5), (minutes(&[0, 1, 6, 21, 81]), "expired at 2h".into()));
}

fn requested_retry_wait(contract: &Contract, retry_index: u32, retry_after: &str) -> u64 {
    let outcome = Outcome { retry_after: Some(retry_after.into()), ..answer(429) };
    match decide(&outcome, &RetryContext { retry_index, ..FRESH }, contract, START, 0.5) {
        Verdict::Retry { due, then: DueAction::Attempt } => due.since(START).as_secs(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_after_lengthens_a_wait_up_to_the_longest_of_the_contract() {
    let standard = fixtures::standard();
    assert_eq!(requested_retry_wait(&standard, 0, "120"), 120);
    assert_eq!(requested_retry_wait(&standard, 1, "120"), 300, "never shortens");
    assert_eq!(requested_retry_wait(&standard, 0, "0"), 5);
    for endless in ["86401", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        assert_eq!(requested_retry_wait(&standard, 0, endless), 86_400, "{endless}");
    }
    for junk in ["-1", "NaN", "1e18", "", "soon", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        assert_eq!(requested_retry_wait(&standard, 0, junk), 5, "{junk}");
    }
}

#[test]
fn a_strict_contract_keeps_to_its_times_whatever_the_receiver_asks() {
    for contract in [fixtures::zerofee(), fixtures::sendnomi(), fixtures::simpaisa()] {
        let retry_index = 0;
        let outcome = Outcome { retry_after: Some("7200".into()), ..answer(503) };
        let verdict = decide(&outcome, &RetryContext { retry_index, ..FRESH }, &contract, START, 0.5);
        let due = START.plus(Duration::from_mins(1));
        assert_eq!(verdict, Verdict::Retry { due, then: DueAction::Attempt }, "{}", contract.name);
    }
    let strict = json!({ "pacing": "strict" });
    let contract = fixtures::standard().with_overrides(&strict, OverrideLevel::App).unwrap();
    assert_eq!(requested_retry_wait(&contract, 0, "120"), 5);
}

proptest! {
    #[test]
    fn nothing_is_due_before_the_attempt_ended_nor_beyond_its_age(
        retry_index in 0u32..40, random in 0.0..1.0f64, class in 1usize..10, status in 100u16..600,
        retry_after in ".{0,20}", age_ms in -1000i64..1_000_000_000,
    ) {
        let give_up_at = Timestamp::from_millis(START.as_millis() + age_ms);
        let retry_context = RetryContext { retry_index, give_up_at: Some(give_up_at), ..FRESH };
        let class = OutcomeClass::ALL[class];
        let outcome = Outcome { class, retry_after: Some(retry_after), ..answer(status) };
        for contract in fixtures::all() {
            match decide(&outcome, &retry_context, &contract, START, random) {
                Verdict::Retry { due, .. } | Verdict::RetryUncounted { due } => {
                    prop_assert!(due >= START && due <= give_up_at.max(START));
                }
                Verdict::Delivered => prop_assert!(class == OutcomeClass::Http && status / 100 == 2),
                Verdict::Dead { disable_endpoint, .. } => prop_assert!(!disable_endpoint || status == 410),
            }
        }
    }
}
