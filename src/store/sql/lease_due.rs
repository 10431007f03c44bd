//! Leases due deliveries of an endpoint queue: manual ones, the oldest, and fresh ones. Also advances retries when an
//! endpoint answers again.

use super::{
    BulkStatement, Error, Result, Sql, attempts,
    deliveries::update_delivery,
    delivery_statements, health,
    ordering::NewlyDue,
    params,
    row::{self, DELIVERY, DELIVERY_COLUMNS, EVENT, EVENT_COLUMNS, EVENT_WITH_SMALL_DATA},
};
use crate::{
    domain::{
        delivery::{ClaimResult, Delivery, DeliveryState},
        event::Event,
        id::{AppId, DeliveryId, EndpointId, EventId},
        time::Timestamp,
        verdict::DueAction,
    },
    store::deliveries::{AdvanceRetries, AdvancedRetries, LeaseRequest},
};
use bytes::Bytes;
use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

/// Earlier than any due time.
const EARLIEST: Timestamp = Timestamp::from_millis(i64::MIN);

const fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().saturating_sub(1))
}

/// A delivery to be leased, with its event and when it was due.
pub(super) type DueDelivery = (Delivery, Event, Timestamp);

/// Deliveries leased from one endpoint queue, by kind, and when its next is due.
#[derive(Default)]
pub(super) struct LeasedParts {
    pub(super) manual: Vec<DueDelivery>,
    pub(super) oldest: Vec<DueDelivery>,
    pub(super) fresh: Vec<DueDelivery>,
    /// The limit was reached: there may be more.
    pub(super) has_more_manual: bool,
    pub(super) has_more_fresh: bool,
    pub(super) next_due: Option<Timestamp>,
    pub(super) ended: Vec<EndedUnsent>,
}

/// A delivery that ended while it was due, without another attempt.
pub(super) struct EndedUnsent {
    pub(super) delivery: Delivery,
    pub(super) event_type: String,
    pub(super) is_blamed: bool,
}

/// Manually requested deliveries; their index has the same condition.
const MANUAL: PartFilter = PartFilter {
    index: "INDEXED BY deliveries_manual",
    condition: "AND d.state = 0 AND d.manual IS NOT NULL",
};

#[derive(Clone, Copy, Default)]
struct PartFilter {
    index: &'static str,
    condition: &'static str,
}

/// A part of an endpoint queue's due deliveries.
struct QueuePart {
    kind: PartFilter,
    after: Timestamp,
    until: Timestamp,
    most: usize,
    bytes_max: usize,
}

/// Reads the first deliveries of a part: at most `most`, and at most `bytes_max` of bodies, but at least one. Bodies up to an
/// equal share come with their deliveries; larger ones are read once it is known that they are kept.
fn due_of(tx: &dyn Sql, endpoint: EndpointId, part: &QueuePart) -> Result<Vec<(Delivery, Event)>> {
    let (PartFilter { index, condition }, (table, lock)) = (part.kind, tx.to_change());
    let sql = format!(
        "SELECT {DELIVERY}, {EVENT_WITH_SMALL_DATA}, length(e.data) FROM {table} d {index} JOIN events e ON e.id = d.event
         WHERE d.queue = ?1 AND d.due > ?2 AND d.due <= ?3 {condition} ORDER BY d.due, d.id LIMIT ?4 {lock}"
    );
    let (mut due, mut bytes, mut unread) = (Vec::new(), 0, Vec::new());
    let share = (part.bytes_max / part.most) as i64;
    let first = params![endpoint, part.after, part.until, part.most as i64, share];
    tx.query(&sql, first, &mut |row| {
        let length = row.get::<u32>(DELIVERY_COLUMNS + EVENT_COLUMNS)?;
        bytes += length as usize;
        if bytes > part.bytes_max && !due.is_empty() {
            return Ok(ControlFlow::Break(()));
        }
        if i64::from(length) > share {
            unread.push(due.len());
        }
        due.push((row::delivery(row)?, row::event(row, DELIVERY_COLUMNS)?));
        Ok(ControlFlow::Continue(()))
    })?;
    read_bodies(tx, &unread, &mut due)?;
    Ok(due)
}

