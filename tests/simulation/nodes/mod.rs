//! Several nodes on one store: each a process with clocks of its own that can be set, that freezes, dies and comes back, over
//! wires that lose what they carry. `witness` watches the store, `line` every request, `verdict` what came of it all.
//!
//! Every node has a runtime of its own, so that one stands still while the others go on. They meet in the store alone: nobody
//! rings, and whatever waits is found by looking.

mod controls;
mod director;
mod line;
mod node;
mod plan;
mod producers;
mod sabotage;
mod seeds;
mod standby;
mod town;
mod verdict;
mod witness;
