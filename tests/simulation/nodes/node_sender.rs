//! HTTP sender of one process, which is watched: at its first byte every request is compared with the store.

use super::{
    environment::{NodesEnv, SentRequest, at},
    plan::EndpointKind,
    sabotage::CheckedSendGate,
};
use crate::{
    event_log::Promise,
    network::{Fate, attempt_of, sleep},
};
use posthaste::{
    domain::{
        cluster::NODE_LEASE,
        id::DeliveryId,
        outcome::{Outcome, OutcomeClass},
    },
    outbound::{GateClosed, HttpSender, OutboundRequest, SendFuture},
};
use rusqlite::OptionalExtension;
use std::sync::Arc;

/// Store's view of a delivery: its endpoint, and of the node that has leased it how long its lease is and whether it is
/// dead.
type StoredLease = (Option<i64>, Option<i64>, Option<bool>);

pub(crate) struct NodeHttpSender {
    pub(crate) env: Arc<NodesEnv>,
    pub(crate) life: usize,
    pub(crate) gate: CheckedSendGate,
}

impl HttpSender for NodeHttpSender {
    fn post(&self, request: OutboundRequest) -> SendFuture<'_> {
        Box::pin(self.deliver(request))
    }

    /// No endpoint here has a health address.
    fn get(&self, _: OutboundRequest) -> SendFuture<'_> {
        Box::pin(std::future::ready(Ok(Outcome::failed(OutcomeClass::Connect, "connection refused"))))
    }
}

impl NodeHttpSender {
    async fn deliver(&self, request: OutboundRequest) -> Result<Outcome, GateClosed> {
        let called_at = self.env.now();
        if self.sent_last(&request).is_some_and(|life| life != self.life) {
            self.gate.is_handed_over();
        }
        self.must_be_open()?;
        let (connects, gap) = self.delays();
        sleep(connects).await;
        self.must_be_open()?;
        let freezes = self.freezes();
        // Between the last check and the first byte is a moment, which may be long on a busy machine.
        sleep(gap).await;
        // A process that freezes just there cannot be held back.
        let is_excused = self.freezes() != freezes;
        let fate = self.fate_of(&request);
        let number = self.begin(&request, &fate, called_at, is_excused);
        let mut hold = NodeRequestGuard { http_sender: self, number, arrives_anyway: fate.arrives_anyway };
        sleep(fate.ends_after).await;
        hold.end();
        Ok(fate.outcome())
    }

    /// Returns which node sent to this endpoint last, if only one may at a time.
    fn sent_last(&self, request: &OutboundRequest) -> Option<usize> {
        let kind = self.env.plan.endpoints[self.endpoint(request)].kind;
        let log = self.env.log();
        let last = log.sends.iter().rfind(|send| send.queue == request.endpoint_id);
        last.filter(|_| matches!(kind, EndpointKind::Rated(_))).map(|send| send.life)
    }

    fn must_be_open(&self) -> Result<(), GateClosed> {
        if self.gate.is_open() { Ok(()) } else { Err(GateClosed) }
    }

    fn freezes(&self) -> usize {
        self.env.log().lives[self.life].freezes
    }

    fn delays(&self) -> (i64, i64) {
        let mut state = self.env.state();
        let rng = &mut state.rng;
        let connects = match rng.u8(0..80) {
            0 => rng.i64(0..15_000),
            1..12 => rng.i64(0..2500),
            _ => rng.i64(0..30),
        };
        (connects, if rng.u8(0..3) == 0 { rng.i64(0..700) } else { 0 })
    }

    fn fate_of(&self, request: &OutboundRequest) -> Fate {
        let script = &self.env.plan.endpoints[self.endpoint(request)].script;
        let now = self.env.now();
        Fate::of(script.at(now), request, &mut self.env.state().rng)
    }

    fn endpoint(&self, request: &OutboundRequest) -> usize {
        let known = self.env.log().endpoints.iter().position(|known| *known == request.endpoint_id);
        known.expect("only known endpoints are called")
    }

    fn begin(&self, request: &OutboundRequest, fate: &Fate, called_at: i64, is_excused: bool) -> usize {
        let (now, delivery) = (self.env.now(), attempt_of(request).delivery);
        let send = SentRequest {
            life: self.life,
            epoch: self.gate.node_state.epoch(),
            queue: request.endpoint_id,
            delivery,
            called_at,
            works_at: fate.works_after.map(|after| now + after.min(fate.ends_after)),
            ended_at: None,
            dropped_at: None,
            freezes: self.freezes(),
        };
        // A request is excused if the store lost its lease, until the sender knows.
        if !is_excused && !self.env.log().has_lost(send.epoch) {
            self.must_be_owned(&send);
            self.must_be_only_sender(&send, self.env.plan.endpoints[self.endpoint(request)].kind);
            self.must_be_first(delivery);
        }
        let mut log = self.env.log();
        log.sends.push(send);
        log.sends.len() - 1
    }

