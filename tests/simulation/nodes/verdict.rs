//! Verdict on a story, once all is quiet: nothing is lost or stuck, receivers saw twice only what was on its way when a
//! fault happened, and no rate was exceeded by all nodes together.

use super::{
    db_triggers::TAKEN_OVER,
    environment::{Loss, NodesEnv, SentRequest},
    plan::EndpointKind,
    producers::Published,
};
use crate::event_log::Promise;
use posthaste::domain::{id::DeliveryId, rate_limit::RateLimit};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

/// How far apart the times of two nodes may be, in milliseconds and in parts of a hundred.
const SKEW: i64 = 25;
const DRIFT: i64 = 2;

/// Figures of a story.
#[derive(Debug, Default)]
pub(crate) struct NodesFigures {
    pub(crate) sends: usize,
    pub(crate) deliveries: usize,
    pub(crate) twice: usize,
    pub(crate) lives: usize,
    pub(crate) taken_over: usize,
    pub(crate) losses: usize,
    pub(crate) lost: usize,
}

impl NodesFigures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sends += other.sends;
        self.deliveries += other.deliveries;
        self.twice += other.twice;
        self.lives += other.lives;
        self.taken_over += other.taken_over;
        self.losses += other.losses;
        self.lost += other.lost;
    }
}

/// Checks everything that only the end shows. Returns the figures, and a number that the same story gives again.
pub(crate) fn check_end(env: &NodesEnv, published: &[Published]) -> (NodesFigures, u64) {
    all_delivered(env, published);
    left_behind(env);
    let sends = env.log().sends.clone();
    let twice = count_duplicates(env, &sends);
    for (number, endpoint) in env.plan.endpoints.iter().enumerate() {
        let queue = env.log().endpoints.get(number).copied();
        if let EndpointKind::Rated(rate) = endpoint.kind {
            let counts = |send: &&SentRequest| Some(send.queue) == queue && !is_unknowing(env, send);
            too_fast(env, sends.iter().filter(counts), rate);
        }
    }
    recorded_once(env, &sends);
    out_of_order(env, &sends, published);
    let mut hasher = DefaultHasher::new();
    format!("{sends:?} {published:?}").hash(&mut hasher);
    let log = env.log();
    let (lives, losses) = (log.lives.len(), log.losses.len());
    let lost = log.losses.iter().map(|loss| loss.events.len()).sum();
    drop(log);
    let figures = NodesFigures {
        sends: sends.len(),
        deliveries: count(env, "SELECT count(*) FROM deliveries") as usize,
        twice,
        lives,
        taken_over: count(env, "SELECT count(*) FROM attempts WHERE class = 9") as usize,
        losses,
        lost,
    };
    (figures, hasher.finish())
}

