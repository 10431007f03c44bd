//! Apps: created, listed, changed and deleted by the operator.

use super::{
    Caller, Error, Patch, Service,
    contracts::DEFAULT_CONTRACT,
    endpoint_loader::ContractChange,
    paging::{Cursor, Page, page_by_id},
};
use crate::{
    domain::{
        app::{App, AppRules, AppSettings},
        audit::{AuditAction, AuditDetail, changed_fields},
        email_address::{EMAIL_ADDRESS_FORM, is_email_address},
        id::{AppId, EXTERNAL_ID_FORM, EventId, is_external_id},
        quota::Quota,
        rate_limit::AppLimits,
    },
    store::config::Inserted,
};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(super) const METADATA_BYTES_MAX: usize = 8 * 1024;
const ID_PREFIX_FORM: &str = "1 to 16 characters out of a-z 0-9, the first a letter";

#[derive(Debug, Default)]
pub struct NewApp {
    pub uid: Option<String>,
    pub name: String,
    pub contract: Option<String>,
    pub overrides: Option<Value>,
    pub livemode: Option<bool>,
    pub id_prefix: Option<String>,
    pub contact_email: Option<String>,
    pub quota: Option<Map<String, Value>>,
    pub limits: Option<Map<String, Value>>,
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Default)]
pub struct AppPatch {
    pub name: Option<String>,
    pub contract: Patch<String>,
    pub overrides: Patch<Value>,
    pub livemode: Option<bool>,
    pub contact_email: Patch<String>,
    /// Replaced as a whole.
    pub quota: Patch<Map<String, Value>>,
    /// Replaced as a whole.
    pub limits: Patch<Map<String, Value>>,
    pub metadata: Patch<Map<String, Value>>,
}

impl Service {
    pub async fn add_app(&self, caller: Caller, new: NewApp) -> Result<Arc<App>, Error> {
        Self::require_admin(caller)?;
        if new.uid.as_deref().is_some_and(|uid| !is_external_id(uid)) {
            return Err(Error::field("id", format!("must be {EXTERNAL_ID_FORM}")));
        }
        let settings = AppSettings {
            name: new.name,
            contract: new.contract,
            overrides: new.overrides,
            livemode: new.livemode.unwrap_or(true),
            id_prefix: new.id_prefix,
            contact_email: new.contact_email,
            quota: new.quota.as_ref().map_or(Ok(None), Quota::read)?,
            limits: new.limits.as_ref().map_or(Ok(None), AppLimits::read)?,
            metadata: new.metadata.map(Value::Object),
        };
        self.check_app(&settings)?;
        let now = self.clock.now();
        let id = AppId::from_i64(self.take_ids(now, 1));
        let uid = new.uid.unwrap_or_else(|| id.to_string());
        let mut app = App { id, uid, settings, created_at: now, updated_at: now };
        let contract = self.contract_of_app(&app)?.contract;
        let rules = AppRules::of(&contract);
        if app.settings.id_prefix.is_none() {
            let prefix = &contract.ids.event;
            app.settings.id_prefix = Some(prefix.clone()).filter(|prefix| prefix != EventId::PREFIX);
        }
        let entry = self.audit_entry_in(caller, &app, AuditAction::AppCreated, &app.uid, None);
        match self.store.add_app(app.clone(), Some(entry)).await? {
            Inserted::UidTaken => Err(Error::IdTaken(app.uid)),
            Inserted::Added => {
                self.config_cache.put_app(app.clone(), rules);
                Ok(Arc::new(app))
            }
        }
    }

    /// Lists all apps for an admin key; an app key sees its own.
    pub fn apps(&self, caller: Caller, after: Option<Cursor>, limit: u32) -> Page<Arc<App>> {
        let apps = match caller.scope.app() {
            None => self.config_cache.apps(),
            Some(own) => self.config_cache.app_by_id(own).map(|entry| entry.app()).into_iter().collect(),
        };
        page_by_id(apps, |app| app.id.as_i64(), after, limit)
    }

