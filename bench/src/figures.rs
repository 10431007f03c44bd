//! The figures of one run, computed from everything that was seen of it. `bench/README.md` defines each.

use crate::{
    clock,
    load::{self, Observed},
    procs::Memory,
    statistics::{Latency, round},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, thread};

/// A run is disturbed when others took more of the machine than this share of it.
const DISTURBED_SHARE: f64 = 0.05;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Figures {
    pub events: usize,
    pub endpoints: usize,
    pub accepted: u64,
    pub rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rejection: Option<String>,
    pub unanswered: u64,
    pub unsent: u64,
    pub expected: u64,
    pub delivered: u64,
    pub lost: u64,
    pub duplicates: u64,
    pub signatures_verified: bool,
    pub bad_signatures: u64,
    pub bad_requests: u64,
    pub left_hanging: u64,
    pub strays: u64,
    pub sender_connections: u64,
    pub receiver_connections: u64,
    pub seconds: f64,
    pub accepted_per_s: f64,
    pub delivered_per_s: f64,
    pub send_to_accept_ms: Latency,
    pub send_to_receive_ms: Latency,
    pub accept_to_receive_ms: Latency,
    /// CPU seconds of each tree of processes.
    pub cpu_s: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries_per_cpu_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_delivery: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_bare_request: Option<f64>,
    /// The headline: CPU of a delivery by that of a bare request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    pub sender_cpu_s: f64,
    pub receiver_cpu_s: f64,
    pub other_cpu_s: f64,
    pub stolen_cpu_s: f64,
    pub disturbed: bool,
    pub memory: BTreeMap<String, Memory>,
}

impl Figures {
    pub fn of(seen: &Observed) -> Self {
        let began = seen.sent.began_ns;
        let delivered = seen.received.distinct;
        let seconds = clock::seconds_between(began, seen.received.last_arrival_ns);
        let accepting = clock::seconds_between(began, seen.sent.last_accept_ns);
        let per_second =
            |count: u64, seconds: f64| if seconds > 0.0 { round(count as f64 / seconds) } else { 0.0 };
        let missing = |(pair, _): &(usize, usize)| seen.arrivals.first_ns[*pair] == 0;
        let mut figures = Self {
            events: seen.times.sent_ns.len(),
            endpoints: seen.endpoints.len(),
            accepted: seen.sent.accepted,
            rejected: seen.sent.rejected,
            first_rejection: seen.sent.first_rejection.clone(),
            unanswered: seen.sent.unanswered,
            unsent: seen.sent.unsent,
            expected: load::expected(&seen.endpoints, &seen.times).count() as u64,
            delivered,
            lost: load::expected(&seen.endpoints, &seen.times).filter(missing).count() as u64,
            duplicates: seen.received.duplicates,
            signatures_verified: seen.are_signatures_verified,
            bad_signatures: seen.received.bad_signatures,
            bad_requests: seen.received.bad_requests,
            left_hanging: seen.received.left_hanging,
            strays: seen.received.strays,
            sender_connections: seen.sent.connections,
            receiver_connections: seen.received.connections,
            seconds: round(seconds),
            accepted_per_s: per_second(seen.sent.accepted, accepting),
            delivered_per_s: per_second(delivered, seconds),
            memory: seen.memory.clone(),
            ..Self::default()
        };
        figures.set_latencies(seen);
        figures.set_cpu(seen);
        figures
    }

    /// A webhook that came before the answer to its event took no time from there.
    fn set_latencies(&mut self, seen: &Observed) {
        let times = &seen.times;
        let accepted = (0..times.sent_ns.len()).filter(|event| times.accepted_ns[*event] > 0);
        let to_accept = accepted.map(|event| times.accepted_ns[event].saturating_sub(times.sent_ns[event]));
        self.send_to_accept_ms = Latency::of(to_accept.collect());
        let to_receive = |from: &[u64]| {
            let arrived =
                load::expected(&seen.endpoints, times).filter(|(pair, _)| seen.arrivals.first_ns[*pair] > 0);
            Latency::of(
                arrived
                    .map(|(pair, event)| seen.arrivals.first_ns[pair].saturating_sub(from[event]))
                    .collect(),
            )
        };
        self.send_to_receive_ms = to_receive(&times.sent_ns);
        self.accept_to_receive_ms = to_receive(&times.accepted_ns);
    }

