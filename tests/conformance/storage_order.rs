//! Order of storage: the queued deliveries of an ordering group are sent in the order in which they were stored, by any node and
//! with any ids. Ids are only as good as the clock of the node that made them.

use crate::{
    fixture::{Fixture, NOW, after, attempt},
    ordering::{apply_state, check_groups, group, order_by},
    two_nodes::{TwoNodes, play},
};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Availability, DeliveryState},
        id::DeliveryId,
        ordering::OnDead,
        outcome::OutcomeClass,
        verdict::Verdict,
    },
    store::deliveries::{Accepted, AvailabilityChange, DeliveryAction, NewEvent},
};

/// Makes drafts of one group with permits, the oldest id first.
fn drafts(fixture: &mut Fixture, count: usize) -> Vec<NewEvent> {
    let draft = |_| {
        let mut new = fixture.one_with_permit();
        new.deliveries[0].delivery.ordering_key = group("a");
        new
    };
    (0..count).map(draft).collect()
}

/// Publishes `count` of one group, each stored after another with a newer id.
async fn publish_newest_first(fixture: &mut Fixture, count: usize) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for new in drafts(fixture, count).into_iter().rev() {
        ids.push(fixture.publish(new).await);
    }
    assert!(ids.is_sorted_by(|earlier, later| earlier > later));
    ids
}

/// Delivers all due deliveries of the queue one by one; returns their order.
async fn deliver_all(fixture: &Fixture) -> Vec<DeliveryId> {
    let mut delivered = Vec::new();
    loop {
        fixture.refill(fixture.endpoint, 9, after(60)).await;
        let mut leased = fixture.recorder.take_leased();
        assert!(leased.len() <= 1, "one at a time");
        let Some(leased) = leased.pop() else { return delivered };
        delivered.push(leased.delivery.id);
        fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    }
}

pub(crate) async fn queued_deliveries_are_sent_in_order_of_storage_with_any_ids(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = publish_newest_first(&mut fixture, 5).await;
    for id in &ids[1..] {
        assert!(fixture.delivery(*id).await.is_queued_behind());
    }
    check_groups(&fixture).await;
    let first = fixture.only_leased();
    assert_eq!(first.delivery.id, ids[0]);
    fixture.record(first, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(deliver_all(&fixture).await, ids[1..]);
    let again = publish_newest_first(&mut fixture, 3).await;
    drop(fixture.recorder.take_leased());
    let seqs = [fixture.delivery(again[1]).await.order_seq, fixture.delivery(again[2]).await.order_seq];
    assert_eq!(seqs, [Some(1), Some(2)], "a line that was empty begins anew");
}

pub(crate) async fn the_order_of_storage_is_kept_through_holding_and_takeover(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let mut late = drafts(&mut fixture, 2);
    let mut ids = publish_newest_first(&mut fixture, 5).await;
    fixture.request(ids[2], DeliveryAction::Cancel).await;
    assert_eq!(fixture.delivery(ids[2]).await.order_seq, None);
    ids.remove(2);
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    apply_state(&fixture, AvailabilityChange::Disabled(Availability::DisabledHold)).await;
    let mut held = late.remove(1);
    (held.deliveries[0].permit, held.deliveries[0].delivery.state) = (None, DeliveryState::Pending);
    held.deliveries[0].delivery.due = Some(NOW);
    held.deliveries[0].delivery.apply_availability(Availability::DisabledHold, NOW);
    ids.push(fixture.publish(held).await);
    fixture.reopen();
    assert_eq!(fixture.store().join(after(5)).await.unwrap().taken_over, 1);
    for id in &ids {
        assert_eq!(fixture.delivery(*id).await.state, DeliveryState::Held);
    }
    fixture.set_availability(fixture.endpoint, None).await;
    apply_state(&fixture, AvailabilityChange::Enabled { gives_up_while_held: false }).await;
    ids.push(fixture.publish(late.remove(0)).await);
    check_groups(&fixture).await;
    assert_eq!(deliver_all(&fixture).await, ids);
}

async fn what_is_published_later_goes_later_although_its_node_gave_it_an_older_id(mut pair: TwoNodes) {
    order_by(&pair.fixture, OnDead::Block).await;
    let mut drafts = drafts(&mut pair.fixture, 6);
    let mut ids = Vec::new();
    // The clock of the other node is behind: its new events get older ids than those already stored.
    for index in 0..6 {
        let is_here = index % 2 == 0;
        let new = drafts.remove(if is_here { drafts.len() / 2 } else { 0 });
        ids.push(new.deliveries[0].delivery.id);
        let accepted = if is_here { pair.fixture.accept(new).await } else { pair.other.accept(new).await };
        assert_eq!(accepted, Accepted::New);
    }
    assert!(ids[1] < ids[0] && ids[3] < ids[2] && ids[5] < ids[4]);
    pair.other.quiet().await;
    assert_eq!(pair.other.recorder.take_leased().len(), 0);
    let first = pair.fixture.only_leased();
    assert_eq!(first.delivery.id, ids[0]);
    pair.fixture.record(first, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(deliver_all(&pair.fixture).await, ids[1..]);
}

async fn who_joins_a_line_waits_until_whoever_joined_before_it_is_stored(mut pair: TwoNodes) {
    order_by(&pair.fixture, OnDead::Block).await;
    let mut drafts = drafts(&mut pair.fixture, 3);
    let first = pair.fixture.publish(drafts.remove(0)).await;
    let held = pair.hold("INSERT ON deliveries_open").await;
    let (second, third) = (drafts.remove(1), drafts.remove(0));
    let ids = [&second, &third].map(|new| new.deliveries[0].delivery.id);
    assert!(ids[1] < ids[0]);
    let (other, store) = (pair.other.store.clone(), pair.fixture.shared_store());
    let before = tokio::spawn(async move { other.accept(vec![second]).await });
    held.until_waiting(1).await;
    let after = tokio::spawn(async move { store.accept(vec![third]).await });
    held.until_waiting(2).await;
    held.release().await;
    for accepted in [before, after] {
        assert_eq!(accepted.await.unwrap().unwrap(), [Accepted::New]);
    }
    let order_seq = async |id| pair.fixture.delivery(id).await.order_seq;
    assert_eq!(
        [order_seq(first).await, order_seq(ids[0]).await, order_seq(ids[1]).await],
        [None, Some(1), Some(2)]
    );
}

play! {
    database:
    what_is_published_later_goes_later_although_its_node_gave_it_an_older_id,
    who_joins_a_line_waits_until_whoever_joined_before_it_is_stored,
}
play! {
    file:
    what_is_published_later_goes_later_although_its_node_gave_it_an_older_id,
}
