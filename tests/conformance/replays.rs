//! Replays: their sources are found in bounded steps, a page is done once or not at all, and sources that changed meanwhile are
//! skipped.

use crate::fixture::{Fixture, NOW, after};
use posthaste::{
    domain::{
        contract::{NoticeChannel, Retention, RetentionPeriod, WaitingWhenDisabled},
        delivery::DeliveryState,
        id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
        replay::{Backfill, Replay, ReplayFilter, ReplaySelection, ReplayState},
        retention::RetentionPolicy,
        subscription::Patterns,
    },
    store::{
        deliveries::DeliveryAction,
        replays::{ReplayChanged, ReplayPage, ReplaySource, ReplaySourceId, SourceSearch, Sources},
    },
};
use std::{sync::Arc, time::Duration};

pub(crate) fn deliveries(
    endpoint: Option<EndpointId>,
    event_type: Option<&str>,
    states: &[DeliveryState],
) -> ReplaySelection {
    ReplaySelection::Deliveries(ReplayFilter {
        endpoint: endpoint.map(EndpointId::as_i64),
        event_type: event_type.map(str::to_owned),
        states: states.iter().map(|state| state.name().to_owned()).collect(),
        missed_since: None,
    })
}

fn backfill(endpoint: EndpointId) -> ReplaySelection {
    ReplaySelection::Backfill(Backfill { endpoint: endpoint.as_i64(), event_type: None })
}

/// Makes a replay of everything stored now.
pub(crate) fn running(fixture: &mut Fixture, selection: ReplaySelection) -> Replay {
    let id = fixture.next_id();
    Replay {
        id: ReplayId::from_i64(id),
        app: fixture.app,
        selection,
        per_second: 10,
        state: ReplayState::Running,
        from_id: 0,
        to_id: id,
        reached: -1,
        total: 3,
        replayed: 0,
        refused: 0,
        last_refusal: None,
        created_at: NOW,
        changed_at: NOW,
        running_time: Duration::ZERO,
    }
}

pub(crate) async fn begin(fixture: &mut Fixture, selection: ReplaySelection) -> Replay {
    let replay = running(fixture, selection);
    fixture.store().start_replay(replay.clone(), None).await.unwrap();
    replay
}

async fn search(fixture: &Fixture, replay: &Replay, most: usize) -> Sources {
    let patterns = Patterns::parse(&["payment.*".to_owned()]).unwrap();
    let search = SourceSearch {
        app: replay.app,
        selection: replay.selection.clone(),
        endpoints: [fixture.endpoint].into(),
        patterns: matches!(replay.selection, ReplaySelection::Backfill(_)).then_some(patterns),
        after_id: replay.reached,
        to_id: replay.to_id,
    };
    fixture.store().replay_sources(search, most).await.unwrap()
}

fn page(fixture: &mut Fixture, replay: &Replay, sources: &Sources) -> ReplayPage {
    let what = |id| match replay.selection {
        ReplaySelection::Deliveries(_) => ReplaySourceId::Delivery(DeliveryId::from_i64(id)),
        ReplaySelection::Backfill(_) => ReplaySourceId::Event(EventId::from_i64(id)),
    };
    let mut source = |id| ReplaySource {
        id: what(id),
        new_id: DeliveryId::from_i64(fixture.next_id()),
        give_up_at: Some(after(3600)),
    };
    ReplayPage {
        replay: replay.id,
        after_id: replay.reached,
        sources: sources.found.iter().map(|(id, _)| source(*id)).collect(),
        reached: sources.reached,
        is_last: sources.is_last,
        notify_channel: NoticeChannel::List,
    }
}

/// Runs a replay in one page; returns it as it is afterwards.
pub(crate) async fn finish(fixture: &mut Fixture, replay: &Replay) -> Replay {
    proceed_by(fixture, replay, usize::MAX).await
}

/// Runs a page of up to `most` deliveries.
pub(crate) async fn proceed_by(fixture: &mut Fixture, replay: &Replay, most: usize) -> Replay {
    let sources = search(fixture, replay, most).await;
    let page = page(fixture, replay, &sources);
    let done = fixture.store().advance_replay(page, after(10)).await.unwrap();
    fixture.wait_until_idle().await;
    done.expect("a running replay")
}

