//! Statements of the delivery store: accept, record, release, act, apply to waiting. Each runs inside the writer's batch.

use super::{
    Result, Row, Sql, ToValue, attempts, dedup,
    deliveries::{is_leased, read_delivery, update_delivery, update_leased},
    health, maintenance, notices,
    ordering::{self, NewlyDue},
    params,
    row::{self, DELIVERY},
};
use crate::{
    domain::{
        contract::Contract,
        delivery::{Availability, Delivery, DeliveryState, TransitionError},
        endpoint::{self, Disabled},
        event::{DedupKey, Event},
        fan_out::NewDelivery,
        id::{AppId, DeliveryId, EndpointId, EventId},
        notice::{EventRef, dead_letter},
        outcome::Attempt,
        ports::LeasedDelivery,
        time::Timestamp,
        verdict::Verdict,
    },
    store::deliveries::{
        Accepted, ActionResult, AvailabilityChange, DeliveryAction, DeliveryResult, NewEvent,
    },
};

/// Data of an event whose payload was erased.
pub(super) const NO_DATA: &[u8] = &[];

pub(super) fn accept(tx: &dyn Sql, new: &mut NewEvent) -> Result<Accepted> {
    loop {
        let before = dedup::find_duplicate(tx, &new.dedup, new.fingerprint)?;
        if before != Accepted::New {
            return Ok(before);
        }
        // Another node may publish under the same key first.
        if dedup::claim(tx, &new.dedup, new.fingerprint, new.event.id)? {
            break;
        }
    }
    insert_event(tx, &new.event, &new.dedup)?;
    for NewDelivery { delivery, .. } in &mut new.deliveries {
        // The publisher may have read the endpoint as disabled while it was being enabled: no later step would release this
        // delivery.
        if delivery.state == DeliveryState::Held {
            tx.lock_queue(delivery.endpoint)?;
            if availability_of(tx, delivery.endpoint)? == Availability::Enabled {
                let _ = delivery.resume(false, new.event.accepted_at);
            }
        }
        ordering::join(tx, delivery, &new.event)?;
        tx.insert_delivery(delivery)?;
    }
    Ok(Accepted::New)
}

macro_rules! event_columns {
    () => {
        "id, app, type, external_id, created_at, accepted_at, key, deliver_at, skipped, dedup, data"
    };
}

/// Columns that `event_row` writes, in its order.
pub(in crate::store) const EVENT_COLUMNS_WRITTEN: &str = event_columns!();

const INSERT_EVENT: &str = concat!(
    "INSERT INTO events (",
    event_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
);

fn insert_event(tx: &dyn Sql, event: &Event, dedup: &[DedupKey]) -> Result<()> {
    tx.check_id(event.id.as_i64())?;
    event_row(event, dedup, &mut |row| tx.execute(INSERT_EVENT, row).map(drop))
}

pub(in crate::store) fn event_row(
    event: &Event,
    dedup: &[DedupKey],
    write: &mut dyn FnMut(&[&dyn ToValue]) -> Result<()>,
) -> Result<()> {
    write(params![
        event.id,
        event.app,
        event.event_type,
        event.external_id,
        event.created_at,
        event.accepted_at,
        event.key,
        event.deliver_at,
        event.has_no_subscribers,
        (!dedup.is_empty()).then(|| dedup.iter().flat_map(|key| key.0).collect::<Vec<u8>>()),
        &event.data[..],
    ])
}

/// Returns the endpoint's availability, as this transaction sees it.
pub(super) fn availability_of(tx: &dyn Sql, endpoint: EndpointId) -> Result<Availability> {
    let sql = "SELECT disabled FROM endpoints WHERE id = ?1 AND deleted_at IS NULL";
    let read = |row: &Row<'_>| row::named(endpoint, super::config::read_disabled(row.get(0)?));
    let off = tx.one(sql, params![endpoint], read)?;
    Ok(off.map_or(Availability::Deleted, |off| endpoint::availability(off.as_ref())))
}

/// The delivery after its verdict; if the endpoint was disabled with it, how, and its new revision.
pub(super) struct RecordedResult {
    pub(super) delivery: Delivery,
    pub(super) disabled: Option<(Disabled, u32)>,
    pub(super) woken: NewlyDue,
    /// The endpoint's health state changed.
    pub(super) health_changed: bool,
}

/// Whether its attempts use a retry slot and get a number; those of an uncounted retry do not.
const fn uses_slot(record: &DeliveryResult) -> bool {
    !matches!(record.verdict, Verdict::RetryUncounted { .. })
}

/// Returns how many attempts a record adds to the history, and how many of them have a number.
pub(super) fn slots(record: &DeliveryResult) -> (u32, u32) {
    let is_numbered = |attempt: &&Attempt| uses_slot(record) && attempt.outcome.class.is_numbered();
    (record.attempts.len() as u32, record.attempts.iter().filter(is_numbered).count() as u32)
}

