//! Notifications between nodes: something waits that another node works on. A notification only makes that faster; a node
//! that misses it finds the same in the database a little later.

use crate::{
    domain::{id::EndpointId, ports::CommitListener, time::Timestamp},
    store::sql::CommitEffects,
};
use std::{collections::BTreeMap, fmt::Write};

/// The server takes no more than 8,000 bytes. What does not fit is found without a notification.
const WORDS_BYTES_MAX: usize = 7_900;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is a separate kind of waiting work")]
pub(super) struct NotifyMessage {
    /// Endpoint queues, and when their first delivery is due.
    waiting: BTreeMap<EndpointId, Timestamp>,
    manual: BTreeMap<EndpointId, Timestamp>,
    inspections: bool,
    notices: bool,
    replays: bool,
    configuration: bool,
}

fn add(
    queues: &mut BTreeMap<EndpointId, Timestamp>,
    more: impl IntoIterator<Item = (EndpointId, Timestamp)>,
) {
    for (queue, due) in more {
        let first = queues.entry(queue).or_insert(due);
        *first = due.min(*first);
    }
}

impl NotifyMessage {
    pub(super) fn of(after: &CommitEffects, has_changes: bool, commit_listener: &dyn CommitListener) -> Self {
        let elsewhere = |queues: &[(EndpointId, Timestamp)]| {
            let mut found = BTreeMap::new();
            add(
                &mut found,
                queues.iter().copied().filter(|(queue, _)| commit_listener.is_queue_remote(*queue)),
            );
            found
        };
        Self {
            waiting: elsewhere(&after.waiting),
            manual: elsewhere(&after.manual),
            inspections: after.inspections_wait,
            notices: after.notices_wait,
            replays: after.replays_wait,
            configuration: has_changes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, other: Self) {
        add(&mut self.waiting, other.waiting);
        add(&mut self.manual, other.manual);
        self.inspections |= other.inspections;
        self.notices |= other.notices;
        self.replays |= other.replays;
        self.configuration |= other.configuration;
    }

    /// Returns the text of the notification: the sender's epoch, and then a word for each thing that waits.
    pub(super) fn text(&self, epoch: i64) -> String {
        let mut words = epoch.to_string();
        let flags = [
            (self.inspections, " i"),
            (self.notices, " n"),
            (self.replays, " r"),
            (self.configuration, " c"),
        ];
        words.extend(flags.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)));
        let manual = self.manual.iter().map(|queue| ('a', queue));
        for (kind, (queue, due)) in manual.chain(self.waiting.iter().map(|queue| ('w', queue))) {
            let before = words.len();
            let _ = write!(words, " {kind}{},{}", queue.as_i64(), due.as_millis());
            if words.len() > WORDS_BYTES_MAX {
                words.truncate(before);
                break;
            }
        }
        words
    }

    /// Reads another node's notification; unknown words of a newer version are skipped.
    pub(super) fn parse(words: &str, own_epoch: i64) -> Option<Self> {
        let mut words = words.split(' ');
        let epoch: i64 = words.next()?.parse().ok()?;
        if epoch == own_epoch {
            return None;
        }
        let mut message = Self::default();
        for word in words {
            match word {
                "i" => message.inspections = true,
                "n" => message.notices = true,
                "r" => message.replays = true,
                "c" => message.configuration = true,
                _ => message.read_queue(word),
            }
        }
        Some(message)
    }

    fn read_queue(&mut self, word: &str) {
        let queues = match word.as_bytes().first() {
            Some(b'w') => &mut self.waiting,
            Some(b'a') => &mut self.manual,
            _ => return,
        };
        let numbers =
            word[1..].split_once(',').and_then(|(queue, due)| queue.parse().ok().zip(due.parse().ok()));
        add(queues, numbers.map(|(queue, due)| (EndpointId::from_i64(queue), Timestamp::from_millis(due))));
    }

    pub(super) fn publish(self, commit_listener: &dyn CommitListener) {
        self.waiting.into_iter().for_each(|(queue, due)| commit_listener.delivery_waiting(queue, due));
        self.manual.into_iter().for_each(|(queue, due)| commit_listener.manual_waiting(queue, due));
        if self.inspections {
            commit_listener.inspection_waiting();
        }
        if self.notices {
            commit_listener.notice_waiting();
        }
        if self.replays {
            commit_listener.replay_waiting();
        }
        if self.configuration {
            commit_listener.configuration_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: i64) -> BTreeMap<EndpointId, Timestamp> {
        let due = Timestamp::from_millis;
        (1..=count)
            .map(|queue| (EndpointId::from_i64(i64::MAX - queue), due(1_800_000_000_000 + queue)))
            .collect()
    }

    #[test]
    fn other_nodes_read_a_notification_as_it_was_sent() {
        for message in [
            NotifyMessage {
                waiting: queues(3),
                manual: queues(1),
                configuration: true,
                ..NotifyMessage::default()
            },
            NotifyMessage { inspections: true, notices: true, replays: true, ..NotifyMessage::default() },
        ] {
            assert_eq!(NotifyMessage::parse(&message.text(7), 8), Some(message.clone()));
            assert_eq!(NotifyMessage::parse(&message.text(7), 7), None, "only by other nodes");
        }
        assert_eq!(
            NotifyMessage::parse("7 w1 wx,y z9,9 c", 8),
            Some(NotifyMessage { configuration: true, ..NotifyMessage::default() })
        );
        assert_eq!(NotifyMessage::parse("", 8), None);
    }

    #[test]
    fn a_notification_is_never_longer_than_the_server_takes() {
        let message = NotifyMessage { waiting: queues(1000), notices: true, ..NotifyMessage::default() };
        let words = message.text(i64::MAX);
        assert!(words.len() <= 8000 && words.len() > 7800);
        let parsed = NotifyMessage::parse(&words, 1).unwrap();
        assert!(
            parsed.notices
                && parsed.waiting.iter().all(|queue| message.waiting.get_key_value(queue.0) == Some(queue))
        );
    }

    #[test]
    fn two_notifications_of_one_queue_merge_to_the_earlier_time() {
        let at = |due| BTreeMap::from([(EndpointId::from_i64(5), Timestamp::from_millis(due))]);
        let mut message = NotifyMessage { waiting: at(9), ..NotifyMessage::default() };
        message.add(NotifyMessage { waiting: at(4), replays: true, ..NotifyMessage::default() });
        assert_eq!(message, NotifyMessage { waiting: at(4), replays: true, ..NotifyMessage::default() });
    }
}