/// Reads the bodies of the deliveries at these positions.
fn read_bodies(tx: &dyn Sql, places: &[usize], due: &mut [(Delivery, Event)]) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let events: Vec<(i64, EventId)> = places.iter().map(|index| (*index as i64, due[*index].1.id)).collect();
    let sql = "SELECT given.position, e.data FROM {given} CROSS JOIN events e WHERE e.id = given.event";
    let mut found = 0;
    tx.query_each_row(
        &BulkStatement { sql, columns: "position, event", shape: "nn" },
        &mut |give| events.iter().try_for_each(|(index, event)| give(params![index, event])),
        &mut |row| {
            due[row.get::<i64>(0)? as usize].1.data = Bytes::from(row.get::<Vec<u8>>(1)?);
            found += 1;
            Ok(())
        },
    )?;
    if found == places.len() { Ok(()) } else { Err(Error::Wrong("an event of a queue is gone".to_owned())) }
}

/// Deliveries that one lease command may end without an attempt, over all its endpoint queues.
pub(super) const ENDED_MAX: usize = 1000;

/// A delivery about to be leased, with the state it waited in.
type ClaimedDelivery = (DeliveryState, DueDelivery);

/// Returns the deliveries of a part to be set in flight, and whether the limit was reached. At most `may_end` may end here;
/// those are added to `ended`.
fn claim(
    tx: &dyn Sql,
    request: &LeaseRequest,
    part: &QueuePart,
    (ended, may_end): (&mut Vec<EndedUnsent>, &mut usize),
    now: Timestamp,
) -> Result<(Vec<ClaimedDelivery>, bool)> {
    // Deliveries promoted here are found below: the first of the queue may be due by now.
    let (mut taken, mut woken) = (Vec::new(), NewlyDue::new());
    if part.most == 0 {
        return Ok((taken, false));
    }
    loop {
        let may_end_before = *may_end;
        let found = due_of(tx, request.endpoint, part)?;
        let is_full = found.len() == part.most;
        let mut may_go_on = true;
        for (mut delivery, event) in found {
            let (from, due) = (delivery.state, delivery.due.unwrap_or(now));
            let is_blamed = delivery.at_due == DueAction::Exhaust;
            let claimed = delivery.claim(now);
            if claimed == Ok(ClaimResult::Attempt) {
                // It keeps its position in its ordering group.
                taken.push((from, (delivery, event, due)));
                continue;
            }
            if *may_end == 0 {
                may_go_on = false;
                break;
            }
            if !update_delivery(tx, from, &mut delivery, now, &mut woken)? {
                continue;
            }
            *may_end -= 1;
            if delivery.state == DeliveryState::Dead {
                if is_blamed {
                    health::event_failed(tx, &delivery, &event)?;
                }
                write_notice_of_end(tx, request, &delivery, &event)?;
            }
            ended.push(EndedUnsent { delivery, event_type: event.event_type, is_blamed });
        }
        // Where one ended, the next may be as old: such a queue must not take a commit for each.
        if !taken.is_empty() || !may_go_on || *may_end == may_end_before {
            return Ok((taken, is_full));
        }
    }
}

/// Marks the deliveries of these parts as in flight; returns those that were still waiting.
fn mark_in_flight(tx: &dyn Sql, parts: Vec<Vec<ClaimedDelivery>>) -> Result<Vec<Vec<DueDelivery>>> {
    let rows: Vec<_> = parts.iter().flatten().map(|(from, (delivery, ..))| (*from, delivery)).collect();
    let leased = if rows.is_empty() { Vec::new() } else { tx.lease_all(&rows)? };
    let mut leased = leased.into_iter();
    let mut kept = |part: Vec<ClaimedDelivery>| -> Vec<DueDelivery> {
        let kept = part.into_iter().zip(leased.by_ref()).filter(|(_, is_leased)| *is_leased);
        kept.map(|((_, due), _)| due).collect()
    };
    Ok(parts.into_iter().map(&mut kept).collect())
}

