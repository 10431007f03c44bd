//! Other clients of the same database server or pooler: they take every connection that they can get, and keep it.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const SOCKET: &str = ".s.PGSQL.5432";
const PROTOCOL_VERSION: u32 = 3 << 16;
/// A client that waits longer for an answer connects again.
const HOLDER_READ_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Clients that hold connections. Dropping it closes them.
pub(crate) struct ConnectionHolders {
    shared: Arc<HolderState>,
    gathering: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct HolderState {
    is_over: AtomicBool,
    count: AtomicUsize,
}

impl ConnectionHolders {
    /// Opens at most `most` connections of `role` to the socket in `folder`. Each of them sends `words` and then nothing
    /// more.
    pub(crate) fn start(most: usize, folder: &str, role: &str, words: &'static str) -> Self {
        let shared: Arc<HolderState> = Arc::default();
        let (socket, role, theirs) = (Path::new(folder).join(SOCKET), role.to_owned(), shared.clone());
        let gathering = thread::spawn(move || {
            let mut inside = Vec::new();
            while !theirs.is_over.load(SeqCst) {
                let one = (inside.len() < most).then(|| open_connection(&socket, &role, words)).flatten();
                if one.is_none() {
                    thread::sleep(CONNECT_RETRY_PAUSE);
                }
                inside.extend(one);
                theirs.count.store(inside.len(), SeqCst);
            }
        });
        Self { shared, gathering: Some(gathering) }
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.count.load(SeqCst)
    }
}

impl Drop for ConnectionHolders {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        let _ = self.gathering.take().map(JoinHandle::join);
    }
}

/// Opens a connection and sends `words`. `None` if there is no room.
fn open_connection(socket: &Path, role: &str, words: &str) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(HOLDER_READ_TIMEOUT)).ok()?;
    let who = format!("user\0{role}\0database\0postgres\0application_name\0crowd\0\0");
    let hello = [&PROTOCOL_VERSION.to_be_bytes(), who.as_bytes()].concat();
    stream.write_all(&with_length(&hello)).ok()?;
    read_until_ready(&mut stream)?;
    let query = [b"Q".as_slice(), &with_length(format!("{words}\0").as_bytes())].concat();
    stream.write_all(&query).ok()?;
    read_until_ready(&mut stream)?;
    Some(stream)
}

/// Prepends the length, which counts itself.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32 + 4).to_be_bytes(), bytes].concat()
}

/// Reads until the server is ready for the next query; `None` after an error or the end of the connection.
fn read_until_ready(stream: &mut UnixStream) -> Option<()> {
    loop {
        let (mut kind, mut length) = ([0], [0; 4]);
        stream.read_exact(&mut kind).and_then(|()| stream.read_exact(&mut length)).ok()?;
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut rest).ok()?;
        match &kind {
            b"Z" => return Some(()),
            b"E" => return None,
            _ => {}
        }
    }
}
