//! A wire to the PostgreSQL server that can be cut when it hurts most, after a COMMIT was done and before that was answered, that
//! can be made slow, and that can lie about a COMMIT.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst},
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

const SOCKET: &str = ".s.PGSQL.5432";

/// What becomes of the next COMMIT, unless it is answered.
const TO_BE_LOST: u8 = 1;
const SENT: u8 = 2;
const LOST: u8 = 3;
const TO_BE_UNDONE: u8 = 4;
const UNDONE: u8 = 5;
/// As a server knows it, and what it does instead when it is lied about, which has to be as long.
const COMMIT: &[u8] = b"COMMIT\0";
const UNDO: &[u8] = b"ABORT \0";

pub(crate) struct Wire {
    folder: TempDir,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    fate: AtomicU8,
    /// How many are let through before.
    skipped: AtomicU32,
    /// Nothing goes through any more once the answer is lost.
    stays_cut: AtomicBool,
    /// Of each answer.
    delay_ms: AtomicU64,
    answered_bytes: AtomicU64,
}

impl State {
    fn is_cut(&self) -> bool {
        self.stays_cut.load(SeqCst) && self.fate.load(SeqCst) == LOST
    }
}

impl Wire {
    /// Beside a server whose socket is in this folder.
    pub(crate) fn new(server: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let state: Arc<State> = Arc::default();
        let (server, shared) = (Path::new(server).join(SOCKET), state.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                carry(client.unwrap(), &server, &shared);
            }
        });
        Self { folder, state }
    }

    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    pub(crate) fn lose_the_next_answer_to_a_commit(&self) {
        self.lose_the_answer_to_a_commit_after(0);
    }

    /// The same after so many that are answered.
    pub(crate) fn lose_the_answer_to_a_commit_after(&self, skipped: u32) {
        self.state.skipped.store(skipped, SeqCst);
        self.state.fate.store(TO_BE_LOST, SeqCst);
    }

    pub(crate) fn has_lost_it(&self) -> bool {
        self.state.fate.load(SeqCst) == LOST
    }

    /// The next is undone, and whoever asked for it is told that it was done.
    pub(crate) fn undo_the_next_commit(&self) {
        self.state.fate.store(TO_BE_UNDONE, SeqCst);
    }

    pub(crate) fn has_undone_it(&self) -> bool {
        self.state.fate.load(SeqCst) == UNDONE
    }

    /// From the lost answer on nothing goes through, until it is mended.
    pub(crate) fn stay_cut(&self) {
        self.state.stays_cut.store(true, SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.state.stays_cut.store(false, SeqCst);
    }

    /// How much the server has answered.
    pub(crate) fn answered_bytes(&self) -> u64 {
        self.state.answered_bytes.load(SeqCst)
    }

    pub(crate) fn delay(&self, by: Duration) {
        self.state.delay_ms.store(by.as_millis() as u64, SeqCst);
    }
}

fn carry(client: UnixStream, server: &PathBuf, state: &Arc<State>) {
    let server = UnixStream::connect(server).ok().filter(|_| !state.is_cut());
    let Some(server) = server else { return };
    let (from_client, sending) = (client.try_clone().unwrap(), state.clone());
    let (to_server, mut ask) = (server.try_clone().unwrap(), server.try_clone().unwrap());
    pump(from_client, Some(to_server), move |bytes| {
        if let Some(at) = bytes.windows(COMMIT.len()).position(|word| word == COMMIT) {
            if sending.skipped.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
                let _ = sending.fate.compare_exchange(TO_BE_LOST, SENT, SeqCst, SeqCst);
            }
            if sending.fate.compare_exchange(TO_BE_UNDONE, UNDONE, SeqCst, SeqCst).is_ok() {
                bytes[at..at + UNDO.len()].copy_from_slice(UNDO);
            }
        }
        !sending.is_cut() && ask.write_all(bytes).is_ok()
    });
    let (answering, answers) = (state.clone(), late(client, state));
    pump(server, None, move |bytes| {
        answering.answered_bytes.fetch_add(bytes.len() as u64, SeqCst);
        let is_lost = answering.fate.compare_exchange(SENT, LOST, SeqCst, SeqCst).is_ok();
        let due = Instant::now() + Duration::from_millis(answering.delay_ms.load(SeqCst));
        !is_lost && answers.send((due, bytes.to_vec())).is_ok()
    });
}

/// Takes what a client is to hear, and when: a long wire delays each piece, and not the next one by as much again.
fn late(mut client: UnixStream, state: &Arc<State>) -> Sender<(Instant, Vec<u8>)> {
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

/// Passes on what comes, until it ends or cannot be passed on. Then nothing more comes, and `other` is told.
fn pump(
    mut from: UnixStream,
    other: Option<UnixStream>,
    mut pass_on: impl FnMut(&mut [u8]) -> bool + Send + 'static,
) {
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if !pass_on(&mut bytes[..length]) {
                break;
            }
        }
        for end in [Some(from), other].into_iter().flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
    });
}
