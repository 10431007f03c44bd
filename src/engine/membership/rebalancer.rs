//! Acts on what heartbeats report of other nodes: takes over from dead ones, shares shards with living ones, confirms which
//! queues only this node sends for, and helps where others have too much to send.

use super::{HeartbeatReply, MembershipState};
use crate::{
    domain::{
        cluster::{NO_CONFIG_VERSION, SHARD_COUNT},
        id::EndpointId,
    },
    runtime::ShardOwnership,
    store::{
        StoreError,
        cluster::{ClusterView, Node},
    },
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::sync::watch;

/// Queues that the store is asked about at once.
const CONFIRMATIONS_MAX: usize = 1000;

pub(super) struct Rebalancer<'a> {
    shared: &'a MembershipState,
    reply: watch::Receiver<Option<Arc<HeartbeatReply>>>,
    /// Queues of other nodes that this one fetches for.
    helped_queues: BTreeSet<EndpointId>,
}

impl<'a> Rebalancer<'a> {
    pub(super) fn new(shared: &'a MembershipState) -> Self {
        Self { shared, reply: shared.reply.subscribe(), helped_queues: BTreeSet::new() }
    }

    pub(super) async fn run(mut self) {
        while self.reply.changed().await.is_ok() {
            let reply = self.reply.borrow_and_update().clone();
            if let Some(reply) = reply
                && let Err(error) = self.rebalance(&reply).await
            {
                tracing::warn!(%error, "could not share work with other nodes");
            }
        }
    }

    async fn rebalance(&mut self, reply: &HeartbeatReply) -> Result<(), StoreError> {
        self.help_owners(&reply.view);
        self.confirm_ownership(&reply.view).await?;
        self.balance_shards(reply).await?;
        self.take_over_from_the_dead(&reply.view).await
    }

    /// Fetches for queues that their owner cannot keep up with, while this node has permits to spare.
    fn help_owners(&mut self, view: &ClusterView) {
        let queues = &self.shared.queues;
        let mut wanted = BTreeSet::new();
        if queues.context.permit_pool.has_plenty() {
            wanted.extend(
                self.others(view).filter(|node| !node.is_expired).flat_map(|node| &node.overloaded_queues),
            );
            wanted.retain(|endpoint| queues.config_cache.endpoint(*endpoint).is_some());
        }
        queues.set_helped_queues(&self.helped_queues, &wanted, self.shared.clock.now());
        self.helped_queues = wanted;
    }

