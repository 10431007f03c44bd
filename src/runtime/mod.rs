//! Clock, randomness, shutdown signal and threads: everything that depends on the machine.
//!
//! All other code takes these as arguments, so that a test can control them.

mod own_thread;
mod clock;
mod entropy;
mod shutdown;

pub use own_thread::run_on_own_thread;
pub use clock::{Clock, Sleep, SystemClock, VirtualClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use shutdown::{Shutdown, ShutdownHandle};
