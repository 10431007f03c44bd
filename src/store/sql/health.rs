//! Endpoint health: read and written in the transaction of the attempt that changes it, together with its notices. An
//! endpoint that never failed has no row, and a success of one whose row is clean writes nothing.

use super::{
    Result, Row, Sql, accountable,
    ledger::{switch_endpoint_off, switch_of},
    notices, params, statistics,
};
use crate::{
    domain::{
        circuit::PausedUntil,
        contract::{Channel, Contract},
        delivery::{Delivery, Switch},
        endpoint::SwitchedOff,
        event::{Event, TEST_EVENT_TYPE},
        health::{About, FAILING_AFTER, Failure, Health, Moment, News, State, Told, Windows},
        id::{AppId, EndpointId},
        outcome::Class,
        statistics::{Sums, Width},
        time::Timestamp,
        verdict::{DeadReason, Verdict},
    },
    store::{
        browse::HealthReport,
        cluster::{Standing, Suspect},
        ledger::Record,
    },
};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);
/// Endpoints that accepted a delivery within this time count as answering.
const WELL_WITHIN: Duration = Duration::from_hours(72);

macro_rules! columns {
    () => {
        "consecutive_failures, failed_events, first_failed_at, first_failed_clock, last_error, warned_at,
         warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel, notified_since,
         paused_until, paused_status"
    };
}

