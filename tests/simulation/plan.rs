//! Plan of a story, drawn from a seed before it starts: the endpoints and events, the requests of people, and the faults.

use crate::{
    bulk_replays::{self, BulkPlan},
    contracts, declining_receiver,
    limits::LimitsPlan,
    network::{ReceiverMode, Script},
    order,
};
use fastrand::Rng;
use posthaste::domain::{
    contract::{Contract, OverrideLevel},
    ordering::{OnDead, OrderingMode},
};
use serde_json::{Value, json};

pub(crate) const SECOND: i64 = 1000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// Everything that happens by plan. Times are milliseconds after the start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) endpoints: Vec<EndpointPlan>,
    pub(crate) events: Vec<EventPlan>,
    pub(crate) wishes: Vec<ActionPlan>,
    pub(crate) availability_changes: Vec<AvailabilityPlan>,
    pub(crate) bulks: Vec<BulkPlan>,
    pub(crate) faults: Vec<PlannedFault>,
    /// From here on the disk works, nothing is killed, and every receiver is well or dead for good.
    pub(crate) heal_at: i64,
    /// Permits of the engine, and its intervals.
    pub(crate) permits: usize,
    pub(crate) recheck_every: i64,
    pub(crate) grace: i64,
    /// Retention, where the story is long enough for that to matter.
    pub(crate) retention: Option<RetentionPlan>,
    pub(crate) limits: LimitsPlan,
}

/// Retention in milliseconds, for the app and all its endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionPlan {
    pub(crate) events: i64,
    pub(crate) attempts: i64,
    pub(crate) payloads: i64,
    /// Forever if absent.
    pub(crate) dead_letters: Option<i64>,
    /// How often the engine searches for what is kept no longer.
    pub(crate) every: i64,
}

impl RetentionPlan {
    /// Draws retention for every fourth story or so, apart, so that the others stay as they are.
    fn of(seed: u64) -> Option<Self> {
        let mut rng = Rng::with_seed(seed ^ 0x6b65_6570);
        (rng.u8(0..4) == 0).then(|| Self {
            events: pick(&mut rng, &[10 * MINUTE, 5 * HOUR, DAY, 5 * DAY]),
            attempts: pick(&mut rng, &[MINUTE, 2 * HOUR, 2 * DAY]),
            payloads: pick(&mut rng, &[MINUTE, HOUR, 2 * DAY]),
            dead_letters: pick(&mut rng, &[None, Some(10 * MINUTE), Some(DAY), Some(4 * DAY)]),
            every: pick(&mut rng, &[HOUR, 3 * HOUR, 6 * HOUR]),
        })
    }

    pub(crate) fn overrides(&self) -> Value {
        let seconds = |ms: i64| format!("{}s", ms / SECOND);
        json!({
            "events": seconds(self.events), "attempts": seconds(self.attempts), "payloads": seconds(self.payloads),
            "dead_letters": self.dead_letters.map_or_else(|| "forever".to_owned(), seconds),
        })
    }
}

#[derive(Debug)]
pub(crate) struct EndpointPlan {
    pub(crate) uid: String,
    pub(crate) contract: &'static str,
    pub(crate) overrides: Value,
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) ordered: OrderingMode,
    pub(crate) on_dead: Option<OnDead>,
    pub(crate) script: Script,
}

#[derive(Debug)]
pub(crate) struct EventPlan {
    pub(crate) at: i64,
    pub(crate) id: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) event_type: &'static str,
    pub(crate) deliver_at: Option<i64>,
    pub(crate) key: Option<&'static str>,
    /// The producer does not see the first answer and asks again.
    pub(crate) first_answer_is_lost: bool,
    /// Published in a batch that holds it twice.
    pub(crate) has_twin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionKind {
    Retry,
    Replay,
    Cancel,
    Close,
    /// A test event to an endpoint.
    Test,
}

