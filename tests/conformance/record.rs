//! Recording results: the history, the effect of the verdict on the delivery, and the permit that is free only afterwards.

use crate::fixture::{Fixture, NOW, after, attempt, dead, retry_at};
use bytes::Bytes;
use posthaste::{
    domain::{
        contract::{ContractHash, WaitingWhenDisabled},
        delivery::{DeliveryState, EndReason},
        endpoint::{Disabled, DisabledReason},
        outcome::{Attempt, Outcome, OutcomeClass, Timings},
        ports::LeasedDelivery,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        deliveries::{DeliveryAction, DeliveryResult},
        queries::LastError,
    },
};

const GONE_DISABLED: Disabled =
    Disabled { reason: DisabledReason::Gone, at: NOW, waiting: WaitingWhenDisabled::Held, by: None };

/// Returns the same delivery with another permit, as a confused node might have it.
fn twin(fixture: &Fixture, leased: &LeasedDelivery) -> LeasedDelivery {
    let (delivery, event) = (leased.delivery.clone(), leased.event.clone());
    LeasedDelivery { delivery, event, due: leased.due, permit: fixture.permits.take(), epoch: leased.epoch }
}

/// Records the receiver's answer that it is gone.
async fn record_410(fixture: &Fixture, leased: LeasedDelivery, off: Disabled) {
    fixture.store().record_result(DeliveryResult {
        leased,
        attempts: vec![attempt(OutcomeClass::Http, 410)],
        verdict: Verdict::Dead { reason: DeadReason::RefusedByReceiver, disable_endpoint: true },
        disable: Some(off),
        health_sample: None,
        ended_at: after(1),
        contract: None,
    });
    fixture.wait_until_idle().await;
}

pub(crate) async fn a_success_ends_the_delivery_and_stays(mut fixture: Fixture) {
    let id = fixture.concluded(Verdict::Delivered, attempt(OutcomeClass::Ok, 200)).await;
    fixture.reopen();
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.reason, delivery.finished_at),
        (DeliveryState::Delivered, None, Some(after(1)))
    );
    assert_eq!((delivery.attempt_count, delivery.history_len, delivery.due), (1, 1, None));
    assert_eq!(fixture.listed(id).await.unwrap().0.last_error, None);
    assert!(fixture.recorder.take_waiting().is_empty(), "nothing waits");
}

pub(crate) async fn a_failure_waits_for_its_next_attempt(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(60)), attempt(OutcomeClass::Http, 500)).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.due, delivery.retry_index),
        (DeliveryState::Retrying, Some(after(60)), 1)
    );
    assert_eq!(delivery.next_attempt_at(), Some(after(60)));
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, after(60))]);
    let last_error = fixture.listed(id).await.unwrap().0.last_error;
    assert_eq!(last_error, Some(LastError { status: Some(500), error: None }));
}

pub(crate) async fn a_final_wait_is_kept_and_ends_in_the_dead_letters(mut fixture: Fixture) {
    let last = Verdict::Retry { due: after(60), then: DueAction::Exhaust };
    let id = fixture.concluded(last, attempt(OutcomeClass::Http, 500)).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.at_due), (DeliveryState::Retrying, DueAction::Exhaust));
    assert_eq!(delivery.next_attempt_at(), None);
    fixture.refill(fixture.endpoint, 1, after(60)).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Dead, Some(EndReason::Exhausted)));
}

pub(crate) async fn a_local_failure_uses_no_retry_slot_and_no_number(mut fixture: Fixture) {
    let id =
        fixture.concluded(Verdict::RetryUncounted { due: after(5) }, attempt(OutcomeClass::Local, 0)).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.due, delivery.retry_index),
        (DeliveryState::Pending, Some(after(5)), 0)
    );
    assert_eq!((delivery.attempt_count, delivery.history_len), (0, 1));
    assert_eq!(fixture.history(id).await[0].number, None);
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, after(5))]);
}

pub(crate) async fn each_way_to_become_dead_keeps_its_reason(mut fixture: Fixture) {
    for (reason, kept) in [
        (DeadReason::Exhausted, EndReason::Exhausted),
        (DeadReason::RefusedByReceiver, EndReason::RefusedByReceiver),
        (DeadReason::SerialisationFailed, EndReason::SerialisationFailed),
        (DeadReason::SigningFailed, EndReason::SigningFailed),
    ] {
        let id = fixture.concluded(dead(reason), attempt(OutcomeClass::Http, 400)).await;
        assert_eq!(fixture.ended(id).await, (DeliveryState::Dead, Some(kept)));
        assert_eq!(fixture.delivery(id).await.finished_at, Some(after(1)));
    }
}

