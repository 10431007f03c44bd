//! The outbox of notices: written with what they tell of, taken out by whoever sends them, listed for people.

use super::registry::to_json;
use crate::domain::{
    contract::Channel,
    notice::{MailState, NewNotice},
};
use rusqlite::{Connection, params};

/// Writes a notice into the transaction of what it tells of; a digest that is still open counts it instead.
pub(super) fn put(tx: &Connection, notice: &NewNotice) -> rusqlite::Result<()> {
    if notice.channel == Channel::None {
        return Ok(());
    }
    let window = notice.digest.map(|window| notice.at.plus(window));
    if window.is_some() {
        let counted = tx
            .prepare_cached(
                "UPDATE notices SET count = count + 1, delivery = ?4, facts = ?5
                 WHERE app = ?1 AND kind = ?2 AND open_until > ?3",
            )?
            .execute(params![notice.app, notice.kind, notice.at, notice.delivery, to_json(&notice.facts)?])?;
        if counted > 0 {
            return Ok(());
        }
    }
    let mail = match notice.channel {
        Channel::Email => MailState::Waiting,
        Channel::List | Channel::None => MailState::None,
    };
    tx.prepare_cached(
        "INSERT INTO notices (app, kind, endpoint, delivery, replay, at, facts, count, open_until, mail, hook)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, 1)",
    )?
    .execute(params![
        notice.app,
        notice.kind,
        notice.endpoint,
        notice.delivery,
        notice.replay,
        notice.at,
        to_json(&notice.facts)?,
        window,
        mail,
    ])?;
    Ok(())
}
