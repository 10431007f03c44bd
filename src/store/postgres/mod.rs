//! The store on a PostgreSQL server, for any number of nodes: each has a writer that commits in batches, a heartbeat thread,
//! and a few connections that only read. All tables are in the schema `posthaste` of the database.

mod batch_split;
mod bulk_accept;
mod bulk_commit;
mod bulk_complete;
mod columns;
mod deliveries;
mod driver_config;
mod heartbeat;
mod heartbeat_sql;
mod hosts;
mod import_sqlite;
mod inbox;
mod locks;
mod migrations;
mod node;
mod notify;
mod open;
mod partitions;
mod probe;
mod readers;
mod reply_guard;
mod scan_watermarks;
mod session;
mod session_settings;
mod single_statement_commit;
mod sql;
mod statement;
mod tls;
mod transient_errors;
mod usage;
mod value;
mod writer;
mod writer_lease;

pub use super::sql::QueueLimits;
pub use import_sqlite::{ImportError, import};
pub use open::{DatabaseState, PostgresOpenError};
pub use probe::{DatabaseInfo, MissingPrivilege};

use super::{
    CommitWatch, Reply, Store,
    cluster::{ClusterView, Heartbeat, Joined},
    inbox::InboxEvent,
    sql::{
        Backend, CommandQueue, CommitEffects, GroupCommit, MembershipBackend, ReaderPool, Result, Sql,
        WriterThread,
        takeover::{self, TakenOver},
    },
};
use crate::domain::{
    database_address::DatabaseAddress, ports::CommitListener, storage::StorageUsage, time::Timestamp,
};
use heartbeat::{HeartbeatHandle, NotifySender};
use node::{BlockingSession, NodeHandle};
use notify::NotifyMessage;
use session::{Server, Session};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};
use writer::PostgresCommitLoop;
use writer_lease::WriterLease;

/// Implements the store traits on one database.
pub struct PostgresStore {
    queue: Arc<CommandQueue>,
    readers: ReaderPool<Session>,
    /// The engine's own connections, so that it never waits behind people's lists.
    engine_readers: ReaderPool<Session>,
    thread: WriterThread,
    node: Arc<NodeHandle>,
    heartbeat: HeartbeatHandle,
    commit_listener: Arc<dyn CommitListener>,
    /// `None` once the store is closed: then no more notifications are sent.
    notify_sender: Mutex<Option<NotifySender>>,
}

/// Reports the state of a database, without changing it.
pub fn probe(address: &DatabaseAddress) -> Result<DatabaseInfo, PostgresOpenError> {
    probe::probe(&Server::at(address)?)
}

/// Everything that the writer starts with.
struct OpenedNode {
    session: Session,
    node: Arc<NodeHandle>,
    heartbeat: HeartbeatHandle,
    notify_sender: NotifySender,
}

fn join_node(
    server: &Arc<Server>,
    watch: Arc<dyn CommitWatch>,
    commit_listener: Arc<dyn CommitListener>,
) -> Result<OpenedNode, PostgresOpenError> {
    let writer_lease = Arc::new(WriterLease::new(watch));
    let (session, writer_id) = open::open(server, &writer_lease)?;
    let node = Arc::new(NodeHandle::new(server.clone(), writer_id, writer_lease));
    let heartbeat = HeartbeatHandle::start(server.clone(), node.clone(), commit_listener);
    let (heartbeat, notify_sender) =
        heartbeat.map_err(|error| PostgresOpenError::NotPrepared(error.to_string()))?;
    Ok(OpenedNode { session, node, heartbeat, notify_sender })
}

