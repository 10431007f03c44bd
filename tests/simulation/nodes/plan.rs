//! Plan of a story with several nodes, drawn from a seed: which events are published to which node when, which endpoints
//! change, and which faults happen.

use crate::{
    network::{ReceiverMode, Script},
    plan::{SECOND, pick},
};
use fastrand::Rng;
use posthaste::domain::{ordering::OrderingMode, rate_limit::RateLimit};

/// Times are milliseconds after the start.
#[derive(Debug)]
pub(crate) struct NodesPlan {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) endpoints: Vec<NodesEndpointPlan>,
    pub(crate) events: Vec<NodesEventPlan>,
    pub(crate) changes: Vec<ChangePlan>,
    pub(crate) faults: Vec<NodeFault>,
    /// For each node, how far its wall clock is off at every start, and how many of a million its clocks run too fast.
    pub(crate) clocks: Vec<(i64, i64)>,
    /// Probability in percent, for each commit, that a node that takes over from another dies in the middle of it.
    pub(crate) takers_die: u8,
    pub(crate) permits: usize,
}

/// When everything has begun, and the first events come.
pub(crate) const BEGIN: i64 = 8 * SECOND;
/// From here on everything works and every receiver is well.
pub(crate) const HEAL: i64 = 55 * SECOND;

/// Which nodes may send for it, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    Shared,
    Ordered(OrderingMode),
    Rated(RateLimit),
    /// So many requests at a time.
    Narrow(u32),
}

#[derive(Debug)]
pub(crate) struct NodesEndpointPlan {
    pub(crate) uid: String,
    pub(crate) kind: EndpointKind,
    pub(crate) script: Script,
}

#[derive(Clone, Debug)]
pub(crate) struct NodesEventPlan {
    pub(crate) at: i64,
    /// Node that is asked first.
    pub(crate) node: usize,
    /// Without an id the producer does not ask twice.
    pub(crate) id: Option<String>,
    pub(crate) key: Option<&'static str>,
    /// Another node is asked at the same time.
    pub(crate) has_twin: bool,
}

/// An endpoint becomes something else while it is being sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangePlan {
    pub(crate) at: i64,
    pub(crate) node: usize,
    pub(crate) endpoint: usize,
    /// So many requests at a time from now on; none: as many as there are.
    pub(crate) narrow: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeFault {
    pub(crate) at: i64,
    pub(crate) node: usize,
    pub(crate) kind: NodeFaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFaultKind {
    /// Killed; another process starts after so long.
    Kill(i64),
    /// Asked to stop; another process starts after so long.
    Stop(i64),
    /// Frozen for so long; what it sent to the store just before may arrive meanwhile.
    Freeze(i64),
    /// Frozen, and comes back without a connection.
    FreezeAway(i64),
    /// Cannot reach the store for so long.
    Away(i64),
    /// No node can reach the store for so long.
    AllAway(i64),
    /// Answers of the store to it, and what it sends, are lost now and then for so long.
    Noise(i64),
    /// Its wall clock is set.
    Step(i64),
    /// A standby of the store has what is there now, and nothing that comes.
    Lag,
    /// The store is that standby from now on; no node can reach it for so long.
    FailOver(i64),
}

impl NodesPlan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6e6f_6465);
        let nodes = pick(&mut rng, &[2, 3, 3, 3, 4]);
        let moments: Vec<i64> = (0..4).map(|_| rng.i64(BEGIN..HEAL - 5 * SECOND)).collect();
        let endpoints = endpoints(&mut rng);
        let mut faults = faults(&mut rng, nodes, &moments);
        let changes = changes(&mut rng, nodes, &endpoints, &moments);
        for change in &changes {
            // A node may learn of it late.
            let (node, at) = (rng.usize(0..2 * nodes), (change.at - 500).max(BEGIN));
            let late = NodeFault { at, node, kind: NodeFaultKind::Noise(4 * SECOND) };
            faults.extend(Some(late).filter(|late| late.node < nodes));
        }
        faults.extend(loss(seed));
        faults.sort_by_key(|fault| fault.at);
        Self {
            seed,
            nodes,
            events: events(&mut rng, nodes, &moments),
            changes,
            endpoints,
            faults,
            clocks: (0..nodes).map(|_| (rng.i64(-300..300), rng.i64(-10_000..10_000))).collect(),
            takers_die: pick(&mut rng, &[0, 0, 20, 60]),
            permits: pick(&mut rng, &[6, 12, 24, 64]),
        }
    }
}

fn endpoints(rng: &mut Rng) -> Vec<NodesEndpointPlan> {
    let rate = RateLimit { per_second: pick(rng, &[4, 8, 15]), burst: pick(rng, &[1, 3, 8]) };
    let kinds = [
        EndpointKind::Shared,
        EndpointKind::Shared,
        EndpointKind::Ordered(pick(rng, &[OrderingMode::Key, OrderingMode::Key, OrderingMode::Endpoint])),
        EndpointKind::Rated(rate),
        EndpointKind::Narrow(pick(rng, &[1, 2, 5])),
    ];
    let named = |(number, kind)| NodesEndpointPlan {
        uid: format!("ep{number}"),
        kind,
        script: Script { changes: script(rng) },
    };
    kinds.into_iter().enumerate().map(named).collect()
}

