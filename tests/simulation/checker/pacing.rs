//! Limits as receivers see them, over all processes: no window of time holds more requests than a rate allows, never are
//! more in flight than a limit allows, and an open circuit breaker lets one probe out at a time.

use super::evidence::Evidence;
use crate::{
    event_log::{Promise, Violation},
    network::SeenRequest,
};
use posthaste::domain::{contract::Pacing, id::EndpointId, rate_limit::RateLimit};

pub(crate) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let (plan, limits) = (evidence.plan, &evidence.plan.limits);
    let posts: Vec<&SeenRequest> = evidence.event_log.posts.iter().collect();
    let mut find = |who: &str, posts: &[&SeenRequest], rate: Option<RateLimit>, places: Option<usize>| {
        let too_fast = rate.and_then(|rate| too_fast(posts, rate));
        let too_many = places.and_then(|most| too_many(posts, most));
        for what in too_fast.into_iter().chain(too_many) {
            violations.push(Violation { promise: Promise::Pace, what: format!("{who}: {what}") });
        }
    };
    for (number, endpoint) in plan.endpoints.iter().enumerate() {
        let of_endpoint = of_endpoint(&posts, evidence.event_log.endpoints[number]);
        let places = endpoint.max_in_flight.unwrap_or(64) as usize;
        find(&endpoint.uid, &of_endpoint, limits.rates[number], Some(places));
    }
    let places = limits.app.max_in_flight.map(|most| most as usize);
    find("the app", &posts, limits.app.rate_limit, places);
    find("the node", &posts, limits.node.rate, limits.node.in_flight);
    for receiver in 0..plan.endpoints.len() {
        probes(evidence, receiver, violations);
    }
}

fn of_endpoint<'a>(posts: &[&'a SeenRequest], queue: EndpointId) -> Vec<&'a SeenRequest> {
    posts.iter().filter(|post| post.queue == queue).copied().collect()
}

fn too_fast(posts: &[&SeenRequest], limit: RateLimit) -> Option<String> {
    let times: Vec<i64> = posts.iter().map(|post| post.started_at.as_millis()).collect();
    for (first, from) in times.iter().enumerate() {
        for (until, count) in times[first..].iter().zip(1i64..) {
            let allowed = i64::from(limit.burst) * 1000 + i64::from(limit.per_second) * (until - from);
            if count * 1000 > allowed {
                return Some(format!("{count} requests within {} ms under {limit:?}", until - from));
            }
        }
    }
    None
}

fn end_of(post: &SeenRequest) -> i64 {
    post.ended_at.or(post.dropped_at).unwrap_or(post.started_at).as_millis()
}

fn too_many(posts: &[&SeenRequest], most: usize) -> Option<String> {
    posts.iter().find_map(|post| {
        let at = post.started_at.as_millis();
        let is_out = |other: &&&SeenRequest| other.started_at.as_millis() <= at && end_of(other) > at;
        let count = posts.iter().filter(is_out).count();
        (count > most).then(|| format!("{count} requests in flight at {}", post.started_at))
    })
}

fn probes(evidence: &Evidence<'_>, receiver: usize, violations: &mut Vec<Violation>) {
    let files = evidence.files.iter().filter(|file| file.receiver == receiver);
    let probes = files.flat_map(|file| {
        let rows = file.rows.iter().filter(|row| row.has_note("a probe"));
        rows.filter_map(|row| file.post_of(row))
    });
    let mut probes: Vec<&SeenRequest> = probes.collect();
    probes.sort_by_key(|post| (post.started_at, end_of(post)));
    let strict = evidence.receivers[receiver].contract.pacing == Pacing::Strict;
    let mut complain = |what: String| violations.push(Violation { promise: Promise::Pace, what });
    if strict && !probes.is_empty() {
        complain(format!("receiver-{receiver} has a strict contract and was probed"));
    }
    for pair in probes.windows(2) {
        let of_one_process = pair[0].life == pair[1].life;
        if of_one_process && end_of(pair[0]) > pair[1].started_at.as_millis() {
            complain(format!("receiver-{receiver}: two probes at once: {pair:?}"));
        }
    }
}
