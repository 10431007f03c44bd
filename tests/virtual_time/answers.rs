//! Meaning of each response: sendnomi's list, and "everything else is tried again" of the other four.

use crate::fixture::{Behaviour, Fixture};
use posthaste::domain::{
    delivery::{DeliveryState, EndReason},
    outcome::OutcomeClass,
};
use std::time::Duration;

const FAILURES: [OutcomeClass; 4] =
    [OutcomeClass::Timeout, OutcomeClass::Connect, OutcomeClass::Dns, OutcomeClass::Tls];

/// State soon after the first attempt.
async fn after_one(contract: &str, does: Behaviour) -> (DeliveryState, Option<EndReason>, bool) {
    let fixture = Fixture::new(contract, does).await;
    fixture.publish().await;
    fixture.pass(Duration::from_secs(5)).await;
    let delivery = fixture.delivery().await;
    let is_disabled = fixture.entry.endpoint("ep").unwrap().record.disabled.is_some();
    (delivery.state, delivery.reason, is_disabled)
}

#[tokio::test(start_paused = true)]
async fn sendnomi_delivers_on_2xx_tries_again_on_3xx_and_5xx_and_never_on_4xx() {
    for status in [200, 201, 202, 204, 299] {
        let after = after_one("sendnomi", Behaviour::Answer(status)).await;
        assert_eq!(after, (DeliveryState::Delivered, None, false), "{status}");
    }
    for status in [300, 301, 302, 304, 307, 308, 399, 500, 501, 502, 503, 504, 599] {
        let after = after_one("sendnomi", Behaviour::Answer(status)).await;
        assert_eq!(after, (DeliveryState::Retrying, None, false), "{status}");
    }
    for class in FAILURES {
        let after = after_one("sendnomi", Behaviour::Fail(class)).await;
        assert_eq!(after, (DeliveryState::Retrying, None, false), "{class:?}");
    }
    let refused = Some(EndReason::RefusedByReceiver);
    for status in (400..500).filter(|status| *status != 410) {
        let after = after_one("sendnomi", Behaviour::Answer(status)).await;
        assert_eq!(after, (DeliveryState::Dead, refused, false), "{status}");
    }
    assert_eq!(
        after_one("sendnomi", Behaviour::Answer(410)).await,
        (DeliveryState::Dead, refused, true),
        "410"
    );
}

#[tokio::test(start_paused = true)]
async fn the_other_four_try_everything_but_2xx_again_and_nothing_disables_the_endpoint() {
    for contract in ["zerofee", "bastionary", "orientedos", "simpaisa"] {
        for status in [301, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503] {
            let fixture = Fixture::new(contract, Behaviour::Answer(status)).await;
            fixture.publish().await;
            fixture.pass(Duration::from_hours(24 * 30)).await;
            let delivery = fixture.delivery().await;
            let dead = (DeliveryState::Dead, Some(EndReason::Exhausted));
            assert_eq!((delivery.state, delivery.reason), dead, "{contract} {status}");
            assert!(fixture.entry.endpoint("ep").unwrap().record.disabled.is_none(), "{contract} {status}");
        }
        for status in [200, 204, 299] {
            let after = after_one(contract, Behaviour::Answer(status)).await;
            assert_eq!(after, (DeliveryState::Delivered, None, false), "{contract} {status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn standard_tries_every_refusal_again_but_410_which_disables_the_endpoint() {
    for status in [301, 400, 401, 404, 408, 425, 429, 500, 503] {
        let after = after_one("standard", Behaviour::Answer(status)).await;
        assert_eq!(after, (DeliveryState::Retrying, None, false), "{status}");
    }
    let refused = Some(EndReason::RefusedByReceiver);
    assert_eq!(after_one("standard", Behaviour::Answer(410)).await, (DeliveryState::Dead, refused, true));
}

#[tokio::test(start_paused = true)]
async fn standard_honours_retry_after_up_to_its_longest_wait() {
    for (requested, waited) in [(600, 600), (2 * 24 * 3600, 24 * 3600_u64)] {
        let fixture = Fixture::new("standard", Behaviour::AnswerLater(503, requested)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(waited - 1)).await;
        assert_eq!(fixture.seen().len(), 1, "asked for {requested} s");
        fixture.pass(Duration::from_secs(2)).await;
        assert_eq!(fixture.seen().len(), 2, "asked for {requested} s");
    }
}
