//! Several nodes on one database: liveness, takeover, shard ownership, and notifications between nodes.

use crate::{
    fixture::{NOW, after, attempt},
    replays::{begin, deliveries},
    two_nodes::{Node, SharedStore, TwoNodes, play, wait_until},
};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::DeliveryState,
        endpoint::{Disabled, DisabledReason},
        event_type::{EventTypeDocument, EventTypeRecord},
        id::EventTypeId,
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        verdict::{DeadReason, Verdict},
    },
    store::{
        Store, StoreError,
        cluster::{Heartbeat, SHARD_COUNT},
        deliveries::{Accepted, DeliveryResult},
    },
};
use std::sync::atomic::Ordering;

/// Makes the result of a request that was answered with 200.
fn delivered(leased: LeasedDelivery) -> DeliveryResult {
    let (attempts, verdict) = (vec![attempt(OutcomeClass::Ok, 200)], Verdict::Delivered);
    let (disable, health_sample, contract) = (None, None, None);
    DeliveryResult { leased, attempts, verdict, disable, health_sample, ended_at: after(1), contract }
}

async fn a_takeover_needs_an_ended_lease_and_a_steady_node(mut pair: TwoNodes) {
    let leased = pair.other.accept_leased(pair.fixture.one_with_permit()).await;
    assert_eq!(pair.other.store.claim_shards(100).await.unwrap().len(), 100);
    pair.age_node();
    assert_eq!(pair.take_over().await, None, "it lives");
    pair.end_lease();
    pair.set("lease_unbroken_since = lease_until", pair.epoch);
    assert_eq!(pair.take_over().await, None, "who was away himself does not judge");
    let view = pair.view().await;
    assert_eq!(view.nodes.iter().map(|node| node.is_expired).collect::<Vec<_>>(), [false, true]);
    assert!(!view.may_take_over);
    pair.age_node();
    assert!(pair.view().await.may_take_over);
    pair.fixture.recorder.take_waiting();
    assert_eq!(pair.take_over().await, Some(1));
    let delivery = pair.fixture.delivery(leased.delivery.id).await;
    assert_eq!((delivery.state, delivery.due, delivery.history_len), (DeliveryState::Pending, Some(NOW), 1));
    assert_eq!(pair.fixture.history(delivery.id).await[0].attempt.outcome.class, OutcomeClass::Unknown);
    assert_eq!(pair.fixture.recorder.take_waiting(), [(pair.fixture.endpoint, NOW)]);
    let view = pair.view().await;
    assert_eq!(view.nodes.iter().map(|node| node.epoch).collect::<Vec<_>>(), [pair.epoch]);
    assert_eq!(view.shards, vec![0; SHARD_COUNT]);
    assert_eq!(pair.take_over().await, Some(0), "and once");
}

async fn a_node_that_was_taken_over_writes_nothing_before_it_joins_again(mut pair: TwoNodes) {
    let late = pair.other.accept_leased(pair.fixture.one_with_permit()).await;
    let (id, old) = (late.delivery.id, pair.other.epoch);
    let twin = LeasedDelivery {
        delivery: late.delivery.clone(),
        event: late.event.clone(),
        permit: pair.fixture.permits.take(),
        ..late
    };
    pair.age_node();
    pair.end_lease();
    assert_eq!(pair.take_over().await, Some(1));
    let error = pair.other.store.accept(vec![pair.fixture.one_event()]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("took over")), "{error}");
    assert_eq!(pair.other.store.heartbeat(Heartbeat::default()).await.unwrap(), None);
    assert!(pair.other.store.claim_shards(1).await.is_err());
    pair.other.store.record_result(delivered(late));
    let joined = pair.other.store.join(after(1)).await.unwrap();
    assert!(joined.epoch != old && joined.slot == 1 && joined.taken_over == 0);
    pair.other.quiet().await;
    assert_eq!(
        pair.fixture.delivery(id).await.state,
        DeliveryState::Pending,
        "what was recorded before is not believed"
    );
    let request = pair.fixture.refill_request(pair.fixture.endpoint, 1);
    pair.other.store.lease_due(vec![request], after(2)).await.unwrap();
    pair.other.quiet().await;
    let again = pair.other.recorder.take_leased().remove(0);
    assert_eq!((again.delivery.id, again.epoch), (id, joined.epoch));
    pair.other.store.record_result(delivered(twin));
    pair.other.quiet().await;
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::InFlight);
    pair.other.store.record_result(delivered(again));
    pair.other.quiet().await;
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::Delivered);
    assert_eq!(pair.fixture.history(id).await.len(), 2);
    assert_eq!(pair.fixture.permits.taken(), 0);
}

