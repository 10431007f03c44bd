//! Inspections: one at a time per endpoint, taken in turn, ended once, and deleted with their app.

use crate::fixture::{Fixture, NOW, after};
use posthaste::{
    domain::{
        id::{AppId, EndpointId, InspectionId},
        inspection::{
            CheckName, IDS_PER_INSPECTION, INSPECTIONS_KEPT_PER_ENDPOINT, Inspection, InspectionCheck,
            InspectionFinding, InspectionKind, InspectionReport, InspectionState,
        },
    },
    store::deliveries::InspectionRequested,
};

fn draft(fixture: &mut Fixture, app: AppId, endpoint: EndpointId, kind: InspectionKind) -> Inspection {
    Inspection {
        id: InspectionId::from_i64(fixture.next_id()),
        app,
        endpoint,
        kind,
        state: InspectionState::Waiting,
        created_at: NOW,
        finished_at: None,
        report: None,
    }
}

fn report() -> InspectionReport {
    let check = |name, finding, advice: Option<&str>| InspectionCheck {
        name,
        finding,
        status: Some(401),
        duration_ms: Some(12),
        sent: "\u{2028} é “x”".into(),
        came_back: String::new(),
        why: "why".into(),
        advice: advice.map(str::to_owned),
    };
    InspectionReport {
        contract: "standard".into(),
        checks: vec![
            check(CheckName::TamperedBody, InspectionFinding::Passed, None),
            check(CheckName::HealthAddress, InspectionFinding::DoesNotApply, Some("do")),
        ],
    }
}

/// Requests an inspection of the fixture's endpoint.
async fn ordered(fixture: &mut Fixture) -> Inspection {
    let (app, endpoint) = (fixture.app, fixture.endpoint);
    let new = draft(fixture, app, endpoint, InspectionKind::Inspect);
    assert_eq!(fixture.store().request_inspection(new.clone()).await.unwrap(), InspectionRequested::Waiting);
    new
}

async fn take(fixture: &Fixture) -> Option<InspectionId> {
    fixture.store().start_next_inspection(100).await.unwrap().map(|taken| taken.id)
}

async fn end(fixture: &Fixture, id: InspectionId) -> bool {
    fixture.store().finish_inspection(id, Some(report()), after(5)).await.unwrap()
}

async fn state(fixture: &Fixture, id: InspectionId) -> Option<InspectionState> {
    fixture.store().inspection(fixture.app, id).await.unwrap().map(|inspection| inspection.state)
}

pub(crate) async fn an_inspection_reads_back_through_its_whole_life(mut fixture: Fixture) {
    for kind in InspectionKind::ALL {
        let (app, endpoint) = (fixture.app, fixture.endpoint);
        let new = draft(&mut fixture, app, endpoint, kind);
        fixture.store().request_inspection(new.clone()).await.unwrap();
        assert_eq!(fixture.store().inspection(app, new.id).await.unwrap(), Some(new.clone()));
        let running = Inspection { state: InspectionState::Running, ..new.clone() };
        assert_eq!(fixture.store().start_next_inspection(1).await.unwrap(), Some(running));
        assert!(end(&fixture, new.id).await);
        let finished = Inspection {
            state: InspectionState::Finished,
            finished_at: Some(after(5)),
            report: Some(report()),
            ..new.clone()
        };
        fixture.reopen();
        fixture.store().join(after(6)).await.unwrap();
        assert_eq!(fixture.store().inspection(app, new.id).await.unwrap(), Some(finished));
    }
}

pub(crate) async fn an_endpoint_has_one_open_inspection_and_the_engine_is_notified(mut fixture: Fixture) {
    let first = ordered(&mut fixture).await;
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_inspections_wait(), 1);
    let (app, endpoint) = (fixture.app, fixture.endpoint);
    for _ in 0..2 {
        let second = draft(&mut fixture, app, endpoint, InspectionKind::Ping);
        let refused = fixture.store().request_inspection(second.clone()).await.unwrap();
        assert_eq!(refused, InspectionRequested::Busy(first.id), "also while it runs");
        assert_eq!(state(&fixture, second.id).await, None);
        take(&fixture).await;
    }
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_inspections_wait(), 0);
    end(&fixture, first.id).await;
    ordered(&mut fixture).await;
}

pub(crate) async fn inspections_are_taken_once_oldest_first_and_apps_keep_to_their_share(
    mut fixture: Fixture,
) {
    let own = fixture.app;
    let other = fixture.new_app().await;
    let mut ids = Vec::new();
    for app in [own, own, own, other] {
        let endpoint = fixture.new_endpoint(app).await;
        let new = draft(&mut fixture, app, endpoint, InspectionKind::Inspect);
        fixture.store().request_inspection(new.clone()).await.unwrap();
        ids.push(new.id);
    }
    let mut taken = Vec::new();
    while let Some(next) = fixture.store().start_next_inspection(2).await.unwrap() {
        taken.push(next.id);
    }
    assert_eq!(taken, [ids[0], ids[1], ids[3]]);
    end(&fixture, ids[0]).await;
    assert_eq!(fixture.store().start_next_inspection(2).await.unwrap().map(|taken| taken.id), Some(ids[2]));
}

