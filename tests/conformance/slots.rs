//! Id slots of nodes: each is used by one node at a time, and never by a node whose slot went to another.

use crate::{
    fixture::{NOW, after, draft},
    two_nodes::{Node, TwoNodes, play},
};
use posthaste::{
    domain::{
        app::{App, AppSettings},
        id::{AppId, IdSource, NODE_SLOTS},
    },
    store::{
        StoreError,
        deliveries::{Accepted, NewEvent},
    },
};

impl TwoNodes {
    /// Makes an event and its delivery with ids of this slot.
    fn numbered(&self, slot: u8, at: u64) -> NewEvent {
        draft(self.fixture.app, &[self.fixture.endpoint], IdSource::new(slot, 0).next_range(after(at), 2))
    }

    /// Fills every slot except those of the two nodes with a node with this lease.
    fn crowd(&self, lease_until: i64) {
        for slot in 2..NODE_SLOTS {
            self.shared.run(&format!(
                "INSERT INTO nodes (epoch, id_slot, name, version, host, pid, joined_at, lease_until, lease_unbroken_since, dead, seen_version, free_permits,
                     stopping, overloaded_endpoints)
                 VALUES ({}, {slot}, 'crowd', '', '', 1, 0, {lease_until}, 0, 0, 0, 0, 0, '')",
                1000 + i64::from(slot)
            ));
        }
    }
}

fn is_of_before(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(why) if why.contains("before its node joined again"))
}

async fn ids_made_before_a_node_joined_again_are_refused(pair: TwoNodes) {
    let other = &pair.other;
    assert_eq!(other.accept(pair.numbered(1, 1)).await, Accepted::New);
    pair.age_node();
    pair.end_lease();
    assert_eq!(pair.take_over().await, Some(0));
    let third = Node::beside(&pair.fixture).await;
    let joined = other.store.join(after(2)).await.unwrap();
    assert_eq!(joined.slot, 2, "the slot that it had is the third's");
    // Both in one batch: the event with a valid id is stored although the other is not.
    let (old, new) = (pair.numbered(1, 3), pair.numbered(2, 3));
    let (old, new) = tokio::join!(other.store.accept(vec![old]), other.store.accept(vec![new]));
    assert!(is_of_before(&old.unwrap_err()));
    assert_eq!(new.unwrap(), [Accepted::New]);
    assert_eq!(third.accept(pair.numbered(1, 3)).await, Accepted::New, "the same numbers are its own");
    let id = AppId::from_i64(IdSource::new(1, 0).next_range(after(4), 1));
    let settings = AppSettings { name: "Late".into(), ..AppSettings::default() };
    let app = App { id, uid: id.to_string(), settings, created_at: NOW, updated_at: NOW };
    assert!(is_of_before(&other.store.add_app(app, None).await.unwrap_err()));
    assert_eq!(other.accept(pair.numbered(2, 5)).await, Accepted::New, "and it goes on");
}

/// Also if clocks differ: the node that has the slot now may be hours behind.
async fn new_ids_of_a_slot_follow_all_stored_ones(pair: TwoNodes) {
    let mut ahead = IdSource::new(1, 0);
    let newest = ahead.next_range(after(3 * 3600), 2) + 1;
    let before = draft(pair.fixture.app, &[pair.fixture.endpoint], newest - 1);
    assert_eq!(pair.other.accept(before).await, Accepted::New);
    pair.set("dead = 1", pair.other.epoch);
    pair.crowd(i64::MAX / 2);
    let third = pair.fixture.open_beside(&std::sync::Arc::default());
    let joined = third.join(NOW).await.unwrap();
    assert_eq!((joined.slot, joined.newest_id), (1, newest), "of one that was dead and not fenced yet");
    let first = IdSource::new(joined.slot, joined.newest_id).next_range(after(1), 2);
    assert!(first > newest);
    let new = draft(pair.fixture.app, &[pair.fixture.endpoint], first);
    assert_eq!(third.accept(vec![new]).await.unwrap(), [Accepted::New]);
    assert!(pair.other.store.accept(vec![pair.numbered(1, 9)]).await.is_err(), "which it is now");
}

async fn a_joining_node_takes_the_slot_of_a_silent_one(pair: TwoNodes) {
    pair.crowd(0);
    let third = Node::beside(&pair.fixture).await;
    let nodes = third.view().await.nodes;
    let living: Vec<_> = nodes.iter().filter(|node| node.slot.is_some()).map(|node| node.epoch).collect();
    assert_eq!(living, [pair.epoch, pair.other.epoch, third.epoch], "no other node keeps a slot");
    assert_eq!(pair.other.accept(pair.numbered(1, 1)).await, Accepted::New, "living nodes continue");
}

play! { database:
    ids_made_before_a_node_joined_again_are_refused,
    new_ids_of_a_slot_follow_all_stored_ones,
    a_joining_node_takes_the_slot_of_a_silent_one,
}
play! { file:
    ids_made_before_a_node_joined_again_are_refused,
    new_ids_of_a_slot_follow_all_stored_ones,
}