/// Runs for every delivery that is recorded.
const READ: &str = concat!("SELECT ", columns!(), " FROM health WHERE endpoint = ?1");
/// Reads health together with the outage-adjusted time of all nodes.
const READ_WITH_CLOCK: &str = concat!(
    "SELECT ",
    columns!(),
    ", (SELECT clock FROM adjusted_clock) FROM (SELECT 1 AS one) AS one LEFT JOIN health ON endpoint = ?1"
);
const COLUMNS: usize = 15;
const WRITE: &str = "INSERT INTO health (endpoint, app, consecutive_failures, failed_events, first_failed_at,
     first_failed_clock, last_error, warned_at, warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel,
     notified_since, paused_until, paused_status)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
     ON CONFLICT (endpoint) DO UPDATE SET (app, consecutive_failures, failed_events, first_failed_at, first_failed_clock,
     last_error, warned_at, warned_clock, successes, degraded_since, failing_since, healthy_since, notified_channel, notified_since,
     paused_until, paused_status) = (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

fn read_row(row: &Row<'_>) -> Result<Health> {
    let moment = |at: usize| -> Result<Option<Moment>> {
        let clock: Option<i64> = row.get(at + 1)?;
        let at: Option<Timestamp> = row.get(at)?;
        Ok(at.zip(clock).map(|(at, clock)| Moment { at, clock: accountable::duration(clock) }))
    };
    let told_by: Option<Channel> = row.get(11)?;
    Ok(Health {
        consecutive_failures: row.get(0)?,
        failed_events: row.get(1)?,
        first_failure: moment(2)?,
        last_error: row.get(4)?,
        warned: moment(5)?,
        successes: row.get(7)?,
        degraded_since: row.get(8)?,
        failing_since: row.get(9)?,
        healthy_since: row.get(10)?,
        told: told_by.zip(row.get(12)?).map(|(by, since)| Told { by, since }),
        paused: read_pause(row, 13)?,
    })
}

fn read_pause(row: &Row<'_>, first: usize) -> Result<Option<PausedUntil>> {
    let until: Option<Timestamp> = row.get(first)?;
    Ok(until.zip(row.get(first + 1)?).map(|(until, status)| PausedUntil { status, until }))
}

pub(super) fn read(connection: &dyn Sql, endpoint: EndpointId) -> Result<Option<Health>> {
    connection.one(READ, params![endpoint], read_row)
}

/// Reads health with outage-adjusted time, of which this node may know less than others.
fn read_with_clock(tx: &dyn Sql, endpoint: EndpointId, mine: Duration) -> Result<(Health, Duration)> {
    let found = tx.one(READ_WITH_CLOCK, params![endpoint], |row| {
        let health = match row.get::<Option<u32>>(0)? {
            Some(_) => read_row(row)?,
            None => Health::default(),
        };
        let written: Option<i64> = row.get(COLUMNS)?;
        Ok((health, written.map_or(mine, |written| accountable::duration(written).max(mine))))
    })?;
    Ok(found.unwrap_or_else(|| (Health::default(), mine)))
}

fn write(tx: &dyn Sql, app: AppId, endpoint: EndpointId, health: &Health) -> Result<()> {
    let clock = |moment: Option<Moment>| moment.map(|moment| moment.clock.as_millis() as i64);
    tx.execute(
        WRITE,
        params![
            endpoint,
            app,
            health.consecutive_failures,
            health.failed_events,
            health.first_failure.map(|moment| moment.at),
            clock(health.first_failure),
            health.last_error,
            health.warned.map(|moment| moment.at),
            clock(health.warned),
            health.successes,
            health.degraded_since,
            health.failing_since,
            health.healthy_since,
            health.told.map(|told| told.by),
            health.told.map(|told| told.since),
            health.paused.map(|paused| paused.until),
            health.paused.map(|paused| paused.status),
        ],
    )?;
    Ok(())
}

/// Resets the health of an endpoint that was enabled: earlier failures do not count any more.
pub(super) fn start_afresh(tx: &dyn Sql, app: AppId, endpoint: EndpointId, at: Timestamp) -> Result<()> {
    tx.lock_health(endpoint)?;
    // Channels that were notified of its trouble are also notified when it works again.
    let told = read(tx, endpoint)?.and_then(|health| health.told);
    write(tx, app, endpoint, &Health { healthy_since: Some(at), told, ..Health::default() })
}

pub(super) fn forget(tx: &dyn Sql, endpoint: EndpointId) -> Result<()> {
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
pub(super) fn ends_failed(record: &Record) -> bool {
    let is_refusal = matches!(
        record.verdict,
        Verdict::Dead { reason: DeadReason::Exhausted | DeadReason::RefusedByReceiver, .. }
    );
    is_refusal && !record.carried.delivery.goes_back(&record.verdict)
}

/// The endpoint's health after a result, not written yet.
pub(super) struct Seen<'a> {
    record: &'a Record,
    contract: &'a Contract,
    was: State,
    health: Health,
    news: Vec<News>,
}

/// Computes the health after a result; `None` if nothing changes. The result of an endpoint that was disabled meanwhile
/// changes nothing.
pub(super) fn see<'a>(tx: &dyn Sql, record: &'a Record, switch: Switch) -> Result<Option<Seen<'a>>> {
    let Record { carried, attempts, ended_at, .. } = record;
    let (Some(sighting), Some(contract)) = (&record.sighting, &record.contract) else { return Ok(None) };
    let Some(last) = attempts.last().filter(|_| switch == Switch::On) else { return Ok(None) };
    let endpoint = carried.delivery.endpoint;
    if last.outcome.class == Class::Ok {
        // For most endpoints nothing changes, and nothing is locked for them.
        if read(tx, endpoint)?.is_none_or(|health| health.is_clean()) {
            return Ok(None);
        }
        tx.lock_health(endpoint)?;
        let known = read(tx, endpoint)?;
        let Some(mut health) = known.filter(|health| !health.is_clean()) else { return Ok(None) };
        if switch_of(tx, carried.delivery.endpoint)? != Switch::On {
            return Ok(None);
        }
        let was = health.state();
        let news = health.succeeded(*ended_at).into_iter().collect();
        return Ok(Some(Seen { record, contract, was, health, news }));
    }
    tx.lock_health(endpoint)?;
    let (mut health, clock) = read_with_clock(tx, endpoint, sighting.clock)?;
    let was = health.state();
    let failure = Failure {
        at: *ended_at,
        clock,
        error: last.outcome.error.as_deref().unwrap_or("no answer"),
        // One event that people send again and again is still one event.
        ends_event: ends_failed(record) && carried.delivery.restarted_at.is_none(),
    };
    let mut news = health.failed(&failure, contract);
    health.pause(sighting.paused);
    if record.switch_off.is_some() {
        news = vec![News::Gone];
    } else if matches!(news[..], [News::FailingTooLong { .. }])
        && notices::warning_waits(tx, carried.delivery.app, carried.delivery.endpoint)?
    {
        // An endpoint counts as warned only once the warning was sent.
        news.clear();
    }
    Ok(Some(Seen { record, contract, was, health, news }))
}

impl Seen<'_> {
    /// Returns how the endpoint is disabled, if a rule says so.
    pub(super) fn off(&self) -> Option<SwitchedOff> {
        self.news.iter().find_map(|news| news.off(self.contract, self.record.ended_at))
    }

    /// Writes health and notices; returns whether the endpoint's health state changed.
    pub(super) fn write(self, tx: &dyn Sql) -> Result<bool> {
        let Delivery { app, endpoint, .. } = self.record.carried.delivery;
        write(tx, app, endpoint, &self.health)?;
        let about = About {
            app,
            endpoint,
            contract: self.contract,
            at: self.record.ended_at,
            last_error: self.health.last_error.as_deref(),
        };
        self.news.iter().try_for_each(|news| notices::put(tx, &news.notice(&about)))?;
        Ok(self.health.state() != self.was)
    }
}

