//! `posthaste backup` and `posthaste restore`: the embedded store as one file, and back.

use super::{failed, load, print, setting_flags::SettingFlags};
use crate::{
    app,
    config::{DefaultsMode, Settings},
    store::sqlite::BackupContents,
};
use clap::Args;
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

const BACKUP_EXAMPLES: &str = "\
Examples:
  posthaste backup /backups/posthaste-2026-11-15.db
  posthaste backup --store sqlite:/var/lib/posthaste/posthaste.db /backups/now.db

It may run beside the server. The encryption key is not in the file: keep that apart, and keep it.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  posthaste restore /backups/posthaste-2026-11-15.db
  posthaste restore --store sqlite:/srv/again/posthaste.db /backups/now.db

There must be no store yet: stop the server and move the old one away. What was delivered after the backup was taken
is delivered again.";

#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(super) struct BackupArgs {
    /// The file to make; it must not exist
    file: PathBuf,
    /// Say what came of it in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(super) struct RestoreArgs {
    /// The backup
    file: PathBuf,
    /// Say what came of it in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) fn back_up(args: BackupArgs) -> ExitCode {
    let BackupArgs { file, json, settings } = args;
    run(settings, json, "backed up", |settings| app::back_up(settings, &file))
}

pub(super) fn restore(args: RestoreArgs) -> ExitCode {
    let RestoreArgs { file, json, settings } = args;
    run(settings, json, "restored", |settings| app::restore(&file, settings))
}

fn run(
    flags: SettingFlags,
    json: bool,
    done: &str,
    work: impl FnOnce(&Settings) -> anyhow::Result<BackupContents>,
) -> ExitCode {
    let settings = match load(DefaultsMode::Serve, flags.0) {
        Ok(settings) => settings,
        Err(usage) => return usage,
    };
    match work(&settings) {
        Ok(inventory) if json => print(&format!("{}\n", as_json(&inventory))),
        Ok(inventory) => print(&in_words(done, &inventory)),
        Err(error) => failed(&error),
    }
}

fn as_json(inventory: &BackupContents) -> serde_json::Value {
    let BackupContents { bytes, apps, endpoints, events, deliveries } = inventory;
    json!({ "bytes": bytes, "apps": apps, "endpoints": endpoints, "events": events, "deliveries": deliveries })
}

fn in_words(done: &str, inventory: &BackupContents) -> String {
    let BackupContents { bytes, apps, endpoints, events, deliveries } = inventory;
    let mib = *bytes as f64 / f64::from(1 << 20);
    format!(
        "{done} and verified: {apps} apps, {endpoints} endpoints, {events} events, {deliveries} deliveries, {mib:.1} MiB\n"
    )
}
