//! Queries of rolled-up statistics: by app, endpoint, event type and time.

use crate::{
    fixture::{Fixture, NOW, after, attempt, dead, retry_at},
    health::{EXHAUSTED, counted, plain, record_counted, roll_up},
};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        id::{AppId, EndpointId},
        outcome::OutcomeClass,
        statistics::{Counters, TimeRange},
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        deliveries::DeliveryAction,
        statistics::{Statistics, StatisticsSearch, StatisticsSubject},
    },
};
use std::time::Duration;

const DAY: u64 = 86_400;

async fn ask(
    fixture: &Fixture,
    app: Option<AppId>,
    of: StatisticsSubject,
    (from, to): (Timestamp, Timestamp),
) -> Statistics {
    let span = TimeRange::of(from, to, to);
    let endpoints = vec![(fixture.app, fixture.endpoint)];
    fixture.store().statistics(StatisticsSearch { app, subject: of, span, endpoints }).await.unwrap()
}

async fn last_hour(fixture: &Fixture, app: Option<AppId>, of: StatisticsSubject) -> Statistics {
    let to = after(60);
    ask(fixture, app, of, (Timestamp::from_millis(to.as_millis() - 3_600_000), to)).await
}

fn total(statistics: &Statistics) -> Counters {
    let mut total = Counters::default();
    statistics.series.iter().for_each(|(_, counters)| total.add(counters));
    total
}

/// Publishes an event of this type and attempts its delivery.
async fn of_type(fixture: &mut Fixture, event_type: &str, verdict: Verdict) {
    let mut new = fixture.one_with_permit();
    let event = std::sync::Arc::get_mut(&mut new.event).expect("no other reference exists");
    event_type.clone_into(&mut event.event_type);
    fixture.publish(new).await;
    let leased = fixture.only_leased();
    fixture.store().record_result(counted(leased, verdict, &plain(), after(1)));
    fixture.wait_until_idle().await;
}

pub(crate) async fn what_happened_is_told_by_app_endpoint_and_event_type(mut fixture: Fixture) {
    for (event_type, verdict) in [
        ("order.paid", Verdict::Delivered),
        ("order.paid", retry_at(after(60))),
        ("order.paid", EXHAUSTED),
        ("refund.made", Verdict::Delivered),
    ] {
        of_type(&mut fixture, event_type, verdict).await;
    }
    roll_up(&fixture, after(2)).await;
    let app = fixture.app;
    for totals in [
        last_hour(&fixture, Some(app), StatisticsSubject::Everything).await,
        last_hour(&fixture, None, StatisticsSubject::Everything).await,
    ] {
        let counters = total(&totals);
        assert_eq!(
            (counters.events, counters.succeeded, counters.failed, counters.delivered, counters.dead),
            (4, 2, 2, 2, 1)
        );
        let failures: Vec<_> =
            counters.failures().into_iter().map(|(ending, count)| (ending.name(), count)).collect();
        assert_eq!(failures, [("500".to_owned(), 2)]);
        let [(endpoint, of_endpoint)] = &totals.endpoints[..] else { panic!("{:?}", totals.endpoints) };
        assert_eq!((*endpoint, of_endpoint.attempts(), of_endpoint.failed), (fixture.endpoint, 4, 2));
        let types: Vec<_> = totals
            .event_types
            .iter()
            .map(|(name, counters)| (&**name, counters.events, counters.failed))
            .collect();
        assert_eq!(types, [("order.paid", 3, 2), ("refund.made", 1, 0)], "the busiest first");
        assert_eq!((totals.backlog.waiting, totals.backlog.oldest_due), (1, Some(after(60))));
    }
    let of_endpoint = last_hour(&fixture, Some(app), StatisticsSubject::Endpoint(fixture.endpoint)).await;
    assert_eq!((total(&of_endpoint).events, total(&of_endpoint).attempts()), (0, 4));
    let of_type = last_hour(&fixture, Some(app), StatisticsSubject::EventType("refund.made".into())).await;
    assert_eq!((total(&of_type).events, total(&of_type).succeeded, of_type.endpoints.len()), (1, 1, 0));
    let other = fixture.new_app().await;
    let nothing = last_hour(&fixture, Some(other), StatisticsSubject::Everything).await;
    assert_eq!((total(&nothing), nothing.event_types.len()), (Counters::default(), 0));
}