/// Counts a delivery that died when its final wait was over because the receiver did not accept it;
/// `Cluster::judge` learns of it from the statistics.
pub(super) fn event_failed(tx: &dyn Sql, delivery: &Delivery, event: &Event) -> Result<()> {
    if event.event_type == TEST_EVENT_TYPE || delivery.restarted_at.is_some() {
        return Ok(());
    }
    tx.lock_health(delivery.endpoint)?;
    let mut health = read(tx, delivery.endpoint)?.unwrap_or_default();
    health.event_failed();
    write(tx, delivery.app, delivery.endpoint, &health)
}

/// Result of a health evaluation.
#[derive(Default)]
pub(super) struct Judged {
    /// Endpoints that were disabled, how, and their revision now.
    pub(super) went_off: Vec<(EndpointId, SwitchedOff, u32)>,
    /// Endpoints whose health state changed.
    pub(super) turned: Vec<(AppId, EndpointId)>,
}

pub(super) fn judge(tx: &dyn Sql, suspects: &[Suspect], now: Timestamp) -> Result<Judged> {
    let mut judged = Judged::default();
    for Suspect { app, endpoint, contract } in suspects {
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
        let degraded = contract.health.degraded_window.map_or_else(|| Ok(Sums::default()), window)?;
        let windows = Windows { last_hour: window(HOUR)?, degraded };
        let news = health.judge(&windows, contract, now);
        if let Some(off) = news.and_then(|news| news.off(contract, now)) {
            let Some(revision) = switch_endpoint_off(tx, *endpoint, &off)? else { continue };
            judged.went_off.push((*endpoint, off, revision));
        }
        if known.as_ref() != Some(&health) && health != Health::default() {
            write(tx, *app, *endpoint, &health)?;
        }
        if known.map_or(State::Healthy, |known| known.state()) != health.state() {
            judged.turned.push(whose);
        }
        if let Some(news) = news {
            let last_error = health.last_error.as_deref();
            let about = About { app: *app, endpoint: *endpoint, contract, at: now, last_error };
            notices::put(tx, &news.notice(&about))?;
        }
    }
    Ok(judged)
}

pub(super) fn standing(connection: &dyn Sql, now: Timestamp) -> Result<Standing> {
    // A crash may have come between an attempt and the next write of the clock.
    let latest = connection.number(
        "SELECT max(clock) FROM (SELECT max(first_failed_clock) AS clock FROM health
             UNION ALL SELECT max(warned_clock) FROM health) AS written",
        &[],
    )?;
    let written = accountable::clock(connection)?.map_or(Duration::ZERO, |(clock, _)| clock);
    let failing = connection.all(
        "SELECT endpoint FROM health WHERE consecutive_failures >= ?1 ORDER BY endpoint",
        params![FAILING_AFTER],
        |row| row.get(0),
    )?;
    let paused =
        "SELECT endpoint, paused_until, paused_status FROM health WHERE paused_until > ?1 ORDER BY endpoint";
    let paused = connection.all(paused, params![now], |row| {
        let endpoint = row.get(0)?;
        Ok(read_pause(row, 1)?.map(|paused| (endpoint, paused)))
    })?;
    Ok(Standing {
        accountable: written.max(accountable::duration(latest)),
        failing,
        paused: paused.into_iter().flatten().collect(),
        well: statistics::well(connection, Width::Hour.first_of(WELL_WITHIN, now))?,
    })
}

pub(super) fn report(
    connection: &dyn Sql,
    app: AppId,
    endpoint: EndpointId,
    now: Timestamp,
) -> Result<HealthReport> {
    let whose = (app, endpoint);
    let window = |hours| statistics::window(connection, whose, HOUR * hours, now);
    let ever = statistics::since(connection, whose, Width::Hour, Timestamp::from_millis(0))?;
    Ok(HealthReport {
        health: read(connection, endpoint)?.unwrap_or_default(),
        hour: window(1)?,
        day: window(24)?,
        three_days: window(72)?,
        last_success_at: ever.last_ok_at,
        clock: accountable::clock(connection)?,
    })
}

/// Returns the endpoints of an app that are degraded or failing.
pub(super) fn in_trouble(connection: &dyn Sql, app: AppId) -> Result<Vec<EndpointId>> {
    connection.all(
        "SELECT endpoint FROM health WHERE app = ?1 AND (degraded_since IS NOT NULL OR failing_since IS NOT NULL)",
        params![app],
        |row| row.get(0),
    )
}

pub(super) fn degraded(connection: &dyn Sql) -> Result<Vec<EndpointId>> {
    connection.all("SELECT endpoint FROM health WHERE degraded_since IS NOT NULL", &[], |row| row.get(0))
}
