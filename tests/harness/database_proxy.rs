//! A proxy of the PostgreSQL socket with faults: it can lose the answer to a COMMIT that was done, delay answers, and turn a
//! COMMIT into a rollback that is reported as done.
//!
//! Few of a node's commits are batches of its writer. The proxy knows a batch by the statement that its transaction begins with, or
//! by the single statement that is the whole batch, and never hits another commit instead: if those statements change, a test that
//! waits for a batch to be hit waits in vain.

use std::{
    collections::HashSet,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

const SOCKET: &str = ".s.PGSQL.5432";

/// A COMMIT as sent to the server, and its replacement for a false confirmation, which must have the same length.
const COMMIT: &[u8] = b"COMMIT\0";
const ABORT: &[u8] = b"ABORT \0";
/// The first bytes of a connection, unless it asks for TLS or the like before.
const HELLO: [u8; 4] = (3_u32 << 16).to_be_bytes();

pub(crate) struct DatabaseProxy {
    folder: TempDir,
    state: Arc<ProxyState>,
}

/// A writer's batch, from the statement that begins its transaction: its row in `writer_batches` is counted up to this
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterBatch {
    pub(crate) epoch: i64,
    pub(crate) number: i64,
}

/// Part of the single statement that is a whole batch; its parameters are the epoch and the previous batch.
const SINGLE_STATEMENT_BATCH: &[u8] = b"UPDATE writer_batches SET batch = batch + 1";

impl WriterBatch {
    /// Reads the batch from the Bind message of such a statement.
    fn bound_by(message: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
        // The names of the portal and of the statement, the formats, and then the values, each behind its length.
        let formats = message[5..].splitn(3, |byte| *byte == 0).nth(2)?;
        let count = usize::from(u16::from_be_bytes(formats.get(..2)?.try_into().ok()?));
        let values = formats.get(2 + 2 * count + 2..)?;
        let (epoch, last) = (number(values.get(4..12)?)?, number(values.get(16..24)?)?);
        Some(Self { epoch, number: last + 1 })
    }

    fn begun_by(message: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(message);
        let (_, counted) = text.split_once("UPDATE writer_batches SET batch = ")?;
        let (number, of) = counted.split_once(" WHERE epoch = ")?;
        let (epoch, _) = of.split_once(" AND writer = 0 ")?;
        Some(Self { epoch: epoch.parse().ok()?, number: number.parse().ok()? })
    }
}

/// The treatment of a COMMIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CommitFate {
    #[default]
    Answered,
    ToBeLost,
    Sent,
    Lost,
    ToBeUndone,
    Undone,
}

#[derive(Default)]
struct FaultPlan {
    fate: CommitFate,
    /// Only a batch of a writer is hit.
    is_for_a_batch: bool,
    /// How many are let through before.
    skipped: u32,
    /// The batch that was hit, if it was a writer's.
    batch: Option<WriterBatch>,
}

impl FaultPlan {
    /// Decides what happens to this COMMIT. A batch of a single statement has no COMMIT that could be undone.
    fn decide(&mut self, batch: Option<WriterBatch>, is_at_once: bool) -> CommitFate {
        if self.is_for_a_batch && batch.is_none() {
            return CommitFate::Answered;
        }
        let fate = match self.fate {
            CommitFate::ToBeLost if self.skipped > 0 => {
                self.skipped -= 1;
                return CommitFate::Answered;
            }
            CommitFate::ToBeLost => CommitFate::Sent,
            CommitFate::ToBeUndone if !is_at_once => CommitFate::Undone,
            _ => return CommitFate::Answered,
        };
        (self.fate, self.batch) = (fate, batch);
        fate
    }
}

#[derive(Default)]
struct ProxyState {
    plan: Mutex<FaultPlan>,
    /// No data passes any more once the answer is lost.
    stays_cut: AtomicBool,
    /// Delay of each answer.
    delay_ms: AtomicU64,
    answered_bytes: AtomicU64,
}

impl ProxyState {
    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        self.plan.lock().unwrap()
    }

    fn is_cut(&self) -> bool {
        self.stays_cut.load(SeqCst) && self.plan().fate == CommitFate::Lost
    }
}

