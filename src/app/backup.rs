//! Backing up and restoring the store that the settings name.

use crate::{
    config::{Settings, StoreLocation},
    store::sqlite::{self, Inventory},
};
use std::path::Path;

/// Copies the store to a new file; the server may be running.
pub fn back_up(settings: &Settings, to: &Path) -> anyhow::Result<Inventory> {
    let StoreLocation::Sqlite(store) = &settings.store;
    Ok(sqlite::back_up(store, to)?)
}

/// Makes the store out of a backup; there must be none yet.
pub fn restore(from: &Path, settings: &Settings) -> anyhow::Result<Inventory> {
    let StoreLocation::Sqlite(store) = &settings.store;
    Ok(sqlite::restore(from, store)?)
}
