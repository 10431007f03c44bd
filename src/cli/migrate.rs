//! `posthaste migrate`: copies a stopped embedded store into a PostgreSQL database.

use super::{exit::CommandError, failed, load, print};
use crate::{
    config::{DefaultsMode, SettingValues, StoreLocation},
    domain::database_address::{DatabaseAddress, DatabaseAddressError},
    runtime::{Clock, SystemClock},
    store::postgres::import,
};
use clap::Args;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const EXAMPLES: &str = "\
Examples:
  posthaste migrate --from sqlite:/var/lib/posthaste/posthaste.db --to 'postgres://posthaste@db.example.com/posthaste'
  POSTHASTE_STORE=postgres://… posthaste migrate --from sqlite:/var/lib/posthaste/posthaste.db

The second keeps a password out of the list of processes, which other users of the machine can see.

Stop the server first. The database must be empty, or have an interrupted copy of the same store: then it goes on. What is
sealed stays sealed: start the server on the database with the same encryption key. The file is left as it is, but for what any
start does to it: a store of an older version is brought up to date, and what a killed server was carrying ends.";

/// Rows of a table between two lines of progress.
const ROWS_PER_LINE: i64 = 10_000;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MigrateArgs {
    /// The store to copy, as sqlite:PATH
    #[arg(long, value_name = "STORE")]
    from: String,
    /// The database to copy it into, as postgres://…; without it the setting store says which
    #[arg(long, value_name = "STORE")]
    to: Option<String>,
    /// Say what came of it in JSON
    #[arg(long)]
    json: bool,
}

/// Parses `--from`. Done here and not by clap, which would repeat a wrong value, password and all.
fn parse_from(text: &str) -> anyhow::Result<PathBuf> {
    match StoreLocation::parse(text) {
        Ok(StoreLocation::Sqlite(path)) => Ok(path),
        _ => Err(CommandError::usage("--from: must be sqlite: and the path of a file")),
    }
}

fn parse_to(text: &str) -> anyhow::Result<Box<DatabaseAddress>> {
    match StoreLocation::parse(text) {
        Ok(StoreLocation::Postgres(address)) => Ok(address),
        Ok(StoreLocation::Sqlite(_)) | Err(DatabaseAddressError::NotOne) => Err(CommandError::usage(
            "--to: must be the address of a database, as postgres://user:password@host:5432/name",
        )),
        Err(wrong) => Err(CommandError::usage(format!("--to: {wrong}"))),
    }
}

/// Returns the database that a server with these settings would use.
fn database_of_settings() -> Result<Box<DatabaseAddress>, ExitCode> {
    match load(DefaultsMode::Serve, SettingValues::default())?.store {
        StoreLocation::Postgres(address) => Ok(address),
        StoreLocation::Sqlite(_) => {
            let words = "--to: is missing, and the setting store (POSTHASTE_STORE) is no database";
            Err(failed(&CommandError::usage(words)))
        }
    }
}

pub(super) fn run(args: &MigrateArgs) -> ExitCode {
    let places = || {
        let from = parse_from(&args.from).map_err(|error| failed(&error))?;
        let to = args.to.as_deref().map(|to| parse_to(to).map_err(|error| failed(&error)));
        Ok((from, to.unwrap_or_else(database_of_settings)?))
    };
    match places() {
        Ok((from, to)) => copy(&from, &to, args.json),
        Err(usage) => usage,
    }
}

fn copy(from: &Path, to: &DatabaseAddress, json: bool) -> ExitCode {
    let mut said = 0;
    let mut report_progress = |table: &'static str, done: i64, of: i64| {
        if done == of || done < said || done >= said + ROWS_PER_LINE {
            eprintln!("{table}: {done} of {of}");
            said = done;
        }
    };
    match import(from, to, SystemClock.now(), &mut report_progress) {
        Ok(counts) if json => {
            let tables: serde_json::Map<_, _> =
                counts.into_iter().map(|(table, rows)| (table.to_owned(), json!(rows))).collect();
            print(&format!("{}\n", json!({ "tables": tables })))
        }
        Ok(counts) => {
            let rows: i64 = counts.iter().map(|(_, rows)| rows).sum();
            print(&format!("moved and verified: {rows} rows of {} tables\n", counts.len()))
        }
        Err(error) => failed(&error.into()),
    }
}
