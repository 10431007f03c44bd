//! Endpoint health: read and written in the transaction of the attempt that changes it, together with its notices. An
//! endpoint that never failed has no row, and a success of one whose row is clean writes nothing.

use super::{
    Result, Row, Sql, adjusted_clock,
    delivery_statements::{availability_of, disable_endpoint},
    notices, params, statistics,
};
use crate::{
    domain::{
        circuit_breaker::PausedUntil,
        contract::{Contract, NoticeChannel},
        delivery::{Availability, Delivery},
        endpoint::Disabled,
        event::{Event, TEST_EVENT_TYPE},
        health::{
            ClockedTime, FAILING_AFTER_FAILURES, FailedAttempt, Health, HealthContext, HealthEvent,
            HealthState, HealthWindows, TroubleNotice,
        },
        id::{AppId, EndpointId},
        outcome::OutcomeClass,
        statistics::{Counters, Resolution},
        time::Timestamp,
        verdict::{DeadReason, Verdict},
    },
    store::{
        deliveries::DeliveryResult,
        health::{HealthBootstrap, HealthCandidate, HealthReport},
    },
};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);
/// Endpoints that accepted a delivery within this time count as answering.
const HEALTHY_WITHIN: Duration = Duration::from_hours(72);

macro_rules! columns {
    () => {
        "consecutive_failures, failed_events, first_failed_at, first_failed_clock, last_error, warned_at,
         warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel, notified_since,
         paused_until, paused_status"
    };
}