fn ids(sources: &Sources) -> Vec<DeliveryId> {
    sources.found.iter().map(|(id, _)| DeliveryId::from_i64(*id)).collect()
}

pub(crate) async fn sources_are_found_by_state_endpoint_type_and_app(mut fixture: Fixture) {
    let (dead, expired) =
        (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Expired).await);
    let closed = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(closed, DeliveryAction::Close).await;
    fixture.one_in(DeliveryState::Retrying).await;
    let here = Some(fixture.endpoint);
    let elsewhere = Some(fixture.new_endpoint(fixture.app).await);
    let both = [DeliveryState::Dead, DeliveryState::Expired];
    for (selection, expected) in [
        (deliveries(None, None, &[DeliveryState::Dead]), vec![dead]),
        (deliveries(here, Some("payment.paid"), &both), vec![dead, expired]),
        (deliveries(elsewhere, None, &both), vec![]),
        (deliveries(None, Some("payment.other"), &both), vec![]),
        (deliveries(None, None, &[DeliveryState::Delivered]), vec![]),
    ] {
        let replay = begin(&mut fixture, selection.clone()).await;
        let sources = search(&fixture, &replay, 10).await;
        assert_eq!((ids(&sources), sources.is_last), (expected, true), "{selection:?}");
    }
    let mut foreign = begin(&mut fixture, deliveries(None, None, &both)).await;
    foreign.app = fixture.new_app().await;
    assert_eq!(ids(&search(&fixture, &foreign, 10).await), []);
}

pub(crate) async fn a_test_is_never_a_source(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    let event = std::sync::Arc::get_mut(&mut new.event).unwrap();
    event.event_type = "webhook.test".into();
    let id = fixture.publish(new).await;
    fixture.request(id, DeliveryAction::Cancel).await;
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Cancelled])).await;
    assert_eq!(ids(&search(&fixture, &replay, 10).await), []);
    let other = fixture.new_endpoint(fixture.app).await;
    let replay = begin(&mut fixture, backfill(other)).await;
    assert_eq!(ids(&search(&fixture, &replay, 10).await), []);
}

pub(crate) async fn pages_neither_repeat_nor_miss_a_source(mut fixture: Fixture) {
    let mut all = Vec::new();
    // A delivered source stays delivered: only the replay's progress keeps it from being found again.
    for state in [
        DeliveryState::Dead,
        DeliveryState::Delivered,
        DeliveryState::Delivered,
        DeliveryState::Delivered,
        DeliveryState::Dead,
    ] {
        all.push(fixture.one_in(state).await);
    }
    let mut replay =
        begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let mut taken = Vec::new();
    while replay.state == ReplayState::Running {
        let sources = search(&fixture, &replay, 2).await;
        assert!(sources.found.len() <= 2);
        taken.extend(ids(&sources));
        assert!(taken.len() <= all.len(), "{taken:?}");
        let page = page(&mut fixture, &replay, &sources);
        replay = fixture.store().advance_replay(page, after(10)).await.unwrap().expect("a running replay");
    }
    assert_eq!(taken, all);
    assert_eq!((replay.replayed, replay.refused, replay.state), (5, 0, ReplayState::Finished));
}

pub(crate) async fn a_page_is_done_once_although_requested_often(mut fixture: Fixture) {
    let delivered = fixture.one_in(DeliveryState::Delivered).await;
    fixture.one_in(DeliveryState::Delivered).await;
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Delivered])).await;
    let sources = search(&fixture, &replay, 1).await;
    assert!(!sources.is_last, "it runs on, and is further by then");
    let once = page(&mut fixture, &replay, &sources);
    let twice = page(&mut fixture, &replay, &sources);
    assert!(fixture.store().advance_replay(once, after(10)).await.unwrap().is_some());
    assert_eq!(fixture.store().advance_replay(twice, after(10)).await.unwrap(), None);
    let event = fixture.delivery(delivered).await.event;
    assert_eq!(
        fixture.store().deliveries_of(event).await.unwrap().len(),
        2,
        "the first and one replay of it"
    );
}