/// The control: without the fence, the node could still write.
async fn without_its_fence_a_node_that_was_taken_over_could_write(mut pair: TwoNodes) {
    pair.age_node();
    pair.end_lease();
    assert_eq!(pair.take_over().await, Some(0));
    assert!(pair.other.store.accept(vec![pair.fixture.one_event()]).await.is_err());
    pair.shared.run("UPDATE writer_batches SET writer = 0, fenced_at = NULL WHERE writer = -1");
    assert_eq!(pair.other.accept(pair.fixture.one_event()).await, Accepted::New);
}

/// The permit was taken before its node joined again: no worker would send a delivery leased with it.
async fn a_permit_of_an_earlier_epoch_leases_nothing(mut pair: TwoNodes) {
    let (old, new) = (pair.other.epoch + 1, pair.other.epoch);
    let mut added = pair.fixture.one_with_permit();
    let id = added.deliveries[0].delivery.id;
    added.deliveries[0].permit = Some(pair.fixture.permits.take_for_epoch(old));
    assert_eq!(pair.other.accept(added).await, Accepted::New);
    pair.other.quiet().await;
    assert_eq!(pair.fixture.permits.taken(), 0);
    let delivery = pair.fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.due, delivery.history_len), (DeliveryState::Pending, Some(NOW), 0));
    let waiting = pair.other.recorder.take_waiting();
    assert!(waiting.contains(&(pair.fixture.endpoint, NOW)), "{waiting:?}");
    for (epoch, is_leased) in [(old, false), (new, true)] {
        let mut request = pair.fixture.refill_request(pair.fixture.endpoint, 0);
        request.permits.push(pair.fixture.permits.take_for_epoch(epoch));
        pair.other.store.lease_due(vec![request], after(1)).await.unwrap();
        pair.other.quiet().await;
        assert_eq!(pair.other.recorder.take_leased().len(), usize::from(is_leased));
    }
}

async fn a_delivery_leased_by_another_node_cannot_be_recorded(mut pair: TwoNodes) {
    let leased = pair.other.accept_leased(pair.fixture.one_with_permit()).await;
    let id = leased.delivery.id;
    pair.fixture.store().record_result(delivered(LeasedDelivery { epoch: pair.epoch, ..leased }));
    pair.fixture.wait_until_idle().await;
    assert_eq!(
        (pair.fixture.delivery(id).await.state, pair.fixture.history(id).await.len()),
        (DeliveryState::InFlight, 0)
    );
}

async fn a_takeover_waits_for_the_running_commit_of_the_dead_node(mut pair: TwoNodes) {
    let (held, new) = (pair.hold("INSERT ON events").await, pair.fixture.one_with_permit());
    let (id, other) = (new.deliveries[0].delivery.id, pair.other.store.clone());
    let accepting = tokio::spawn(async move { other.accept(vec![new]).await });
    held.until_waiting(1).await;
    pair.age_node();
    pair.end_lease();
    let (store, epoch) = (pair.fixture.shared_store(), pair.other.epoch);
    let taking = tokio::spawn(async move { store.take_over(epoch, after(5)).await });
    held.until_waiting(2).await;
    held.release().await;
    assert_eq!(accepting.await.unwrap().unwrap(), [Accepted::New]);
    assert_eq!(taking.await.unwrap().unwrap(), Some(1));
    let delivery = pair.fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Pending, Some(after(5))));
}