/// Runs for every delivery that is recorded.
const SELECT_HEALTH: &str = concat!("SELECT ", columns!(), " FROM health WHERE endpoint = ?1");
/// Reads health together with the outage-adjusted time of all nodes.
const SELECT_HEALTH_WITH_CLOCK: &str = concat!(
    "SELECT ",
    columns!(),
    ", (SELECT clock FROM adjusted_clock) FROM (SELECT 1 AS one) AS one LEFT JOIN health ON endpoint = ?1"
);
const COLUMNS: usize = 15;
const UPSERT_HEALTH: &str = "INSERT INTO health (endpoint, app, consecutive_failures, failed_events, first_failed_at,
     first_failed_clock, last_error, warned_at, warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel,
     notified_since, paused_until, paused_status)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
     ON CONFLICT (endpoint) DO UPDATE SET (app, consecutive_failures, failed_events, first_failed_at, first_failed_clock,
     last_error, warned_at, warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel, notified_since,
     paused_until, paused_status) = (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

fn read_row(row: &Row<'_>) -> Result<Health> {
    let moment = |at: usize| -> Result<Option<ClockedTime>> {
        let clock: Option<i64> = row.get(at + 1)?;
        let at: Option<Timestamp> = row.get(at)?;
        Ok(at
            .zip(clock)
            .map(|(at, clock)| ClockedTime { at, adjusted_time: adjusted_clock::duration(clock) }))
    };
    let told_by: Option<NoticeChannel> = row.get(11)?;
    Ok(Health {
        consecutive_failures: row.get(0)?,
        failed_events: row.get(1)?,
        first_failure: moment(2)?,
        last_error: row.get(4)?,
        warned_at: moment(5)?,
        successes: row.get(7)?,
        degraded_since: row.get(8)?,
        failing_since: row.get(9)?,
        healthy_since: row.get(10)?,
        trouble_notice: told_by.zip(row.get(12)?).map(|(by, since)| TroubleNotice { channel: by, since }),
        paused: read_pause(row, 13)?,
    })
}

fn read_pause(row: &Row<'_>, first: usize) -> Result<Option<PausedUntil>> {
    let until: Option<Timestamp> = row.get(first)?;
    Ok(until.zip(row.get(first + 1)?).map(|(until, status)| PausedUntil { status, until }))
}

pub(super) fn read(connection: &dyn Sql, endpoint: EndpointId) -> Result<Option<Health>> {
    connection.one(SELECT_HEALTH, params![endpoint], read_row)
}

/// Reads health with outage-adjusted time, of which this node may know less than others.
fn read_with_clock(tx: &dyn Sql, endpoint: EndpointId, mine: Duration) -> Result<(Health, Duration)> {
    let found = tx.one(SELECT_HEALTH_WITH_CLOCK, params![endpoint], |row| {
        let health = match row.get::<Option<u32>>(0)? {
            Some(_) => read_row(row)?,
            None => Health::default(),
        };
        let written: Option<i64> = row.get(COLUMNS)?;
        Ok((health, written.map_or(mine, |written| adjusted_clock::duration(written).max(mine))))
    })?;
    Ok(found.unwrap_or_else(|| (Health::default(), mine)))
}

fn write(tx: &dyn Sql, app: AppId, endpoint: EndpointId, health: &Health) -> Result<()> {
    let clock = |moment: Option<ClockedTime>| moment.map(|moment| moment.adjusted_time.as_millis() as i64);
    tx.execute(
        UPSERT_HEALTH,
        params![
            endpoint,
            app,
            health.consecutive_failures,
            health.failed_events,
            health.first_failure.map(|moment| moment.at),
            clock(health.first_failure),
            health.last_error,
            health.warned_at.map(|moment| moment.at),
            clock(health.warned_at),
            health.successes,
            health.degraded_since,
            health.failing_since,
            health.healthy_since,
            health.trouble_notice.map(|notified| notified.channel),
            health.trouble_notice.map(|notified| notified.since),
            health.paused.map(|paused| paused.until),
            health.paused.map(|paused| paused.status),
        ],
    )?;
    Ok(())
}

/// Resets the health of an endpoint that was enabled: earlier failures do not count any more.
pub(super) fn reset(tx: &dyn Sql, app: AppId, endpoint: EndpointId, at: Timestamp) -> Result<()> {
    tx.lock_health(endpoint)?;
    // Channels that were notified of its trouble are also notified when it works again.
    let notified = read(tx, endpoint)?.and_then(|health| health.trouble_notice);
    write(
        tx,
        app,
        endpoint,
        &Health { healthy_since: Some(at), trouble_notice: notified, ..Health::default() },
    )
}

pub(super) fn delete_health(tx: &dyn Sql, endpoint: EndpointId) -> Result<()> {
    tx.lock_health(endpoint)?;
    tx.execute("DELETE FROM health WHERE endpoint = ?1", params![endpoint])?;
    Ok(())
}

/// Removes the requested pause of an endpoint whose URL changed: it came from the old receiver.
pub(super) fn forget_pause(tx: &dyn Sql, endpoint: EndpointId) -> Result<()> {
    tx.execute(
        "UPDATE health SET paused_until = NULL, paused_status = NULL WHERE endpoint = ?1",
        params![endpoint],
    )?;
    Ok(())
}

/// Whether the verdict ends an event that the receiver did not accept. A failed extra attempt, requested manually, leaves it
/// as it had ended.
pub(super) fn ends_failed(record: &DeliveryResult) -> bool {
    let is_refusal = matches!(
        record.verdict,
        Verdict::Dead { reason: DeadReason::Exhausted | DeadReason::RefusedByReceiver, .. }
    );
    is_refusal && !record.leased.delivery.restores_saved_state(&record.verdict)
}

/// The endpoint's health after a result, not written yet.
pub(super) struct HealthUpdate<'a> {
    record: &'a DeliveryResult,
    contract: &'a Contract,
    was: HealthState,
    health: Health,
    events: Vec<HealthEvent>,
}