pub(crate) async fn ended_deliveries_restart_and_delivered_ones_become_new_deliveries(mut fixture: Fixture) {
    let (dead, delivered) =
        (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Delivered).await);
    let replay =
        begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let done = finish(&mut fixture, &replay).await;
    assert_eq!((done.replayed, done.state), (2, ReplayState::Finished));
    let again = fixture.delivery(dead).await;
    assert_eq!((again.state, again.retry_index, again.attempt_count), (DeliveryState::Pending, 0, 1));
    assert_eq!(again.give_up_at, Some(after(3600)));
    assert_eq!(fixture.delivery(delivered).await.state, DeliveryState::Delivered);
    let all = fixture.store().deliveries_of(fixture.delivery(delivered).await.event).await.unwrap();
    assert_eq!(all[1].delivery.replay_of, Some(delivered));
    assert_eq!(fixture.recorder.take_waiting().len(), 2, "the queue is notified of both");
}

pub(crate) async fn a_source_that_changed_meanwhile_is_left_alone_and_counted(mut fixture: Fixture) {
    let (gone, changed) =
        (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Dead).await);
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    let sources = search(&fixture, &replay, 10).await;
    let page = page(&mut fixture, &replay, &sources);
    fixture.request(gone, DeliveryAction::Delete).await;
    fixture.request(changed, DeliveryAction::Retry).await;
    let leased = fixture.lease(changed, NOW).await;
    fixture.record(leased, posthaste::domain::verdict::Verdict::Delivered, vec![]).await;
    let done = fixture.store().advance_replay(page, after(10)).await.unwrap().unwrap();
    assert_eq!((done.replayed, done.refused), (0, 2));
    assert_eq!(done.last_refusal, Some(format!("{changed} is delivered by now")));
    assert_eq!(fixture.delivery(changed).await.state, DeliveryState::Delivered);
}

pub(crate) async fn replays_to_a_disabled_endpoint_are_held_and_to_a_deleted_one_refused(
    mut fixture: Fixture,
) {
    let dead = fixture.one_in(DeliveryState::Dead).await;
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    assert_eq!(finish(&mut fixture, &replay).await.replayed, 1);
    assert_eq!(fixture.delivery(dead).await.state, DeliveryState::Held);

    fixture.set_availability(fixture.endpoint, None).await;
    let lost = fixture.one_in(DeliveryState::Dead).await;
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    let done = finish(&mut fixture, &replay).await;
    assert_eq!((done.replayed, done.refused), (0, 1));
    assert_eq!(fixture.delivery(lost).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_backfill_brings_each_past_event_once(mut fixture: Fixture) {
    let had = fixture.one_in(DeliveryState::Delivered).await;
    let nobody = fixture.draft(&[]);
    let skipped = nobody.event.id;
    fixture.accept(nobody).await;
    let late = fixture.new_endpoint(fixture.app).await;
    let replay = begin(&mut fixture, backfill(late)).await;
    assert_eq!(search(&fixture, &replay, 10).await.found.len(), 2);
    let done = finish(&mut fixture, &replay).await;
    assert_eq!((done.replayed, done.state), (2, ReplayState::Finished));
    for event in [fixture.delivery(had).await.event, skipped] {
        let all = fixture.store().deliveries_of(event).await.unwrap();
        let new: Vec<_> = all.iter().filter(|one| one.delivery.endpoint == late).collect();
        assert_eq!(new.len(), 1, "{event}");
        assert_eq!((new[0].delivery.state, new[0].delivery.replay_of), (DeliveryState::Pending, None));
        assert!(!new[0].event.has_no_subscribers);
    }
    let again = begin(&mut fixture, backfill(late)).await;
    assert_eq!(search(&fixture, &again, 10).await.found, []);
}

pub(crate) async fn a_backfill_takes_only_what_the_endpoint_subscribes_to(mut fixture: Fixture) {
    let mut other_type = fixture.draft(&[]);
    std::sync::Arc::get_mut(&mut other_type.event).unwrap().event_type = "invoice.sent".into();
    fixture.accept(other_type).await;
    let late = fixture.new_endpoint(fixture.app).await;
    let replay = begin(&mut fixture, backfill(late)).await;
    let sources = search(&fixture, &replay, 10).await;
    assert_eq!((sources.found, sources.is_last), (vec![], true));
}

pub(crate) async fn events_published_for_later_are_not_backfilled_earlier(mut fixture: Fixture) {
    let mut scheduled = fixture.draft(&[]);
    let event = std::sync::Arc::get_mut(&mut scheduled.event).unwrap();
    event.deliver_at = Some(after(7200));
    let id = event.id;
    fixture.accept(scheduled).await;
    let late = fixture.new_endpoint(fixture.app).await;
    let replay = begin(&mut fixture, backfill(late)).await;
    assert_eq!(finish(&mut fixture, &replay).await.replayed, 1);
    let delivery = fixture.store().deliveries_of(id).await.unwrap().remove(0).delivery;
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Pending, Some(after(7200))));
    assert_eq!(delivery.give_up_at, Some(after(3600 + 7200 - 10)), "its age counts from when it is due");
}

