//! Replays: finding their sources, and doing a page of them inside the writer's batch.

use super::{
    Result, Row, Sql,
    config::{json, to_json},
    deliveries::read_delivery,
    delivery_statements::{self, ReplayAs, availability_of},
    notices,
    ordering::NewlyDue,
    params, row,
};
use crate::{
    domain::{
        delivery::{Delivery, DeliveryState, EndReason},
        event::{TEST_EVENT_TYPE, is_internal_type},
        id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
        notice::replay_finished,
        replay::{Replay, ReplaySelection, ReplayState},
        time::Timestamp,
    },
    store::{
        deliveries::ActionResult,
        queries::{Cursor, Page, ROWS_EXAMINED_MAX},
        replays::{ReplayChanged, ReplayPage, ReplaySource, ReplaySourceId, SourceSearch, Sources},
    },
};
use std::{ops::ControlFlow, time::Duration};

const COLUMNS: &str = "id, app, selection, per_second, state, from_id, to_id, reached, total, replayed, refused, \
     last_refusal, created_at, changed_at, ran_ms";

fn read(row: &Row<'_>) -> Result<Replay> {
    let id: ReplayId = row.get(0)?;
    Ok(Replay {
        id,
        app: row.get(1)?,
        selection: row::named(id, json(row, 2))?,
        per_second: row.get(3)?,
        state: row.get(4)?,
        from_id: row.get(5)?,
        to_id: row.get(6)?,
        reached: row.get(7)?,
        total: row.get::<i64>(8)? as u64,
        replayed: row.get::<i64>(9)? as u64,
        refused: row.get::<i64>(10)? as u64,
        last_refusal: row.get(11)?,
        created_at: row.get(12)?,
        changed_at: row.get(13)?,
        running_time: Duration::from_millis(row.get::<i64>(14)?.unsigned_abs()),
    })
}

pub(in crate::store) fn start(tx: &dyn Sql, replay: &Replay) -> Result<()> {
    tx.check_id(replay.id.as_i64())?;
    tx.execute(
        &format!(
            "INSERT INTO replays ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
        ),
        params![
        replay.id,
        replay.app,
        to_json(&replay.selection)?,
        replay.per_second,
        replay.state,
        replay.from_id,
        replay.to_id,
        replay.reached,
        replay.total as i64,
        replay.replayed as i64,
        replay.refused as i64,
        replay.last_refusal,
        replay.created_at,
        replay.changed_at,
        replay.running_time.as_millis() as i64,
    ],
    )?;
    Ok(())
}

fn find(connection: &dyn Sql, id: ReplayId) -> Result<Option<Replay>> {
    connection.one(&format!("SELECT {COLUMNS} FROM replays WHERE id = ?1"), params![id], read)
}

pub(in crate::store) fn one(connection: &dyn Sql, app: AppId, id: ReplayId) -> Result<Option<Replay>> {
    Ok(find(connection, id)?.filter(|replay| replay.app == app))
}

/// Lists replays, newest first.
pub(in crate::store) fn list(
    connection: &dyn Sql,
    app: AppId,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Replay>> {
    let before = after.map_or(i64::MAX, |cursor| cursor.id);
    let mut rows: Vec<Replay> = connection.all(
        &format!("SELECT {COLUMNS} FROM replays WHERE app = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"),
        params![app, before, limit + 1],
        read,
    )?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| Cursor { at: 0, id: last.id.as_i64() });
    Ok(Page { rows, next })
}

pub(in crate::store) fn running(connection: &dyn Sql) -> Result<Vec<Replay>> {
    connection.all(&format!("SELECT {COLUMNS} FROM replays WHERE state = 0 ORDER BY id"), &[], read)
}

pub(in crate::store) fn sources(connection: &dyn Sql, search: &SourceSearch, most: usize) -> Result<Sources> {
    match &search.selection {
        ReplaySelection::Deliveries(_) => past_deliveries(connection, search, most),
        ReplaySelection::Backfill(_) => past_events(connection, search, most),
    }
}

