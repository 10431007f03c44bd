//! Commits a simple batch as one statement, which is its own transaction: one round trip, and a stalled node leaves nothing
//! locked. The statement stores all of the batch or nothing. If it stores nothing, because an endpoint is unhealthy, a key is
//! known or the writer is fenced, the batch is written in steps (`bulk_commit.rs`), where each case is handled.

use super::{
    bulk_accept::{ACCEPT_PARAMS, BulkAccept, CLAIM_PARAMS, NewEventRows, accepting, claiming},
    bulk_complete::{BulkComplete, COMPLETE_PARAMS, recording},
    columns::{ColumnRows, ColumnTypes},
    locks::IS_UNHEALTHY,
    statement::{Statement, StatementResult},
};
use crate::{
    domain::id::EndpointId,
    store::sql::{BulkOp, Command, NEWEST_NOTICE, Result, Row, WriterId, added_by, params},
};
use std::{
    collections::{BTreeSet, HashSet},
    sync::LazyLock,
};

const ENDPOINTS: ColumnTypes = ColumnTypes("n");
const DOCUMENTS: ColumnTypes = ColumnTypes("t");

/// Joined with rows, so that they are written only if the batch was counted.
const IF_COUNTED: &str = "counted, ";
/// Fails the statement, and so rolls all of it back, if a delivery is not leased any more.
const FAIL_UNLESS_ALL_LEASED: &str = ", CAST(CASE (SELECT count(*) FROM ended) - (SELECT count(*) FROM gone)
     WHEN 0 THEN '0' ELSE 'a delivery of the batch is no longer in flight' END AS bigint)";

/// Optional parts of a batch.
#[derive(Clone, Copy)]
struct BatchParts {
    ends: bool,
    keys: bool,
    accepted: bool,
}

/// A statement for each combination of parts.
static STATEMENTS: LazyLock<[String; 8]> = LazyLock::new(|| {
    std::array::from_fn(|number| {
        let has = |part: usize| number & part != 0;
        statement(BatchParts { ends: has(1), keys: has(2), accepted: has(4) })
    })
});

fn statement(parts: BatchParts) -> String {
    // After the epoch and the last batch.
    let mut next = 3;
    let mut take = |count: usize| {
        next += count;
        next - count
    };
    let added = DOCUMENTS.unnest(take(1));
    let log =
        format!("INSERT INTO statistics_log (document) SELECT added.* FROM {IF_COUNTED}{added} AS added");
    let (mut steps, mut answer) = (vec![format!("logged AS ({log})")], "");
    let mut counts_if = vec!["epoch = CAST(?1 AS bigint) AND writer = 0 AND batch = ?2".to_owned()];
    if parts.ends {
        let endpoints = format!("ANY (CAST(?{} AS bigint[]))", take(1));
        let unhealthy = format!("SELECT 1 FROM health h WHERE h.endpoint = {endpoints} AND {IS_UNHEALTHY}");
        counts_if.push(format!("NOT EXISTS ({unhealthy})"));
        steps.push(recording(IF_COUNTED, "-CAST(?1 AS bigint)", take(COMPLETE_PARAMS)));
        answer = FAIL_UNLESS_ALL_LEASED;
    }
    if parts.keys {
        let first = take(CLAIM_PARAMS);
        let keys = format!("ANY (CAST(?{first} AS bytea[]))");
        counts_if.push(format!("NOT EXISTS (SELECT 1 FROM dedup d WHERE d.key = {keys})"));
        steps.push(format!("claimed AS ({})", claiming(IF_COUNTED, first)));
    }
    if parts.accepted {
        let [events, deliveries] = accepting(IF_COUNTED, take(ACCEPT_PARAMS));
        steps.push(format!("published AS ({events}), deliveries_new AS ({deliveries})"));
    }
    format!(
        "WITH counted AS (
             UPDATE writer_batches SET batch = batch + 1 WHERE {} RETURNING 1),
         {}
         SELECT (SELECT count(*) FROM counted), ({NEWEST_NOTICE}){answer}",
        counts_if.join(" AND "),
        steps.join(", ")
    )
}

