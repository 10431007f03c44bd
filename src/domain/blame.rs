//! Whose fault it is: tells trouble of one receiver from trouble of our own, and counts only the time for which receivers can
//! be held to account.
//!
//! If most hosts that used to answer fall silent at once, and so for most of those they belong to, it is us: until that is
//! over nothing without an answer counts against anybody, no circuit opens for it, and no failing time passes. One app's hosts
//! may all be one server, so where several apps send, one alone proves nothing unless its hosts have many names. No time passes
//! either while no process runs, or while our own machine cannot dial. Where there are several nodes, time that passed for one of
//! them passed for all.

use super::{
    id::AppId,
    outcome::{Class, Outcome},
    target::Host,
    time::Timestamp,
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Hosts are compared over this long.
const WINDOW: Duration = Duration::from_mins(1);
/// So long nobody answered, and enough were tried: where little is sent, hosts cannot be compared within a minute.
const QUIET: Duration = Duration::from_mins(10);
/// Of fewer hosts that answered before nothing can be told.
const HOSTS_MIN: usize = 5;
/// An app whose hosts were not tried for so long is not asked for its opinion.
const ABSENT: Duration = Duration::from_hours(24);
/// Hosts that stay silent for so long while others answer are to blame themselves.
const WHILE_OTHERS_ANSWER_MAX: Duration = Duration::from_hours(6);
/// Beyond so many hosts those that were not tried for long are forgotten.
const HOSTS_KEPT: usize = 10_000;

/// What a node counted, or all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How much time has passed, ever, for which receivers can be held to account.
    pub accountable: Duration,
    /// It is us.
    pub is_ours: bool,
}

/// Shared by all who judge outcomes. Nothing here waits.
#[derive(Debug, Default)]
pub struct Blame(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    hosts: HashMap<Host, Seen>,
    /// Since when it is us.
    ours_since: Option<Timestamp>,
    /// The last requests could not even be dialled, for want of handles, network or a resolver; to more than one host, if
    /// there are several: one alone may lie where this machine has no way to.
    is_stuck: bool,
    stuck_on: Option<Host>,
    /// When anybody last answered, and who has been silent since.
    answered_at: Option<Timestamp>,
    silent_since: HashSet<Host>,
    accountable: Duration,
    /// Another node finds that it is us, and nothing here proves otherwise: no time passes.
    is_in_doubt: bool,
    /// Somebody answered since the others were last heeded.
    has_proof: bool,
    /// Up to when time is counted; nothing is before the node begins.
    counted_to: Option<Timestamp>,
    gap_max: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Whose receiver it is; nobody's in particular if several apps send to it.
    whose: Option<AppId>,
    tried_at: Timestamp,
    /// Whether it answered before it fell silent, or still does.
    has_answered: bool,
    is_silent: bool,
}

impl Blame {
    /// The node begins: so much time was accounted for before it. Whatever is longer than `gap_max` without a look at the
    /// clock was no running: the machine slept, or its clock was set.
    pub fn begin(&self, accountable: Duration, gap_max: Duration, now: Timestamp) {
        let mut state = self.state();
        (state.accountable, state.gap_max, state.counted_to) = (accountable, gap_max, Some(now));
        state.answered_at = Some(now);
    }

    /// The host answered before this node began.
    pub fn has_answered(&self, app: AppId, host: &Host, now: Timestamp) {
        let seen = Seen { whose: Some(app), tried_at: now, has_answered: true, is_silent: false };
        self.state().hosts.entry(host.clone()).or_insert(seen).share(app);
    }

    /// Told of every request that was made; whether what came of it says anything about the receiver.
    pub fn counts(&self, app: AppId, host: &Host, outcome: &Outcome, now: Timestamp) -> bool {
        let mut state = self.state();
        state.count_time(now);
        match outcome.class {
            Class::Ok | Class::Http => {
                state.is_free();
                state.answered(app, host, now);
                true
            }
            Class::Dns | Class::Connect | Class::Timeout | Class::Tls => {
                state.is_free();
                state.silent(app, host, now);
                state.ours_since.is_none()
            }
            Class::AddressRefused => true,
            Class::Local => {
                let before = state.stuck_on.replace(host.clone());
                state.is_stuck |= before.is_some_and(|other| other != *host) || state.hosts.len() <= 1;
                false
            }
            Class::StaleConnection | Class::Unknown => false,
        }
    }

    /// Whether most of what fails now fails because of us.
    pub fn is_ours(&self) -> bool {
        let state = self.state();
        state.ours_since.is_some() || state.is_stuck
    }

    /// How much time has passed, ever, for which receivers can be held to account.
    pub fn accountable(&self, now: Timestamp) -> Duration {
        let mut state = self.state();
        state.count_time(now);
        state.accountable
    }

    /// What the other nodes are told.
    pub fn account(&self, now: Timestamp) -> Account {
        Account { accountable: self.accountable(now), is_ours: self.is_ours() }
    }

    /// What all nodes together counted. Whoever sends little cannot see for itself that it is us, and goes by what others see
    /// until it gets an answer.
    pub fn heed(&self, all: Account, now: Timestamp) {
        let mut state = self.state();
        state.count_time(now);
        state.accountable = state.accountable.max(all.accountable);
        state.is_in_doubt = all.is_ours && !state.has_proof;
        state.has_proof = false;
    }

