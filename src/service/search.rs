//! Search by id: finds the objects that an id belongs to, and their apps. Callers choose some ids themselves, so an id may
//! belong to several objects.

use super::{Caller, Error, Service, paging::internal_event_id};
use crate::{
    domain::{
        event::{DedupKey, DedupSpace},
        id::{AppId, AttemptId, AuditId, DeliveryId, EventId, InspectionId, KeyId, NoticeId, ReplayId},
    },
    runtime::CachedApp,
    store::queries::{ObjectId, Owner},
};
use std::{collections::HashSet, sync::Arc};

/// A searched id has one match, or a few.
const SEARCH_RESULTS_MAX: usize = 20;
/// With more apps than this, endpoints and events are searched in the oldest apps only.
const SEARCHED_APPS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResultKind {
    App,
    Endpoint,
    Event,
    Delivery,
    Replay,
    Inspection,
    Notice,
    Key,
    PortalLink,
    EventType,
    Contract,
    AuditEntry,
}

impl SearchResultKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Endpoint => "endpoint",
            Self::Event => "event",
            Self::Delivery => "delivery",
            Self::Replay => "replay",
            Self::Inspection => "inspection",
            Self::Notice => "notice",
            Self::Key => "key",
            Self::PortalLink => "portal_link",
            Self::EventType => "event_type",
            Self::Contract => "contract",
            Self::AuditEntry => "audit_entry",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    pub kind: SearchResultKind,
    /// The id as the API accepts it.
    pub id: String,
    /// Public id of the app that contains it.
    pub app: Option<String>,
    /// For an inspection: the endpoint that was inspected.
    pub endpoint: Option<String>,
}

impl SearchResult {
    fn global(kind: SearchResultKind, id: &str) -> Self {
        Self { kind, id: id.to_owned(), app: None, endpoint: None }
    }

    fn in_app(kind: SearchResultKind, id: impl Into<String>, app: &CachedApp) -> Self {
        Self { kind, id: id.into(), app: Some(app.app().uid.clone()), endpoint: None }
    }
}

impl Service {
    /// Finds every object with this id that the caller may see. A portal link finds only objects that the portal shows.
    pub async fn search(&self, caller: Caller, id: &str) -> Result<Vec<SearchResult>, Error> {
        let apps = self.visible_apps(caller);
        let mut found: Vec<SearchResult> =
            self.search_by_internal_id(caller, id).await?.into_iter().collect();
        found.extend(self.search_global(caller, id).await?);
        let seen = |entry: &Arc<CachedApp>| caller.scope.app().is_none_or(|own| own == entry.app().id);
        let named = self.config_cache.app(id).filter(|entry| !caller.scope.is_portal() && seen(entry));
        found.extend(named.map(|entry| SearchResult::in_app(SearchResultKind::App, id, &entry)));
        let having = apps.iter().filter(|entry| entry.endpoint(id).is_some());
        found.extend(having.map(|entry| SearchResult::in_app(SearchResultKind::Endpoint, id, entry)));
        found.extend(self.search_events(&apps, id).await?);
        found.truncate(SEARCH_RESULTS_MAX);
        Ok(found)
    }

    fn visible_apps(&self, caller: Caller) -> Vec<Arc<CachedApp>> {
        let ids: Vec<AppId> = match caller.scope.app() {
            Some(own) => vec![own],
            None => self.config_cache.apps().iter().take(SEARCHED_APPS_MAX).map(|app| app.id).collect(),
        };
        ids.into_iter().filter_map(|id| self.config_cache.app_by_id(id)).collect()
    }

    /// Finds an object by an internal id, whose prefix names the kind of object.
    async fn search_by_internal_id(&self, caller: Caller, id: &str) -> Result<Option<SearchResult>, Error> {
        let delivery = DeliveryId::parse(id).or_else(|| AttemptId::parse(id).map(|attempt| attempt.delivery));
        let (thing, kind) = if let Some(delivery) = delivery {
            (ObjectId::Delivery(delivery), SearchResultKind::Delivery)
        } else if let Some(replay) = ReplayId::parse(id) {
            (ObjectId::Replay(replay), SearchResultKind::Replay)
        } else if let Some(inspection) = InspectionId::parse(id) {
            (ObjectId::Inspection(inspection), SearchResultKind::Inspection)
        } else if let Some(notice) = NoticeId::parse(id) {
            (ObjectId::Notice(notice), SearchResultKind::Notice)
        } else if let Some(entry) = AuditId::parse(id).filter(|_| !caller.scope.is_portal()) {
            (ObjectId::Audit(entry), SearchResultKind::AuditEntry)
        } else {
            return Ok(None);
        };
        let Some(Owner(owner)) = self.query_store.owner(thing).await? else { return Ok(None) };
        if caller.scope.app().is_some_and(|own| owner != Some(own)) {
            return Ok(None);
        }
        let Some(app) = owner else { return Ok(Some(SearchResult::global(kind, id))) };
        // Objects that a deleted app left are visible to no caller.
        let Some(entry) = self.config_cache.app_by_id(app) else { return Ok(None) };
        let shown = delivery.map_or_else(|| id.to_owned(), |delivery| delivery.to_string());
        let endpoint = match kind {
            SearchResultKind::Inspection => Some(self.inspection(&entry, id).await?.endpoint),
            _ => None,
        };
        Ok(Some(SearchResult { endpoint, ..SearchResult::in_app(kind, shown, &entry) }))
    }

    /// Finds keys, event types and contracts, which belong to no app.
    async fn search_global(&self, caller: Caller, id: &str) -> Result<Vec<SearchResult>, Error> {
        let mut found = Vec::new();
        if let Some(key) = KeyId::parse(id).filter(|_| Self::require_admin(caller).is_ok()) {
            let live = self.config_cache.key_by_id(key).map(|live| live.with_last_use());
            let known = match live {
                Some(known) => Some(known),
                None => self.config_store.key(key).await?,
            };
            found.extend(known.map(|key| SearchResult {
                kind: if key.scope.is_portal() {
                    SearchResultKind::PortalLink
                } else {
                    SearchResultKind::Key
                },
                app: self.app_uid_of(&key),
                ..SearchResult::global(SearchResultKind::Key, id)
            }));
        }
        if !caller.scope.is_portal() {
            let is_type = self.config_cache.catalogue().get(id).is_some();
            found.extend(is_type.then(|| SearchResult::global(SearchResultKind::EventType, id)));
            let is_contract = self.contract(id).is_ok();
            found.extend(is_contract.then(|| SearchResult::global(SearchResultKind::Contract, id)));
        }
        Ok(found)
    }

    /// Finds events by the producer's id in each of these apps, or by the internal id.
    async fn search_events(&self, apps: &[Arc<CachedApp>], id: &str) -> Result<Vec<SearchResult>, Error> {
        let keys = apps.iter().map(|entry| DedupKey::new(entry.app().id, DedupSpace::EventId, id)).collect();
        let mut in_apps: HashSet<AppId> =
            self.query_store.events_by_dedup_key(keys).await?.into_iter().map(|(_, app)| app).collect();
        let own: HashSet<EventId> =
            apps.iter().filter_map(|entry| internal_event_id(&entry.app(), id)).collect();
        for event in own {
            if let Some(Owner(Some(app))) = self.query_store.owner(ObjectId::Event(event)).await? {
                in_apps.insert(app);
            }
        }
        let is_in = |entry: &&Arc<CachedApp>| in_apps.contains(&entry.app().id);
        Ok(apps
            .iter()
            .filter(is_in)
            .map(|entry| SearchResult::in_app(SearchResultKind::Event, id, entry))
            .collect())
    }
}
