//! Heartbeats of this node: sent once a second, whether earlier ones were answered or not, so that a store that answers late
//! and steadily is as good as one that answers at once.

use super::{HEARTBEAT_SOON, HEARTBEAT_TIMEOUT, HeartbeatReply, MembershipState};
use crate::{
    domain::{
        cluster::{LEASE_MARGIN, NODE_LEASE},
        id::EndpointId,
        time::Monotonic,
    },
    store::{StoreError, cluster::ClusterView},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::task::JoinSet;

type HeartbeatAnswer = Result<Option<ClusterView>, StoreError>;

pub(super) struct HeartbeatTask<'a> {
    shared: &'a MembershipState,
    /// Heartbeats without an answer, in the order in which they were sent.
    unanswered: BTreeMap<u64, UnansweredHeartbeat>,
    answers: JoinSet<(u64, HeartbeatAnswer)>,
    sent_so_far: u64,
    /// Number of the newest that was answered.
    newest_answered: u64,
    was_answered: bool,
}

/// State of this node when a heartbeat was sent.
struct UnansweredHeartbeat {
    at: Monotonic,
    moves: u64,
    unconfirmed: BTreeSet<EndpointId>,
}

impl<'a> HeartbeatTask<'a> {
    pub(super) fn new(shared: &'a MembershipState) -> Self {
        let (under_way, answers) = (BTreeMap::new(), JoinSet::new());
        Self {
            shared,
            unanswered: under_way,
            answers,
            sent_so_far: 0,
            newest_answered: 0,
            was_answered: true,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        let shared = self.shared;
        loop {
            self.send();
            let mut next_one = pin!(async {
                tokio::select! {
                    biased;
                    () = shared.queues.context.membership.notified() => shared.clock.sleep_for(HEARTBEAT_SOON).await,
                    () = shared.clock.sleep_for(shared.heartbeat_interval()) => {}
                }
            });
            loop {
                tokio::select! {
                    biased;
                    Some(answered) = self.answers.join_next() => {
                        let (number, answer) = answered.map_err(|_| StoreError::Closed)?;
                        self.handle_answer(number, answer).await?;
                    }
                    () = &mut next_one => break,
                }
            }
        }
    }

    fn send(&mut self) {
        let shared = self.shared;
        let (at, moves) = (shared.clock.monotonic(), shared.shard_moves.load(SeqCst));
        // Their causes were committed before, so the version that is answered is not older.
        let doubts = shared.queues.take_unconfirmed();
        shared.unconfirmed().extend(doubts.iter().map(|endpoint| (*endpoint, i64::MAX)));
        self.sent_so_far += 1;
        let number = self.sent_so_far;
        self.unanswered.insert(number, UnansweredHeartbeat { at, moves, unconfirmed: doubts });
        let (cluster, clock, words) =
            (shared.cluster_store.clone(), shared.clock.clone(), shared.heartbeat());
        self.answers.spawn(async move {
            let answer = tokio::select! {
                biased;
                answer = cluster.heartbeat(words) => answer,
                () = clock.sleep_for(HEARTBEAT_TIMEOUT) => Err(StoreError::Unavailable("no answer to a beat".into())),
            };
            (number, answer)
        });
    }

    async fn handle_answer(&mut self, number: u64, answer: HeartbeatAnswer) -> Result<(), StoreError> {
        let shared = self.shared;
        let Some(UnansweredHeartbeat { at, moves, unconfirmed: doubts }) = self.unanswered.remove(&number)
        else {
            return Ok(());
        };
        match answer {
            Ok(Some(view)) => {
                self.assign_version(number, &doubts, view.version);
                self.was_answered = true;
                // A late answer on another connection is out of date.
                if number > self.newest_answered {
                    self.newest_answered = number;
                    shared.extend_lease(at.plus(NODE_LEASE.saturating_sub(LEASE_MARGIN)));
                    shared.reply.send_replace(Some(Arc::new(HeartbeatReply { view, shard_moves: moves })));
                }
                return Ok(());
            }
            Ok(None) => {}
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(error) => {
                shared.queues.confirm_again(doubts);
                if std::mem::replace(&mut self.was_answered, false) {
                    tracing::warn!(%error, "a heartbeat was not answered; nothing is sent if that goes on");
                }
                return Ok(());
            }
        }
        // Heartbeats under way are void: they are of the same epoch.
        self.answers.abort_all();
        self.answers = JoinSet::new();
        self.unanswered.clear();
        shared.join_again().await
    }

    /// Notes the version from which on all nodes know the causes of these doubts, unless a later heartbeat has the same
    /// ones.
    fn assign_version(&self, number: u64, doubts: &BTreeSet<EndpointId>, version: i64) {
        let later = || self.unanswered.range(number + 1..).map(|(_, sent)| sent);
        let is_asked_again = |endpoint| later().any(|sent| sent.unconfirmed.contains(endpoint));
        let mut all = self.shared.unconfirmed();
        for endpoint in doubts.iter().filter(|endpoint| !is_asked_again(endpoint)) {
            let known = all.entry(*endpoint).or_insert(version);
            *known = if *known == i64::MAX { version } else { version.max(*known) };
        }
    }
}