async fn a_takeover_interrupted_before_the_fence_continues(pair: TwoNodes) {
    interrupted(pair, None).await;
}

async fn a_takeover_interrupted_after_the_fence_continues(pair: TwoNodes) {
    let fence =
        "UPDATE writer_batches SET writer = -1 - writer, fenced_at = 0 WHERE writer >= 0 AND epoch = ";
    interrupted(pair, Some(fence)).await;
}

/// Takes over from a node that was declared dead, and perhaps fenced, by a node that then died itself.
async fn interrupted(mut pair: TwoNodes, fence: Option<&str>) {
    let ids = [pair.fixture.one_with_permit(), pair.fixture.one_with_permit()];
    let mut leased = vec![];
    for new in ids {
        leased.push(pair.other.accept_leased(new).await.delivery.id);
    }
    pair.other.store.claim_shards(3).await.unwrap();
    pair.set("dead = 1", pair.other.epoch);
    if let Some(fence) = fence {
        pair.shared.run(&format!("{fence}{}", pair.other.epoch));
    }
    assert!(pair.view().await.nodes[1].is_expired);
    assert_eq!(pair.take_over().await, Some(2), "no steady node is needed for that");
    for id in leased {
        assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::Pending);
    }
    let view = pair.view().await;
    assert_eq!((view.nodes.len(), view.shards), (1, vec![0; SHARD_COUNT]));
}

async fn shards_are_divided_between_nodes_and_handed_over(pair: TwoNodes) {
    let (store, other) = (pair.fixture.store(), &pair.other.store);
    assert_eq!(store.claim_shards(SHARD_COUNT).await.unwrap().len(), SHARD_COUNT);
    assert_eq!(other.claim_shards(SHARD_COUNT).await.unwrap(), Vec::<u8>::new());
    other.release_shards(vec![0, 1]).await.unwrap();
    assert_eq!(other.claim_shards(SHARD_COUNT).await.unwrap(), Vec::<u8>::new(), "they were not its own");
    store.release_shards(vec![7, 200, 9]).await.unwrap();
    assert_eq!(other.claim_shards(2).await.unwrap(), [7, 9]);
    assert_eq!(other.claim_shards(2).await.unwrap(), [200]);
    let shards = pair.view().await.shards;
    assert_eq!((shards[7], shards[200], shards[0]), (pair.other.epoch, pair.other.epoch, pair.epoch));
    assert_eq!(shards, pair.other.view().await.shards);
    other.close();
    let view = pair.view().await;
    assert_eq!(
        (view.nodes.len(), view.shards[7]),
        (1, 0),
        "a node that leaves without deliveries is removed at once"
    );
    assert_eq!(store.claim_shards(SHARD_COUNT).await.unwrap(), [7, 9, 200]);
}

async fn a_node_that_leaves_deliveries_behind_is_taken_over_before_its_lease_ends(mut pair: TwoNodes) {
    let id = pair.other.accept_leased(pair.fixture.one_with_permit()).await.delivery.id;
    pair.other.store.claim_shards(1).await.unwrap();
    pair.other.store.close();
    let view = pair.view().await;
    assert!(view.nodes[1].is_expired && view.shards[0] == pair.other.epoch, "not before it is swept");
    assert_eq!(pair.take_over().await, Some(1));
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::Pending);
    assert_eq!(pair.view().await.shards[0], 0);
}