pub(crate) async fn an_inspection_ends_once_and_only_from_running(mut fixture: Fixture) {
    let id = ordered(&mut fixture).await.id;
    assert!(!end(&fixture, id).await, "it waits");
    take(&fixture).await;
    assert!(fixture.store().finish_inspection(id, None, after(4)).await.unwrap());
    assert_eq!(state(&fixture, id).await, Some(InspectionState::Interrupted));
    assert!(!end(&fixture, id).await, "it ended");
    assert!(!end(&fixture, InspectionId::from_i64(1)).await, "there is none");
    assert_eq!(state(&fixture, id).await, Some(InspectionState::Interrupted));
}

pub(crate) async fn inspections_of_a_dead_node_are_interrupted_and_waiting_ones_announced(
    mut fixture: Fixture,
) {
    let running = ordered(&mut fixture).await.id;
    take(&fixture).await;
    let (app, endpoint) = (fixture.app, fixture.new_endpoint(fixture.app).await);
    let waiting = draft(&mut fixture, app, endpoint, InspectionKind::Inspect);
    fixture.store().request_inspection(waiting.clone()).await.unwrap();
    fixture.wait_until_idle().await;
    fixture.recorder.take_inspections_wait();
    fixture.reopen();
    fixture.store().join(after(7)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_inspections_wait(), 1);
    let interrupted = fixture.store().inspection(app, running).await.unwrap().unwrap();
    assert_eq!(
        (interrupted.state, interrupted.finished_at, interrupted.report),
        (InspectionState::Interrupted, Some(after(7)), None)
    );
    assert_eq!(take(&fixture).await, Some(waiting.id));
    end(&fixture, waiting.id).await;
    fixture.reopen();
    fixture.store().join(after(8)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_inspections_wait(), 0, "nothing waits");
}

pub(crate) async fn the_last_ten_ended_inspections_are_kept_newest_first(mut fixture: Fixture) {
    let other = fixture.new_endpoint(fixture.app).await;
    let app = fixture.app;
    let foreign = draft(&mut fixture, app, other, InspectionKind::Ping);
    fixture.store().request_inspection(foreign.clone()).await.unwrap();
    take(&fixture).await;
    end(&fixture, foreign.id).await;
    let mut ids = Vec::new();
    for _ in 0..INSPECTIONS_KEPT_PER_ENDPOINT + 3 {
        let id = ordered(&mut fixture).await.id;
        take(&fixture).await;
        end(&fixture, id).await;
        ids.push(id);
    }
    ids.push(ordered(&mut fixture).await.id);
    let mut listed = Vec::new();
    let mut cursor = None;
    loop {
        let page = fixture.store().inspections(fixture.endpoint, cursor, 4).await.unwrap();
        listed.extend(page.rows.iter().map(|inspection| inspection.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = ids[3..].iter().rev().copied().collect();
    assert_eq!(listed, expected);
    assert_eq!(
        state(&fixture, foreign.id).await,
        Some(InspectionState::Finished),
        "another endpoint's is left alone"
    );
}

pub(crate) async fn deleting_an_endpoint_cancels_its_inspection_and_keeps_the_history(mut fixture: Fixture) {
    let finished = ordered(&mut fixture).await.id;
    take(&fixture).await;
    end(&fixture, finished).await;
    let running = ordered(&mut fixture).await.id;
    take(&fixture).await;
    assert!(fixture.store().remove_endpoint(fixture.endpoint, after(3), None).await.unwrap());
    assert_eq!(state(&fixture, running).await, Some(InspectionState::Cancelled));
    assert_eq!(state(&fixture, finished).await, Some(InspectionState::Finished));
    assert!(!end(&fixture, running).await, "a report that comes late changes nothing");
    let (app, endpoint) = (fixture.app, fixture.endpoint);
    let late = draft(&mut fixture, app, endpoint, InspectionKind::Inspect);
    assert_eq!(fixture.store().request_inspection(late).await.unwrap(), InspectionRequested::NoEndpoint);
}

pub(crate) async fn inspections_are_visible_to_their_app_and_deleted_with_it(mut fixture: Fixture) {
    let other = fixture.new_app().await;
    let id = ordered(&mut fixture).await.id;
    assert_eq!(fixture.store().inspection(other, id).await.unwrap(), None);
    let stolen = draft(&mut fixture, other, EndpointId::from_i64(1), InspectionKind::Inspect);
    let stolen = Inspection { endpoint: fixture.new_endpoint(fixture.app).await, ..stolen };
    assert_eq!(fixture.store().request_inspection(stolen).await.unwrap(), InspectionRequested::NoEndpoint);
    take(&fixture).await;
    fixture.store().remove_app(fixture.app, None).await.unwrap();
    assert_eq!(state(&fixture, id).await, None);
    assert!(!end(&fixture, id).await);
}

pub(crate) async fn ids_that_probes_may_carry_are_not_given_out_again(mut fixture: Fixture) {
    let id = ordered(&mut fixture).await.id;
    let newest = id.as_i64() + i64::from(IDS_PER_INSPECTION) - 1;
    assert_eq!(fixture.store().join(NOW).await.unwrap().newest_id, newest);
    fixture.store().remove_app(fixture.app, None).await.unwrap();
    assert_eq!(fixture.store().join(NOW).await.unwrap().newest_id, newest, "also when it is gone");
}
