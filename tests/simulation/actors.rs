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

pub(crate) async fn wait_for_service(world: &SimulationEnv) -> Arc<ServiceAccess> {
    loop {
        let opened = world.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        if let Some(office) = world.office() {
            return office;
        }
        opened.await;
    }
}

/// Makes the app and its endpoints, before anything goes wrong.
pub(crate) async fn create_app_and_endpoints(world: &SimulationEnv) {
    let office = wait_for_service(world).await;
    let retention = world.plan.retention.map(|keeps| world.sabotage.retention(keeps).overrides());
    let overrides = retention.clone().map(|retention| json!({ "retention": retention }));
    let has_limits = !world.sabotage.lifts_limits();
    let limits = world.plan.limits.app_field().filter(|_| has_limits);
    let app = NewApp { uid: Some(APP.into()), name: "Shop".into(), overrides, limits, ..NewApp::default() };
    office.service.add_app(ADMIN, app).await.unwrap();
    let entry = office.service.app(ADMIN, APP).unwrap();
    for (number, plan) in world.plan.endpoints.iter().enumerate() {
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
            rate_limit: world.plan.limits.rate_field(number).filter(|_| has_limits),
            ..NewEndpoint::default()
        };
        let endpoint = office.service.add_endpoint(ADMIN, &entry, new).await.unwrap();
        world.journal().endpoints.push(endpoint.id());
    }
}

/// Publishes one event until it is known to be accepted. Without an id it is not published twice.
pub(crate) async fn publish(world: Arc<SimulationEnv>, number: usize) {
    let plan = &world.plan.events[number];
    let can_ask_again = plan.id.is_some() || plan.idempotency_key.is_some();
    let mut loses_answer = plan.first_answer_is_lost && can_ask_again;
    loop {
        let office = wait_for_service(&world).await;
        let called_at = world.now();
        let entry = office.service.app(ADMIN, APP).unwrap();
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
            let both = office.service.publish_all(&entry, vec![publish(), publish()]).await;
            both.and_then(|both| both.into_iter().collect::<Result<Vec<_>, _>>())
        } else {
            office.service.publish(&entry, publish()).await.map(|published| vec![published])
        };
        let is_lost = world.is_dead(office.life);
        match answers {
            Ok(all) if !is_lost => {
                for published in &all {
                    note_answer(&world, number, called_at, published);
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
                world.complain(Promise::Accept, format!("event {number} was refused: {error}"));
                return;
            }
        }
        tokio::time::sleep(CALL_TIMEOUT).await;
    }
}

fn note_answer(world: &SimulationEnv, plan: usize, called_at: Timestamp, published: &Published) {
    let answered_at = world.now();
    let mut journal = world.journal();
    let under_trouble = journal.troubles.iter().any(|trouble| {
        trouble.trouble == DiskTrouble::ReadOnly && trouble.from <= called_at && answered_at < trouble.until
    });
    if under_trouble && published.is_new {
        journal.complain(Promise::Accept, format!("event {plan} was accepted while the disk took nothing"));
    }
    let deliveries: Vec<(DeliveryId, String)> =
        published.deliveries.iter().map(|(id, name)| (*id, name.as_str().to_owned())).collect();
    for (id, _) in &deliveries {
        if !journal.known.contains(id) {
            journal.known.push(*id);
        }
    }
    let (event, is_new) = (published.event.id, published.is_new);
    journal.answers.push(AnswerFact { plan, answered_at, is_new, event, deliveries });
}

/// Makes a request once; without an answer it is not repeated.
pub(crate) async fn act(world: Arc<SimulationEnv>, plan: ActionPlan) {
    let Some(office) = world.office() else { return };
    let called_at = world.now();
    let Ok(entry) = office.service.app(ADMIN, APP) else { return };
    if plan.kind == ActionKind::Test {
        let uid = &world.plan.endpoints[plan.pick as usize % world.plan.endpoints.len()].uid;
        if let Ok(delivery) = office.service.send_test(&entry, uid).await {
            world.journal().known.push(delivery);
        }
        return;
    }
    let delivery = {
        let journal = world.journal();
        match journal.known.len() {
            0 => return,
            count => journal.known[plan.pick as usize % count],
        }
    };
    let asked = match plan.kind {
        ActionKind::Retry => RequestedAction::Retry,
        ActionKind::Replay => RequestedAction::Replay,
        ActionKind::Cancel => RequestedAction::Cancel,
        ActionKind::Close | ActionKind::Test => RequestedAction::Close,
    };
    let answer = office.service.act_on_delivery(ADMIN, &entry, &delivery.to_string(), asked).await;
    let said = match answer {
        Ok(shown) if shown.delivery.id == delivery => ActionAnswer::Done(shown.delivery),
        Ok(shown) => ActionAnswer::Made(shown.delivery),
        // A disk in trouble may have stored the request and failed the read of its result.
        Err(Error::Unavailable(_)) => ActionAnswer::Unknown,
        Err(_) if world.is_dead(office.life) => ActionAnswer::Unknown,
        Err(_) => ActionAnswer::Refused,
    };
    let answered_at = world.now();
    let mut journal = world.journal();
    if let ActionAnswer::Made(made) = &said {
        journal.known.push(made.id);
    }
    journal.asks.push(ActionFact {
        delivery,
        is_manual: true,
        kind: plan.kind,
        called_at,
        answered_at,
        said,
    });
}

/// Enables or disables an endpoint, repeated until it is known to be done.
pub(crate) async fn set_availability(world: Arc<SimulationEnv>, plan: AvailabilityPlan) {
    let uid = &world.plan.endpoints[plan.endpoint].uid;
    let called_at = world.now();
    loop {
        let office = wait_for_service(&world).await;
        let entry = office.service.app(ADMIN, APP).unwrap();
        let service = &office.service;
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
        if (done.is_ok() || is_gone) && !world.is_dead(office.life) {
            let answered_at = world.now();
            let fact = AvailabilityFact { endpoint: plan.endpoint, kind: plan.kind, called_at, answered_at };
            world.journal().switches.push(fact);
            return;
        }
        tokio::time::sleep(CALL_TIMEOUT).await;
    }
}
