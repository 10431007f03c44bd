//! Every rule that marks an endpoint degraded, warns of its end or disables it, at its instant; and what never does.

use crate::fixture::{ADMIN, Behaviour, Fixture, TAKES};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        endpoint::DisabledBy,
        notice::{NoticeDetails, NoticeKind},
        outcome::OutcomeClass,
        time::Timestamp,
    },
    runtime::Clock,
};
use std::time::Duration;

pub(crate) const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

const WORKS: Behaviour = Behaviour::Answer(200);
const FAILS: Behaviour = Behaviour::Answer(503);

/// Returns the notices, in order.
pub(crate) fn notices(stage: &Fixture) -> Vec<(NoticeKind, Timestamp, NoticeDetails)> {
    stage.on_disk(|disk| {
        let mut rows = disk.prepare("SELECT kind, at, details FROM notices ORDER BY id").unwrap();
        let read = |row: &rusqlite::Row<'_>| {
            let facts: String = row.get(2)?;
            let kind = NoticeKind::ALL[row.get::<_, u8>(0)? as usize];
            Ok((kind, row.get(1).map(Timestamp::from_millis)?, serde_json::from_str(&facts).unwrap()))
        };
        let rows = rows.query_map([], read).unwrap();
        rows.map(Result::unwrap).filter(|(kind, ..)| *kind != NoticeKind::DeliveryDead).collect()
    })
}

fn kinds(stage: &Fixture) -> Vec<NoticeKind> {
    notices(stage).into_iter().map(|(kind, ..)| kind).collect()
}

/// Returns why and when the endpoint was disabled, if it was.
fn disabled(stage: &Fixture) -> Option<(String, Timestamp)> {
    let off = stage.entry.endpoint("ep").unwrap().record.disabled.clone()?;
    Some((off.reason.name().to_owned(), off.at))
}

/// Publishes an event every hour for so many hours. Returns the time of the first.
async fn hourly(stage: &Fixture, hours: u32) -> Timestamp {
    let start = stage.clock.now();
    for _ in 0..hours {
        stage.publish().await;
        stage.pass(HOUR).await;
    }
    start
}

#[tokio::test(start_paused = true)]
async fn zerofee_is_disabled_after_ten_failed_events_in_a_row_and_a_delivered_one_resets_the_count() {
    let stage = Fixture::new("zerofee", FAILS).await;
    // Another event is on its way all the time, and ends nothing.
    for _ in 0..9 {
        stage.publish().await;
    }
    stage.pass(HOUR * 12).await;
    stage.set_behaviour(WORKS);
    stage.publish().await;
    stage.pass(Duration::from_secs(1)).await;
    stage.set_behaviour(FAILS);
    for _ in 0..9 {
        stage.publish().await;
    }
    stage.pass(HOUR * 12).await;
    assert_eq!(disabled(&stage), None, "nine, one delivered, nine");
    stage.publish().await;
    stage.pass(HOUR * 10 + Duration::from_mins(35)).await;
    assert_eq!(disabled(&stage), None, "the tenth is pending");
    stage.publish().await;
    stage.pass(Duration::from_mins(2)).await;
    let (reason, at) = disabled(&stage).expect("off");
    assert_eq!(reason, "auto_disabled_failures");
    let states: Vec<_> = stage.deliveries().await.iter().map(|delivery| delivery.state).collect();
    assert_eq!(
        states[..2],
        [DeliveryState::Held, DeliveryState::Dead],
        "the tenth ended, the one on its way is held"
    );
    assert_eq!(stage.deliveries().await[1].finished_at, Some(at), "with the end of the tenth");
    let (kind, told_at, facts) = notices(&stage).pop().unwrap();
    assert_eq!((kind, told_at), (NoticeKind::EndpointDisabled, at));
    assert_eq!(facts.last_error.as_deref(), Some("HTTP 503"));
    assert_eq!(facts.reason.as_deref(), Some("auto_disabled_failures"));
    assert!(facts.text.contains("10 events in a row"), "{}", facts.text);
    let by = stage.entry.endpoint("ep").unwrap().record.disabled.clone().unwrap().by;
    assert_eq!(by, Some(DisabledBy::Posthaste));
}

