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

fn draft(stage: &mut Fixture, app: AppId, endpoint: EndpointId, kind: InspectionKind) -> Inspection {
    Inspection {
        id: InspectionId::from_i64(stage.next_id()),
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

/// Requests an inspection of the stage's endpoint.
async fn ordered(stage: &mut Fixture) -> Inspection {
    let (app, endpoint) = (stage.app, stage.endpoint);
    let new = draft(stage, app, endpoint, InspectionKind::Inspect);
    assert_eq!(stage.store().request_inspection(new.clone()).await.unwrap(), InspectionRequested::Waiting);
    new
}

async fn take(stage: &Fixture) -> Option<InspectionId> {
    stage.store().start_next_inspection(100).await.unwrap().map(|taken| taken.id)
}

async fn end(stage: &Fixture, id: InspectionId) -> bool {
    stage.store().finish_inspection(id, Some(report()), after(5)).await.unwrap()
}

async fn state(stage: &Fixture, id: InspectionId) -> Option<InspectionState> {
    stage.store().inspection(stage.app, id).await.unwrap().map(|inspection| inspection.state)
}

pub(crate) async fn an_inspection_reads_back_through_its_whole_life(mut stage: Fixture) {
    for kind in InspectionKind::ALL {
        let (app, endpoint) = (stage.app, stage.endpoint);
        let new = draft(&mut stage, app, endpoint, kind);
        stage.store().request_inspection(new.clone()).await.unwrap();
        assert_eq!(stage.store().inspection(app, new.id).await.unwrap(), Some(new.clone()));
        let running = Inspection { state: InspectionState::Running, ..new.clone() };
        assert_eq!(stage.store().start_next_inspection(1).await.unwrap(), Some(running));
        assert!(end(&stage, new.id).await);
        let finished = Inspection {
            state: InspectionState::Finished,
            finished_at: Some(after(5)),
            report: Some(report()),
            ..new.clone()
        };
        stage.reopen();
        stage.store().join(after(6)).await.unwrap();
        assert_eq!(stage.store().inspection(app, new.id).await.unwrap(), Some(finished));
    }
}

pub(crate) async fn an_endpoint_has_one_open_inspection_and_the_engine_is_notified(mut stage: Fixture) {
    let first = ordered(&mut stage).await;
    stage.wait_until_idle().await;
    assert_eq!(stage.recorder.take_inspections_wait(), 1);
    let (app, endpoint) = (stage.app, stage.endpoint);
    for _ in 0..2 {
        let second = draft(&mut stage, app, endpoint, InspectionKind::Ping);
        let refused = stage.store().request_inspection(second.clone()).await.unwrap();
        assert_eq!(refused, InspectionRequested::Busy(first.id), "also while it runs");
        assert_eq!(state(&stage, second.id).await, None);
        take(&stage).await;
    }
    stage.wait_until_idle().await;
    assert_eq!(stage.recorder.take_inspections_wait(), 0);
    end(&stage, first.id).await;
    ordered(&mut stage).await;
}

pub(crate) async fn inspections_are_taken_once_oldest_first_and_apps_keep_to_their_share(mut stage: Fixture) {
    let own = stage.app;
    let other = stage.new_app().await;
    let mut ids = Vec::new();
    for app in [own, own, own, other] {
        let endpoint = stage.new_endpoint(app).await;
        let new = draft(&mut stage, app, endpoint, InspectionKind::Inspect);
        stage.store().request_inspection(new.clone()).await.unwrap();
        ids.push(new.id);
    }
    let mut taken = Vec::new();
    while let Some(next) = stage.store().start_next_inspection(2).await.unwrap() {
        taken.push(next.id);
    }
    assert_eq!(taken, [ids[0], ids[1], ids[3]]);
    end(&stage, ids[0]).await;
    assert_eq!(stage.store().start_next_inspection(2).await.unwrap().map(|taken| taken.id), Some(ids[2]));
}

pub(crate) async fn an_inspection_ends_once_and_only_from_running(mut stage: Fixture) {
    let id = ordered(&mut stage).await.id;
    assert!(!end(&stage, id).await, "it waits");
    take(&stage).await;
    assert!(stage.store().finish_inspection(id, None, after(4)).await.unwrap());
    assert_eq!(state(&stage, id).await, Some(InspectionState::Interrupted));
    assert!(!end(&stage, id).await, "it ended");
    assert!(!end(&stage, InspectionId::from_i64(1)).await, "there is none");
    assert_eq!(state(&stage, id).await, Some(InspectionState::Interrupted));
}

pub(crate) async fn inspections_of_a_dead_node_are_interrupted_and_waiting_ones_announced(
    mut stage: Fixture,
) {
    let running = ordered(&mut stage).await.id;
    take(&stage).await;
    let (app, endpoint) = (stage.app, stage.new_endpoint(stage.app).await);
    let waiting = draft(&mut stage, app, endpoint, InspectionKind::Inspect);
    stage.store().request_inspection(waiting.clone()).await.unwrap();
    stage.wait_until_idle().await;
    stage.recorder.take_inspections_wait();
    stage.reopen();
    stage.store().join(after(7)).await.unwrap();
    stage.wait_until_idle().await;
    assert_eq!(stage.recorder.take_inspections_wait(), 1);
    let interrupted = stage.store().inspection(app, running).await.unwrap().unwrap();
    assert_eq!(
        (interrupted.state, interrupted.finished_at, interrupted.report),
        (InspectionState::Interrupted, Some(after(7)), None)
    );
    assert_eq!(take(&stage).await, Some(waiting.id));
    end(&stage, waiting.id).await;
    stage.reopen();
    stage.store().join(after(8)).await.unwrap();
    stage.wait_until_idle().await;
    assert_eq!(stage.recorder.take_inspections_wait(), 0, "nothing waits");
}

pub(crate) async fn the_last_ten_ended_inspections_are_kept_newest_first(mut stage: Fixture) {
    let other = stage.new_endpoint(stage.app).await;
    let app = stage.app;
    let foreign = draft(&mut stage, app, other, InspectionKind::Ping);
    stage.store().request_inspection(foreign.clone()).await.unwrap();
    take(&stage).await;
    end(&stage, foreign.id).await;
    let mut ids = Vec::new();
    for _ in 0..INSPECTIONS_KEPT_PER_ENDPOINT + 3 {
        let id = ordered(&mut stage).await.id;
        take(&stage).await;
        end(&stage, id).await;
        ids.push(id);
    }
    ids.push(ordered(&mut stage).await.id);
    let mut listed = Vec::new();
    let mut cursor = None;
    loop {
        let page = stage.store().inspections(stage.endpoint, cursor, 4).await.unwrap();
        listed.extend(page.rows.iter().map(|inspection| inspection.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = ids[3..].iter().rev().copied().collect();
    assert_eq!(listed, expected);
    assert_eq!(
        state(&stage, foreign.id).await,
        Some(InspectionState::Finished),
        "another endpoint's is left alone"
    );
}

pub(crate) async fn deleting_an_endpoint_cancels_its_inspection_and_keeps_the_history(mut stage: Fixture) {
    let finished = ordered(&mut stage).await.id;
    take(&stage).await;
    end(&stage, finished).await;
    let running = ordered(&mut stage).await.id;
    take(&stage).await;
    assert!(stage.store().remove_endpoint(stage.endpoint, after(3), None).await.unwrap());
    assert_eq!(state(&stage, running).await, Some(InspectionState::Cancelled));
    assert_eq!(state(&stage, finished).await, Some(InspectionState::Finished));
    assert!(!end(&stage, running).await, "a report that comes late changes nothing");
    let (app, endpoint) = (stage.app, stage.endpoint);
    let late = draft(&mut stage, app, endpoint, InspectionKind::Inspect);
    assert_eq!(stage.store().request_inspection(late).await.unwrap(), InspectionRequested::NoEndpoint);
}

pub(crate) async fn inspections_are_visible_to_their_app_and_deleted_with_it(mut stage: Fixture) {
    let other = stage.new_app().await;
    let id = ordered(&mut stage).await.id;
    assert_eq!(stage.store().inspection(other, id).await.unwrap(), None);
    let stolen = draft(&mut stage, other, EndpointId::from_i64(1), InspectionKind::Inspect);
    let stolen = Inspection { endpoint: stage.new_endpoint(stage.app).await, ..stolen };
    assert_eq!(stage.store().request_inspection(stolen).await.unwrap(), InspectionRequested::NoEndpoint);
    take(&stage).await;
    stage.store().remove_app(stage.app, None).await.unwrap();
    assert_eq!(state(&stage, id).await, None);
    assert!(!end(&stage, id).await);
}

pub(crate) async fn ids_that_probes_may_carry_are_not_given_out_again(mut stage: Fixture) {
    let id = ordered(&mut stage).await.id;
    let newest = id.as_i64() + i64::from(IDS_PER_INSPECTION) - 1;
    assert_eq!(stage.store().join(NOW).await.unwrap().newest_id, newest);
    stage.store().remove_app(stage.app, None).await.unwrap();
    assert_eq!(stage.store().join(NOW).await.unwrap().newest_id, newest, "also when it is gone");
}
