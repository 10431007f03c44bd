//! Inspects receivers: takes inspections that wait, sends their probes one after the other, stores the report.
//!
//! A probe is no delivery. It takes no permit, is no attempt, counts in no gauge and disables nothing, whatever the answer;
//! it is sent even if the endpoint is disabled.

use super::delivery_worker::DeliveryWorker;
use crate::{
    domain::{
        endpoint::Endpoint,
        id::InspectionId,
        inspection::{
            Inspection, InspectionEvaluator, InspectionKind, InspectionProbe, InspectionReport,
            InspectionSubject, health_headers,
        },
        outcome::{Outcome, OutcomeClass},
        request_headers::Header,
        target_url::TargetUrl,
    },
    outbound::{GateClosed, OutboundRequest},
    runtime::Shutdown,
    store::StoreError,
};
use bytes::Bytes;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    task::{Id, JoinSet},
};

/// Inspections at once: each has a single request on its way, for at most a minute.
const INSPECTIONS_MAX: usize = 8;
/// Inspections of one app at once, so that an app whose receivers hang leaves room for the others.
const INSPECTIONS_PER_APP_MAX: u32 = 2;
const INSPECTION_ERROR_PAUSE: Duration = Duration::from_secs(1);
/// How often it checks for inspections that another node could not take, where there are several.
const INSPECTION_CHECK_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Inspector {
    pub(super) inspections_waiting: Arc<Notify>,
    pub(super) delivery_worker: Arc<DeliveryWorker>,
    pub(super) is_alone: bool,
}

