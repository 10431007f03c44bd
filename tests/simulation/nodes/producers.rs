//! Clients of the nodes: producers that publish to any node that answers until they know, and an operator that changes
//! endpoints while they are sent to.

use super::{db_triggers, environment::NodesEnv, node::Node, plan::EndpointKind};
use crate::{
    actors::{ADMIN, APP},
    event_log::Promise,
};
use bytes::Bytes;
use posthaste::{
    domain::id::EventId,
    runtime::CachedApp,
    service::{
        Error, Patch, Service,
        apps::NewApp,
        endpoints::{EndpointPatch, NewEndpoint},
        publish::PublishRequest,
    },
};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// How long a client waits for an answer before asking another node.
const CALL_TIMEOUT_MS: i64 = 3000;
const CALL_PAUSE_MS: i64 = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientCall {
    /// Number of the plan.
    Publish(usize),
    Change(usize),
}

/// A call that is repeated until it is known to be done.
struct PendingCall {
    request: ClientCall,
    at: i64,
    node: usize,
    /// Since when an answer is awaited, and of which process.
    requested: Option<(i64, usize)>,
    can_ask_again: bool,
    is_done: bool,
}

/// Answer of a node; for an event, which it is.
enum CallAnswer {
    Done(Option<EventId>),
    NotNow,
    Refused(String),
}

type Answers = Arc<Mutex<Vec<(usize, usize, CallAnswer)>>>;

/// Facts that the producer of an event knows: when it was first published, and when that was first answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    pub(crate) asked_at: Option<i64>,
    pub(crate) answered_at: Option<i64>,
    pub(crate) event: Option<EventId>,
}

pub(crate) struct Producers {
    env: Arc<NodesEnv>,
    wishes: Vec<PendingCall>,
    answers: Answers,
    /// Published events, by the number of their plan.
    pub(crate) published: Vec<Published>,
}

impl Producers {
    pub(crate) fn new(env: &Arc<NodesEnv>) -> Self {
        let plan = &env.plan;
        let mut wishes = Vec::new();
        let mut wish = |request, at, node, can_ask_again| {
            wishes.push(PendingCall { request, at, node, requested: None, can_ask_again, is_done: false });
        };
        for (number, event) in plan.events.iter().enumerate() {
            wish(ClientCall::Publish(number), event.at, event.node, event.id.is_some());
            if event.has_twin {
                wish(ClientCall::Publish(number), event.at, event.node + 1, true);
            }
        }
        for (number, change) in plan.changes.iter().enumerate() {
            wish(ClientCall::Change(number), change.at, change.node, true);
        }
        let published = vec![Published::default(); plan.events.len()];
        Self { env: env.clone(), wishes, answers: Arc::default(), published }
    }

    pub(crate) fn are_done(&self) -> bool {
        self.wishes.iter().all(|wish| wish.is_done)
    }

    /// Takes the answers, and makes the calls that are due.
    pub(crate) fn step(&mut self, now: i64, nodes: &[Option<&Node>]) {
        self.take_answers(now);
        for number in 0..self.wishes.len() {
            let wish = &mut self.wishes[number];
            if wish.is_done || now < wish.at {
                continue;
            }
            if let Some((since, life)) = wish.requested {
                let is_dead = !nodes.iter().flatten().any(|node| node.life == life);
                if !is_dead && now < since + CALL_TIMEOUT_MS {
                    continue;
                }
                (wish.requested, wish.is_done) = (None, !wish.can_ask_again);
                wish.node += 1;
            }
            let (request, node) = (wish.request, nodes[wish.node % nodes.len()]);
            if wish.is_done {
                continue;
            }
            let Some((node, service)) = node.and_then(|node| Some((node, node.service()?))) else {
                (wish.node, wish.at) = (wish.node + 1, now + CALL_PAUSE_MS);
                continue;
            };
            wish.requested = Some((now, node.life));
            if let ClientCall::Publish(plan) = request {
                self.published[plan].asked_at.get_or_insert(now);
            }
            let (env, answers) = (self.env.clone(), self.answers.clone());
            node.spawn(ask(env, service, request, (number, node.life), answers));
        }
    }

    fn take_answers(&mut self, now: i64) {
        let reply = std::mem::take(&mut *self.answers.lock().unwrap());
        for (number, life, said) in reply {
            let wish = &mut self.wishes[number];
            let is_awaited = wish.requested.is_some_and(|(_, requested)| requested == life);
            match said {
                CallAnswer::Done(event) => {
                    wish.is_done = true;
                    if let (Some(event), ClientCall::Publish(plan)) = (event, wish.request) {
                        self.note(plan, event, now);
                    }
                }
                CallAnswer::NotNow if is_awaited => {
                    (wish.requested, wish.node, wish.at) = (None, wish.node + 1, now + CALL_PAUSE_MS);
                }
                CallAnswer::NotNow => {}
                CallAnswer::Refused(why) => {
                    let what = format!("{:?} was refused: {why}", wish.request);
                    self.env.complain(Promise::Accept, what);
                    wish.is_done = true;
                }
            }
        }
    }

