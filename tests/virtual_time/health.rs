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
pub(crate) fn notices(fixture: &Fixture) -> Vec<(NoticeKind, Timestamp, NoticeDetails)> {
    fixture.on_disk(|disk| {
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

fn kinds(fixture: &Fixture) -> Vec<NoticeKind> {
    notices(fixture).into_iter().map(|(kind, ..)| kind).collect()
}

/// Returns why and when the endpoint was disabled, if it was.
fn disabled(fixture: &Fixture) -> Option<(String, Timestamp)> {
    let off = fixture.entry.endpoint("ep").unwrap().record.disabled.clone()?;
    Some((off.reason.name().to_owned(), off.at))
}

/// Publishes an event every hour for so many hours. Returns the time of the first.
async fn hourly(fixture: &Fixture, hours: u32) -> Timestamp {
    let start = fixture.clock.now();
    for _ in 0..hours {
        fixture.publish().await;
        fixture.pass(HOUR).await;
    }
    start
}

#[tokio::test(start_paused = true)]
async fn zerofee_is_disabled_after_ten_failed_events_in_a_row_and_a_delivered_one_resets_the_count() {
    let fixture = Fixture::new("zerofee", FAILS).await;
    // Another event is on its way all the time, and ends nothing.
    for _ in 0..9 {
        fixture.publish().await;
    }
    fixture.pass(HOUR * 12).await;
    fixture.set_behaviour(WORKS);
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    fixture.set_behaviour(FAILS);
    for _ in 0..9 {
        fixture.publish().await;
    }
    fixture.pass(HOUR * 12).await;
    assert_eq!(disabled(&fixture), None, "nine, one delivered, nine");
    fixture.publish().await;
    fixture.pass(HOUR * 10 + Duration::from_mins(35)).await;
    assert_eq!(disabled(&fixture), None, "the tenth is pending");
    fixture.publish().await;
    fixture.pass(Duration::from_mins(2)).await;
    let (reason, at) = disabled(&fixture).expect("off");
    assert_eq!(reason, "auto_disabled_failures");
    let states: Vec<_> = fixture.deliveries().await.iter().map(|delivery| delivery.state).collect();
    assert_eq!(
        states[..2],
        [DeliveryState::Held, DeliveryState::Dead],
        "the tenth ended, the one on its way is held"
    );
    assert_eq!(fixture.deliveries().await[1].finished_at, Some(at), "with the end of the tenth");
    let (kind, told_at, facts) = notices(&fixture).pop().unwrap();
    assert_eq!((kind, told_at), (NoticeKind::EndpointDisabled, at));
    assert_eq!(facts.last_error.as_deref(), Some("HTTP 503"));
    assert_eq!(facts.reason.as_deref(), Some("auto_disabled_failures"));
    assert!(facts.text.contains("10 events in a row"), "{}", facts.text);
    let by = fixture.entry.endpoint("ep").unwrap().record.disabled.clone().unwrap().by;
    assert_eq!(by, Some(DisabledBy::Posthaste));
}

#[tokio::test(start_paused = true)]
async fn bastionary_is_warned_at_48_hours_and_disabled_at_72_to_the_instant() {
    let fixture = Fixture::new("bastionary", FAILS).await;
    let start = hourly(&fixture, 72).await;
    let first = start.plus(TAKES);
    assert_eq!(disabled(&fixture), None);
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    assert_eq!(disabled(&fixture), Some(("failing".to_owned(), first.plus(HOUR * 72))));
    let notices = notices(&fixture);
    let warning = notices.iter().find(|(kind, ..)| *kind == NoticeKind::EndpointWarning).unwrap();
    assert_eq!((warning.1, warning.2.since), (first.plus(HOUR * 48), Some(first)));
    assert_eq!(warning.2.disables_at, Some(first.plus(HOUR * 72)));
    assert_eq!(notices.last().unwrap().0, NoticeKind::EndpointDisabled);
    assert_eq!(fixture.delivery().await.state, DeliveryState::Held, "the one whose attempt it was");
    fixture.publish().await;
    let count = fixture.deliveries().await.len();
    fixture.publish().await;
    assert_eq!(fixture.deliveries().await.len(), count, "no delivery is made while it is off");
}

#[tokio::test(start_paused = true)]
async fn standard_is_warned_at_60_hours_and_disabled_at_5_days() {
    let fixture = Fixture::new("standard", FAILS).await;
    let start = hourly(&fixture, 120).await;
    let first = start.plus(TAKES);
    assert_eq!(disabled(&fixture), None);
    fixture.publish().await;
    fixture.pass(HOUR).await;
    let (reason, at) = disabled(&fixture).expect("off");
    assert_eq!(reason, "failing");
    let soon = |at: Timestamp, due: Timestamp| at >= due && at <= due.plus(HOUR);
    assert!(soon(at, first.plus(DAY * 5)), "{at}");
    let warning =
        notices(&fixture).into_iter().find(|(kind, ..)| *kind == NoticeKind::EndpointWarning).unwrap();
    assert!(soon(warning.1, first.plus(HOUR * 60)), "{}", warning.1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_works_now_and_then_is_never_disabled() {
    for contract in ["bastionary", "standard"] {
        let fixture = Fixture::new(contract, FAILS).await;
        for _ in 0..20 {
            hourly(&fixture, 47).await;
            fixture.set_behaviour(WORKS);
            hourly(&fixture, 1).await;
            fixture.set_behaviour(FAILS);
        }
        assert_eq!(disabled(&fixture), None, "{contract}");
        assert!(!kinds(&fixture).contains(&NoticeKind::EndpointWarning), "{contract}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_after_the_warning_withdraws_it_with_a_notice() {
    let fixture = Fixture::new("bastionary", FAILS).await;
    hourly(&fixture, 60).await;
    fixture.set_behaviour(WORKS);
    hourly(&fixture, 3).await;
    assert_eq!(
        notices(&fixture).iter().filter(|(kind, ..)| *kind == NoticeKind::EndpointRecovered).count(),
        0,
        "24 h are bad"
    );
    hourly(&fixture, 24).await;
    assert_eq!(kinds(&fixture).last(), Some(&NoticeKind::EndpointRecovered));
    fixture.set_behaviour(FAILS);
    hourly(&fixture, 47).await;
    assert_eq!(disabled(&fixture), None);
    assert_eq!(kinds(&fixture).iter().filter(|kind| **kind == NoticeKind::EndpointWarning).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn bastionary_is_degraded_above_80_percent_of_a_day_s_deliveries_and_not_at_80() {
    let fixture = Fixture::new("bastionary", WORKS).await;
    let some = async |does, count| {
        fixture.set_behaviour(does);
        for _ in 0..count {
            fixture.publish().await;
        }
        // Until the last of its eight attempts, and an evaluation of the windows.
        fixture.pass(HOUR).await;
    };
    some(WORKS, 4).await;
    some(FAILS, 16).await;
    assert_eq!(kinds(&fixture), [], "16 of 20 are 80 %");
    some(FAILS, 1).await;
    let told_now = notices(&fixture);
    assert_eq!(told_now.len(), 1);
    let (kind, _, facts) = &told_now[0];
    assert_eq!((*kind, facts.last_error.as_deref()), (NoticeKind::EndpointDegraded, Some("HTTP 503")));
    assert!(facts.text.starts_with("80 % of the deliveries"), "{}", facts.text);
    let health = fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap();
    assert!(["degraded", "failing"].contains(&health.state), "{}", health.state);
    some(WORKS, 5).await;
    assert_eq!(kinds(&fixture).last(), Some(&NoticeKind::EndpointRecovered), "an hour without a failure");
    assert_eq!(fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap().state, "healthy");
}

#[tokio::test(start_paused = true)]
async fn days_without_a_process_do_not_count() {
    let mut fixture = Fixture::new("bastionary", FAILS).await;
    hourly(&fixture, 40).await;
    fixture.restart(DAY * 4).await;
    hourly(&fixture, 7).await;
    assert!(!kinds(&fixture).contains(&NoticeKind::EndpointWarning), "47 hours that count");
    hourly(&fixture, 3).await;
    assert!(kinds(&fixture).contains(&NoticeKind::EndpointWarning));
    fixture.restart(DAY * 4).await;
    hourly(&fixture, 22).await;
    assert_eq!(disabled(&fixture), None);
    hourly(&fixture, 3).await;
    assert!(disabled(&fixture).is_some(), "what is known survives restarts");
}

#[tokio::test(start_paused = true)]
async fn restarts_every_day_neither_hasten_nor_prevent_the_end() {
    let mut fixture = Fixture::new("bastionary", FAILS).await;
    let start = fixture.clock.now().plus(TAKES);
    for _ in 0..3 {
        hourly(&fixture, 24).await;
        fixture.restart(Duration::from_secs(10)).await;
        assert_eq!(disabled(&fixture), None);
    }
    hourly(&fixture, 3).await;
    let (_, at) = disabled(&fixture).expect("off");
    // A kill loses the time since the last reading of the clock.
    assert!(at >= start.plus(HOUR * 72) && at <= start.plus(HOUR * 75), "{at}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_counts_against_no_endpoint() {
    let mut fixture = Fixture::new("zerofee", WORKS).await;
    for number in 2..=6 {
        fixture.add_endpoint(&format!("ep{number}"), None).await;
    }
    hourly(&fixture, 2).await;
    fixture.set_behaviour(Behaviour::Fail(OutcomeClass::Connect));
    for _ in 0..2 {
        hourly(&fixture, 48).await;
        // Not even if the process starts again in the midst of it.
        fixture.restart(Duration::from_secs(5)).await;
    }
    let ended =
        fixture.deliveries().await.iter().filter(|delivery| delivery.state == DeliveryState::Dead).count();
    assert!(ended > 10, "events end all the same: {ended}");
    for endpoint in fixture.entry.endpoints().iter() {
        assert!(endpoint.record.disabled.is_none());
        let health = fixture.service.endpoint_health(&fixture.entry, &endpoint.record.uid).await.unwrap();
        assert!(health.health.consecutive_failures <= 6, "{:?}", health.health);
    }
    assert_eq!(kinds(&fixture), []);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_ends_nothing_where_pacing_adapts() {
    let fixture = Fixture::new("standard", WORKS).await;
    for number in 2..=6 {
        fixture.add_endpoint(&format!("ep{number}"), None).await;
    }
    hourly(&fixture, 1).await;
    fixture.set_behaviour(Behaviour::Fail(OutcomeClass::Connect));
    fixture.publish().await;
    fixture.pass(DAY * 5).await;
    for delivery in &fixture.deliveries().await[..6] {
        assert!(delivery.state.is_waiting(), "its schedule would have been over: {delivery:?}");
        assert!(delivery.retry_index <= 1, "only what failed before it was known: {delivery:?}");
        assert_eq!(delivery.attempt_count, delivery.retry_index, "and the rest has no number");
        let notes = fixture.notes(delivery).await;
        let words = "most receivers fell silent at once: waited out, outside the schedule";
        assert_eq!(notes.last().unwrap().as_deref(), Some(words));
    }
    fixture.set_behaviour(WORKS);
    fixture.pass(Duration::from_mins(11)).await;
    assert!(fixture.deliveries().await.iter().all(|delivery| delivery.state == DeliveryState::Delivered));
    assert_eq!(kinds(&fixture), []);
}

#[tokio::test(start_paused = true)]
async fn local_errors_count_against_no_endpoint() {
    let fixture = Fixture::new("bastionary", FAILS).await;
    hourly(&fixture, 30).await;
    fixture.set_behaviour(Behaviour::Fail(OutcomeClass::Local));
    hourly(&fixture, 60).await;
    fixture.set_behaviour(FAILS);
    hourly(&fixture, 10).await;
    assert!(!kinds(&fixture).contains(&NoticeKind::EndpointWarning), "forty hours that count");
    assert_eq!(disabled(&fixture), None);
}

#[tokio::test(start_paused = true)]
async fn a_410_makes_a_notice_that_names_the_receiver_as_its_cause() {
    for contract in ["standard", "sendnomi"] {
        let fixture = Fixture::new(contract, Behaviour::Answer(410)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(1)).await;
        let record = fixture.entry.endpoint("ep").unwrap().record.clone();
        let gone = record.disabled.unwrap();
        assert_eq!((gone.reason.name(), gone.by), ("gone", Some(DisabledBy::Receiver)), "{contract}");
        let notices = notices(&fixture);
        assert_eq!(
            (notices[0].0, notices[0].2.last_error.as_deref()),
            (NoticeKind::EndpointDisabled, Some("HTTP 410"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn tests_say_nothing_about_an_endpoint() {
    let fixture = Fixture::new("zerofee", FAILS).await;
    for _ in 0..30 {
        fixture.service.send_test(&fixture.entry, "ep").await.unwrap();
        fixture.pass(HOUR).await;
    }
    fixture.pass(HOUR * 12).await;
    let health = fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures), ("healthy", 0));
    assert_eq!(health.windows[1].1.attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn ten_failures_in_a_row_are_failing_and_enabling_resets_them() {
    let fixture = Fixture::new("standard", FAILS).await;
    for _ in 0..10 {
        fixture.publish().await;
    }
    fixture.pass(Duration::from_secs(1)).await;
    let health = fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures), ("failing", 10));
    assert_eq!(kinds(&fixture), [NoticeKind::EndpointDegraded]);
    fixture.pass(HOUR).await;
    let health = fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap();
    assert!(
        health.disables_at.is_some_and(|at| at > fixture.clock.now().plus(DAY * 4)),
        "{:?}",
        health.disables_at
    );
    fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    assert_eq!(fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap().state, "disabled");
    fixture.service.enable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    let health = fixture.service.endpoint_health(&fixture.entry, "ep").await.unwrap();
    assert_eq!((health.state, health.health.consecutive_failures, health.disables_at), ("healthy", 0, None));
    assert!(health.windows[0].1.failed >= 10, "the statistics stay");
}
