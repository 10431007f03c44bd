//! Transitions for pacing: manual priority, early probes of an endpoint, advanced retries.

use super::{Delivery, DeliveryState, TransitionError};
use crate::{
    id::made_at,
    time::Timestamp,
    verdict::{DeadReason, DueAction, Verdict},
};

impl Delivery {
    /// Marks a delivery as manual, because it is replayed singly and not in bulk: it goes before others.
    pub fn mark_manual(&mut self) {
        self.is_manual = true;
    }

    /// Claims a delivery before its time, to test whether its endpoint answers again: an extra attempt, which uses no slot
    /// of the schedule. Only for a retry that waits for its next attempt and is not too old.
    pub fn probe(&mut self, now: Timestamp) -> Result<(), TransitionError> {
        let may = self.at_due == DueAction::Attempt && self.give_up_at.is_none_or(|at| at > now);
        self.require(|state| state == DeliveryState::Retrying && may, "probed")?;
        self.saved_state = Some(self.snapshot(true));
        (self.state, self.due) = (DeliveryState::InFlight, None);
        Ok(())
    }

    /// Whether the saved state is restored: after an extra attempt that failed. An early probe with a final verdict is not
    /// undone: it counts like any other attempt.
    pub fn restores_saved_state(&self, verdict: &Verdict) -> bool {
        let is_final = matches!(verdict, Verdict::Dead { reason, .. } if *reason != DeadReason::Exhausted);
        *verdict != Verdict::Delivered && self.saved_state.is_some_and(|back| !(back.is_probe && is_final))
    }

    /// Whether its extra attempt is an early probe.
    pub fn is_early_probe(&self) -> bool {
        self.saved_state.is_some_and(|back| back.is_probe)
    }

