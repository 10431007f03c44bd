//! Inbox: a database table into which products publish inside their own transactions, until a node accepts the events. A
//! store in a file has none, because no other process writes there.

use super::{
    Reply, Store,
    deliveries::{Accepted, NewEvent},
    sql::AcceptInbox,
};
use crate::domain::{id::AppId, time::Timestamp};
use bytes::Bytes;

/// An event in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEvent {
    /// Its number in the inbox. Of one transaction the earlier has the smaller one.
    pub number: i64,
    pub app: AppId,
    pub event_type: String,
    pub data: Bytes,
    /// The producer's id, or one made for the event.
    pub id: String,
    pub key: Option<String>,
    pub at: Timestamp,
}

/// Decision on a page of the inbox, by number, applied in one transaction. Rows not named here keep waiting.
#[derive(Debug, Default)]
pub struct InboxBatch {
    pub events: Vec<(i64, NewEvent)>,
    /// Stays, with the reason.
    pub refused: Vec<(i64, String)>,
    /// Removed: it was published before, or its app is gone.
    pub removed: Vec<i64>,
}

impl InboxBatch {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.refused.is_empty() && self.removed.is_empty()
    }
}

impl Store {
    /// Accepts events from the inbox as `accept` does, and removes them and the other decided rows from it in the same
    /// transaction. A refused event, or one found to be a conflict, stays there with the reason. Answers for the events, in
    /// the same order.
    pub fn accept_inbox(&self, batch: InboxBatch) -> Reply<Vec<Accepted>> {
        let (accept, answer) = AcceptInbox::prepare(batch);
        let (count, bytes) = accept.weight();
        self.backend.submit_accept(Box::new(accept), count, bytes);
        answer
    }

    /// Returns some of the events that wait in the inbox, the oldest first. `None` if this store has no inbox.
    pub fn inbox_page(&self) -> Reply<Option<Vec<InboxEvent>>> {
        let page = self.backend.inbox_query().map(|query| self.backend.read_for_engine(query));
        Box::pin(async move {
            match page {
                Some(page) => page.await.map(Some),
                None => Ok(None),
            }
        })
    }
}
