//! What a node does for the others and for itself.

use crate::store::sql::{Desk, cluster, health, inspections, replays, retention, rollup, upkeep};
use crate::{
    domain::{
        hint::Hint,
        id::{EndpointId, KeyId},
        replay::Replay,
        retention::Keeps,
        storage::StorageUsage,
        time::Timestamp,
    },
    store::{
        Cluster, Reply,
        cluster::{Forgotten, Joined, RolledUp, Standing, Suspect},
        retention::{Overdue, OverdueSearch},
    },
};
use std::{sync::Arc, time::Duration};

impl<D: Desk> Cluster for D {
    fn join(&self, now: Timestamp) -> Reply<'_, Joined> {
        let reply = self.call_then(
            move |tx| Ok((cluster::join(tx, now)?, inspections::interrupt(tx, now)?)),
            |(_, inspections_wait), after| after.inspections_wait |= *inspections_wait,
        );
        Box::pin(async move { reply.await.map(|(joined, _)| joined) })
    }

    fn find_lanes(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>> {
        self.read_for_engine(cluster::find_lanes)
    }

    fn purge(&self) -> Reply<'_, bool> {
        self.call(cluster::purge)
    }

    fn overdue(&self, search: OverdueSearch, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Overdue> {
        self.read_for_engine(move |connection| retention::overdue(connection, &search, &*keeps, now))
    }

    fn forget(&self, before: Timestamp) -> Reply<'_, Forgotten> {
        self.call(move |tx| upkeep::forget(tx, before))
    }

    fn usage(&self) -> Reply<'_, StorageUsage> {
        self.measure()
    }

    fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<'_, ()> {
        self.call(move |tx| cluster::keys_used(tx, &uses))
    }

    fn running_replays(&self) -> Reply<'_, Vec<Replay>> {
        self.read_for_engine(replays::running)
    }

    fn unsettled(&self) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(cluster::unsettled)
    }

    fn standing(&self, now: Timestamp) -> Reply<'_, Standing> {
        self.read_for_engine(move |connection| health::standing(connection, now))
    }

    fn roll_up(&self, accountable: Duration, now: Timestamp) -> Reply<'_, RolledUp> {
        Box::pin(async move {
            let part = self.read_for_engine(rollup::next_part).await?;
            self.call(move |tx| rollup::roll_up(tx, &part, accountable, now)).await
        })
    }

    fn degraded(&self) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(health::degraded)
    }

    fn judge(&self, suspects: Vec<Suspect>, now: Timestamp) -> Reply<'_, ()> {
        let reply = self.call_then(
            move |tx| health::judge(tx, &suspects, now),
            |judged, after| {
                after.switched_off.extend(judged.went_off.iter().cloned());
                after
                    .hints
                    .extend(judged.turned.iter().map(|(app, endpoint)| Hint::endpoint(*app, *endpoint)));
            },
        );
        Box::pin(async move { reply.await.map(drop) })
    }
}
