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
pub(crate) fn running(stage: &mut Fixture, selection: ReplaySelection) -> Replay {
    let id = stage.next_id();
    Replay {
        id: ReplayId::from_i64(id),
        app: stage.app,
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

pub(crate) async fn begin(stage: &mut Fixture, selection: ReplaySelection) -> Replay {
    let replay = running(stage, selection);
    stage.store().start_replay(replay.clone(), None).await.unwrap();
    replay
}

async fn search(stage: &Fixture, replay: &Replay, most: usize) -> Sources {
    let patterns = Patterns::parse(&["payment.*".to_owned()]).unwrap();
    let search = SourceSearch {
        app: replay.app,
        selection: replay.selection.clone(),
        endpoints: [stage.endpoint].into(),
        patterns: matches!(replay.selection, ReplaySelection::Backfill(_)).then_some(patterns),
        after_id: replay.reached,
        to_id: replay.to_id,
    };
    stage.store().replay_sources(search, most).await.unwrap()
}

fn page(stage: &mut Fixture, replay: &Replay, sources: &Sources) -> ReplayPage {
    let what = |id| match replay.selection {
        ReplaySelection::Deliveries(_) => ReplaySourceId::Delivery(DeliveryId::from_i64(id)),
        ReplaySelection::Backfill(_) => ReplaySourceId::Event(EventId::from_i64(id)),
    };
    let mut source = |id| ReplaySource {
        id: what(id),
        new_id: DeliveryId::from_i64(stage.next_id()),
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
pub(crate) async fn finish(stage: &mut Fixture, replay: &Replay) -> Replay {
    proceed_by(stage, replay, usize::MAX).await
}

/// Runs a page of up to `most` deliveries.
pub(crate) async fn proceed_by(stage: &mut Fixture, replay: &Replay, most: usize) -> Replay {
    let sources = search(stage, replay, most).await;
    let page = page(stage, replay, &sources);
    let done = stage.store().advance_replay(page, after(10)).await.unwrap();
    stage.wait_until_idle().await;
    done.expect("a running replay")
}

fn ids(sources: &Sources) -> Vec<DeliveryId> {
    sources.found.iter().map(|(id, _)| DeliveryId::from_i64(*id)).collect()
}

pub(crate) async fn sources_are_found_by_state_endpoint_type_and_app(mut stage: Fixture) {
    let (dead, expired) =
        (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Expired).await);
    let closed = stage.one_in(DeliveryState::Dead).await;
    stage.request(closed, DeliveryAction::Close).await;
    stage.one_in(DeliveryState::Retrying).await;
    let here = Some(stage.endpoint);
    let elsewhere = Some(stage.new_endpoint(stage.app).await);
    let both = [DeliveryState::Dead, DeliveryState::Expired];
    for (selection, expected) in [
        (deliveries(None, None, &[DeliveryState::Dead]), vec![dead]),
        (deliveries(here, Some("payment.paid"), &both), vec![dead, expired]),
        (deliveries(elsewhere, None, &both), vec![]),
        (deliveries(None, Some("payment.other"), &both), vec![]),
        (deliveries(None, None, &[DeliveryState::Delivered]), vec![]),
    ] {
        let replay = begin(&mut stage, selection.clone()).await;
        let sources = search(&stage, &replay, 10).await;
        assert_eq!((ids(&sources), sources.is_last), (expected, true), "{selection:?}");
    }
    let mut foreign = begin(&mut stage, deliveries(None, None, &both)).await;
    foreign.app = stage.new_app().await;
    assert_eq!(ids(&search(&stage, &foreign, 10).await), []);
}

pub(crate) async fn a_test_is_never_a_source(mut stage: Fixture) {
    let mut new = stage.one_event();
    let event = std::sync::Arc::get_mut(&mut new.event).unwrap();
    event.event_type = "webhook.test".into();
    let id = stage.publish(new).await;
    stage.request(id, DeliveryAction::Cancel).await;
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Cancelled])).await;
    assert_eq!(ids(&search(&stage, &replay, 10).await), []);
    let other = stage.new_endpoint(stage.app).await;
    let replay = begin(&mut stage, backfill(other)).await;
    assert_eq!(ids(&search(&stage, &replay, 10).await), []);
}

