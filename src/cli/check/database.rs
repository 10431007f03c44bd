//! Checks of a PostgreSQL store: whether it answers, keeps what it confirms, is of this version, and grants the privileges that
//! a server needs. Changes nothing.

use super::{CheckLine, store::check_keyring};
use crate::{
    config::Settings,
    domain::{database_address::DatabaseAddress, encryption::Keyring},
    store::postgres::{self, DatabaseInfo, DatabaseState, MissingPrivilege, PostgresOpenError},
};
use tokio::sync::oneshot;

const STORE_CHECK: &str = "store";

pub(super) async fn check_database(settings: &Settings, address: &DatabaseAddress) -> Vec<CheckLine> {
    let (done, is_done) = oneshot::channel();
    let requested = address.clone();
    std::thread::spawn(move || drop(done.send(postgres::probe(&requested))));
    let said = |words: &str| format!("{address}: {words}");
    let DatabaseInfo { found, missing: lacks, encrypted } = match is_done.await {
        Ok(Ok(look)) => look,
        Ok(Err(error)) => {
            return vec![CheckLine::failed(STORE_CHECK, said(&error.to_string()), advice(&error))];
        }
        Err(_) => {
            return vec![CheckLine::failed(
                STORE_CHECK,
                said("it could not be looked at"),
                "Look at the log above.",
            )];
        }
    };
    let mut lines = vec![CheckLine::ok(STORE_CHECK, said(schema_state(found)))];
    if found.refused > 0 {
        lines.push(CheckLine::warning(
            STORE_CHECK,
            format!("{} events that were published in SQL were refused", found.refused),
            "Look at posthaste.inbox, column error; docs/transactional-publish.md says what to do with them.",
        ));
    }
    lines.extend(lacks.into_iter().map(missing_privilege));
    let keyring = settings.encryption_key.as_ref().and_then(|key| Keyring::parse(key.reveal()).ok());
    // A missing key is reported by the checks of the settings.
    lines.extend(keyring.map(|keyring| check_keyring(&keyring, &encrypted)));
    lines
}

fn schema_state(found: DatabaseState) -> &'static str {
    match found {
        DatabaseState { prepared: 0, .. } => "it keeps what it confirms, and is prepared at the first start",
        DatabaseState { prepared, known, .. } if prepared < known => {
            "it keeps what it confirms, and is brought up to date at the next start"
        }
        _ => "it keeps what it confirms, and is up to date",
    }
}

fn missing_privilege(lack: MissingPrivilege) -> CheckLine {
    match lack {
        MissingPrivilege::NoSchema { role, database } => CheckLine::failed(
            STORE_CHECK,
            format!("the role {role} may not make the schema posthaste"),
            format!(
                "Somebody who may says GRANT CREATE ON DATABASE {database} TO {role}; or CREATE SCHEMA posthaste AUTHORIZATION {role};"
            ),
        ),
        MissingPrivilege::NotOwner { role, owner, others, must_be_prepared } => {
            let said = format!(
                "the role {role} does not own the schema posthaste ({owner} does) with all in it ({others} are others')"
            );
            let advice = format!("Connect as {owner}, or somebody who may says GRANT {owner} TO {role};");
            if must_be_prepared {
                CheckLine::failed(STORE_CHECK, said, advice)
            } else {
                CheckLine::warning(STORE_CHECK, said, advice)
            }
        }
        MissingPrivilege::NoPublisher => CheckLine::warning(
            "publisher",
            "nobody but the schema's owner may publish in SQL: the role posthaste_publisher is not there, or may not",
            "If a product is to, somebody who may says CREATE ROLE posthaste_publisher NOLOGIN; and the owner \
             GRANT USAGE ON SCHEMA posthaste TO posthaste_publisher; \
             GRANT EXECUTE ON FUNCTION posthaste.publish(text, text, json, text, text) TO posthaste_publisher;",
        ),
    }
}

fn advice(error: &PostgresOpenError) -> &'static str {
    match error {
        PostgresOpenError::Unreachable(_) | PostgresOpenError::Away(_) => {
            "Look whether it runs, and whether host, port, name, password and sslmode are right."
        }
        PostgresOpenError::Certificates(_) => {
            "Give a PEM file of certificate authorities as sslrootcert, or none."
        }
        PostgresOpenError::Pooled => {
            "Write pooler=true behind the ? of the address, or name the server itself."
        }
        PostgresOpenError::TooOld { .. } => "Upgrade the server to PostgreSQL 14 or later.",
        PostgresOpenError::Encoding { .. } => "Make a database whose encoding is UTF8, and name that one.",
        PostgresOpenError::Unsafe { .. } => "Change that setting: a 202 must survive a power cut.",
        PostgresOpenError::TooNew { .. } | PostgresOpenError::Foreign(_) => {
            "Name another database, or start the version that prepared it."
        }
        PostgresOpenError::Needed { .. } => "Stop the nodes of the older version, then start this one.",
        PostgresOpenError::HalfMoved => "Run posthaste migrate again: it goes on where it was interrupted.",
        PostgresOpenError::NotPrepared(_) => "Let the user read and change the schema posthaste.",
    }
}
