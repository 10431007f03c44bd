//! Endpoints with little to send are probed as soon as busy ones: retries that wait for hours are tried early, also where
//! one delivery blocks all others, and after a restart.

use crate::fixture::{ADMIN, Behaviour, Fixture};
use posthaste::{
    domain::{
        delivery::{Delivery, DeliveryState, EndReason},
        ordering::OrderingMode,
        time::Timestamp,
    },
    runtime::Clock,
    service::{Patch, endpoints::EndpointPatch},
};
use std::time::Duration;

const AHEAD: &str = "a probe ahead of its time: the endpoint ";

/// Starts with four deliveries that failed until all of them wait for an hour or longer.
async fn quiet() -> Fixture {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    for _ in 0..4 {
        fixture.publish().await;
    }
    fixture.pass(Duration::from_hours(1)).await;
    fixture
}

async fn count_notes(fixture: &Fixture, delivery: &Delivery, start: &str) -> usize {
    let notes = fixture.notes(delivery).await;
    notes.into_iter().flatten().filter(|note| note.starts_with(start)).count()
}

async fn is_all_delivered(fixture: &Fixture) -> bool {
    fixture.deliveries().await.iter().all(|one| one.state == DeliveryState::Delivered)
}

fn first_due(deliveries: &[Delivery]) -> Option<Timestamp> {
    deliveries.iter().filter_map(|one| one.due).min()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_endpoint_is_probed_with_what_waits_for_hours() {
    let fixture = quiet().await;
    let waiting = fixture.deliveries().await;
    let planned = first_due(&waiting).unwrap();
    let seen = fixture.seen().len();
    fixture.pass(Duration::from_secs(1210)).await;
    assert!(planned > fixture.clock.now(), "nothing was due");
    let probes = fixture.seen()[seen..].to_vec();
    assert!((1..4).contains(&probes.len()), "one in a quarter of an hour: {probes:?}");
    let after = fixture.deliveries().await;
    let slots = |all: &[Delivery]| all.iter().map(|one| (one.retry_index, one.due)).collect::<Vec<_>>();
    assert_eq!(slots(&after), slots(&waiting), "the schedule stays as it is");
    let first = after.iter().find(|one| one.due == Some(planned)).unwrap();
    assert!(count_notes(&fixture, first, AHEAD).await >= 2);

    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.pass(Duration::from_mins(15) + Duration::from_secs(5)).await;
    assert!(planned > fixture.clock.now() && is_all_delivered(&fixture).await, "no delivery waits for hours");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_endpoint_is_probed_after_a_restart_too() {
    let mut fixture = quiet().await;
    fixture.restart(Duration::from_secs(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.pass(Duration::from_secs(5)).await;
    assert!(is_all_delivered(&fixture).await);
    let mut forwarded = 0;
    for delivery in fixture.deliveries().await {
        forwarded +=
            count_notes(&fixture, &delivery, &format!("{AHEAD}was failing before the last start")).await;
    }
    assert_eq!(forwarded, 1, "the others were brought forward");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_a_crash_cut_off_leaves_the_schedule_as_it_was() {
    let mut fixture = quiet().await;
    let planned = first_due(&fixture.deliveries().await);
    let seen = fixture.seen().len();
    while fixture.seen().len() == seen {
        fixture.pass(Duration::from_millis(100)).await;
    }
    fixture.restart(Duration::from_secs(1)).await;
    fixture.pass(Duration::from_secs(1)).await;
    let waiting = fixture.deliveries().await;
    assert_eq!(first_due(&waiting), planned);
    let first = waiting.iter().find(|one| one.due == planned).unwrap();
    let notes = fixture.notes(first).await;
    assert!(notes.contains(&Some("a probe ahead of its time".to_owned())), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_can_never_be_sent_ends_and_the_next_is_tried() {
    let fixture = quiet().await;
    let first_of = |all: &[Delivery]| {
        let waiting = all.iter().filter(|one| one.due.is_some());
        waiting.min_by_key(|one| one.due).cloned().unwrap()
    };
    let first = first_of(&fixture.deliveries().await);
    fixture.service.erase_data(ADMIN, &fixture.entry, &first.event.to_string()).await.unwrap();
    fixture.pass(Duration::from_mins(35)).await;
    let all = fixture.deliveries().await;
    let erased = all.iter().find(|one| one.id == first.id).unwrap();
    assert_eq!(erased.reason, Some(EndReason::SerialisationFailed));
    assert_eq!(erased.history_len, first.history_len + 1, "once");
    let next = first_of(&all);
    assert_ne!(next.id, first.id);
    assert!(count_notes(&fixture, &next, AHEAD).await >= 1, "it goes on");
}

#[tokio::test(start_paused = true)]
async fn the_first_of_an_ordered_endpoint_is_probed_although_no_other_can_fail() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    let patch = EndpointPatch { ordered: Patch::Value(OrderingMode::Endpoint), ..EndpointPatch::default() };
    fixture.service.change_endpoint(ADMIN, &fixture.entry, "ep", patch).await.unwrap();
    for _ in 0..5 {
        fixture.publish().await;
    }
    fixture.pass(Duration::from_mins(20)).await;
    let first = fixture.deliveries().await.pop().unwrap();
    assert!(first.due.unwrap() > fixture.clock.now().plus(Duration::from_mins(6)), "{first:?}");
    assert!(count_notes(&fixture, &first, AHEAD).await >= 3);
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.pass(Duration::from_mins(5) + Duration::from_secs(5)).await;
    assert!(is_all_delivered(&fixture).await);
}
