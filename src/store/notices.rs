//! Notices: lists for people, batches for the mailer, and results of sending them.

use super::{
    Reply, Store,
    queries::{Cursor, Page},
    sql::{notices, outbox},
};
use crate::domain::{
    id::{AppId, EndpointId, NoticeId},
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

impl Store {
    /// Returns the next mail to send: the notices of an app that go together. Promise: until it has ended it is returned
    /// again with the same notices, whatever is written meanwhile.
    pub fn next_mail(&self, cursor: MailCursor, now: Timestamp) -> Reply<NoticeBatch> {
        self.backend.write(move |tx| outbox::next_mail(tx, &cursor, now))
    }

    /// Stores the result of the mail whose first notice this is.
    pub fn finish_mail(
        &self,
        app: AppId,
        first: NoticeId,
        outcome: MailOutcome,
        now: Timestamp,
    ) -> Reply<()> {
        self.backend.write(move |tx| outbox::finish_mail(tx, app, first, &outcome, now))
    }

    /// Closes digests whose window is over: later notices are not counted in them.
    pub fn close_digests(&self, now: Timestamp) -> Reply<()> {
        self.backend.write(move |tx| outbox::close(tx, now).map(drop))
    }

    /// Marks these notices as published, either because their operational webhooks exist or because no endpoint subscribes to
    /// them.
    pub fn mark_notices_published(&self, notices: Vec<NoticeId>) -> Reply<()> {
        self.backend.write(move |tx| outbox::mark_published(tx, &notices))
    }

    /// Lists notices; those of a deleted app are in no page.
    pub fn notices(&self, filter: NoticeFilter, after: Option<Cursor>, limit: u32) -> Reply<Page<Notice>> {
        self.backend.read(move |connection| notices::list(connection, &filter, after, limit))
    }

    /// Returns a notice of the app.
    pub fn notice(&self, app: AppId, notice: NoticeId) -> Reply<Option<Notice>> {
        self.backend.read(move |connection| notices::one(connection, app, notice))
    }

    /// Returns notices that are to become operational webhooks, oldest first, at most `most`; digests once they were closed.
    pub fn unpublished_notices(&self, most: usize) -> Reply<NoticeBatch> {
        self.backend.read_for_engine(move |connection| outbox::unpublished(connection, most))
    }

    /// How many notices wait, over all apps.
    pub fn notices_waiting(&self) -> Reply<NoticesWaiting> {
        self.backend.read_for_engine(notices::waiting)
    }
}
