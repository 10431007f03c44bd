//! The whole network: how each receiver treats a request, and what it remembers of it. It outlives every process.

use crate::{plan::Plan, simulation_env::SimulationEnv};
use bytes::Bytes;
use fastrand::Rng;
use posthaste::{
    domain::{
        id::{AttemptId, EndpointId},
        outcome::{Outcome, OutcomeClass, Timings},
        time::Timestamp,
    },
    outbound::{HttpSender, OutboundRequest, SendFuture},
    runtime::Clock,
};
use std::{sync::Arc, time::Duration};

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiverMode {
    Ok,
    /// Does the work, but answers after this long: perhaps too late.
    Slow(i64),
    Status(u16),
    /// 429 and so many seconds of `Retry-After`.
    TooMany(u32),
    Hang,
    Refused,
    /// A kept-alive connection is gone; a fresh one works.
    Stale,
    /// The sender's machine has no file handles.
    Local,
    /// Does the work, and the connection breaks before the answer.
    Lie,
    Dns,
    /// Sometimes this, sometimes that.
    Flapping,
}

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) changes: Vec<(i64, ReceiverMode)>,
}

impl Script {
    pub(crate) fn at(&self, at: i64) -> ReceiverMode {
        let begun = self.changes.iter().rev().find(|(from, _)| *from <= at);
        begun.map_or(ReceiverMode::Ok, |(_, mode)| *mode)
    }
}

/// A request, as the network saw it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) life: u32,
    pub(crate) queue: EndpointId,
    pub(crate) attempt: AttemptId,
    pub(crate) fresh: bool,
    pub(crate) started_at: Timestamp,
    /// When the sender got its answer or gave up; `None`: it died before.
    pub(crate) ended_at: Option<Timestamp>,
    /// Outcome that the sender saw; meaningless if `ended_at` is `None`.
    pub(crate) class: OutcomeClass,
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<u32>,
    /// When the receiver did its work.
    pub(crate) done_at: Option<Timestamp>,
    /// When the sender let go of a request that had not come back.
    pub(crate) dropped_at: Option<Timestamp>,
}

/// Fate of one request.
pub(crate) struct Fate {
    /// The receiver does its work after this many milliseconds, if at all.
    pub(crate) works_after: Option<i64>,
    pub(crate) ends_after: i64,
    class: OutcomeClass,
    status: Option<u16>,
    retry_after: Option<u32>,
    /// Whether it arrives although its sender dies.
    pub(crate) arrives_anyway: bool,
}

/// The network as one process sees it.
pub(crate) struct FakeHttpSender {
    pub(crate) env: Arc<SimulationEnv>,
    pub(crate) life: u32,
}

impl HttpSender for FakeHttpSender {
    fn post(&self, request: OutboundRequest) -> SendFuture<'_> {
        Box::pin(async move {
            if self.env.is_dead(self.life) {
                // A dead process sends nothing, in whatever order its tasks are dropped.
                std::future::pending::<()>().await;
            }
            Ok(self.deliver(request).await)
        })
    }

    /// No endpoint here has a health address.
    fn get(&self, _: OutboundRequest) -> SendFuture<'_> {
        Box::pin(std::future::ready(Ok(Outcome::failed(OutcomeClass::Connect, "connection refused"))))
    }
}

impl FakeHttpSender {
    async fn deliver(&self, request: OutboundRequest) -> Outcome {
        let fate = self.fate_of(&request);
        let number = self.begin(&request, &fate);
        self.env.post_begun(self.life, number as u32 + 1);
        let mut hold = RequestGuard {
            http_sender: self,
            post: number,
            arrives_anyway: fate.arrives_anyway && fate.works_after.is_some(),
        };
        if let Some(after) = fate.works_after {
            sleep(after.min(fate.ends_after)).await;
            hold.arrive();
            sleep(fate.ends_after - after.min(fate.ends_after)).await;
        } else {
            sleep(fate.ends_after).await;
        }
        hold.end();
        drop(hold);
        fate.outcome()
    }

    fn begin(&self, request: &OutboundRequest, fate: &Fate) -> usize {
        let attempt = attempt_of(request);
        let mut event_log = self.env.event_log();
        event_log.posts.push(SeenRequest {
            life: self.life,
            queue: request.endpoint_id,
            attempt,
            fresh: request.fresh,
            started_at: self.env.clock.now(),
            ended_at: None,
            class: fate.class,
            status: fate.status,
            retry_after: fate.retry_after,
            done_at: None,
            dropped_at: None,
        });
        event_log.posts.len() - 1
    }

