//! What products published inside their own transactions waits in an inbox of the database until a node takes it in. A store in
//! a file has none: nobody else writes there.

use super::ledger::NewEvent;
use crate::domain::{id::AppId, time::Timestamp};
use bytes::Bytes;

/// An event in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its place there. Of one transaction the earlier has the smaller one.
    pub number: i64,
    pub app: AppId,
    pub event_type: String,
    pub data: Bytes,
    /// The producer's, or one that was made for him.
    pub id: String,
    pub key: Option<String>,
    pub at: Timestamp,
}

/// What becomes of a page of the inbox, by number, all in one transaction. What is not named here waits on.
#[derive(Debug, Default)]
pub struct Intake {
    pub events: Vec<(i64, NewEvent)>,
    /// Stays, with the reason.
    pub refused: Vec<(i64, String)>,
    /// Goes: it was published before, or its app is gone.
    pub settled: Vec<i64>,
}

impl Intake {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.refused.is_empty() && self.settled.is_empty()
    }
}