pub(crate) async fn attempts_are_numbered_from_one_and_a_stale_connection_takes_no_number(
    mut fixture: Fixture,
) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let two = vec![attempt(OutcomeClass::StaleConnection, 0), attempt(OutcomeClass::Http, 500)];
    fixture.record(leased, retry_at(NOW), two).await;
    let leased = fixture.lease(id, NOW).await;
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let rows: Vec<_> = fixture
        .history(id)
        .await
        .iter()
        .map(|row| (row.position, row.number, row.attempt.outcome.class))
        .collect();
    let expected = [
        (1, None, OutcomeClass::StaleConnection),
        (2, Some(1), OutcomeClass::Http),
        (3, Some(2), OutcomeClass::Ok),
    ];
    assert_eq!(rows, expected);
    assert_eq!(fixture.delivery(id).await.attempt_count, 2);
}

pub(crate) async fn an_attempt_with_any_bytes_of_a_receiver_reads_back_whole(mut fixture: Fixture) {
    let sent = Attempt {
        started_at: after(3),
        outcome: Outcome {
            class: OutcomeClass::Http,
            status: Some(599),
            error: Some("HTTP 599\0\r\n\u{1b}[31m".into()),
            timings: Timings {
                dns_us: Some(0),
                connect_us: Some(1),
                tls_us: Some(u32::MAX),
                first_byte_us: Some(4),
                total_us: u32::MAX,
            },
            address: Some("[2001:db8::1]:443".parse().unwrap()),
            retry_after: None,
            response_headers: vec![
                ("x-nul".into(), Bytes::from_static(b"a\0b\xff\xfe: c\r")),
                ("x-empty".into(), Bytes::new()),
            ],
            response_body: Bytes::from_static(b"\0\xff\xc3\x28 </script>\n\0"),
        },
        contract: ContractHash(*b"\x00123456789abcde\xff"),
        endpoint_revision: u32::MAX,
        url: Some("https://example.com/hook?a=1".into()),
        note: Some("a probe: why".into()),
    };
    let id = fixture.concluded(retry_at(after(60)), sent.clone()).await;
    assert_eq!(fixture.history(id).await[0].attempt, sent);
}

pub(crate) async fn every_class_of_outcome_reads_back(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let failed = |class| Attempt { outcome: Outcome::failed(class, class.name()), ..attempt(class, 0) };
    let attempts: Vec<Attempt> = OutcomeClass::ALL.into_iter().map(failed).collect();
    fixture.record(leased, retry_at(NOW), attempts.clone()).await;
    let read: Vec<Attempt> = fixture.history(id).await.into_iter().map(|row| row.attempt).collect();
    assert_eq!(read, attempts);
}

pub(crate) async fn an_attempt_that_used_no_retry_slot_has_no_number(mut fixture: Fixture) {
    let id =
        fixture.concluded(Verdict::RetryUncounted { due: after(5) }, attempt(OutcomeClass::Timeout, 0)).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.attempt_count, delivery.history_len, delivery.retry_index), (0, 1, 0));
    assert_eq!(fixture.history(id).await[0].number, None);
    let leased = fixture.lease(id, after(5)).await;
    fixture.record(leased, retry_at(after(9)), vec![attempt(OutcomeClass::Timeout, 0)]).await;
    assert_eq!(fixture.history(id).await[1].number, Some(1));
}

pub(crate) async fn a_success_keeps_the_answer_but_not_its_headers(mut fixture: Fixture) {
    let mut ok = attempt(OutcomeClass::Ok, 200);
    ok.outcome.response_headers = vec![("server".into(), Bytes::from_static(b"x"))];
    ok.outcome.response_body = Bytes::from_static(b"thanks");
    let id = fixture.concluded(Verdict::Delivered, ok).await;
    let kept = fixture.history(id).await.remove(0).attempt.outcome;
    assert!(kept.response_headers.is_empty());
    assert_eq!(kept.response_body, "thanks");
}

pub(crate) async fn a_permit_is_free_only_after_the_verdict_is_stored(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    assert_eq!(fixture.permits.taken(), 1);
    fixture.permits.gate.shut();
    let attempts = vec![attempt(OutcomeClass::Ok, 200)];
    let verdict = Verdict::Delivered;
    fixture.store().record_result(DeliveryResult {
        leased,
        attempts,
        verdict,
        disable: None,
        health_sample: None,
        ended_at: NOW,
        contract: None,
    });
    fixture.permits.gate.wait_for_the_store();
    // The store is releasing the permit: the verdict can already be read.
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Delivered);
    fixture.permits.gate.open();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.permits.taken(), 0);
}

