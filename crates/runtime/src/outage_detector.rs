//! The outage detector: distinguishes a failing receiver from a local outage, and keeps the outage-adjusted clock.
//!
//! A local outage is assumed when most hosts that used to answer fall silent at once, for most of the apps that send. During
//! an outage, failures without an answer do not count: no circuit opens for them and the adjusted clock stands still. One
//! app's hosts may all be one server, so where several apps send, one app alone proves nothing unless its hosts have many
//! names. The clock also stands still while no process runs and while this machine cannot dial. With several nodes, time that
//! passed on one of them has passed on all.

use model::{
    cluster::OutageReport,
    id::AppId,
    outcome::{Outcome, OutcomeClass},
    target_url::Host,
    time::Timestamp,
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Hosts are compared over this period.
const COMPARISON_WINDOW: Duration = Duration::from_mins(1);
/// No host answered for this long although enough were tried. Needed where too little is sent to compare hosts within a minute.
const SILENCE_MIN: Duration = Duration::from_mins(10);
/// The minimum number of hosts that answered before; with fewer, no outage is detected.
const HOSTS_MIN: usize = 5;
/// Apps whose hosts were not tried for this long do not count as apps that send.
const APP_IDLE_AFTER: Duration = Duration::from_hours(24);
/// Hosts that stay silent for this long while others answer count as failing themselves.
const HOST_SILENCE_MAX: Duration = Duration::from_hours(6);
/// Beyond this number of hosts, those not tried within `COMPARISON_WINDOW` are forgotten.
const HOSTS_KEPT_MAX: usize = 10_000;

/// The outage detector, shared by all tasks that evaluate outcomes. Its methods never wait.
#[derive(Debug, Default)]
pub struct OutageDetector(Mutex<DetectorState>);

#[derive(Debug, Default)]
struct DetectorState {
    hosts: HashMap<Host, HostRecord>,
    /// The start of the local outage, if there is one.
    outage_since: Option<Timestamp>,
    /// Whether the last requests could not be dialled, for lack of handles, network or a resolver. If several hosts are known,
    /// this takes failures at two of them: a single one may be unreachable from this machine only.
    cannot_dial: bool,
    undialled_host: Option<Host>,
    /// When a host last answered, and the hosts that fell silent since.
    last_answer_at: Option<Timestamp>,
    newly_silent: HashSet<Host>,
    adjusted_time: Duration,
    /// Another node reports an outage and no answer here disproves it: the adjusted clock stands still.
    peers_report_outage: bool,
    /// A host answered since the last report of the other nodes.
    answered_since_report: bool,
    /// Up to when time is counted; `None` until the node begins.
    counted_to: Option<Timestamp>,
    gap_max: Duration,
}

#[derive(Clone, Copy, Debug)]
struct HostRecord {
    /// The app that sends to it; `None` if several apps do.
    app: Option<AppId>,
    tried_at: Timestamp,
    /// Whether it answered before it fell silent, or still does.
    has_answered: bool,
    is_silent: bool,
}

impl OutageDetector {
    /// Starts the clock at `adjusted_time`, the adjusted time so far. A gap between two readings counts as at most `gap_max`:
    /// in a longer one the machine slept or its clock was set.
    pub fn start(&self, adjusted_time: Duration, gap_max: Duration, now: Timestamp) {
        let mut state = self.state();
        (state.adjusted_time, state.gap_max, state.counted_to) = (adjusted_time, gap_max, Some(now));
        state.last_answer_at = Some(now);
    }

    /// Records that the host answered before this node began.
    pub fn restore_answered_host(&self, app: AppId, host: &Host, now: Timestamp) {
        let seen = HostRecord { app: Some(app), tried_at: now, has_answered: true, is_silent: false };
        self.state().hosts.entry(host.clone()).or_insert(seen).add_app(app);
    }

    /// Records the outcome of a request. Returns whether it counts for or against the receiver.
    pub fn record(&self, app: AppId, host: &Host, outcome: &Outcome, now: Timestamp) -> bool {
        let mut state = self.state();
        state.advance_clock(now);
        match outcome.class {
            OutcomeClass::Ok | OutcomeClass::Http => {
                state.clear_dial_failures();
                state.record_answer(app, host, now);
                true
            }
            OutcomeClass::Dns | OutcomeClass::Connect | OutcomeClass::Timeout | OutcomeClass::Tls => {
                state.clear_dial_failures();
                state.record_silence(app, host, now);
                state.outage_since.is_none()
            }
            OutcomeClass::AddressRefused => true,
            OutcomeClass::Local => {
                let before = state.undialled_host.replace(host.clone());
                state.cannot_dial |= before.is_some_and(|other| other != *host) || state.hosts.len() <= 1;
                false
            }
            OutcomeClass::StaleConnection | OutcomeClass::Unknown => false,
        }
    }

    /// Whether there is a local outage now.
    pub fn is_local_outage(&self) -> bool {
        let state = self.state();
        state.outage_since.is_some() || state.cannot_dial
    }

    /// Outage-adjusted time: all time that has passed, except local outages.
    pub fn adjusted_time(&self, now: Timestamp) -> Duration {
        let mut state = self.state();
        state.advance_clock(now);
        state.adjusted_time
    }

    /// The report for the other nodes.
    pub fn report(&self, now: Timestamp) -> OutageReport {
        OutageReport { adjusted_time: self.adjusted_time(now), is_local_outage: self.is_local_outage() }
    }

    /// Applies the report of all nodes together. A node that sends little cannot detect an outage itself, so it relies on the
    /// others until one of its requests is answered.
    pub fn apply_report(&self, all: OutageReport, now: Timestamp) {
        let mut state = self.state();
        state.advance_clock(now);
        state.adjusted_time = state.adjusted_time.max(all.adjusted_time);
        state.peers_report_outage = all.is_local_outage && !state.answered_since_report;
        state.answered_since_report = false;
    }

    /// A panic elsewhere must not stop the detector: no field depends on another.
    fn state(&self) -> MutexGuard<'_, DetectorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DetectorState {
    fn advance_clock(&mut self, now: Timestamp) {
        let Some(counted_to) = self.counted_to else { return };
        if self.outage_since.is_none() && !self.cannot_dial && !self.peers_report_outage {
            self.adjusted_time += now.since(counted_to).min(self.gap_max);
        }
        self.counted_to = Some(now);
    }

    fn clear_dial_failures(&mut self) {
        (self.cannot_dial, self.undialled_host) = (false, None);
    }

    fn record_answer(&mut self, app: AppId, host: &Host, now: Timestamp) {
        self.last_answer_at = Some(now);
        (self.answered_since_report, self.peers_report_outage) = (true, false);
        self.newly_silent.clear();
        let was_silent = self.record_host(app, host, true, now);
        let Some(since) = self.outage_since else { return };
        let is_too_long = now.since(since) > HOST_SILENCE_MAX;
        if is_too_long {
            for seen in self.hosts.values_mut().filter(|seen| seen.is_silent) {
                seen.has_answered = false;
            }
        }
        if is_too_long || (was_silent && !self.most_are_silent(now)) {
            self.outage_since = None;
        }
    }

    fn record_silence(&mut self, app: AppId, host: &Host, now: Timestamp) {
        let was_silent = self.record_host(app, host, false, now);
        if self.outage_since.is_some() {
            return;
        }
        if self.hosts.get(host).is_some_and(|seen| seen.has_answered) {
            self.newly_silent.insert(host.clone());
        }
        let is_quiet = self.last_answer_at.is_some_and(|at| now.since(at) >= SILENCE_MIN)
            && self.newly_silent.len() >= HOSTS_MIN;
        if (is_quiet && self.are_unrelated(now)) || (!was_silent && self.most_are_silent(now)) {
            self.outage_since = Some(now);
        }
    }

    /// Records an answer or a silence. Returns whether the host was silent before.
    fn record_host(&mut self, app: AppId, host: &Host, answers: bool, now: Timestamp) -> bool {
        if let Some(seen) = self.hosts.get_mut(host) {
            let was_silent = seen.is_silent;
            seen.add_app(app);
            seen.has_answered |= answers;
            (seen.tried_at, seen.is_silent) = (now, !answers);
            return was_silent;
        }
        if self.hosts.len() >= HOSTS_KEPT_MAX && self.outage_since.is_none() {
            self.hosts.retain(|_, seen| now.since(seen.tried_at) <= COMPARISON_WINDOW);
        }
        let whose = Some(app);
        let seen = HostRecord { app: whose, tried_at: now, has_answered: answers, is_silent: !answers };
        self.hosts.insert(host.clone(), seen);
        false
    }

    /// Whether most hosts are silent. Called only when a host falls silent or answers again, so the full scan is rare.
    fn most_are_silent(&self, now: Timestamp) -> bool {
        let (mut known, mut silent, mut sites) = (0, 0, HashSet::new());
        let mut by_app: HashMap<Option<AppId>, (usize, usize)> = HashMap::new();
        for (host, seen) in
            self.hosts_that_answered().filter(|(_, seen)| now.since(seen.tried_at) <= COMPARISON_WINDOW)
        {
            let of_owner = by_app.entry(seen.app).or_default();
            (known, of_owner.0) = (known + 1, of_owner.0 + 1);
            if seen.is_silent {
                (silent, of_owner.1) = (silent + 1, of_owner.1 + 1);
                sites.insert(site(host));
            }
        }
        let is_most = |silent: usize, known: usize| silent * 2 > known;
        let owners = by_app.values().filter(|(known, silent)| is_most(*silent, *known)).count();
        let are_unrelated = match by_app.len() {
            ..=1 => self.is_evidence_alone(sites.len(), now),
            tried => owners > 1 && is_most(owners, tried),
        };
        known >= HOSTS_MIN && is_most(silent, known) && are_unrelated
    }

    /// Whether the hosts that fell silent since the last answer are unrelated to each other.
    fn are_unrelated(&self, now: Timestamp) -> bool {
        let owner = |host: &Host| self.hosts.get(host).map(|seen| seen.app);
        let owners: HashSet<_> = self.newly_silent.iter().filter_map(owner).collect();
        let sites: HashSet<_> = self.newly_silent.iter().map(site).collect();
        owners.len() > 1 || self.is_evidence_alone(sites.len(), now)
    }

    /// Whether one app's hosts are evidence enough: no other app sends, or the hosts have at least `HOSTS_MIN` names.
    fn is_evidence_alone(&self, sites: usize, now: Timestamp) -> bool {
        let present =
            self.hosts_that_answered().filter(|(_, seen)| now.since(seen.tried_at) <= APP_IDLE_AFTER);
        let mut owners = present.map(|(_, seen)| seen.app);
        let first = owners.next();
        sites >= HOSTS_MIN || owners.all(|whose| Some(whose) == first)
    }

    /// Hosts that answered before.
    fn hosts_that_answered(&self) -> impl Iterator<Item = (&Host, &HostRecord)> {
        self.hosts.iter().filter(|(_, seen)| seen.has_answered)
    }
}

/// The part of a name that hosts of one server most likely share: its last two labels.
fn site(host: &Host) -> Cow<'_, str> {
    match host {
        Host::Address(address) => address.to_string().into(),
        Host::Name(name) => {
            let mut dots = name.rmatch_indices('.').map(|(dot, _)| dot + 1);
            name[dots.nth(1).unwrap_or_default()..].into()
        }
    }
}

impl HostRecord {
    fn add_app(&mut self, app: AppId) {
        self.app = self.app.filter(|owner| *owner == app);
    }
}

#[cfg(test)]
mod tests;