    fn fate_of(&self, request: &OutboundRequest) -> Fate {
        let plan: &Plan = &self.env.plan;
        let endpoint = self.env.event_log().endpoints.iter().position(|known| *known == request.endpoint_id);
        let script = &plan.endpoints[endpoint.expect("only known endpoints are called")].script;
        let mode = script.at(self.env.elapsed());
        Fate::of(mode, request, &mut self.env.network_rng())
    }
}

pub(crate) fn attempt_of(request: &OutboundRequest) -> AttemptId {
    let named = request.headers.iter().find(|(name, _)| name == "x-attempt-id");
    named.and_then(|(_, id)| AttemptId::parse(id)).expect("an attempt names itself")
}

impl Fate {
    pub(crate) fn of(mut mode: ReceiverMode, request: &OutboundRequest, rng: &mut Rng) -> Self {
        if mode == ReceiverMode::Flapping {
            mode = [
                ReceiverMode::Ok,
                ReceiverMode::Ok,
                ReceiverMode::Status(500),
                ReceiverMode::Refused,
                ReceiverMode::Lie,
            ][rng.usize(0..5)];
        }
        if mode == ReceiverMode::Stale && request.fresh {
            mode = ReceiverMode::Ok;
        }
        let (way, arrives_anyway) = (rng.i64(0..40), rng.bool());
        let timeout_ms = request.timeout.as_millis() as i64;
        let answer = |status, ends_after| Self {
            works_after: (status < 300).then_some(way),
            ends_after,
            class: OutcomeClass::Http,
            status: Some(status),
            retry_after: None,
            arrives_anyway,
        };
        let failed =
            |class, ends_after| Self { works_after: None, class, status: None, ..answer(500, ends_after) };
        let mut fate = match mode {
            ReceiverMode::Ok | ReceiverMode::Flapping => answer(200, way * 2),
            ReceiverMode::Slow(ms) => answer(204, ms),
            ReceiverMode::Status(status) => answer(status, way * 2),
            ReceiverMode::TooMany(seconds) => Self { retry_after: Some(seconds), ..answer(429, way * 2) },
            ReceiverMode::Hang => failed(OutcomeClass::Timeout, timeout_ms),
            ReceiverMode::Refused => failed(OutcomeClass::Connect, way),
            ReceiverMode::Stale => failed(OutcomeClass::StaleConnection, way),
            ReceiverMode::Local => failed(OutcomeClass::Local, 0),
            ReceiverMode::Dns => failed(OutcomeClass::Dns, way),
            ReceiverMode::Lie => Self { works_after: Some(way), ..failed(OutcomeClass::Connect, way * 2) },
        };
        if fate.ends_after > timeout_ms {
            fate = Self { class: OutcomeClass::Timeout, status: None, ends_after: timeout_ms, ..fate };
        }
        fate
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            class: self.class,
            status: self.status,
            error: self.status.is_none().then(|| "made up".to_owned()),
            timings: Timings { total_us: self.ends_after as u32 * 1000, ..Timings::default() },
            address: None,
            retry_after: self.retry_after.map(|seconds| seconds.to_string()),
            response_headers: Vec::new(),
            response_body: Bytes::new(),
        }
    }
}

pub(crate) async fn sleep(ms: i64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms as u64)).await;
    }
}

/// A request on its way; if its sender lets go of it, it may arrive all the same.
struct RequestGuard<'a> {
    http_sender: &'a FakeHttpSender,
    post: usize,
    arrives_anyway: bool,
}

impl RequestGuard<'_> {
    fn arrive(&mut self) {
        let now = self.http_sender.env.clock.now();
        self.http_sender.env.event_log().posts[self.post].done_at.get_or_insert(now);
    }

    fn end(&mut self) {
        let now = self.http_sender.env.clock.now();
        self.http_sender.env.event_log().posts[self.post].ended_at = Some(now);
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let now = self.http_sender.env.clock.now();
        let mut event_log = self.http_sender.env.event_log();
        let post = &mut event_log.posts[self.post];
        if post.ended_at.is_none() {
            post.dropped_at = Some(now);
            if self.arrives_anyway {
                post.done_at.get_or_insert(now);
            }
        }
    }
}
