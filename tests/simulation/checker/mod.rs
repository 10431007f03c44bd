//! The independent checker: joins what the outside saw with what the store says, after everything has come to rest.
//!
//! The checker knows contracts as data and computes what should have happened by itself; it calls none of the product's
//! rules.

mod accepts;
mod availability;
mod ends;
mod evidence;
mod excuses;
mod expected_course;
mod health;
mod history;
mod notices;
mod order;
mod pacing;
mod replays;
mod retention;

pub(crate) use evidence::Figures;

use crate::{
    event_log::{EventLog, Violation},
    plan::Plan,
};
use evidence::Evidence;
use order::OrderingGroups;
use rusqlite::Connection;

pub(crate) fn check(plan: &Plan, event_log: &EventLog, disk: &Connection) -> (Vec<Violation>, Figures) {
    let evidence = Evidence::read(plan, event_log, disk);
    let mut violations = Vec::new();
    accepts::check(&evidence, &mut violations);
    retention::check(&evidence, &mut violations);
    let lines = OrderingGroups::of(&evidence, disk);
    lines.check(&mut violations);
    health::check(&evidence, &mut violations);
    pacing::check(&evidence, &mut violations);
    for file in &evidence.files {
        history::check(&evidence, file, &mut violations);
        expected_course::check(&evidence, &lines, file, &mut violations);
    }
    notices::check(disk, &mut violations);
    let replayed = replays::check(&evidence, disk, &mut violations);
    (violations, Figures { replayed, ..evidence.figures() })
}
