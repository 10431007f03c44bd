//! Backing up and restoring the store that the settings name.

use super::open_store;
use crate::{
    config::Settings,
    store::sqlite::{self, BackupContents},
};
use std::path::Path;

/// Copies the store to a new file; the server may be running.
pub fn back_up(settings: &Settings, to: &Path) -> anyhow::Result<BackupContents> {
    let store =
        open_store::sqlite_path(settings, "backup", "back it up with pg_dump, or as your other databases")?;
    Ok(sqlite::back_up(store, to)?)
}

/// Makes the store out of a backup; there must be none yet.
pub fn restore(from: &Path, settings: &Settings) -> anyhow::Result<BackupContents> {
    let store = open_store::sqlite_path(
        settings,
        "restore",
        "restore it with pg_restore, or as your other databases",
    )?;
    Ok(sqlite::restore(from, store)?)
}
