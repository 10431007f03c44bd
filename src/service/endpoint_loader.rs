//! Loads an endpoint from its row: resolves the contract, parses the URL, decrypts the secrets.

use super::{
    Error, Service,
    contracts::{DEFAULT_CONTRACT, OverrideLayers, ResolvedContract},
    endpoint_rules::check_headers,
};
use crate::{
    domain::{
        app::{App, AppRules},
        encryption::EncryptionError,
        endpoint::{Endpoint, EndpointRecord, EndpointSettings},
        secret::Secret,
        signing_keys::SigningKeys,
        subscription::Patterns,
        target_url::TargetUrl,
        tls::{EndpointTls, TlsDocument},
    },
    runtime::CachedApp,
    store::documents::{self, StoredDocument},
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl Service {
    /// Name of the endpoint's contract: its own, else the app's, else `standard`.
    pub(super) fn contract_name<'a>(app: &'a App, settings: &'a EndpointSettings) -> &'a str {
        settings.contract.as_deref().or(app.settings.contract.as_deref()).unwrap_or(DEFAULT_CONTRACT)
    }

    pub(super) fn contract_of(
        &self,
        app: &App,
        settings: &EndpointSettings,
    ) -> Result<ResolvedContract, Error> {
        self.contracts.resolve(Self::contract_name(app, settings), Self::layers(app, settings))
    }

    pub(super) fn layers<'a>(app: &'a App, settings: &'a EndpointSettings) -> OverrideLayers<'a> {
        OverrideLayers { app: app.settings.overrides.as_ref(), endpoint: settings.overrides.as_ref() }
    }

    /// Resolves the contract of the app's endpoints that have no contract or overrides of their own.
    pub(super) fn contract_of_app(&self, app: &App) -> Result<ResolvedContract, Error> {
        let name = app.settings.contract.as_deref().unwrap_or(DEFAULT_CONTRACT);
        self.contracts.resolve(name, OverrideLayers { app: app.settings.overrides.as_ref(), endpoint: None })
    }

    /// Returns the rules of the app's own contract; if that contract is unknown here, everything is kept.
    pub(super) fn rules_of(&self, app: &App) -> AppRules {
        self.contract_of_app(app).map_or(AppRules::MISSING_CONTRACT, |named| AppRules::of(&named.contract))
    }

    /// Loads a stored endpoint. Fails if its contract is missing or no encryption key opens its secrets.
    pub(super) fn load_endpoint(&self, app: &App, record: EndpointRecord) -> Result<Endpoint, Error> {
        let ResolvedContract { contract, hash } = self.contract_of(app, &record.settings)?;
        let target =
            TargetUrl::from_stored(&record.settings.url).map_err(|error| Error::field("url", error))?;
        let health = record.settings.health_url.as_deref().map(TargetUrl::from_stored).transpose();
        let health = health.map_err(|error| Error::field("health_url", error))?;
        let patterns = Patterns::parse(&record.settings.event_types)?;
        let secrets = record
            .secrets
            .iter()
            .map(|encrypted| {
                let text = String::from_utf8(self.decrypt(app, &record, &encrypted.encrypted)?)
                    .map_err(|_| decryption_failed(&EncryptionError::Damaged))?;
                Ok(Secret { text, valid_from: encrypted.valid_from, valid_until: encrypted.valid_until })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let headers: Option<Vec<(String, String)>> =
            self.decrypt_document(app, &record, record.encrypted_headers.as_deref())?;
        let tls: Option<TlsDocument> =
            self.decrypt_document(app, &record, record.encrypted_tls.as_deref())?;
        let tls = tls.map(|document| EndpointTls::read(&document)).transpose()?.map(Arc::new);
        let signing_keys = SigningKeys::prepare(&contract, &secrets).ok().map(Arc::new);
        let https_only = contract.https_only.unwrap_or(self.limits.https_only);
        Ok(Endpoint {
            record,
            target,
            health_url: health,
            patterns,
            contract,
            contract_hash: hash,
            secrets,
            signing_keys,
            headers: headers.unwrap_or_default().into(),
            tls,
            https_only,
        })
    }

    pub(super) fn decrypt(
        &self,
        app: &App,
        record: &EndpointRecord,
        encrypted: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.keyring
            .decrypt(encrypted, &encryption_context(app, record))
            .map_err(|error| decryption_failed(&error))
    }

    fn decrypt_document<T: StoredDocument + DeserializeOwned>(
        &self,
        app: &App,
        record: &EndpointRecord,
        encrypted: Option<&[u8]>,
    ) -> Result<Option<T>, Error> {
        let Some(encrypted) = encrypted else { return Ok(None) };
        let document = self.decrypt(app, record, encrypted)?;
        let text =
            std::str::from_utf8(&document).map_err(|_| decryption_failed(&EncryptionError::Damaged))?;
        documents::read(text).map(Some).map_err(|_| decryption_failed(&EncryptionError::Damaged))
    }

    pub(super) fn encrypt(&self, app: &App, record: &EndpointRecord, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; 12];
        self.entropy.fill(&mut nonce);
        let encrypted = self.keyring.encrypt(plain, &encryption_context(app, record), nonce);
        encrypted.map_err(|error| Error::Internal(error.to_string()))
    }

    /// Encrypts a list cursor, because its position may be a row of another app. `None` if encryption fails.
    pub fn encrypt_cursor(&self, position: &[u8], bound_to: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; 12];
        self.entropy.fill(&mut nonce);
        self.keyring.encrypt(position, bound_to, nonce).ok()
    }

    pub fn decrypt_cursor(&self, encrypted: &[u8], bound_to: &str) -> Option<Vec<u8>> {
        self.keyring.decrypt(encrypted, bound_to).ok()
    }

    /// Stores the endpoint's contract under its hash, so that attempts made under it can be explained later.
    pub(super) async fn store_contract_of(&self, endpoint: &Endpoint) -> Result<(), Error> {
        Ok(self.config_store.store_contract(endpoint.contract_hash, endpoint.contract.to_json()).await?)
    }

    /// Checks that the affected endpoints are valid under the app's new contract or overrides.
    pub(super) fn check_affected_endpoints(
        &self,
        app: &App,
        entry: &CachedApp,
        follow: ContractChange,
    ) -> Result<(), Error> {
        for endpoint in entry.endpoints().iter().filter(|endpoint| follow.affects(endpoint)) {
            let fits = self.contract_of(app, &endpoint.record.settings).and_then(|resolved| {
                self.check_urls(&mut endpoint.record.settings.clone(), &resolved.contract)?;
                check_headers(&endpoint.headers, &resolved.contract)?;
                SigningKeys::prepare_usable(&resolved.contract, &endpoint.secrets)
                    .map_err(|error| Error::field("contract", error))
            });
            if let Err(error) = fits {
                let message = format!("does not suit the endpoint {}: {error}", endpoint.record.uid);
                return Err(Error::field(follow.field(), message));
            }
        }
        Ok(())
    }

    /// Activates the app's changed contract or overrides on the affected endpoints.
    pub(super) async fn apply_contract_change(
        &self,
        entry: &CachedApp,
        follow: ContractChange,
    ) -> Result<(), Error> {
        let app = entry.app();
        for endpoint in entry.endpoints().iter().filter(|endpoint| follow.affects(endpoint)) {
            let _turn = self.endpoint_locks.lock(endpoint.id().as_i64()).await;
            let Some(current) = self.config_cache.endpoint(endpoint.id()) else { continue };
            let changed = self.load_endpoint(&app, current.record.clone())?;
            self.store_contract_of(&changed).await?;
            self.activate(&app, Arc::new(changed)).await?;
        }
        Ok(())
    }
}

/// Kind of change of an app, which decides the affected endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContractChange {
    /// Contract changed: affects endpoints that name none.
    Contract,
    /// Overrides changed: affects all endpoints.
    Overrides,
}

impl ContractChange {
    fn affects(self, endpoint: &Endpoint) -> bool {
        self == Self::Overrides || endpoint.record.settings.contract.is_none()
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Overrides => "overrides",
        }
    }
}

/// Context that encrypted values of an endpoint are bound to.
fn encryption_context(app: &App, record: &EndpointRecord) -> String {
    format!("{}/{}", app.uid, record.id)
}

fn decryption_failed(error: &EncryptionError) -> Error {
    Error::Internal(error.to_string())
}

#[cfg(test)]
mod tests;
