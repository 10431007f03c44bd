//! Events, deliveries and attempts that remain after an hour, a month and a year under each contract, and the fate of
//! undelivered ones.

use crate::fixture::{ADMIN, Behaviour, Fixture};
use posthaste::{
    domain::delivery::{DeliveryState, EndReason},
    service::{deliveries::RequestedAction, events::EventQuery},
};
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// Whether dead letters are kept for ever.
const CONTRACTS: [(&str, bool); 6] = [
    ("zerofee", false),
    ("bastionary", false),
    ("orientedos", true),
    ("sendnomi", false),
    ("simpaisa", true),
    ("standard", false),
];

/// Returns what is left of the one event: its payload, the state of its delivery, and how many of its attempts are there.
#[derive(Debug, PartialEq, Eq)]
struct Remaining {
    data: bool,
    state: DeliveryState,
    reason: Option<EndReason>,
    attempts: usize,
}

async fn left(fixture: &Fixture) -> Option<Remaining> {
    let events = fixture.service.events(&fixture.entry, EventQuery::default(), None, 10).await.unwrap().rows;
    let deliveries = fixture.deliveries().await;
    assert_eq!(events.len(), deliveries.len(), "an event and its delivery are there together");
    let (event, delivery) = (events.into_iter().next()?, deliveries.into_iter().next()?);
    let (_, attempts) = fixture.service.delivery(&fixture.entry, &delivery.id.to_string()).await.unwrap();
    let (state, reason) = (delivery.state, delivery.reason);
    Some(Remaining { data: !event.data.is_empty(), state, reason, attempts: attempts.len() })
}

#[tokio::test(start_paused = true)]
async fn a_delivered_event_is_kept_for_a_month_and_then_removed() {
    for (contract, _) in CONTRACTS {
        let fixture = Fixture::new(contract, Behaviour::Answer(200)).await;
        fixture.publish().await;
        let whole = Remaining { data: true, state: DeliveryState::Delivered, reason: None, attempts: 1 };
        for time in [Duration::from_hours(1), DAY * 28] {
            fixture.pass(time).await;
            assert_eq!(left(&fixture).await.as_ref(), Some(&whole), "{contract}");
        }
        fixture.pass(DAY * 3).await;
        assert_eq!(left(&fixture).await, None, "{contract}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_kept_as_long_as_its_contract_says_and_can_be_replayed_until_then() {
    for (contract, for_ever) in CONTRACTS {
        let fixture = Fixture::new(contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(DAY * 29).await;
        let month = left(&fixture).await.unwrap_or_else(|| panic!("{contract}: gone"));
        assert!(
            month.data && month.attempts > 0 && month.state == DeliveryState::Dead,
            "{contract}: {month:?}"
        );
        fixture.pass(DAY * 371).await;
        let year = left(&fixture).await;
        assert_eq!(year.is_some(), for_ever, "{contract}: {year:?}");
        if !for_ever {
            continue;
        }
        assert_eq!(year, Some(month), "{contract}");
        fixture.set_behaviour(Behaviour::Answer(200));
        let id = fixture.delivery().await.id.to_string();
        fixture.service.act_on_delivery(ADMIN, &fixture.entry, &id, RequestedAction::Replay).await.unwrap();
        fixture.pass(DAY).await;
        let replayed = left(&fixture).await.unwrap_or_else(|| panic!("{contract}: a replay is no end"));
        assert_eq!(replayed.state, DeliveryState::Delivered, "{contract}");
        fixture.pass(DAY * 31).await;
        assert_eq!(left(&fixture).await, None, "{contract}: it is settled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_held_beyond_a_month_expires_and_is_removed_a_month_later() {
    for (contract, _) in CONTRACTS {
        let fixture = Fixture::new(contract, Behaviour::Answer(500)).await;
        fixture.publish().await;
        fixture.pass(Duration::from_secs(1)).await;
        fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
        fixture.pass(DAY * 29).await;
        let before = left(&fixture).await.unwrap_or_else(|| panic!("{contract}: gone"));
        fixture.pass(DAY * 2).await;
        let after = left(&fixture).await;
        if before.state == DeliveryState::Cancelled {
            assert_eq!((contract, after), ("simpaisa", None), "it ended when its endpoint went off");
            continue;
        }
        assert_eq!(before.state, DeliveryState::Held, "{contract}");
        let (state, reason) = (DeliveryState::Expired, Some(EndReason::Retention));
        assert_eq!(after, Some(Remaining { data: false, state, reason, attempts: 1 }), "{contract}");
        fixture.pass(DAY * 28).await;
        assert!(left(&fixture).await.is_some(), "{contract}: its record is kept as attempts are");
        fixture.pass(DAY * 3).await;
        assert_eq!(left(&fixture).await, None, "{contract}");
    }
}