    fn others<'v>(&self, view: &'v ClusterView) -> impl Iterator<Item = &'v Node> {
        let own = self.shared.node_state().epoch();
        view.nodes.iter().filter(move |node| node.epoch != own)
    }

    /// Makes this node the only sender of a queue once every other node knows of it, and has nothing of it in flight. A node
    /// whose lease is over is asked too, as long as it has not been taken over: it may come back.
    async fn confirm_ownership(&mut self, view: &ClusterView) -> Result<(), StoreError> {
        let shared = self.shared;
        let known_to_all = self.others(view).map(|node| node.config_version).min().unwrap_or(i64::MAX);
        let requested: Vec<EndpointId> = {
            let doubts = shared.unconfirmed();
            let confirmed = doubts.iter().filter(|(_, version)| **version <= known_to_all);
            confirmed.map(|(endpoint, _)| *endpoint).collect()
        };
        let epoch = shared.node_state().epoch();
        for some in requested.chunks(CONFIRMATIONS_MAX) {
            let elsewhere = shared.cluster_store.in_flight_elsewhere(some.to_vec()).await?;
            if shared.node_state().epoch() != epoch {
                return Ok(());
            }
            let now = shared.clock.now();
            let is_settled = |endpoint: &&EndpointId| {
                !elsewhere.contains(endpoint) && !shared.queues.is_unconfirmed(**endpoint)
            };
            for endpoint in some.iter().filter(is_settled) {
                shared.unconfirmed().remove(endpoint);
                shared.queues.become_exclusive_owner(*endpoint, now);
            }
        }
        Ok(())
    }

    /// Moves towards the fair share of shards. A node that stops wants none.
    async fn balance_shards(&mut self, reply: &HeartbeatReply) -> Result<(), StoreError> {
        let shared = self.shared;
        if reply.shard_moves != shared.shard_moves.load(SeqCst) {
            return Ok(());
        }
        self.reconcile(&reply.view).await?;
        // A node that has only just joined takes no shard before it has read the configuration: until then others keep them.
        let may_gain = shared.node_state().config_version() != NO_CONFIG_VERSION;
        let staying = 1 + self.others(&reply.view).filter(|node| node.is_available()).count();
        let fair = if shared.stop.is_graceful() { 0 } else { SHARD_COUNT.div_ceil(staying) };
        let here: Vec<u8> = shared.node_state().shards_in(ShardOwnership::Local).collect();
        if here.len() > fair {
            shared.set_owners(&here[fair..], ShardOwnership::Draining);
            shared.queues.wake_departing();
        } else if here.len() < fair && may_gain {
            self.gain_shards(&reply.view, fair - here.len()).await?;
        }
        self.release_idle_shards().await
    }

    /// Adopts what the store says of shards and this node did not know: an answer may have been lost on its way.
    async fn reconcile(&mut self, view: &ClusterView) -> Result<(), StoreError> {
        let (mut found, mut lost) = (Vec::new(), Vec::new());
        let node_state = self.shared.node_state();
        for (shard, owner) in (0..=u8::MAX).zip(&view.shards) {
            match (*owner == node_state.epoch(), node_state.ownership(shard)) {
                (true, ShardOwnership::Remote) => found.push(shard),
                (false, ShardOwnership::Local | ShardOwnership::Draining) => lost.push(shard),
                _ => {}
            }
        }
        if !lost.is_empty() {
            self.shared.set_owners(&lost, ShardOwnership::Remote);
            self.shared.queues.give_up_shards(&lost);
        }
        self.take_over_shards(found).await
    }

    /// Gains shards: first those that were about to leave, then such as have no owner.
    async fn gain_shards(&mut self, view: &ClusterView, wanted: usize) -> Result<(), StoreError> {
        let shared = self.shared;
        let staying: Vec<u8> = shared.node_state().shards_in(ShardOwnership::Draining).take(wanted).collect();
        let free = view.shards.iter().filter(|owner| **owner == 0).count();
        let most = free.min(wanted - staying.len());
        self.take_over_shards(staying).await?;
        if most == 0 {
            return Ok(());
        }
        let epoch = shared.node_state().epoch();
        shared.shard_moves.fetch_add(1, SeqCst);
        let claimed = shared.cluster_store.claim_shards(most).await?;
        shared.shard_moves.fetch_add(1, SeqCst);
        if shared.node_state().epoch() == epoch { self.take_over_shards(claimed).await } else { Ok(()) }
    }

    /// Takes shards over, so that what waits in them is found. Before that it reads how their endpoints are: nothing is sent
    /// to one that asked for a pause, and a failing one is probed first. If that cannot be read, they arrive with a later
    /// heartbeat.
    async fn take_over_shards(&mut self, shards: Vec<u8>) -> Result<(), StoreError> {
        if shards.is_empty() {
            return Ok(());
        }
        let (shared, queues) = (self.shared, &self.shared.queues);
        let (now, epoch) = (shared.clock.now(), shared.node_state().epoch());
        let health = shared.cluster_store.health_bootstrap(now).await?;
        if shared.node_state().epoch() != epoch {
            return Ok(());
        }
        let has_arrived = |endpoint: &EndpointId| {
            let is_known = queues.config_cache.endpoint(*endpoint).is_some();
            is_known && shards.contains(&queues.settings(*endpoint).shard)
        };
        for endpoint in health.failing.into_iter().filter(has_arrived) {
            queues.start_half_open(endpoint, now);
        }
        for (endpoint, paused) in health.paused.into_iter().filter(|(endpoint, _)| has_arrived(endpoint)) {
            queues.resume_pause(endpoint, paused, now);
        }
        shared.set_owners(&shards, ShardOwnership::Local);
        queues.take_over_shards(&shards);
        Ok(())
    }

    /// Releases the shards that are to leave, once nothing is under way in them that their next owner must not meet.
    async fn release_idle_shards(&mut self) -> Result<(), StoreError> {
        let shared = self.shared;
        let node_state = shared.node_state();
        if node_state.shards_in(ShardOwnership::Draining).next().is_none() {
            return Ok(());
        }
        let busy = shared.queues.survey(shared.clock.now()).busy;
        let is_idle = |shard: &u8| !busy.contains(shard) && !node_state.has_leader_task(*shard);
        let idle: Vec<u8> = node_state.shards_in(ShardOwnership::Draining).filter(is_idle).collect();
        if idle.is_empty() {
            return Ok(());
        }
        shared.shard_moves.fetch_add(1, SeqCst);
        shared.set_owners(&idle, ShardOwnership::Remote);
        shared.queues.give_up_shards(&idle);
        let released = shared.cluster_store.release_shards(idle).await;
        shared.shard_moves.fetch_add(1, SeqCst);
        released
    }

    async fn take_over_from_the_dead(&self, view: &ClusterView) -> Result<(), StoreError> {
        let expired = self.others(view).filter(|node| node.is_expired && view.may_take_over);
        for Node { epoch, name, .. } in expired {
            let taken = self.shared.cluster_store.take_over(*epoch, self.shared.clock.now()).await?;
            if let Some(deliveries) = taken {
                tracing::warn!(%name, epoch, deliveries, "took over the deliveries of a dead node");
            }
        }
        Ok(())
    }
}