fn count(env: &NodesEnv, sql: &str) -> i64 {
    env.file().connection().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn all<T>(env: &NodesEnv, sql: &str, read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    let file = env.file().connection();
    let mut rows = file.prepare(sql).unwrap();
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

/// Checks that every accepted event, and every one that is stored without an answer, is delivered to every endpoint.
fn all_delivered(env: &NodesEnv, published: &[Published]) {
    let stored: BTreeMap<i64, i64> = all(
        env,
        "SELECT e.id, (SELECT count(*) FROM deliveries d WHERE d.event = e.id AND d.state = 4) FROM events e",
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .into_iter()
    .collect();
    for (number, Published { event, .. }) in published.iter().enumerate() {
        let is_lost = event.is_some_and(|event| env.log().is_lost(event));
        if let Some(event) = event
            && !stored.contains_key(&event.as_i64())
            && !is_lost
        {
            env.complain(Promise::Lost, format!("event {number} was accepted and is not stored"));
        }
    }
    let endpoints = env.plan.endpoints.len() as i64;
    let undelivered: Vec<_> = stored.iter().filter(|(_, delivered)| **delivered != endpoints).collect();
    if !undelivered.is_empty() {
        let (count, first) = (undelivered.len(), undelivered.first());
        let what = format!("{count} are not delivered to all {endpoints}, {first:?} first; {}", remains(env));
        env.complain(Promise::Stuck, what);
    }
    let worked: BTreeSet<DeliveryId> =
        env.log().sends.iter().filter(|send| send.works_at.is_some()).map(|send| send.delivery).collect();
    let delivered = all(env, "SELECT id FROM deliveries WHERE state = 4", |row| row.get(0));
    for delivery in delivered.into_iter().map(DeliveryId::from_i64).filter(|id| !worked.contains(id)) {
        env.complain(Promise::Lost, format!("{delivery} is called delivered and was not received"));
    }
}

/// Whether nothing waits or is in flight, and dead nodes are forgotten.
pub(crate) fn is_quiet(env: &NodesEnv) -> bool {
    let busy = count(env, "SELECT count(*) FROM deliveries WHERE queue IS NOT NULL");
    busy == 0 && count(env, "SELECT count(*) FROM nodes") == env.plan.nodes as i64
}

/// Describes what is not over.
pub(crate) fn remains(env: &NodesEnv) -> String {
    let nodes = all(env, "SELECT epoch, dead, lease_until FROM nodes", |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    let sql = "SELECT concat_ws(' ', id, 'to', endpoint, 'state', state, 'queue', queue, 'due', due, 'reason', reason,
            (SELECT error FROM attempts a WHERE a.delivery = d.id ORDER BY position DESC LIMIT 1))
         FROM deliveries d WHERE state <> 4 LIMIT 5";
    let rows: Vec<String> = all(env, sql, |row| row.get(0));
    format!("{rows:?}, nodes (epoch, dead, lease) {nodes:?}")
}

/// Checks that stopped nodes have left, with everything that they had.
fn left_behind(env: &NodesEnv) {
    let sql = "SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM shards WHERE epoch <> 0)
         + (SELECT count(*) FROM deliveries WHERE queue < 0)";
    if count(env, sql) > 0 {
        let what = format!("nodes that stopped left something behind: {}", remains(env));
        env.complain(Promise::Consistency, what);
    }
}

/// Returns how many deliveries were received more than once. Each had a sender that was taken over, died, let go of it, or
/// had to stop without an outcome, which is on record.
fn count_duplicates(env: &NodesEnv, sends: &[SentRequest]) -> usize {
    let mut fenced: BTreeSet<i64> = all(env, TAKEN_OVER, |row| row.get(0)).into_iter().collect();
    let unknown = "SELECT DISTINCT delivery FROM attempts WHERE class = 9";
    let unknown: BTreeSet<i64> = all(env, unknown, |row| row.get(0)).into_iter().collect();
    let log = env.log();
    fenced.extend(log.losses.iter().flat_map(|loss| loss.fenced.union(&loss.forgotten)));
    // Received, and then the store forgot that it was.
    let is_forgotten = |send: &SentRequest| {
        log.losses.iter().any(|loss| send.called_at <= loss.at && !loss.delivered.contains(&send.delivery))
    };
    let mut broken = Vec::new();
    let mut received: BTreeMap<DeliveryId, Vec<&SentRequest>> = BTreeMap::new();
    for send in sends.iter().filter(|send| send.works_at.is_some()) {
        received.entry(send.delivery).or_default().push(send);
    }
    let again = received.values().filter(|sends| sends.len() > 1);
    let mut count = 0;
    for sends in again {
        count += 1;
        let is_excused = |send: &&&SentRequest| {
            send.dropped_at.is_some()
                || fenced.contains(&send.epoch)
                || unknown.contains(&send.delivery.as_i64())
                || is_forgotten(send)
        };
        broken.extend(sends[..sends.len() - 1].iter().find(|send| !is_excused(send)).copied());
    }
    drop(log);
    for send in broken {
        env.complain(Promise::Duplicate, format!("received again although nothing went wrong: {send:?}"));
    }
    count
}

/// Whether its sender did not know yet that the store had lost what it wrote.
fn is_unknowing(env: &NodesEnv, send: &SentRequest) -> bool {
    let has_backlog = |loss: &Loss| loss.at < send.called_at && loss.forgotten.contains(&send.epoch);
    env.log().losses.iter().any(has_backlog)
}

/// Checks that no window of time holds more requests than the rate allows, from all senders together. A wall clock that is
/// set ahead fills a burst.
fn too_fast<'a>(env: &NodesEnv, sends: impl Iterator<Item = &'a SentRequest>, rate: RateLimit) {
    let mut times: Vec<i64> = sends.map(|send| send.called_at).collect();
    times.sort_unstable();
    let steps = env.log().steps.clone();
    for (first, from) in times.iter().enumerate() {
        for (until, count) in times[first..].iter().zip(1i64..) {
            let steps = steps.iter().filter(|step| (*from - 1000..=*until).contains(step)).count() as i64;
            let time = (until - from) * (100 + DRIFT) / 100 + SKEW;
            let allowed = i64::from(rate.burst) * (1 + steps) * 1000 + i64::from(rate.per_second) * time;
            if count * 1000 > allowed + 1000 {
                let what = format!("{count} requests within {} ms from {from} under {rate:?}", until - from);
                return env.complain(Promise::Pace, what);
            }
        }
    }
}

/// Checks that every result is in the history once.
fn recorded_once(env: &NodesEnv, sends: &[SentRequest]) {
    let mut sent: BTreeMap<i64, i64> = BTreeMap::new();
    for send in sends {
        *sent.entry(send.delivery.as_i64()).or_default() += 1;
    }
    // By a clock that was set back two requests may have begun at the same time.
    let is_set = !env.log().steps.is_empty();
    let one = if is_set { "concat_ws(' ', started_at, total_us, class)" } else { "started_at" };
    let sql = format!(
        "SELECT delivery, count(*), count(DISTINCT {one}) FROM attempts WHERE class <> 9 GROUP BY delivery"
    );
    let recorded = all(env, &sql, |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    for (delivery, rows, different) in recorded {
        let sent = sent.get(&delivery).copied().unwrap_or(0);
        if rows > sent || different < rows {
            let id = DeliveryId::from_i64(delivery);
            env.complain(Promise::Once, format!("{id} was sent {sent} times and has {rows} results"));
        }
    }
}

/// An event in an ordering group: how it was published, its delivery there, and the index of its first request.
type OrderedSend<'a> = (&'a Published, DeliveryId, usize);

/// Checks that, where order is kept, an event answered before another was published is sent before that, whichever nodes
/// took the two.
fn out_of_order(env: &NodesEnv, sends: &[SentRequest], published: &[Published]) {
    let times: BTreeMap<i64, &Published> =
        published.iter().filter_map(|one| Some((one.event?.as_i64(), one))).collect();
    let sql = "SELECT l.endpoint, l.ordering_key, d.event, d.id FROM lines l JOIN deliveries d ON d.id = l.delivery";
    let in_line = all(env, sql, |row| {
        let group: (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((group, row.get::<_, i64>(2)?, row.get(3).map(DeliveryId::from_i64)?))
    });
    let mut lines: BTreeMap<(i64, i64), Vec<OrderedSend<'_>>> = BTreeMap::new();
    for (group, event, delivery) in in_line {
        let began = sends.iter().position(|send| send.delivery == delivery).unwrap_or(usize::MAX);
        if let Some(published) = times.get(&event) {
            lines.entry(group).or_default().push((published, delivery, began));
        }
    }
    for group in lines.values() {
        for (earlier, first, began) in group {
            let was_overtaken_by = |(later, _, overtook): &&OrderedSend<'_>| {
                let is_later = earlier
                    .answered_at
                    .zip(later.asked_at)
                    .is_some_and(|(answered, requested)| answered <= requested);
                is_later && overtook < began
            };
            if let Some((later, second, _)) = group.iter().find(was_overtaken_by) {
                let what = format!("{second} of {later:?} began before {first} of {earlier:?}");
                env.complain(Promise::Order, what);
            }
        }
    }
}
