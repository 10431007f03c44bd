//! Live updates that the store publishes: state changes that no other call reports.

use crate::{
    fixture::{Fixture, NOW, after, attempt, retry_at},
    health::{EXHAUSTED, contract, evaluate, plain, record_counted, record_many},
};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::Availability,
        id::DeliveryId,
        live_update::LiveUpdate,
        outcome::OutcomeClass,
        verdict::{DueAction, Verdict},
    },
    store::deliveries::{AdvanceRetries, AvailabilityChange},
};
use serde_json::json;

fn deliveries(fixture: &Fixture) -> [LiveUpdate; 1] {
    [LiveUpdate::deliveries(fixture.app, fixture.endpoint)]
}

pub(crate) async fn deliveries_that_end_while_waiting_give_a_live_update(mut fixture: Fixture) {
    for then in [DueAction::Exhaust, DueAction::Expire] {
        fixture.concluded(Verdict::Retry { due: after(60), then }, attempt(OutcomeClass::Http, 500)).await;
    }
    fixture.refill(fixture.endpoint, 9, after(59)).await;
    assert_eq!(fixture.recorder.take_live_updates(), [], "nothing ended");
    fixture.refill(fixture.endpoint, 9, after(60)).await;
    assert_eq!(fixture.recorder.take_live_updates(), deliveries(&fixture));
}

pub(crate) async fn applying_a_state_gives_a_live_update_also_for_a_deleted_endpoint(mut fixture: Fixture) {
    fixture.waiting().await;
    let (off, on) = (
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Enabled { gives_up_while_held: false },
    );
    for (availability, settle) in [(Some(WaitingWhenDisabled::Held), off), (None, on)] {
        fixture.set_availability(fixture.endpoint, availability).await;
        for expected in [&deliveries(&fixture)[..], &[]] {
            fixture.store().apply_to_waiting(fixture.endpoint, settle, 9, after(9)).await.unwrap();
            fixture.wait_until_idle().await;
            assert_eq!(fixture.recorder.take_live_updates(), expected);
        }
    }
    assert!(fixture.store().remove_endpoint(fixture.endpoint, after(9), None).await.unwrap());
    fixture
        .store()
        .apply_to_waiting(fixture.endpoint, AvailabilityChange::Disabled(Availability::Deleted), 9, after(9))
        .await
        .unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_live_updates(), deliveries(&fixture));
}

pub(crate) async fn advanced_and_released_deliveries_give_a_live_update(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(300)), attempt(OutcomeClass::Http, 500)).await;
    let first = (NOW, DeliveryId::from_i64(0));
    let recovery =
        AdvanceRetries { endpoint: fixture.endpoint, recovered_at: after(10), after: first, most: 9 };
    for expected in [&deliveries(&fixture)[..], &[]] {
        fixture.store().advance_retries(recovery, after(11)).await.unwrap();
        fixture.wait_until_idle().await;
        assert_eq!(fixture.recorder.take_live_updates(), expected);
    }
    let leased = fixture.lease(id, after(11)).await;
    fixture.store().release(vec![leased], after(12)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_live_updates(), deliveries(&fixture));
}

pub(crate) async fn a_change_of_health_gives_one_live_update(mut fixture: Fixture) {
    let endpoint = [LiveUpdate::endpoint(fixture.app, fixture.endpoint)];
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    for failed in 1..=10 {
        record_counted(&mut fixture, retry_at(after(60)), &plain()).await;
        let expected = if failed == 10 { &endpoint[..] } else { &[] };
        assert_eq!(fixture.recorder.take_live_updates(), expected, "failing after ten, and this is {failed}");
    }
    for _ in 0..3 {
        record_counted(&mut fixture, Verdict::Delivered, &plain()).await;
    }
    assert_eq!(fixture.recorder.take_live_updates(), endpoint, "well again");
    // Never ten in a row.
    for (count, verdict) in [(9, EXHAUSTED), (1, Verdict::Delivered), (9, EXHAUSTED)] {
        record_many(&mut fixture, count, verdict, &own, after(120)).await;
    }
    assert_eq!(fixture.recorder.take_live_updates(), []);
    for expected in [&endpoint[..], &[]] {
        evaluate(&fixture, &own, after(122)).await;
        assert_eq!(fixture.recorder.take_live_updates(), expected);
    }
}
