//! `posthaste migrate`: a stopped embedded store, moved up into a PostgreSQL database.

use super::{failed, print};
use crate::{
    config::StoreLocation,
    store::postgres::{Address, move_up},
    world::{Clock, SystemClock},
};
use clap::Args;
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

const EXAMPLES: &str = "\
Example:
  posthaste migrate --from sqlite:/var/lib/posthaste/posthaste.db --to 'postgres://posthaste@db.example.com/posthaste'

Stop the server first. The database must be empty, or have an interrupted copy of the same store: then it goes on. What is
sealed stays sealed: start the server on the database with the same encryption key. The file is left as it is.";

/// Of one table, between two lines of progress.
const ROWS_PER_LINE: i64 = 10_000;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MigrateArgs {
    /// The store to copy, as sqlite:PATH
    #[arg(long, value_name = "STORE", value_parser = file)]
    from: PathBuf,
    /// The database to copy it into, as postgres://…
    #[arg(long, value_name = "STORE", value_parser = database)]
    to: Box<Address>,
    /// Say what came of it in JSON
    #[arg(long)]
    json: bool,
}

fn file(text: &str) -> Result<PathBuf, &'static str> {
    match StoreLocation::parse(text) {
        Some(StoreLocation::Sqlite(path)) => Ok(path),
        _ => Err("must be sqlite: and the path of a file"),
    }
}

fn database(text: &str) -> Result<Box<Address>, &'static str> {
    match StoreLocation::parse(text) {
        Some(StoreLocation::Postgres(address)) => Ok(address),
        _ => Err("must be the address of a database, as postgres://user:password@host:5432/name"),
    }
}

pub(super) fn run(args: &MigrateArgs) -> ExitCode {
    let mut said = 0;
    let mut told = |table: &'static str, done: i64, of: i64| {
        if done == of || done < said || done >= said + ROWS_PER_LINE {
            eprintln!("{table}: {done} of {of}");
            said = done;
        }
    };
    match move_up(&args.from, &args.to, SystemClock.now(), &mut told) {
        Ok(counts) if args.json => {
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