    fn set_cpu(&mut self, seen: &Observed) {
        let (before, after) = (&seen.before, &seen.after);
        let used = |(name, now): (&String, &f64)| {
            (name.clone(), round(now - before.trees.get(name).copied().unwrap_or(0.0)))
        };
        self.cpu_s = after.trees.iter().map(used).collect();
        let total: f64 = self.cpu_s.values().sum();
        let sender = after.sender - before.sender;
        let receiver = after.receiver - before.receiver;
        let command = after.command - before.command;
        let busy = after.machine.busy - before.machine.busy;
        self.sender_cpu_s = round(sender);
        self.receiver_cpu_s = round(receiver);
        // The counters are read one after the other, so that nothing can come out as a little less.
        self.other_cpu_s = round((busy - total - sender - receiver - command).max(0.0));
        self.stolen_cpu_s = round(after.machine.stolen - before.machine.stolen);
        let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let there_was = cores * clock::seconds_between(before.at_ns, after.at_ns);
        // Without a process to account, the server itself is among the others.
        self.disturbed =
            !after.trees.is_empty() && self.other_cpu_s + self.stolen_cpu_s > DISTURBED_SHARE * there_was;
        if total > 0.0 && self.delivered > 0 {
            self.deliveries_per_cpu_s = Some(round(self.delivered as f64 / total));
            self.cpu_us_per_delivery = Some(round(total * 1e6 / self.delivered as f64));
        }
    }

    /// Leaves out the CPU per delivery, where the server did other work besides the deliveries that count.
    #[must_use]
    pub fn without_cpu_per_delivery(mut self) -> Self {
        self.deliveries_per_cpu_s = None;
        self.cpu_us_per_delivery = None;
        self.cpu_ratio = None;
        self
    }

    pub fn set_bare(&mut self, cpu_seconds: f64, requests: usize) {
        if cpu_seconds > 0.0 && requests > 0 {
            let bare = cpu_seconds * 1e6 / requests as f64;
            self.cpu_us_per_bare_request = Some(round(bare));
            self.cpu_ratio = self.cpu_us_per_delivery.map(|delivery| round(delivery / bare));
        }
    }