    /// A changed contract applies to every endpoint that names none of its own; changed overrides apply to all endpoints.
    pub async fn change_app(&self, caller: Caller, uid: &str, patch: AppPatch) -> Result<Arc<App>, Error> {
        let entry = self.app(caller, uid)?;
        Self::require_admin(caller)?;
        self.refresh_app(entry.app().id).await?;
        let _turn = self.app_locks.lock(entry.app().id.as_i64()).await;
        let mut app = App::clone(&entry.app());
        let settings = &mut app.settings;
        if let Some(name) = patch.name {
            settings.name = name;
        }
        if let Some(livemode) = patch.livemode {
            settings.livemode = livemode;
        }
        let before = (settings.contract.clone(), settings.overrides.clone());
        patch.contract.apply(&mut settings.contract);
        patch.overrides.apply(&mut settings.overrides);
        patch.contact_email.apply(&mut settings.contact_email);
        match patch.quota {
            Patch::Absent => {}
            Patch::Null => settings.quota = None,
            Patch::Value(quota) => settings.quota = Quota::read(&quota)?,
        }
        match patch.limits {
            Patch::Absent => {}
            Patch::Null => settings.limits = None,
            Patch::Value(limits) => settings.limits = AppLimits::read(&limits)?,
        }
        match patch.metadata {
            Patch::Absent => {}
            Patch::Null => settings.metadata = None,
            Patch::Value(metadata) => settings.metadata = Some(Value::Object(metadata)),
        }
        self.check_app(settings)?;
        let changed = changed_fields(&entry.app().settings, settings);
        if changed.is_empty() {
            return Ok(entry.app());
        }
        app.updated_at = self.clock.now();
        let rules = AppRules::of(&self.contract_of_app(&app)?.contract);
        let follow = match before {
            (_, overrides) if overrides != app.settings.overrides => Some(ContractChange::Overrides),
            (contract, _) if contract != app.settings.contract => Some(ContractChange::Contract),
            _ => None,
        };
        if let Some(follow) = follow {
            self.check_affected_endpoints(&app, &entry, follow)?;
        }
        let noted = self.audit_entry_in(
            caller,
            &app,
            AuditAction::AppChanged,
            &app.uid,
            AuditDetail::of_fields(&changed),
        );
        if !self.store.change_app(app.clone(), Some(noted)).await? {
            return Err(Error::NotFound("app"));
        }
        let has_other_limits = app.settings.limits != entry.app().settings.limits;
        self.config_cache.put_app(app, rules);
        if has_other_limits {
            self.permits.app_changed(entry.app().id);
        }
        if let Some(follow) = follow {
            self.apply_contract_change(&entry, follow).await?;
        }
        Ok(entry.app())
    }

    /// Deletes the app with everything in it. Requests already on their way to a receiver are not recalled.
    pub async fn remove_app(&self, caller: Caller, uid: &str) -> Result<(), Error> {
        let entry = self.app(caller, uid)?;
        Self::require_admin(caller)?;
        let id = entry.app().id;
        let _turn = self.app_locks.lock(id.as_i64()).await;
        // Audit entries of an app are deleted with it; the entry about its deletion belongs to no app and stays.
        let noted = self.audit_entry(caller, None, AuditAction::AppDeleted, &entry.app().uid, None);
        if !self.store.remove_app(id, Some(noted)).await? {
            return Err(Error::NotFound("app"));
        }
        for endpoint in self.config_cache.remove_app(id) {
            self.permits.endpoint_changed(endpoint.id());
        }
        Ok(())
    }

    fn check_app(&self, settings: &AppSettings) -> Result<(), Error> {
        check_text("name", &settings.name, 200)?;
        let contract = settings.contract.as_deref().unwrap_or(DEFAULT_CONTRACT);
        self.contracts.get(contract)?;
        if let Some(overrides) = &settings.overrides {
            self.contracts.check_overrides_of_app(contract, overrides)?;
        }
        if settings.id_prefix.as_deref().is_some_and(|prefix| !is_id_prefix(prefix)) {
            return Err(Error::field("id_prefix", format!("must be {ID_PREFIX_FORM}")));
        }
        if settings.contact_email.as_deref().is_some_and(|address| !is_email_address(address)) {
            return Err(Error::field("contact_email", format!("must be {EMAIL_ADDRESS_FORM}")));
        }
        check_metadata(settings.metadata.as_ref())
    }
}

/// Checks text that people read: 1 to `most` bytes, no control characters.
pub(super) fn check_text(field: &str, text: &str, most: usize) -> Result<(), Error> {
    let fits = (1..=most).contains(&text.len()) && !text.contains(char::is_control);
    if fits {
        return Ok(());
    }
    Err(Error::field(field, format!("must be 1 to {most} bytes of text without control characters")))
}

pub(super) fn check_metadata(metadata: Option<&Value>) -> Result<(), Error> {
    let bytes = metadata.map_or(0, |metadata| metadata.to_string().len());
    if bytes <= METADATA_BYTES_MAX {
        return Ok(());
    }
    Err(Error::field("metadata", format!("must be at most {METADATA_BYTES_MAX} bytes of JSON")))
}

fn is_id_prefix(prefix: &str) -> bool {
    (1..=16).contains(&prefix.len())
        && prefix.starts_with(|c: char| c.is_ascii_lowercase())
        && prefix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prefix_is_short_lower_case_and_starts_with_a_letter() {
        assert!(is_id_prefix("msg") && is_id_prefix("m2"));
        for bad in ["", "2m", "Msg", "m_g", "abcdefghijklmnopq"] {
            assert!(!is_id_prefix(bad), "{bad}");
        }
    }
}