impl DatabaseProxy {
    /// Starts a proxy for the server whose socket is in this folder.
    pub(crate) fn new(server: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let state: Arc<ProxyState> = Arc::default();
        let (server, shared) = (Path::new(server).join(SOCKET), state.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                forward(client.unwrap(), &server, &shared);
            }
        });
        Self { folder, state }
    }

    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Loses the answer to the next batch of a writer.
    pub(crate) fn lose_the_next_answer_to_a_batch(&self) {
        *self.state.plan() =
            FaultPlan { fate: CommitFate::ToBeLost, is_for_a_batch: true, ..FaultPlan::default() };
    }

    /// Loses the answer to a commit of any client, after `skipped` that are answered.
    pub(crate) fn lose_the_answer_to_a_commit_after(&self, skipped: u32) {
        *self.state.plan() = FaultPlan { fate: CommitFate::ToBeLost, skipped, ..FaultPlan::default() };
    }

    pub(crate) fn has_lost_it(&self) -> bool {
        self.state.plan().fate == CommitFate::Lost
    }

    /// The batch whose answer was lost.
    pub(crate) fn lost_batch(&self) -> Option<WriterBatch> {
        let plan = self.state.plan();
        plan.batch.filter(|_| plan.fate == CommitFate::Lost)
    }

    /// Undoes the next batch of a writer, and reports it as done.
    pub(crate) fn undo_the_next_batch(&self) {
        *self.state.plan() =
            FaultPlan { fate: CommitFate::ToBeUndone, is_for_a_batch: true, ..FaultPlan::default() };
    }

    pub(crate) fn has_undone_it(&self) -> bool {
        self.state.plan().fate == CommitFate::Undone
    }

    /// Blocks all data after the lost answer, until `mend`.
    pub(crate) fn stay_cut(&self) {
        self.state.stays_cut.store(true, SeqCst);
    }

    pub(crate) fn reconnect(&self) {
        self.state.stays_cut.store(false, SeqCst);
    }

    /// How many bytes the server has answered.
    pub(crate) fn answered_bytes(&self) -> u64 {
        self.state.answered_bytes.load(SeqCst)
    }

    pub(crate) fn delay(&self, by: Duration) {
        self.state.delay_ms.store(by.as_millis() as u64, SeqCst);
    }
}

fn forward(client: UnixStream, server: &PathBuf, state: &Arc<ProxyState>) {
    let server = UnixStream::connect(server).ok().filter(|_| !state.is_cut());
    let Some(server) = server else { return };
    let (from_client, sending) = (client.try_clone().unwrap(), state.clone());
    let (to_server, mut ask) = (server.try_clone().unwrap(), server.try_clone().unwrap());
    // The loss applies to the connection of that COMMIT only: others are answered meanwhile.
    let loses: Arc<AtomicBool> = Arc::default();
    let (mut messages, mut asking, to_lose) =
        (Messages::default(), ClientStatements::default(), loses.clone());
    pump(from_client, Some(to_server), move |bytes| {
        messages.push(bytes);
        while let Some(mut message) = messages.next() {
            match asking.read_message(&message).map(|end| sending.plan().decide(end.batch, end.is_at_once)) {
                Some(CommitFate::Sent) => to_lose.store(true, SeqCst),
                Some(CommitFate::Undone) => {
                    let at = message.len() - COMMIT.len();
                    message[at..].copy_from_slice(ABORT);
                }
                _ => {}
            }
            if sending.is_cut() || ask.write_all(&message).is_err() {
                return false;
            }
        }
        true
    });
    let (answering, answers, mut unheard) = (state.clone(), delayed_answers(client, state), Vec::new());
    pump(server, None, move |bytes| {
        answering.answered_bytes.fetch_add(bytes.len() as u64, SeqCst);
        let due = Instant::now() + Duration::from_millis(answering.delay_ms.load(SeqCst));
        if !loses.load(SeqCst) {
            return answers.send((due, bytes.to_vec())).is_ok();
        }
        // Earlier requests of the same pipeline are answered first; the COMMIT is done when its own answer comes.
        unheard.extend_from_slice(bytes);
        match is_done(&unheard) {
            None => true,
            Some(true) => {
                answering.plan().fate = CommitFate::Lost;
                false
            }
            Some(false) => {
                // The server refused it: hit the next one.
                loses.store(false, SeqCst);
                let mut plan = answering.plan();
                (plan.fate, plan.batch) = (CommitFate::ToBeLost, None);
                answers.send((due, std::mem::take(&mut unheard))).is_ok()
            }
        }
    });
}