    /// The most important of it on one line.
    pub fn line(&self) -> String {
        let shown =
            |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.2}"));
        format!(
            "ratio {}, {} deliveries per CPU-s, {:.0} delivered/s, p50 {:.1} ms, p99 {:.1} ms, {} lost, {} duplicates{}",
            shown(self.cpu_ratio),
            self.deliveries_per_cpu_s.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}")),
            self.delivered_per_s,
            self.send_to_receive_ms.p50,
            self.send_to_receive_ms.p99,
            self.lost,
            self.duplicates,
            if self.disturbed { ", disturbed" } else { "" }
        )
    }

    /// Why this run broke a promise, if it did. Only a crash may repeat deliveries and leave events without an answer.
    pub fn broken_promises(&self, is_crash: bool) -> Vec<String> {
        let never = [
            (self.lost, "lost"),
            (self.rejected, "rejected"),
            (self.unsent, "not sent"),
            (self.bad_signatures, "wrongly signed"),
            (self.bad_requests, "not understood by the receiver"),
        ];
        let not_without_a_crash = [
            (self.duplicates, "repeated"),
            (self.strays, "of an earlier transfer"),
            (self.unanswered, "not answered"),
        ];
        let counted = never.into_iter().chain(not_without_a_crash.into_iter().filter(|_| !is_crash));
        let mut broken: Vec<String> =
            counted.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        broken.extend(self.first_rejection.iter().map(|text| format!("first rejection: {text}")));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::Usage,
        messages::{Arrivals, Behaviour, ReceiverCounts, SenderCounts, SenderTimes, TargetEndpoint},
        procs::MachineCpu,
    };

    const MS: u64 = 1_000_000;

    /// Two apps with an endpoint each and one that hangs; event 0 arrived, 1 is lost, 2 has no answer, 3 came before its answer.
    fn seen() -> Observed {
        let endpoints = [(0, Behaviour::Accept), (1, Behaviour::Accept), (1, Behaviour::Hang)];
        let mut first_ns = vec![0; 12];
        first_ns[0] = 15 * MS;
        first_ns[6] = 16 * MS;
        first_ns[10] = 20 * MS;
        let usage = |at_ns, server, busy| Usage {
            at_ns,
            trees: BTreeMap::from([("server".to_owned(), server)]),
            machine: MachineCpu { busy, stolen: 0.0 },
            ..Usage::default()
        };
        Observed {
            endpoints: endpoints.map(|(app, behaviour)| TargetEndpoint::of(app, behaviour)).to_vec(),
            sent: SenderCounts { accepted: 3, unanswered: 1, began_ns: 10 * MS, ..SenderCounts::default() },
            times: SenderTimes {
                sent_ns: vec![10 * MS, 11 * MS, 12 * MS, 13 * MS],
                accepted_ns: vec![12 * MS, 13 * MS, 0, 21 * MS],
            },
            received: ReceiverCounts {
                distinct: 3,
                duplicates: 2,
                last_arrival_ns: 1510 * MS,
                ..ReceiverCounts::default()
            },
            arrivals: Arrivals { first_ns },
            before: usage(0, 1.0, 100.0),
            after: usage(1000 * MS, 1.5, 110.0),
            memory: BTreeMap::new(),
            are_signatures_verified: true,
        }
    }

    #[test]
    fn an_accepted_event_is_expected_once_at_each_accepting_endpoint_of_its_app() {
        let figures = Figures::of(&seen());
        assert_eq!((figures.expected, figures.lost, figures.duplicates, figures.unanswered), (3, 1, 2, 1));
        assert_eq!(figures.delivered_per_s.to_string(), "2");
    }

    #[test]
    fn latencies_count_from_the_send_and_never_below_zero() {
        let figures = Figures::of(&seen());
        assert_eq!((figures.send_to_receive_ms.n, figures.send_to_receive_ms.max), (2, 7.0));
        assert_eq!((figures.accept_to_receive_ms.p50, figures.accept_to_receive_ms.max), (0.0, 3.0));
        assert_eq!((figures.send_to_accept_ms.n, figures.send_to_accept_ms.p50), (3, 2.0));
    }

    #[test]
    fn the_ratio_is_cpu_per_delivery_by_cpu_per_bare_request() {
        let mut figures = Figures::of(&seen());
        figures.set_bare(0.1, 1000);
        assert_eq!(figures.cpu_us_per_bare_request, Some(100.0));
        assert_eq!(figures.cpu_us_per_delivery, Some(166_666.667));
        assert_eq!(figures.cpu_ratio, Some(1666.667));
        assert_eq!((figures.other_cpu_s, figures.disturbed), (9.5, true));
    }

    #[test]
    fn a_loss_breaks_a_promise_always_and_a_duplicate_without_a_crash() {
        let figures = Figures { strays: 3, ..Figures::of(&seen()) };
        assert_eq!(
            figures.broken_promises(false),
            ["1 lost", "2 repeated", "3 of an earlier transfer", "1 not answered"]
        );
        assert_eq!(figures.broken_promises(true), ["1 lost"]);
        assert_eq!(Figures::default().broken_promises(false), Vec::<String>::new());
    }
}
