//! A node that may not send: whatever it has in hand goes back as it was, and nobody tries again before the gate is open.

use crate::stage::{Does, Stage};
use posthaste::domain::delivery::State;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn what_may_not_be_sent_goes_back_without_an_attempt_and_nobody_turns_in_circles() {
    let stage = Stage::new("standard", Does::NotSent).await;
    stage.publish().await;
    stage.pass(Duration::from_mins(10)).await;
    assert_eq!(stage.seen().len(), 1, "the first was told that the gate is closed, and so is everybody");
    let delivery = stage.delivery().await;
    assert_eq!((delivery.state, delivery.attempt_count, delivery.history_len), (State::Pending, 0, 0));
    assert!(delivery.due.is_some_and(|due| due <= stage.seen()[0]), "it is due as it was");
    assert_eq!(stage.lanes.in_hand(), 0);
    stage.publish().await;
    stage.pass(Duration::from_mins(1)).await;
    assert_eq!(stage.seen().len(), 1, "what is published meanwhile waits in the store");
}
