//! Encryption key rotation: encrypts secrets again with the first key, in the background.
//!
//! No progress is stored: each encrypted value names its key, so after a crash the rest is found again. A concurrent change of
//! the endpoint wins, because a re-encrypted row replaces only the revision it was read from.

use super::{Error, Service};
use crate::{
    domain::{
        app::App,
        encryption::EncryptionError,
        endpoint::{Endpoint, EndpointRecord},
        id::EndpointId,
    },
    runtime::Shutdown,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Pause between two endpoints, so that deliveries do not wait: about a minute for ten thousand endpoints.
const ENDPOINT_PAUSE: Duration = Duration::from_millis(5);
const ROTATION_ERROR_PAUSE: Duration = Duration::from_secs(10);

impl Service {
    /// Runs until everything is encrypted with the first key, or until stopped.
    pub async fn run_key_rotation(&self, stop: Shutdown) {
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.rotate_all() => {}
        }
    }

    async fn rotate_all(&self) {
        let mut endpoints = 0;
        loop {
            let stale = self.stale_endpoints();
            if stale.is_empty() {
                break;
            }
            for endpoint in stale {
                let pause = match self.rotate_endpoint(endpoint).await {
                    Ok(()) => ENDPOINT_PAUSE,
                    Err(error) => {
                        tracing::warn!(%error, %endpoint, "could not encrypt an endpoint's secrets with the new key");
                        ROTATION_ERROR_PAUSE
                    }
                };
                endpoints += 1;
                self.clock.idle_until(self.clock.now().plus(pause)).await;
            }
        }
        let unneeded: Vec<&str> = self.keyring.ids().skip(1).collect();
        if !unneeded.is_empty() {
            let key = self.keyring.primary_id();
            tracing::info!(
                key,
                ?unneeded,
                endpoints,
                "everything is encrypted with the first key; the others are needed only for older backups"
            );
        }
    }

    fn stale_endpoints(&self) -> Vec<EndpointId> {
        let mut stale = Vec::new();
        self.each_endpoint(|endpoint| {
            if self.is_stale(&endpoint.record) {
                stale.push(endpoint.id());
            }
        });
        stale
    }

    pub(super) fn each_endpoint(&self, mut visit: impl FnMut(&Endpoint)) {
        for app in self.config_cache.apps() {
            let Some(entry) = self.config_cache.app_by_id(app.id) else { continue };
            entry.endpoints().iter().for_each(|endpoint| visit(endpoint));
        }
    }

    fn is_stale(&self, record: &EndpointRecord) -> bool {
        record
            .encrypted_parts()
            .any(|encrypted| self.keyring.key_id_of(encrypted) != Ok(self.keyring.primary_id()))
    }

    /// Encrypts the secrets of one endpoint again. If it is changed at the same time, it is left for the next round.
    async fn rotate_endpoint(&self, id: EndpointId) -> Result<(), Error> {
        let Some(found) = self.config_cache.endpoint(id) else { return Ok(()) };
        // In the order in which a change of an endpoint takes the locks.
        let _app_turn = self.app_locks.lock(found.record.app.as_i64()).await;
        let _turn = self.endpoint_locks.lock(id.as_i64()).await;
        let Some(current) = self.config_cache.endpoint(id) else { return Ok(()) };
        let Some(entry) = self.config_cache.app_by_id(current.record.app) else { return Ok(()) };
        let app = entry.app();
        let mut record = current.record.clone();
        self.encrypt_again(&app, &mut record)?;
        if record == current.record {
            return Ok(());
        }
        record.revision += 1;
        let resealed = Arc::new(self.load_endpoint(&app, record)?);
        let stored = if self.store.change_endpoint(resealed.record.clone(), None).await? {
            resealed
        } else {
            let Some(record) = self.store.endpoint(id).await? else { return Ok(()) };
            Arc::new(self.load_endpoint(&app, record)?)
        };
        self.activate(&app, stored).await.map(|_| ())
    }

    fn encrypt_again(&self, app: &App, record: &mut EndpointRecord) -> Result<(), Error> {
        let before = record.clone();
        for encrypted in record.encrypted_parts_mut() {
            if self.keyring.key_id_of(encrypted) != Ok(self.keyring.primary_id()) {
                *encrypted = self.encrypt(app, &before, &self.decrypt(app, &before, encrypted)?)?;
            }
        }
        Ok(())
    }

    /// Checks at start that every needed encryption key is given: missing keys are reported once by id, not per endpoint.
    pub(super) fn check_encryption_keys(&self, endpoints: &[EndpointRecord]) -> Result<(), Error> {
        let mut missing: BTreeMap<String, usize> = BTreeMap::new();
        for encrypted in endpoints.iter().flat_map(EndpointRecord::encrypted_parts) {
            if let Err(EncryptionError::UnknownKey(id)) = self.keyring.key_id_of(encrypted) {
                *missing.entry(id).or_default() += 1;
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<_> =
            missing.iter().map(|(id, count)| format!("\"{id}\" ({count} secrets)")).collect();
        Err(Error::Internal(format!(
            "encryption_key: these keys are still needed and were not given: {}; add them behind the first one, \
             separated by commas",
            missing.join(", ")
        )))
    }
}
