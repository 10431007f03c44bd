//! Endpoints: created, listed and changed. Every stored endpoint has been checked against its contract and the address policy.

use super::{
    Caller, Error, Patch, Service, audit,
    contracts::ResolvedContract,
    endpoint_rules::{
        apply_order, check_headers, check_tls_is_used, forbid_to_portal_links, require_admin_for,
    },
    paging::{Cursor, Page, page_by_id},
};
use crate::{
    domain::{
        app::App,
        audit::{AuditAction, AuditEntry},
        endpoint::{Endpoint, EndpointRecord, EndpointSettings},
        id::{EXTERNAL_ID_FORM, EndpointId, IDS_AT_ONCE_MAX, is_external_id},
        live_update::LiveUpdate,
        ordering::{OnDead, OrderingMode},
        rate_limit::RateLimit,
        replay::Replay,
        signing_keys::SigningKeys,
        time::Timestamp,
    },
    runtime::CachedApp,
    store::config::Inserted,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Limit because an event and its deliveries, one per endpoint, take consecutive ids in one call.
const ENDPOINTS_PER_APP_MAX: usize = IDS_AT_ONCE_MAX as usize - 1;
const UPDATE_ATTEMPTS_MAX: usize = 5;

const TLS_NEEDS_ADMIN: &str = "Only an admin key may set an endpoint's certificates.";
const URL_NEEDS_ADMIN: &str =
    "This endpoint has certificates of the operator's: only an admin key may lead it elsewhere.";

/// Headers may hold the operator's credentials: a portal link must not send stored ones to a new URL.
const HEADERS_NEEDED_WITH_URL: &str =
    "must be given together with another `url`: those that are stored are not sent there";

#[derive(Debug, Default)]
pub struct NewEndpoint {
    pub uid: Option<String>,
    pub url: String,
    pub event_types: Option<Vec<String>>,
    pub contract: Option<String>,
    pub overrides: Option<Value>,
    pub secret: Option<String>,
    pub headers: Option<Vec<(String, String)>>,
    /// For an admin key only.
    pub tls: Option<Map<String, Value>>,
    pub payload_version: Option<String>,
    pub max_in_flight: Option<u32>,
    pub rate_limit: Option<Map<String, Value>>,
    pub ordered: Option<OrderingMode>,
    /// Needs `ordered`.
    pub on_dead: Option<OnDead>,
    pub health_url: Option<String>,
    pub description: Option<String>,
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default)]
pub struct EndpointPatch {
    pub url: Option<String>,
    /// Null means every type.
    pub event_types: Patch<Vec<String>>,
    pub contract: Patch<String>,
    pub overrides: Patch<Value>,
    pub headers: Patch<Vec<(String, String)>>,
    /// For an admin key only.
    pub tls: Patch<Map<String, Value>>,
    /// Null means the data as published.
    pub payload_version: Patch<String>,
    pub max_in_flight: Patch<u32>,
    /// Replaced as a whole.
    pub rate_limit: Patch<Map<String, Value>>,
    /// Applies to events published from then on.
    pub ordered: Patch<OrderingMode>,
    pub on_dead: Patch<OnDead>,
    pub health_url: Patch<String>,
    pub description: Patch<String>,
    pub metadata: Patch<Map<String, Value>>,
}

