//! Runs one seed from its plan to the verdict: runs every node in turn, a few milliseconds at a time and in any order,
//! triggers faults at their times, and waits until all is quiet.

use super::{
    db_triggers,
    environment::NodesEnv,
    node::{GRACE, Node},
    plan::{BEGIN, HEAL, NodeFault, NodeFaultKind, NodesPlan},
    producers::{self, Producers},
    sabotage::NodeSabotage,
    standby,
    verdict::{self, NodesFigures},
};
use crate::{
    event_log::{Promise, Violation},
    plan::SECOND,
};
use fastrand::Rng;
use std::sync::Arc;

/// Longest turn of a node: how far nodes' times are apart at most.
const TURN_MS_MAX: i64 = 20;
const FURNISHED_AT: i64 = 4 * SECOND;
const STARTS_AGAIN_AFTER: i64 = SECOND;
/// Time limit after the heal: takeovers, the longest wait of a schedule and of a circuit breaker.
const QUIET_WITHIN: i64 = 150 * SECOND;

/// Result of a seed.
pub(crate) struct NodesResult {
    pub(crate) violations: Vec<Violation>,
    pub(crate) figures: NodesFigures,
    pub(crate) trace: u64,
}

/// A place for processes, one after another.
#[derive(Default)]
struct NodeSlot {
    node: Option<Node>,
    starts_at: i64,
    /// Frozen until then. Before that a batch that was on its way arrives, at some time or just when another node is taking
    /// over.
    frozen_until: Option<i64>,
    late_at: Option<i64>,
    is_racing: bool,
    /// Must have ended by then, and starts again so long after.
    stops: Option<(i64, i64)>,
}

struct NodesDirector {
    env: Arc<NodesEnv>,
    slots: Vec<NodeSlot>,
    producers: Producers,
    faults: Vec<NodeFault>,
    rng: Rng,
    now: i64,
}

pub(crate) fn run(seed: u64, sabotage: NodeSabotage) -> NodesResult {
    let env = NodesEnv::new(NodesPlan::of(seed), sabotage);
    let slot = |number: usize| NodeSlot { starts_at: number as i64 * 700, ..NodeSlot::default() };
    let mut faults = env.plan.faults.clone();
    faults.reverse();
    let mut director = NodesDirector {
        slots: (0..env.plan.nodes).map(slot).collect(),
        producers: Producers::new(&env),
        faults,
        rng: Rng::with_seed(seed ^ 0x6469_7265),
        now: 0,
        env,
    };
    director.direct();
    let NodesDirector { env, producers, .. } = director;
    let (figures, trace) = verdict::check_end(&env, &producers.published);
    let violations = std::mem::take(&mut env.log().violations);
    NodesResult { violations, figures, trace }
}

impl NodesDirector {
    fn direct(&mut self) {
        self.pass_until(FURNISHED_AT);
        if let Some(node) = &self.slots[0].node
            && let Some(service) = node.service()
        {
            node.spawn(producers::create_app_and_endpoints(self.env.clone(), service));
        }
        self.pass_until(BEGIN);
        let (wanted, made) = (self.env.plan.endpoints.len(), self.env.log().endpoints.len());
        assert_eq!(wanted, made, "everything is there when it begins");
        self.env.state().is_dangerous = true;
        self.pass_until(HEAL);
        self.heal();
        if !self.run_until_quiet() {
            let what = format!("not everything came to rest: {}", verdict::remains(&self.env));
            self.env.complain(Promise::Stuck, what);
        }
        for slot in &self.slots {
            slot.node.iter().for_each(|node| node.must_agree(&self.env));
        }
        self.close();
    }

    fn pass_until(&mut self, until: i64) {
        while self.now < until {
            self.run_all_once();
        }
    }

    /// Runs every node once.
    fn run_all_once(&mut self) {
        let until = self.now + self.rng.i64(1..=TURN_MS_MAX);
        while let Some(fault) = self.faults.pop_if(|fault| fault.at <= self.now) {
            self.go_wrong(fault);
        }
        let nodes: Vec<Option<&Node>> = self.slots.iter().map(|slot| slot.node.as_ref()).collect();
        self.producers.step(self.now, &nodes);
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        self.rng.shuffle(&mut order);
        for number in order {
            self.run_node(number, until);
        }
        self.now = until;
        self.env.state().now = until;
        db_triggers::report(&self.env);
    }

