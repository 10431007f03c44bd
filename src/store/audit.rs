//! Audit log. A call that changes something on behalf of a key takes an audit entry: it is written in the same
//! transaction as the change, and not at all if the change is refused.

use super::{
    Reply, Store,
    queries::{Cursor, Page},
    sql::audit,
};
use crate::domain::{
    audit::{AuditAction, AuditEntry},
    id::{AppId, KeyId},
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct AuditFilter {
    pub app: Option<AppId>,
    pub key: Option<KeyId>,
    pub action: Option<AuditAction>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

impl Store {
    /// Lists the audit log; entries of a deleted app are in no page.
    pub fn audit(&self, filter: AuditFilter, after: Option<Cursor>, limit: u32) -> Reply<Page<AuditEntry>> {
        self.backend.read(move |connection| audit::list(connection, &filter, after, limit))
    }
}