/// Computes the health after a result; `None` if nothing changes. The result of an endpoint that was disabled meanwhile
/// changes nothing.
pub(super) fn apply_result<'a>(
    tx: &dyn Sql,
    record: &'a DeliveryResult,
    availability: Availability,
) -> Result<Option<HealthUpdate<'a>>> {
    let DeliveryResult { leased, attempts, ended_at, .. } = record;
    let (Some(health_sample), Some(contract)) = (&record.health_sample, &record.contract) else {
        return Ok(None);
    };
    let Some(last) = attempts.last().filter(|_| availability == Availability::Enabled) else {
        return Ok(None);
    };
    let endpoint = leased.delivery.endpoint;
    if last.outcome.class == OutcomeClass::Ok {
        // For most endpoints nothing changes, and nothing is locked for them.
        if read(tx, endpoint)?.is_none_or(|health| health.has_no_trouble()) {
            return Ok(None);
        }
        tx.lock_health(endpoint)?;
        let known = read(tx, endpoint)?;
        let Some(mut health) = known.filter(|health| !health.has_no_trouble()) else { return Ok(None) };
        if availability_of(tx, leased.delivery.endpoint)? != Availability::Enabled {
            return Ok(None);
        }
        let was = health.state();
        let events = health.succeeded(*ended_at).into_iter().collect();
        return Ok(Some(HealthUpdate { record, contract, was, health, events }));
    }
    tx.lock_health(endpoint)?;
    let (mut health, clock) = read_with_clock(tx, endpoint, health_sample.adjusted_time)?;
    let was = health.state();
    let failure = FailedAttempt {
        at: *ended_at,
        adjusted_time: clock,
        error: last.outcome.error.as_deref().unwrap_or("no answer"),
        // One event that people send again and again is still one event.
        ends_event: ends_failed(record) && leased.delivery.restarted_at.is_none(),
    };
    let mut events = health.failed(&failure, contract);
    health.record_pause(health_sample.paused);
    if record.disable.is_some() {
        events = vec![HealthEvent::Gone];
    } else if matches!(events[..], [HealthEvent::FailingTooLong { .. }])
        && notices::warning_waits(tx, leased.delivery.app, leased.delivery.endpoint)?
    {
        // An endpoint counts as warned only once the warning was sent.
        events.clear();
    }
    Ok(Some(HealthUpdate { record, contract, was, health, events }))
}

impl HealthUpdate<'_> {
    /// Returns how the endpoint is disabled, if a rule says so.
    pub(super) fn off(&self) -> Option<Disabled> {
        self.events.iter().find_map(|events| events.disabled(self.contract, self.record.ended_at))
    }

    /// Writes health and notices; returns whether the endpoint's health state changed.
    pub(super) fn write(self, tx: &dyn Sql) -> Result<bool> {
        let Delivery { app, endpoint, .. } = self.record.leased.delivery;
        write(tx, app, endpoint, &self.health)?;
        let about = HealthContext {
            app,
            endpoint,
            contract: self.contract,
            at: self.record.ended_at,
            last_error: self.health.last_error.as_deref(),
        };
        self.events.iter().try_for_each(|events| notices::put(tx, &events.notice(&about)))?;
        Ok(self.health.state() != self.was)
    }
}

/// Counts a delivery that died when its final wait was over because the receiver did not accept it;
/// `Store::evaluate_health` learns of it from the statistics.
pub(super) fn event_failed(tx: &dyn Sql, delivery: &Delivery, event: &Event) -> Result<()> {
    if event.event_type == TEST_EVENT_TYPE || delivery.restarted_at.is_some() {
        return Ok(());
    }
    tx.lock_health(delivery.endpoint)?;
    let mut health = read(tx, delivery.endpoint)?.unwrap_or_default();
    health.record_failed_event();
    write(tx, delivery.app, delivery.endpoint, &health)
}

/// Result of a health evaluation.
#[derive(Default)]
pub(in crate::store) struct HealthChanges {
    /// Endpoints that were disabled, how, and their revision now.
    pub(in crate::store) disabled: Vec<(EndpointId, Disabled, u32)>,
    /// Endpoints that were disabled, or whose health state changed.
    pub(in crate::store) changed: Vec<(AppId, EndpointId)>,
}

