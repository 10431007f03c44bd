//! Clock, randomness, shutdown signal and threads: everything that depends on the machine.
//!
//! All other code takes these as arguments, so that a test can control them.

mod clock;
mod entropy;
mod own_thread;
mod shutdown;

pub use clock::{Clock, Sleep, SystemClock, VirtualClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use own_thread::run_on_own_thread;
pub use shutdown::{Shutdown, ShutdownHandle};