impl Service {
    /// Creates an endpoint and returns it loaded, with one secret.
    pub async fn add_endpoint(
        &self,
        caller: Caller,
        entry: &CachedApp,
        new: NewEndpoint,
    ) -> Result<Arc<Endpoint>, Error> {
        // The app's contract must not change between the check here and the store.
        let _app_turn = self.app_locks.lock(entry.app().id.as_i64()).await;
        let (app, now) = (entry.app(), self.clock.now());
        let given = [
            ("contract", new.contract.is_some()),
            ("rate_limit", new.rate_limit.is_some()),
            ("max_in_flight", new.max_in_flight.is_some()),
            ("ordered", new.ordered.is_some()),
            ("on_dead", new.on_dead.is_some()),
            ("metadata", new.metadata.is_some()),
        ];
        forbid_to_portal_links(caller, &given)?;
        if new.uid.as_deref().is_some_and(|uid| !is_external_id(uid)) {
            return Err(Error::field("id", format!("must be {EXTERNAL_ID_FORM}")));
        }
        if entry.endpoints().len() >= ENDPOINTS_PER_APP_MAX {
            return Err(Error::Conflict(format!("An app has at most {ENDPOINTS_PER_APP_MAX} endpoints.")));
        }
        let mut settings = EndpointSettings {
            url: new.url,
            event_types: new.event_types.unwrap_or_else(every_type),
            contract: new.contract,
            overrides: None,
            payload_version: new.payload_version,
            max_in_flight: new.max_in_flight,
            rate_limit: new.rate_limit.as_ref().map(read_rate_limit).transpose()?,
            ordered: new.ordered.unwrap_or_default(),
            on_dead: new.on_dead,
            health_url: new.health_url,
            description: new.description,
            metadata: new.metadata.map(Value::Object),
        };
        let name = Self::contract_name(&app, &settings);
        let layers = Self::layers(&app, &settings);
        settings.overrides = self.contracts.allowed_overrides(name, layers, new.overrides, caller)?;
        let ResolvedContract { contract, .. } = self.contract_of(&app, &settings)?;
        self.check_settings(&settings)?;
        self.check_types_known(&settings.event_types)?;
        self.check_urls(&mut settings, &contract)?;
        let id = EndpointId::from_i64(self.take_ids(now, 1));
        let mut record = EndpointRecord {
            id,
            app: app.id,
            uid: new.uid.unwrap_or_else(|| id.to_string()),
            settings,
            disabled: None,
            encrypted_headers: None,
            encrypted_tls: None,
            secrets: Vec::new(),
            revision: 1,
            created_at: now,
            updated_at: now,
        };
        record.encrypted_headers = self.encrypt_headers(&app, &record, new.headers.as_deref(), &contract)?;
        if let Some(tls) = &new.tls {
            require_admin_for(caller, "tls", TLS_NEEDS_ADMIN)?;
            record.encrypted_tls = Some(self.encrypt_tls(&app, &record, tls, now)?);
            check_tls_is_used(&record)?;
        }
        let secret = self.new_secret(&contract, new.secret)?;
        record.secrets.push(self.encrypt_secret(&app, &record, &secret, now, None)?);
        let endpoint = Arc::new(self.load_endpoint(&app, record)?);
        self.store_contract_of(&endpoint).await?;
        let noted =
            self.audit_entry_in(caller, &app, AuditAction::EndpointCreated, &endpoint.record.uid, None);
        match self.config_store.add_endpoint(endpoint.record.clone(), Some(noted)).await? {
            Inserted::UidTaken => Err(Error::IdTaken(endpoint.record.uid.clone())),
            Inserted::Added => {
                self.config_cache.put_endpoint(endpoint.clone());
                self.permits.endpoint_changed(id);
                self.publish_update(|| LiveUpdate::endpoint(app.id, id));
                Ok(endpoint)
            }
        }
    }

    pub fn endpoints(entry: &CachedApp, after: Option<Cursor>, limit: u32) -> Page<Arc<Endpoint>> {
        page_by_id(entry.endpoints().to_vec(), |endpoint| endpoint.id().as_i64(), after, limit)
    }

    pub fn endpoint(entry: &CachedApp, uid: &str) -> Result<Arc<Endpoint>, Error> {
        Self::endpoint_of(entry, uid)
    }

    /// Changes an endpoint. Waiting deliveries go to the new URL under the new contract.
    pub async fn change_endpoint(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
        patch: EndpointPatch,
    ) -> Result<Arc<Endpoint>, Error> {
        let app = entry.app();
        let given = [
            ("contract", !patch.contract.is_absent()),
            ("rate_limit", !patch.rate_limit.is_absent()),
            ("max_in_flight", !patch.max_in_flight.is_absent()),
            ("ordered", !patch.ordered.is_absent()),
            ("on_dead", !patch.on_dead.is_absent()),
            ("metadata", !patch.metadata.is_absent()),
        ];
        forbid_to_portal_links(caller, &given)?;
        self.update_endpoint(caller, AuditAction::EndpointChanged, entry, uid, |endpoint, record, now| {
            self.apply_urls_and_tls(caller, &app, record, &patch, now)?;
            self.apply_patch(caller, &app, endpoint, record, patch.clone())?;
            check_tls_is_used(record)
        })
        .await
    }

