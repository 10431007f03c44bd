//! The catalogue in memory: which version of an event's data an endpoint gets.

use super::{EventType, PayloadVersion};
use std::{collections::HashMap, sync::Arc};

/// The version that a type without versions is sent in.
pub const ONLY_VERSION: &str = "1";

/// Replaced whole at every change, so that whoever reads it needs no lock.
#[derive(Clone, Debug, Default)]
pub struct Catalogue(HashMap<String, Arc<EventType>>);

/// How a pinned version is come by.
#[derive(Clone, Debug)]
pub enum Pinned {
    /// Under this name.
    AsPublished(Arc<str>),
    Converted(Arc<PayloadVersion>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event_type} has no payload version {version}; it has {known}")]
pub struct NoSuchVersion {
    event_type: String,
    version: String,
    known: String,
}

impl Catalogue {
    pub fn get(&self, event_type: &str) -> Option<&Arc<EventType>> {
        self.0.get(event_type)
    }

    /// In order of creation.
    pub fn all(&self) -> Vec<Arc<EventType>> {
        let mut all: Vec<_> = self.0.values().cloned().collect();
        all.sort_by_key(|event_type| event_type.record.id);
        all
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn with(&self, event_type: Arc<EventType>) -> Self {
        let mut types = self.0.clone();
        types.insert(event_type.record.name.clone(), event_type);
        Self(types)
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut types = self.0.clone();
        types.remove(name);
        Self(types)
    }

    /// The name of the type's newest version, unless it has none.
    pub fn newest(&self, event_type: &str) -> Option<&Arc<str>> {
        self.get(event_type)?.newest().map(|version| &version.name)
    }

    /// The version of this name, if the type can be sent in it.
    pub fn pinned(&self, event_type: &str, version: &str) -> Result<Pinned, NoSuchVersion> {
        let versions = self.get(event_type).map_or(&[][..], |known| known.versions());
        let found = versions.iter().find(|known| *known.name == *version);
        match found {
            Some(found) if found.is_as_published() => Ok(Pinned::AsPublished(found.name.clone())),
            Some(found) => Ok(Pinned::Converted(found.clone())),
            None if versions.is_empty() && version == ONLY_VERSION => Ok(Pinned::AsPublished(version.into())),
            None => {
                let names: Vec<&str> = versions.iter().map(|known| &*known.name).collect();
                Err(NoSuchVersion {
                    event_type: event_type.to_owned(),
                    version: version.to_owned(),
                    known: if names.is_empty() { ONLY_VERSION.to_owned() } else { names.join(", ") },
                })
            }
        }
    }
}
