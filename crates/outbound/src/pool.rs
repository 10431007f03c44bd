//! Idle connections, one list per endpoint queue. They are not polled and have no timer: they are checked when a
//! request takes one, and by `sweep`.

use super::connection::HttpConnection;
use model::{id::EndpointId, target_url::TargetUrl, tls::EndpointTls};
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Queues are spread over this many locks, each held for a push or a pop only.
const LOCK_SHARDS: usize = 16;

type IdleByEndpoint = HashMap<EndpointId, Vec<Box<HttpConnection>>>;

pub(super) struct ConnectionPool {
    shards: [Mutex<IdleByEndpoint>; LOCK_SHARDS],
    idle: AtomicUsize,
    idle_per_queue_max: usize,
    idle_max: usize,
    idle_for_max: Duration,
}

impl ConnectionPool {
    pub(super) fn new(idle_per_queue_max: usize, idle_max: usize, idle_for_max: Duration) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, idle: AtomicUsize::new(0), idle_per_queue_max, idle_max, idle_for_max }
    }

    /// Takes the queue's connection for such requests that became idle last. If that is too old, leads elsewhere or
    /// was opened with other certificates, all of the queue's connections are closed.
    pub(super) fn take(
        &self,
        endpoint: EndpointId,
        target: &TargetUrl,
        tls: Option<&EndpointTls>,
        now: Instant,
    ) -> Option<Box<HttpConnection>> {
        let mut by_endpoint = self.shard(endpoint);
        let resting = by_endpoint.get_mut(&endpoint)?;
        let connection = resting.pop()?;
        self.idle.fetch_sub(1, Relaxed);
        if self.is_fresh(&connection, now) && connection.route().serves(target, tls) {
            return Some(connection);
        }
        // The newest is out of date or leads elsewhere, so the ones before it are no better.
        self.idle.fetch_sub(resting.len(), Relaxed);
        let closing = std::mem::take(resting);
        drop(by_endpoint);
        drop((connection, closing));
        None
    }

    /// Keeps a connection for later, or closes it if there are enough.
    pub(super) fn put(&self, endpoint: EndpointId, mut connection: Box<HttpConnection>, now: Instant) {
        connection.mark_idle(now);
        let mut by_endpoint = self.shard(endpoint);
        let resting = by_endpoint.entry(endpoint).or_default();
        if resting.len() < self.idle_per_queue_max && self.idle.load(Relaxed) < self.idle_max {
            self.idle.fetch_add(1, Relaxed);
            resting.push(connection);
        } else {
            drop(by_endpoint);
            drop(connection);
        }
    }

    /// Closes connections that were idle too long. Returns when the next one expires.
    pub(super) fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for shard in &self.shards {
            let mut closing = Vec::new();
            let mut by_endpoint = lock(shard);
            for resting in by_endpoint.values_mut() {
                // Oldest first, as they were put.
                let expired = resting.partition_point(|connection| !self.is_fresh(connection, now));
                closing.extend(resting.drain(..expired));
                if let Some(oldest) = resting.first() {
                    let ends_at = oldest.idle_since() + self.idle_for_max;
                    next = Some(next.map_or(ends_at, |next: Instant| next.min(ends_at)));
                }
            }
            by_endpoint.retain(|_, resting| !resting.is_empty());
            drop(by_endpoint);
            self.idle.fetch_sub(closing.len(), Relaxed);
        }
        next
    }

    pub(super) fn idle(&self) -> usize {
        self.idle.load(Relaxed)
    }

    fn is_fresh(&self, connection: &HttpConnection, now: Instant) -> bool {
        now.duration_since(connection.idle_since()) < self.idle_for_max
    }

    fn shard(&self, endpoint: EndpointId) -> MutexGuard<'_, IdleByEndpoint> {
        // The low bits count within a millisecond and the middle ones are the node's: mix them.
        let mixed = (endpoint.as_i64() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lock(&self.shards[(mixed >> 60) as usize % LOCK_SHARDS])
    }
}

fn lock(shard: &Mutex<IdleByEndpoint>) -> MutexGuard<'_, IdleByEndpoint> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