/// A request of a person; `pick` chooses among the deliveries that exist by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionPlan {
    pub(crate) at: i64,
    pub(crate) kind: ActionKind,
    pub(crate) pick: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AvailabilityAction {
    Off,
    On,
    Delete,
    /// A change that means nothing to deliveries.
    Touch,
    /// Dead deliveries no longer block others.
    Skip,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AvailabilityPlan {
    pub(crate) at: i64,
    pub(crate) endpoint: usize,
    pub(crate) kind: AvailabilityAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    At(i64),
    BeforeCommit(u32),
    AfterCommit(u32),
    /// So many milliseconds after the start of the n-th request.
    InPost(u32, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskTrouble {
    /// No write succeeds.
    ReadOnly,
    /// The file cannot grow.
    Full,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedFault {
    Kill { trigger: Trigger, down: i64 },
    Stop { at: i64, down: i64 },
    Disk { at: i64, until: i64, trouble: DiskTrouble },
}

impl EndpointPlan {
    pub(crate) fn resolved(&self) -> Contract {
        contracts::named(self.contract).with_overrides(&self.overrides, OverrideLevel::Operator).unwrap()
    }
}

/// Main subject of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoryFocus {
    Ordinary,
    /// Endpoints are enabled, disabled and changed all the time, and receivers answer that they are gone.
    Restless,
    /// The disk fails, and that while processes come and go.
    Failing,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        use StoryFocus::{Failing, Ordinary, Restless};
        let mut rng = Rng::with_seed(seed);
        let mood = pick(&mut rng, &[Ordinary, Ordinary, Ordinary, Ordinary, Restless, Failing]);
        let span = pick(&mut rng, &[10 * MINUTE, 2 * HOUR, DAY, 4 * DAY, 14 * DAY]);
        let heal_at = span + MINUTE;
        let mut endpoints =
            (0..rng.usize(1..=4)).map(|n| endpoint(&mut rng, n, heal_at, mood)).collect::<Vec<_>>();
        let switchable = endpoints.len();
        endpoints.extend(declining_receiver::plan(seed, switchable, heal_at));
        let keeps = RetentionPlan::of(seed);
        let limits = LimitsPlan::of(seed, endpoints.len());
        for endpoint in &mut endpoints {
            if let Some(keeps) = keeps {
                endpoint.overrides["retention"] = keeps.overrides();
            }
        }
        let scenes: Vec<i64> = (0..rng.usize(1..=5)).map(|_| rng.i64(0..span)).collect();
        let mut events: Vec<_> = (0..events_count(&mut rng)).map(|n| event(&mut rng, n, &scenes)).collect();
        let near = Moments { events: events.iter().map(|event| event.at).collect(), span };
        let wishes = (0..rng.usize(0..8)).map(|_| wish(&mut rng, &near)).collect();
        let mut availability_changes = availability_changes(&mut rng, &near, switchable, mood);
        let faults = faults(&mut rng, &near, mood);
        availability_changes.extend(order::plan(seed, &mut endpoints, &mut events, &near));
        let bulks = bulk_replays::plans(seed, &near, switchable);
        let permits = pick(&mut rng, &[1000, 1000, 1000, 8, 3, 1]);
        Self {
            seed,
            endpoints,
            events,
            wishes,
            availability_changes,
            bulks,
            faults,
            heal_at,
            permits,
            recheck_every: pick(&mut rng, &[HOUR, 12 * HOUR, 5 * DAY]),
            grace: pick(&mut rng, &[0, SECOND, 5 * SECOND, 25 * SECOND]),
            retention: keeps,
            limits,
        }
    }
}

/// Moments at which events happen: mostly while something else is happening.
pub(crate) struct Moments {
    events: Vec<i64>,
    span: i64,
}

impl Moments {
    pub(crate) fn one(&self, rng: &mut Rng) -> i64 {
        match rng.u8(0..10) {
            0..3 => rng.i64(0..self.span),
            3..7 => pick(rng, &self.events) + rng.i64(0..100),
            _ => pick(rng, &self.events) + rng.i64(0..2 * MINUTE),
        }
    }
}

pub(crate) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(0..from.len())]
}

fn events_count(rng: &mut Rng) -> usize {
    if rng.u8(0..5) == 0 { rng.usize(15..=40) } else { rng.usize(5..=14) }
}

