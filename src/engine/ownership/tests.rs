//! Queues of one node among several, whose shards the tests assign.

use super::*;
use crate::{
    domain::{
        app::{App, AppRules, AppSettings},
        cluster::{shard_of, shard_of_app},
        delivery::Delivery,
        endpoint::{Endpoint, EndpointRecord, EndpointSettings, fixtures::endpoint},
        event::Event,
        id::{AppId, DeliveryId, EventId},
        ports::{CommitListener, Permits},
        rate_limit::{AppLimits, RateLimit},
    },
    engine::{EngineLimits, QueueEvents, SharedLimits, endpoint_queue::RefillDecision},
    runtime::ConfigCache,
};
use std::time::Duration;

pub(in crate::engine) const RATE: RateLimit = RateLimit { per_second: 10, burst: 10 };
const APP: AppId = AppId::from_i64(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_794_700_800_000 + seconds * 1000)
}

/// With one app and no endpoints.
pub(in crate::engine) fn queues_of(node_state: Arc<NodeLease>) -> (Arc<EndpointQueues>, QueueEvents) {
    let config_cache = Arc::<ConfigCache>::default();
    config_cache.put_app(app(None), AppRules::MISSING_CONTRACT);
    let limits = EngineLimits {
        deliveries_in_flight_max: 100,
        bytes_max: 1 << 20,
        in_flight_per_endpoint: 10,
        limits: SharedLimits::default(),
    };
    EndpointQueues::new(limits, config_cache, node_state)
}

fn app(limits: Option<AppLimits>) -> App {
    let settings = AppSettings { limits, ..AppSettings::default() };
    App { id: APP, uid: "a".into(), settings, created_at: at(0), updated_at: at(0) }
}

/// An endpoint in this shard.
pub(in crate::engine) fn in_shard(shard: u8, rate_limit: Option<RateLimit>) -> Arc<Endpoint> {
    let number = (1..100_000).find(|number| shard_of(EndpointId::from_i64(*number)) == shard).unwrap();
    let event_types = vec!["*".to_owned()];
    endpoint(number, EndpointSettings { event_types, rate_limit, ..EndpointSettings::default() })
}

/// The endpoint with a limit, as its next revision.
pub(in crate::engine) fn limited(endpoint: &Endpoint) -> Arc<Endpoint> {
    let settings = EndpointSettings { rate_limit: Some(RATE), ..endpoint.record.settings.clone() };
    let record =
        EndpointRecord { settings, revision: endpoint.record.revision + 1, ..endpoint.record.clone() };
    Arc::new(Endpoint { record, ..endpoint.clone() })
}

pub(in crate::engine) fn put(queues: &EndpointQueues, endpoint: &Arc<Endpoint>) {
    assert!(queues.config_cache.put_endpoint(endpoint.clone()));
    queues.endpoint_changed(endpoint.id());
}

/// A leased delivery, as the store passes it on.
pub(in crate::engine) fn leased(queues: &EndpointQueues, endpoint: &Endpoint, epoch: i64) -> LeasedDelivery {
    let event = Event {
        id: EventId::from_i64(1),
        app: APP,
        external_id: None,
        event_type: "a".into(),
        created_at: at(0),
        accepted_at: at(0),
        data: "{}".into(),
        key: None,
        deliver_at: None,
        has_no_subscribers: false,
    };
    let permit = queues.take(endpoint.id(), 1).unwrap();
    let delivery = Delivery::new(DeliveryId::from_i64(2), APP, event.id, endpoint.id(), at(0), None);
    LeasedDelivery { delivery, event: Arc::new(event), due: at(0), permit, epoch }
}

fn node() -> (Arc<EndpointQueues>, QueueEvents) {
    let node_state = NodeLease::default();
    node_state.join(7);
    queues_of(Arc::new(node_state))
}

#[test]
fn on_a_single_node_no_queue_is_exclusive_and_every_shard_is_its_own() {
    let (queues, _events) = queues_of(Arc::new(NodeLease::single_node()));
    let limited = in_shard(9, Some(RATE));
    put(&queues, &limited);
    assert!(queues.take(limited.id(), 1).is_some() && queues.is_owned_here(limited.id()));
    assert!(queues.take_unconfirmed().is_empty());
}

#[test]
fn endpoints_of_an_app_with_limits_are_in_one_shard_and_exclusive() {
    let (queues, _events) = node();
    let (one, other) = (in_shard(1, None), in_shard(2, None));
    for endpoint in [&one, &other] {
        put(&queues, endpoint);
    }
    let shards = || {
        [&one, &other].map(|endpoint| queues.settings(endpoint.id())).map(|is| (is.shard, is.is_exclusive))
    };
    assert_eq!(shards(), [(1, false), (2, false)]);
    let limits = AppLimits { max_in_flight: Some(3), rate_limit: None };
    queues.config_cache.put_app(app(Some(limits)), AppRules::MISSING_CONTRACT);
    queues.app_changed(APP);
    assert_eq!(shards(), [(shard_of_app(APP), true); 2]);
    assert!(queues.take(one.id(), 1).is_none() && queues.is_owned_elsewhere(one.id()));
}

