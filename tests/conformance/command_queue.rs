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

pub(crate) async fn too_many_events_at_once_are_refused_before_they_are_kept(mut fixture: Fixture) {
    fixture.reopen_with(3, usize::MAX);
    let store = fixture.shared_store();
    fixture.recorder.gate.shut();
    let blocking = fixture.one_event();
    let blocking = store.accept(vec![blocking]);
    fixture.recorder.gate.wait_for_the_store();
    let two = vec![fixture.one_event(), fixture.one_event()];
    let (fits, also_fits) = (store.accept(two), store.accept(vec![fixture.one_event()]));
    let too_much = vec![fixture.one_with_permit()];
    assert!(matches!(store.accept(too_much).await, Err(StoreError::Overloaded)), "answered at once");
    assert_eq!(fixture.permits.taken(), 0, "its permit is free again");
    fixture.recorder.gate.open();
    let counts = (blocking.await.unwrap().len(), fits.await.unwrap().len(), also_fits.await.unwrap().len());
    assert_eq!(counts, (1, 2, 1), "what was taken is done");
    let later = fixture.one_event();
    assert_eq!(fixture.accept(later).await, Accepted::New, "and then there is room again");
}

pub(crate) async fn too_many_bytes_at_once_are_refused_but_one_large_event_passes(mut fixture: Fixture) {
    fixture.reopen_with(usize::MAX, 1000);
    let store = fixture.shared_store();
    fixture.recorder.gate.shut();
    let large = with_bytes(fixture.one_event(), 5000);
    let large = store.accept(vec![large]);
    fixture.recorder.gate.wait_for_the_store();
    let fits = with_bytes(fixture.one_event(), 900);
    let fits = store.accept(vec![fits]);
    let too_much = with_bytes(fixture.one_event(), 101);
    assert!(matches!(store.accept(vec![too_much]).await, Err(StoreError::Overloaded)));
    fixture.recorder.gate.open();
    assert!(large.await.is_ok() && fits.await.is_ok());
}

pub(crate) async fn a_result_is_accepted_by_a_full_queue(mut fixture: Fixture) {
    fixture.reopen_with(1, usize::MAX);
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let store = fixture.shared_store();
    fixture.recorder.gate.shut();
    let blocking = fixture.one_event();
    let blocking = store.accept(vec![blocking]);
    fixture.recorder.gate.wait_for_the_store();
    let full = fixture.one_event();
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
    fixture.recorder.gate.open();
    assert!(blocking.await.is_ok() && full.await.is_ok());
    fixture.wait_until_idle().await;
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Delivered);
}

pub(crate) async fn a_closed_store_accepts_no_commands_and_writes_accepted_ones(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let late = fixture.one_with_permit();
    let taken = fixture.one_event();
    let taken_id = taken.deliveries[0].delivery.id;
    let store = fixture.shared_store();
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
        store.act(fixture.app, id, DeliveryAction::Retry, NOW, None).await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(store.lease_due(vec![], NOW).await, Err(StoreError::Closed)));
    assert!(matches!(store.flush().await, Err(StoreError::Closed)));
    assert_eq!(fixture.permits.taken(), 0, "refused events released their permits");
    drop(store);
    fixture.reopen();
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Delivered);
    assert_eq!(fixture.delivery(taken_id).await.state, DeliveryState::Pending);
}
