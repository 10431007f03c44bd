//! Runs that take long or never end, and that they delay no other app.

use super::*;
use crate::domain::{
    event_type::VersionDocument,
    id::{AppId, EventId},
    time::Timestamp,
};

fn event(app: i64, id: i64, data: &'static str) -> Event {
    let now = Timestamp::from_millis(0);
    Event {
        id: EventId::from_i64(id),
        app: AppId::from_i64(app),
        external_id: None,
        event_type: "payment.created".into(),
        created_at: now,
        accepted_at: now,
        data: data.into(),
        key: None,
        deliver_at: None,
        has_no_subscribers: false,
    }
}

/// Converts the data of an event that nothing was made from yet.
async fn convert(
    renderer: &Renderer,
    event: &Event,
    version: &Arc<PayloadVersion>,
    rule: RenderingRule,
) -> Result<RunResult, RenderError> {
    renderer.convert((event, &BodyCache::default()), version, rule).await
}

fn version(function: &str) -> Arc<PayloadVersion> {
    let document =
        VersionDocument { name: "1".into(), function: Some(function.into()), ..VersionDocument::default() };
    Arc::new(PayloadVersion::compile(&document).unwrap())
}

fn rule(tries: u32, timeout_ms: u64) -> RenderingRule {
    RenderingRule { tries, timeout: Duration::from_millis(timeout_ms) }
}

fn message_of(ended: &RunResult) -> &str {
    match ended {
        RunResult::Converted(_) => "made",
        RunResult::Failed(why) | RunResult::OutOfTime(why) => why,
    }
}

const ENDLESS: &str = "d => { while (d.loop); return 1 }";
/// Two steps, each of which takes seconds and cannot be stopped.
const STUCK: &str = "d => { for (let i = 0; i < d.loop; i++) (2n ** 1000000n - 1n).toString(); return 1 }";

#[tokio::test]
async fn a_timeout_depends_on_the_contract_and_is_not_cached_for_the_next_endpoint() {
    let (renderer, event) = (Renderer::default(), event(1, 1, r#"{"loop":true}"#));
    let bodies = BodyCache::default();
    let endless = version(ENDLESS);
    let once = renderer.convert((&event, &bodies), &endless, rule(1, 120)).await.unwrap();
    assert_eq!(message_of(&once), "did not finish within 120ms, tried once");
    let often = renderer.convert((&event, &bodies), &endless, rule(3, 120)).await.unwrap();
    assert_eq!(message_of(&often), "did not finish within 120ms, tried 3 times");
    let thrown = version("d => { throw 'no' }");
    assert!(matches!(
        renderer.convert((&event, &bodies), &thrown, rule(1, 120)).await,
        Ok(RunResult::Failed(_))
    ));
    assert_eq!(message_of(&cached_result(&bodies, &thrown).unwrap()), "no", "everything else is kept");
}

#[tokio::test]
async fn a_run_that_does_not_stop_keeps_its_slot_until_its_thread_ends_and_others_keep_theirs() {
    let (renderer, stuck) = (Renderer::default(), version(STUCK));
    let never_ending = event(1, 1, r#"{"loop":2}"#);
    let quick = event(2, 2, r#"{"loop":0}"#);
    let stuck_run = convert(&renderer, &never_ending, &stuck, rule(1, 10));
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        convert(&renderer, &quick, &stuck, rule(1, 5000)).await
    };
    let (ended, other) = tokio::join!(stuck_run, others);
    assert_eq!(message_of(&other.unwrap()), "made");
    assert_eq!(message_of(&ended.unwrap()), "did not stop when its time was over");
    let slow_runs = renderer.fairness.of(AppId::from_i64(1)).unwrap();
    assert!(slow_runs.slow.take_free().is_none(), "its thread has the app's turn");
    let one = renderer.slow_slots.take_free().unwrap();
    assert!(renderer.slow_slots.take_free().is_none(), "and a slot");
    drop(one);
    let again = convert(&renderer, &never_ending, &stuck, rule(1, 10)).await.unwrap_err();
    assert_eq!(again.dead_reason, None, "{again:?}");
    let all_back = async {
        while slow_runs.slow.take_free().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        (renderer.slow_slots.take_free(), renderer.slow_slots.take_free())
    };
    let back = timeout(Duration::from_mins(1), all_back).await.unwrap();
    assert!(back.0.is_some() && back.1.is_some());
}

#[tokio::test(start_paused = true)]
async fn deliveries_are_released_with_a_reason_when_all_slots_are_lost() {
    let renderer = Renderer::default();
    let mut lost = Vec::new();
    while let Some(mut slot) = renderer.quick_slots.take_free() {
        assert!(!renderer.quick_slots.are_all_lost());
        slot.lose();
        lost.push(slot);
    }
    let fault = convert(&renderer, &event(1, 1, "{}"), &version(ENDLESS), rule(1, 100)).await.unwrap_err();
    assert_eq!(fault.dead_reason, None);
    assert!(fault.error.ends_with("the functions in all of them do not stop"), "{fault:?}");
    drop(lost);
    assert!(!renderer.quick_slots.are_all_lost() && renderer.quick_slots.take_free().is_some());
}

#[tokio::test]
async fn endless_runs_of_an_app_use_one_slow_slot_at_a_time_and_none_of_another_app() {
    let renderer = Arc::new(Renderer::default());
    let endless = version(ENDLESS);
    let bad: Vec<_> = (0..12)
        .map(|n| {
            let (renderer, endless) = (renderer.clone(), endless.clone());
            tokio::spawn(async move {
                convert(&renderer, &event(1, n, r#"{"loop":true}"#), &endless, rule(1, 3000)).await
            })
        })
        .collect();
    let mut made = 0;
    while !bad.iter().all(tokio::task::JoinHandle::is_finished) {
        made += 1;
        let good = convert(&renderer, &event(2, 100 + made, "{}"), &endless, rule(1, 3000)).await;
        assert_eq!(message_of(&good.unwrap()), "made");
        let aside = (renderer.slow_slots.take_free(), renderer.slow_slots.take_free());
        assert!(aside.0.is_some(), "one app has at most one of the slow slots");
    }
    assert!(made > 3, "{made}");
    let mut ended = Vec::new();
    for bad in bad {
        ended.push(bad.await.unwrap());
    }
    let is_out_of_time =
        |ended: &Result<RunResult, RenderError>| matches!(ended, Ok(RunResult::OutOfTime(_)));
    assert_eq!(ended.iter().filter(|ended| is_out_of_time(ended)).count(), 1);
    assert!(ended.iter().all(|ended| is_out_of_time(ended)
        || matches!(ended, Err(fault) if fault.dead_reason.is_none() && fault.error.contains("for another event"))));
}
