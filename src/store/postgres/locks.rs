//! The rows that stand for what is read to be changed: whoever has one locked is alone with it.

/// Kinds of rows in `locks`.
pub(super) const LINES: i64 = 0;
pub(super) const HEALTH: i64 = 1;
pub(super) const DIGESTS: i64 = 2;

/// One parameter for many numbers.
macro_rules! numbers {
    ($param:literal) => {
        concat!("unnest(CAST(string_to_array(", $param, ", ' ') AS bigint[]))")
    };
}

/// The rows that a batch is going to lock; those of health that is not well are in the way of successes as well.
macro_rules! wanted {
    () => {
        concat!(
            "SELECT 0 AS kind, lane AS endpoint FROM ",
            numbers!("?1"),
            " AS lane
             UNION SELECT 1, failed FROM ",
            numbers!("?2"),
            " AS failed
             UNION SELECT 1, h.endpoint FROM ",
            numbers!("?3"),
            " AS ok JOIN health h ON h.endpoint = ok
                 WHERE h.consecutive_failures > 0 OR h.failed_events > 0 OR h.failing_since IS NOT NULL
                     OR h.degraded_since IS NOT NULL OR h.told_by IS NOT NULL
             UNION SELECT 2, app FROM ",
            numbers!("?4"),
            " AS app"
        )
    };
}

pub(super) const MAKE_LOCKS: &str = concat!(
    "INSERT INTO locks (kind, endpoint) SELECT w.kind, w.endpoint FROM (",
    wanted!(),
    ") AS w
         WHERE NOT EXISTS (SELECT 1 FROM locks l WHERE l.kind = w.kind AND l.endpoint = w.endpoint)
         ORDER BY 1, 2 ON CONFLICT DO NOTHING"
);
pub(super) const TAKE_LOCKS: &str = concat!(
    "SELECT l.kind, l.endpoint FROM locks l JOIN (",
    wanted!(),
    ") AS w ON w.kind = l.kind AND w.endpoint = l.endpoint
     ORDER BY 1, 2 FOR UPDATE OF l"
);

/// Rows for all endpoints that are known to have failed: a batch relies on their being there.
pub(super) const LOCK_ALL_HEALTH: &str =
    "INSERT INTO locks (kind, endpoint) SELECT 1, endpoint FROM health ON CONFLICT DO NOTHING";
