//! Sends notices: forms mails that stay the same however often they are tried, and lists notices to be published as
//! operational webhooks.

use super::{
    Result, Sql,
    notices::{COLUMNS, read},
    params,
};
use crate::{
    domain::{
        id::{AppId, NoticeId},
        notice::{MailState, Notice, NoticeKind},
        time::Timestamp,
    },
    store::notices::{MailCursor, MailOutcome, NoticeBatch},
};

/// Notices that one mail may hold.
const NOTICES_PER_MAIL_MAX: usize = 1000;
/// Digests that one step closes.
const DIGESTS_CLOSED_MAX: usize = 250;

/// Uses an index of ready notices only, so that apps with open digests cost nothing.
const NEXT_APP: &str =
    "SELECT min(app) FROM notices WHERE email_state = 1 AND open_until IS NULL AND app > ?1 AND app <= ?2";

/// Returns the next mail: of the first app after the cursor that has something to send. Examines only apps that have
/// something to send now or are still collecting; the latter are at most as many as mails go out in a minute.
pub(in crate::store) fn next_mail(tx: &dyn Sql, cursor: &MailCursor, now: Timestamp) -> Result<NoticeBatch> {
    let are_all_closed = close(tx, now)? < DIGESTS_CLOSED_MAX;
    let next_app = |after: i64, last: i64| -> Result<Option<AppId>> {
        Ok(tx.one(NEXT_APP, params![after, last], |row| row.get(0))?.flatten())
    };
    let all_round = [(cursor.after.as_i64(), i64::MAX), (i64::MIN, cursor.after.as_i64())];
    for (mut after, last) in all_round {
        while let Some(app) = next_app(after, last)? {
            let notices = form_mail(tx, app, cursor.collecting.contains(&app))?;
            if !notices.is_empty() {
                return Ok(NoticeBatch { notices, closes_at: None });
            }
            after = app.as_i64();
        }
    }
    let closes_at = if are_all_closed { closes_at(tx)? } else { Some(now) };
    Ok(NoticeBatch { notices: Vec::new(), closes_at })
}

/// Closes digests whose window is over, the oldest first; returns how many. No more notices are counted in them.
pub(in crate::store) fn close(tx: &dyn Sql, now: Timestamp) -> Result<usize> {
    tx.execute(
        "UPDATE notices SET open_until = NULL
         WHERE id IN (SELECT id FROM notices WHERE open_until <= ?1 ORDER BY open_until LIMIT ?2)",
        params![now, DIGESTS_CLOSED_MAX as i64],
    )
}

/// Returns the mail that was formed before and not sent yet, else forms a new one.
fn form_mail(tx: &dyn Sql, app: AppId, is_resting: bool) -> Result<Vec<Notice>> {
    let formed =
        "SELECT min(email_group) FROM notices WHERE app = ?1 AND email_state = 1 AND email_group IS NOT NULL";
    if let Some(formed_email) = tx.one(formed, params![app], |row| row.get::<Option<NoticeId>>(0))?.flatten()
    {
        return notices_of_mail(tx, app, formed_email);
    }
    let alone = ready(tx, app, NoticeKind::DeliveryDead, 1)?;
    let mut gathered = Vec::new();
    if !is_resting {
        for kind in NoticeKind::ALL.iter().filter(|kind| kind.gathers()) {
            gathered.extend(ready(tx, app, *kind, NOTICES_PER_MAIL_MAX)?);
        }
        gathered.sort_unstable();
        gathered.truncate(NOTICES_PER_MAIL_MAX);
    }
    // Notices about endpoints must not wait behind thousands of dead letters: a late warning is worth nothing.
    let members = if gathered.is_empty() { alone } else { gathered };
    let Some(&formed_email) = members.first() else { return Ok(Vec::new()) };
    for member in members {
        tx.execute("UPDATE notices SET email_group = ?2 WHERE id = ?1", params![member, formed_email])?;
    }
    notices_of_mail(tx, app, formed_email)
}

/// Returns notices of a kind that wait for a mail, oldest first, without open digests.
fn ready(tx: &dyn Sql, app: AppId, kind: NoticeKind, most: usize) -> Result<Vec<NoticeId>> {
    tx.all(
        "SELECT id FROM notices WHERE app = ?1 AND kind = ?2 AND email_state = 1 AND open_until IS NULL
         ORDER BY id LIMIT ?3",
        params![app, kind, most as i64],
        |row| row.get(0),
    )
}

fn notices_of_mail(tx: &dyn Sql, app: AppId, formed_email: NoticeId) -> Result<Vec<Notice>> {
    tx.all(
        &format!(
            "SELECT {COLUMNS} FROM notices n WHERE n.app = ?1 AND n.email_group = ?2 AND n.email_state = 1 ORDER BY n.id"
        ),
        params![app, formed_email],
        read,
    )
}

