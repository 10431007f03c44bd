//! The store on a PostgreSQL server, for any number of nodes: each has a writer that commits in batches, a heartbeat thread,
//! and a few connections that only read. All tables are in the schema `posthaste` of the database.

mod address;
mod batch_split;
mod bulk_accept;
mod bulk_commit;
mod bulk_complete;
mod columns;
mod deliveries;
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
pub use address::{DatabaseAddress, DatabaseAddressError};
pub use import_sqlite::{ImportError, import};
pub use open::{DatabaseState, PostgresOpenError};
pub use probe::{DatabaseInfo, MissingPrivilege};

use super::{
    CommitObservers, Reply, Store,
    backend::{Backend, InboxQuery, MembershipBackend, ReadJob, Readers},
    cluster::{ClusterView, Heartbeat, Joined},
    sql::{
        Command, CommandQueue, CommitEffects, GroupCommit, ReaderPool, Result, WriterThread,
        takeover::{self, TakenOver},
    },
};
use crate::domain::{storage::StorageUsage, time::Timestamp};
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

/// Backend on one database.
struct PostgresBackend {
    queue: Arc<CommandQueue>,
    readers: ReaderPool<Session>,
    /// The engine's own connections, so that it never waits behind people's lists.
    engine_readers: ReaderPool<Session>,
    thread: WriterThread,
    node: Arc<NodeHandle>,
    heartbeat: HeartbeatHandle,
    observers: CommitObservers,
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

fn join_node(server: &Arc<Server>, observers: CommitObservers) -> Result<OpenedNode, PostgresOpenError> {
    let writer_lease = Arc::new(WriterLease::new(observers.watch));
    let (session, writer_id) = open::open(server, &writer_lease)?;
    let node = Arc::new(NodeHandle::new(server.clone(), writer_id, writer_lease));
    let heartbeat = HeartbeatHandle::start(server.clone(), node.clone(), observers.engine);
    let (heartbeat, notify_sender) =
        heartbeat.map_err(|error| PostgresOpenError::NotPrepared(error.to_string()))?;
    Ok(OpenedNode { session, node, heartbeat, notify_sender })
}
/// Connects, migrates the schema, joins the cluster and starts the writer. Waits for an unreachable server. Refuses a
/// database that could lose what it confirmed, or that a newer version prepared, without touching it. Blocks until all of
/// that is done.
pub fn open(
    address: &DatabaseAddress,
    observers: CommitObservers,
    limits: QueueLimits,
    window: Duration,
) -> Result<Store, PostgresOpenError> {
    let server = Arc::new(Server::at(address)?);
    let (opened, is_open) = mpsc::channel();
    // All waiting for the server is done on the writer's thread: the caller's thread may be driving futures.
    let (to_write, to_notify) = (server.clone(), observers.clone());
    let write = move |queue: Arc<CommandQueue>| match join_node(&to_write, to_notify.clone()) {
        Ok(OpenedNode { session, node, heartbeat, notify_sender }) => {
            let _ = opened.send(Ok((node.clone(), heartbeat, notify_sender.clone())));
            let writer = PostgresCommitLoop::new(
                to_write,
                session,
                node,
                queue.clone(),
                notify_sender,
                to_notify.engine.clone(),
            );
            GroupCommit::new(writer, queue, to_notify).run(window);
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
    let backend =
        PostgresBackend { queue, readers, engine_readers, thread, node, heartbeat, observers, notify_sender };
    Ok(Store::new(Arc::new(backend)))
}

impl PostgresBackend {
    /// Returns a function that notifies other nodes of deliveries that were taken over, and the engine here if asked for.
    fn takeover_publisher(&self, is_told_here: bool) -> impl FnOnce(TakenOver) -> usize + Send + 'static {
        let observers = self.observers.clone();
        let notify_sender = self.notify_sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        move |taken| {
            let after = CommitEffects::of_takeover(taken.newly_due);
            if let Some(notify_sender) = notify_sender {
                notify_sender.send(NotifyMessage::of(&after, false, &*observers.engine));
            }
            if is_told_here {
                after.notify(&observers);
            }
            taken.count
        }
    }
}

impl MembershipBackend for PostgresBackend {
    fn join(&self, now: Timestamp) -> Reply<Joined> {
        // The engine searches all endpoint queues when it starts. Until then no endpoint is loaded, and no queue is served.
        let (aside, tell, engine) = (
            BlockingSession(self.node.clone()),
            self.takeover_publisher(false),
            self.observers.engine.clone(),
        );
        Box::pin(async move {
            let (joined, taken, inspections_wait) = aside.join(now).await?;
            tell(taken);
            if inspections_wait {
                engine.inspection_waiting();
            }
            Ok(joined)
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<Option<ClusterView>> {
        self.heartbeat.heartbeat(heartbeat)
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<Option<usize>> {
        let (aside, tell) = (BlockingSession(self.node.clone()), self.takeover_publisher(true));
        Box::pin(async move { Ok(takeover::take_over(&aside, epoch, now).await?.map(tell)) })
    }

    fn nodes(&self) -> Reply<ClusterView> {
        self.heartbeat.view()
    }

    fn maintain(&self) -> Reply<()> {
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

impl Backend for PostgresBackend {
    fn submit(&self, command: Box<dyn Command>) {
        self.queue.push(command);
    }

    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize) {
        self.queue.push_accept(command, events, bytes);
    }

    fn run_read(&self, readers: Readers, job: ReadJob) -> Reply<()> {
        match readers {
            Readers::Api => self.readers.read(job),
            Readers::Engine => self.engine_readers.read(job),
        }
    }

    fn inbox_query(&self) -> Option<InboxQuery> {
        Some(inbox::waiting)
    }

    fn can_record(&self) -> bool {
        self.node.lease.can_record()
    }

    fn membership(&self) -> Option<&dyn MembershipBackend> {
        Some(self)
    }

    fn measure(&self) -> Reply<StorageUsage> {
        (self as &dyn Backend).read_for_engine(usage::usage)
    }

    fn close(&self) {
        self.queue.close();
        // The heartbeat continues until the writer has ended.
        self.notify_sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.heartbeat.stop();
        self.thread.join();
    }
}

impl Drop for PostgresBackend {
    fn drop(&mut self) {
        self.close();
    }
}