    fn run_node(&mut self, number: usize, until: i64) {
        let (env, now) = (&self.env, self.now);
        let slot = &mut self.slots[number];
        if slot.node.is_none() && slot.starts_at <= now {
            slot.node = Node::start(env, number);
            slot.starts_at = now + STARTS_AGAIN_AFTER;
        }
        let Some(node) = &slot.node else { return };
        let is_late = slot.late_at.take_if(|at| *at <= now).is_some();
        if is_late || slot.is_racing && self.rng.bool() && node.is_being_taken_over(env) {
            slot.is_racing = false;
            node.arrives_late(env);
        }
        match slot.frozen_until {
            Some(thaws_at) if now < thaws_at => return,
            Some(_) => {
                (slot.frozen_until, slot.late_at, slot.is_racing) = (None, None, false);
                node.thaw(env, now);
            }
            None => {}
        }
        node.drive(env, until);
        let is_doomed = env.state().doomed.remove(&number);
        let has_ended = node.has_ended();
        let is_late = slot.stops.is_some_and(|(limit, _)| limit <= now);
        if !(is_doomed || has_ended || is_late) {
            return;
        }
        let Some(node) = slot.node.take() else { return };
        let down = slot.stops.take().map_or(STARTS_AGAIN_AFTER, |(_, down)| down);
        slot.starts_at = now + down;
        if has_ended {
            node.end(env);
        } else {
            node.die(env);
        }
        if is_late && !is_doomed && !has_ended {
            env.complain(Promise::Consistency, format!("node {number} did not stop within its grace"));
        }
    }

    fn go_wrong(&mut self, NodeFault { node: number, kind, .. }: NodeFault) {
        let (env, now) = (&self.env, self.now);
        let slot = &mut self.slots[number];
        match kind {
            NodeFaultKind::Away(time) => env.state().away[number] = now + time,
            NodeFaultKind::AllAway(time) => env.state().away.iter_mut().for_each(|away| *away = now + time),
            NodeFaultKind::Noise(time) => env.state().noisy[number] = now + time,
            NodeFaultKind::Kill(down) => {
                if let Some(node) = slot.node.take() {
                    node.die(env);
                    *slot = NodeSlot { starts_at: now + down, ..NodeSlot::default() };
                }
            }
            NodeFaultKind::Stop(down) => {
                if let (Some(node), None) = (&slot.node, slot.stops) {
                    node.stop();
                    // A node that is frozen or cut off needs longer.
                    slot.stops = Some((now + 60 * SECOND, down));
                }
            }
            NodeFaultKind::Freeze(time) | NodeFaultKind::FreezeAway(time) => {
                if let NodeFaultKind::FreezeAway(_) = kind {
                    env.state().away[number] = now + time + 3 * SECOND;
                }
                if let (Some(node), None) = (&slot.node, slot.frozen_until) {
                    env.log().lives[node.life].freezes += 1;
                    slot.frozen_until = Some(now + time);
                    slot.is_racing = self.rng.bool();
                    let arrives_at = now + self.rng.i64(0..time);
                    slot.late_at = Some(arrives_at).filter(|_| !slot.is_racing && self.rng.bool());
                }
            }
            NodeFaultKind::Step(by_ms) => {
                if let Some(node) = &slot.node {
                    node.set_clock(by_ms);
                    env.log().steps.push(now);
                }
            }
            NodeFaultKind::Lag => standby::stop_following(env),
            NodeFaultKind::FailOver(time) => {
                let nodes = self.slots.iter().filter_map(|slot| slot.node.as_ref());
                standby::promote(env, &nodes.filter_map(Node::confirmed).collect());
                env.state().away.iter_mut().for_each(|away| *away = (now + time).max(*away));
            }
        }
    }

    /// Ends all faults: from now on everything works.
    fn heal(&mut self) {
        let mut state = self.env.state();
        state.is_dangerous = false;
        state.away.fill(0);
        state.noisy.fill(0);
        for slot in &mut self.slots {
            slot.frozen_until = slot.frozen_until.map(|_| self.now);
            slot.starts_at = slot.starts_at.min(self.now);
        }
    }

    /// Runs until no request is open and nothing waits or is in flight.
    fn run_until_quiet(&mut self) -> bool {
        while self.now < HEAL + QUIET_WITHIN {
            self.pass_until(self.now + SECOND);
            let is_quiet = verdict::is_quiet(&self.env);
            let is_idle =
                |slot: &NodeSlot| slot.node.as_ref().is_some_and(|node| node.queues.permits_out() == 0);
            if is_quiet && self.producers.are_done() && self.slots.iter().all(is_idle) {
                return true;
            }
        }
        false
    }

    /// Stops all nodes, which must leave nothing behind.
    fn close(&mut self) {
        let limit = self.now + GRACE + 10 * SECOND;
        for slot in &mut self.slots {
            slot.starts_at = i64::MAX;
            if let Some(node) = &slot.node {
                node.stop();
                slot.stops = Some((limit, 1_000_000 * SECOND));
            }
        }
        while self.slots.iter().any(|slot| slot.node.is_some()) {
            self.run_all_once();
        }
        db_triggers::report(&self.env);
    }
}
