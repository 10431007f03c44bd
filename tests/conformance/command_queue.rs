//! The command queue: bounded, and closed at the end.

use crate::fixture::{Fixture, NOW, attempt};
use bytes::Bytes;
use posthaste::{
    domain::{delivery::DeliveryState, outcome::OutcomeClass, verdict::Verdict},
    store::{
        StoreError,
        deliveries::{Accepted, DeliveryAction, DeliveryResult, NewEvent},
    },
};
use std::sync::Arc;

fn with_bytes(mut new: NewEvent, bytes: usize) -> NewEvent {
    Arc::get_mut(&mut new.event).unwrap().data = Bytes::from(vec![b'1'; bytes]);
    new
}

pub(crate) async fn too_many_events_at_once_are_refused_before_they_are_kept(mut stage: Fixture) {
    stage.reopen_with(3, usize::MAX);
    let store = stage.shared_store();
    stage.recorder.gate.shut();
    let blocking = stage.one_event();
    let blocking = store.accept(vec![blocking]);
    stage.recorder.gate.wait_for_the_store();
    let two = vec![stage.one_event(), stage.one_event()];
    let (fits, also_fits) = (store.accept(two), store.accept(vec![stage.one_event()]));
    let too_much = vec![stage.one_with_permit()];
    assert!(matches!(store.accept(too_much).await, Err(StoreError::Overloaded)), "answered at once");
    assert_eq!(stage.permits.taken(), 0, "its permit is free again");
    stage.recorder.gate.open();
    let counts = (blocking.await.unwrap().len(), fits.await.unwrap().len(), also_fits.await.unwrap().len());
    assert_eq!(counts, (1, 2, 1), "what was taken is done");
    let later = stage.one_event();
    assert_eq!(stage.accept(later).await, Accepted::New, "and then there is room again");
}

pub(crate) async fn too_many_bytes_at_once_are_refused_but_one_large_event_passes(mut stage: Fixture) {
    stage.reopen_with(usize::MAX, 1000);
    let store = stage.shared_store();
    stage.recorder.gate.shut();
    let large = with_bytes(stage.one_event(), 5000);
    let large = store.accept(vec![large]);
    stage.recorder.gate.wait_for_the_store();
    let fits = with_bytes(stage.one_event(), 900);
    let fits = store.accept(vec![fits]);
    let too_much = with_bytes(stage.one_event(), 101);
    assert!(matches!(store.accept(vec![too_much]).await, Err(StoreError::Overloaded)));
    stage.recorder.gate.open();
    assert!(large.await.is_ok() && fits.await.is_ok());
}

pub(crate) async fn a_result_is_accepted_by_a_full_queue(mut stage: Fixture) {
    stage.reopen_with(1, usize::MAX);
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    let store = stage.shared_store();
    stage.recorder.gate.shut();
    let blocking = stage.one_event();
    let blocking = store.accept(vec![blocking]);
    stage.recorder.gate.wait_for_the_store();
    let full = stage.one_event();
    let full = store.accept(vec![full]);
    let (attempts, verdict) = (vec![attempt(OutcomeClass::Ok, 200)], Verdict::Delivered);
    let (disable, health_sample, contract) = (None, None, None);
    store.record_result(DeliveryResult {
        leased,
        attempts,
        verdict,
        disable,
        health_sample,
        ended_at: NOW,
        contract,
    });
    stage.recorder.gate.open();
    assert!(blocking.await.is_ok() && full.await.is_ok());
    stage.wait_until_idle().await;
    assert_eq!(stage.delivery(id).await.state, DeliveryState::Delivered);
}

pub(crate) async fn a_closed_store_accepts_no_commands_and_writes_accepted_ones(mut stage: Fixture) {
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    let late = stage.one_with_permit();
    let taken = stage.one_event();
    let taken_id = taken.deliveries[0].delivery.id;
    let store = stage.shared_store();
    let (attempts, verdict) = (vec![attempt(OutcomeClass::Ok, 200)], Verdict::Delivered);
    let (disable, health_sample, contract) = (None, None, None);
    store.record_result(DeliveryResult {
        leased,
        attempts,
        verdict,
        disable,
        health_sample,
        ended_at: NOW,
        contract,
    });
    let answer = store.accept(vec![taken]);
    store.close();
    assert_eq!(answer.await.unwrap(), [Accepted::New]);
    assert!(matches!(store.accept(vec![late]).await, Err(StoreError::Closed)));
    assert!(matches!(
        store.act(stage.app, id, DeliveryAction::Retry, NOW, None).await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(store.lease_due(vec![], NOW).await, Err(StoreError::Closed)));
    assert!(matches!(store.flush().await, Err(StoreError::Closed)));
    assert_eq!(stage.permits.taken(), 0, "refused events released their permits");
    drop(store);
    stage.reopen();
    assert_eq!(stage.delivery(id).await.state, DeliveryState::Delivered);
    assert_eq!(stage.delivery(taken_id).await.state, DeliveryState::Pending);
}
