//! Filter of the audit log. A call that changes something on behalf of a key takes an audit entry: it is written in the same
//! transaction as the change, and not at all if the change is refused.

use crate::domain::{
    audit::AuditAction,
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
