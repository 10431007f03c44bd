//! Runs work that may take forever on a thread of its own: never on the threads that the runtime keeps for store reads and
//! name lookups, where it would take one from all others.

use std::{io, thread};
use tokio::sync::oneshot;

const STACK_BYTES: usize = 4 * 1024 * 1024;

/// Starts the work. `hold` is what it holds, such as one of few slots: it is dropped when the work has really ended, also by
/// a panic, however long ago the receiver was dropped, and before the result is sent.
pub fn run_on_own_thread<T: Send + 'static>(
    hold: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (reply, result) = oneshot::channel();
    thread::Builder::new().name("apart".into()).stack_size(STACK_BYTES).spawn(move || {
        let done = work();
        drop(hold);
        let _ = reply.send(done);
    })?;
    Ok(result)
}