/// Collects matching sources out of the examined rows, until there are enough.
fn collect_sources(
    connection: &dyn Sql,
    sql: &str,
    search: &SourceSearch,
    most: usize,
    mut fitting: impl FnMut(&Row<'_>) -> Result<Option<EndpointId>>,
) -> Result<Sources> {
    let mut sources = Sources { found: Vec::new(), reached: search.after_id, is_last: false };
    let (mut examined, mut has_enough) = (0, false);
    connection.query(sql, params![search.after_id, search.to_id, ROWS_EXAMINED_MAX], &mut |row| {
        if sources.found.len() == most {
            has_enough = true;
            return Ok(ControlFlow::Break(()));
        }
        examined += 1;
        sources.reached = row.get(0)?;
        if let Some(endpoint) = fitting(row)? {
            sources.found.push((sources.reached, endpoint));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    sources.is_last = !has_enough && examined < ROWS_EXAMINED_MAX;
    Ok(sources)
}

fn past_deliveries(connection: &dyn Sql, search: &SourceSearch, most: usize) -> Result<Sources> {
    let (states, endpoint) = (search.selection.states(), search.selection.endpoint());
    // An erased event has no data to send.
    let type_of = "SELECT type FROM events WHERE id = ?1 AND length(data) > 0";
    let is_meant = |event: EventId| -> Result<bool> {
        let found: Option<String> = connection.one(type_of, params![event], |row| row.get(0))?;
        let wanted = search.selection.event_type();
        Ok(found.is_some_and(|found| found != TEST_EVENT_TYPE && wanted.is_none_or(|wanted| wanted == found)))
    };
    let missed_since = search.selection.missed_since();
    let was_missed = |row: &Row<'_>| -> Result<bool> {
        let Some(since) = missed_since else { return Ok(true) };
        let manual = row.get::<Option<EndReason>>(4)? == Some(EndReason::Manual);
        Ok(!manual && row.get::<Option<Timestamp>>(7)?.is_some_and(|ended_at| ended_at >= since))
    };
    let sql =
        "SELECT id, app, endpoint, state, reason, event, replay_of IS NOT NULL, finished_at FROM deliveries
         WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    collect_sources(connection, sql, search, most, |row| {
        let (app, of, state): (AppId, EndpointId, DeliveryState) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let fits = app == search.app
            && endpoint.is_none_or(|endpoint| endpoint == of)
            && search.endpoints.contains(&of)
            && states.contains(&state)
            // The delivered one that it is a replay of stands for it.
            && !(state == DeliveryState::Delivered && row.get(6)?)
            && row.get::<Option<EndReason>>(4)? != Some(EndReason::Closed)
            && was_missed(row)?
            && is_meant(row.get(5)?)?;
        Ok(fits.then_some(of))
    })
}

fn past_events(connection: &dyn Sql, search: &SourceSearch, most: usize) -> Result<Sources> {
    let Some(endpoint) = search.selection.endpoint() else { return Ok(Sources::default()) };
    let wanted = search.selection.event_type();
    let sql =
        "SELECT id, app, type, length(data) > 0 FROM events WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    collect_sources(connection, sql, search, most, |row| {
        let event_type: &str = row.get(2)?;
        let fits = row.get::<AppId>(1)? == search.app
            && row.get(3)?
            // The server's own operational webhooks are out of date, and perhaps about the endpoint itself.
            && !is_internal_type(event_type)
            && wanted.is_none_or(|wanted| wanted == event_type)
            && search.patterns.as_ref().is_none_or(|patterns| patterns.matches(event_type))
            && !has_delivery(connection, row.get(0)?, endpoint)?;
        Ok(fits.then_some(endpoint))
    })
}

/// Whether the endpoint ever got, or will get, this event.
fn has_delivery(connection: &dyn Sql, event: EventId, endpoint: EndpointId) -> Result<bool> {
    connection.exists(
        "SELECT EXISTS (SELECT 1 FROM deliveries WHERE id > ?1 AND id <= ?1 + 65535 AND event = ?1 AND endpoint = ?2)
             OR EXISTS (SELECT 1 FROM deliveries WHERE event = ?1 AND id > event + 65535 AND endpoint = ?2)",
        params![event, endpoint],
    )
}

/// The replay as it is now, and the endpoint queues in which something waits.
pub(super) type ReplayProgress = (Option<Replay>, NewlyDue);

pub(in crate::store) fn advance(tx: &dyn Sql, page: &ReplayPage, now: Timestamp) -> Result<ReplayProgress> {
    let running = |replay: &Replay| replay.state == ReplayState::Running && replay.reached == page.after_id;
    let Some(mut replay) = find(tx, page.replay)?.filter(running) else { return Ok((None, Vec::new())) };
    let mut waiting = Vec::new();
    for source in &page.sources {
        match send_again(tx, &replay, source, now, &mut waiting)? {
            Ok(delivery) => {
                replay.replayed += 1;
                waiting.extend(
                    delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (delivery.endpoint, due)),
                );
            }
            Err(refusal) => {
                replay.refused += 1;
                replay.last_refusal = Some(refusal);
            }
        }
    }
    replay.reached = page.reached;
    replay.record_progress(now);
    if page.is_last {
        replay.state = ReplayState::Finished;
    }
    tx.execute(
        "UPDATE replays SET state = ?2, reached = ?3, replayed = ?4, refused = ?5, last_refusal = ?6, changed_at = ?7, ran_ms = ?8 WHERE id = ?1",
        params![
        replay.id,
        replay.state,
        replay.reached,
        replay.replayed as i64,
        replay.refused as i64,
        replay.last_refusal,
        now,
        replay.running_time.as_millis() as i64
    ],
    )?;
    if page.is_last {
        notices::put(tx, &replay_finished(&replay, page.notify_channel, now))?;
    }
    Ok((Some(replay), waiting))
}