pub(crate) async fn an_erased_event_is_no_source_and_refused_if_erased_meanwhile(mut fixture: Fixture) {
    let (first, second) =
        (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Delivered).await);
    let replay =
        begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let sources = search(&fixture, &replay, 10).await;
    let page = page(&mut fixture, &replay, &sources);
    for delivery in [first, second] {
        let event = fixture.delivery(delivery).await.event;
        assert!(fixture.store().erase_data(fixture.app, event, None).await.unwrap());
        assert!(
            !fixture.store().erase_data(fixture.app, event, None).await.unwrap(),
            "there is nothing left"
        );
    }
    assert_eq!(ids(&search(&fixture, &replay, 10).await), []);
    let done = fixture.store().advance_replay(page, after(10)).await.unwrap().unwrap();
    assert_eq!((done.replayed, done.refused), (0, 2));
    assert!(done.last_refusal.unwrap().contains("erased"));
    assert_eq!(fixture.delivery(first).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_delivered_replay_is_no_source_of_its_own(mut fixture: Fixture) {
    let delivered = fixture.one_in(DeliveryState::Delivered).await;
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Delivered])).await;
    finish(&mut fixture, &replay).await;
    let event = fixture.delivery(delivered).await.event;
    let copy = fixture.store().deliveries_of(event).await.unwrap()[1].delivery.id;
    let leased = fixture.lease(copy, after(20)).await;
    fixture.record(leased, posthaste::domain::verdict::Verdict::Delivered, vec![]).await;
    let again = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Delivered])).await;
    assert_eq!(ids(&search(&fixture, &again, 10).await), [delivered]);
}

pub(crate) async fn a_replay_ran_only_while_it_was_not_paused(mut fixture: Fixture) {
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    let change = async |to, at| match fixture
        .store()
        .change_replay(fixture.app, replay.id, to, after(at), None)
        .await
        .unwrap()
    {
        ReplayChanged::Done(replay) => (true, replay.running_time.as_secs()),
        ReplayChanged::Unchanged(replay) => (false, replay.running_time.as_secs()),
        other => panic!("{other:?}"),
    };
    assert_eq!(change(ReplayState::Paused, 2).await, (true, 2));
    assert_eq!(change(ReplayState::Paused, 1000).await, (false, 2));
    assert_eq!(change(ReplayState::Running, 2000).await, (true, 2));
    assert_eq!(change(ReplayState::Paused, 2003).await, (true, 5));
}