/// Leases the first delivery that waits for its next attempt, before its time.
fn probe(tx: &dyn Sql, endpoint: EndpointId, now: Timestamp) -> Result<Option<DueDelivery>> {
    let (table, lock) = tx.to_change();
    let found = tx.one(
        &format!(
            "SELECT {DELIVERY}, {EVENT} FROM {table} d INDEXED BY deliveries_retrying JOIN events e ON e.id = d.event
             WHERE d.queue = ?1 AND d.due > ?2 AND d.state = 1 AND d.due_action = 0 ORDER BY d.due, d.id LIMIT 1 {lock}"
        ),
        params![endpoint, now],
        |row| Ok((row::delivery(row)?, row::event(row, DELIVERY_COLUMNS)?)),
    )?;
    let Some((mut delivery, event)) = found else { return Ok(None) };
    // It stays the head of its ordering group: no other is promoted.
    let is_leased = delivery.probe(now).is_ok()
        && update_delivery(tx, DeliveryState::Retrying, &mut delivery, now, &mut NewlyDue::new())?;
    Ok(is_leased.then_some((delivery, event, now)))
}

/// Writes the notice for a delivery that died when its final wait was over.
fn write_notice_of_end(
    tx: &dyn Sql,
    request: &LeaseRequest,
    delivery: &Delivery,
    event: &Event,
) -> Result<()> {
    let Some(contract) = &request.contract else { return Ok(()) };
    let error = attempts::last_error(tx, delivery.id)?;
    delivery_statements::write_dead_letter_notice(tx, contract, delivery, event, error.as_deref())
}

/// Leases from each endpoint queue at most as many due deliveries as there are permits, oldest first; finds when the next is
/// due.
pub(super) fn lease_due(
    tx: &dyn Sql,
    requests: &[LeaseRequest],
    may_end: &mut usize,
    now: Timestamp,
) -> Result<Vec<LeasedParts>> {
    let queues: HashSet<EndpointId> = requests.iter().map(|request| request.endpoint).collect();
    if queues.len() < requests.len() {
        // The second request must not find what the first one leased.
        let mut one = |request| lease_due(tx, std::slice::from_ref(request), may_end, now);
        return Ok(requests
            .iter()
            .map(&mut one)
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect());
    }
    tx.start_queue_search();
    let (mut all, mut parts) = (Vec::with_capacity(requests.len()), Vec::with_capacity(2 * requests.len()));
    for request in requests {
        let (found, taken) = lease_from_queue(tx, request, may_end, now)?;
        all.push(found);
        parts.extend(taken);
    }
    let mut leased = mark_in_flight(tx, parts)?.into_iter();
    for found in &mut all {
        found.oldest.extend(leased.next().into_iter().flatten());
        found.fresh.extend(leased.next().into_iter().flatten());
    }
    let next_dues = find_next_dues(tx, requests, now)?;
    for (found, request) in all.iter_mut().zip(requests) {
        found.next_due = next_dues.get(&request.endpoint).copied().filter(|due| *due < Timestamp::NEVER);
    }
    Ok(all)
}

/// Returns when the next delivery of each endpoint queue is due. If that is past, the next search starts there; if not, the
/// whole queue is searched, since something older may have been added.
fn find_next_dues(
    tx: &dyn Sql,
    requests: &[LeaseRequest],
    now: Timestamp,
) -> Result<HashMap<EndpointId, Timestamp>> {
    let begins = |request: &LeaseRequest| (request.endpoint, tx.search_start(request.endpoint));
    let queues: Vec<_> = requests.iter().map(begins).collect();
    let mut dues = next_dues(tx, &queues)?;
    let is_due = |dues: &HashMap<_, Timestamp>, queue| dues.get(&queue).is_some_and(|due| *due <= now);
    let again = queues.iter().filter(|(queue, from)| from.is_some() && !is_due(&dues, *queue));
    let again: Vec<_> = again.map(|(queue, _)| (*queue, None)).collect();
    dues.extend(next_dues(tx, &again)?);
    for (queue, _) in queues {
        tx.set_search_start(queue, dues.get(&queue).copied().filter(|due| *due <= now));
    }
    Ok(dues)
}

fn next_dues(
    tx: &dyn Sql,
    queues: &[(EndpointId, Option<Timestamp>)],
) -> Result<HashMap<EndpointId, Timestamp>> {
    let sql = format!(
        "SELECT given.queue, (SELECT d.due FROM {} d WHERE d.queue = given.queue AND d.due >= given.due
             ORDER BY d.due LIMIT 1) FROM {{given}}",
        tx.to_change().0
    );
    let mut dues = HashMap::new();
    tx.query_each_row(
        &BulkStatement { sql: &sql, columns: "queue, due", shape: "nn" },
        &mut |give| {
            queues.iter().try_for_each(|(queue, from)| give(params![queue, from.unwrap_or(EARLIEST)]))
        },
        &mut |row| {
            if let Some(due) = row.get(1)? {
                dues.insert(row.get(0)?, due);
            }
            Ok(())
        },
    )?;
    Ok(dues)
}

