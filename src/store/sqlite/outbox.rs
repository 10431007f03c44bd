//! How notices go out: put together to mails that stay the same however often they are tried, and handed to whoever makes
//! events of them.

use super::notices::{COLUMNS, read};
use crate::{
    domain::{
        id::{AppId, NoticeId},
        notice::{MailState, Notice, NoticeKind},
        time::Timestamp,
    },
    store::notices::{MailEnd, MailTurn, Outgoing},
};
use rusqlite::{Connection, OptionalExtension, params};

/// Notices that one mail stands for.
const GATHERED_MAX: usize = 1000;

/// The next mail: of the first app after the last one's turn that has something to send.
pub(super) fn take(tx: &Connection, turn: &MailTurn, now: Timestamp) -> rusqlite::Result<Outgoing> {
    let mut next_app =
        tx.prepare_cached("SELECT min(app) FROM notices WHERE mail = 1 AND app > ?1 AND app <= ?2")?;
    let all_round = [(turn.after.as_i64(), i64::MAX), (i64::MIN, turn.after.as_i64())];
    for (mut after, last) in all_round {
        while let Some(app) = next_app.query_row([after, last], |row| row.get::<_, Option<AppId>>(0))? {
            let notices = letter_of(tx, app, turn.resting.contains(&app), now)?;
            if !notices.is_empty() {
                return Ok(Outgoing { notices, closes_at: None });
            }
            after = app.as_i64();
        }
    }
    Ok(Outgoing { notices: Vec::new(), closes_at: closes_at(tx, now)? })
}

/// The mail that was put together before and is still to go, else a new one.
fn letter_of(tx: &Connection, app: AppId, is_resting: bool, now: Timestamp) -> rusqlite::Result<Vec<Notice>> {
    let formed = tx
        .prepare_cached("SELECT min(letter) FROM notices WHERE app = ?1 AND mail = 1 AND letter IS NOT NULL")?
        .query_row([app], |row| row.get::<_, Option<NoticeId>>(0))?;
    if let Some(letter) = formed {
        return notices_of(tx, app, letter);
    }
    let alone = ready(tx, app, NoticeKind::DeliveryDead, 1, now)?;
    let mut gathered = Vec::new();
    if !is_resting {
        for kind in NoticeKind::ALL.iter().filter(|kind| kind.gathers()) {
            gathered.extend(ready(tx, app, *kind, GATHERED_MAX, now)?);
        }
        gathered.sort_unstable();
        gathered.truncate(GATHERED_MAX);
    }
    // What is said of endpoints must not wait behind thousands of dead letters: a warning is worth nothing when it is late.
    let members = if gathered.is_empty() { alone } else { gathered };
    let Some(&letter) = members.first() else { return Ok(Vec::new()) };
    let mut join = tx.prepare_cached("UPDATE notices SET letter = ?2 WHERE id = ?1")?;
    for member in members {
        join.execute(params![member, letter])?;
    }
    notices_of(tx, app, letter)
}

/// Those of a kind that wait for a mail, oldest first, but for a digest that is still open.
fn ready(
    tx: &Connection,
    app: AppId,
    kind: NoticeKind,
    most: usize,
    now: Timestamp,
) -> rusqlite::Result<Vec<NoticeId>> {
    tx.prepare_cached(
        "SELECT id FROM notices WHERE app = ?1 AND kind = ?2 AND mail = 1 AND (open_until IS NULL OR open_until <= ?3)
         ORDER BY id LIMIT ?4",
    )?
    .query_map(params![app, kind, now, most as i64], |row| row.get(0))?
    .collect()
}

fn notices_of(tx: &Connection, app: AppId, letter: NoticeId) -> rusqlite::Result<Vec<Notice>> {
    tx.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM notices n WHERE n.app = ?1 AND n.letter = ?2 AND n.mail = 1 ORDER BY n.id"
    ))?
    .query_map(params![app, letter], read)?
    .collect()
}

/// The mail that starts with this notice went out, or never will.
pub(super) fn end(
    tx: &Connection,
    app: AppId,
    letter: NoticeId,
    end: &MailEnd,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (state, why) = match end {
        MailEnd::Sent => (MailState::Sent, None),
        MailEnd::Refused(words) => (MailState::Refused, Some(words)),
        MailEnd::Nobody(why) => (MailState::None, Some(why)),
    };
    let at = (state != MailState::None).then_some(now);
    tx.prepare_cached(
        "UPDATE notices SET mail = ?3, mail_error = ?4, mailed_at = ?5 WHERE app = ?1 AND letter = ?2 AND mail = 1",
    )?
    .execute(params![app, letter, state, why, at])?;
    Ok(())
}

/// What is to become an operational webhook, oldest first.
pub(super) fn unpublished(
    connection: &Connection,
    now: Timestamp,
    most: usize,
) -> rusqlite::Result<Outgoing> {
    let notices = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM notices n WHERE n.hook = 1 AND (n.open_until IS NULL OR n.open_until <= ?1)
             ORDER BY n.id LIMIT ?2"
        ))?
        .query_map(params![now, most as i64], read)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Outgoing { notices, closes_at: closes_at(connection, now)? })
}

pub(super) fn published(tx: &Connection, notices: &[NoticeId]) -> rusqlite::Result<()> {
    let mut mark = tx.prepare_cached("UPDATE notices SET hook = 0 WHERE id = ?1")?;
    for notice in notices {
        mark.execute([notice])?;
    }
    Ok(())
}

fn closes_at(connection: &Connection, now: Timestamp) -> rusqlite::Result<Option<Timestamp>> {
    connection
        .prepare_cached("SELECT open_until FROM notices WHERE open_until > ?1 ORDER BY open_until LIMIT 1")?
        .query_row([now], |row| row.get(0))
        .optional()
}