async fn a_joining_node_takes_over_an_ended_process_of_its_machine(mut pair: TwoNodes) {
    let id = pair.other.accept_leased(pair.fixture.one_with_permit()).await.delivery.id;
    pair.set("pid = 2147483646", pair.other.epoch);
    let third = Node::beside(&pair.fixture).await;
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::Pending);
    let slots: Vec<_> = third.view().await.nodes.iter().map(|node| (node.slot, node.epoch)).collect();
    assert_eq!(slots, [(Some(0), pair.epoch), (Some(2), third.epoch)]);
    let fourth = Node::beside(&pair.fixture).await;
    assert_eq!(fourth.view().await.nodes[1].slot, Some(1), "a slot that is free is given again");
    assert_eq!(pair.other.store.heartbeat(Heartbeat::default()).await.unwrap(), None);
}

async fn a_joining_node_takes_over_deliveries_of_an_unknown_node(mut pair: TwoNodes) {
    let id = pair.other.accept_leased(pair.fixture.one_with_permit()).await.delivery.id;
    pair.shared.run(&format!("DELETE FROM nodes WHERE epoch = {}", pair.other.epoch));
    assert_eq!(pair.fixture.store().join(after(3)).await.unwrap().taken_over, 1);
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::Pending);
    assert!(pair.other.store.accept(vec![pair.fixture.one_event()]).await.is_err());
}

async fn nodes_see_the_last_report_of_each_other(pair: TwoNodes) {
    let help = vec![pair.fixture.endpoint];
    let said =
        Heartbeat { config_version: 5, free_permits: 64, overloaded_queues: help.clone(), is_stopping: true };
    pair.other.store.heartbeat(said).await.unwrap();
    let nodes = pair.fixture.store().nodes().await.unwrap().nodes;
    assert_eq!(nodes.len(), 2);
    let (mine, other) = (&nodes[0], &nodes[1]);
    assert_eq!((mine.epoch, mine.slot, mine.free_permits, mine.is_expired), (pair.epoch, Some(0), 0, false));
    assert_eq!(
        (other.epoch, other.slot, other.config_version, other.free_permits),
        (pair.other.epoch, Some(1), 5, 64)
    );
    assert_eq!((&other.overloaded_queues, &*other.version), (&help, env!("CARGO_PKG_VERSION")));
    assert!(other.is_stopping && !mine.is_stopping);
    assert!((5_000..=10_000).contains(&other.lease_ms), "{}", other.lease_ms);
}

async fn deliveries_leased_by_other_nodes_are_counted_by_endpoint(mut pair: TwoNodes) {
    let (first, second) = (pair.fixture.endpoint, pair.fixture.new_endpoint(pair.fixture.app).await);
    let both = vec![first, second];
    let here = pair.fixture.leased().await;
    let leased = pair.other.accept_leased(pair.fixture.one_with_permit()).await;
    let elsewhere = async |store: &Store| store.in_flight_elsewhere(both.clone()).await;
    assert_eq!(elsewhere(pair.fixture.store()).await.unwrap(), [first]);
    assert_eq!(elsewhere(&pair.other.store).await.unwrap(), [first]);
    pair.other.store.record_result(delivered(leased));
    pair.other.quiet().await;
    assert_eq!(elsewhere(pair.fixture.store()).await.unwrap(), []);
    assert_eq!(elsewhere(&pair.other.store).await.unwrap(), [first]);
    pair.fixture.store().record_result(delivered(here));
    pair.fixture.wait_until_idle().await;
    assert_eq!(elsewhere(&pair.other.store).await.unwrap(), []);
}