/// Whether these answers mean that the commit is done; `None` before that is known. For a batch of a single statement the result
/// says whether it counted.
fn is_done(answers: &[u8]) -> Option<bool> {
    let says = |what: &[u8]| answers.windows(what.len()).any(|said| said == what);
    if says(COMMIT) || says(b"ROLLBACK\0") {
        return Some(true);
    }
    // The status I (idle) follows only the end of the transaction, not the answers before it. The statement's row has two or three
    // columns; the first is the number of counted rows.
    let counted_one = |columns| says(&[&[0, columns, 0, 0, 0, 8][..], &1_i64.to_be_bytes()].concat());
    says(b"Z\0\0\0\x05I").then(|| counted_one(2) || counted_one(3))
}

/// The statements of a client on its connection, as far as they tell whose COMMIT it is.
#[derive(Default)]
struct ClientStatements {
    begun: Option<WriterBatch>,
    at_once: Option<WriterBatch>,
    /// The names of the prepared statements that are a whole batch.
    statements: HashSet<Vec<u8>>,
}

/// The end of a transaction.
struct TransactionEnd {
    batch: Option<WriterBatch>,
    is_at_once: bool,
}

impl ClientStatements {
    fn read_message(&mut self, message: &[u8]) -> Option<TransactionEnd> {
        let name = |number: usize| message[5..].split(|byte| *byte == 0).nth(number).map(<[u8]>::to_vec);
        match message[0] {
            b'Q' if message[5..].starts_with(b"BEGIN") => self.begun = WriterBatch::begun_by(message),
            b'Q' if message.ends_with(COMMIT) => {
                return Some(TransactionEnd { batch: self.begun.take(), is_at_once: false });
            }
            b'P' if message
                .windows(SINGLE_STATEMENT_BATCH.len())
                .any(|said| said == SINGLE_STATEMENT_BATCH) =>
            {
                self.statements.extend(name(0));
            }
            b'B' if name(1).is_some_and(|name| self.statements.contains(&name)) => {
                self.at_once = WriterBatch::bound_by(message);
            }
            b'S' => {
                let batch = Some(self.at_once.take()?);
                return Some(TransactionEnd { batch, is_at_once: true });
            }
            _ => {}
        }
        None
    }
}

/// Splits a client's bytes into messages, however they arrive.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    /// From then on each message begins with a letter for its type.
    has_said_hello: bool,
}

impl Messages {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let offset = usize::from(self.has_said_hello);
        let length = self.bytes.get(offset..offset + 4)?.try_into().unwrap();
        let length = offset + u32::from_be_bytes(length) as usize;
        if self.bytes.len() < length {
            return None;
        }
        let message: Vec<u8> = self.bytes.drain(..length).collect();
        self.has_said_hello |= message.get(4..8) == Some(&HELLO);
        Some(message)
    }
}

/// Sends answers to a client, each at its time: the delay applies to each piece and does not add up.
fn delayed_answers(mut client: UnixStream, state: &Arc<ProxyState>) -> Sender<(Instant, Vec<u8>)> {
    let (answers, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let state = state.clone();
    thread::spawn(move || {
        for (at, bytes) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if state.is_cut() || client.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
    answers
}

/// Forwards data until it ends or cannot be forwarded. Then it closes both ends.
fn pump(
    mut from: UnixStream,
    other: Option<UnixStream>,
    mut pass_on: impl FnMut(&[u8]) -> bool + Send + 'static,
) {
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if !pass_on(&bytes[..length]) {
                break;
            }
        }
        for end in [Some(from), other].into_iter().flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
    });
}