impl PostgresStore {
    /// Connects, migrates the schema, joins the cluster and starts the writer. Waits for an unreachable server. Refuses a
    /// database that could lose what it confirmed, or that a newer version prepared, without touching it. Blocks until all of
    /// that is done.
    pub fn open(
        address: &DatabaseAddress,
        commit_listener: Arc<dyn CommitListener>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        window: Duration,
    ) -> Result<Self, PostgresOpenError> {
        let server = Arc::new(Server::at(address)?);
        let (opened, is_open) = mpsc::channel();
        // All waiting for the server is done on the writer's thread: the caller's thread may be driving futures.
        let (to_write, listener) = (server.clone(), commit_listener.clone());
        let write =
            move |queue: Arc<CommandQueue>| match join_node(&to_write, watch.clone(), listener.clone()) {
                Ok(OpenedNode { session, node, heartbeat, notify_sender }) => {
                    let _ = opened.send(Ok((node.clone(), heartbeat, notify_sender.clone())));
                    let writer = PostgresCommitLoop::new(
                        to_write,
                        session,
                        node,
                        queue.clone(),
                        notify_sender,
                        listener.clone(),
                    );
                    GroupCommit::new(writer, queue, listener, watch).run(window);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            };
        let not_prepared = |why: String| PostgresOpenError::NotPrepared(why);
        let (queue, thread) =
            WriterThread::start(limits, write).map_err(|error| not_prepared(error.to_string()))?;
        let (node, heartbeat, notify_sender) =
            is_open.recv().unwrap_or_else(|_| Err(not_prepared("its writer ended".to_owned())))?;
        let (readers, engine_readers) = (readers::on(&server), readers::on(&server));
        let notify_sender = Mutex::new(Some(notify_sender));
        Ok(Self { queue, readers, engine_readers, thread, node, heartbeat, commit_listener, notify_sender })
    }

    /// Returns a function that notifies other nodes of deliveries that were taken over, and the engine here if asked for.
    fn takeover_publisher(&self, is_told_here: bool) -> impl FnOnce(TakenOver) -> usize + Send + 'static {
        let commit_listener = self.commit_listener.clone();
        let notify_sender = self.notify_sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        move |taken| {
            let after = CommitEffects::of_takeover(taken.newly_due);
            if let Some(notify_sender) = notify_sender {
                notify_sender.send(NotifyMessage::of(&after, false, &*commit_listener));
            }
            if is_told_here {
                after.notify_engine(&*commit_listener);
            }
            taken.count
        }
    }
}

impl Store for PostgresStore {
    fn close(&self) {
        self.queue.close();
        // The heartbeat continues until the writer has ended.
        self.notify_sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.heartbeat.stop();
        self.thread.join();
    }
}

impl MembershipBackend for PostgresStore {
    fn join(&self, now: Timestamp) -> Reply<'static, Joined> {
        // The engine searches all endpoint queues when it starts. Until then no endpoint is loaded, and no queue is served.
        let (aside, tell, commit_listener) = (
            BlockingSession(self.node.clone()),
            self.takeover_publisher(false),
            self.commit_listener.clone(),
        );
        Box::pin(async move {
            let (joined, taken, inspections_wait) = aside.join(now).await?;
            tell(taken);
            if inspections_wait {
                commit_listener.inspection_waiting();
            }
            Ok(joined)
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'static, Option<ClusterView>> {
        self.heartbeat.heartbeat(heartbeat)
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'static, Option<usize>> {
        let (aside, tell) = (BlockingSession(self.node.clone()), self.takeover_publisher(true));
        Box::pin(async move { Ok(takeover::take_over(&aside, epoch, now).await?.map(tell)) })
    }

    fn nodes(&self) -> Reply<'static, ClusterView> {
        self.heartbeat.view()
    }

    fn maintain(&self) -> Reply<'static, ()> {
        let aside = BlockingSession(self.node.clone());
        Box::pin(async move {
            // Not urgent: a row without a partition is stored in the rest partition.
            if let Err(error) = aside.maintain().await {
                tracing::warn!(%error, "the partitions could not be maintained");
            }
            Ok(())
        })
    }

    fn epoch(&self) -> i64 {
        self.node.epoch()
    }
}

impl Backend for PostgresStore {
    fn commands(&self) -> &CommandQueue {
        &self.queue
    }

    fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.readers.read(run)
    }

    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.engine_readers.read(run)
    }

    fn inbox_page(&self) -> Option<Reply<'static, Vec<InboxEvent>>> {
        Some(self.read_for_engine(inbox::waiting))
    }

    fn can_record(&self) -> bool {
        self.node.lease.can_record()
    }

    fn membership(&self) -> Option<&dyn MembershipBackend> {
        Some(self)
    }

    fn measure(&self) -> Reply<'_, StorageUsage> {
        self.read_for_engine(usage::usage)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}
