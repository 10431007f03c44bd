//! Lists and details. Pages walk the primary key backwards and examine a bounded number of rows.

use super::{
    Result, Row, Sql, attempts, params,
    row::{self, DELIVERY, DELIVERY_COLUMNS, EVENT, EVENT_WITH_DATA_IF_MATCHING, EVENT_WITHOUT_DATA},
};
use crate::{
    domain::{
        contract::ContractHash,
        delivery::EndReason,
        event::{DedupKey, DedupSpace, Event},
        id::{AppId, DeliveryId, EndpointId, EventId, first_id_at},
        outcome::OutcomeClass,
        time::Timestamp,
    },
    store::queries::{
        AttemptRow, Cursor, DeliveryListFilter, DeliveryRow, EventFilter, LastError, ObjectId, Owner, Page,
        ROWS_EXAMINED_MAX,
    },
};
use std::{collections::BTreeSet, ops::ControlFlow};

pub(in crate::store) fn find_event(
    connection: &dyn Sql,
    app: AppId,
    external_id: &str,
    own: Option<EventId>,
) -> Result<Option<Event>> {
    let key = DedupKey::new(app, DedupSpace::EventId, external_id);
    let named = connection.one("SELECT event FROM dedup WHERE key = ?1", params![key.0], |row| row.get(0))?;
    let Some(id) = named.or(own) else { return Ok(None) };
    connection.one(
        &format!("SELECT {EVENT} FROM events e WHERE e.id = ?1 AND e.app = ?2"),
        params![id, app],
        |row| row::event(row, 0),
    )
}

pub(in crate::store) fn owner(connection: &dyn Sql, thing: ObjectId) -> Result<Option<Owner>> {
    let (table, id) = match thing {
        ObjectId::Event(id) => ("events", id.as_i64()),
        ObjectId::Delivery(id) => ("deliveries", id.as_i64()),
        ObjectId::Replay(id) => ("replays", id.as_i64()),
        ObjectId::Inspection(id) => ("inspections", id.as_i64()),
        ObjectId::Notice(id) => ("notices", id.as_i64()),
        ObjectId::Audit(id) => ("audit", id.as_i64()),
    };
    connection
        .one(&format!("SELECT app FROM {table} WHERE id = ?1"), params![id], |row| row.get(0).map(Owner))
}