/// Draws when a receiver fails; it works again for a while in between, and from the heal on.
fn script(rng: &mut Rng) -> Vec<(i64, ReceiverMode)> {
    let mut changes = vec![(
        0,
        pick(rng, &[ReceiverMode::Ok, ReceiverMode::Ok, ReceiverMode::Slow(300), ReceiverMode::Slow(1500)]),
    )];
    let mut at = BEGIN;
    while rng.bool() && at < HEAL - 10 * SECOND {
        at += rng.i64(0..15 * SECOND);
        let bad = [
            ReceiverMode::Status(500),
            ReceiverMode::Refused,
            ReceiverMode::Refused,
            ReceiverMode::Hang,
            ReceiverMode::Slow(900),
            ReceiverMode::Slow(6000),
        ];
        changes.push((at, pick(rng, &bad)));
        at += rng.i64(SECOND..8 * SECOND);
        changes.push((at, pick(rng, &[ReceiverMode::Ok, ReceiverMode::Slow(200)])));
    }
    changes.push((HEAL, ReceiverMode::Ok));
    changes
}

/// Draws events: some on their own, and many at once at the moments at which faults happen.
fn events(rng: &mut Rng, nodes: usize, moments: &[i64]) -> Vec<NodesEventPlan> {
    let mut at: Vec<i64> = (0..rng.usize(10..40)).map(|_| rng.i64(BEGIN..HEAL)).collect();
    for moment in moments {
        at.extend((0..rng.usize(0..25)).map(|_| moment + rng.i64(-700..700)));
    }
    at.sort_unstable();
    let one = |(number, at): (usize, i64)| {
        let id = (rng.u8(0..5) > 0).then(|| format!("event-{number}"));
        NodesEventPlan {
            at: at.max(BEGIN),
            node: rng.usize(0..nodes),
            has_twin: id.is_some() && rng.u8(0..6) == 0,
            id,
            key: pick(rng, &[None, Some("a"), Some("a"), Some("b")]),
        }
    };
    at.into_iter().enumerate().map(one).collect()
}

fn changes(rng: &mut Rng, nodes: usize, endpoints: &[NodesEndpointPlan], moments: &[i64]) -> Vec<ChangePlan> {
    let mut changes = Vec::new();
    for (endpoint, _) in endpoints.iter().enumerate().filter(|(_, plan)| plan.kind == EndpointKind::Shared) {
        let mut at = pick(rng, moments) + rng.i64(-500..500);
        let mut narrow = Some(pick(rng, &[1, 3]));
        while rng.u8(0..3) > 0 && at < HEAL {
            changes.push(ChangePlan { at: at.max(BEGIN), node: rng.usize(0..nodes), endpoint, narrow });
            narrow = if narrow.is_some() { None } else { Some(pick(rng, &[1, 3])) };
            at += rng.i64(SECOND..15 * SECOND);
        }
    }
    changes.sort_by_key(|change| change.at);
    changes
}

fn faults(rng: &mut Rng, nodes: usize, moments: &[i64]) -> Vec<NodeFault> {
    let count = pick(rng, &[0, 1, 1, 2, 2, 3, 4, 6]);
    let one = |_| {
        let near = pick(rng, moments) + rng.i64(-700..700);
        let at = if rng.u8(0..3) > 0 { near } else { rng.i64(BEGIN..HEAL - 2 * SECOND) };
        NodeFault { at: at.max(BEGIN), node: rng.usize(0..nodes), kind: fault(rng) }
    };
    (0..count).map(one).collect()
}

/// Draws a loss: in some stories the store loses what it had confirmed.
fn loss(seed: u64) -> Vec<NodeFault> {
    let mut rng = Rng::with_seed(seed ^ 0x6c6f_7373);
    if rng.u8(0..5) > 0 {
        return Vec::new();
    }
    let at = rng.i64(BEGIN..HEAL - 5 * SECOND);
    let lag = pick(&mut rng, &[300, 2 * SECOND, 5 * SECOND, 12 * SECOND, 20 * SECOND]) + rng.i64(0..500);
    let lost_at = (at + lag).min(HEAL - SECOND);
    let away = pick(&mut rng, &[0, 0, 400, 3 * SECOND, 8 * SECOND]);
    let fault = |at, kind| NodeFault { at, node: 0, kind };
    vec![fault(at, NodeFaultKind::Lag), fault(lost_at, NodeFaultKind::FailOver(away))]
}

fn fault(rng: &mut Rng) -> NodeFaultKind {
    let down = pick(rng, &[200, 2 * SECOND, 9 * SECOND, 20 * SECOND]);
    let long = pick(rng, &[500, 3 * SECOND, 7 * SECOND, 13 * SECOND, 20 * SECOND]);
    // Around the end of a lease, where it matters most.
    let close = pick(rng, &[8700, 9000, 9300, 9600, 10 * SECOND, 12 * SECOND]) + rng.i64(-200..200);
    match rng.u8(0..14) {
        0..3 => NodeFaultKind::Kill(down),
        3 => NodeFaultKind::Stop(down),
        4 | 5 => NodeFaultKind::Freeze(close),
        6 | 7 => NodeFaultKind::FreezeAway(close),
        8 => NodeFaultKind::Freeze(long),
        9 | 10 => NodeFaultKind::Away(long),
        11 => NodeFaultKind::AllAway(long),
        12 => NodeFaultKind::Noise(long),
        _ => NodeFaultKind::Step(pick(rng, &[-30 * SECOND, -3 * SECOND, 2 * SECOND, 20 * SECOND])),
    }
}