/// Returns the delivery that is sent, or a message why none is.
fn send_again(
    tx: &dyn Sql,
    replay: &Replay,
    source: &ReplaySource,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<Result<Delivery, String>> {
    match source.id {
        ReplaySourceId::Delivery(id) => replay_delivery(tx, replay, id, source, now, woken),
        ReplaySourceId::Event(event) => backfill_event(tx, replay, event, source, now),
    }
}

fn replay_delivery(
    tx: &dyn Sql,
    replay: &Replay,
    id: DeliveryId,
    source: &ReplaySource,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<Result<Delivery, String>> {
    let Some(delivery) = read_delivery(tx, id)?.filter(|delivery| delivery.app == replay.app) else {
        return Ok(Err(format!("{id} was deleted meanwhile")));
    };
    // Its state may have changed meanwhile: a delivery that no longer matches the selection is left alone.
    if !replay.selection.states().contains(&delivery.state) || delivery.reason == Some(EndReason::Closed) {
        return Ok(Err(format!("{id} is {} by now", delivery.state.name())));
    }
    if let Err(refusal) = payload_of(tx, delivery.event)? {
        return Ok(Err(refusal));
    }
    let again = ReplayAs { as_new: source.new_id, give_up_at: source.give_up_at, is_alone: false };
    Ok(match delivery_statements::replay(tx, delivery, &again, now, woken)? {
        ActionResult::Done(delivery) | ActionResult::Made(delivery) => Ok(delivery),
        ActionResult::Refused(refusal) => Err(format!("{id}: {refusal}")),
        ActionResult::Deleted | ActionResult::Absent => Err(format!("{id} was deleted meanwhile")),
    })
}

/// Returns the event's earliest delivery time, or a message why it cannot be sent again.
fn payload_of(tx: &dyn Sql, event: EventId) -> Result<Result<Option<Timestamp>, String>> {
    let found: Option<(bool, Option<Timestamp>)> =
        tx.one("SELECT length(data) > 0, deliver_at FROM events WHERE id = ?1", params![event], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(match found {
        None => Err(format!("{event} is gone by now")),
        Some((false, _)) => Err(format!("the data of {event} was erased by now")),
        Some((true, deliver_at)) => Ok(deliver_at),
    })
}

fn backfill_event(
    tx: &dyn Sql,
    replay: &Replay,
    event: EventId,
    source: &ReplaySource,
    now: Timestamp,
) -> Result<Result<Delivery, String>> {
    let Some(endpoint) = replay.selection.endpoint() else { return Ok(Err("there is no endpoint".into())) };
    let deliver_at = match payload_of(tx, event)? {
        Ok(deliver_at) => deliver_at,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if has_delivery(tx, event, endpoint)? {
        return Ok(Err(format!("{event} has a delivery to the endpoint by now")));
    }
    // An event published for later is not sent earlier by a backfill.
    let due = deliver_at.map_or(now, |at| at.max(now));
    let give_up_at = source.give_up_at.map(|at| at.plus(due.since(now)));
    let new = Delivery::new(source.new_id, replay.app, event, endpoint, due, give_up_at);
    match Delivery::new_backfill(new, availability_of(tx, endpoint)?, now) {
        Ok(delivery) => {
            tx.insert_delivery(&delivery)?;
            tx.execute("UPDATE events SET skipped = 0 WHERE id = ?1 AND skipped = 1", params![event])?;
            Ok(Ok(delivery))
        }
        Err(refusal) => Ok(Err(format!("{event}: {refusal}"))),
    }
}

pub(in crate::store) fn change(
    tx: &dyn Sql,
    app: AppId,
    id: ReplayId,
    to: ReplayState,
    now: Timestamp,
) -> Result<ReplayChanged> {
    let Some(mut replay) = one(tx, app, id)? else { return Ok(ReplayChanged::Absent) };
    if !replay.state.may_become(to) {
        return Ok(ReplayChanged::Ended(replay));
    }
    if replay.state == to {
        return Ok(ReplayChanged::Unchanged(replay));
    }
    replay.record_progress(now);
    replay.state = to;
    tx.execute(
        "UPDATE replays SET state = ?2, changed_at = ?3, ran_ms = ?4 WHERE id = ?1",
        params![id, to, now, replay.running_time.as_millis() as i64],
    )?;
    Ok(ReplayChanged::Done(replay))
}
