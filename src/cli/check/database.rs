//! A store that is a PostgreSQL database: whether it answers, keeps what it confirms, and is of this version. It is only looked
//! at.

use super::Line;
use crate::store::postgres::{self, Address, Found, OpenError};
use tokio::sync::oneshot;

const NAME: &str = "store";

pub(super) async fn look(address: &Address) -> Line {
    let (done, is_done) = oneshot::channel();
    let asked = address.clone();
    std::thread::spawn(move || drop(done.send(postgres::look(&asked))));
    let said = |words: &str| format!("{address}: {words}");
    match is_done.await {
        Ok(Ok(Found { prepared: 0, .. })) => {
            Line::ok(NAME, said("it keeps what it confirms, and is prepared at the first start"))
        }
        Ok(Ok(Found { prepared, known, .. })) if prepared < known => {
            Line::ok(NAME, said("it keeps what it confirms, and is brought up to date at the next start"))
        }
        Ok(Ok(Found { refused: refused @ 1.., .. })) => Line::warning(
            NAME,
            said(&format!("{refused} events that were published in SQL were refused")),
            "Look at posthaste.inbox, column error; docs/transactional-publish.md says what to do with them.",
        ),
        Ok(Ok(_)) => Line::ok(NAME, said("it keeps what it confirms, and is up to date")),
        Ok(Err(error)) => Line::failed(NAME, said(&error.to_string()), advice(&error)),
        Err(_) => Line::failed(NAME, said("it could not be looked at"), "Look at the log above."),
    }
}

fn advice(error: &OpenError) -> &'static str {
    match error {
        OpenError::Unreachable(_) | OpenError::Away(_) => {
            "Look whether it runs, and whether host, port, name, password and sslmode are right."
        }
        OpenError::Certificates(_) => "Give a PEM file of certificate authorities as sslrootcert, or none.",
        OpenError::Pooled => "Write pooler=true behind the ? of the address, or name the server itself.",
        OpenError::TooOld { .. } => "Upgrade the server to PostgreSQL 14 or later.",
        OpenError::Unsafe { .. } => "Change that setting: a 202 must survive a power cut.",
        OpenError::TooNew { .. } | OpenError::Foreign(_) => {
            "Name another database, or start the version that prepared it."
        }
        OpenError::Needed { .. } => "Stop the nodes of the older version, then start this one.",
        OpenError::HalfMoved => "Run posthaste migrate again: it goes on where it was interrupted.",
        OpenError::NotPrepared(_) => "Let the user read and change the schema posthaste.",
    }
}
