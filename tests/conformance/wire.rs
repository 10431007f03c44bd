//! A wire to the PostgreSQL server that can be cut when it hurts most: after a COMMIT was done, before that was answered.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    thread,
};
use tempfile::TempDir;

const SOCKET: &str = ".s.PGSQL.5432";

/// What becomes of the next COMMIT, unless it is answered.
const TO_BE_LOST: u8 = 1;
const SENT: u8 = 2;
const LOST: u8 = 3;

pub(crate) struct Wire {
    folder: TempDir,
    fate: Arc<AtomicU8>,
}

impl Wire {
    /// Beside a server whose socket is in this folder.
    pub(crate) fn new(server: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let (listener, fate) = (UnixListener::bind(folder.path().join(SOCKET)).unwrap(), Arc::default());
        let (server, fated) = (Path::new(server).join(SOCKET), Arc::clone(&fate));
        thread::spawn(move || {
            for client in listener.incoming() {
                carry(client.unwrap(), &server, &fated);
            }
        });
        Self { folder, fate }
    }

    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    pub(crate) fn lose_the_next_answer_to_a_commit(&self) {
        self.fate.store(TO_BE_LOST, SeqCst);
    }

    pub(crate) fn has_lost_it(&self) -> bool {
        self.fate.load(SeqCst) == LOST
    }
}

fn carry(client: UnixStream, server: &PathBuf, fate: &Arc<AtomicU8>) {
    let server = UnixStream::connect(server).unwrap();
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let sending = fate.clone();
    pump(from_client, to_server, move |bytes| {
        if bytes.windows(7).any(|word| word == b"COMMIT\0") {
            let _ = sending.compare_exchange(TO_BE_LOST, SENT, SeqCst, SeqCst);
        }
        true
    });
    let answering = fate.clone();
    pump(server, client, move |_| answering.compare_exchange(SENT, LOST, SeqCst, SeqCst).is_err());
}

/// Passes on what comes, until one side ends or something is not `let_through`.
fn pump(
    mut from: UnixStream,
    mut to: UnixStream,
    mut let_through: impl FnMut(&[u8]) -> bool + Send + 'static,
) {
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if !let_through(&bytes[..length]) || to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
