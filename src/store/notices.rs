//! What the seams say about notices: which are listed, which are to go out, and what became of a mail.

use super::browse::Cursor;
use crate::domain::{
    id::{AppId, EndpointId},
    notice::{Notice, NoticeKind},
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct NoticeFilter {
    pub app: Option<AppId>,
    pub kind: Option<NoticeKind>,
    /// The one it is about; a digest is about several.
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
pub struct MailTurn {
    /// Whose turn was last.
    pub after: AppId,
    /// Of these only what goes alone is sent for now; the rest gathers.
    pub resting: Vec<AppId>,
}

/// What is to go out.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// In the order they were written; nothing if nothing can go now.
    pub notices: Vec<Notice>,
    /// When the next digest closes, whatever it has to wait for then.
    pub closes_at: Option<Timestamp>,
}

/// What became of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailEnd {
    Sent,
    /// The server would never take it; its words.
    Refused(String),
    /// There is nobody to send it to; why.
    Nobody(String),
}

/// How many notices wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticesWaiting {
    pub mails: u64,
    pub webhooks: u64,
}

/// Where a list of notices goes on after this one.
pub fn place_of(notice: &Notice) -> Cursor {
    Cursor { at: 0, id: notice.id.as_i64() }
}