pub(in crate::store) fn events_by_dedup_key(
    connection: &dyn Sql,
    keys: &[DedupKey],
) -> Result<Vec<(EventId, AppId)>> {
    let sql = "SELECT e.id, e.app FROM dedup k JOIN events e ON e.id = k.event WHERE k.key = ?1";
    let mut found = Vec::new();
    for key in keys {
        found.extend(connection.one(sql, params![key.0], |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(found)
}

/// Returns the range of ids that a page examines: time filters are id ranges, and the cursor is the last id examined.
pub(super) fn id_range(
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    after: Option<Cursor>,
) -> (i64, Cursor) {
    let low = from.map_or(0, first_id_at);
    let high = to.map_or(i64::MAX, first_id_at);
    (low, Cursor { at: 0, id: after.map_or(high, |cursor| high.min(cursor.id)) })
}

/// Rows to read after a first read that did not fill the page.
const ROWS_MORE: u32 = 1_000;

/// Fills a page by reading rows after a cursor until it is full: first as many as the page needs, then more. So the server
/// sends few unneeded rows, and finds them by index instead of sorting.
pub(super) fn fill<T>(
    limit: u32,
    mut cursor: Cursor,
    mut read: impl FnMut(&mut PageBuilder<T>, Cursor, u32) -> Result<()>,
) -> Result<Page<T>> {
    let mut fitting = PageBuilder { limit, examined: 0, rows: Vec::new(), last: None, is_full: false };
    // One more than the page holds shows whether there is a next page.
    let mut most = limit + 1;
    loop {
        let before = fitting.examined;
        most = most.min(ROWS_EXAMINED_MAX - before);
        read(&mut fitting, cursor, most)?;
        let ran_to_the_end = !fitting.is_full && fitting.examined - before < most;
        let is_over = ran_to_the_end || fitting.is_full || fitting.examined == ROWS_EXAMINED_MAX;
        match fitting.last {
            Some(last) if !is_over => cursor = last,
            last => return Ok(Page { rows: fitting.rows, next: last.filter(|_| !ran_to_the_end) }),
        }
        most = if fitting.has_all() { 1 } else { ROWS_MORE };
    }
}

/// Collects the rows that match the filter, out of those examined.
pub(super) struct PageBuilder<T> {
    limit: u32,
    examined: u32,
    rows: Vec<T>,
    last: Option<Cursor>,
    is_full: bool,
}

impl<T> PageBuilder<T> {
    pub(super) fn examine(&mut self, cursor: Cursor, row: Option<T>) -> ControlFlow<()> {
        if self.has_all() {
            self.is_full = true;
            return ControlFlow::Break(());
        }
        self.examined += 1;
        self.last = Some(cursor);
        self.rows.extend(row);
        ControlFlow::Continue(())
    }

    fn has_all(&self) -> bool {
        self.rows.len() as u32 == self.limit
    }
}

pub(in crate::store) fn events(
    connection: &dyn Sql,
    app: AppId,
    filter: &EventFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Event>> {
    let (low, high) = id_range(filter.from, filter.to, after);
    let sql = format!(
        "SELECT {EVENT_WITH_DATA_IF_MATCHING} FROM events e WHERE e.id >= ?3 AND e.id < ?4 ORDER BY e.id DESC LIMIT ?5"
    );
    fill(limit, high, |fitting, before, most| {
        connection.query(&sql, params![app, filter.event_type, low, before.id, most], &mut |row| {
            let fits = row.get::<AppId>(1)? == app
                && filter.event_type.as_ref().is_none_or(|wanted| row.is(2, &wanted.as_str()));
            let cursor = Cursor { at: 0, id: row.get(0)? };
            Ok(fitting.examine(cursor, fits.then(|| row::event(row, 0)).transpose()?))
        })
    })
}

fn delivery_row(connection: &dyn Sql, row: &Row<'_>) -> Result<DeliveryRow> {
    let delivery = row::delivery(row)?;
    let last = if delivery.history_len == 0 { None } else { last_attempt(connection, delivery.id)? };
    let (last_error, last_contract, last_url) = last.unwrap_or_default();
    Ok(DeliveryRow {
        delivery,
        event: row::event(row, DELIVERY_COLUMNS)?,
        last_error,
        last_contract,
        last_url,
    })
}

type LastAttempt = (Option<LastError>, Option<ContractHash>, Option<String>);

fn last_attempt(connection: &dyn Sql, delivery: DeliveryId) -> Result<Option<LastAttempt>> {
    connection.one(
        "SELECT class, status, error, coalesce(contract, (SELECT contract FROM attempts
             WHERE delivery = ?1 AND contract IS NOT NULL ORDER BY position DESC LIMIT 1)),
             coalesce(url, (SELECT url FROM attempts
             WHERE delivery = ?1 AND url IS NOT NULL ORDER BY position DESC LIMIT 1))
         FROM attempts WHERE delivery = ?1 ORDER BY position DESC LIMIT 1",
        params![delivery],
        |row| {
            let class = row::named(delivery, attempts::class_from(row.get(0)?))?;
            let error = LastError { status: row.get(1)?, error: row.get(2)? };
            let contract = row.get::<Option<[u8; 16]>>(3)?.map(ContractHash);
            Ok(((class != OutcomeClass::Ok).then_some(error), contract, row.get(4)?))
        },
    )
}

pub(in crate::store) fn deliveries_of(connection: &dyn Sql, event: EventId) -> Result<Vec<DeliveryRow>> {
    connection.all(
        &format!(
            "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.id > ?1 AND d.id <= ?1 + 65535 AND d.event = ?1
             UNION ALL
             SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.event = ?1 AND d.id > d.event + 65535
             ORDER BY 1"
        ),
        params![event],
        |row| delivery_row(connection, row),
    )
}

pub(in crate::store) fn delivery(
    connection: &dyn Sql,
    app: AppId,
    id: DeliveryId,
) -> Result<Option<(DeliveryRow, Vec<AttemptRow>)>> {
    let found = connection.one(
        &format!(
            "SELECT {DELIVERY}, {EVENT} FROM deliveries d JOIN events e ON e.id = d.event
             WHERE d.id = ?1 AND d.app = ?2"
        ),
        params![id, app],
        |row| delivery_row(connection, row),
    )?;
    found.map(|listed| Ok((listed, attempts::list(connection, id)?))).transpose()
}

pub(in crate::store) fn deliveries(
    connection: &dyn Sql,
    app: AppId,
    filter: &DeliveryListFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<DeliveryRow>> {
    let (low, high) = id_range(filter.from, filter.to, after);
    let sql = format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
         WHERE d.id >= ?1 AND d.id < ?2 ORDER BY d.id DESC LIMIT ?3"
    );
    fill(limit, high, |fitting, before, most| {
        connection.query(&sql, params![low, before.id, most], &mut |row| {
            let cursor = Cursor { at: 0, id: row.get(0)? };
            let listed = if fits(row, app, filter)? { Some(delivery_row(connection, row)?) } else { None };
            Ok(fitting.examine(cursor, listed))
        })
    })
}

fn fits(row: &Row<'_>, app: AppId, filter: &DeliveryListFilter) -> Result<bool> {
    Ok(row.get::<AppId>(1)? == app
        && (filter.states.is_empty() || filter.states.contains(&row.get(4)?))
        && filter.event.is_none_or(|event| row.is(2, &event))
        && filter.endpoint.is_none_or(|endpoint| row.is(3, &endpoint))
        && filter.event_type.as_ref().is_none_or(|wanted| row.is(DELIVERY_COLUMNS + 2, &wanted.as_str())))
}

/// Lists waiting deliveries. The endpoint queues are merged on their index alone: even with ten thousand queues only the rows
/// of the page are read.
pub(in crate::store) fn queue(
    connection: &dyn Sql,
    queues: &[EndpointId],
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<DeliveryRow>> {
    let Cursor { at, id } = after.unwrap_or(Cursor { at: i64::MIN, id: 0 });
    let next_in_queue = "SELECT due, id FROM deliveries
                        WHERE queue = ?1 AND due >= ?2 AND (due > ?2 OR id > ?3) AND due <= ?4 ORDER BY due, id LIMIT ?5";
    // One more than the page holds shows whether there is a next page.
    let most = limit as usize + 1;
    let mut first: BTreeSet<(i64, i64)> = BTreeSet::new();
    for queue in queues {
        let latest = first.last().filter(|_| first.len() == most).map_or(i64::MAX, |(due, _)| *due);
        connection.each(next_in_queue, params![queue, at, id, latest, most as i64], |row| {
            first.insert((row.get(0)?, row.get(1)?));
            if first.len() > most {
                first.pop_last();
            }
            Ok(())
        })?;
    }
    let by_id = format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event WHERE d.id = ?1"
    );
    let is_more = first.len() == most;
    let cursors: Vec<Cursor> =
        first.into_iter().take(limit as usize).map(|(at, id)| Cursor { at, id }).collect();
    let mut rows = Vec::with_capacity(cursors.len());
    for cursor in &cursors {
        // It may have been leased since.
        let found = connection.one(&by_id, params![cursor.id], |row| delivery_row(connection, row))?;
        rows.extend(found.filter(|listed| listed.delivery.state.is_waiting()));
    }
    Ok(Page { rows, next: cursors.last().copied().filter(|_| is_more) })
}

pub(in crate::store) fn dead_letters(
    connection: &dyn Sql,
    app: AppId,
    endpoint: Option<EndpointId>,
    closed_too: bool,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<DeliveryRow>> {
    let newest = after.unwrap_or(Cursor { at: i64::MAX, id: i64::MAX });
    let sql = format!(
        "SELECT {DELIVERY}, {EVENT_WITHOUT_DATA} FROM deliveries d JOIN events e ON e.id = d.event
         WHERE d.state = 5 AND d.app = ?1 AND d.finished_at <= ?2 AND (d.finished_at < ?2 OR d.id < ?3)
         ORDER BY d.finished_at DESC, d.id DESC LIMIT ?4"
    );
    fill(limit, newest, |fitting, Cursor { at, id }, most| {
        connection.query(&sql, params![app, at, id, most], &mut |row| {
            let fits = endpoint.is_none_or(|endpoint| row.is(3, &endpoint))
                && (closed_too || !row.is(5, &Some(EndReason::Closed)));
            let cursor = Cursor { at: row.get(12)?, id: row.get(0)? };
            Ok(fitting.examine(cursor, if fits { Some(delivery_row(connection, row)?) } else { None }))
        })
    })
}

pub(in crate::store) fn waiting_count(connection: &dyn Sql) -> Result<u64> {
    Ok(connection.number("SELECT count(*) FROM deliveries WHERE queue > 0", &[])? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a page from rows with descending ids, of which every n-th matches; returns it with the sizes of the reads.
    fn filled(limit: u32, rows: i64, every: i64) -> (Page<i64>, Vec<u32>) {
        let mut reads = Vec::new();
        let page = fill(limit, Cursor { at: 0, id: rows }, |fitting, before, most| {
            reads.push(most);
            for id in (0..before.id).rev().take(most as usize) {
                if fitting.examine(Cursor { at: 0, id }, (id % every == 0).then_some(id)).is_break() {
                    break;
                }
            }
            Ok(())
        });
        (page.unwrap(), reads)
    }

    #[test]
    fn a_page_is_the_same_for_every_number_of_reads() {
        for (limit, every) in
            [(1, 1), (1, 7), (50, 1), (50, 2), (50, 199), (50, 201), (250, 39), (250, 20_000)]
        {
            for rows in
                [0, 1, 2, 49, 50, 51, 52, 99, 100, 101, 1_050, 1_051, 1_052, 9_999, 10_000, 10_001, 30_000]
            {
                let fitting: Vec<i64> = (0..rows).rev().take(10_000).filter(|id| id % every == 0).collect();
                let expected = &fitting[..fitting.len().min(limit)];
                let is_full = fitting.len() >= limit;
                let examined = if is_full { rows - fitting[limit - 1] } else { rows.min(10_000) };
                let has_more = examined == 10_000 || (is_full && examined < rows);
                let (page, reads) = filled(limit as u32, rows, every);
                let named = format!("{limit} of {rows}, one of {every}: {reads:?}");
                assert_eq!(page.rows, expected, "{named}");
                assert_eq!(page.next.map(|next| next.id), has_more.then_some(rows - examined), "{named}");
            }
        }
    }

    #[test]
    fn a_page_reads_no_more_rows_than_it_may_need() {
        assert_eq!(filled(50, 30_000, 1).1, [51]);
        assert_eq!(filled(50, 30_000, 10).1, [51, 1_000]);
        assert_eq!(filled(1, 3, 2).1, [2], "the first fits, and there is another");
        assert_eq!(filled(1, 2, 2).1, [2, 1], "the last fits: is there another?");
        assert_eq!(filled(2, 4, 2).1, [3, 1_000]);
        assert_eq!(filled(50, 30_000, 20_000).1.iter().sum::<u32>(), 10_000);
    }
}