#[tokio::test(start_paused = true)]
async fn bastionary_is_warned_at_48_hours_and_disabled_at_72_to_the_instant() {
    let stage = Fixture::new("bastionary", FAILS).await;
    let start = hourly(&stage, 72).await;
    let first = start.plus(TAKES);
    assert_eq!(disabled(&stage), None);
    stage.publish().await;
    stage.pass(Duration::from_secs(1)).await;
    assert_eq!(disabled(&stage), Some(("failing".to_owned(), first.plus(HOUR * 72))));
    let told = notices(&stage);
    let warning = told.iter().find(|(kind, ..)| *kind == NoticeKind::EndpointWarning).unwrap();
    assert_eq!((warning.1, warning.2.since), (first.plus(HOUR * 48), Some(first)));
    assert_eq!(warning.2.disables_at, Some(first.plus(HOUR * 72)));
    assert_eq!(told.last().unwrap().0, NoticeKind::EndpointDisabled);
    assert_eq!(stage.delivery().await.state, DeliveryState::Held, "the one whose attempt it was");
    stage.publish().await;
    let count = stage.deliveries().await.len();
    stage.publish().await;
    assert_eq!(stage.deliveries().await.len(), count, "no delivery is made while it is off");
}

#[tokio::test(start_paused = true)]
async fn standard_is_warned_at_60_hours_and_disabled_at_5_days() {
    let stage = Fixture::new("standard", FAILS).await;
    let start = hourly(&stage, 120).await;
    let first = start.plus(TAKES);
    assert_eq!(disabled(&stage), None);
    stage.publish().await;
    stage.pass(HOUR).await;
    let (reason, at) = disabled(&stage).expect("off");
    assert_eq!(reason, "failing");
    let soon = |at: Timestamp, due: Timestamp| at >= due && at <= due.plus(HOUR);
    assert!(soon(at, first.plus(DAY * 5)), "{at}");
    let warning =
        notices(&stage).into_iter().find(|(kind, ..)| *kind == NoticeKind::EndpointWarning).unwrap();
    assert!(soon(warning.1, first.plus(HOUR * 60)), "{}", warning.1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_works_now_and_then_is_never_disabled() {
    for contract in ["bastionary", "standard"] {
        let stage = Fixture::new(contract, FAILS).await;
        for _ in 0..20 {
            hourly(&stage, 47).await;
            stage.set_behaviour(WORKS);
            hourly(&stage, 1).await;
            stage.set_behaviour(FAILS);
        }
        assert_eq!(disabled(&stage), None, "{contract}");
        assert!(!kinds(&stage).contains(&NoticeKind::EndpointWarning), "{contract}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_after_the_warning_withdraws_it_with_a_notice() {
    let stage = Fixture::new("bastionary", FAILS).await;
    hourly(&stage, 60).await;
    stage.set_behaviour(WORKS);
    hourly(&stage, 3).await;
    assert_eq!(
        notices(&stage).iter().filter(|(kind, ..)| *kind == NoticeKind::EndpointRecovered).count(),
        0,
        "24 h are bad"
    );
    hourly(&stage, 24).await;
    assert_eq!(kinds(&stage).last(), Some(&NoticeKind::EndpointRecovered));
    stage.set_behaviour(FAILS);
    hourly(&stage, 47).await;
    assert_eq!(disabled(&stage), None);
    assert_eq!(kinds(&stage).iter().filter(|kind| **kind == NoticeKind::EndpointWarning).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn bastionary_is_degraded_above_80_percent_of_a_day_s_deliveries_and_not_at_80() {
    let stage = Fixture::new("bastionary", WORKS).await;
    let some = async |does, count| {
        stage.set_behaviour(does);
        for _ in 0..count {
            stage.publish().await;
        }
        // Until the last of its eight attempts, and an evaluation of the windows.
        stage.pass(HOUR).await;
    };
    some(WORKS, 4).await;
    some(FAILS, 16).await;
    assert_eq!(kinds(&stage), [], "16 of 20 are 80 %");
    some(FAILS, 1).await;
    let told_now = notices(&stage);
    assert_eq!(told_now.len(), 1);
    let (kind, _, facts) = &told_now[0];
    assert_eq!((*kind, facts.last_error.as_deref()), (NoticeKind::EndpointDegraded, Some("HTTP 503")));
    assert!(facts.text.starts_with("80 % of the deliveries"), "{}", facts.text);
    let health = stage.service.endpoint_health(&stage.entry, "ep").await.unwrap();
    assert!(["degraded", "failing"].contains(&health.state), "{}", health.state);
    some(WORKS, 5).await;
    assert_eq!(kinds(&stage).last(), Some(&NoticeKind::EndpointRecovered), "an hour without a failure");
    assert_eq!(stage.service.endpoint_health(&stage.entry, "ep").await.unwrap().state, "healthy");
}

#[tokio::test(start_paused = true)]
async fn days_without_a_process_do_not_count() {
    let mut stage = Fixture::new("bastionary", FAILS).await;
    hourly(&stage, 40).await;
    stage.restart(DAY * 4).await;
    hourly(&stage, 7).await;
    assert!(!kinds(&stage).contains(&NoticeKind::EndpointWarning), "47 hours that count");
    hourly(&stage, 3).await;
    assert!(kinds(&stage).contains(&NoticeKind::EndpointWarning));
    stage.restart(DAY * 4).await;
    hourly(&stage, 22).await;
    assert_eq!(disabled(&stage), None);
    hourly(&stage, 3).await;
    assert!(disabled(&stage).is_some(), "what is known survives restarts");
}

#[tokio::test(start_paused = true)]
async fn restarts_every_day_neither_hasten_nor_prevent_the_end() {
    let mut stage = Fixture::new("bastionary", FAILS).await;
    let start = stage.clock.now().plus(TAKES);
    for _ in 0..3 {
        hourly(&stage, 24).await;
        stage.restart(Duration::from_secs(10)).await;
        assert_eq!(disabled(&stage), None);
    }
    hourly(&stage, 3).await;
    let (_, at) = disabled(&stage).expect("off");
    // A kill loses the time since the last reading of the clock.
    assert!(at >= start.plus(HOUR * 72) && at <= start.plus(HOUR * 75), "{at}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_counts_against_no_endpoint() {
    let mut stage = Fixture::new("zerofee", WORKS).await;
    for number in 2..=6 {
        stage.add_endpoint(&format!("ep{number}"), None).await;
    }
    hourly(&stage, 2).await;
    stage.set_behaviour(Behaviour::Fail(OutcomeClass::Connect));
    for _ in 0..2 {
        hourly(&stage, 48).await;
        // Not even if the process starts again in the midst of it.
        stage.restart(Duration::from_secs(5)).await;
    }
    let ended =
        stage.deliveries().await.iter().filter(|delivery| delivery.state == DeliveryState::Dead).count();
    assert!(ended > 10, "events end all the same: {ended}");
    for endpoint in stage.entry.endpoints().iter() {
        assert!(endpoint.record.disabled.is_none());
        let health = stage.service.endpoint_health(&stage.entry, &endpoint.record.uid).await.unwrap();
        assert!(health.health.consecutive_failures <= 6, "{:?}", health.health);
    }
    assert_eq!(kinds(&stage), []);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_ends_nothing_where_pacing_adapts() {
    let stage = Fixture::new("standard", WORKS).await;
    for number in 2..=6 {
        stage.add_endpoint(&format!("ep{number}"), None).await;
    }
    hourly(&stage, 1).await;
    stage.set_behaviour(Behaviour::Fail(OutcomeClass::Connect));
    stage.publish().await;
    stage.pass(DAY * 5).await;
    for delivery in &stage.deliveries().await[..6] {
        assert!(delivery.state.is_waiting(), "its schedule would have been over: {delivery:?}");
        assert!(delivery.retry_index <= 1, "only what failed before it was known: {delivery:?}");
        assert_eq!(delivery.attempt_count, delivery.retry_index, "and the rest has no number");
        let notes = stage.notes(delivery).await;
        let words = "most receivers fell silent at once: waited out, outside the schedule";
        assert_eq!(notes.last().unwrap().as_deref(), Some(words));
    }
    stage.set_behaviour(WORKS);
    stage.pass(Duration::from_mins(11)).await;
    assert!(stage.deliveries().await.iter().all(|delivery| delivery.state == DeliveryState::Delivered));
    assert_eq!(kinds(&stage), []);
}

#[tokio::test(start_paused = true)]
async fn local_errors_count_against_no_endpoint() {
    let stage = Fixture::new("bastionary", FAILS).await;
    hourly(&stage, 30).await;
    stage.set_behaviour(Behaviour::Fail(OutcomeClass::Local));
    hourly(&stage, 60).await;
    stage.set_behaviour(FAILS);
    hourly(&stage, 10).await;
    assert!(!kinds(&stage).contains(&NoticeKind::EndpointWarning), "forty hours that count");
    assert_eq!(disabled(&stage), None);
}

#[tokio::test(start_paused = true)]
async fn a_410_makes_a_notice_that_names_the_receiver_as_its_cause() {
    for contract in ["standard", "sendnomi"] {
        let stage = Fixture::new(contract, Behaviour::Answer(410)).await;
        stage.publish().await;
        stage.pass(Duration::from_secs(1)).await;
        let record = stage.entry.endpoint("ep").unwrap().record.clone();
        let gone = record.disabled.unwrap();
        assert_eq!((gone.reason.name(), gone.by), ("gone", Some(DisabledBy::Receiver)), "{contract}");
        let told = notices(&stage);
        assert_eq!(
            (told[0].0, told[0].2.last_error.as_deref()),
            (NoticeKind::EndpointDisabled, Some("HTTP 410"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn tests_say_nothing_about_an_endpoint() {
    let stage = Fixture::new("zerofee", FAILS).await;
    for _ in 0..30 {
        stage.service.send_test(&stage.entry, "ep").await.unwrap();
        stage.pass(HOUR).await;
    }
    stage.pass(HOUR * 12).await;
    let health = stage.service.endpoint_health(&stage.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures), ("healthy", 0));
    assert_eq!(health.windows[1].1.attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn ten_failures_in_a_row_are_failing_and_enabling_resets_them() {
    let stage = Fixture::new("standard", FAILS).await;
    for _ in 0..10 {
        stage.publish().await;
    }
    stage.pass(Duration::from_secs(1)).await;
    let health = stage.service.endpoint_health(&stage.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures), ("failing", 10));
    assert_eq!(kinds(&stage), [NoticeKind::EndpointDegraded]);
    stage.pass(HOUR).await;
    let health = stage.service.endpoint_health(&stage.entry, "ep").await.unwrap();
    assert!(
        health.disables_at.is_some_and(|at| at > stage.clock.now().plus(DAY * 4)),
        "{:?}",
        health.disables_at
    );
    stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    assert_eq!(stage.service.endpoint_health(&stage.entry, "ep").await.unwrap().state, "disabled");
    stage.service.enable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    let health = stage.service.endpoint_health(&stage.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures, health.disables_at), ("healthy", 0, None));
    assert!(health.windows[0].1.failed >= 10, "the statistics stay");
}