async fn configuration_changes_of_one_node_reach_the_others(mut pair: TwoNodes) {
    let (app, endpoint) = (pair.fixture.app, pair.fixture.endpoint);
    let all = pair.other.store.changes(0).await.unwrap();
    assert_eq!((all.apps, all.endpoints, all.keys.len(), all.is_all), (vec![app], vec![endpoint], 0, false));
    let seen = pair.view().await.version;
    assert_eq!(all.version, seen);
    assert_eq!(pair.other.store.app(app).await.unwrap().unwrap().id, app);
    pair.fixture.set_availability(endpoint, Some(WaitingWhenDisabled::Held)).await;
    let changes = pair.other.store.changes(seen).await.unwrap();
    assert_eq!((&*changes.endpoints, changes.apps.len(), changes.version > seen), (&[endpoint][..], 0, true));
    let seen = changes.version;
    assert_eq!(pair.other.store.changes(seen).await.unwrap().endpoints, []);
    pair.fixture.set_availability(endpoint, None).await;
    let leased = pair.fixture.leased().await;
    let off =
        Disabled { reason: DisabledReason::Gone, at: NOW, waiting: WaitingWhenDisabled::Held, by: None };
    let verdict = Verdict::Dead { reason: DeadReason::RefusedByReceiver, disable_endpoint: true };
    pair.fixture.store().record_result(DeliveryResult { verdict, disable: Some(off), ..delivered(leased) });
    pair.fixture.wait_until_idle().await;
    let changes = pair.other.store.changes(seen + 1).await.unwrap();
    assert_eq!(changes.endpoints, [endpoint], "also what a receiver changed");
    pair.fixture.store().remove_app(app, None).await.unwrap();
    assert_eq!(pair.other.store.changes(changes.version).await.unwrap().apps, [app]);
    assert_eq!(pair.other.store.app(app).await.unwrap(), None);
    assert!(
        pair.other.store.changes(changes.version + 9).await.unwrap().is_all,
        "from a database that lost some"
    );
    pair.shared.run("UPDATE config_version SET trimmed_version = version");
    assert!(pair.other.store.changes(0).await.unwrap().is_all);
}

async fn changed_event_types_and_apps_are_named_to_the_other_nodes(mut pair: TwoNodes) {
    let (app, store, mut seen) = (pair.fixture.app, pair.fixture.shared_store(), pair.view().await.version);
    let id = EventTypeId::from_i64(pair.fixture.next_id());
    let (name, document) = ("payment.paid".to_owned(), EventTypeDocument::default());
    let first = EventTypeRecord { id, name, document, revision: 1, created_at: NOW, updated_at: NOW };
    for put in [Some(first.clone()), Some(EventTypeRecord { revision: 2, ..first }), None] {
        let done = match put.clone() {
            Some(record) => store.put_event_type(record, None).await,
            None => store.remove_event_type(id, None).await,
        };
        assert!(done.unwrap());
        let changes = pair.other.store.changes(seen).await.unwrap();
        assert_eq!((&*changes.event_types, changes.apps.len()), (&[id][..], 0), "{put:?}");
        assert_eq!(pair.other.store.event_type(id).await.unwrap(), put);
        seen = changes.version;
    }
    let mut changed = store.app(app).await.unwrap().expect("an app");
    changed.settings.name = "Another".into();
    assert!(store.change_app(changed.clone(), None).await.unwrap());
    let changes = pair.other.store.changes(seen).await.unwrap();
    assert_eq!((&*changes.apps, changes.event_types.len()), (&[app][..], 0));
    assert_eq!(pair.other.store.app(app).await.unwrap(), Some(changed));
}