    /// A panic elsewhere must not stop the judging: every field stands for itself.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count_time(&mut self, now: Timestamp) {
        let Some(counted_to) = self.counted_to else { return };
        if self.ours_since.is_none() && !self.is_stuck && !self.is_in_doubt {
            self.accountable += now.since(counted_to).min(self.gap_max);
        }
        self.counted_to = Some(now);
    }

    fn is_free(&mut self) {
        (self.is_stuck, self.stuck_on) = (false, None);
    }

    fn answered(&mut self, app: AppId, host: &Host, now: Timestamp) {
        self.answered_at = Some(now);
        (self.has_proof, self.is_in_doubt) = (true, false);
        self.silent_since.clear();
        let was_silent = self.note(app, host, true, now);
        let Some(since) = self.ours_since else { return };
        let is_too_long = now.since(since) > WHILE_OTHERS_ANSWER_MAX;
        if is_too_long {
            for seen in self.hosts.values_mut().filter(|seen| seen.is_silent) {
                seen.has_answered = false;
            }
        }
        if is_too_long || (was_silent && !self.most_are_silent(now)) {
            self.ours_since = None;
        }
    }

    fn silent(&mut self, app: AppId, host: &Host, now: Timestamp) {
        let was_silent = self.note(app, host, false, now);
        if self.ours_since.is_some() {
            return;
        }
        if self.hosts.get(host).is_some_and(|seen| seen.has_answered) {
            self.silent_since.insert(host.clone());
        }
        let is_quiet =
            self.answered_at.is_some_and(|at| now.since(at) >= QUIET) && self.silent_since.len() >= HOSTS_MIN;
        if (is_quiet && self.are_unrelated(now)) || (!was_silent && self.most_are_silent(now)) {
            self.ours_since = Some(now);
        }
    }

    /// Whether it was silent before. Whoever was not tried for long is as unknown as a new one.
    fn note(&mut self, app: AppId, host: &Host, answers: bool, now: Timestamp) -> bool {
        if let Some(seen) = self.hosts.get_mut(host) {
            let was_silent = seen.is_silent;
            seen.share(app);
            seen.has_answered |= answers;
            (seen.tried_at, seen.is_silent) = (now, !answers);
            return was_silent;
        }
        if self.hosts.len() >= HOSTS_KEPT && self.ours_since.is_none() {
            self.hosts.retain(|_, seen| now.since(seen.tried_at) <= WINDOW);
        }
        let whose = Some(app);
        let seen = Seen { whose, tried_at: now, has_answered: answers, is_silent: !answers };
        self.hosts.insert(host.clone(), seen);
        false
    }

    /// Only asked when a host falls silent or answers again, so that a look at all of them is seldom.
    fn most_are_silent(&self, now: Timestamp) -> bool {
        let (mut known, mut silent, mut sites) = (0, 0, HashSet::new());
        let mut by_owner: HashMap<Option<AppId>, (usize, usize)> = HashMap::new();
        for (host, seen) in self.known().filter(|(_, seen)| now.since(seen.tried_at) <= WINDOW) {
            let of_owner = by_owner.entry(seen.whose).or_default();
            (known, of_owner.0) = (known + 1, of_owner.0 + 1);
            if seen.is_silent {
                (silent, of_owner.1) = (silent + 1, of_owner.1 + 1);
                sites.insert(site(host));
            }
        }
        let is_most = |silent: usize, known: usize| silent * 2 > known;
        let owners = by_owner.values().filter(|(known, silent)| is_most(*silent, *known)).count();
        let are_unrelated = match by_owner.len() {
            ..=1 => self.is_enough_alone(sites.len(), now),
            tried => owners > 1 && is_most(owners, tried),
        };
        known >= HOSTS_MIN && is_most(silent, known) && are_unrelated
    }

    /// Whether those that were silent since anybody answered have nothing to do with each other.
    fn are_unrelated(&self, now: Timestamp) -> bool {
        let owner = |host: &Host| self.hosts.get(host).map(|seen| seen.whose);
        let owners: HashSet<_> = self.silent_since.iter().filter_map(owner).collect();
        let sites: HashSet<_> = self.silent_since.iter().map(site).collect();
        owners.len() > 1 || self.is_enough_alone(sites.len(), now)
    }

    /// Whether one owner's hosts prove something: there is no other owner, or they are spread over as many names.
    fn is_enough_alone(&self, sites: usize, now: Timestamp) -> bool {
        let present = self.known().filter(|(_, seen)| now.since(seen.tried_at) <= ABSENT);
        let mut owners = present.map(|(_, seen)| seen.whose);
        let first = owners.next();
        sites >= HOSTS_MIN || owners.all(|whose| Some(whose) == first)
    }

    /// Those that answered before.
    fn known(&self) -> impl Iterator<Item = (&Host, &Seen)> {
        self.hosts.iter().filter(|(_, seen)| seen.has_answered)
    }
}

/// What hosts of one server most likely have in common: the last two labels of their names.
fn site(host: &Host) -> Cow<'_, str> {
    match host {
        Host::Address(address) => address.to_string().into(),
        Host::Name(name) => {
            let mut dots = name.rmatch_indices('.').map(|(dot, _)| dot + 1);
            name[dots.nth(1).unwrap_or_default()..].into()
        }
    }
}

impl Seen {
    fn share(&mut self, app: AppId) {
        self.whose = self.whose.filter(|owner| *owner == app);
    }
}

#[cfg(test)]
mod tests;
