//! Lists and details. Pages walk the primary key backwards and examine a bounded number of rows.

use super::{
    attempts,
    row::{self, DELIVERY, DELIVERY_COLUMNS, EVENT, EVENT_WITHOUT_DATA},
};
use crate::{
    domain::{
        contract::ContractHash,
        delivery::Reason,
        event::{DedupKey, DedupSpace, Event},
        id::{AppId, DeliveryId, EndpointId, EventId, first_id_at},
        outcome::Class,
        time::Timestamp,
    },
    store::browse::{
        Cursor, DeliveryFilter, EventFilter, LastError, Listed, Owner, Page, PastAttempt, ROWS_EXAMINED_MAX,
        Thing,
    },
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

pub(super) fn find_event(
    connection: &Connection,
    app: AppId,
    given_id: &str,
    own: Option<EventId>,
) -> rusqlite::Result<Option<Event>> {
    let key = DedupKey::new(app, DedupSpace::EventId, given_id);
    let named = connection
        .prepare_cached("SELECT event FROM dedup WHERE key = ?1")?
        .query_row([key.0], |row| row.get(0))
        .optional()?;
    let Some(id) = named.or(own) else { return Ok(None) };
    connection
        .prepare_cached(&format!("SELECT {EVENT} FROM events e WHERE e.id = ?1 AND e.app = ?2"))?
        .query_row(params![id, app], |row| row::event(row, 0))
        .optional()
}

pub(super) fn owner(connection: &Connection, thing: Thing) -> rusqlite::Result<Option<Owner>> {
    let (table, id) = match thing {
        Thing::Event(id) => ("events", id.as_i64()),
        Thing::Delivery(id) => ("deliveries", id.as_i64()),
        Thing::Replay(id) => ("replays", id.as_i64()),
        Thing::Inspection(id) => ("inspections", id.as_i64()),
        Thing::Notice(id) => ("notices", id.as_i64()),
        Thing::Audit(id) => ("audit", id.as_i64()),
    };
    connection
        .prepare_cached(&format!("SELECT app FROM {table} WHERE id = ?1"))?
        .query_row([id], |row| row.get(0).map(Owner))
        .optional()
}

pub(super) fn events_named(
    connection: &Connection,
    keys: &[DedupKey],
) -> rusqlite::Result<Vec<(EventId, AppId)>> {
    let mut statement = connection
        .prepare_cached("SELECT e.id, e.app FROM dedup k JOIN events e ON e.id = k.event WHERE k.key = ?1")?;
    let mut found = Vec::new();
    for key in keys {
        found.extend(statement.query_row([key.0], |row| Ok((row.get(0)?, row.get(1)?))).optional()?);
    }
    Ok(found)
}

/// The range of ids that a page looks at: time filters are id ranges, and the cursor is the last id examined.
pub(super) fn id_range(from: Option<Timestamp>, to: Option<Timestamp>, after: Option<Cursor>) -> (i64, i64) {
    let low = from.map_or(0, first_id_at);
    let high = to.map_or(i64::MAX, first_id_at);
    (low, after.map_or(high, |cursor| high.min(cursor.id)))
}

/// Keeps what fits the page out of what was examined, and says where to go on.
pub(super) fn page<T>(examined: Vec<(Cursor, Option<T>)>, limit: u32) -> Page<T> {
    let ran_to_the_end = (examined.len() as u32) < ROWS_EXAMINED_MAX;
    let (mut rows, mut last) = (Vec::new(), None);
    let mut is_full = false;
    for (place, row) in examined {
        if rows.len() as u32 == limit {
            is_full = true;
            break;
        }
        last = Some(place);
        rows.extend(row);
    }
    Page { rows, next: last.filter(|_| is_full || !ran_to_the_end) }
}

pub(super) fn events(
    connection: &Connection,
    app: AppId,
    filter: &EventFilter,
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<Page<Event>> {
    let (low, high) = id_range(filter.from, filter.to, after);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {EVENT} FROM events e WHERE e.id >= ?1 AND e.id < ?2 ORDER BY e.id DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![low, high, ROWS_EXAMINED_MAX])?;
    let (mut examined, mut fitting) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let fits = row.get::<_, AppId>(1)? == app
            && filter
                .event_type
                .as_ref()
                .is_none_or(|wanted| row.get_ref(2).is_ok_and(|t| t.as_str() == Ok(wanted)));
        let place = Cursor { at: 0, id: row.get(0)? };
        examined.push((place, fits.then(|| row::event(row, 0)).transpose()?));
        fitting += u32::from(fits);
        // One more than fits tells whether there is a next page.
        if fitting > limit {
            break;
        }
    }
    Ok(page(examined, limit))
}

fn listed(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Listed> {
    let delivery = row::delivery(row)?;
    let last = if delivery.history_len == 0 { None } else { last_attempt(connection, delivery.id)? };
    let (last_error, last_contract, last_url) = last.unwrap_or_default();
    Ok(Listed { delivery, event: row::event(row, DELIVERY_COLUMNS)?, last_error, last_contract, last_url })
}

type LastAttempt = (Option<LastError>, Option<ContractHash>, Option<String>);

fn last_attempt(connection: &Connection, delivery: DeliveryId) -> rusqlite::Result<Option<LastAttempt>> {
    connection
        .prepare_cached(
            "SELECT class, status, error, coalesce(contract, (SELECT contract FROM attempts
                 WHERE delivery = ?1 AND contract IS NOT NULL ORDER BY position DESC LIMIT 1)),
                 coalesce(url, (SELECT url FROM attempts
                 WHERE delivery = ?1 AND url IS NOT NULL ORDER BY position DESC LIMIT 1))
             FROM attempts WHERE delivery = ?1 ORDER BY position DESC LIMIT 1",
        )?
        .query_row([delivery], |row| {
            let class = row::named(delivery, attempts::class_from(row.get(0)?))?;
            let error = LastError { status: row.get(1)?, error: row.get(2)? };
            let contract = row.get::<_, Option<[u8; 16]>>(3)?.map(ContractHash);
            Ok(((class != Class::Ok).then_some(error), contract, row.get(4)?))
        })
        .optional()
}