/// Returns the position of its first attempt in the history, and its number if it has one.
pub(super) fn next_positions(record: &DeliveryResult) -> (u32, Option<u32>) {
    let Delivery { history_len, attempt_count, .. } = record.leased.delivery;
    (history_len + 1, uses_slot(record).then_some(attempt_count + 1))
}

/// Writes the result of a leased delivery; nothing if it was no longer leased, or under another epoch.
pub(super) fn record_result(tx: &dyn Sql, record: &DeliveryResult) -> Result<Option<RecordedResult>> {
    let (mut delivery, epoch) = (record.leased.delivery.clone(), record.leased.epoch);
    if epoch != tx.epoch() {
        return Ok(None);
    }
    // Only a delivery that goes on waiting depends on its endpoint's availability: the happy path reads its health and no
    // more.
    let mut availability = match record.verdict {
        Verdict::Delivered => Availability::Enabled,
        _ => availability_of(tx, delivery.endpoint)?,
    };
    let seen = health::apply_result(tx, record, availability)?;
    let (mut disabled, mut woken) = (None, NewlyDue::new());
    if let Some(off) = record.disable.clone().or_else(|| seen.as_ref().and_then(health::HealthUpdate::off)) {
        if !is_leased(tx, delivery.id, epoch)? {
            return Ok(None);
        }
        let revision = disable_endpoint(tx, delivery.endpoint, &off)?;
        disabled = revision.map(|revision| (off, revision));
        availability = availability_of(tx, delivery.endpoint)?;
    }
    if delivery.apply_verdict(&record.verdict, slots(record), availability, record.ended_at).is_err()
        || !update_leased(tx, epoch, &mut delivery, record.ended_at, &mut woken)?
    {
        return Ok(None);
    }
    let (position, number) = next_positions(record);
    attempts::insert(tx, delivery.id, position, number, &record.attempts)?;
    let health_changed = seen.map_or(Ok(false), |seen| seen.write(tx))?;
    // A failed extra attempt, requested manually, leaves a dead delivery dead: its notice was written then.
    let has_died = delivery.state == DeliveryState::Dead
        && !record.leased.delivery.restores_saved_state(&record.verdict);
    if let Some(contract) = record.contract.as_ref().filter(|_| has_died) {
        let error = record.attempts.last().and_then(|last| last.outcome.error.as_deref());
        write_dead_letter_notice(tx, contract, &delivery, &record.leased.event, error)?;
    }
    Ok(Some(RecordedResult { delivery, disabled, woken, health_changed }))
}

/// Writes the notice that the contract asks for when a delivery dies.
pub(super) fn write_dead_letter_notice(
    tx: &dyn Sql,
    contract: &Contract,
    delivery: &Delivery,
    event: &Event,
    last_error: Option<&str>,
) -> Result<()> {
    match dead_letter(contract, delivery, event, last_error) {
        Some(notice) => notices::put_with_event(tx, &notice, Some(&EventRef::of(event))),
        None => Ok(()),
    }
}

/// Disables the endpoint; returns its new revision, or `None` if it was disabled or gone already.
pub(super) fn disable_endpoint(tx: &dyn Sql, endpoint: EndpointId, off: &Disabled) -> Result<Option<u32>> {
    let revision = tx.one(
        "UPDATE endpoints SET disabled = ?2, revision = revision + 1, updated_at = ?3
         WHERE id = ?1 AND disabled IS NULL AND deleted_at IS NULL RETURNING revision",
        params![endpoint, super::config::write_disabled(off)?, off.at],
        |row| row.get(0),
    )?;
    if revision.is_some() {
        tx.log_change(endpoint.into())?;
    }
    Ok(revision)
}