pub(in crate::store) fn evaluate_health(
    tx: &dyn Sql,
    candidates: &[HealthCandidate],
    now: Timestamp,
) -> Result<HealthChanges> {
    let mut judged = HealthChanges::default();
    for HealthCandidate { app, endpoint, contract } in candidates {
        let whose = (*app, *endpoint);
        tx.lock_health(*endpoint)?;
        let known = read(tx, *endpoint)?;
        let mut health = known.clone().unwrap_or_default();
        // What came before it was healthy again was evaluated then, and what is older than the window does not count at all.
        let window = |length: Duration| {
            let begins = Timestamp::from_millis(now.as_millis().saturating_sub(length.as_millis() as i64));
            statistics::strictly_since(
                tx,
                whose,
                health.healthy_since.map_or(begins, |well| well.max(begins)),
            )
        };
        let degraded = contract.health.degraded_window.map_or_else(|| Ok(Counters::default()), window)?;
        let windows = HealthWindows { last_hour: window(HOUR)?, degraded };
        let events = health.evaluate(&windows, contract, now);
        let off = events.and_then(|events| events.disabled(contract, now));
        let is_disabled = off.is_some();
        if let Some(off) = off {
            let Some(revision) = disable_endpoint(tx, *endpoint, &off)? else { continue };
            judged.disabled.push((*endpoint, off, revision));
        }
        if known.as_ref() != Some(&health) && health != Health::default() {
            write(tx, *app, *endpoint, &health)?;
        }
        if is_disabled || known.map_or(HealthState::Healthy, |known| known.state()) != health.state() {
            judged.changed.push(whose);
        }
        if let Some(events) = events {
            let last_error = health.last_error.as_deref();
            let about = HealthContext { app: *app, endpoint: *endpoint, contract, at: now, last_error };
            notices::put(tx, &events.notice(&about))?;
        }
    }
    Ok(judged)
}

pub(in crate::store) fn health_bootstrap(connection: &dyn Sql, now: Timestamp) -> Result<HealthBootstrap> {
    // A crash may have come between an attempt and the next write of the clock.
    let latest = connection.number(
        "SELECT max(clock) FROM (SELECT max(first_failed_clock) AS clock FROM health
             UNION ALL SELECT max(warned_clock) FROM health) AS written",
        &[],
    )?;
    let written = adjusted_clock::clock(connection)?.map_or(Duration::ZERO, |(clock, _)| clock);
    let failing = connection.all(
        "SELECT endpoint FROM health WHERE consecutive_failures >= ?1 ORDER BY endpoint",
        params![FAILING_AFTER_FAILURES],
        |row| row.get(0),
    )?;
    let paused =
        "SELECT endpoint, paused_until, paused_status FROM health WHERE paused_until > ?1 ORDER BY endpoint";
    let paused = connection.all(paused, params![now], |row| {
        let endpoint = row.get(0)?;
        Ok(read_pause(row, 1)?.map(|paused| (endpoint, paused)))
    })?;
    Ok(HealthBootstrap {
        adjusted_time: written.max(adjusted_clock::duration(latest)),
        failing,
        paused: paused.into_iter().flatten().collect(),
        healthy: statistics::healthy_endpoints(connection, Resolution::Hour.first_of(HEALTHY_WITHIN, now))?,
    })
}

pub(in crate::store) fn report(
    connection: &dyn Sql,
    app: AppId,
    endpoint: EndpointId,
    now: Timestamp,
) -> Result<HealthReport> {
    let whose = (app, endpoint);
    let window = |hours| statistics::window(connection, whose, HOUR * hours, now);
    let ever = statistics::since(connection, whose, Resolution::Hour, Timestamp::from_millis(0))?;
    Ok(HealthReport {
        health: read(connection, endpoint)?.unwrap_or_default(),
        hour: window(1)?,
        day: window(24)?,
        three_days: window(72)?,
        last_success_at: ever.last_ok_at,
        clock: adjusted_clock::clock(connection)?,
    })
}

/// Returns the endpoints of an app that are degraded or failing.
pub(in crate::store) fn unhealthy_endpoints(connection: &dyn Sql, app: AppId) -> Result<Vec<EndpointId>> {
    connection.all(
        "SELECT endpoint FROM health WHERE app = ?1 AND (degraded_since IS NOT NULL OR failing_since IS NOT NULL)",
        params![app],
        |row| row.get(0),
    )
}

pub(in crate::store) fn degraded(connection: &dyn Sql) -> Result<Vec<EndpointId>> {
    connection.all("SELECT endpoint FROM health WHERE degraded_since IS NOT NULL", &[], |row| row.get(0))
}
