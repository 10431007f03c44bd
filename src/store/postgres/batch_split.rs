//! Splits a batch into transactions.

use crate::{
    domain::id::EndpointId,
    store::sql::{Command, CommandKind},
};
use std::collections::{BTreeSet, HashSet};

/// Slow records in one transaction: other nodes may wait for their locks.
const SLOW_MAX: usize = 128;

pub(super) fn needs_global_lock(batch: &[Box<dyn Command>]) -> bool {
    batch.iter().any(|work| !work.takes_row_locks())
}

/// Splits a batch so that quick commands do not wait for slow ones. Hot-path commands go first; then those that take locks
/// and several round trips each: failures, deliveries of unhealthy endpoints and of ordering groups; last those that wait for
/// other nodes. Results at one endpoint keep their order, by which its health is evaluated; of two events with one key the
/// first stays the first; and a command that reads waiting deliveries stays behind the earlier commands.
pub(super) fn split_batch(
    batch: Vec<Box<dyn Command>>,
    unhealthy: &BTreeSet<EndpointId>,
) -> Vec<Vec<Box<dyn Command>>> {
    let (row_locking, global): (Vec<_>, Vec<_>) = batch.into_iter().partition(|work| work.takes_row_locks());
    let (mut failed, mut taken) = (BTreeSet::new(), HashSet::new());
    let mut is_slow = |work: &dyn Command| match work.kind() {
        CommandKind::Accept if taken.is_empty() => false,
        CommandKind::Accept => {
            let keys = work.keys();
            let is_second = keys.iter().any(|key| taken.contains(key));
            taken.extend(keys.into_iter().filter(|_| is_second));
            is_second
        }
        CommandKind::Success(endpoint) => unhealthy.contains(&endpoint) || failed.contains(&endpoint),
        CommandKind::Failure(endpoint) => {
            failed.insert(endpoint);
            true
        }
        CommandKind::NeedsQueueLock => {
            taken.extend(work.keys());
            true
        }
        CommandKind::Other => false,
    };
    let row_locking: Vec<_> = row_locking.into_iter().map(|work| (is_slow(work.as_ref()), work)).collect();
    let any_is_slow = row_locking.iter().any(|(is_slow, _)| *is_slow);
    let is_quick = |(is_slow, work): &(bool, Box<dyn Command>)| !is_slow && work.kind() != CommandKind::Other;
    let (quick, rest): (Vec<_>, Vec<_>) = row_locking.into_iter().partition(is_quick);
    let mut part: Vec<_> = quick.into_iter().map(|(_, work)| work).collect();
    let (mut parts, mut count) = (Vec::new(), 0);
    if any_is_slow {
        parts.push(std::mem::take(&mut part));
    }
    for (is_slow, work) in rest {
        count += usize::from(is_slow && work.kind() != CommandKind::NeedsQueueLock);
        part.push(work);
        if count == SLOW_MAX {
            parts.push(std::mem::take(&mut part));
            count = 0;
        }
    }
    parts.extend([part, global]);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::event::DedupKey,
        store::{
            StoreError,
            sql::{CommitEffects, Result, Sql},
        },
    };

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct TestCommand {
        kind: CommandKind,
        takes_row_locks: bool,
        key: Option<u8>,
    }

    const EVENT: TestCommand = row_locking(CommandKind::Accept);
    const IN_LINE: TestCommand = row_locking(CommandKind::NeedsQueueLock);
    const REFILL: TestCommand = row_locking(CommandKind::Other);
    const COLD: TestCommand = TestCommand { takes_row_locks: false, ..REFILL };

    const fn row_locking(kind: CommandKind) -> TestCommand {
        TestCommand { kind, takes_row_locks: true, key: None }
    }

    fn ok(endpoint: i64) -> TestCommand {
        row_locking(CommandKind::Success(EndpointId::from_i64(endpoint)))
    }

    fn failed(endpoint: i64) -> TestCommand {
        row_locking(CommandKind::Failure(EndpointId::from_i64(endpoint)))
    }

    impl Command for TestCommand {
        fn apply(&mut self, _: &dyn Sql) -> Result<()> {
            Ok(())
        }

        fn takes_row_locks(&self) -> bool {
            self.takes_row_locks
        }

        fn kind(&self) -> CommandKind {
            self.kind
        }

        fn keys(&self) -> Vec<DedupKey> {
            self.key.map(|key| DedupKey([key; 16])).into_iter().collect()
        }

        fn committed(self: Box<Self>, _: &mut CommitEffects) {}

        fn failed(self: Box<Self>, _: &StoreError) -> Option<Box<dyn Command>> {
            None
        }
    }

    fn parts(batch: &[TestCommand]) -> Vec<Vec<TestCommand>> {
        parts_beside(batch, &[])
    }

    fn parts_beside(batch: &[TestCommand], unhealthy: &[i64]) -> Vec<Vec<TestCommand>> {
        let batch = batch.iter().map(|command| Box::new(*command) as Box<dyn Command>);
        let unhealthy = unhealthy.iter().copied().map(EndpointId::from_i64).collect();
        let command = |work: &dyn Command| {
            let key = work.keys().first().map(|key| key.0[0]);
            TestCommand { kind: work.kind(), takes_row_locks: work.takes_row_locks(), key }
        };
        split_batch(batch.collect(), &unhealthy)
            .iter()
            .map(|part| part.iter().map(|work| command(work.as_ref())).collect())
            .collect()
    }

    #[test]
    fn hot_commands_go_before_failures_and_those_before_commands_that_wait_for_other_nodes() {
        assert_eq!(
            parts(&[COLD, failed(1), EVENT, ok(2), failed(3), COLD, EVENT]),
            [vec![EVENT, ok(2), EVENT], vec![failed(1), failed(3)], vec![COLD, COLD]]
        );
        for one in [EVENT, REFILL, ok(1), failed(1), COLD] {
            assert_eq!(parts(&[one]), [[one]]);
        }
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn results_at_an_endpoint_keep_their_order() {
        assert_eq!(
            parts(&[ok(1), failed(1), ok(1), ok(2), failed(1), ok(1)]),
            [vec![ok(1), ok(2)], vec![failed(1), ok(1), failed(1), ok(1)]]
        );
    }

    #[test]
    fn a_command_that_reads_waiting_deliveries_stays_behind_earlier_ones() {
        assert_eq!(parts(&[REFILL, EVENT, ok(1), REFILL]), [[EVENT, ok(1), REFILL, REFILL]]);
        assert_eq!(
            parts(&[failed(1), EVENT, REFILL, ok(2), COLD]),
            [vec![EVENT, ok(2)], vec![failed(1), REFILL], vec![COLD]]
        );
    }

    #[test]
    fn a_command_that_waits_for_a_lock_delays_no_event() {
        assert_eq!(parts(&[IN_LINE, EVENT, IN_LINE]), [vec![EVENT], vec![IN_LINE, IN_LINE]]);
        assert_eq!(parts_beside(&[ok(1), EVENT, ok(2)], &[1]), [vec![EVENT, ok(2)], vec![ok(1)]]);
    }

    #[test]
    fn of_two_events_with_one_key_the_first_stays_the_first() {
        let [first, second, other] = [(IN_LINE, 1), (EVENT, 1), (EVENT, 2)]
            .map(|(command, key)| TestCommand { key: Some(key), ..command });
        assert_eq!(
            parts(&[other, first, second, EVENT, other]),
            [vec![other, EVENT, other], vec![first, second]]
        );
    }

    #[test]
    fn failures_are_split_at_the_limit() {
        let sizes = |batch: &[TestCommand]| parts(batch).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[failed(1); 2 * SLOW_MAX + 1]), [SLOW_MAX, SLOW_MAX, 1]);
        assert_eq!(sizes(&[IN_LINE; 2 * SLOW_MAX + 1]), [2 * SLOW_MAX + 1]);
    }
}
