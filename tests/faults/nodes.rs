//! Three nodes on one PostgreSQL server, with faults of both under load. Each fault ends in one printed line, checked in the same
//! way: no delivery lost or stuck, none sent after its success was recorded, none twice but those in flight.
//!
//! Controls manipulate the database or the connection below the nodes, never the nodes: the program has no setting that breaks
//! its promises.

mod absence;
mod control;
mod faults;
mod fixture;
mod leader;
mod limits;
mod slow;
mod standby;
mod together;
mod verdict;