    /// Changes an endpoint's row by `change` and puts the result into the configuration cache. If another node or a receiver
    /// (by saying that it is gone) changed the row first, `change` is applied again to the new row.
    pub(super) async fn update_endpoint(
        &self,
        caller: Caller,
        action: AuditAction,
        entry: &CachedApp,
        uid: &str,
        change: impl Fn(&Endpoint, &mut EndpointRecord, Timestamp) -> Result<(), Error>,
    ) -> Result<Arc<Endpoint>, Error> {
        self.update_and_replay(caller, action, entry, uid, &[], change).await
    }

    /// Changes an endpoint as `update_endpoint` does and starts these replays, also if `change` changes no field.
    pub(super) async fn update_and_replay(
        &self,
        caller: Caller,
        action: AuditAction,
        entry: &CachedApp,
        uid: &str,
        replays: &[(Replay, AuditEntry)],
        change: impl Fn(&Endpoint, &mut EndpointRecord, Timestamp) -> Result<(), Error>,
    ) -> Result<Arc<Endpoint>, Error> {
        let id = Self::endpoint_of(entry, uid)?.id();
        // The app's lock first: the order in which a change of the app takes them.
        let _app_turn = self.app_locks.lock(entry.app().id.as_i64()).await;
        let _turn = self.endpoint_locks.lock(id.as_i64()).await;
        let mut current = self.config_cache.endpoint(id).ok_or(Error::NotFound("endpoint"))?;
        for _ in 0..UPDATE_ATTEMPTS_MAX {
            let (app, now) = (entry.app(), self.clock.now());
            let mut record = current.record.clone();
            change(&current, &mut record, now)?;
            if record == current.record {
                for (replay, noted) in replays {
                    self.delivery_store.start_replay(replay.clone(), Some(noted.clone())).await?;
                }
                return Ok(current);
            }
            record.revision += 1;
            record.updated_at = now;
            let changed = Arc::new(self.load_endpoint(&app, record)?);
            if changed.contract_hash != current.contract_hash {
                self.store_contract_of(&changed).await?;
            }
            let detail = audit::endpoint_fields(&current.record, &changed.record);
            let noted = self.audit_entry_in(caller, &app, action, uid, detail);
            let stored =
                self.config_store.change_endpoint_and_replay(changed.record.clone(), noted, replays.to_vec());
            if stored.await? {
                return self.activate(&app, changed).await;
            }
            let stored = self.config_store.endpoint(id).await?.ok_or(Error::NotFound("endpoint"))?;
            current = Arc::new(self.load_endpoint(&app, stored)?);
        }
        Err(Error::Conflict("The endpoint is being changed by someone else; try again.".into()))
    }

    /// Puts a stored change into the configuration cache. If the cache holds a newer revision (the receiver said meanwhile that
    /// it is gone), the row is read again: a newer row has both changes and is cached and returned. If the store has no newer
    /// row, it lost changes; then its row replaces the cached one.
    pub(super) async fn activate(
        &self,
        app: &App,
        mut endpoint: Arc<Endpoint>,
    ) -> Result<Arc<Endpoint>, Error> {
        let id = endpoint.id();
        while !self.config_cache.put_endpoint(endpoint.clone()) {
            let stored = self.config_store.endpoint(id).await?.ok_or(Error::NotFound("endpoint"))?;
            let is_newest = stored.revision <= endpoint.record.revision;
            endpoint = Arc::new(self.load_endpoint(app, stored)?);
            if is_newest {
                self.config_cache.restore_endpoint(endpoint.clone());
                break;
            }
        }
        self.permits.endpoint_changed(id);
        self.publish_update(|| LiveUpdate::endpoint(app.id, id));
        Ok(endpoint)
    }

