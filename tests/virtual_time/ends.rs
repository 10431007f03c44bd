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
        let stage = Fixture::new(contract, Behaviour::Answer(500)).await;
        stage.publish().await;
        stage.pass(Duration::from_secs(1)).await;
        stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
        stage.publish().await;
        stage.pass(Duration::from_secs(1)).await;
        let mut states: Vec<_> = stage.deliveries().await.iter().map(|delivery| delivery.state).collect();
        assert_eq!(states.pop(), Some(waiting), "{contract}: what waited");
        assert_eq!(states.pop(), published, "{contract}: what was published meanwhile");
    }
}

#[tokio::test(start_paused = true)]
async fn held_deliveries_are_sent_when_the_endpoint_is_enabled_again() {
    for (contract, ..) in WHEN_DISABLED.into_iter().filter(|(_, waiting, _)| *waiting == DeliveryState::Held)
    {
        let stage = Fixture::new(contract, Behaviour::Answer(500)).await;
        stage.publish().await;
        stage.pass(Duration::from_secs(1)).await;
        stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
        let before = stage.seen().len();
        stage.pass(Duration::from_hours(24 * 3)).await;
        assert_eq!(stage.seen().len(), before, "{contract}: nothing is sent while it is off");
        stage.set_behaviour(Behaviour::Answer(200));
        stage.service.enable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
        stage.pass(Duration::from_hours(1)).await;
        assert_eq!(stage.delivery().await.state, DeliveryState::Delivered, "{contract}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_seven_days_nothing_automatic_happens_under_sendnomi_held_deliveries_included() {
    let stage = Fixture::new("sendnomi", Behaviour::Answer(500)).await;
    stage.publish().await;
    stage.pass(Duration::from_secs(1)).await;
    stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    stage.pass(Duration::from_hours(24 * 7)).await;
    let sent = stage.seen().len();
    stage.set_behaviour(Behaviour::Answer(200));
    stage.service.enable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    stage.pass(Duration::from_hours(24)).await;
    assert_eq!(stage.delivery().await.state, DeliveryState::Expired);
    assert_eq!(stage.seen().len(), sent);
}

#[tokio::test(start_paused = true)]
async fn being_held_does_not_age_a_delivery_under_standard() {
    let stage = Fixture::new("standard", Behaviour::Answer(500)).await;
    stage.publish().await;
    stage.pass(Duration::from_secs(1)).await;
    stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    stage.pass(Duration::from_hours(24 * 20)).await;
    stage.set_behaviour(Behaviour::Answer(200));
    stage.service.enable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    stage.pass(Duration::from_hours(1)).await;
    assert_eq!(stage.delivery().await.state, DeliveryState::Delivered);
}
