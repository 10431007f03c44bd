//! The impure world, handed in: what time it is, what chance says, and when to stop.
//!
//! Everything else takes these as arguments, so that a test can be the whole world.

mod apart;
mod clock;
mod entropy;
mod shutdown;

pub use apart::apart;
pub use clock::{Clock, Sleep, SystemClock, VirtualClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use shutdown::{Shutdown, ShutdownHandle};