/// Stores that the mail that starts with this notice was sent, or never will be.
pub(in crate::store) fn finish_mail(
    tx: &dyn Sql,
    app: AppId,
    formed_email: NoticeId,
    end: &MailOutcome,
    now: Timestamp,
) -> Result<()> {
    let (state, why) = match end {
        MailOutcome::Sent => (MailState::Sent, None),
        MailOutcome::Rejected(words) => (MailState::Refused, Some(words)),
        MailOutcome::NoRecipient(why) => (MailState::None, Some(why)),
    };
    let at = (state != MailState::None).then_some(now);
    tx.execute(
        "UPDATE notices SET email_state = ?3, email_error = ?4, emailed_at = ?5 WHERE app = ?1 AND email_group = ?2 AND email_state = 1",
        params![app, formed_email, state, why, at],
    )?;
    Ok(())
}

/// Returns notices to be published as operational webhooks, oldest first.
pub(in crate::store) fn unpublished(connection: &dyn Sql, most: usize) -> Result<NoticeBatch> {
    let notices = connection.all(
        &format!(
            "SELECT {COLUMNS} FROM notices n WHERE n.webhook_pending = 1 AND n.open_until IS NULL ORDER BY n.id LIMIT ?1"
        ),
        params![most as i64],
        read,
    )?;
    Ok(NoticeBatch { notices, closes_at: closes_at(connection)? })
}

pub(in crate::store) fn mark_published(tx: &dyn Sql, notices: &[NoticeId]) -> Result<()> {
    for notice in notices {
        tx.execute("UPDATE notices SET webhook_pending = 0 WHERE id = ?1", params![notice])?;
    }
    Ok(())
}

fn closes_at(connection: &dyn Sql) -> Result<Option<Timestamp>> {
    let first = "SELECT open_until FROM notices WHERE open_until IS NOT NULL ORDER BY open_until LIMIT 1";
    connection.one(first, &[], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::open::open_in_memory;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    /// A notice of its own app that closes then; `None` if it is no digest.
    fn notice(store: &dyn Sql, app: i64, open_until: Option<i64>, mail: MailState) {
        store
            .execute(
                "INSERT INTO notices (app, kind, at, details, count, open_until, email_state, webhook_pending)
                 VALUES (?1, ?2, 1, '{\"text\":\"\"}', 1, ?3, ?4, 0)",
                params![app, NoticeKind::DeliveryDead, open_until, mail],
            )
            .unwrap();
    }

    fn from(after: i64) -> MailCursor {
        MailCursor { after: AppId::from_i64(after), collecting: vec![] }
    }

    #[test]
    fn apps_with_open_digests_are_not_examined() {
        let store = open_in_memory().unwrap();
        for app in 1..=2000 {
            notice(&store, app, Some(NOW.as_millis() + 1), MailState::Waiting);
        }
        let plan: String = store
            .query_row(&format!("EXPLAIN QUERY PLAN {NEXT_APP}"), [0, i64::MAX], |row| row.get("detail"))
            .unwrap();
        assert!(plan.contains("SEARCH") && plan.contains("notices_to_email"), "{plan}");
        let nothing = next_mail(&store, &from(0), NOW).unwrap();
        assert!(nothing.notices.is_empty());
        assert_eq!(nothing.closes_at, Some(Timestamp::from_millis(NOW.as_millis() + 1)));
        notice(&store, 1500, None, MailState::Waiting);
        assert_eq!(next_mail(&store, &from(0), NOW).unwrap().notices[0].app, AppId::from_i64(1500));
    }

    #[test]
    fn each_step_closes_a_bounded_number_of_digests() {
        let store = open_in_memory().unwrap();
        let many = 2 * DIGESTS_CLOSED_MAX as i64 + 1;
        // Closed by the clock alone; these are only listed and go into no mail.
        for app in 1..=many {
            notice(&store, app, Some(app), MailState::None);
        }
        notice(&store, many + 1, Some(many + 1), MailState::Waiting);
        for left in [many + 1 - DIGESTS_CLOSED_MAX as i64, many + 1 - 2 * DIGESTS_CLOSED_MAX as i64] {
            let outgoing = next_mail(&store, &from(0), NOW).unwrap();
            assert_eq!((outgoing.notices.len(), outgoing.closes_at), (0, Some(NOW)), "come back at once");
            let open: i64 = store
                .query_row("SELECT count(*) FROM notices WHERE open_until IS NOT NULL", [], |row| row.get(0))
                .unwrap();
            assert_eq!(open, left);
        }
        assert_eq!(next_mail(&store, &from(0), NOW).unwrap().notices[0].app, AppId::from_i64(many + 1));
    }
}