fn endpoint(rng: &mut Rng, number: usize, heal_at: i64, mood: StoryFocus) -> EndpointPlan {
    let contract =
        pick(rng, &["standard", "standard", "strict", "patient-end", "gives-up", "spread", "quick"]);
    // The network learns from this header which attempt it sees.
    let mut overrides = json!({ "headers": { "x-attempt-id": "{attempt_id}" } });
    match rng.u8(0..8) {
        0 => overrides["retry"] = json!({ "waits": ["1s", "1h", "1d"], "jitter": "20%" }),
        1 => overrides["retry"] = json!({ "waits": [] }),
        2 => overrides["timeout"] = "1s".into(),
        _ => {}
    }
    EndpointPlan {
        uid: format!("receiver-{number}"),
        contract,
        overrides,
        max_in_flight: pick(rng, &[None, None, None, Some(1), Some(3)]),
        ordered: OrderingMode::None,
        on_dead: None,
        script: Script::of(rng, heal_at, mood),
    }
}

fn event(rng: &mut Rng, number: usize, scenes: &[i64]) -> EventPlan {
    let at = pick(rng, scenes) + rng.i64(0..5 * SECOND);
    let ahead = [20 * SECOND, MINUTE, 3 * HOUR, DAY];
    EventPlan {
        at,
        id: (rng.u8(0..10) < 7).then(|| format!("event-{number}")),
        idempotency_key: (rng.u8(0..10) < 3).then(|| format!("key-{number}")),
        event_type: pick(rng, &["order.paid", "order.refunded", "user.created"]),
        deliver_at: (rng.u8(0..6) == 0).then(|| at + pick(rng, &ahead)),
        key: None,
        first_answer_is_lost: rng.u8(0..10) == 0,
        has_twin: rng.u8(0..10) == 0,
    }
}

fn wish(rng: &mut Rng, near: &Moments) -> ActionPlan {
    use ActionKind::{Cancel, Close, Replay, Retry, Test};
    let kind = pick(rng, &[Retry, Retry, Retry, Replay, Replay, Cancel, Close, Test]);
    ActionPlan { at: near.one(rng), kind, pick: rng.u64(..) }
}

fn availability_changes(
    rng: &mut Rng,
    near: &Moments,
    endpoints: usize,
    mood: StoryFocus,
) -> Vec<AvailabilityPlan> {
    let mut availability_changes = Vec::new();
    let is_restless = mood == StoryFocus::Restless;
    if !is_restless && rng.bool() {
        return availability_changes;
    }
    for _ in 0..if is_restless { rng.usize(10..40) } else { rng.usize(1..4) } {
        let (at, endpoint) = (near.one(rng), rng.usize(0..endpoints));
        let off_for = pick(rng, &[5, 15, 30, SECOND, 30 * SECOND, HOUR, DAY]);
        availability_changes.push(AvailabilityPlan { at, endpoint, kind: AvailabilityAction::Off });
        if rng.u8(0..5) > 0 {
            availability_changes.push(AvailabilityPlan {
                at: at + off_for,
                endpoint,
                kind: AvailabilityAction::On,
            });
        }
    }
    for _ in 0..if is_restless { rng.usize(0..40) } else { rng.usize(0..4) } {
        let (at, endpoint) = (near.one(rng), rng.usize(0..endpoints));
        availability_changes.push(AvailabilityPlan { at, endpoint, kind: AvailabilityAction::Touch });
    }
    if rng.u8(0..4) == 0 {
        let (at, endpoint) = (near.one(rng), rng.usize(0..endpoints));
        availability_changes.push(AvailabilityPlan { at, endpoint, kind: AvailabilityAction::Delete });
    }
    availability_changes
}