pub(crate) async fn a_paused_or_cancelled_replay_does_not_proceed(mut fixture: Fixture) {
    let dead = fixture.one_in(DeliveryState::Dead).await;
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    let sources = search(&fixture, &replay, 10).await;
    let change =
        async |to| fixture.store().change_replay(fixture.app, replay.id, to, after(1), None).await.unwrap();
    for to in [ReplayState::Paused, ReplayState::Cancelled] {
        let ReplayChanged::Done(changed) = change(to).await else { panic!("{to:?}") };
        assert_eq!((changed.state, changed.changed_at), (to, after(1)));
        assert_eq!(fixture.store().running_replays().await.unwrap(), []);
        let page = ReplayPage {
            replay: replay.id,
            after_id: replay.reached,
            sources: vec![],
            reached: sources.reached,
            is_last: true,
            notify_channel: NoticeChannel::List,
        };
        assert_eq!(fixture.store().advance_replay(page, after(2)).await.unwrap(), None);
    }
    assert!(matches!(change(ReplayState::Running).await, ReplayChanged::Ended(_)));
    assert_eq!(fixture.delivery(dead).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_resumed_replay_is_found_again_after_a_restart(mut fixture: Fixture) {
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    for to in [ReplayState::Paused, ReplayState::Running] {
        fixture.store().change_replay(fixture.app, replay.id, to, after(1), None).await.unwrap();
    }
    fixture.reopen();
    let joined = fixture.store().join(NOW).await.unwrap();
    assert_eq!(joined.newest_id, replay.id.as_i64());
    let running = fixture.store().running_replays().await.unwrap();
    assert_eq!(running, [Replay { changed_at: after(1), running_time: Duration::from_secs(1), ..replay }]);
}

pub(crate) async fn other_apps_cannot_see_or_stop_a_replay_and_it_is_deleted_with_its_app(
    mut fixture: Fixture,
) {
    let replay = begin(&mut fixture, deliveries(None, None, &[DeliveryState::Dead])).await;
    let other = fixture.new_app().await;
    let store = fixture.shared_store();
    assert_eq!(store.replay(other, replay.id).await.unwrap(), None);
    assert!(store.replays(other, None, 10).await.unwrap().rows.is_empty());
    let stopped = store.change_replay(other, replay.id, ReplayState::Cancelled, NOW, None).await.unwrap();
    assert_eq!(stopped, ReplayChanged::Absent);
    assert_eq!(store.replays(fixture.app, None, 10).await.unwrap().rows, std::slice::from_ref(&replay));
    store.remove_app(fixture.app, None).await.unwrap();
    assert_eq!(store.replay(fixture.app, replay.id).await.unwrap(), None);
    assert_eq!(store.running_replays().await.unwrap(), []);
}

pub(crate) async fn an_event_deleted_meanwhile_is_counted_and_not_backfilled(mut fixture: Fixture) {
    let (gone, erased) = (fixture.draft(&[]), fixture.draft(&[]));
    let events = [gone.event.id, erased.event.id];
    fixture.store().accept(vec![gone, erased]).await.unwrap();
    let replay = {
        let endpoint = fixture.endpoint;
        begin(&mut fixture, backfill(endpoint)).await
    };
    let sources = search(&fixture, &replay, 10).await;
    assert_eq!(sources.found.len(), 2);
    let page = page(&mut fixture, &replay, &sources);
    fixture.store().erase_data(fixture.app, events[1], None).await.unwrap();
    let range = vec![(events[0].as_i64(), events[0].as_i64())];
    let done = fixture.store().expire(range, Arc::new(KeepNothing), after(1)).await.unwrap();
    assert_eq!(done.events, 1);
    let replay = fixture.store().advance_replay(page, after(10)).await.unwrap().expect("a running replay");
    assert_eq!((replay.replayed, replay.refused), (0, 2));
    assert_eq!(fixture.store().find_queues().await.unwrap(), [], "nothing waits that has no event");
}

/// A retention policy that keeps nothing.
struct KeepNothing;

impl RetentionPolicy for KeepNothing {
    fn for_app(&self, _: AppId) -> Option<Retention> {
        let no_time = RetentionPeriod::For(Duration::ZERO);
        Some(Retention { events: no_time, attempts: no_time, payloads: no_time, dead_letters: no_time })
    }

    fn for_endpoint(&self, _: EndpointId) -> Option<Retention> {
        None
    }
}
