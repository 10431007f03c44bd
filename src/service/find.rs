//! Search by id: finds the objects that an id belongs to, and their apps. Callers choose some ids themselves, so an id may
//! belong to several objects.

use super::{Caller, Error, Service, listing::internal_event_id};
use crate::{
    domain::{
        directory::AppEntry,
        event::{DedupKey, DedupSpace},
        id::{AppId, AttemptId, AuditId, DeliveryId, EventId, InspectionId, KeyId, NoticeId, ReplayId},
    },
    store::browse::{Owner, Thing},
};
use std::{collections::HashSet, sync::Arc};

/// A searched id has one match, or a few.
const FOUND_MAX: usize = 20;
/// With more apps than this, endpoints and events are searched in the oldest apps only.
const APPS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
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

impl FoundKind {
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
pub struct Found {
    pub kind: FoundKind,
    /// The id as the API accepts it.
    pub id: String,
    /// Public id of the app that contains it.
    pub app: Option<String>,
    /// For an inspection: the endpoint that was inspected.
    pub endpoint: Option<String>,
}

impl Found {
    fn outside(kind: FoundKind, id: &str) -> Self {
        Self { kind, id: id.to_owned(), app: None, endpoint: None }
    }

    fn inside(kind: FoundKind, id: impl Into<String>, app: &AppEntry) -> Self {
        Self { kind, id: id.into(), app: Some(app.app().uid.clone()), endpoint: None }
    }
}

impl Service {
    /// Finds every object with this id that the caller may see. A portal link finds only objects that the portal shows.
    pub async fn find(&self, caller: Caller, id: &str) -> Result<Vec<Found>, Error> {
        let apps = self.apps_seen_by(caller);
        let mut found: Vec<Found> = self.find_by_number(caller, id).await?.into_iter().collect();
        found.extend(self.find_outside(caller, id).await?);
        let seen = |entry: &Arc<AppEntry>| caller.scope.app().is_none_or(|own| own == entry.app().id);
        let named = self.config_cache.app(id).filter(|entry| !caller.scope.is_portal() && seen(entry));
        found.extend(named.map(|entry| Found::inside(FoundKind::App, id, &entry)));
        let having = apps.iter().filter(|entry| entry.endpoint(id).is_some());
        found.extend(having.map(|entry| Found::inside(FoundKind::Endpoint, id, entry)));
        found.extend(self.find_events(&apps, id).await?);
        found.truncate(FOUND_MAX);
        Ok(found)
    }

    fn apps_seen_by(&self, caller: Caller) -> Vec<Arc<AppEntry>> {
        let ids: Vec<AppId> = match caller.scope.app() {
            Some(own) => vec![own],
            None => self.config_cache.apps().iter().take(APPS_MAX).map(|app| app.id).collect(),
        };
        ids.into_iter().filter_map(|id| self.config_cache.app_by_id(id)).collect()
    }

    /// Finds an object by an internal id, whose prefix names the kind of object.
    async fn find_by_number(&self, caller: Caller, id: &str) -> Result<Option<Found>, Error> {
        let delivery = DeliveryId::parse(id).or_else(|| AttemptId::parse(id).map(|attempt| attempt.delivery));
        let (thing, kind) = if let Some(delivery) = delivery {
            (Thing::Delivery(delivery), FoundKind::Delivery)
        } else if let Some(replay) = ReplayId::parse(id) {
            (Thing::Replay(replay), FoundKind::Replay)
        } else if let Some(inspection) = InspectionId::parse(id) {
            (Thing::Inspection(inspection), FoundKind::Inspection)
        } else if let Some(notice) = NoticeId::parse(id) {
            (Thing::Notice(notice), FoundKind::Notice)
        } else if let Some(entry) = AuditId::parse(id).filter(|_| !caller.scope.is_portal()) {
            (Thing::Audit(entry), FoundKind::AuditEntry)
        } else {
            return Ok(None);
        };
        let Some(Owner(owner)) = self.browse.owner(thing).await? else { return Ok(None) };
        if caller.scope.app().is_some_and(|own| owner != Some(own)) {
            return Ok(None);
        }
        let Some(app) = owner else { return Ok(Some(Found::outside(kind, id))) };
        // Objects that a deleted app left are visible to no caller.
        let Some(entry) = self.config_cache.app_by_id(app) else { return Ok(None) };
        let shown = delivery.map_or_else(|| id.to_owned(), |delivery| delivery.to_string());
        let endpoint = match kind {
            FoundKind::Inspection => Some(self.inspection(&entry, id).await?.endpoint),
            _ => None,
        };
        Ok(Some(Found { endpoint, ..Found::inside(kind, shown, &entry) }))
    }

    /// Finds keys, event types and contracts, which belong to no app.
    async fn find_outside(&self, caller: Caller, id: &str) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        if let Some(key) = KeyId::parse(id).filter(|_| Self::require_admin(caller).is_ok()) {
            let live = self.config_cache.key_by_id(key).map(|live| live.shown());
            let known = match live {
                Some(known) => Some(known),
                None => self.registry.key(key).await?,
            };
            found.extend(known.map(|key| Found {
                kind: if key.scope.is_portal() { FoundKind::PortalLink } else { FoundKind::Key },
                app: self.app_uid_of(&key),
                ..Found::outside(FoundKind::Key, id)
            }));
        }
        if !caller.scope.is_portal() {
            let is_type = self.config_cache.catalogue().get(id).is_some();
            found.extend(is_type.then(|| Found::outside(FoundKind::EventType, id)));
            let is_contract = self.contract(id).is_ok();
            found.extend(is_contract.then(|| Found::outside(FoundKind::Contract, id)));
        }
        Ok(found)
    }

    /// Finds events by the producer's id in each of these apps, or by the internal id.
    async fn find_events(&self, apps: &[Arc<AppEntry>], id: &str) -> Result<Vec<Found>, Error> {
        let keys = apps.iter().map(|entry| DedupKey::new(entry.app().id, DedupSpace::EventId, id)).collect();
        let mut in_apps: HashSet<AppId> =
            self.browse.events_named(keys).await?.into_iter().map(|(_, app)| app).collect();
        let own: HashSet<EventId> = apps.iter().filter_map(|entry| internal_event_id(&entry.app(), id)).collect();
        for event in own {
            if let Some(Owner(Some(app))) = self.browse.owner(Thing::Event(event)).await? {
                in_apps.insert(app);
            }
        }
        let is_in = |entry: &&Arc<AppEntry>| in_apps.contains(&entry.app().id);
        Ok(apps.iter().filter(is_in).map(|entry| Found::inside(FoundKind::Event, id, entry)).collect())
    }
}