impl Inspector {
    /// Runs until stopped; then it ends at once. Inspections that were running are interrupted by the next start.
    pub(super) async fn run(self, stop: Shutdown) {
        let mut running = RunningInspections::default();
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work(&mut running) => {}
        }
        running.tasks.shutdown().await;
    }

    async fn work(&self, running: &mut RunningInspections) {
        loop {
            // Registered before the check, so that no notification is missed.
            let notified = self.inspections_waiting.notified();
            let looked = self.start_waiting(running).await;
            if let Err(error) = &looked {
                tracing::warn!(%error, "could not take waiting inspections");
            }
            tokio::select! {
                () = notified => {}
                () = self.pause(), if looked.is_err() => {}
                () = self.delivery_worker.clock.sleep_for(INSPECTION_CHECK_EVERY), if !self.is_alone => {}
                Some(ended) = running.tasks.join_next_with_id(), if !running.tasks.is_empty() => {
                    let task = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(task, ())| *task);
                    let inspection = running.inspections.remove(&task);
                    if let (Err(error), Some(inspection)) = (ended, inspection) {
                        tracing::error!(%error, %inspection, "an inspection ended with a panic");
                        self.store_report(inspection, None).await;
                    }
                }
            }
        }
    }

    async fn start_waiting(&self, running: &mut RunningInspections) -> Result<(), StoreError> {
        while running.tasks.len() < INSPECTIONS_MAX {
            let Some(inspection) =
                self.delivery_worker.store.start_next_inspection(INSPECTIONS_PER_APP_MAX).await?
            else {
                break;
            };
            let (id, inspector) = (inspection.id, self.clone());
            let task = running.tasks.spawn(async move {
                let report = inspector.inspect(&inspection).await;
                inspector.store_report(id, report).await;
            });
            running.inspections.insert(task.id(), id);
        }
        Ok(())
    }

    /// Stores the report, and tries again until the store takes it: an inspection that never ends would bar its endpoint
    /// from others.
    async fn store_report(&self, inspection: InspectionId, report: Option<InspectionReport>) {
        let delivery_worker = &self.delivery_worker;
        while let Err(error) = delivery_worker
            .store
            .finish_inspection(inspection, report.clone(), delivery_worker.clock.now())
            .await
        {
            tracing::warn!(%error, %inspection, "could not store the result of an inspection");
            if matches!(error, StoreError::Closed | StoreError::Corrupt(_)) {
                return;
            }
            self.pause().await;
        }
    }

    async fn pause(&self) {
        let again = self.delivery_worker.clock.now().plus(INSPECTION_ERROR_PAUSE);
        self.delivery_worker.clock.idle_until(again).await;
    }

    /// Runs an inspection. `None` if the endpoint is gone, or goes away meanwhile: its row is cancelled already.
    async fn inspect(&self, inspection: &Inspection) -> Option<InspectionReport> {
        let config_cache = &self.delivery_worker.config_cache;
        let endpoint = config_cache.endpoint(inspection.endpoint)?;
        let app = config_cache.app_by_id(inspection.app)?.app();
        let mut evaluate = InspectionEvaluator::new(&endpoint.contract);
        if inspection.kind == InspectionKind::Inspect {
            let mut random = [0; 32];
            self.delivery_worker.entropy.fill(&mut random);
            let subject = InspectionSubject::new(
                inspection.id,
                &app,
                &endpoint,
                self.delivery_worker.clock.now(),
                random,
            );
            let subject =
                subject.map_err(|error| evaluate.record_unsendable(InspectionProbe::Correct, &error)).ok();
            for probe in InspectionProbe::ALL.into_iter().skip(usize::from(subject.is_none())) {
                config_cache.endpoint(inspection.endpoint)?;
                self.probe(&endpoint, subject.as_ref(), probe, &mut evaluate).await;
            }
        }
        config_cache.endpoint(inspection.endpoint)?;
        let health = match &endpoint.health_url {
            None => None,
            Some(target) => Some(self.health(&endpoint, target, inspection.id).await),
        };
        evaluate.record_health(health.as_ref());
        Some(evaluate.into_report())
    }

    async fn probe(
        &self,
        endpoint: &Endpoint,
        subject: Option<&InspectionSubject<'_>>,
        probe: InspectionProbe,
        evaluate: &mut InspectionEvaluator<'_>,
    ) {
        let Some(subject) =
            subject.filter(|_| evaluate.should_continue() && probe.applies_to(&endpoint.contract))
        else {
            return evaluate.record_not_sent(probe);
        };
        match subject.request(probe, self.delivery_worker.clock.now()) {
            Err(error) => evaluate.record_unsendable(probe, &error),
            Ok(request) => {
                evaluate.record_response(probe, self.send(endpoint, request.headers, request.body).await);
            }
        }
    }

    /// Sends a request as a delivery worker does: once more if a kept-alive connection turned out to be gone.
    async fn send(&self, endpoint: &Endpoint, headers: Vec<Header>, body: Bytes) -> Outcome {
        let request = OutboundRequest {
            body,
            extra_headers: endpoint.headers.clone(),
            ..empty_request(endpoint, endpoint.target.clone(), headers)
        };
        let outcome = into_outcome(self.delivery_worker.http_sender.post(request.clone()).await);
        if outcome.class != OutcomeClass::StaleConnection {
            return outcome;
        }
        into_outcome(self.delivery_worker.http_sender.post(OutboundRequest { fresh: true, ..request }).await)
    }

    async fn health(&self, endpoint: &Endpoint, target: &TargetUrl, id: InspectionId) -> Outcome {
        into_outcome(
            self.delivery_worker
                .http_sender
                .get(empty_request(endpoint, target.clone(), health_headers(id)))
                .await,
        )
    }
}

fn into_outcome(posted: Result<Outcome, GateClosed>) -> Outcome {
    posted.unwrap_or_else(|GateClosed| {
        Outcome::failed(OutcomeClass::Local, "this node may not send: it has lost touch with its store")
    })
}

/// Running inspections by task: a task that panics is known by its id alone.
#[derive(Default)]
struct RunningInspections {
    tasks: JoinSet<()>,
    inspections: HashMap<Id, InspectionId>,
}

/// Builds an empty request under the endpoint's own rules.
fn empty_request(endpoint: &Endpoint, target: TargetUrl, headers: Vec<Header>) -> OutboundRequest {
    OutboundRequest {
        endpoint_id: endpoint.id(),
        target,
        headers,
        extra_headers: Arc::default(),
        tls: endpoint.tls.clone(),
        body: Bytes::new(),
        timeout: endpoint.contract.timeout,
        https_only: endpoint.https_only,
        fresh: false,
    }
}
