//! Order of storage: the queued deliveries of an ordering group are sent in the order in which they were stored, by any node and
//! with any ids. Ids are only as good as the clock of the node that made them.

use crate::{
    order::{check_lines, line, order_by, settle},
    pair::{Pair, play},
    stage::{NOW, Stage, after, attempt},
};
use posthaste::{
    domain::{
        contract::WaitingWhenOff,
        delivery::{State, Switch},
        id::DeliveryId,
        order::OnDead,
        outcome::Class,
        verdict::Verdict,
    },
    store::ledger::{Accepted, Ask, NewEvent, Settle},
};

/// Makes drafts of one group with permits, the oldest id first.
fn drafts(stage: &mut Stage, count: usize) -> Vec<NewEvent> {
    let draft = |_| {
        let mut new = stage.one_in_hand();
        new.births[0].delivery.okey = line("a");
        new
    };
    (0..count).map(draft).collect()
}

/// Publishes `count` of one group, each stored after another with a newer id.
async fn backwards(stage: &mut Stage, count: usize) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for new in drafts(stage, count).into_iter().rev() {
        ids.push(stage.publish(new).await);
    }
    assert!(ids.is_sorted_by(|earlier, later| earlier > later));
    ids
}

/// Delivers all due deliveries of the queue one by one; returns their order.
async fn deliver_all(stage: &Stage) -> Vec<DeliveryId> {
    let mut delivered = Vec::new();
    loop {
        stage.refill(stage.endpoint, 9, after(60)).await;
        let mut carried = stage.recorder.take_carried();
        assert!(carried.len() <= 1, "one at a time");
        let Some(carried) = carried.pop() else { return delivered };
        delivered.push(carried.delivery.id);
        stage.record(carried, Verdict::Delivered, vec![attempt(Class::Ok, 200)]).await;
    }
}

pub(crate) async fn queued_deliveries_are_sent_in_order_of_storage_with_any_ids(mut stage: Stage) {
    order_by(&stage, OnDead::Block).await;
    let ids = backwards(&mut stage, 5).await;
    for id in &ids[1..] {
        assert!(stage.delivery(*id).await.waits_behind());
    }
    check_lines(&stage).await;
    let first = stage.only_carried();
    assert_eq!(first.delivery.id, ids[0]);
    stage.record(first, Verdict::Delivered, vec![attempt(Class::Ok, 200)]).await;
    assert_eq!(deliver_all(&stage).await, ids[1..]);
    let again = backwards(&mut stage, 3).await;
    drop(stage.recorder.take_carried());
    let turns = [stage.delivery(again[1]).await.turn, stage.delivery(again[2]).await.turn];
    assert_eq!(turns, [Some(1), Some(2)], "a line that was empty begins anew");
}

pub(crate) async fn the_order_of_storage_is_kept_through_holding_and_takeover(mut stage: Stage) {
    order_by(&stage, OnDead::Block).await;
    let mut late = drafts(&mut stage, 2);
    let mut ids = backwards(&mut stage, 5).await;
    stage.ask(ids[2], Ask::Cancel).await;
    assert_eq!(stage.delivery(ids[2]).await.turn, None);
    ids.remove(2);
    stage.switch(stage.endpoint, Some(WaitingWhenOff::Held)).await;
    settle(&stage, Settle::Off(Switch::OffHolding)).await;
    let mut held = late.remove(1);
    (held.births[0].hand, held.births[0].delivery.state) = (None, State::Pending);
    held.births[0].delivery.due = Some(NOW);
    held.births[0].delivery.heed(Switch::OffHolding, NOW);
    ids.push(stage.publish(held).await);
    stage.reopen();
    assert_eq!(stage.store().join(after(5)).await.unwrap().taken_over, 1);
    for id in &ids {
        assert_eq!(stage.delivery(*id).await.state, State::Held);
    }
    stage.switch(stage.endpoint, None).await;
    settle(&stage, Settle::On { gives_up_while_held: false }).await;
    ids.push(stage.publish(late.remove(0)).await);
    check_lines(&stage).await;
    assert_eq!(deliver_all(&stage).await, ids);
}

async fn what_is_published_later_goes_later_although_its_node_gave_it_an_older_id(mut pair: Pair) {
    order_by(&pair.stage, OnDead::Block).await;
    let mut drafts = drafts(&mut pair.stage, 6);
    let mut ids = Vec::new();
    // The clock of the other node is behind: its new events get older ids than those already stored.
    for place in 0..6 {
        let is_here = place % 2 == 0;
        let new = drafts.remove(if is_here { drafts.len() / 2 } else { 0 });
        ids.push(new.births[0].delivery.id);
        let accepted = if is_here { pair.stage.accept(new).await } else { pair.other.accept(new).await };
        assert_eq!(accepted, Accepted::New);
    }
    assert!(ids[1] < ids[0] && ids[3] < ids[2] && ids[5] < ids[4]);
    pair.other.quiet().await;
    assert_eq!(pair.other.recorder.take_carried().len(), 0);
    let first = pair.stage.only_carried();
    assert_eq!(first.delivery.id, ids[0]);
    pair.stage.record(first, Verdict::Delivered, vec![attempt(Class::Ok, 200)]).await;
    assert_eq!(deliver_all(&pair.stage).await, ids[1..]);
}

async fn who_joins_a_line_waits_until_whoever_joined_before_it_is_stored(mut pair: Pair) {
    order_by(&pair.stage, OnDead::Block).await;
    let mut drafts = drafts(&mut pair.stage, 3);
    let first = pair.stage.publish(drafts.remove(0)).await;
    let held = pair.hold("INSERT ON deliveries_open").await;
    let (second, third) = (drafts.remove(1), drafts.remove(0));
    let ids = [&second, &third].map(|new| new.births[0].delivery.id);
    assert!(ids[1] < ids[0]);
    let (other, store) = (pair.other.store.clone(), pair.stage.shared());
    let before = tokio::spawn(async move { other.accept(vec![second]).await });
    held.until_waiting(1).await;
    let after = tokio::spawn(async move { store.accept(vec![third]).await });
    held.until_waiting(2).await;
    held.let_go().await;
    for accepted in [before, after] {
        assert_eq!(accepted.await.unwrap().unwrap(), [Accepted::New]);
    }
    let turn = async |id| pair.stage.delivery(id).await.turn;
    assert_eq!([turn(first).await, turn(ids[0]).await, turn(ids[1]).await], [None, Some(1), Some(2)]);
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