pub(super) fn deliveries_of(connection: &Connection, event: EventId) -> rusqlite::Result<Vec<Listed>> {
    connection
        .prepare_cached(&format!(
            "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.id > ?1 AND d.id <= ?1 + 65535 AND d.event = ?1
             UNION ALL
             SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.event = ?1 AND d.id > d.event + 65535
             ORDER BY 1"
        ))?
        .query_map([event], |row| listed(connection, row))?
        .collect()
}

pub(super) fn delivery(
    connection: &Connection,
    app: AppId,
    id: DeliveryId,
) -> rusqlite::Result<Option<(Listed, Vec<PastAttempt>)>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {DELIVERY}, {EVENT} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.id = ?1 AND d.app = ?2"
        ))?
        .query_row(params![id, app], |row| listed(connection, row))
        .optional()?;
    found.map(|listed| Ok((listed, attempts::list(connection, id)?))).transpose()
}

pub(super) fn deliveries(
    connection: &Connection,
    app: AppId,
    filter: &DeliveryFilter,
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<Page<Listed>> {
    let (low, high) = id_range(filter.from, filter.to, after);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
         WHERE d.id >= ?1 AND d.id < ?2 ORDER BY d.id DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![low, high, ROWS_EXAMINED_MAX])?;
    let (mut examined, mut fitting) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let fits = fits(row, app, filter)?;
        let place = Cursor { at: 0, id: row.get(0)? };
        examined.push((place, if fits { Some(listed(connection, row)?) } else { None }));
        fitting += u32::from(fits);
        if fitting > limit {
            break;
        }
    }
    Ok(page(examined, limit))
}

fn fits(row: &Row<'_>, app: AppId, filter: &DeliveryFilter) -> rusqlite::Result<bool> {
    Ok(row.get::<_, AppId>(1)? == app
        && (filter.states.is_empty() || filter.states.contains(&row.get(4)?))
        && filter.event.is_none_or(|event| row.get(2) == Ok(event))
        && filter.endpoint.is_none_or(|endpoint| row.get(3) == Ok(endpoint))
        && match &filter.event_type {
            Some(wanted) => row.get_ref(DELIVERY_COLUMNS + 2)?.as_str().is_ok_and(|t| t == wanted),
            None => true,
        })
}

/// The lanes are merged on their index alone: of ten thousand lanes only what is on the page is read.
pub(super) fn queue(
    connection: &Connection,
    lanes: &[EndpointId],
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<Page<Listed>> {
    let Cursor { at, id } = after.unwrap_or(Cursor { at: i64::MIN, id: 0 });
    let mut next_in_lane = connection.prepare_cached(
        "SELECT due, id FROM deliveries
         WHERE lane = ?1 AND due >= ?2 AND (due > ?2 OR id > ?3) AND due <= ?4 ORDER BY due, id LIMIT ?5",
    )?;
    // One more than fits tells whether there is a next page.
    let most = limit as usize + 1;
    let mut first: BTreeSet<(i64, i64)> = BTreeSet::new();
    for lane in lanes {
        let latest = first.last().filter(|_| first.len() == most).map_or(i64::MAX, |(due, _)| *due);
        let mut rows = next_in_lane.query(params![lane, at, id, latest, most as i64])?;
        while let Some(row) = rows.next()? {
            first.insert((row.get(0)?, row.get(1)?));
            if first.len() > most {
                first.pop_last();
            }
        }
    }
    let mut by_id = connection.prepare_cached(&format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event WHERE d.id = ?1"
    ))?;
    let is_more = first.len() == most;
    let places: Vec<Cursor> =
        first.into_iter().take(limit as usize).map(|(at, id)| Cursor { at, id }).collect();
    let mut rows = Vec::with_capacity(places.len());
    for place in &places {
        // It may have been taken in hand since.
        let found = by_id.query_row([place.id], |row| listed(connection, row)).optional()?;
        rows.extend(found.filter(|listed| listed.delivery.state.is_waiting()));
    }
    Ok(Page { rows, next: places.last().copied().filter(|_| is_more) })
}

pub(super) fn dead_letters(
    connection: &Connection,
    app: AppId,
    endpoint: Option<EndpointId>,
    closed_too: bool,
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<Page<Listed>> {
    let Cursor { at, id } = after.unwrap_or(Cursor { at: i64::MAX, id: i64::MAX });
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
         WHERE d.state = 5 AND d.app = ?1 AND d.finished_at <= ?2 AND (d.finished_at < ?2 OR d.id < ?3)
         ORDER BY d.finished_at DESC, d.id DESC LIMIT ?4"
    ))?;
    let mut rows = statement.query(params![app, at, id, ROWS_EXAMINED_MAX])?;
    let (mut examined, mut fitting) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let fits = endpoint.is_none_or(|endpoint| row.get(3) == Ok(endpoint))
            && (closed_too || row.get(5) != Ok(Reason::Closed));
        let place = Cursor { at: row.get(12)?, id: row.get(0)? };
        examined.push((place, if fits { Some(listed(connection, row)?) } else { None }));
        fitting += u32::from(fits);
        if fitting > limit {
            break;
        }
    }
    Ok(page(examined, limit))
}

pub(super) fn waiting_count(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM deliveries WHERE lane > 0";
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))? as u64)
}
