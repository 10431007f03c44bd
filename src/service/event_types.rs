//! The event-type catalogue: written by the operator, readable by all keys. Every stored type has been compiled, and each of
//! its functions has run on the type's sample.

use super::{
    Caller, Error, Service,
    function_pool::function_clock,
    paging::{Cursor, Page, page_by_id},
};
use crate::{
    domain::{
        audit::{AuditAction, AuditDetail, changed_fields},
        event_type::{EventTypeDocument, EventTypeRecord, ONLY_VERSION, VersionDocument},
        field_error::FieldError,
        id::EventTypeId,
    },
    functions::{ConversionError, EventType, PayloadVersion, PinnedVersion},
};
use std::sync::Arc;

const EVENT_TYPES_MAX: usize = 2000;
/// Field name in the stored document.
const ARCHIVED_AT: &str = "archived_at";

/// Trial run of a payload version.
#[derive(Debug, Default)]
pub struct VersionTrial {
    /// JSON text as given; the type's sample if absent.
    pub data: Option<String>,
    /// Name of one of the type's versions.
    pub version: Option<String>,
    /// Unsaved version to try instead; for admin keys.
    pub draft: Option<VersionDocument>,
}

/// New state of a type, not compiled yet, with its current state.
pub(super) struct TypeDraft {
    pub(super) record: EventTypeRecord,
    pub(super) known: Option<Arc<EventType>>,
}

/// New state of a type, compiled and run on its sample, with its current state.
pub(super) struct CompiledType {
    pub(super) event_type: Arc<EventType>,
    pub(super) known: Option<Arc<EventType>>,
}

impl CompiledType {
    /// Returns the fields that differ from `known`.
    pub(super) fn changed(&self, known: &EventType) -> Vec<String> {
        changed_fields(&known.record.document, &self.event_type.record.document)
    }

    fn audit_change(&self) -> (AuditAction, Option<AuditDetail>) {
        let Some(known) = &self.known else { return (AuditAction::EventTypeCreated, None) };
        let fields = self.changed(known);
        match (fields.as_slice(), self.event_type.archived_at()) {
            ([only], Some(_)) if only == ARCHIVED_AT => (AuditAction::EventTypeArchived, None),
            ([only], None) if only == ARCHIVED_AT => (AuditAction::EventTypeUnarchived, None),
            (fields, _) => (AuditAction::EventTypeChanged, AuditDetail::of_fields(fields)),
        }
    }
}

impl Service {
    /// Lists types in order of creation; archived ones only with `archived_too`.
    pub fn event_types(&self, archived_too: bool, after: Option<Cursor>, limit: u32) -> Page<Arc<EventType>> {
        let mut all = self.config_cache.catalogue().all();
        all.retain(|known| archived_too || known.archived_at().is_none());
        page_by_id(all, |known| known.record.id.as_i64(), after, limit)
    }

    pub fn event_type(&self, name: &str) -> Result<Arc<EventType>, Error> {
        self.config_cache.catalogue().get(name).cloned().ok_or(Error::NotFound("event type"))
    }

