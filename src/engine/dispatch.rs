//! Sends couriers out for lanes that have something to send, no more at a time than each lane allows.

use super::{courier::Courier, lane::Lane, lanes::Lanes};
use crate::world::Shutdown;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

/// A store that cannot write must not keep a node from stopping.
const HAND_BACK_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Dispatch {
    pub(super) lanes: Arc<Lanes>,
    pub(super) ready: mpsc::UnboundedReceiver<Arc<Lane>>,
    pub(super) courier: Arc<Courier>,
    pub(super) grace: Duration,
}

impl Dispatch {
    /// Until told to stop. Then what no courier has taken goes back unattempted, and what is in flight has the grace
    /// period to come back; the rest is given up with "outcome unknown".
    pub(super) async fn run(&mut self, stop: Shutdown) {
        let mut couriers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.soft() => break,
                lane = self.ready.recv() => match lane {
                    Some(lane) => self.send_out(&lane, &mut couriers),
                    None => break,
                },
                Some(_) = couriers.join_next(), if !couriers.is_empty() => {}
            }
        }
        self.lanes.close();
        self.hand_back_queued().await;
        let wait_for_all = async { while couriers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, wait_for_all).await.is_err() {
            tracing::warn!(unfinished = couriers.len(), "the grace period is over");
            couriers.shutdown().await;
        }
    }

    fn send_out(&self, lane: &Arc<Lane>, couriers: &mut JoinSet<()>) {
        for _ in 0..lane.send_out() {
            let (lane, courier) = (lane.clone(), self.courier.clone());
            couriers.spawn(async move {
                let mut out = Out { lane, is_counted: true };
                while let Some(carried) = out.next() {
                    courier.carry(carried).await;
                }
            });
        }
    }

    /// Gives back, unattempted, what no courier has taken.
    pub(super) async fn hand_back_queued(&self) {
        let queued: Vec<_> = self.lanes.all().iter().flat_map(|lane| lane.empty_queue()).collect();
        if queued.is_empty() {
            return;
        }
        let now = self.courier.clock.now();
        let count = queued.len();
        let handed_back = self.courier.ledger.hand_back(queued, now);
        match tokio::time::timeout(HAND_BACK_WITHIN, handed_back).await {
            Ok(Ok(())) => tracing::info!(count, "handed back what was not yet sent"),
            Ok(Err(error)) => {
                tracing::error!(%error, count, "could not hand back; the next start takes over");
            }
            Err(_) => tracing::error!(count, "the store takes nothing back; the next start takes over"),
        }
    }
}

/// A courier that is out: counted in its lane, and counted out even if it panics.
struct Out {
    lane: Arc<Lane>,
    is_counted: bool,
}

impl Out {
    fn next(&mut self) -> Option<crate::domain::port::Carried> {
        let next = self.lane.next();
        self.is_counted = next.is_some();
        next
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if self.is_counted {
            self.lane.count_out();
        }
    }
}
