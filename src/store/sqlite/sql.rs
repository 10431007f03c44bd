//! Runs the shared statements on a SQLite connection; deliveries are one table here. There is one writer, so that nothing has
//! to be locked.

use crate::{
    domain::{
        delivery::Delivery,
        id::{AppId, DeliveryId, EndpointId},
        ordering::OrderingKey,
        time::Timestamp,
    },
    store::sql::{
        Columns, ConfigChange, Error, ExpectedState, Result, Row, Sql, ToValue, Value, params, queue_column,
        write_saved_state,
    },
};
use rusqlite::{
    Connection, Params, ToSql, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use std::ops::ControlFlow;

struct Bound<'a>(Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn bound(params: &[&dyn ToValue]) -> impl Params {
    params_from_iter(params.iter().map(|param| Bound(param.value())))
}

impl Columns for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Result<Value<'_>> {
        let wrong = |what: &str| Error::Wrong(format!("column {column}: {what}"));
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Text(text) => {
                Value::Text(std::str::from_utf8(text).map_err(|error| wrong(&error.to_string()))?)
            }
            ValueRef::Blob(bytes) => Value::Blob(bytes),
            ValueRef::Real(_) => return Err(wrong("a fraction")),
        })
    }
}

impl Sql for Connection {
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        Ok(self.prepare_cached(sql)?.execute(bound(params))?)
    }

    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(bound(params))?;
        while let Some(row) = rows.next()? {
            if each(&Row::new(row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()> {
        insert_delivery(self, delivery, 0)
    }

    fn replace_delivery(&self, was: ExpectedState, delivery: &Delivery) -> Result<bool> {
        replace_delivery(self, was, delivery, 0)
    }

    fn promote(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()> {
        let sql = "UPDATE deliveries SET due = ?2, order_seq = NULL WHERE id = ?1";
        Sql::execute(self, sql, params![delivery, due])?;
        Ok(())
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderingKey>)>> {
        let sql = "DELETE FROM deliveries WHERE id = ?1 RETURNING endpoint, ordering_key";
        (self as &dyn Sql).one(sql, params![delivery], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn delete_deliveries(&self, app: AppId, after: i64, upto: i64) -> Result<()> {
        let sql = "DELETE FROM deliveries WHERE app = ?1 AND id > ?2 AND id <= ?3";
        Sql::execute(self, sql, params![app, after, upto])?;
        Ok(())
    }

    fn lock_queue(&self, _: EndpointId) -> Result<()> {
        Ok(())
    }

    fn lock_health(&self, _: EndpointId) -> Result<()> {
        Ok(())
    }

    fn lock_digests(&self, _: AppId) -> Result<()> {
        Ok(())
    }

    fn lock_delivery(&self, _: DeliveryId) -> Result<()> {
        Ok(())
    }

    fn to_change(&self) -> (&'static str, &'static str) {
        ("deliveries", "")
    }

    fn epoch(&self) -> i64 {
        0
    }

    fn log_change(&self, _: ConfigChange) -> Result<()> {
        Ok(())
    }
}

/// Inserts a delivery; one in flight is leased under this epoch.
pub(super) fn insert_delivery(store: &Connection, delivery: &Delivery, epoch: i64) -> Result<()> {
    Sql::execute(
        store,
        "INSERT INTO deliveries (id, app, event, endpoint, state, reason, retry_index, attempt_count, history_len, queue, due,
             due_action, give_up_at, finished_at, root, replay_of, held_at, ordering_key, manual, order_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        params![
            delivery.id,
            delivery.app,
            delivery.event,
            delivery.endpoint,
            delivery.state,
            delivery.reason,
            delivery.retry_index,
            delivery.attempt_count,
            delivery.history_len,
            queue_column(delivery, epoch),
            delivery.due,
            delivery.at_due,
            delivery.give_up_at,
            delivery.finished_at,
            (delivery.root != delivery.id).then_some(delivery.root),
            delivery.replay_of,
            delivery.held_at,
            delivery.ordering_key,
            delivery.is_manual.then_some(true),
            delivery.order_seq,
        ],
    )?;
    Ok(())
}

pub(super) fn replace_delivery(
    store: &Connection,
    was: ExpectedState,
    delivery: &Delivery,
    epoch: i64,
) -> Result<bool> {
    let replaced = Sql::execute(
        store,
        "UPDATE deliveries SET state = ?3, reason = ?4, retry_index = ?5, attempt_count = ?6, history_len = ?7, queue = ?8,
             due = ?9, due_action = ?10, give_up_at = ?11, finished_at = ?12, return_to = ?13, held_at = ?14, restarted_at = ?15,
             ordering_key = ?16, manual = ?17, skipped_at = ?18, order_seq = ?20
         WHERE id = ?1 AND state = ?2 AND (state <> 2 OR queue = ?19)",
        params![
            delivery.id,
            was.state(),
            delivery.state,
            delivery.reason,
            delivery.retry_index,
            delivery.attempt_count,
            delivery.history_len,
            queue_column(delivery, epoch),
            delivery.due,
            delivery.at_due,
            delivery.give_up_at,
            delivery.finished_at,
            delivery.saved_state.as_ref().map(write_saved_state),
            delivery.held_at,
            delivery.restarted_at,
            delivery.ordering_key,
            delivery.is_manual.then_some(true),
            delivery.skipped_at,
            was.queue_column(),
            delivery.order_seq,
        ],
    )?;
    Ok(replaced == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Connection {
        let store = Connection::open_in_memory().unwrap();
        store.execute_batch("CREATE TABLE t (a, b, c, d); INSERT INTO t VALUES (1, 2, 3, 4)").unwrap();
        store
    }

    #[test]
    fn values_come_back_as_they_went_in() {
        let store = store();
        let values = params![i64::MIN, "a\u{0}é", &b"\x00\xff"[..], None::<i64>];
        Sql::execute(&store, "UPDATE t SET a = ?1, b = ?2, c = ?3, d = ?4", values).unwrap();
        let read = |row: &Row<'_>| {
            let texts = (row.get::<String>(1)?, row.is(1, &"a\u{0}é"), row.is(1, &1_i64));
            Ok((row.get::<i64>(0)?, texts, row.get::<[u8; 2]>(2)?, row.get::<Option<bool>>(3)?))
        };
        let found = (&store as &dyn Sql).one("SELECT a, b, c, d FROM t", &[], read).unwrap();
        assert_eq!(found, Some((i64::MIN, ("a\u{0}é".to_owned(), true, false), [0, 255], None)));
    }

    #[test]
    fn a_wrong_column_value_is_reported_and_never_guessed() {
        let store = store();
        let wrong = |sql: &str, read: fn(&Row<'_>) -> Result<()>| {
            let error = (&store as &dyn Sql).one(sql, &[], read).unwrap_err();
            assert!(matches!(&error, Error::Wrong(what) if what.starts_with("column 0")), "{sql}: {error}");
        };
        wrong("SELECT 1.5", |row| row.get::<i64>(0).map(drop));
        wrong("SELECT NULL", |row| row.get::<i64>(0).map(drop));
        wrong("SELECT 'a'", |row| row.get::<i64>(0).map(drop));
        wrong("SELECT 2", |row| row.get::<bool>(0).map(drop));
        wrong("SELECT -1", |row| row.get::<u32>(0).map(drop));
        wrong("SELECT x'ffff'", |row| row.get::<[u8; 3]>(0).map(drop));
        wrong("SELECT CAST(x'ff' AS text)", |row| row.get::<Option<String>>(0).map(drop));
    }

    #[test]
    fn a_query_stops_at_a_break_and_its_statement_may_run_again_meanwhile() {
        let (store, mut seen) = (store(), Vec::new());
        let store: &dyn Sql = &store;
        let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT i FROM n";
        let each = &mut |row: &Row<'_>| {
            seen.push((row.get::<i64>(0)?, store.all(sql, params![2_i64], |row| row.get::<i64>(0))?));
            Ok(if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        store.query(sql, params![9_i64], each).unwrap();
        assert_eq!(seen, [(1, vec![1, 2]), (2, vec![1, 2])]);
    }
}
