//! Lock rows, for what is read to be changed: a transaction that has one locked is the only one to do so.

use super::statement::Statement;
use crate::{
    domain::id::{AppId, EndpointId},
    store::sql::{Locks, ToValue},
};

/// Kinds of rows in `locks`.
pub(super) const ORDERING: i64 = 0;
pub(super) const HEALTH: i64 = 1;
pub(super) const DIGESTS: i64 = 2;

/// Passes many numbers as one parameter. The plan must not depend on how many: otherwise the server would make a new one each
/// time.
macro_rules! numbers {
    ($param:literal) => {
        concat!("unnest((SELECT CAST(string_to_array(", $param, ", ' ') AS bigint[])))")
    };
}

/// Condition on a row `h` of `health`: failures or trouble of the endpoint are recorded. The writer calls it unhealthy then, even
/// if its state is still `healthy`.
macro_rules! unhealthy {
    () => {
        "(h.consecutive_failures > 0 OR h.failed_events > 0 OR h.failing_since IS NOT NULL
             OR h.degraded_since IS NOT NULL OR h.notified_channel IS NOT NULL)"
    };
}

pub(super) const IS_UNHEALTHY: &str = unhealthy!();

/// Selects the rows that a batch is going to lock; a success locks the health of its endpoint only if that is unhealthy.
macro_rules! wanted {
    () => {
        concat!(
            "SELECT 0 AS kind, queue AS endpoint FROM ",
            numbers!("?1"),
            " AS queue
             UNION SELECT 1, failed FROM ",
            numbers!("?2"),
            " AS failed
             UNION SELECT 1, h.endpoint FROM ",
            numbers!("?3"),
            " AS ok JOIN health h ON h.endpoint = ok WHERE ",
            unhealthy!(),
            " UNION SELECT 2, app FROM ",
            numbers!("?4"),
            " AS app"
        )
    };
}

const MAKE_LOCKS: &str = concat!(
    "INSERT INTO locks (kind, endpoint) SELECT w.kind, w.endpoint FROM (",
    wanted!(),
    ") AS w
         WHERE NOT EXISTS (SELECT 1 FROM locks l WHERE l.kind = w.kind AND l.endpoint = w.endpoint)
         ORDER BY 1, 2 ON CONFLICT DO NOTHING"
);
const TAKE_LOCKS: &str = concat!(
    "SELECT l.kind, l.endpoint FROM locks l JOIN (",
    wanted!(),
    ") AS w ON w.kind = l.kind AND w.endpoint = l.endpoint
     ORDER BY 1, 2 FOR UPDATE OF l"
);

/// Inserts lock rows for all endpoints that have failed: a batch relies on their existence.
pub(super) const LOCK_ALL_HEALTH: &str =
    "INSERT INTO locks (kind, endpoint) SELECT 1, endpoint FROM health ON CONFLICT DO NOTHING";

/// The locks of a batch, as parameters of its statements.
pub(super) struct LockRequest {
    numbers: [String; 4],
    is_any: bool,
    /// All rows exist: an unhealthy endpoint's row was inserted when it failed.
    has_all_rows: bool,
}

impl LockRequest {
    pub(super) fn of(locks: &Locks) -> Self {
        fn numbers<T: Copy>(ids: impl IntoIterator<Item = T>, number: fn(T) -> i64) -> String {
            ids.into_iter().map(|id| number(id).to_string()).collect::<Vec<_>>().join(" ")
        }
        let Locks { queues: ids, health, health_if_unhealthy: health_if_unwell, digests } = locks;
        let has_all_rows = locks.is_conditional();
        let is_any = !has_all_rows || !health_if_unwell.is_empty();
        let of_endpoints =
            [ids, health, health_if_unwell].map(|ids| numbers(ids.iter().copied(), EndpointId::as_i64));
        let [ids, health, unhealthy] = of_endpoints;
        let digests = numbers(digests.iter().copied(), AppId::as_i64);
        Self { numbers: [ids, health, unhealthy, digests], is_any, has_all_rows }
    }

    pub(super) fn params(&self) -> [&dyn ToValue; 4] {
        self.numbers.each_ref().map(|numbers| numbers as &dyn ToValue)
    }

    /// Returns the statements, of which the last returns the rows locked then.
    pub(super) fn statements<'a>(
        &self,
        params: &'a [&'a dyn ToValue],
    ) -> impl Iterator<Item = Statement<'a>> + use<'a> {
        let make = (!self.has_all_rows).then_some(Statement::Change(MAKE_LOCKS, params, &[]));
        let take = self.is_any.then_some(Statement::Query(TAKE_LOCKS, params, &[]));
        make.into_iter().chain(take)
    }
}