pub(crate) async fn pages_neither_repeat_nor_miss_a_source(mut stage: Fixture) {
    let mut all = Vec::new();
    // A delivered source stays delivered: only the replay's progress keeps it from being found again.
    for state in [
        DeliveryState::Dead,
        DeliveryState::Delivered,
        DeliveryState::Delivered,
        DeliveryState::Delivered,
        DeliveryState::Dead,
    ] {
        all.push(stage.one_in(state).await);
    }
    let mut replay =
        begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let mut taken = Vec::new();
    while replay.state == ReplayState::Running {
        let sources = search(&stage, &replay, 2).await;
        assert!(sources.found.len() <= 2);
        taken.extend(ids(&sources));
        assert!(taken.len() <= all.len(), "{taken:?}");
        let page = page(&mut stage, &replay, &sources);
        replay = stage.store().advance_replay(page, after(10)).await.unwrap().expect("a running replay");
    }
    assert_eq!(taken, all);
    assert_eq!((replay.replayed, replay.refused, replay.state), (5, 0, ReplayState::Finished));
}

pub(crate) async fn a_page_is_done_once_although_requested_often(mut stage: Fixture) {
    let delivered = stage.one_in(DeliveryState::Delivered).await;
    stage.one_in(DeliveryState::Delivered).await;
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Delivered])).await;
    let sources = search(&stage, &replay, 1).await;
    assert!(!sources.is_last, "it runs on, and is further by then");
    let once = page(&mut stage, &replay, &sources);
    let twice = page(&mut stage, &replay, &sources);
    assert!(stage.store().advance_replay(once, after(10)).await.unwrap().is_some());
    assert_eq!(stage.store().advance_replay(twice, after(10)).await.unwrap(), None);
    let event = stage.delivery(delivered).await.event;
    assert_eq!(stage.store().deliveries_of(event).await.unwrap().len(), 2, "the first and one replay of it");
}

pub(crate) async fn ended_deliveries_restart_and_delivered_ones_become_new_deliveries(mut stage: Fixture) {
    let (dead, delivered) =
        (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Delivered).await);
    let replay =
        begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let done = finish(&mut stage, &replay).await;
    assert_eq!((done.replayed, done.state), (2, ReplayState::Finished));
    let again = stage.delivery(dead).await;
    assert_eq!((again.state, again.retry_index, again.attempt_count), (DeliveryState::Pending, 0, 1));
    assert_eq!(again.give_up_at, Some(after(3600)));
    assert_eq!(stage.delivery(delivered).await.state, DeliveryState::Delivered);
    let all = stage.store().deliveries_of(stage.delivery(delivered).await.event).await.unwrap();
    assert_eq!(all[1].delivery.replay_of, Some(delivered));
    assert_eq!(stage.recorder.take_waiting().len(), 2, "the queue is notified of both");
}

pub(crate) async fn a_source_that_changed_meanwhile_is_left_alone_and_counted(mut stage: Fixture) {
    let (gone, changed) = (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Dead).await);
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    let sources = search(&stage, &replay, 10).await;
    let page = page(&mut stage, &replay, &sources);
    stage.request(gone, DeliveryAction::Delete).await;
    stage.request(changed, DeliveryAction::Retry).await;
    let leased = stage.lease(changed, NOW).await;
    stage.record(leased, posthaste::domain::verdict::Verdict::Delivered, vec![]).await;
    let done = stage.store().advance_replay(page, after(10)).await.unwrap().unwrap();
    assert_eq!((done.replayed, done.refused), (0, 2));
    assert_eq!(done.last_refusal, Some(format!("{changed} is delivered by now")));
    assert_eq!(stage.delivery(changed).await.state, DeliveryState::Delivered);
}