    /// Checks that the sender has leased the delivery, and that no other node may take over from it.
    fn must_be_owned(&self, send: &SentRequest) {
        let sql = "SELECT d.queue, n.lease_until, n.dead FROM deliveries d LEFT JOIN nodes n ON n.epoch = -d.queue WHERE d.id = ?1";
        let found: Option<StoredLease> = {
            let file = self.env.file().connection();
            let mut sql = file.prepare_cached(sql).unwrap();
            let id = send.delivery.as_i64();
            sql.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional().unwrap()
        };
        let now = at(self.env.state().now).as_millis();
        // A lease that went back with the store is valid again at the next heartbeat.
        let went_back = self.env.log().losses.last().map(|loss| at(loss.at).plus(NODE_LEASE).as_millis());
        let is_leased = |until: i64| now <= until.max(went_back.unwrap_or(until));
        let is_owned = |(queue, lease_until, dead): StoredLease| {
            queue == Some(-send.epoch) && lease_until.is_some_and(is_leased) && dead == Some(false)
        };
        if !found.is_some_and(is_owned) {
            let what = format!("(queue, lease, dead) {found:?} at {now} of {send:?}");
            self.env.complain(Promise::Send, what);
        }
    }

    /// Checks that no other node is sending to an exclusive endpoint, unless it is frozen or dead.
    fn must_be_only_sender(&self, send: &SentRequest, kind: EndpointKind) {
        let log = self.env.log();
        let is_out = |other: &&SentRequest| {
            let life = &log.lives[other.life];
            let is_seen =
                life.ended_at.is_none() && life.freezes == other.freezes && !log.has_lost(other.epoch);
            other.queue == send.queue && other.ended_at.is_none() && other.dropped_at.is_none() && is_seen
        };
        let out: Vec<&SentRequest> = log.sends.iter().filter(is_out).collect();
        let most = match kind {
            EndpointKind::Shared => return,
            EndpointKind::Narrow(most) => most as usize,
            EndpointKind::Ordered(_) | EndpointKind::Rated(_) => usize::MAX,
        };
        let broken = if out.iter().any(|other| other.life != send.life) {
            Some((Promise::Sole, format!("{send:?} beside {out:?}")))
        } else if out.len() >= most {
            Some((Promise::Pace, format!("{send:?} beside {} others", out.len())))
        } else {
            None
        };
        drop(log);
        if let Some((promise, what)) = broken {
            self.env.complain(promise, what);
        }
    }

    /// Checks that the delivery is the first of its ordering group that has not ended, in the order in which they were
    /// stored, whatever their ids are.
    fn must_be_first(&self, delivery: DeliveryId) {
        let sql = "SELECT o.delivery FROM lines l JOIN lines o ON o.endpoint = l.endpoint AND o.ordering_key = l.ordering_key
                 AND o.number < l.number
             JOIN deliveries d ON d.id = o.delivery WHERE l.delivery = ?1 AND d.state < 4 LIMIT 1";
        let earlier: Option<i64> = {
            let file = self.env.file().connection();
            let mut sql = file.prepare_cached(sql).unwrap();
            sql.query_row([delivery.as_i64()], |row| row.get(0)).optional().unwrap()
        };
        if let Some(earlier) = earlier {
            let what = format!("{delivery} goes before {}", DeliveryId::from_i64(earlier));
            self.env.complain(Promise::Order, what);
        }
    }
}

/// A request on its way; if its sender lets go of it, it may arrive all the same.
struct NodeRequestGuard<'a> {
    http_sender: &'a NodeHttpSender,
    number: usize,
    arrives_anyway: bool,
}

impl NodeRequestGuard<'_> {
    fn end(&mut self) {
        let now = self.http_sender.env.now();
        self.http_sender.env.log().sends[self.number].ended_at = Some(now);
    }
}

impl Drop for NodeRequestGuard<'_> {
    fn drop(&mut self) {
        let now = self.http_sender.env.now();
        let mut log = self.http_sender.env.log();
        let send = &mut log.sends[self.number];
        if send.ended_at.is_none() {
            send.dropped_at = Some(now);
            send.works_at = send.works_at.filter(|works_at| *works_at <= now || self.arrives_anyway);
        }
    }
}
