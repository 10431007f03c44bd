//! Three nodes on one PostgreSQL server, and what happens to them and to it under load. Each fault ends in one printed line, judged
//! like any other: nothing lost, nothing stuck, nothing sent after its success was recorded, nothing twice but what was in flight.
//!
//! Controls bend the database or the wire under the nodes, never the nodes: the program has no setting that breaks its promises.

mod absence;
mod control;
mod faults;
mod limits;
mod slow;
mod stage;
mod standby;
mod steward;
mod together;
mod verdict;
