//! Imports a list of event types, all or none. Each invalid type is reported by its index.

use super::{
    Caller, Error, Service,
    event_types::{CompiledType, TypeDraft},
};
use crate::domain::{event_type::EventTypeDocument, field_error::FieldError};
use std::collections::HashMap;

/// Type of an import, or the error in its notation.
pub type ParsedType = Result<(String, EventTypeDocument), FieldError>;

/// Result of an import or a dry run: type names in the order given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportResult {
    pub added: Vec<String>,
    /// Each with its changed fields.
    pub changed: Vec<(String, Vec<String>)>,
    pub unchanged: Vec<String>,
}

impl Service {
    /// Requires an admin key. Checked before the list is parsed, which may be long.
    pub fn require_operator(&self, caller: Caller) -> Result<(), Error> {
        Self::require_admin(caller)
    }

    /// Adds missing types and replaces those that differ; leaves all other types unchanged. With `is_dry_run` everything is
    /// checked and nothing stored.
    pub async fn import_event_types(
        &self,
        caller: Caller,
        given: Vec<ParsedType>,
        is_dry_run: bool,
    ) -> Result<ImportResult, Error> {
        Self::require_admin(caller)?;
        let _turn = self.catalogue_lock.lock().await;
        let mut imported = ImportResult::default();
        let (mut drafts, mut places, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = HashMap::new();
        for (index, one) in given.into_iter().enumerate() {
            let read = one.and_then(|(name, document)| match seen.insert(name.clone(), index) {
                None => Ok(self.draft(name, document)),
                Some(earlier) => {
                    Err(FieldError::new("name", format!("is the name of event_types[{earlier}] too")))
                }
            });
            match read {
                Ok(draft) if is_known(&draft) => imported.unchanged.push(draft.record.name),
                Ok(draft) => {
                    drafts.push(draft);
                    places.push(index);
                }
                Err(error) => problems.push((index, error)),
            }
        }
        self.check_type_count(drafts.iter().filter(|draft| draft.known.is_none()).count())?;
        let ready = self.compile_all(caller, drafts, &places, problems).await?;
        for one in &ready {
            let name = one.event_type.record.name.clone();
            match &one.known {
                None => imported.added.push(name),
                Some(known) => imported.changed.push((name, one.changed(known))),
            }
        }
        if !is_dry_run && !ready.is_empty() {
            self.store_types(caller, ready).await?;
        }
        Ok(imported)
    }

    /// Returns all types compiled, or every problem found, in order.
    async fn compile_all(
        &self,
        caller: Caller,
        drafts: Vec<TypeDraft>,
        places: &[usize],
        mut problems: Vec<(usize, FieldError)>,
    ) -> Result<Vec<CompiledType>, Error> {
        let mut ready = Vec::with_capacity(drafts.len());
        for (compiled, index) in self.compile(caller, drafts).await?.into_iter().zip(places) {
            match compiled {
                Ok(one) => ready.push(one),
                Err(error) => problems.push((*index, error)),
            }
        }
        if problems.is_empty() {
            return Ok(ready);
        }
        problems.sort_by_key(|(index, _)| *index);
        let placed = |(index, error): (usize, FieldError)| {
            let dot = if error.field.is_empty() { "" } else { "." };
            FieldError { field: format!("event_types[{index}]{dot}{}", error.field), ..error }
        };
        Err(Error::Fields(problems.into_iter().map(placed).collect()))
    }
}

fn is_known(draft: &TypeDraft) -> bool {
    let known = draft.known.as_ref();
    known.is_some_and(|known| known.record.document.is_equivalent_to(&draft.record.document))
}
