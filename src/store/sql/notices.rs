//! Notices: written with the change they report, and listed for people. Sending them is in `outbox`.

use super::{
    Result, Row, Sql,
    config::{json, optional_json, to_json},
    params,
    queries::fill,
    row::named,
};
use crate::{
    domain::{
        contract::NoticeChannel,
        id::{AppId, EndpointId, NoticeId},
        notice::{Digest, EventRef, MailState, NewNotice, Notice, NoticeKind},
        time::Timestamp,
    },
    store::{
        notices::{NoticeFilter, NoticesWaiting, cursor_of},
        queries::{Cursor, Page},
    },
};
use std::time::Duration;

/// How much longer notices that still wait to be sent are kept than other records.
const UNSENT_KEPT_LONGER: Duration = Duration::from_hours(7 * 24);

/// Columns that `read` reads, in its order.
pub(super) const COLUMNS: &str = "n.id, n.app, n.kind, n.endpoint, n.delivery, n.replay, n.at, n.details, n.event, n.digest, \
     n.count, n.email_state, n.email_error, n.emailed_at";

/// Writes a notice in the transaction of the change it reports; an open digest counts it instead. The engine is notified
/// after the commit.
pub(super) fn put(tx: &dyn Sql, notice: &NewNotice) -> Result<()> {
    put_with_event(tx, notice, None)
}

/// Whether the mail that warns before this endpoint is disabled still waits.
pub(super) fn warning_waits(tx: &dyn Sql, app: AppId, endpoint: EndpointId) -> Result<bool> {
    tx.exists(
        "SELECT EXISTS (SELECT 1 FROM notices
             WHERE app = ?1 AND kind = ?2 AND email_state = 1 AND open_until IS NULL AND endpoint = ?3)",
        params![app, NoticeKind::EndpointWarning, endpoint],
    )
}

/// Writes a notice about a delivery, with its event.
pub(super) fn put_with_event(tx: &dyn Sql, notice: &NewNotice, event: Option<&EventRef>) -> Result<()> {
    let mail = match notice.channel {
        NoticeChannel::None => return Ok(()),
        NoticeChannel::Email => MailState::Waiting,
        NoticeChannel::List => MailState::None,
    };
    let (mut until, mut digest) = (None, None);
    if let Some(window) = notice.digest_window {
        tx.lock_digests(notice.app)?;
        if count_in_digest(tx, notice, event, mail)? {
            return Ok(());
        }
        until = Some(notice.at.plus(window));
        digest = Some(to_json(&Digest::new(notice, event))?);
    }
    tx.execute(
        "INSERT INTO notices (app, kind, endpoint, delivery, replay, at, details, event, digest, count, open_until, email_state, webhook_pending)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10, ?11, 1)",
        params![
        notice.app,
        notice.kind,
        notice.endpoint,
        notice.delivery,
        notice.replay,
        notice.at,
        to_json(&notice.details)?,
        event.map(to_json).transpose()?,
        digest,
        until,
        mail,
    ],
    )?;
    Ok(())
}

/// Counts the notice in the open digest of its app and kind; `false` if there is none. A digest that was already sent stays
/// as it is, although a clock that was set back says it is open.
fn count_in_digest(
    tx: &dyn Sql,
    notice: &NewNotice,
    event: Option<&EventRef>,
    mail: MailState,
) -> Result<bool> {
    let found = tx.one(
        &format!(
            "SELECT {COLUMNS} FROM notices n
             WHERE n.app = ?1 AND n.kind = ?2 AND n.open_until > ?3 AND n.email_group IS NULL AND n.webhook_pending = 1"
        ),
        params![notice.app, notice.kind, notice.at],
        read,
    )?;
    let Some(mut open) = found else { return Ok(false) };
    let Some(digest) = open.digest.as_mut() else { return Ok(false) };
    digest.add(notice, event);
    let count = open.count.saturating_add(1);
    let facts = notice.merged_into_digest(&open.details, count);
    let counted = tx.execute(
        "UPDATE notices SET count = ?2, endpoint = ?3, delivery = ?4, details = ?5, event = ?6, digest = ?7,
             email_state = CASE WHEN email_state > ?8 THEN email_state ELSE ?8 END
         WHERE id = ?1 AND open_until IS NOT NULL AND email_group IS NULL AND webhook_pending = 1",
        params![
            open.id,
            count,
            open.endpoint.filter(|of| notice.endpoint == Some(*of)),
            notice.delivery,
            to_json(&facts)?,
            event.map(to_json).transpose()?,
            to_json(digest)?,
            mail,
        ],
    )?;
    // It may have closed since it was read.
    Ok(counted == 1)
}