    /// Advances a retry because the endpoint answers again: due at its creation time, so that the oldest go first. Final
    /// waits and retries that are due already stay unchanged.
    pub fn advance_retry(&mut self, now: Timestamp) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::Retrying, "brought forward")?;
        if let Some(due) = self.due.filter(|due| self.at_due == DueAction::Attempt && *due > now) {
            // Ids may be ahead of this clock, if the clock of the node that made them was.
            self.due = Some(made_at(self.id.as_i64()).min(due));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        delivery::{Availability, SavedState},
        id::{AppId, DeliveryId, EndpointId, EventId, first_id_at},
    };

    const MADE: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn later(seconds: u64) -> Timestamp {
        MADE.plus(std::time::Duration::from_secs(seconds))
    }

    fn retrying(due: Timestamp) -> Delivery {
        let id = DeliveryId::from_i64(first_id_at(MADE));
        let (app, event, endpoint) = (AppId::from_i64(1), EventId::from_i64(2), EndpointId::from_i64(3));
        let new = Delivery::new(id, app, event, endpoint, MADE, None);
        Delivery { state: DeliveryState::Retrying, retry_index: 3, due: Some(due), ..new }
    }

    #[test]
    fn only_a_future_retry_is_advanced_to_its_creation_time() {
        let forwarded = |mut delivery: Delivery| {
            let done = delivery.advance_retry(later(60));
            (done.is_ok(), delivery.due)
        };
        assert_eq!(forwarded(retrying(later(3600))), (true, Some(MADE)));
        assert_eq!(forwarded(retrying(later(60))), (true, Some(later(60))), "due already");
        let ahead = Delivery { id: DeliveryId::from_i64(first_id_at(later(9000))), ..retrying(later(3600)) };
        assert_eq!(forwarded(ahead), (true, Some(later(3600))), "never later, whatever clock made its id");
        for at_due in [DueAction::Exhaust, DueAction::Expire] {
            let waits = Delivery { at_due, ..retrying(later(3600)) };
            assert_eq!(forwarded(waits), (true, Some(later(3600))));
        }
        let pending = Delivery { state: DeliveryState::Pending, retry_index: 0, ..retrying(later(3600)) };
        assert_eq!(forwarded(pending), (false, Some(later(3600))));
    }

    #[test]
    fn an_early_probe_uses_no_slot_and_leaves_the_schedule_unchanged() {
        let planned = Delivery { give_up_at: Some(later(9000)), ..retrying(later(3600)) };
        let probed = |what: &dyn Fn(&mut Delivery)| {
            let mut delivery = planned.clone();
            delivery.probe(later(60)).unwrap();
            assert!(delivery.is_early_probe() && !delivery.is_manual);
            assert_eq!((delivery.state, delivery.due), (DeliveryState::InFlight, None));
            what(&mut delivery);
            delivery
        };
        let refused = Verdict::Dead { reason: DeadReason::RefusedByReceiver, disable_endpoint: false };
        let ended = probed(&|delivery| {
            delivery.apply_verdict(&refused, (1, 1), Availability::Enabled, later(61)).unwrap();
        });
        assert_eq!(
            (ended.state, ended.saved_state, ended.due),
            (DeliveryState::Dead, None, None),
            "for good"
        );
        for verdict in [
            Verdict::Retry { due: later(7200), then: DueAction::Exhaust },
            Verdict::RetryUncounted { due: later(61) },
            Verdict::Dead { reason: DeadReason::Exhausted, disable_endpoint: false },
        ] {
            let failed = probed(&|delivery| {
                delivery.apply_verdict(&verdict, (1, 1), Availability::Enabled, later(61)).unwrap();
            });
            assert_eq!(failed, Delivery { history_len: 1, attempt_count: 1, ..planned.clone() });
        }
        let handed_back =
            probed(&|delivery| delivery.release(Availability::Enabled, later(60), later(61)).unwrap());
        assert_eq!(handed_back, planned, "released to its saved state");
        let taken_over = probed(&|delivery| delivery.take_over(Availability::Enabled, later(61)).unwrap());
        assert_eq!(taken_over, Delivery { history_len: 1, ..planned.clone() });
        let delivered = probed(&|delivery| {
            delivery.apply_verdict(&Verdict::Delivered, (1, 1), Availability::Enabled, later(61)).unwrap();
        });
        assert_eq!((delivered.state, delivered.saved_state), (DeliveryState::Delivered, None));
        for other in [
            Delivery { at_due: DueAction::Exhaust, ..planned.clone() },
            Delivery { give_up_at: Some(later(60)), ..planned.clone() },
            Delivery { state: DeliveryState::Pending, retry_index: 0, ..planned.clone() },
        ] {
            assert!(other.clone().probe(later(60)).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_manual_request_has_priority_for_one_attempt() {
        assert!(!retrying(later(1)).is_manual);
        let mut manual = retrying(later(1));
        manual.retry(Availability::Enabled, later(2)).unwrap();
        assert!(
            manual.is_manual && manual.saved_state.is_some_and(|back: SavedState| back.due == Some(later(1)))
        );
        let mut dead = Delivery { state: DeliveryState::Dead, ..retrying(later(1)) };
        dead.replay(None, Availability::Enabled, later(2)).unwrap();
        assert!(!dead.is_manual, "a bulk replay has no priority");
        dead.mark_manual();
        let (retry, failed) = (Verdict::Retry { due: later(9), then: DueAction::Attempt }, (1, 1));
        dead.claim(later(2)).unwrap();
        dead.apply_verdict(&retry, failed, Availability::Enabled, later(3)).unwrap();
        assert!(!dead.is_manual, "scheduled retries have no priority");
        manual.claim(later(2)).unwrap();
        manual.apply_verdict(&retry, failed, Availability::Enabled, later(3)).unwrap();
        assert!(!manual.is_manual && manual.due == Some(later(1)));
        let again = Verdict::RetryUncounted { due: later(9) };
        let mut lost = retrying(later(1));
        lost.retry(Availability::DisabledHold, later(2)).unwrap();
        lost.resume(false, later(3)).unwrap();
        assert!(lost.is_manual, "held, and still manual");
        let mut dead = Delivery { state: DeliveryState::Dead, retry_index: 0, ..retrying(later(1)) };
        dead.replay(None, Availability::Enabled, later(2)).unwrap();
        dead.mark_manual();
        dead.claim(later(2)).unwrap();
        dead.apply_verdict(&again, (1, 0), Availability::Enabled, later(3)).unwrap();
        assert!(!dead.is_manual, "a retry without a slot has no priority");
    }
}
