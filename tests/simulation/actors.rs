//! Clients of the product: producers that publish until they know, people that make requests, an operator that enables and
//! disables endpoints.

use crate::{
    event_log::{ActionAnswer, ActionFact, AnswerFact, AvailabilityFact, Promise},
    plan::{ActionKind, ActionPlan, AvailabilityAction, AvailabilityPlan, DiskTrouble},
    process::ServiceAccess,
    simulation_env::SimulationEnv,
};
use bytes::Bytes;
use posthaste::{
    domain::{id::DeliveryId, ordering::OnDead, time::Timestamp},
    service::{
        Caller, Error, Patch,
        apps::NewApp,
        deliveries::RequestedAction,
        endpoints::{EndpointPatch, NewEndpoint},
        publish::{PublishRequest, Published},
    },
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

pub(crate) const ADMIN: Caller = Caller::OPERATOR;
pub(crate) const APP: &str = "shop";

/// How long a client waits after a call without an answer.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(370);

pub(crate) async fn wait_for_service(env: &SimulationEnv) -> Arc<ServiceAccess> {
    loop {
        let opened = env.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        if let Some(access) = env.access() {
            return access;
        }
        opened.await;
    }
}

/// Makes the app and its endpoints, before anything goes wrong.
pub(crate) async fn create_app_and_endpoints(env: &SimulationEnv) {
    let access = wait_for_service(env).await;
    let retention = env.plan.retention.map(|keeps| env.sabotage.retention(keeps).overrides());
    let overrides = retention.clone().map(|retention| json!({ "retention": retention }));
    let has_limits = !env.sabotage.lifts_limits();
    let limits = env.plan.limits.app_field().filter(|_| has_limits);
    let app = NewApp { uid: Some(APP.into()), name: "Shop".into(), overrides, limits, ..NewApp::default() };
    access.service.add_app(ADMIN, app).await.unwrap();
    let entry = access.service.app(ADMIN, APP).unwrap();
    for (number, plan) in env.plan.endpoints.iter().enumerate() {
        let mut own_overrides = plan.overrides.clone();
        if let Some(retention) = &retention {
            own_overrides["retention"] = retention.clone();
        }
        let new = NewEndpoint {
            uid: Some(plan.uid.clone()),
            url: format!("https://{}.example.com/in", plan.uid),
            contract: Some(plan.contract.to_owned()),
            overrides: Some(own_overrides),
            max_in_flight: plan.max_in_flight,
            ordered: Some(plan.ordered),
            on_dead: plan.on_dead,
            rate_limit: env.plan.limits.rate_field(number).filter(|_| has_limits),
            ..NewEndpoint::default()
        };
        let endpoint = access.service.add_endpoint(ADMIN, &entry, new).await.unwrap();
        env.event_log().endpoints.push(endpoint.id());
    }
}

/// Publishes one event until it is known to be accepted. Without an id it is not published twice.
pub(crate) async fn publish(env: Arc<SimulationEnv>, number: usize) {
    let plan = &env.plan.events[number];
    let can_ask_again = plan.id.is_some() || plan.idempotency_key.is_some();
    let mut loses_answer = plan.first_answer_is_lost && can_ask_again;
    loop {
        let access = wait_for_service(&env).await;
        let called_at = env.now();
        let entry = access.service.app(ADMIN, APP).unwrap();
        let publish = || PublishRequest {
            id: plan.id.as_deref(),
            event_type: plan.event_type,
            data: Bytes::from(format!("{{\"number\":{number}}}")),
            created_at: None,
            key: plan.key,
            deliver_at: plan.deliver_at.map(SimulationEnv::instant),
            idempotency_key: plan.idempotency_key.as_deref(),
        };
        let answers = if plan.has_twin && can_ask_again {
            let both = access.service.publish_all(&entry, vec![publish(), publish()]).await;
            both.and_then(|both| both.into_iter().collect::<Result<Vec<_>, _>>())
        } else {
            access.service.publish(&entry, publish()).await.map(|published| vec![published])
        };
        let is_lost = env.is_dead(access.life);
        match answers {
            Ok(all) if !is_lost => {
                for published in &all {
                    note_answer(&env, number, called_at, published);
                }
                if !loses_answer {
                    return;
                }
                loses_answer = false;
            }
            Ok(_) | Err(Error::Unavailable(_) | Error::Overloaded) => {
                // Neither "stopping" nor "the disk is full" leaves a doubt; a dead process does.
                if is_lost && !can_ask_again {
                    return;
                }
            }
            Err(error) => {
                env.complain(Promise::Accept, format!("event {number} was refused: {error}"));
                return;
            }
        }
        tokio::time::sleep(CALL_TIMEOUT).await;
    }
}

fn note_answer(env: &SimulationEnv, plan: usize, called_at: Timestamp, published: &Published) {
    let answered_at = env.now();
    let mut event_log = env.event_log();
    let under_trouble = event_log.troubles.iter().any(|trouble| {
        trouble.trouble == DiskTrouble::ReadOnly && trouble.from <= called_at && answered_at < trouble.until
    });
    if under_trouble && published.is_new {
        event_log.complain(Promise::Accept, format!("event {plan} was accepted while the disk took nothing"));
    }
    let deliveries: Vec<(DeliveryId, String)> =
        published.deliveries.iter().map(|(id, name)| (*id, name.as_str().to_owned())).collect();
    for (id, _) in &deliveries {
        if !event_log.known.contains(id) {
            event_log.known.push(*id);
        }
    }
    let (event, is_new) = (published.event.id, published.is_new);
    event_log.answers.push(AnswerFact { plan, answered_at, is_new, event, deliveries });
}

/// Makes a request once; without an answer it is not repeated.
pub(crate) async fn act(env: Arc<SimulationEnv>, plan: ActionPlan) {
    let Some(access) = env.access() else { return };
    let called_at = env.now();
    let Ok(entry) = access.service.app(ADMIN, APP) else { return };
    if plan.kind == ActionKind::Test {
        let uid = &env.plan.endpoints[plan.pick as usize % env.plan.endpoints.len()].uid;
        if let Ok(delivery) = access.service.send_test(&entry, uid).await {
            env.event_log().known.push(delivery);
        }
        return;
    }
    let delivery = {
        let event_log = env.event_log();
        match event_log.known.len() {
            0 => return,
            count => event_log.known[plan.pick as usize % count],
        }
    };
    let requested = match plan.kind {
        ActionKind::Retry => RequestedAction::Retry,
        ActionKind::Replay => RequestedAction::Replay,
        ActionKind::Cancel => RequestedAction::Cancel,
        ActionKind::Close | ActionKind::Test => RequestedAction::Close,
    };
    let answer = access.service.act_on_delivery(ADMIN, &entry, &delivery.to_string(), requested).await;
    let said = match answer {
        Ok(shown) if shown.delivery.id == delivery => ActionAnswer::Done(shown.delivery),
        Ok(shown) => ActionAnswer::Made(shown.delivery),
        // A disk in trouble may have stored the request and failed the read of its result.
        Err(Error::Unavailable(_)) => ActionAnswer::Unknown,
        Err(_) if env.is_dead(access.life) => ActionAnswer::Unknown,
        Err(_) => ActionAnswer::Refused,
    };
    let answered_at = env.now();
    let mut event_log = env.event_log();
    if let ActionAnswer::Made(made) = &said {
        event_log.known.push(made.id);
    }
    event_log.asks.push(ActionFact {
        delivery,
        is_manual: true,
        kind: plan.kind,
        called_at,
        answered_at,
        said,
    });
}

/// Enables or disables an endpoint, repeated until it is known to be done.
pub(crate) async fn set_availability(env: Arc<SimulationEnv>, plan: AvailabilityPlan) {
    let uid = &env.plan.endpoints[plan.endpoint].uid;
    let called_at = env.now();
    loop {
        let access = wait_for_service(&env).await;
        let entry = access.service.app(ADMIN, APP).unwrap();
        let service = &access.service;
        let done = match plan.kind {
            AvailabilityAction::Off => service.disable_endpoint(ADMIN, &entry, uid).await.map(drop),
            AvailabilityAction::On => service.enable_endpoint(ADMIN, &entry, uid).await.map(drop),
            AvailabilityAction::Delete => service.remove_endpoint(ADMIN, &entry, uid).await,
            AvailabilityAction::Touch => {
                let description = Patch::Value(format!("touched at {called_at}"));
                let patch = EndpointPatch { description, ..EndpointPatch::default() };
                service.change_endpoint(ADMIN, &entry, uid, patch).await.map(drop)
            }
            AvailabilityAction::Skip => {
                let patch = EndpointPatch { on_dead: Patch::Value(OnDead::Skip), ..EndpointPatch::default() };
                service.change_endpoint(ADMIN, &entry, uid, patch).await.map(drop)
            }
        };
        let is_gone = matches!(done, Err(Error::NotFound(_)));
        if is_gone && plan.kind != AvailabilityAction::Delete {
            return;
        }
        if (done.is_ok() || is_gone) && !env.is_dead(access.life) {
            let answered_at = env.now();
            let fact = AvailabilityFact { endpoint: plan.endpoint, kind: plan.kind, called_at, answered_at };
            env.event_log().availability_changes.push(fact);
            return;
        }
        tokio::time::sleep(CALL_TIMEOUT).await;
    }
}