pub(super) fn read(row: &Row<'_>) -> Result<Notice> {
    let id: NoticeId = row.get(0)?;
    named(id, read_columns(row, id))
}

fn read_columns(row: &Row<'_>, id: NoticeId) -> Result<Notice> {
    Ok(Notice {
        id,
        app: row.get(1)?,
        kind: row.get(2)?,
        endpoint: row.get(3)?,
        delivery: row.get(4)?,
        replay: row.get(5)?,
        at: row.get(6)?,
        details: json(row, 7)?,
        event: optional_json(row, 8)?,
        digest: optional_json(row, 9)?,
        count: row.get(10)?,
        mail: row.get(11)?,
        mail_error: row.get(12)?,
        mailed_at: row.get(13)?,
    })
}

/// Lists notices, newest first. Those of an app that is being removed are left out, although they may still be there.
pub(in crate::store) fn list(
    connection: &dyn Sql,
    filter: &NoticeFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Notice>> {
    let newest = after.unwrap_or(Cursor { at: 0, id: i64::MAX });
    let of_app = if filter.app.is_some() { "n.app = ?3" } else { "CAST(?3 AS bigint) IS NULL" };
    let sql = format!(
        "SELECT {COLUMNS}, EXISTS (SELECT 1 FROM apps WHERE id = n.app) FROM notices n
         WHERE n.id < ?1 AND {of_app} ORDER BY n.id DESC LIMIT ?2"
    );
    fill(limit, newest, |fitting, before, most| {
        connection.query(&sql, params![before.id, most, filter.app], &mut |row| {
            let notice = read(row)?;
            let fits = row.get(14)? && filter.fits(&notice);
            Ok(fitting.examine(cursor_of(&notice), fits.then_some(notice)))
        })
    })
}

pub(in crate::store) fn one(connection: &dyn Sql, app: AppId, id: NoticeId) -> Result<Option<Notice>> {
    connection.one(
        &format!("SELECT {COLUMNS} FROM notices n WHERE n.id = ?1 AND n.app = ?2"),
        params![id, app],
        read,
    )
}

pub(in crate::store) fn waiting(connection: &dyn Sql) -> Result<NoticesWaiting> {
    let count = |sql: &str| connection.number(sql, &[]).map(|n| n as u64);
    Ok(NoticesWaiting {
        mails: count("SELECT count(*) FROM notices WHERE email_state = 1 AND open_until IS NULL")?
            + count("SELECT count(*) FROM notices WHERE email_state = 1 AND open_until IS NOT NULL")?,
        webhooks: count("SELECT count(*) FROM notices WHERE webhook_pending = 1")?,
    })
}

/// Deletes at most `most` old notices; returns how many.
pub(super) fn delete_old(tx: &dyn Sql, before: Timestamp, most: i64) -> Result<usize> {
    let kept_ms = UNSENT_KEPT_LONGER.as_millis() as i64;
    let long_before = Timestamp::from_millis(before.as_millis().saturating_sub(kept_ms));
    tx.execute(
        "DELETE FROM notices WHERE id IN (SELECT id FROM notices
             WHERE at < ?1 AND (email_state <> 1 AND webhook_pending = 0 OR at < ?2) ORDER BY at LIMIT ?3)",
        params![before, long_before, most],
    )
}

/// Deletes at most `most` notices of a deleted app; returns how many.
pub(super) fn purge(tx: &dyn Sql, app: AppId, most: i64) -> Result<usize> {
    let sql = "DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE app = ?1 ORDER BY id LIMIT ?2)";
    tx.execute(sql, params![app, most])
}

pub(in crate::store) const NEWEST: &str = "SELECT max(id) FROM notices";

/// Returns the id of the newest notice: it grows when a notice is written, and not when a digest counts one.
pub(in crate::store) fn newest(connection: &dyn Sql) -> Result<i64> {
    connection.number(NEWEST, &[])
}