/// Leases the manual deliveries of one endpoint queue, and claims the oldest and the fresh ones, to be marked in flight
/// later.
fn lease_from_queue(
    tx: &dyn Sql,
    request: &LeaseRequest,
    may_end: &mut usize,
    now: Timestamp,
) -> Result<(LeasedParts, [Vec<ClaimedDelivery>; 2])> {
    let bytes_max = request.bytes_max;
    let from = tx.search_start(request.endpoint).map_or(EARLIEST, just_before);
    let backlog_until = request.backlog_until.map_or(now, |until| until.min(now));
    let kind = PartFilter::default();
    let all = QueuePart { kind, after: from, until: backlog_until, most: request.permits.len(), bytes_max };
    let manual =
        QueuePart { kind: MANUAL, after: EARLIEST, until: now, most: request.manual_permits.len(), ..all };
    let fresh = QueuePart { after: backlog_until, until: now, most: request.fresh_permits.len(), ..all };
    let mut found = LeasedParts::default();
    let (manual, has_more_manual) = claim(tx, request, &manual, (&mut found.ended, may_end), now)?;
    // They match the other parts too until they are in flight.
    found.manual = mark_in_flight(tx, vec![manual])?.pop().unwrap_or_default();
    let (oldest, _) = claim(tx, request, &all, (&mut found.ended, may_end), now)?;
    if request.is_probe && oldest.is_empty() {
        found.oldest.extend(probe(tx, request.endpoint, now)?);
    }
    let (fresh, has_more_fresh) = claim(tx, request, &fresh, (&mut found.ended, may_end), now)?;
    (found.has_more_manual, found.has_more_fresh) = (has_more_manual, has_more_fresh);
    Ok((found, [oldest, fresh]))
}

/// Advances one page of retries that wait although the endpoint answers again. Goes by due time, so that an advanced retry lies
/// before the next page. Also returns the app, if any was advanced.
pub(in crate::store) fn advance_retries(
    tx: &dyn Sql,
    recovery: &AdvanceRetries,
    now: Timestamp,
) -> Result<(AdvancedRetries, Option<AppId>)> {
    let AdvanceRetries { endpoint, recovered_at, after: (due, id), most } = *recovery;
    let (table, lock) = tx.to_change();
    let found: Vec<(Delivery, bool)> = tx.all(
        &format!(
            "SELECT {DELIVERY}, coalesce((SELECT a.started_at FROM attempts a WHERE a.delivery = d.id AND a.position = d.history_len), 0) < ?5
                 FROM {table} d WHERE d.queue = ?1 AND (d.due, d.id) > (?2, ?3) AND d.due > ?4 AND d.due < ?7
                 ORDER BY d.due, d.id LIMIT ?6 {lock}"
        ),
        params![endpoint, due, id, now, recovered_at, most as i64, Timestamp::NEVER],
        |row| {
            Ok((row::delivery(row)?, row.get(DELIVERY_COLUMNS)?))
        },
    )?;
    let last = found.last().and_then(|(last, _)| Some((last.due?, last.id)));
    let is_last = found.len() < most;
    // A retry stays the head of its ordering group: no other is promoted.
    let (mut count, mut app, mut woken) = (0, None, NewlyDue::new());
    for (mut delivery, was_tried_before) in found {
        let waited_for = delivery.due;
        let is_retry = was_tried_before && delivery.state == DeliveryState::Retrying;
        if is_retry
            && delivery.advance_retry(now).is_ok()
            && delivery.due != waited_for
            && update_delivery(tx, DeliveryState::Retrying, &mut delivery, now, &mut woken)?
        {
            (count, app) = (count + 1, Some(delivery.app));
        }
    }
    let next: Option<(Timestamp, DeliveryId)> = last.filter(|_| !is_last);
    Ok((AdvancedRetries { count, next }, app))
}
