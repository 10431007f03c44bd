//! The catalogue of event types: kept by the operator, read by everybody. Whatever is stored has been compiled, and every
//! function has worked on the type's sample.

use super::{
    Caller, Error, Service, audit,
    listing::{Cursor, Page, page_by_id},
    workbench::function_clock,
};
use crate::domain::{
    audit::{Action, changed_fields},
    event_type::{
        ConversionFailed, EventType, EventTypeDocument, EventTypeRecord, ONLY_VERSION, PayloadVersion,
        Pinned, VersionDocument,
    },
    field::FieldError,
    id::EventTypeId,
};
use std::sync::Arc;

const EVENT_TYPES_MAX: usize = 2000;

/// A conversion that somebody wants to see.
#[derive(Debug, Default)]
pub struct Trial {
    /// JSON, as it was given; the type's sample if absent.
    pub data: Option<String>,
    /// The name of one of the type's versions.
    pub version: Option<String>,
    /// A version that is not saved yet, instead; for admin keys.
    pub draft: Option<VersionDocument>,
}

impl Service {
    /// In order of creation.
    pub fn event_types(&self, after: Option<Cursor>, limit: u32) -> Page<Arc<EventType>> {
        page_by_id(self.directory.catalogue().all(), |known| known.record.id.as_i64(), after, limit)
    }

    pub fn event_type(&self, name: &str) -> Result<Arc<EventType>, Error> {
        self.directory.catalogue().get(name).cloned().ok_or(Error::NotFound("event type"))
    }

    pub async fn add_event_type(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<Arc<EventType>, Error> {
        Self::must_be_admin(caller)?;
        let _turn = self.catalogue_turn.lock().await;
        if self.event_type(&name).is_ok() {
            return Err(Error::Conflict(format!("There is an event type \"{name}\" already.")));
        }
        self.save(caller, name, document).await
    }

    /// Replaces the whole type, or adds it; says which.
    pub async fn put_event_type(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<(Arc<EventType>, bool), Error> {
        Self::must_be_admin(caller)?;
        let _turn = self.catalogue_turn.lock().await;
        let is_new = self.event_type(&name).is_err();
        Ok((self.save(caller, name, document).await?, is_new))
    }

    /// Its events stay, and can be published as before. Endpoints that are pinned to one of its versions get no more of
    /// them until it is back.
    pub async fn remove_event_type(&self, caller: Caller, name: &str) -> Result<(), Error> {
        Self::must_be_admin(caller)?;
        let _turn = self.catalogue_turn.lock().await;
        let known = self.event_type(name)?;
        let noted = self.entry(caller, None, Action::EventTypeDeleted, name, None);
        self.registry.remove_event_type(known.record.id, Some(noted)).await?;
        self.directory.remove_event_type(name);
        Ok(())
    }

    async fn save(
        &self,
        caller: Caller,
        name: String,
        document: EventTypeDocument,
    ) -> Result<Arc<EventType>, Error> {
        let now = self.clock.now();
        let known = self.event_type(&name).ok();
        if known.is_none() && self.directory.catalogue().len() >= EVENT_TYPES_MAX {
            return Err(Error::Conflict(format!(
                "There are {EVENT_TYPES_MAX} event types, and no more can be kept."
            )));
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
        let compiled = self.workbench.run(caller, "versions", move || -> Result<EventType, FieldError> {
            let event_type = EventType::compile(record)?;
            event_type.try_functions(function_clock)?;
            Ok(event_type)
        });
        let event_type = Arc::new(compiled.await??);
        let (action, detail) = match &known {
            None => (Action::EventTypeCreated, None),
            Some(known) => {
                let changed = changed_fields(&known.record.document, &event_type.record.document);
                (Action::EventTypeChanged, audit::fields(&changed))
            }
        };
        let noted = self.entry(caller, None, action, &event_type.record.name, detail);
        if !self.registry.put_event_type(event_type.record.clone(), Some(noted)).await? {
            return Err(Error::Conflict(
                "The event type is being changed by someone else; try again.".into(),
            ));
        }
        self.directory.put_event_type(&event_type);
        Ok(event_type)
    }

    /// The name of the version and what it makes of the data.
    pub async fn try_version(
        &self,
        caller: Caller,
        name: &str,
        trial: Trial,
    ) -> Result<(String, Vec<u8>), Error> {
        let known = self.event_type(name);
        let field = if trial.draft.is_some() { "function" } else { "version" };
        let pinned = match (trial.draft, trial.version) {
            (Some(draft), version) => {
                Self::must_be_admin(caller)?;
                let name = version.unwrap_or_else(|| ONLY_VERSION.to_owned());
                let draft = VersionDocument { name, ..draft };
                let compiled =
                    self.workbench.run(caller, "schema", move || PayloadVersion::compile(&draft)).await?;
                Pinned::Converted(Arc::new(compiled?))
            }
            (None, None) => return Err(Error::field("version", "is missing: say which version to make")),
            (None, Some(version)) => {
                known.as_ref().map_err(Clone::clone)?;
                let found = self.directory.catalogue().pinned(name, &version);
                found.map_err(|error| Error::field("version", error))?
            }
        };
        let sample = known.ok().and_then(|known| known.record.document.sample.clone());
        let data = trial.data.or(sample);
        let data = data.ok_or_else(|| Error::field("data", "is missing, and the type has no sample"))?;
        match pinned {
            Pinned::AsPublished(version) => Ok((version.to_string(), data.into_bytes())),
            Pinned::Converted(version) => {
                let converting = version.clone();
                let convert = move || converting.convert(data.as_bytes(), function_clock());
                let tried = self.workbench.run(caller, field, convert);
                let made = tried.await?.map_err(|failed| match failed {
                    ConversionFailed::Data(_) => Error::field("data", failed),
                    ConversionFailed::CheckOutOfTime => Error::field("schema", failed),
                    ConversionFailed::Function(_) | ConversionFailed::Result(_) => {
                        Error::field("function", failed)
                    }
                })?;
                Ok((version.name.to_string(), made))
            }
        }
    }
}