fn faults(rng: &mut Rng, near: &Moments, mood: StoryFocus) -> Vec<PlannedFault> {
    let mut faults = Vec::new();
    let downs = [0, 10, 300, SECOND, 20 * SECOND, 10 * MINUTE, 5 * HOUR];
    for _ in 0..rng.usize(0..6) {
        let trigger = match rng.u8(0..8) {
            0 | 1 => Trigger::At(near.one(rng)),
            2 | 3 => Trigger::BeforeCommit(some_count(rng)),
            4 | 5 => Trigger::AfterCommit(some_count(rng)),
            _ => Trigger::InPost(some_count(rng), pick(rng, &[0, 1, 20, 100, SECOND, 5 * SECOND])),
        };
        faults.push(PlannedFault::Kill { trigger, down: pick(rng, &downs) });
    }
    for _ in 0..pick(rng, &[0, 0, 1, 2]) {
        faults.push(PlannedFault::Stop { at: near.one(rng), down: pick(rng, &downs) });
    }
    let troubles =
        if mood == StoryFocus::Failing { rng.usize(1..4) } else { usize::from(rng.u8(0..10) == 0) };
    for _ in 0..troubles {
        let at = near.one(rng);
        let until = at + pick(rng, &[100, SECOND, 30 * SECOND, 2 * MINUTE, 4 * MINUTE]);
        let trouble = pick(rng, &[DiskTrouble::ReadOnly, DiskTrouble::Full]);
        faults.push(PlannedFault::Disk { at, until, trouble });
        match rng.u8(0..4) {
            0 | 1 => faults.push(PlannedFault::Stop { at: rng.i64(at..until), down: pick(rng, &downs) }),
            2 => {
                let trigger = Trigger::At(rng.i64(at..until));
                faults.push(PlannedFault::Kill { trigger, down: pick(rng, &downs) });
            }
            _ => {}
        }
    }
    faults
}

/// Draws a count, mostly an early one: every story has an early part.
fn some_count(rng: &mut Rng) -> u32 {
    if rng.bool() { rng.u32(1..20) } else { rng.u32(1..200) }
}

impl Script {
    /// Draws how a receiver behaves from when on; the last entry is for good.
    fn of(rng: &mut Rng, heal_at: i64, mood: StoryFocus) -> Self {
        let mut changes = vec![(0, mode(rng, mood))];
        let mut at = 0;
        for _ in 0..rng.usize(0..5) {
            // Local errors pass soon; while they last there is an attempt every five seconds.
            let was_local = changes.last().is_some_and(|(_, mode)| *mode == ReceiverMode::Local);
            let lasts = [SECOND, 30 * SECOND, 10 * MINUTE, 2 * HOUR, DAY, 3 * DAY];
            at += if was_local { 20 * SECOND } else { pick(rng, &lasts) } + rng.i64(0..SECOND);
            if at < heal_at {
                changes.push((at, mode(rng, mood)));
            }
        }
        if let Some((at, ReceiverMode::Local)) = changes.last().copied() {
            changes.push((at + 20 * SECOND, ReceiverMode::Ok));
        }
        let dead_for_good =
            [ReceiverMode::Status(500), ReceiverMode::Hang, ReceiverMode::Refused, ReceiverMode::Status(404)];
        let at_last = if rng.u8(0..5) == 0 { pick(rng, &dead_for_good) } else { ReceiverMode::Ok };
        changes.push((heal_at, at_last));
        Self { changes }
    }
}

fn mode(rng: &mut Rng, mood: StoryFocus) -> ReceiverMode {
    if mood == StoryFocus::Restless && rng.bool() {
        return ReceiverMode::Status(410);
    }
    match rng.u8(0..30) {
        0..8 => ReceiverMode::Ok,
        8..11 => ReceiverMode::Status(pick(rng, &[500, 503, 404, 302])),
        11 | 12 => ReceiverMode::Status(410),
        13..15 => ReceiverMode::TooMany(pick(rng, &[0, 7, 90, 4000, 1_000_000])),
        15..17 => ReceiverMode::Hang,
        17..19 => ReceiverMode::Slow(pick(rng, &[500, 3 * SECOND, 9 * SECOND, 20 * SECOND])),
        19 | 20 => ReceiverMode::Refused,
        21 | 22 => ReceiverMode::Stale,
        23 => ReceiverMode::Local,
        24 | 25 => ReceiverMode::Lie,
        26 => ReceiverMode::Dns,
        _ => ReceiverMode::Flapping,
    }
}
