//! Attempt history: one row for each request. Response headers are kept only when it failed.

use super::{Error, Result, Row, Sql, ToValue, params, row::named};
use crate::domain::{
    contract::ContractHash,
    id::{AttemptId, DeliveryId},
    outcome::{Attempt, Outcome, OutcomeClass, Timings},
    time::Timestamp,
};
use crate::store::queries::AttemptRow;
use bytes::Bytes;

macro_rules! columns {
    () => {
        "delivery, position, number, started_at, total_us, dns_us, connect_us, tls_us, first_byte_us, address, status, class,
         error, contract, revision, response_headers, response_body, url, note"
    };
}

/// Columns that `rows` writes, in its order.
pub(in crate::store) const COLUMNS_WRITTEN: &str = columns!();

const INSERT: &str = concat!(
    "INSERT INTO attempts (",
    columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
);

/// Adds attempts from `position` on; those that use a retry slot are numbered from `number` on, if there is one.
pub(super) fn insert(
    tx: &dyn Sql,
    delivery: DeliveryId,
    position: u32,
    number: Option<u32>,
    attempts: &[Attempt],
) -> Result<()> {
    rows(delivery, position, number, attempts, &mut |row| tx.execute(INSERT, row).map(drop))
}

/// Passes on the rows of these attempts.
pub(super) fn rows(
    delivery: DeliveryId,
    position: u32,
    mut number: Option<u32>,
    attempts: &[Attempt],
    write: &mut dyn FnMut(&[&dyn ToValue]) -> Result<()>,
) -> Result<()> {
    for (index, attempt) in (position..).zip(attempts) {
        let Attempt { outcome, .. } = attempt;
        let numbered = number.filter(|_| outcome.class.is_numbered());
        number = numbered.map(|number| number + 1).or(number);
        let failed = outcome.class != OutcomeClass::Ok && !outcome.response_headers.is_empty();
        write(params![
            delivery,
            index,
            numbered,
            attempt.started_at,
            outcome.timings.total_us,
            outcome.timings.dns_us,
            outcome.timings.connect_us,
            outcome.timings.tls_us,
            outcome.timings.first_byte_us,
            outcome.address.map(|address| address.to_string()),
            outcome.status,
            class_number(outcome.class),
            outcome.error,
            attempt.contract.0,
            attempt.endpoint_revision,
            failed.then(|| write_headers(&outcome.response_headers)),
            (!outcome.response_body.is_empty()).then_some(&outcome.response_body[..]),
            attempt.url,
            attempt.note,
        ])?;
    }
    Ok(())
}

pub(super) fn insert_unknown_outcome(
    tx: &dyn Sql,
    delivery: DeliveryId,
    position: u32,
    note: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    let error = "the node stopped while this request may have been on its way";
    tx.execute(
        INSERT,
        params![
            delivery,
            position,
            None::<u32>,
            now,
            0_i64,
            None::<u32>,
            None::<u32>,
            None::<u32>,
            None::<u32>,
            None::<String>,
            None::<u16>,
            class_number(OutcomeClass::Unknown),
            error,
            None::<Vec<u8>>,
            None::<u32>,
            None::<Vec<u8>>,
            None::<Vec<u8>>,
            None::<String>,
            note,
        ],
    )?;
    Ok(())
}

/// Returns the error message of the last attempt.
pub(super) fn last_error(connection: &dyn Sql, delivery: DeliveryId) -> Result<Option<String>> {
    connection
        .one(
            "SELECT error FROM attempts WHERE delivery = ?1 ORDER BY position DESC LIMIT 1",
            params![delivery],
            |row| row.get(0),
        )
        .map(Option::flatten)
}

/// The columns that `attempt_row` reads, in its order.
const COLUMNS: &str = "position, number, started_at, total_us, dns_us, connect_us, tls_us, first_byte_us, address, status, class, \
     error, contract, revision, response_headers, response_body, url, note";

pub(super) fn list(connection: &dyn Sql, delivery: DeliveryId) -> Result<Vec<AttemptRow>> {
    connection.all(
        &format!("SELECT {COLUMNS} FROM attempts WHERE delivery = ?1 ORDER BY position"),
        params![delivery],
        |row| attempt_row(row, delivery),
    )
}

/// Returns the last attempts, newest first.
pub(super) fn latest(connection: &dyn Sql, delivery: DeliveryId, most: i64) -> Result<Vec<AttemptRow>> {
    connection.all(
        &format!("SELECT {COLUMNS} FROM attempts WHERE delivery = ?1 ORDER BY position DESC LIMIT ?2"),
        params![delivery, most],
        |row| attempt_row(row, delivery),
    )
}

fn attempt_row(row: &Row<'_>, delivery: DeliveryId) -> Result<AttemptRow> {
    let id = AttemptId { delivery, position: row.get(0)? };
    named(id, read_attempt(row, id.position))
}

fn read_attempt(row: &Row<'_>, position: u32) -> Result<AttemptRow> {
    let bytes = |column| Ok::<_, Error>(row.get::<Option<Vec<u8>>>(column)?.unwrap_or_default());
    Ok(AttemptRow {
        position,
        number: row.get(1)?,
        attempt: Attempt {
            started_at: row.get(2)?,
            outcome: Outcome {
                class: class_from(row.get(10)?)?,
                status: row.get(9)?,
                error: row.get(11)?,
                timings: Timings {
                    total_us: row.get(3)?,
                    dns_us: row.get(4)?,
                    connect_us: row.get(5)?,
                    tls_us: row.get(6)?,
                    first_byte_us: row.get(7)?,
                },
                address: row.get::<Option<String>>(8)?.and_then(|text| text.parse().ok()),
                retry_after: None,
                response_headers: read_headers(bytes(14)?),
                response_body: Bytes::from(bytes(15)?),
            },
            contract: ContractHash(row.get::<Option<[u8; 16]>>(12)?.unwrap_or_default()),
            endpoint_revision: row.get::<Option<u32>>(13)?.unwrap_or_default(),
            url: row.get(16)?,
            note: row.get(17)?,
        },
    })
}

pub(super) fn class_number(class: OutcomeClass) -> i64 {
    OutcomeClass::ALL.iter().position(|known| *known == class).unwrap_or(0) as i64
}

pub(super) fn class_from(number: i64) -> Result<OutcomeClass> {
    let known = usize::try_from(number).ok().and_then(|index| OutcomeClass::ALL.get(index).copied());
    known.ok_or_else(|| Error::Wrong(format!("{number} is no class")))
}

/// Name, colon, value, line feed: neither a name nor a value can hold a line feed.
fn write_headers(headers: &[(String, Bytes)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in headers {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

fn read_headers(text: Vec<u8>) -> Vec<(String, Bytes)> {
    let text = Bytes::from(text);
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            Some((name, Bytes::copy_from_slice(&line[colon + 1..])))
        })
        .collect()
}
