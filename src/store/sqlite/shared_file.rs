//! A file in memory that several nodes share: the link to it, which may fail, and a transaction of one node.

use super::{
    open,
    sql::{insert_delivery, replace_delivery},
};
use crate::{
    domain::{
        delivery::Delivery,
        id::{AppId, DeliveryId, EndpointId},
        ordering::OrderingKey,
        time::Timestamp,
    },
    store::sql::{
        ConfigChange, Error, ExpectedState, NewNode, Result, Row, Sql, ToValue, WriterId, begin_version,
        log_change, nodes,
    },
};
use rusqlite::{Connection, TransactionBehavior};
use std::{
    cell::Cell,
    io::ErrorKind,
    ops::ControlFlow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

/// Stands for the database server's clock.
pub type StoreClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Outcome of a transaction on the link between a node and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    Answered,
    /// The transaction does not begin, and its node gets an error.
    Cut,
    /// The transaction is not stored, because its COMMIT does not arrive; its node gets no answer.
    Lost,
    /// The transaction is stored; its node gets no answer.
    Unanswered,
}

/// Called at the start of every transaction, with its epoch; 0 if it only reads.
pub type StoreLink = Arc<dyn Fn(&Connection, i64) -> LinkFault + Send + Sync>;

/// The file that the nodes share.
pub struct SharedFile {
    connection: Mutex<Connection>,
    pub(super) clock: StoreClock,
    wire: StoreLink,
    /// Epochs that were assigned, and since when a node waits for a slot.
    entered: AtomicI64,
    waits_since: AtomicI64,
}

impl SharedFile {
    pub fn new(clock: StoreClock) -> rusqlite::Result<Arc<Self>> {
        Self::over(Arc::new(|_, _| LinkFault::Answered), clock)
    }

    /// Makes a file with a link that may fail.
    pub fn over(wire: StoreLink, clock: StoreClock) -> rusqlite::Result<Arc<Self>> {
        let connection = Mutex::new(open::open_in_memory()?);
        Ok(Arc::new(Self {
            connection,
            clock,
            wire,
            entered: AtomicI64::new(0),
            waits_since: AtomicI64::new(i64::MAX),
        }))
    }

    /// The connection, to read the file or to change it without the nodes' knowledge.
    pub fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a whole transaction.
    pub(super) fn run<T>(&self, epoch: i64, run: impl FnOnce(&SimTransaction<'_>) -> Result<T>) -> Result<T> {
        self.run_at(epoch, None, run)
    }

    /// Runs a transaction that may assign ids.
    pub(super) fn run_at<T>(
        &self,
        epoch: i64,
        writer_id: Option<WriterId>,
        run: impl FnOnce(&SimTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.connection();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let passage = (self.wire)(&tx, epoch);
        if passage == LinkFault::Cut {
            return Err(Error::Io(ErrorKind::ConnectionReset.into()));
        }
        let done = run(&SimTransaction {
            store: &tx,
            epoch,
            writer_id,
            now: (self.clock)(),
            version: Cell::new(None),
        })?;
        if passage != LinkFault::Lost {
            tx.commit()?;
        }
        match passage {
            LinkFault::Unanswered | LinkFault::Lost => Err(Error::Io(ErrorKind::TimedOut.into())),
            _ => Ok(done),
        }
    }

    /// Joins a node. Fails while there is no slot for it; one that tries for long enough gets the slot of a silent node.
    pub(super) fn enter(&self) -> Result<(i64, u8)> {
        let epoch = self.entered.fetch_add(1, SeqCst) + 1;
        let new = NewNode { epoch, name: format!("node {epoch}"), host: String::new(), pid: 0 };
        let waits_since =
            Timestamp::from_millis(self.waits_since.load(SeqCst).min((self.clock)().as_millis()));
        self.waits_since.store(waits_since.as_millis(), SeqCst);
        let slot = self.run(epoch, |tx| nodes::enter(tx, &new, waits_since, tx.now))?;
        let slot = slot.ok_or_else(|| Error::Io(ErrorKind::ResourceBusy.into()))?;
        self.waits_since.store(i64::MAX, SeqCst);
        Ok((epoch, slot))
    }
}

/// A transaction of one node.
pub(super) struct SimTransaction<'a> {
    store: &'a Connection,
    epoch: i64,
    writer_id: Option<WriterId>,
    pub(super) now: Timestamp,
    /// Version of the configuration, once this transaction changes it.
    version: Cell<Option<i64>>,
}

impl Sql for SimTransaction<'_> {
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        Sql::execute(self.store, sql, params)
    }

    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        Sql::query(self.store, sql, params, each)
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()> {
        self.check_id(delivery.id.as_i64())?;
        insert_delivery(self.store, delivery, self.epoch)
    }

    fn replace_delivery(&self, was: ExpectedState, delivery: &Delivery) -> Result<bool> {
        replace_delivery(self.store, was, delivery, self.epoch)
    }

    fn promote(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()> {
        self.store.promote(delivery, due)
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderingKey>)>> {
        self.store.delete_delivery(delivery)
    }

    fn delete_deliveries(&self, app: AppId, after: i64, upto: i64) -> Result<()> {
        self.store.delete_deliveries(app, after, upto)
    }

    fn lock_queue(&self, endpoint: EndpointId) -> Result<()> {
        self.store.lock_queue(endpoint)
    }

    fn lock_health(&self, endpoint: EndpointId) -> Result<()> {
        self.store.lock_health(endpoint)
    }

    fn lock_digests(&self, app: AppId) -> Result<()> {
        self.store.lock_digests(app)
    }

    fn lock_delivery(&self, delivery: DeliveryId) -> Result<()> {
        self.store.lock_delivery(delivery)
    }

    fn to_change(&self) -> (&'static str, &'static str) {
        self.store.to_change()
    }

    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn check_id(&self, number: i64) -> Result<()> {
        self.writer_id.map_or(Ok(()), |writer_id| writer_id.check_id(number))
    }

    fn log_change(&self, change: ConfigChange) -> Result<()> {
        let version = match self.version.get() {
            Some(begun) => begun,
            None => begin_version(self, self.now)?,
        };
        self.version.set(Some(version));
        log_change(self, version, change, self.now)
    }
}