pub(crate) async fn every_end_is_counted_once_whoever_is_to_blame(mut fixture: Fixture) {
    let local = || attempt(OutcomeClass::Local, 0);
    let unmade = fixture.concluded(dead(DeadReason::SerialisationFailed), local()).await;
    fixture.concluded(dead(DeadReason::SigningFailed), local()).await;
    for then in [DueAction::Exhaust, DueAction::ExhaustUncounted, DueAction::Expire] {
        fixture.concluded(Verdict::Retry { due: after(30), then }, attempt(OutcomeClass::Http, 500)).await;
    }
    fixture.refill(fixture.endpoint, 10, after(30)).await;
    fixture.one_in(DeliveryState::Cancelled).await;
    let counted = async |fixture: &Fixture| {
        roll_up(fixture, after(40)).await;
        let totals = last_hour(fixture, Some(fixture.app), StatisticsSubject::Everything).await;
        assert_eq!(totals.endpoints[0].1.dead, total(&totals).dead, "by endpoint too");
        let Counters { dead, dead_local, expired, failed, .. } = total(&totals);
        (dead, dead_local, expired, failed)
    };
    assert_eq!(counted(&fixture).await, (4, 3, 1, 0));
    // A failed extra attempt leaves the delivery as it had ended.
    fixture.request(unmade, DeliveryAction::Retry).await;
    let again = fixture.lease(unmade, after(30)).await;
    fixture.record(again, dead(DeadReason::SerialisationFailed), vec![local()]).await;
    assert_eq!(
        (fixture.delivery(unmade).await.state, counted(&fixture).await),
        (DeliveryState::Dead, (4, 3, 1, 0))
    );
}

pub(crate) async fn a_long_window_is_the_sum_of_its_days_and_of_the_hours_at_its_ends(mut fixture: Fixture) {
    let plain = plain();
    for day in 0..10 {
        let leased = fixture.leased().await;
        let at = after(day * DAY + day * 3600);
        fixture.store().record_result(counted(leased, Verdict::Delivered, &plain, at));
        fixture.wait_until_idle().await;
        roll_up(&fixture, at).await;
    }
    for (first, last, wanted) in [(0, 10, 10), (1, 10, 9), (3, 5, 2), (9, 10, 1)] {
        let from = after(first * DAY + first * 3600);
        let totals = ask(
            &fixture,
            Some(fixture.app),
            StatisticsSubject::Everything,
            (from, after(last * DAY + last * 3600 - 3600)),
        )
        .await;
        assert_eq!(totals.endpoints[0].1.succeeded, wanted, "days {first} to {last}");
        assert_eq!(total(&totals).succeeded, wanted, "the series says the same");
        assert_eq!(totals.event_types.iter().map(|(_, counters)| counters.succeeded).sum::<u64>(), wanted);
    }
}

pub(crate) async fn event_types_beyond_what_there_is_room_for_are_counted_together(mut fixture: Fixture) {
    let counted = async |fixture: &Fixture, name: &str| {
        total(&last_hour(fixture, Some(fixture.app), StatisticsSubject::EventType(name.into())).await).events
    };
    for (first, last, rest) in [(0, 203, 3), (0, 1, 3), (203, 205, 5)] {
        for n in first..last {
            let mut new = fixture.draft(&[]);
            let event = std::sync::Arc::get_mut(&mut new.event).expect("no other reference exists");
            event.event_type = format!("made.up.{n}");
            fixture.accept(new).await;
        }
        roll_up(&fixture, after(2)).await;
        assert_eq!(counted(&fixture, "*").await, rest);
    }
    assert_eq!(counted(&fixture, "made.up.0").await, 2, "what has rows keeps them");
    let totals = last_hour(&fixture, Some(fixture.app), StatisticsSubject::Everything).await;
    assert_eq!(total(&totals).events, 206, "none is lost");
}

pub(crate) async fn what_is_gone_is_not_told_and_still_counts_for_all(mut fixture: Fixture) {
    record_counted(&mut fixture, EXHAUSTED, &plain()).await;
    roll_up(&fixture, after(2)).await;
    assert!(fixture.store().remove_app(fixture.app, None).await.unwrap());
    while fixture.store().purge_deleted_apps().await.unwrap() {}
    let totals = last_hour(&fixture, Some(fixture.app), StatisticsSubject::Everything).await;
    assert_eq!(
        (total(&totals), totals.event_types.len(), totals.endpoints.len()),
        (Counters::default(), 0, 0)
    );
    assert_eq!(total(&last_hour(&fixture, None, StatisticsSubject::Everything).await).dead, 1);
}

pub(crate) async fn what_is_held_and_what_waits_is_counted_as_it_is_now(mut fixture: Fixture) {
    let (waiting, endpoint) = (fixture.waiting().await, fixture.endpoint);
    let before = last_hour(&fixture, Some(fixture.app), StatisticsSubject::Endpoint(endpoint)).await.backlog;
    assert_eq!((before.waiting, before.held, before.oldest_due), (1, 0, fixture.delivery(waiting).await.due));
    let other = fixture.new_endpoint(fixture.app).await;
    fixture.held_at_creation(other).await;
    let endpoints: Vec<(AppId, EndpointId)> = [endpoint, other].map(|each| (fixture.app, each)).into();
    let span = TimeRange::of(NOW, NOW.plus(Duration::from_mins(1)), after(60));
    let search =
        StatisticsSearch { app: Some(fixture.app), subject: StatisticsSubject::Everything, span, endpoints };
    let backlog = fixture.store().statistics(search).await.unwrap().backlog;
    assert_eq!((backlog.waiting, backlog.held), (1, 1));
}
