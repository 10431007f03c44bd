//! Notice filters, mail batches, and results of sending mail.

use super::queries::Cursor;
use crate::domain::{
    id::{AppId, EndpointId},
    notice::{Notice, NoticeKind},
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct NoticeFilter {
    pub app: Option<AppId>,
    pub kind: Option<NoticeKind>,
    /// The endpoint it is about; a digest is about several.
    pub endpoint: Option<EndpointId>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

impl NoticeFilter {
    pub fn fits(&self, notice: &Notice) -> bool {
        self.kind.is_none_or(|kind| kind == notice.kind)
            && self.endpoint.is_none_or(|endpoint| notice.endpoints().any(|of| of == endpoint))
            && self.from.is_none_or(|from| notice.at >= from)
            && self.to.is_none_or(|to| notice.at < to)
    }
}

/// Where to look for the next mail: apps take turns, in the order of their ids.
#[derive(Clone, Debug)]
pub struct MailCursor {
    /// The app that was last served.
    pub after: AppId,
    /// For these apps only notices that go alone are sent now; the others collect.
    pub collecting: Vec<AppId>,
}

/// Notices to be sent together.
#[derive(Clone, Debug, Default)]
pub struct NoticeBatch {
    /// In the order they were written; empty if nothing can go now.
    pub notices: Vec<Notice>,
    /// When the next digest closes, if one is open.
    pub closes_at: Option<Timestamp>,
}

/// Result of sending a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    Sent,
    /// The server permanently rejected it; its message.
    Rejected(String),
    /// There is no recipient; why.
    NoRecipient(String),
}

/// How many notices wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticesWaiting {
    pub mails: u64,
    pub webhooks: u64,
}

/// Returns the cursor behind this notice.
pub fn cursor_of(notice: &Notice) -> Cursor {
    Cursor { at: 0, id: notice.id.as_i64() }
}
