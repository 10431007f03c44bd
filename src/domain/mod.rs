//! What a delivery is and what may happen to it: pure values and pure functions.
//!
//! Nothing here waits, reads a clock, rolls dice, or knows SQL or HTTP types; all of that is handed in.

pub mod address;
pub mod app;
pub mod audit;
pub mod body;
pub mod certificate;
pub mod contract;
pub mod delivery;
pub mod directory;
pub mod endpoint;
pub mod event;
pub mod event_type;
pub mod field;
pub mod hint;
pub mod id;
pub mod inspection;
pub mod json;
pub mod key;
pub mod notice;
pub mod outcome;
pub mod port;
pub mod portal;
pub mod proxy;
pub mod quota;
pub mod replay;
pub mod request;
pub mod retention;
mod retry_after;
pub mod roster;
pub mod schedule;
pub mod schema;
pub mod script;
pub mod seal;
pub mod secret;
pub mod signer;
pub mod static_headers;
pub mod storage;
pub mod subscription;
pub mod tally;
pub mod target;
pub mod time;
pub mod tls;
pub mod verdict;
pub mod verification;
