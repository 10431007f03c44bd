//! Disabling, enabling and deleting endpoints. A first batch of waiting deliveries is adjusted at once; the engine adjusts the
//! rest in the background.

use super::{
    Caller, Error, Service,
    audit::key_label,
    replays::{MissedPeriod, NamedReplay},
};
use crate::{
    domain::{
        audit::{AuditAction, AuditEntry},
        delivery::Availability,
        endpoint::{Disabled, DisabledBy, DisabledReason, Endpoint, EndpointRecord},
        id::{AppId, EndpointId},
        live_update::LiveUpdate,
        replay::Replay,
        time::Timestamp,
    },
    runtime::CachedApp,
    store::deliveries::AvailabilityChange,
};
use std::sync::Arc;

const APPLIED_AT_ONCE_MAX: usize = 2000;

impl Service {
    /// Disables an endpoint. An endpoint that is already disabled stays unchanged, with its reason.
    pub async fn disable_endpoint(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
    ) -> Result<Arc<Endpoint>, Error> {
        let switched = self
            .update_endpoint(caller, AuditAction::EndpointDisabled, entry, uid, |endpoint, record, now| {
                if record.disabled.is_none() {
                    let by = DisabledBy::Key { id: key_label(caller.key), name: self.key_name(caller) };
                    record.disabled = Some(Disabled {
                        reason: DisabledReason::Manual,
                        at: now,
                        waiting: endpoint.contract.off.waiting,
                        by: Some(by),
                    });
                }
                Ok(())
            })
            .await?;
        self.apply_availability(&switched).await?;
        Ok(switched)
    }

    pub async fn enable_endpoint(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
    ) -> Result<Arc<Endpoint>, Error> {
        self.enable_with_replays(caller, entry, uid, &[]).await
    }

    /// Enables the endpoint and starts the replays in one transaction, so that neither happens without the other.
    async fn enable_with_replays(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
        replays: &[(Replay, AuditEntry)],
    ) -> Result<Arc<Endpoint>, Error> {
        let on = |_: &Endpoint, record: &mut EndpointRecord, _| {
            record.disabled = None;
            Ok(())
        };
        let switched =
            self.update_and_replay(caller, AuditAction::EndpointEnabled, entry, uid, replays, on).await?;
        self.apply_availability(&switched).await?;
        Ok(switched)
    }

    /// Enables the endpoint and sends again what it missed since its trouble began, at a limited rate: deliveries that ended
    /// undelivered, and events for which no delivery was created while it was disabled.
    pub async fn enable_and_replay(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
        per_second: Option<u32>,
    ) -> Result<(Arc<Endpoint>, Vec<NamedReplay>), Error> {
        let before = Self::endpoint_of(entry, uid)?;
        let disabled_at = before.record.disabled.as_ref().map(|off| off.at);
        let since = self.trouble_since(&before, disabled_at).await?;
        // All checks that can refuse run before anything is changed.
        let missed =
            MissedPeriod { since: since.unwrap_or_else(|| self.clock.now()), disabled_at, per_second };
        let mut planned = self.replays_of_missed(entry, &before, missed)?;
        self.require_storage_space()?;
        let _turn = self.replay_locks.lock(entry.app().id.as_i64()).await;
        self.check_replay_count(entry, planned.len()).await?;
        planned.retain(|_| since.is_some());
        let mut begun = Vec::new();
        for replay in planned {
            begun.push(self.with_total(caller, entry, replay).await?);
        }
        let switched = self.enable_with_replays(caller, entry, uid, &begun).await;
        // The replays may have started although a later step failed.
        self.permits.replays_changed();
        let switched = switched?;
        let mut shown = Vec::new();
        for (replay, _) in begun {
            shown.push(self.with_replay_name(replay).await?);
        }
        Ok((switched, shown))
    }

    /// Returns when the endpoint was disabled or its failures began, whichever is earlier.
    async fn trouble_since(
        &self,
        endpoint: &Endpoint,
        disabled_at: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, Error> {
        let report = self.query_store.health(endpoint.record.app, endpoint.id(), self.clock.now()).await?;
        let first_failure = report.health.first_failure.map(|first| first.at);
        Ok(disabled_at.into_iter().chain(first_failure).min())
    }

    /// Deletes an endpoint: cancels its waiting deliveries and keeps the history.
    pub async fn remove_endpoint(&self, caller: Caller, entry: &CachedApp, uid: &str) -> Result<(), Error> {
        let id = Self::endpoint_of(entry, uid)?.id();
        let _turn = self.endpoint_locks.lock(id.as_i64()).await;
        let noted = self.audit_entry_in(caller, &entry.app(), AuditAction::EndpointDeleted, uid, None);
        if !self.config_store.remove_endpoint(id, self.clock.now(), Some(noted)).await? {
            return Err(Error::NotFound("endpoint"));
        }
        self.config_cache.remove_endpoint(id);
        self.permits.endpoint_changed(id);
        self.publish_update(|| LiveUpdate::endpoint(entry.app().id, id));
        self.apply_to_waiting(entry.app().id, id, AvailabilityChange::Disabled(Availability::Deleted)).await
    }

    /// Applies the endpoint's current state, which may differ from the requested one: a receiver may have said that it is gone.
    async fn apply_availability(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let settle = match endpoint.record.availability() {
            Availability::Enabled => AvailabilityChange::Enabled {
                gives_up_while_held: endpoint.contract.retry.give_up_while_held,
            },
            off => AvailabilityChange::Disabled(off),
        };
        self.apply_to_waiting(endpoint.record.app, endpoint.id(), settle).await
    }

    /// Adjusts waiting deliveries to the endpoint's state. The change itself was published before; a second live update follows
    /// here.
    async fn apply_to_waiting(
        &self,
        app: AppId,
        endpoint: EndpointId,
        settle: AvailabilityChange,
    ) -> Result<(), Error> {
        let applied = self
            .delivery_store
            .apply_to_waiting(endpoint, settle, APPLIED_AT_ONCE_MAX, self.clock.now())
            .await?;
        if applied >= APPLIED_AT_ONCE_MAX {
            self.permits.endpoint_changed(endpoint);
        }
        self.publish_update(|| LiveUpdate::endpoint(app, endpoint));
        Ok(())
    }
}