async fn a_deleted_app_is_purged_once_every_node_knows_of_the_deletion(mut pair: TwoNodes) {
    let (app, endpoint, store) = (pair.fixture.app, pair.fixture.endpoint, pair.fixture.shared_store());
    pair.fixture.waiting().await;
    let is_database = matches!(pair.shared, SharedStore::Database(_));
    if is_database {
        let (app, endpoint) = (app.as_i64(), endpoint.as_i64());
        let locks = format!("(0, {endpoint}), (1, {endpoint}), (2, {app}), (0, {app}), (2, {endpoint})");
        pair.shared.run(&format!("DELETE FROM locks; INSERT INTO locks (kind, endpoint) VALUES {locks}"));
    }
    store.remove_app(app, None).await.unwrap();
    if is_database {
        assert_eq!(
            pair.shared.run("SELECT count(*) FROM locks"),
            "2",
            "those of the app and its endpoint went"
        );
    }
    assert!(!store.purge_deleted_apps().await.unwrap(), "the other node does not know yet");
    assert_eq!(pair.other.accept(pair.fixture.one_event()).await, Accepted::New, "and takes one more");
    pair.shared.run(&format!(
        "INSERT INTO health (endpoint, app, consecutive_failures, failed_events, successes) VALUES (5, {}, 1, 0, 0)",
        app.as_i64()
    ));
    let seen = pair.view().await.version;
    pair.other.store.heartbeat(Heartbeat { config_version: seen - 1, ..Heartbeat::default() }).await.unwrap();
    assert!(!store.purge_deleted_apps().await.unwrap());
    pair.other.store.heartbeat(Heartbeat { config_version: seen, ..Heartbeat::default() }).await.unwrap();
    while store.purge_deleted_apps().await.unwrap() {}
    for table in ["events", "deliveries", "health", "app_deletions"] {
        assert_eq!(pair.shared.run(&format!("SELECT count(*) FROM {table}")), "0", "{table}");
    }
}

async fn a_configuration_change_notifies_the_other_nodes(pair: TwoNodes) {
    pair.other.quiet().await;
    pair.fixture.set_availability(pair.fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    wait_until("rung", async || pair.other.recorder.take_configuration_waits() > 0).await;
    assert_eq!(pair.fixture.recorder.take_configuration_waits(), 0, "not by its own bell");
}

async fn a_replay_notifies_the_other_nodes(mut pair: TwoNodes) {
    begin(&mut pair.fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    wait_until("rung", async || pair.other.recorder.take_replays_wait() > 0).await;
}

async fn a_waiting_delivery_notifies_the_owner_of_its_queue(mut pair: TwoNodes) {
    pair.fixture.recorder.owns_no_queue.store(true, Ordering::SeqCst);
    pair.fixture.waiting().await;
    wait_until("rung", async || pair.other.recorder.take_waiting() == [(pair.fixture.endpoint, NOW)]).await;
    let here = pair.fixture.recorder.take_waiting();
    assert_eq!(here, [(pair.fixture.endpoint, NOW)], "once, and not by its own bell");
}

macro_rules! play_on_both {
    ($($case:ident,)+; only on a database: $($notify:ident,)+) => {
        play! { database: $($case,)+ $($notify,)+ }
        play! { file: $($case,)+ }
    };
}

play_on_both! {
    a_takeover_needs_an_ended_lease_and_a_steady_node,
    a_node_that_was_taken_over_writes_nothing_before_it_joins_again,
    without_its_fence_a_node_that_was_taken_over_could_write,
    a_permit_of_an_earlier_epoch_leases_nothing,
    a_delivery_leased_by_another_node_cannot_be_recorded,
    a_takeover_interrupted_before_the_fence_continues,
    a_takeover_interrupted_after_the_fence_continues,
    shards_are_divided_between_nodes_and_handed_over,
    a_node_that_leaves_deliveries_behind_is_taken_over_before_its_lease_ends,
    a_joining_node_takes_over_deliveries_of_an_unknown_node,
    nodes_see_the_last_report_of_each_other,
    deliveries_leased_by_other_nodes_are_counted_by_endpoint,
    configuration_changes_of_one_node_reach_the_others,
    changed_event_types_and_apps_are_named_to_the_other_nodes,
    a_deleted_app_is_purged_once_every_node_knows_of_the_deletion,
    ;
    only on a database:
    a_takeover_waits_for_the_running_commit_of_the_dead_node,
    a_joining_node_takes_over_an_ended_process_of_its_machine,
    a_configuration_change_notifies_the_other_nodes,
    a_replay_notifies_the_other_nodes,
    a_waiting_delivery_notifies_the_owner_of_its_queue,
}