    fn apply_urls_and_tls(
        &self,
        caller: Caller,
        app: &App,
        record: &mut EndpointRecord,
        patch: &EndpointPatch,
        now: Timestamp,
    ) -> Result<(), Error> {
        let moved = [("url", patch.url.is_some()), ("health_url", !patch.health_url.is_absent())];
        for (field, _) in moved.into_iter().filter(|(_, moves)| *moves && record.encrypted_tls.is_some()) {
            require_admin_for(caller, field, URL_NEEDS_ADMIN)?;
        }
        let leads_away = patch.url.as_ref().is_some_and(|url| *url != record.settings.url);
        if leads_away
            && caller.scope.is_portal()
            && record.encrypted_headers.is_some()
            && patch.headers.is_absent()
        {
            return Err(Error::field("headers", HEADERS_NEEDED_WITH_URL));
        }
        if !patch.tls.is_absent() {
            require_admin_for(caller, "tls", TLS_NEEDS_ADMIN)?;
            let encrypted =
                patch.tls.value().map(|tls| self.encrypt_tls(app, record, tls, now)).transpose()?;
            record.encrypted_tls = encrypted;
        }
        Ok(())
    }

    fn apply_patch(
        &self,
        caller: Caller,
        app: &App,
        endpoint: &Endpoint,
        record: &mut EndpointRecord,
        patch: EndpointPatch,
    ) -> Result<(), Error> {
        let settings = &mut record.settings;
        let moves = patch.url.is_some() || !patch.contract.is_absent() || !patch.overrides.is_absent();
        let health_moves = !patch.health_url.is_absent();
        settings.url = patch.url.unwrap_or_else(|| settings.url.clone());
        match patch.event_types {
            Patch::Absent => {}
            Patch::Null => settings.event_types = every_type(),
            Patch::Value(types) => {
                self.check_types_known(&types)?;
                settings.event_types = types;
            }
        }
        patch.contract.apply(&mut settings.contract);
        if !patch.overrides.is_absent() {
            let (name, layers) = (Self::contract_name(app, settings), Self::layers(app, settings));
            let requested = patch.overrides.value().cloned();
            settings.overrides = self.contracts.allowed_overrides(name, layers, requested, caller)?;
        }
        patch.payload_version.apply(&mut settings.payload_version);
        patch.max_in_flight.apply(&mut settings.max_in_flight);
        apply_order(patch.ordered, patch.on_dead, settings);
        match &patch.rate_limit {
            Patch::Absent => {}
            Patch::Null => settings.rate_limit = None,
            Patch::Value(limit) => settings.rate_limit = Some(read_rate_limit(limit)?),
        }
        patch.health_url.apply(&mut settings.health_url);
        patch.description.apply(&mut settings.description);
        match patch.metadata {
            Patch::Absent => {}
            Patch::Null => settings.metadata = None,
            Patch::Value(metadata) => settings.metadata = Some(Value::Object(metadata)),
        }
        self.check_settings(settings)?;
        let ResolvedContract { contract, hash } = self.contract_of(app, settings)?;
        if moves {
            self.check_urls(settings, &contract)?;
        } else if health_moves {
            self.check_health_url(settings, &contract)?;
        }
        if hash != endpoint.contract_hash {
            SigningKeys::prepare_usable(&contract, &endpoint.secrets)
                .map_err(|error| Error::field("contract", error))?;
        }
        match patch.headers {
            Patch::Absent if hash == endpoint.contract_hash => {}
            Patch::Absent => check_headers(&endpoint.headers, &contract)?,
            Patch::Null => record.encrypted_headers = None,
            Patch::Value(headers) => {
                record.encrypted_headers = self.encrypt_headers(app, record, Some(&headers), &contract)?;
            }
        }
        Ok(())
    }
}

fn read_rate_limit(limit: &Map<String, Value>) -> Result<RateLimit, Error> {
    Ok(RateLimit::read("rate_limit", limit)?)
}

fn every_type() -> Vec<String> {
    vec!["*".to_owned()]
}
