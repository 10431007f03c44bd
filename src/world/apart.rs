//! Work that may take for ever, on a thread of its own: never on the threads that the runtime keeps for reads of the store
//! and look-ups of names, where it would take a place from everybody.

use std::{io, thread};
use tokio::sync::oneshot;

const STACK_BYTES: usize = 4 * 1024 * 1024;

/// Starts the work. `hold` is what it holds, such as a place among few: it is let go when the work has really ended, also
/// by a panic, however long ago everybody stopped waiting, and before anybody learns what came of it.
pub fn apart<T: Send + 'static>(
    hold: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (tell, told) = oneshot::channel();
    thread::Builder::new().name("apart".into()).stack_size(STACK_BYTES).spawn(move || {
        let done = work();
        drop(hold);
        let _ = tell.send(done);
    })?;
    Ok(told)
}
