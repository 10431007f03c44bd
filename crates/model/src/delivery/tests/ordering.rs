//! Positions in an ordering group: kept while queued, left at the end.

use super::{START, check_shape, delivery_in, new_delivery};
use crate::{
    delivery::{Availability, Delivery, DeliveryState, EndReason, TransitionError},
    time::Timestamp,
};
use std::time::Duration;

fn later(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

fn queued_delivery() -> Delivery {
    let mut delivery = new_delivery(Some(later(60)));
    delivery.start_in_flight();
    delivery.enqueue_behind_head(7);
    delivery
}

#[test]
fn a_queued_delivery_is_pending_never_due_and_shows_no_next_attempt() {
    let delivery = queued_delivery();
    assert!(delivery.is_queued_behind() && delivery.order_seq == Some(7));
    assert_eq!((delivery.state, delivery.next_attempt_at()), (DeliveryState::Pending, None));
    assert!(!new_delivery(None).is_queued_behind());
}

#[test]
fn a_position_is_kept_while_the_endpoint_is_disabled_and_age_stops() {
    let mut delivery = queued_delivery();
    delivery.hold_or_cancel(Availability::DisabledHold, later(10)).unwrap();
    assert!(delivery.state == DeliveryState::Held && delivery.is_queued_behind());
    delivery.resume(false, later(40)).unwrap();
    assert!(delivery.state == DeliveryState::Pending && delivery.is_queued_behind());
    assert_eq!((delivery.give_up_at, delivery.order_seq), (Some(later(90)), Some(7)));
}

#[test]
fn a_queued_delivery_that_ends_loses_its_position() {
    type End = fn(&mut Delivery) -> Result<(), TransitionError>;
    let ends: [End; 3] = [
        |delivery| delivery.cancel(later(10)),
        |delivery| delivery.expire_by_retention(later(10)),
        |delivery| delivery.hold_or_cancel(Availability::DisabledCancel, later(10)),
    ];
    for end in ends {
        let mut delivery = queued_delivery();
        end(&mut delivery).unwrap();
        check_shape(&delivery);
        assert!(delivery.state.is_terminal() && delivery.order_seq.is_none());
    }
}

#[test]
fn a_promoted_delivery_is_due_now_or_at_its_own_time_and_stays_held() {
    let mut delivery = queued_delivery();
    delivery.promote(Some(later(5)), later(30));
    assert_eq!((delivery.next_attempt_at(), delivery.order_seq), (Some(later(30)), None));
    let mut delivery = queued_delivery();
    delivery.hold_or_cancel(Availability::DisabledHold, later(10)).unwrap();
    delivery.promote(Some(later(50)), later(30));
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Held, Some(later(50))));
}

#[test]
fn a_terminal_delivery_leaves_its_group_but_a_dead_one_only_if_skipped_or_closed() {
    for state in DeliveryState::ALL {
        let delivery = delivery_in(state);
        let leaves = [false, true].map(|skips_dead| delivery.has_left_group(skips_dead));
        let expected = match state {
            DeliveryState::Dead => [false, true],
            DeliveryState::Delivered | DeliveryState::Cancelled | DeliveryState::Expired => [true, true],
            DeliveryState::Pending
            | DeliveryState::Retrying
            | DeliveryState::InFlight
            | DeliveryState::Held => [false, false],
        };
        assert_eq!(leaves, expected, "{state:?}");
    }
    let mut closed = delivery_in(DeliveryState::Dead);
    closed.close().unwrap();
    assert!(closed.has_left_group(false) && closed.reason == Some(EndReason::Closed));
}