    /// Notes an event. The same id must be the same event on every node.
    fn note(&mut self, plan: usize, event: EventId, now: i64) {
        let published = &mut self.published[plan];
        if published.event.is_some_and(|known| known != event) && self.env.log().is_lost(event) {
            // A node that was frozen answers only now: the record of that id has expired.
            return;
        }
        if published.event.is_some_and(|known| known != event && self.env.log().is_lost(known)) {
            // The record of its first publication has expired.
            (published.event, published.answered_at) = (None, None);
        }
        published.answered_at.get_or_insert(now);
        let known = *published.event.get_or_insert(event);
        if known != event && self.env.plan.events[plan].id.is_some() {
            self.env.complain(Promise::Accept, format!("event {plan} is {known} and {event}"));
        }
    }
}

async fn ask(
    env: Arc<NodesEnv>,
    service: Arc<Service>,
    request: ClientCall,
    (wish, life): (usize, usize),
    answers: Answers,
) {
    let said = match service.app(ADMIN, APP) {
        Err(_) => CallAnswer::NotNow,
        Ok(entry) => {
            let done = match request {
                ClientCall::Publish(number) => publish(&env, &service, &entry, number).await.map(Some),
                ClientCall::Change(number) => change(&env, &service, &entry, number).await.map(|()| None),
            };
            match done {
                Ok(event) => CallAnswer::Done(event),
                Err(Error::Unavailable(_) | Error::Overloaded | Error::Conflict(_)) => CallAnswer::NotNow,
                Err(error) => CallAnswer::Refused(error.to_string()),
            }
        }
    };
    answers.lock().unwrap().push((wish, life, said));
}

async fn publish(
    env: &NodesEnv,
    service: &Service,
    entry: &CachedApp,
    number: usize,
) -> Result<EventId, Error> {
    let plan = &env.plan.events[number];
    let publish = PublishRequest {
        id: plan.id.as_deref(),
        event_type: "payment.created",
        data: Bytes::from(format!("{{\"number\":{number}}}")),
        created_at: None,
        key: plan.key,
        deliver_at: None,
        idempotency_key: None,
    };
    Ok(service.publish(entry, publish).await?.event.id)
}

async fn change(env: &NodesEnv, service: &Service, entry: &CachedApp, number: usize) -> Result<(), Error> {
    let plan = env.plan.changes[number];
    let max_in_flight = plan.narrow.map_or(Patch::Null, Patch::Value);
    let patch = EndpointPatch { max_in_flight, ..EndpointPatch::default() };
    let uid = &env.plan.endpoints[plan.endpoint].uid;
    service.change_endpoint(ADMIN, entry, uid, patch).await.map(drop)
}

/// Makes the app and its endpoints, before anything goes wrong.
pub(crate) async fn create_app_and_endpoints(env: Arc<NodesEnv>, service: Arc<Service>) {
    let app = NewApp { uid: Some(APP.into()), name: "Shop".into(), ..NewApp::default() };
    service.add_app(ADMIN, app).await.unwrap();
    let entry = service.app(ADMIN, APP).unwrap();
    // Patient enough for any fault, so that no delivery has to die.
    let waits: Vec<&str> = ["200ms", "1s", "2s", "4s"].into_iter().chain(["5s"; 28]).collect();
    for plan in &env.plan.endpoints {
        let mut new = NewEndpoint {
            uid: Some(plan.uid.clone()),
            url: format!("https://{}.example.com/in", plan.uid),
            contract: Some("quick".into()),
            overrides: Some(
                json!({ "timeout": "20s", "retry": { "waits": waits }, "headers": { "x-attempt-id": "{attempt_id}" } }),
            ),
            ..NewEndpoint::default()
        };
        match plan.kind {
            EndpointKind::Shared => {}
            EndpointKind::Ordered(order) => new.ordered = Some(order),
            EndpointKind::Narrow(most) => new.max_in_flight = Some(most * env.sabotage.width_factor()),
            EndpointKind::Rated(rate) => {
                let per_second = rate.per_second * env.sabotage.rate_factor();
                let limit = json!({ "per_second": per_second, "burst": rate.burst });
                new.rate_limit = limit.as_object().cloned();
            }
        }
        let endpoint = service.add_endpoint(ADMIN, &entry, new).await.unwrap();
        db_triggers::note_shard(&env.file().connection(), endpoint.id());
        env.log().endpoints.push(endpoint.id());
    }
}