pub(crate) async fn replays_to_a_disabled_endpoint_are_held_and_to_a_deleted_one_refused(mut stage: Fixture) {
    let dead = stage.one_in(DeliveryState::Dead).await;
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    assert_eq!(finish(&mut stage, &replay).await.replayed, 1);
    assert_eq!(stage.delivery(dead).await.state, DeliveryState::Held);

    stage.set_availability(stage.endpoint, None).await;
    let lost = stage.one_in(DeliveryState::Dead).await;
    stage.store().remove_endpoint(stage.endpoint, NOW, None).await.unwrap();
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    let done = finish(&mut stage, &replay).await;
    assert_eq!((done.replayed, done.refused), (0, 1));
    assert_eq!(stage.delivery(lost).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_backfill_brings_each_past_event_once(mut stage: Fixture) {
    let had = stage.one_in(DeliveryState::Delivered).await;
    let nobody = stage.draft(&[]);
    let skipped = nobody.event.id;
    stage.accept(nobody).await;
    let late = stage.new_endpoint(stage.app).await;
    let replay = begin(&mut stage, backfill(late)).await;
    assert_eq!(search(&stage, &replay, 10).await.found.len(), 2);
    let done = finish(&mut stage, &replay).await;
    assert_eq!((done.replayed, done.state), (2, ReplayState::Finished));
    for event in [stage.delivery(had).await.event, skipped] {
        let all = stage.store().deliveries_of(event).await.unwrap();
        let new: Vec<_> = all.iter().filter(|one| one.delivery.endpoint == late).collect();
        assert_eq!(new.len(), 1, "{event}");
        assert_eq!((new[0].delivery.state, new[0].delivery.replay_of), (DeliveryState::Pending, None));
        assert!(!new[0].event.has_no_subscribers);
    }
    let again = begin(&mut stage, backfill(late)).await;
    assert_eq!(search(&stage, &again, 10).await.found, []);
}

pub(crate) async fn a_backfill_takes_only_what_the_endpoint_subscribes_to(mut stage: Fixture) {
    let mut other_type = stage.draft(&[]);
    std::sync::Arc::get_mut(&mut other_type.event).unwrap().event_type = "invoice.sent".into();
    stage.accept(other_type).await;
    let late = stage.new_endpoint(stage.app).await;
    let replay = begin(&mut stage, backfill(late)).await;
    let sources = search(&stage, &replay, 10).await;
    assert_eq!((sources.found, sources.is_last), (vec![], true));
}

pub(crate) async fn events_published_for_later_are_not_backfilled_earlier(mut stage: Fixture) {
    let mut scheduled = stage.draft(&[]);
    let event = std::sync::Arc::get_mut(&mut scheduled.event).unwrap();
    event.deliver_at = Some(after(7200));
    let id = event.id;
    stage.accept(scheduled).await;
    let late = stage.new_endpoint(stage.app).await;
    let replay = begin(&mut stage, backfill(late)).await;
    assert_eq!(finish(&mut stage, &replay).await.replayed, 1);
    let delivery = stage.store().deliveries_of(id).await.unwrap().remove(0).delivery;
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Pending, Some(after(7200))));
    assert_eq!(delivery.give_up_at, Some(after(3600 + 7200 - 10)), "its age counts from when it is due");
}

pub(crate) async fn an_erased_event_is_no_source_and_refused_if_erased_meanwhile(mut stage: Fixture) {
    let (first, second) =
        (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Delivered).await);
    let replay =
        begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered])).await;
    let sources = search(&stage, &replay, 10).await;
    let page = page(&mut stage, &replay, &sources);
    for delivery in [first, second] {
        let event = stage.delivery(delivery).await.event;
        assert!(stage.store().erase_data(stage.app, event, None).await.unwrap());
        assert!(!stage.store().erase_data(stage.app, event, None).await.unwrap(), "there is nothing left");
    }
    assert_eq!(ids(&search(&stage, &replay, 10).await), []);
    let done = stage.store().advance_replay(page, after(10)).await.unwrap().unwrap();
    assert_eq!((done.replayed, done.refused), (0, 2));
    assert!(done.last_refusal.unwrap().contains("erased"));
    assert_eq!(stage.delivery(first).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_delivered_replay_is_no_source_of_its_own(mut stage: Fixture) {
    let delivered = stage.one_in(DeliveryState::Delivered).await;
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Delivered])).await;
    finish(&mut stage, &replay).await;
    let event = stage.delivery(delivered).await.event;
    let copy = stage.store().deliveries_of(event).await.unwrap()[1].delivery.id;
    let leased = stage.lease(copy, after(20)).await;
    stage.record(leased, posthaste::domain::verdict::Verdict::Delivered, vec![]).await;
    let again = begin(&mut stage, deliveries(None, None, &[DeliveryState::Delivered])).await;
    assert_eq!(ids(&search(&stage, &again, 10).await), [delivered]);
}

