//! A body that was rendered for one endpoint and can be sent. Each attempt signs it anew.

use super::{body_cache::BodyCache, render_error::RenderError};
use crate::{
    domain::{
        app::App,
        body::{self, EventParts},
        endpoint::Endpoint,
        event::Payload,
        id::AttemptId,
        outcome::{Attempt, Outcome, OutcomeClass},
        ports::LeasedDelivery,
        request_headers::{self, Header, RequestParts},
        signing_keys::{SigningError, SigningKeys},
        time::Timestamp,
    },
    outbound::OutboundRequest,
};
use bytes::Bytes;
use std::sync::Arc;

pub(super) struct PreparedRequest {
    pub(super) endpoint: Arc<Endpoint>,
    app_uid: String,
    livemode: bool,
    public_id: String,
    payload: Payload,
    body: Bytes,
}

impl PreparedRequest {
    /// Renders the body, or reuses one that was rendered for another endpoint with the same contract and payload.
    pub(super) fn prepare(
        leased: &LeasedDelivery,
        bodies: &BodyCache,
        app: &App,
        endpoint: Arc<Endpoint>,
        payload: Payload,
    ) -> Result<Self, RenderError> {
        let event = &leased.event;
        let mut prepared = Self {
            public_id: event.public_id(app.id_prefix()),
            app_uid: app.uid.clone(),
            livemode: app.settings.livemode,
            endpoint,
            payload,
            body: Bytes::new(),
        };
        let contract = &*prepared.endpoint.contract;
        let render = || body::render(contract, &prepared.parts(leased), leased.delivery.root);
        let rendered = if body::depends_on_delivery(contract) {
            render()
        } else {
            bodies.get_or_render(prepared.endpoint.contract_hash, &prepared.payload, render)
        };
        prepared.body = rendered?;
        Ok(prepared)
    }

    fn parts<'a>(&'a self, leased: &'a LeasedDelivery) -> EventParts<'a> {
        EventParts {
            public_id: &self.public_id,
            own_id: leased.event.id,
            event_type: &leased.event.event_type,
            created_at: leased.event.created_at,
            data: self.payload.data(&leased.event),
            app_uid: &self.app_uid,
            livemode: self.livemode,
            payload_version: self.payload.version(),
        }
    }

    pub(super) fn request(
        &self,
        leased: &LeasedDelivery,
        position: u32,
        now: Timestamp,
        fresh: bool,
    ) -> Result<OutboundRequest, RenderError> {
        let endpoint = &*self.endpoint;
        let parts = self.parts(leased);
        let delivery = &leased.delivery;
        let request = RequestParts {
            event: &parts,
            root: delivery.root,
            attempt: AttemptId { delivery: delivery.id, position },
            number: delivery.attempt_count + 1,
            now,
            body: &self.body,
        };
        let mut headers = signed_headers(endpoint, &request);
        for _ in 1..endpoint.contract.rendering.tries {
            headers = headers.or_else(|_| signed_headers(endpoint, &request));
        }
        Ok(OutboundRequest {
            endpoint_id: endpoint.id(),
            target: endpoint.target.clone(),
            headers: headers?,
            extra_headers: endpoint.headers.clone(),
            tls: endpoint.tls.clone(),
            body: self.body.clone(),
            timeout: endpoint.contract.timeout,
            https_only: endpoint.https_only,
            fresh,
        })
    }
}

fn signed_headers(endpoint: &Endpoint, request: &RequestParts<'_>) -> Result<Vec<Header>, SigningError> {
    if let Some(signing_keys) = &endpoint.signing_keys {
        return request_headers::render_headers(&endpoint.contract, signing_keys, request);
    }
    let signing_keys = SigningKeys::prepare_usable(&endpoint.contract, &endpoint.secrets)?;
    request_headers::render_headers(&endpoint.contract, &signing_keys, request)
}

/// Builds the history row of an attempt at this endpoint as it is now.
pub(super) fn new_attempt(endpoint: &Endpoint, started_at: Timestamp, outcome: Outcome) -> Attempt {
    Attempt {
        started_at,
        url: (outcome.class != OutcomeClass::Ok).then(|| endpoint.record.settings.url.clone()),
        outcome,
        contract: endpoint.contract_hash,
        endpoint_revision: endpoint.record.revision,
        note: None,
    }
}