    pub async fn add_event_type(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<Arc<EventType>, Error> {
        Self::require_admin(caller)?;
        let _turn = self.catalogue_lock.lock().await;
        if self.event_type(&name).is_ok() {
            return Err(Error::Conflict(format!("There is an event type \"{name}\" already.")));
        }
        self.save_type(caller, name, document).await
    }

    /// Replaces the whole type, or adds it. Returns whether it was added.
    pub async fn put_event_type(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<(Arc<EventType>, bool), Error> {
        Self::require_admin(caller)?;
        let _turn = self.catalogue_lock.lock().await;
        let is_new = self.event_type(&name).is_err();
        Ok((self.save_type(caller, name, document).await?, is_new))
    }

    /// Deletes a type. Its events stay, and more can be published where unknown types are allowed. Endpoints pinned to one of
    /// its versions receive no more of its events until the type exists again.
    pub async fn remove_event_type(&self, caller: Caller, name: &str) -> Result<(), Error> {
        Self::require_admin(caller)?;
        let _turn = self.catalogue_lock.lock().await;
        let known = self.event_type(name)?;
        let noted = self.audit_entry(caller, None, AuditAction::EventTypeDeleted, name, None);
        self.config_store.remove_event_type(known.record.id, Some(noted)).await?;
        self.config_cache.remove_event_type(name);
        Ok(())
    }

    /// Archives or unarchives a type. Events that exist are still delivered, retried and replayed; new ones of an archived type
    /// are refused.
    pub async fn archive_event_type(
        &self,
        caller: Caller,
        name: &str,
        is_archived: bool,
    ) -> Result<Arc<EventType>, Error> {
        Self::require_admin(caller)?;
        let _turn = self.catalogue_lock.lock().await;
        let known = self.event_type(name)?;
        if known.archived_at().is_some() == is_archived {
            return Ok(known);
        }
        let archived_at = is_archived.then(|| self.clock.now());
        let document = EventTypeDocument { archived_at, ..known.record.document.clone() };
        self.save_type(caller, name.to_owned(), document).await
    }

    async fn save_type(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<Arc<EventType>, Error> {
        let draft = self.draft(name, document);
        self.check_type_count(usize::from(draft.known.is_none()))?;
        let compiled = self.compile(caller, vec![draft]).await?;
        let ready = compiled.into_iter().collect::<Result<Vec<_>, _>>()?;
        let stored = self.store_types(caller, ready).await?;
        stored.into_iter().next().ok_or_else(|| Error::Internal("a type was saved as none".into()))
    }

    /// Builds the record to store under this name, with the current type of that name.
    pub(super) fn draft(&self, name: String, mut document: EventTypeDocument) -> TypeDraft {
        let now = self.clock.now();
        let known = self.event_type(&name).ok();
        if let Some(since) = known.as_ref().and_then(|known| known.archived_at()) {
            // Keeps the instant of the first archiving.
            document.archived_at = document.archived_at.map(|_| since);
        }
        let record = EventTypeRecord {
            id: known
                .as_ref()
                .map_or_else(|| EventTypeId::from_i64(self.take_ids(now, 1)), |known| known.record.id),
            name,
            document,
            revision: known.as_ref().map_or(1, |known| known.record.revision + 1),
            created_at: known.as_ref().map_or(now, |known| known.record.created_at),
            updated_at: now,
        };
        TypeDraft { record, known }
    }

    pub(super) fn check_type_count(&self, more: usize) -> Result<(), Error> {
        if self.config_cache.catalogue().len() + more <= EVENT_TYPES_MAX {
            return Ok(());
        }
        Err(Error::Conflict(format!("There can be {EVENT_TYPES_MAX} event types, and no more.")))
    }

    /// Compiles the drafts in order and runs their functions on the samples.
    pub(super) async fn compile(
        &self,
        caller: Caller,
        drafts: Vec<TypeDraft>,
    ) -> Result<Vec<Result<CompiledType, FieldError>>, Error> {
        let compile = |TypeDraft { record, known }| {
            let event_type = EventType::compile(record)?;
            event_type.try_on_sample(function_clock)?;
            Ok(CompiledType { event_type: Arc::new(event_type), known })
        };
        let work = move || drafts.into_iter().map(compile).collect();
        self.function_pool.run(caller.scope.app(), "versions", work).await
    }

    /// Stores all types in one transaction, each with its audit entry.
    pub(super) async fn store_types(
        &self,
        caller: Caller,
        ready: Vec<CompiledType>,
    ) -> Result<Vec<Arc<EventType>>, Error> {
        let noted = ready.iter().map(|one| {
            let (action, detail) = one.audit_change();
            let entry = self.audit_entry(caller, None, action, &one.event_type.record.name, detail);
            (one.event_type.record.clone(), Some(entry))
        });
        if !self.config_store.put_event_types(noted.collect()).await? {
            return Err(Error::Conflict(
                "The event type is being changed by someone else; try again.".into(),
            ));
        }
        let stored: Vec<_> = ready.into_iter().map(|one| one.event_type).collect();
        self.config_cache.put_event_types(&stored);
        Ok(stored)
    }

    /// Runs a version on the data. Returns the version's name and the converted data.
    pub async fn try_version(
        &self,
        caller: Caller,
        name: &str,
        trial: VersionTrial,
    ) -> Result<(String, Vec<u8>), Error> {
        let known = self.event_type(name);
        let field = if trial.draft.is_some() { "function" } else { "version" };
        let pinned = match (trial.draft, trial.version) {
            (Some(draft), version) => {
                Self::require_admin(caller)?;
                let name = version.unwrap_or_else(|| ONLY_VERSION.to_owned());
                let draft = VersionDocument { name, ..draft };
                let compiled = self
                    .function_pool
                    .run(caller.scope.app(), "schema", move || PayloadVersion::compile(&draft))
                    .await?;
                PinnedVersion::Converted(Arc::new(compiled?))
            }
            (None, None) => return Err(Error::field("version", "is missing: say which version to make")),
            (None, Some(version)) => {
                known.as_ref().map_err(Clone::clone)?;
                let found = self.config_cache.catalogue().pinned(name, &version);
                found.map_err(|error| Error::field("version", error))?
            }
        };
        let sample = known.ok().and_then(|known| known.record.document.sample.clone());
        let data = trial.data.or(sample);
        let data = data.ok_or_else(|| Error::field("data", "is missing, and the type has no sample"))?;
        match pinned {
            PinnedVersion::AsPublished(version) => Ok((version.to_string(), data.into_bytes())),
            PinnedVersion::Converted(version) => {
                let converting = version.clone();
                let convert = move || converting.convert(data.as_bytes(), function_clock());
                let tried = self.function_pool.run(caller.scope.app(), field, convert);
                let made = tried.await?.map_err(|failed| match failed {
                    ConversionError::Data(_) => Error::field("data", failed),
                    ConversionError::CheckOutOfTime => Error::field("schema", failed),
                    ConversionError::Function(_) | ConversionError::Result(_) => {
                        Error::field("function", failed)
                    }
                })?;
                Ok((version.name.to_string(), made))
            }
        }
    }
}