/// Releases a delivery unattempted; returns what it became, if it was still leased under its epoch.
pub(super) fn release(
    tx: &dyn Sql,
    leased: &LeasedDelivery,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<Option<Delivery>> {
    let mut delivery = leased.delivery.clone();
    if leased.epoch != tx.epoch() {
        return Ok(None);
    }
    let availability = availability_of(tx, delivery.endpoint)?;
    let done = delivery.release(availability, leased.due, now).is_ok()
        && update_leased(tx, leased.epoch, &mut delivery, now, woken)?;
    Ok(done.then_some(delivery))
}

pub(super) fn act(
    tx: &dyn Sql,
    app: AppId,
    id: DeliveryId,
    ask: DeliveryAction,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<ActionResult> {
    let Some(mut delivery) = read_delivery(tx, id)?.filter(|delivery| delivery.app == app) else {
        return Ok(ActionResult::Absent);
    };
    let from = delivery.state;
    let done = match ask {
        DeliveryAction::Retry => delivery.retry(availability_of(tx, delivery.endpoint)?, now),
        DeliveryAction::Replay { new_id: as_new, give_up_at } => {
            let again = ReplayAs { as_new, give_up_at, is_alone: true };
            return replay(tx, delivery, &again, now, woken);
        }
        DeliveryAction::Cancel => delivery.cancel(now),
        DeliveryAction::Close => delivery.close(),
        DeliveryAction::Delete if from.is_terminal() => {
            maintenance::remember_newest_id(tx)?;
            tx.execute("DELETE FROM attempts WHERE delivery = ?1", params![id])?;
            ordering::remove(tx, id, now, woken)?;
            return Ok(ActionResult::Deleted);
        }
        DeliveryAction::Delete => Err(TransitionError::WrongState { state: from, verb: "deleted" }),
    };
    match done {
        Ok(()) => {
            update_delivery(tx, from, &mut delivery, now, woken)?;
            Ok(ActionResult::Done(delivery))
        }
        Err(refusal) => Ok(ActionResult::Refused(refusal)),
    }
}

/// How a delivery is replayed: alone, as a manual request, or as one of many.
pub(super) struct ReplayAs {
    pub(super) as_new: DeliveryId,
    pub(super) give_up_at: Option<Timestamp>,
    pub(super) is_alone: bool,
}

pub(super) fn replay(
    tx: &dyn Sql,
    mut delivery: Delivery,
    again: &ReplayAs,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<ActionResult> {
    let ReplayAs { as_new, give_up_at, is_alone } = *again;
    let (from, availability) = (delivery.state, availability_of(tx, delivery.endpoint)?);
    let mark_manual = |mut delivery: Delivery| {
        if is_alone {
            delivery.mark_manual();
        }
        delivery
    };
    if from == DeliveryState::Delivered {
        return Ok(match delivery.replay_as(as_new, give_up_at, availability, now).map(mark_manual) {
            Ok(made) => {
                tx.insert_delivery(&made)?;
                ActionResult::Made(made)
            }
            Err(refusal) => ActionResult::Refused(refusal),
        });
    }
    if let Err(refusal) = delivery.replay(give_up_at, availability, now) {
        return Ok(ActionResult::Refused(refusal));
    }
    delivery = mark_manual(delivery);
    update_delivery(tx, from, &mut delivery, now, woken)?;
    Ok(ActionResult::Done(delivery))
}

/// Result of applying an endpoint's state to its deliveries.
pub(super) struct AppliedToWaiting {
    pub(super) count: usize,
    /// Something is due now because of it.
    pub(super) is_released: bool,
    /// App of the deliveries, if there were any.
    pub(super) app: Option<AppId>,
}

/// Applies the endpoint's state to up to `most` of its deliveries.
pub(super) fn apply_to_waiting(
    tx: &dyn Sql,
    endpoint: EndpointId,
    settle: AvailabilityChange,
    most: usize,
    now: Timestamp,
) -> Result<AppliedToWaiting> {
    // The call may be late: the endpoint may have been switched again since.
    if (availability_of(tx, endpoint)? == Availability::Enabled)
        != matches!(settle, AvailabilityChange::Enabled { .. })
    {
        return Ok(AppliedToWaiting { count: 0, is_released: false, app: None });
    }
    tx.lock_queue(endpoint)?;
    let (table, lock) = tx.to_change();
    let of = |condition: &str| -> Result<Vec<Delivery>> {
        let sql = format!("SELECT {DELIVERY} FROM {table} d WHERE {condition} LIMIT ?2 {lock}");
        tx.all(&sql, params![endpoint, most as i64], row::delivery)
    };
    let (held, waiting) = ("d.state = 3 AND d.endpoint = ?1 ORDER BY d.id", "d.queue = ?1");
    let mut found = match settle {
        AvailabilityChange::Enabled { .. } => of(held)?,
        AvailabilityChange::Disabled(_) => of(waiting)?,
    };
    // A deleted endpoint has no held deliveries either.
    if matches!(settle, AvailabilityChange::Disabled(Availability::Deleted)) && found.len() < most {
        found.extend(of(held)?.into_iter().take(most - found.len()));
    }
    let (mut is_released, mut woken) = (false, NewlyDue::new());
    for mut delivery in found.iter().cloned() {
        let from = delivery.state;
        let done = match settle {
            AvailabilityChange::Enabled { gives_up_while_held } => delivery.resume(gives_up_while_held, now),
            AvailabilityChange::Disabled(availability) => delivery.hold_or_cancel(availability, now),
        };
        if done.is_ok() {
            update_delivery(tx, from, &mut delivery, now, &mut woken)?;
            is_released |= delivery.state.is_waiting();
        }
    }
    let skipped = ordering::skip_dead(tx, endpoint, most - found.len(), now, &mut woken)?;
    // Deliveries promoted in a disabled endpoint's queue are handled by the next such call.
    is_released |= matches!(settle, AvailabilityChange::Enabled { .. }) && !woken.is_empty();
    let app = found.first().map(|delivery| delivery.app);
    Ok(AppliedToWaiting { count: found.len() + skipped, is_released, app })
}

pub(super) fn erase_data(tx: &dyn Sql, app: AppId, event: EventId) -> Result<bool> {
    let erase = "UPDATE events SET data = ?3 WHERE id = ?1 AND app = ?2 AND length(data) > 0";
    Ok(tx.execute(erase, params![event, app, NO_DATA])? == 1)
}