pub(crate) async fn a_replay_ran_only_while_it_was_not_paused(mut stage: Fixture) {
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    let change = async |to, at| match stage
        .store()
        .change_replay(stage.app, replay.id, to, after(at), None)
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

pub(crate) async fn a_paused_or_cancelled_replay_does_not_proceed(mut stage: Fixture) {
    let dead = stage.one_in(DeliveryState::Dead).await;
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    let sources = search(&stage, &replay, 10).await;
    let change =
        async |to| stage.store().change_replay(stage.app, replay.id, to, after(1), None).await.unwrap();
    for to in [ReplayState::Paused, ReplayState::Cancelled] {
        let ReplayChanged::Done(changed) = change(to).await else { panic!("{to:?}") };
        assert_eq!((changed.state, changed.changed_at), (to, after(1)));
        assert_eq!(stage.store().running_replays().await.unwrap(), []);
        let page = ReplayPage {
            replay: replay.id,
            after_id: replay.reached,
            sources: vec![],
            reached: sources.reached,
            is_last: true,
            notify_channel: NoticeChannel::List,
        };
        assert_eq!(stage.store().advance_replay(page, after(2)).await.unwrap(), None);
    }
    assert!(matches!(change(ReplayState::Running).await, ReplayChanged::Ended(_)));
    assert_eq!(stage.delivery(dead).await.state, DeliveryState::Dead);
}

pub(crate) async fn a_resumed_replay_is_found_again_after_a_restart(mut stage: Fixture) {
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    for to in [ReplayState::Paused, ReplayState::Running] {
        stage.store().change_replay(stage.app, replay.id, to, after(1), None).await.unwrap();
    }
    stage.reopen();
    let joined = stage.store().join(NOW).await.unwrap();
    assert_eq!(joined.newest_id, replay.id.as_i64());
    let running = stage.store().running_replays().await.unwrap();
    assert_eq!(running, [Replay { changed_at: after(1), running_time: Duration::from_secs(1), ..replay }]);
}

pub(crate) async fn other_apps_cannot_see_or_stop_a_replay_and_it_is_deleted_with_its_app(
    mut stage: Fixture,
) {
    let replay = begin(&mut stage, deliveries(None, None, &[DeliveryState::Dead])).await;
    let other = stage.new_app().await;
    let store = stage.shared_store();
    assert_eq!(store.replay(other, replay.id).await.unwrap(), None);
    assert!(store.replays(other, None, 10).await.unwrap().rows.is_empty());
    let stopped = store.change_replay(other, replay.id, ReplayState::Cancelled, NOW, None).await.unwrap();
    assert_eq!(stopped, ReplayChanged::Absent);
    assert_eq!(store.replays(stage.app, None, 10).await.unwrap().rows, std::slice::from_ref(&replay));
    store.remove_app(stage.app, None).await.unwrap();
    assert_eq!(store.replay(stage.app, replay.id).await.unwrap(), None);
    assert_eq!(store.running_replays().await.unwrap(), []);
}

pub(crate) async fn an_event_deleted_meanwhile_is_counted_and_not_backfilled(mut stage: Fixture) {
    let (gone, erased) = (stage.draft(&[]), stage.draft(&[]));
    let events = [gone.event.id, erased.event.id];
    stage.store().accept(vec![gone, erased]).await.unwrap();
    let replay = {
        let endpoint = stage.endpoint;
        begin(&mut stage, backfill(endpoint)).await
    };
    let sources = search(&stage, &replay, 10).await;
    assert_eq!(sources.found.len(), 2);
    let page = page(&mut stage, &replay, &sources);
    stage.store().erase_data(stage.app, events[1], None).await.unwrap();
    let range = vec![(events[0].as_i64(), events[0].as_i64())];
    let done = stage.store().expire(range, Arc::new(KeepNothing), after(1)).await.unwrap();
    assert_eq!(done.events, 1);
    let replay = stage.store().advance_replay(page, after(10)).await.unwrap().expect("a running replay");
    assert_eq!((replay.replayed, replay.refused), (0, 2));
    assert_eq!(stage.store().find_queues().await.unwrap(), [], "nothing waits that has no event");
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