/// A simple batch, as it is stored.
pub(super) struct SimpleBatch {
    added: ColumnRows,
    /// The endpoints that have to be healthy, and the deliveries that ended at them.
    ended: Option<(ColumnRows, ColumnRows)>,
    claims: Option<ColumnRows>,
    accepted: Option<NewEventRows>,
}

impl SimpleBatch {
    /// Makes the batch; `None` if a command in it needs more. A delivery to one of these endpoints qualifies if that is
    /// healthy.
    pub(super) fn of(
        writer_id: WriterId,
        batch: &mut [Box<dyn Command>],
        endpoints: &BTreeSet<EndpointId>,
    ) -> Result<Option<Self>> {
        if batch.iter_mut().any(|work| matches!(work.bulk_op(), BulkOp::NotBulk)) {
            return Ok(None);
        }
        let (mut accepted, mut ends) = (BulkAccept::default(), BulkComplete::default());
        for (index, work) in batch.iter_mut().enumerate() {
            match work.bulk_op() {
                BulkOp::Accept(accept) => {
                    for (number, new) in accept.start(writer_id.epoch).iter().enumerate() {
                        // A known key must be found before the id is checked.
                        let is_own_id = writer_id.check_id(new.event.id.as_i64()).is_ok();
                        if !is_own_id || !new.needs_no_decision() || accepted.has_any_key(new) {
                            return Ok(None);
                        }
                        accepted.push((index, number), new);
                    }
                }
                BulkOp::Record(recording) if !ends.has(recording.delivery()) => {
                    let Some(delivery) = recording.as_simple_delivery(writer_id.epoch, |_| true) else {
                        return Ok(None);
                    };
                    ends.push(index, recording, delivery)?;
                }
                BulkOp::Nothing => {}
                _ => return Ok(None),
            }
        }
        let ended = match ends.rows() {
            None => None,
            Some(ended) => {
                let mut well = ColumnRows::new(ENDPOINTS);
                endpoints.iter().try_for_each(|endpoint| well.push(params![endpoint]))?;
                Some((well, ended))
            }
        };
        let (claims, accepted) =
            (accepted.claims(batch)?, accepted.new_rows(writer_id, batch, &HashSet::new())?);
        ends.set_results(|_| true, batch);
        let mut added = ColumnRows::new(DOCUMENTS);
        added_by(batch)?.iter().try_for_each(|document| added.push(params![document]))?;
        Ok(Some(Self { added, ended, claims, accepted }))
    }

    /// Runs the statement for the batch after `last`, through `ask`.
    pub(super) fn run<T>(&self, writer_id: WriterId, last: i64, ask: impl FnOnce(Statement<'_>) -> T) -> T {
        let Self { added, ended, claims, accepted } = self;
        let number = usize::from(ended.is_some())
            | usize::from(claims.is_some()) << 1
            | usize::from(accepted.is_some()) << 2;
        let ended = ended.iter().flat_map(|(well, ended)| [well, ended]);
        let accepted = accepted.iter().flat_map(NewEventRows::rows);
        let rows: Vec<&ColumnRows> = [added].into_iter().chain(ended).chain(claims).chain(accepted).collect();
        ask(Statement::Query(&STATEMENTS[number], params![writer_id.epoch, last], &rows))
    }
}

/// Returns the newest notice; `None` if nothing was stored.
pub(super) fn stored(answer: &StatementResult) -> Result<Option<i64>> {
    let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?));
    let rows: Vec<(i64, Option<i64>)> = answer.read(read)?;
    Ok(rows.first().filter(|(counted, _)| *counted > 0).map(|(_, newest)| newest.unwrap_or_default()))
}
