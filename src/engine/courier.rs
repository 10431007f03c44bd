//! Carries one delivery: renders, signs, posts, decides, records. What it needs of the endpoint is read afresh each time.

use super::custody::Custody;
use crate::{
    domain::{
        body::{self, EventParts},
        contract::Contract,
        directory::Directory,
        endpoint::{Endpoint, OffReason, SwitchedOff},
        event::TEST_EVENT_TYPE,
        id::AttemptId,
        outcome::{Attempt, Class, Outcome},
        port::Carried,
        request::{self, RequestParts},
        tally::Tally,
        time::Timestamp,
        verdict::{self, DeadReason, Standing, Verdict},
    },
    outbound::{Carrier, Request},
    store::Ledger,
    world::{Clock, Entropy},
};
use bytes::Bytes;
use std::sync::Arc;

pub struct Courier {
    pub directory: Arc<Directory>,
    pub ledger: Arc<dyn Ledger>,
    pub carrier: Arc<dyn Carrier>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub tally: Arc<Tally>,
}

/// What can be sent: the body and the endpoint it was rendered for.
struct Parcel {
    endpoint: Arc<Endpoint>,
    app_uid: String,
    livemode: bool,
    public_id: String,
    body: Bytes,
}

impl Courier {
    /// Brings one delivery to its verdict, or back to the store if it may not be sent now.
    pub(super) async fn carry(&self, carried: Carried) {
        let mut custody = Custody::new(carried, self.ledger.clone(), self.clock.clone());
        // Dropping the custody hands the delivery back; the store then cancels or holds it as the endpoint's state demands.
        let Some(carried) = custody.carried() else { return };
        let Some(endpoint) = self.directory.endpoint(carried.delivery.endpoint) else { return };
        if endpoint.record.off.is_some() && carried.event.event_type != TEST_EVENT_TYPE {
            return;
        }
        let parcel = match self.pack(carried, endpoint) {
            Ok(parcel) => parcel,
            Err(reason) => {
                custody.conclude(Verdict::Dead { reason, switch_off: false }, None, self.clock.now());
                return;
            }
        };
        let Err(reason) = self.deliver(&mut custody, &parcel).await else {
            return self.conclude(custody, &parcel.endpoint);
        };
        custody.conclude(Verdict::Dead { reason, switch_off: false }, None, self.clock.now());
    }

    fn pack(&self, carried: &Carried, endpoint: Arc<Endpoint>) -> Result<Parcel, DeadReason> {
        let Some(entry) = self.directory.app_by_id(carried.delivery.app) else {
            return Err(DeadReason::SerialisationFailed);
        };
        let app = entry.app();
        let event = &carried.event;
        let mut parcel = Parcel {
            public_id: event.public_id(app.id_prefix()),
            app_uid: app.uid.clone(),
            livemode: app.settings.livemode,
            endpoint,
            body: Bytes::new(),
        };
        let contract = &*parcel.endpoint.contract;
        let render = || body::render(contract, &parcel.parts(carried), carried.delivery.root);
        let rendered = if body::depends_on_delivery(contract) {
            render()
        } else {
            event.bodies.get_or_render(parcel.endpoint.contract_hash, render)
        };
        parcel.body = rendered.map_err(|_| DeadReason::SerialisationFailed)?;
        Ok(parcel)
    }

    /// One request, and a second at once if a kept-alive connection turned out to be gone.
    async fn deliver(&self, custody: &mut Custody, parcel: &Parcel) -> Result<(), DeadReason> {
        for fresh in [false, true] {
            let Some(carried) = custody.carried() else { return Ok(()) };
            let started_at = self.clock.now();
            let position = carried.delivery.history_len + 1 + custody.attempts().len() as u32;
            let request = parcel.request(carried, position, started_at, fresh)?;
            custody.dial(started_at);
            let mut outcome = self.carrier.post(request).await;
            verdict::classify(&mut outcome, &parcel.endpoint.contract);
            self.tally.attempt(outcome.class);
            let is_stale = outcome.class == Class::StaleConnection;
            custody.came_back(parcel.attempt(started_at, outcome));
            if !is_stale {
                break;
            }
        }
        Ok(())
    }

    fn conclude(&self, custody: Custody, endpoint: &Endpoint) {
        let (Some(carried), Some(last)) = (custody.carried(), custody.attempts().last()) else { return };
        let ended_at = self.clock.now();
        let delivery = &carried.delivery;
        let standing = Standing {
            place: delivery.place,
            give_up_at: delivery.give_up_at,
            unnumbered: delivery.history_len - delivery.attempt_count + custody.attempts().len() as u32 - 1,
        };
        let contract: &Contract = &endpoint.contract;
        let verdict = verdict::decide(&last.outcome, &standing, contract, ended_at, self.entropy.roll());
        let event = &carried.event;
        if verdict == Verdict::Delivered {
            let wanted_at = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at));
            self.tally.delivered_after(ended_at.since(wanted_at).as_millis() as u64);
        }
        // A test says nothing about the endpoint, whatever it is answered.
        let is_gone =
            matches!(verdict, Verdict::Dead { switch_off: true, .. }) && event.event_type != TEST_EVENT_TYPE;
        let off = SwitchedOff { reason: OffReason::Gone, at: ended_at, waiting: contract.off.waiting };
        custody.conclude(verdict, is_gone.then_some(off), ended_at);
    }
}

impl Parcel {
    fn parts<'a>(&'a self, carried: &'a Carried) -> EventParts<'a> {
        EventParts {
            public_id: &self.public_id,
            own_id: carried.event.id,
            event_type: &carried.event.event_type,
            created_at: carried.event.created_at,
            data: &carried.event.data,
            app_uid: &self.app_uid,
            livemode: self.livemode,
            payload_version: "1",
        }
    }

    fn request(
        &self,
        carried: &Carried,
        position: u32,
        now: Timestamp,
        fresh: bool,
    ) -> Result<Request, DeadReason> {
        let endpoint = &*self.endpoint;
        let signer = endpoint.signer.as_ref().ok_or(DeadReason::SigningFailed)?;
        let parts = self.parts(carried);
        let delivery = &carried.delivery;
        let request = RequestParts {
            event: &parts,
            root: delivery.root,
            attempt: AttemptId { delivery: delivery.id, position },
            number: delivery.attempt_count + 1,
            now,
            body: &self.body,
        };
        let headers =
            request::headers(&endpoint.contract, signer, &request).map_err(|_| DeadReason::SigningFailed)?;
        Ok(Request {
            lane: endpoint.id(),
            target: endpoint.target.clone(),
            headers,
            extra_headers: endpoint.headers.clone(),
            body: self.body.clone(),
            timeout: endpoint.contract.timeout,
            https_only: endpoint.https_only,
            fresh,
        })
    }

    fn attempt(&self, started_at: Timestamp, outcome: Outcome) -> Attempt {
        Attempt {
            started_at,
            outcome,
            contract: self.endpoint.contract_hash,
            endpoint_revision: self.endpoint.record.revision,
        }
    }
}
