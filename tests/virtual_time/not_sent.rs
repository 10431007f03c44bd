//! A node that may not send: its leased deliveries go back unchanged, and are not tried again before the gate opens.

use crate::fixture::{Behaviour, Fixture};
use posthaste::domain::delivery::DeliveryState;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn deliveries_that_may_not_be_sent_are_released_without_an_attempt_and_without_a_busy_loop() {
    let fixture = Fixture::new("standard", Behaviour::NotSent).await;
    fixture.publish().await;
    fixture.pass(Duration::from_mins(10)).await;
    assert_eq!(fixture.seen().len(), 1, "after the first refusal no other is tried");
    let delivery = fixture.delivery().await;
    assert_eq!(
        (delivery.state, delivery.attempt_count, delivery.history_len),
        (DeliveryState::Pending, 0, 0)
    );
    assert!(delivery.due.is_some_and(|due| due <= fixture.seen()[0]), "it is due as it was");
    assert_eq!(fixture.queues.permits_out(), 0);
    fixture.publish().await;
    fixture.pass(Duration::from_mins(1)).await;
    assert_eq!(fixture.seen().len(), 1, "what is published meanwhile waits in the store");
}
