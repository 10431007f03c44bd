//! Effect of disabling an endpoint on its deliveries under each contract, and how age ends them.

use crate::fixture::{ADMIN, Behaviour, Fixture};
use posthaste::domain::delivery::DeliveryState;
use std::time::Duration;

/// State of a delivery that waits when the endpoint is disabled, and of one that is published while it is.
const WHEN_DISABLED: [(&str, DeliveryState, Option<DeliveryState>); 6] = [
    ("zerofee", DeliveryState::Held, Some(DeliveryState::Held)),
    ("bastionary", DeliveryState::Held, None),
    ("orientedos", DeliveryState::Held, None),
    ("sendnomi", DeliveryState::Held, Some(DeliveryState::Held)),
    ("simpaisa", DeliveryState::Cancelled, None),
    ("standard", DeliveryState::Held, Some(DeliveryState::Held)),
];

#[tokio::test(start_paused = true)]
async fn waiting_and_new_deliveries_of_a_disabled_endpoint_end_as_the_contract_says() {
    for (contract, waiting, published) in WHEN_DISABLED {
        let fixture = Fixture::new(contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(1)).await;
        fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
        fixture.publish().await;
        fixture.pass(Duration::from_secs(1)).await;
        let mut states: Vec<_> = fixture.deliveries().await.iter().map(|delivery| delivery.state).collect();
        assert_eq!(states.pop(), Some(waiting), "{contract}: what waited");
        assert_eq!(states.pop(), published, "{contract}: what was published meanwhile");
    }
}

#[tokio::test(start_paused = true)]
async fn held_deliveries_are_sent_when_the_endpoint_is_enabled_again() {
    for (contract, ..) in WHEN_DISABLED.into_iter().filter(|(_, waiting, _)| *waiting == DeliveryState::Held)
    {
        let fixture = Fixture::new(contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(1)).await;
        fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
        let before = fixture.seen().len();
        fixture.pass(Duration::from_hours(24 * 3)).await;
        assert_eq!(fixture.seen().len(), before, "{contract}: nothing is sent while it is off");
        fixture.set_behaviour(Behaviour::Answer(200));
        fixture.service.enable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
        fixture.pass(Duration::from_hours(1)).await;
        assert_eq!(fixture.delivery().await.state, DeliveryState::Delivered, "{contract}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_seven_days_nothing_automatic_happens_under_sendnomi_held_deliveries_included() {
    let fixture = Fixture::new("sendnomi", Behaviour::Answer(500)).await;
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    fixture.pass(Duration::from_hours(24 * 7)).await;
    let sent = fixture.seen().len();
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.service.enable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    fixture.pass(Duration::from_hours(24)).await;
    assert_eq!(fixture.delivery().await.state, DeliveryState::Expired);
    assert_eq!(fixture.seen().len(), sent);
}

#[tokio::test(start_paused = true)]
async fn being_held_does_not_age_a_delivery_under_standard() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    fixture.pass(Duration::from_hours(24 * 20)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.service.enable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    fixture.pass(Duration::from_hours(1)).await;
    assert_eq!(fixture.delivery().await.state, DeliveryState::Delivered);
}
