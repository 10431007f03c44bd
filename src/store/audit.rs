//! What the seams say about the audit log. Every call that changes something for a key takes an entry: it is written in the
//! same transaction if the change is made, and not at all if it is refused.

use crate::domain::{
    audit::Action,
    id::{AppId, KeyId},
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct AuditFilter {
    pub app: Option<AppId>,
    pub key: Option<KeyId>,
    pub action: Option<Action>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}
