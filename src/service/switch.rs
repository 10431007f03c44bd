//! Switching endpoints off and on, and deleting them. What waits is settled at once as far as one bite goes; the engine
//! settles the rest in the background.

use super::{Caller, Error, Service};
use crate::{
    domain::{
        audit::Action,
        delivery::Switch,
        directory::AppEntry,
        endpoint::{Endpoint, OffReason, SwitchedOff},
        hint::Hint,
        id::EndpointId,
    },
    store::ledger::Settle,
};
use std::sync::Arc;

const SETTLED_AT_ONCE_MAX: usize = 2000;

impl Service {
    /// An endpoint that is off already stays as it is, with its reason.
    pub async fn disable_endpoint(
        &self,
        caller: Caller,
        entry: &AppEntry,
        uid: &str,
    ) -> Result<Arc<Endpoint>, Error> {
        let switched = self
            .revise(caller, Action::EndpointDisabled, entry, uid, |endpoint, record, now| {
                if record.off.is_none() {
                    let waiting = endpoint.contract.off.waiting;
                    record.off = Some(SwitchedOff { reason: OffReason::ByHand, at: now, waiting });
                }
                Ok(())
            })
            .await?;
        self.settle(&switched).await?;
        Ok(switched)
    }

    pub async fn enable_endpoint(
        &self,
        caller: Caller,
        entry: &AppEntry,
        uid: &str,
    ) -> Result<Arc<Endpoint>, Error> {
        let switched = self
            .revise(caller, Action::EndpointEnabled, entry, uid, |_, record, _| {
                record.off = None;
                Ok(())
            })
            .await?;
        self.settle(&switched).await?;
        Ok(switched)
    }

    /// Cancels what waits and keeps the history.
    pub async fn remove_endpoint(&self, caller: Caller, entry: &AppEntry, uid: &str) -> Result<(), Error> {
        let id = Self::endpoint_of(entry, uid)?.id();
        let _turn = self.endpoint_turns.take(id.as_i64()).await;
        let noted = self.entry_in(caller, &entry.app(), Action::EndpointDeleted, uid, None);
        if !self.registry.remove_endpoint(id, self.clock.now(), Some(noted)).await? {
            return Err(Error::NotFound("endpoint"));
        }
        self.directory.remove_endpoint(id);
        self.hands.endpoint_changed(id);
        self.tell(|| Hint::endpoint(entry.app().id, id));
        self.settle_all(id, Settle::Off(Switch::Deleted)).await
    }

    /// As it is switched now, which is not always what was asked for: a receiver may have said that it is gone.
    async fn settle(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let settle = match endpoint.record.switch() {
            Switch::On => Settle::On { gives_up_while_held: endpoint.contract.retry.give_up_while_held },
            off => Settle::Off(off),
        };
        self.settle_all(endpoint.id(), settle).await
    }

    async fn settle_all(&self, endpoint: EndpointId, settle: Settle) -> Result<(), Error> {
        let settled = self.ledger.settle(endpoint, settle, SETTLED_AT_ONCE_MAX, self.clock.now()).await?;
        if settled >= SETTLED_AT_ONCE_MAX {
            self.hands.endpoint_changed(endpoint);
        }
        Ok(())
    }
}