pub(crate) async fn a_delivery_that_is_no_longer_in_flight_is_left_alone(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let late =
        [vec![attempt(OutcomeClass::Http, 500)], vec![]].map(|attempts| (twin(&fixture, &leased), attempts));
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let (before, history) = (fixture.delivery(id).await, fixture.history(id).await.len());
    for (twin, attempts) in late {
        fixture.record(twin, dead(DeadReason::Exhausted), attempts).await;
        assert_eq!((fixture.delivery(id).await, fixture.history(id).await.len()), (before.clone(), history));
    }
    assert_eq!(fixture.permits.taken(), 0, "its permit is free all the same");
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_delivery_leased_under_another_epoch_is_left_alone(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let (id, before) = (leased.delivery.id, fixture.delivery(leased.delivery.id).await);
    let foreign = |fixture: &Fixture| LeasedDelivery { epoch: leased.epoch + 1, ..twin(fixture, &leased) };
    fixture.record(foreign(&fixture), Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    record_410(&fixture, foreign(&fixture), GONE_DISABLED).await;
    fixture.store().release(vec![foreign(&fixture)], after(1)).await.unwrap();
    assert_eq!((fixture.delivery(id).await, fixture.history(id).await.len()), (before, 0));
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap().disabled, None);
    assert_eq!(fixture.permits.taken(), 1, "the other permits are free all the same");
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Delivered);
}

pub(crate) async fn a_410_disables_the_endpoint_with_its_verdict(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    record_410(&fixture, leased, GONE_DISABLED).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Dead, Some(EndReason::RefusedByReceiver)));
    let endpoint = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    assert_eq!(
        (endpoint.disabled, endpoint.revision, endpoint.updated_at),
        (Some(GONE_DISABLED), 2, GONE_DISABLED.at)
    );
    assert_eq!(fixture.recorder.take_disabled(), [(fixture.endpoint, GONE_DISABLED, 2)]);
}

pub(crate) async fn a_410_of_a_delivery_no_longer_in_flight_disables_nothing(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let late = twin(&fixture, &leased);
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    record_410(&fixture, late, GONE_DISABLED).await;
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap().disabled, None);
    assert!(fixture.recorder.take_disabled().is_empty());
}

pub(crate) async fn a_410_does_not_change_a_disabled_endpoint(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
    let before = fixture.store().endpoint(fixture.endpoint).await.unwrap();
    record_410(&fixture, leased, GONE_DISABLED).await;
    assert_eq!(fixture.store().endpoint(fixture.endpoint).await.unwrap(), before);
    assert!(fixture.recorder.take_disabled().is_empty(), "nothing was switched");
}

pub(crate) async fn a_failed_delivery_is_held_or_cancelled_if_its_endpoint_was_disabled_meanwhile(
    mut fixture: Fixture,
) {
    for (waiting, ended) in [
        (WaitingWhenDisabled::Held, (DeliveryState::Held, None)),
        (WaitingWhenDisabled::Cancelled, (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled))),
    ] {
        let leased = fixture.leased().await;
        let id = leased.delivery.id;
        fixture.set_availability(fixture.endpoint, Some(waiting)).await;
        fixture.record(leased, retry_at(after(60)), vec![attempt(OutcomeClass::Http, 500)]).await;
        assert_eq!(fixture.ended(id).await, ended);
        fixture.set_availability(fixture.endpoint, None).await;
    }
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    fixture.record(leased, retry_at(after(60)), vec![attempt(OutcomeClass::Http, 500)]).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_success_is_a_success_although_the_endpoint_was_deleted_meanwhile(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Delivered, None));
}

pub(crate) async fn a_failed_manual_retry_restores_the_previous_state(mut fixture: Fixture) {
    for state in
        [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
    {
        let id = fixture.one_in(state).await;
        let before = fixture.delivery(id).await;
        fixture.request(id, DeliveryAction::Retry).await;
        let leased = fixture.lease(id, NOW).await;
        assert!(leased.delivery.saved_state.is_some());
        fixture.record(leased, retry_at(after(600)), vec![attempt(OutcomeClass::Http, 500)]).await;
        let after_it = fixture.delivery(id).await;
        let (history_len, attempt_count) = (before.history_len + 1, before.attempt_count + 1);
        let restarted_at = Some(NOW);
        let expected =
            posthaste::domain::delivery::Delivery { history_len, attempt_count, restarted_at, ..before };
        assert_eq!(after_it, expected, "{state:?}");
    }
}

pub(crate) async fn a_successful_manual_retry_delivers(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(id, DeliveryAction::Retry).await;
    let leased = fixture.lease(id, NOW).await;
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.reason, delivery.saved_state),
        (DeliveryState::Delivered, None, None)
    );
    assert_eq!(fixture.history(id).await.last().unwrap().number, Some(2), "numbering continues");
}
