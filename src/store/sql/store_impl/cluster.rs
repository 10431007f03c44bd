//! Implements `ClusterStore`: cluster membership, takeover and maintenance.

use crate::store::sql::{
    Backend, MembershipBackend, adjusted_clock, changes, health, inspections, maintenance, nodes, replays,
    retention, retention_records, rollup, shards,
};
use crate::{
    domain::{
        cluster::OutageReport,
        id::{EndpointId, KeyId},
        live_update::LiveUpdate,
        replay::Replay,
        retention::RetentionPolicy,
        storage::StorageUsage,
        time::Timestamp,
    },
    store::{
        ClusterStore, Reply,
        cluster::{
            ClusterView, ConfigChanges, HealthBootstrap, HealthCandidate, Heartbeat, Joined, PurgedRecords,
            RollupResult, SHARD_COUNT,
        },
        retention::{OverdueEvents, OverdueSearch},
    },
};
use std::{sync::Arc, time::Duration};

fn answer<T: Send + 'static>(known: T) -> Reply<'static, T> {
    Box::pin(std::future::ready(Ok(known)))
}

/// View of a store that can have only one node.
fn alone() -> ClusterView {
    ClusterView {
        nodes: Vec::new(),
        shards: vec![0; SHARD_COUNT],
        version: 0,
        write_counter: 0,
        may_take_over: true,
    }
}

impl<D: Backend> ClusterStore for D {
    fn join(&self, now: Timestamp) -> Reply<'_, Joined> {
        if let Some(membership) = self.membership() {
            return membership.join(now);
        }
        let reply = self.write_then(
            move |tx| Ok((maintenance::join_alone(tx, now)?, inspections::waits(tx)?)),
            |(_, inspections_wait), after| after.inspections_wait |= *inspections_wait,
        );
        Box::pin(async move { reply.await.map(|(joined, _)| joined) })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<ClusterView>> {
        self.membership().map_or_else(|| answer(Some(alone())), |membership| membership.heartbeat(heartbeat))
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'_, Option<usize>> {
        match self.membership() {
            Some(membership) => membership.take_over(epoch, now),
            None => answer(None),
        }
    }

    fn claim_shards(&self, most: usize) -> Reply<'_, Vec<u8>> {
        match self.membership() {
            Some(_) => self.write(move |tx| shards::claim(tx, most)),
            None => answer(Vec::new()),
        }
    }

    fn release_shards(&self, shards: Vec<u8>) -> Reply<'_, ()> {
        match self.membership() {
            Some(_) => self.write(move |tx| shards::release(tx, &shards)),
            None => answer(()),
        }
    }

    fn in_flight_elsewhere(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointId>> {
        match self.membership().map(<dyn MembershipBackend>::epoch) {
            Some(epoch) => self
                .read_for_engine(move |connection| nodes::in_flight_elsewhere(connection, epoch, &endpoints)),
            None => answer(Vec::new()),
        }
    }

    fn changes(&self, after: i64) -> Reply<'_, ConfigChanges> {
        match self.membership() {
            Some(_) => self.read_for_engine(move |connection| changes::since(connection, after)),
            None => answer(ConfigChanges { version: after, ..ConfigChanges::default() }),
        }
    }

    fn nodes(&self) -> Reply<'_, ClusterView> {
        self.membership().map_or_else(|| answer(alone()), <dyn MembershipBackend>::nodes)
    }

    fn find_queues(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>> {
        self.read_for_engine(maintenance::find_queues)
    }

    fn queues_with_due(&self, queues: Vec<EndpointId>, now: Timestamp) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(move |connection| maintenance::queues_with_due(connection, &queues, now))
    }

    fn purge_deleted_apps(&self) -> Reply<'_, bool> {
        Box::pin(async {
            if let Some(membership) = self.membership() {
                membership.maintain().await?;
            }
            self.write(maintenance::purge).await
        })
    }

    fn overdue(
        &self,
        search: OverdueSearch,
        keeps: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<'_, OverdueEvents> {
        self.read_for_engine(move |connection| retention::overdue(connection, &search, &*keeps, now))
    }

    fn purge_records(&self, before: Timestamp) -> Reply<'_, PurgedRecords> {
        self.write(move |tx| retention_records::purge_records(tx, before))
    }

    fn usage(&self) -> Reply<'_, StorageUsage> {
        self.measure()
    }

    fn record_key_uses(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<'_, ()> {
        self.write(move |tx| maintenance::record_key_uses(tx, &uses))
    }

    fn running_replays(&self) -> Reply<'_, Vec<Replay>> {
        self.read_for_engine(replays::running)
    }

    fn endpoints_to_apply(&self) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(maintenance::endpoints_to_apply)
    }

    fn health_bootstrap(&self, now: Timestamp) -> Reply<'_, HealthBootstrap> {
        self.read_for_engine(move |connection| health::health_bootstrap(connection, now))
    }

    fn roll_up(&self, adjusted_time: Duration, now: Timestamp) -> Reply<'_, RollupResult> {
        Box::pin(async move {
            let part = self.read_for_engine(rollup::next_part).await?;
            self.write(move |tx| rollup::roll_up(tx, &part, adjusted_time, now)).await
        })
    }

    fn sync_outage_clock(&self, mine: OutageReport, now: Timestamp) -> Reply<'_, OutageReport> {
        if self.membership().is_none() {
            return answer(mine);
        }
        Box::pin(async move {
            let all = self
                .read_for_engine(move |connection| adjusted_clock::cluster_clock(connection, now))
                .await?;
            if adjusted_clock::must_be_written(mine, all) {
                self.write(move |tx| adjusted_clock::write(tx, mine, now)).await?;
            }
            Ok(OutageReport {
                adjusted_time: all.adjusted_time.max(mine.adjusted_time),
                is_local_outage: all.is_local_outage,
            })
        })
    }

    fn degraded(&self) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(health::degraded)
    }

    fn evaluate_health(&self, candidates: Vec<HealthCandidate>, now: Timestamp) -> Reply<'_, ()> {
        let reply = self.write_then(
            move |tx| health::evaluate_health(tx, &candidates, now),
            |judged, after| {
                after.disabled.extend(judged.disabled.iter().cloned());
                after.live_updates.extend(
                    judged.changed.iter().map(|(app, endpoint)| LiveUpdate::endpoint(*app, *endpoint)),
                );
            },
        );
        Box::pin(async move { reply.await.map(drop) })
    }
}
