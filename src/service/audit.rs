//! The audit log: entries that are written together with a change, and their lists.
//!
//! Publishing (tests included) is not logged, nor are changes made without a key, such as an endpoint disabled by a rule.

use super::{
    Caller, Error, Service,
    paging::{Cursor, Page},
};
use crate::{
    domain::{
        api_key::SETTINGS_KEY_ID,
        app::App,
        audit::{AuditAction, AuditDetail, AuditEntry, changed_fields},
        endpoint::EndpointRecord,
        id::{AppId, AuditId, KeyId},
        time::Timestamp,
    },
    runtime::CachedApp,
    store::audit::AuditFilter,
};

/// Name of the settings' key in the log.
const SETTINGS_KEY_NAME: &str = "settings";

#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub app: Option<String>,
    pub key: Option<String>,
    pub action: Option<AuditAction>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// An audit entry with the public names of its key and app.
#[derive(Clone, Debug)]
pub struct NamedAuditEntry {
    pub entry: AuditEntry,
    pub key: String,
    pub app: Option<String>,
}

impl Service {
    /// Lists the entries of all apps, for the operator.
    pub async fn audit(
        &self,
        caller: Caller,
        query: AuditQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedAuditEntry>, Error> {
        Self::require_admin(caller)?;
        let app = match &query.app {
            None => None,
            Some(uid) => match self.config_cache.app(uid) {
                Some(entry) => Some(entry.app().id),
                None => return Ok(Page { rows: Vec::new(), next: None }),
            },
        };
        self.audit_entries(app, query, after, limit).await
    }

    /// Lists the entries of one app, by any key.
    pub async fn audit_of(
        &self,
        entry: &CachedApp,
        query: AuditQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedAuditEntry>, Error> {
        self.audit_entries(Some(entry.app().id), query, after, limit).await
    }

    async fn audit_entries(
        &self,
        app: Option<AppId>,
        query: AuditQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedAuditEntry>, Error> {
        let key = match query.key.as_deref() {
            None => None,
            Some(SETTINGS_KEY_NAME) => Some(SETTINGS_KEY_ID),
            Some(id) => match KeyId::parse(id) {
                None => return Ok(Page { rows: Vec::new(), next: None }),
                found => found,
            },
        };
        let filter = AuditFilter { app, key, action: query.action, from: query.from, to: query.to };
        let page = self.query_store.audit(filter, after, limit).await?;
        let show = |entry: AuditEntry| NamedAuditEntry {
            key: key_label(entry.key),
            app: entry.app.and_then(|id| self.uid_of(id)),
            entry,
        };
        Ok(Page { rows: page.rows.into_iter().map(show).collect(), next: page.next })
    }

    pub(super) fn key_name(&self, caller: Caller) -> Option<String> {
        self.config_cache.key_by_id(caller.key).and_then(|live| live.key().name.clone())
    }

    /// Returns the public id of an app.
    pub(super) fn uid_of(&self, app: AppId) -> Option<String> {
        self.config_cache.app_by_id(app).map(|entry| entry.app().uid.clone())
    }

    /// Builds the audit entry for a change inside an app.
    pub(super) fn audit_entry_in(
        &self,
        caller: Caller,
        app: &App,
        action: AuditAction,
        thing: impl Into<String>,
        detail: Option<AuditDetail>,
    ) -> AuditEntry {
        self.audit_entry(caller, Some(app.id), action, thing, detail)
    }

    /// Builds the audit entry for a change.
    pub(super) fn audit_entry(
        &self,
        caller: Caller,
        app: Option<AppId>,
        action: AuditAction,
        thing: impl Into<String>,
        detail: Option<AuditDetail>,
    ) -> AuditEntry {
        let at = self.clock.now();
        AuditEntry {
            id: AuditId::from_i64(self.take_ids(at, 1)),
            at,
            key: caller.key,
            key_name: self.key_name(caller),
            scope: caller.scope.name().to_owned(),
            app,
            action,
            object_id: thing.into(),
            detail,
        }
    }
}

/// Returns the name of a key as people read it.
pub(super) fn key_label(key: KeyId) -> String {
    if key == SETTINGS_KEY_ID { SETTINGS_KEY_NAME.to_owned() } else { key.to_string() }
}

pub(super) fn endpoint_fields(before: &EndpointRecord, after: &EndpointRecord) -> Option<AuditDetail> {
    let mut names = changed_fields(&before.settings, &after.settings);
    if before.encrypted_headers != after.encrypted_headers {
        names.push("headers".to_owned());
    }
    if before.encrypted_tls != after.encrypted_tls {
        names.push("tls".to_owned());
    }
    AuditDetail::of_fields(&names)
}
