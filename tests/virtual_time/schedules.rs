//! Schedule of each contract, until it stops: the row "waits" of the specification, instant by instant.

use crate::fixture::{ADMIN, Behaviour, Fixture, TAKES};
use posthaste::domain::{
    delivery::{DeliveryState, EndReason},
    time::Timestamp,
};
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

struct ExpectedSchedule {
    contract: &'static str,
    /// Seconds from the first attempt to each, were requests to take no time.
    attempts_at: &'static [u64],
    /// Seconds from the first attempt to the end, likewise.
    dead_at: u64,
}

const EXPECTED_SCHEDULES: [ExpectedSchedule; 4] = [
    ExpectedSchedule {
        contract: "zerofee",
        attempts_at: &[0, MINUTE, 6 * MINUTE, 36 * MINUTE, 2 * HOUR + 36 * MINUTE, 10 * HOUR + 36 * MINUTE],
        dead_at: 10 * HOUR + 36 * MINUTE,
    },
    ExpectedSchedule {
        contract: "orientedos",
        attempts_at: &[0, MINUTE, 6 * MINUTE, 21 * MINUTE, HOUR + 21 * MINUTE],
        dead_at: 7 * HOUR + 21 * MINUTE,
    },
    ExpectedSchedule {
        contract: "sendnomi",
        attempts_at: &[
            0,
            MINUTE,
            6 * MINUTE,
            36 * MINUTE,
            2 * HOUR + 36 * MINUTE,
            8 * HOUR + 36 * MINUTE,
            20 * HOUR + 36 * MINUTE,
            44 * HOUR + 36 * MINUTE,
        ],
        dead_at: 44 * HOUR + 36 * MINUTE,
    },
    ExpectedSchedule {
        contract: "simpaisa",
        attempts_at: &[
            0,
            MINUTE,
            6 * MINUTE,
            36 * MINUTE,
            2 * HOUR + 36 * MINUTE,
            14 * HOUR + 36 * MINUTE,
            38 * HOUR + 36 * MINUTE,
            110 * HOUR + 36 * MINUTE,
        ],
        dead_at: 110 * HOUR + 36 * MINUTE,
    },
];

/// Shifts the instant by the time that so many requests before it took.
fn instant(start: Timestamp, seconds: u64, requests_before: usize) -> Timestamp {
    start.plus(Duration::from_secs(seconds)).plus(TAKES * requests_before as u32)
}

#[tokio::test(start_paused = true)]
async fn every_attempt_comes_at_its_instant_and_then_the_delivery_is_dead() {
    for course in EXPECTED_SCHEDULES {
        let fixture = Fixture::new(course.contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_hours(24 * 30)).await;
        let seen = fixture.seen();
        let expected: Vec<_> = course
            .attempts_at
            .iter()
            .enumerate()
            .map(|(before, seconds)| instant(seen[0], *seconds, before))
            .collect();
        assert_eq!(seen, expected, "{}", course.contract);
        let delivery = fixture.delivery().await;
        assert_eq!(delivery.state, DeliveryState::Dead, "{}", course.contract);
        assert_eq!(delivery.reason, Some(EndReason::Exhausted), "{}", course.contract);
        assert_eq!(delivery.attempt_count as usize, course.attempts_at.len(), "{}", course.contract);
        let end = instant(seen[0], course.dead_at, course.attempts_at.len());
        assert_eq!(delivery.finished_at, Some(end), "{}", course.contract);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_retrying_between_its_attempts_and_shows_when_the_next_comes() {
    for course in EXPECTED_SCHEDULES {
        let fixture = Fixture::new(course.contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(30)).await;
        let delivery = fixture.delivery().await;
        assert_eq!(delivery.state, DeliveryState::Retrying, "{}", course.contract);
        let next = instant(fixture.seen()[0], course.attempts_at[1], 1);
        assert_eq!(delivery.next_attempt_at(), Some(next), "{}", course.contract);
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_recovers_gets_it_at_the_next_instant_and_never_again() {
    for course in EXPECTED_SCHEDULES {
        let fixture = Fixture::new(course.contract, Behaviour::Answer(503)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(course.attempts_at[2] + 10)).await;
        fixture.set_behaviour(Behaviour::Answer(204));
        fixture.pass(Duration::from_hours(24 * 30)).await;
        let seen = fixture.seen();
        assert_eq!(seen.len(), 4, "{}", course.contract);
        assert_eq!(seen[3], instant(seen[0], course.attempts_at[3], 3), "{}", course.contract);
        assert_eq!(fixture.delivery().await.state, DeliveryState::Delivered, "{}", course.contract);
    }
}

#[tokio::test(start_paused = true)]
async fn the_strict_contracts_ignore_retry_after() {
    for course in EXPECTED_SCHEDULES {
        let fixture = Fixture::new(course.contract, Behaviour::AnswerLater(503, 7200)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(90)).await;
        let seen = fixture.seen();
        assert_eq!(seen.len(), 2, "{}", course.contract);
        assert_eq!(seen[1], instant(seen[0], course.attempts_at[1], 1), "{}", course.contract);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_six_hours_of_orientedos_have_no_next_attempt_but_retry_now_still_works() {
    let fixture = Fixture::new("orientedos", Behaviour::Answer(500)).await;
    fixture.publish().await;
    fixture.pass(Duration::from_hours(3)).await;
    let waiting = fixture.delivery().await;
    assert_eq!((waiting.state, waiting.next_attempt_at()), (DeliveryState::Retrying, None));
    fixture.set_behaviour(Behaviour::Answer(200));
    let id = waiting.id.to_string();
    fixture
        .service
        .act_on_delivery(ADMIN, &fixture.entry, &id, posthaste::service::deliveries::RequestedAction::Retry)
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    let delivered = fixture.delivery().await;
    assert_eq!((delivered.state, delivered.attempt_count), (DeliveryState::Delivered, 6));
}
