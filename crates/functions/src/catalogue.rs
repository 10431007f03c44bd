//! The event-type catalogue in memory. Finds the version of an event's data that an endpoint gets.

use super::{event_type::EventType, payload_version::PayloadVersion};
use model::{event_type::ONLY_VERSION, field_error::nearest};
use std::{collections::HashMap, sync::Arc};

/// The maximum difference in length between a misspelt name and the right one, so that few names are compared.
const LENGTH_DIFFERENCE_MAX: usize = 3;

/// The event types by name. Replaced as a whole at every change, so that readers need no lock.
#[derive(Clone, Debug, Default)]
pub struct Catalogue(HashMap<String, Arc<EventType>>);

/// The way to get the data of a pinned version.
#[derive(Clone, Debug)]
pub enum PinnedVersion {
    /// The data as published, under this version name.
    AsPublished(Arc<str>),
    Converted(Arc<PayloadVersion>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event_type} has no payload version {version}; it has {known}")]
pub struct UnknownVersion {
    event_type: String,
    version: String,
    known: String,
}

impl Catalogue {
    pub fn get(&self, event_type: &str) -> Option<&Arc<EventType>> {
        self.0.get(event_type)
    }

    /// Returns all types in order of creation.
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

    /// Returns a copy with these types added. A type replaces one of its name.
    #[must_use]
    pub fn with(&self, event_types: &[Arc<EventType>]) -> Self {
        let mut types = self.0.clone();
        types.extend(event_types.iter().map(|one| (one.record.name.clone(), one.clone())));
        Self(types)
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut types = self.0.clone();
        types.remove(name);
        Self(types)
    }

    /// Returns the type that this name is probably a misspelling of, if one that can be published is near.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let is_near = |known: &&Arc<EventType>| {
            known.archived_at().is_none()
                && known.record.name.len().abs_diff(name.len()) <= LENGTH_DIFFERENCE_MAX
        };
        let near: Vec<&str> =
            self.0.values().filter(is_near).map(|known| known.record.name.as_str()).collect();
        nearest(name, &near)
    }

    /// Returns the name of the type's newest version, if it has one.
    pub fn newest(&self, event_type: &str) -> Option<&Arc<str>> {
        self.get(event_type)?.newest().map(|version| &version.name)
    }

    /// Returns the version of this name, if the type can be sent in it.
    pub fn pinned(&self, event_type: &str, version: &str) -> Result<PinnedVersion, UnknownVersion> {
        let versions = self.get(event_type).map_or(&[][..], |known| known.versions());
        let found = versions.iter().find(|known| *known.name == *version);
        match found {
            Some(found) if found.is_as_published() => Ok(PinnedVersion::AsPublished(found.name.clone())),
            Some(found) => Ok(PinnedVersion::Converted(found.clone())),
            None if versions.is_empty() && version == ONLY_VERSION => {
                Ok(PinnedVersion::AsPublished(version.into()))
            }
            None => {
                let names: Vec<&str> = versions.iter().map(|known| &*known.name).collect();
                Err(UnknownVersion {
                    event_type: event_type.to_owned(),
                    version: version.to_owned(),
                    known: if names.is_empty() { ONLY_VERSION.to_owned() } else { names.join(", ") },
                })
            }
        }
    }
}