#[test]
fn queued_deliveries_are_released_when_only_another_node_may_send_them() {
    let (queues, _events) = node();
    let shared = in_shard(5, None);
    put(&queues, &shared);
    queues.deliveries_leased(vec![leased(&queues, &shared, 7)]);
    let queue = queues.queue(shared.id());
    assert!(queue.take_unsendable(at(1)).is_empty());
    put(&queues, &limited(&shared));
    assert!(queue.try_admit_next(at(1)).0.is_none());
    assert_eq!(queue.take_unsendable(at(1)).len(), 1);
    // On its owner it goes back too, until that is confirmed as the only sender.
    queues.node_state().set_ownership(5, ShardOwnership::Local);
    queue.become_exclusive_owner(at(1));
    queues.deliveries_leased(vec![leased(&queues, &shared, 7)]);
    assert!(queue.take_unsendable(at(2)).is_empty() && queue.try_admit_next(at(3)).0.is_some());
}

#[test]
fn a_queue_that_was_perhaps_shared_between_two_changes_is_confirmed_again() {
    let (queues, _events) = node();
    queues.node_state().set_ownership(5, ShardOwnership::Local);
    let endpoint = in_shard(5, Some(RATE));
    put(&queues, &endpoint);
    let queue = queues.queue(endpoint.id());
    queue.become_exclusive_owner(at(1));
    queues.take_unconfirmed();
    let next = limited(&endpoint);
    put(&queues, &next);
    assert!(!queue.is_sent_elsewhere() && queues.take_unconfirmed().is_empty(), "every change was seen");
    put(&queues, &limited(&limited(&next)));
    assert!(queue.is_sent_elsewhere());
    assert_eq!(queues.take_unconfirmed(), BTreeSet::from([endpoint.id()]));
}

#[test]
fn queues_of_an_app_with_limits_are_confirmed_again_when_the_app_was_changed() {
    let (queues, _events) = node();
    queues.node_state().set_ownership(shard_of_app(APP), ShardOwnership::Local);
    let endpoint = in_shard(5, None);
    put(&queues, &endpoint);
    let change = |seconds| {
        let limits = Some(AppLimits { max_in_flight: Some(3), rate_limit: None });
        queues
            .config_cache
            .put_app(App { updated_at: at(seconds), ..app(limits) }, AppRules::MISSING_CONTRACT);
        queues.app_changed(APP);
    };
    change(1);
    let queue = queues.queue(endpoint.id());
    queue.become_exclusive_owner(at(2));
    queues.take_unconfirmed();
    change(1);
    assert!(!queue.is_sent_elsewhere() && queues.take_unconfirmed().is_empty(), "nothing was changed");
    change(3);
    assert!(queue.is_sent_elsewhere(), "in between it may have had none");
    assert_eq!(queues.take_unconfirmed(), BTreeSet::from([endpoint.id()]));
}

#[test]
fn only_the_owner_fetches_what_waits_and_an_exclusive_queue_only_once_confirmed() {
    let (queues, _events) = node();
    let (shared, limited) = (in_shard(5, None), in_shard(6, Some(RATE)));
    let asks = |endpoint: &Endpoint| {
        let queue = queues.queue(endpoint.id());
        queue.note_due(at(0));
        matches!(queue.begin_refill(1, at(1)), RefillDecision::Refill(_))
    };
    for endpoint in [&shared, &limited] {
        put(&queues, endpoint);
    }
    assert!(!asks(&shared) && !asks(&limited));
    for shard in [5, 6] {
        queues.node_state().set_ownership(shard, ShardOwnership::Local);
    }
    queues.take_unconfirmed();
    assert!(asks(&shared) && !asks(&limited));
    assert_eq!(
        queues.take_unconfirmed().into_iter().collect::<Vec<_>>(),
        [limited.id()],
        "its confirmation is requested"
    );
    queues.become_exclusive_owner(limited.id(), at(1));
    assert!(asks(&limited));
    for shard in [5, 6] {
        queues.node_state().set_ownership(shard, ShardOwnership::Draining);
    }
    assert!(
        asks(&shared) && !asks(&limited),
        "a leaving shard begins nothing that its next owner could meet"
    );
}

#[test]
fn on_other_nodes_an_open_circuit_gives_no_permits_until_its_time_is_over_and_then_one_at_a_time() {
    let (queues, _events) = node();
    let shared = in_shard(5, None);
    put(&queues, &shared);
    queues.start_half_open(shared.id(), at(0));
    let queue = queues.queue(shared.id());
    assert!(queues.take(shared.id(), 1).is_none());
    queue.set_helping(true);
    queue.note_due(at(0));
    assert!(matches!(queue.begin_refill(1, at(1)), RefillDecision::NotBefore(_)), "its owner probes");
    queues.survey(at(1));
    assert!(queues.take(shared.id(), 1).is_some());
    assert_eq!(queue.lock().concurrency(), 1);
    // On its owner only a probe can close it.
    queues.node_state().set_ownership(5, ShardOwnership::Local);
    queues.start_half_open(shared.id(), at(1));
    queues.survey(at(1).plus(Duration::from_hours(1)));
    assert!(queues.take(shared.id(), 1).is_none());
}
