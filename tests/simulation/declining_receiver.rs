//! A receiver that declines: it works for a while at most, and then fails for good, so that rules have to act. No person
//! disables or enables it. Drawn apart, so that stories without one stay as they are.

use crate::{
    network::{ReceiverMode, Script},
    plan::{EndpointPlan, pick},
};
use fastrand::Rng;
use posthaste::domain::ordering::OrderingMode;
use serde_json::json;

/// More endpoints than this could fall silent at once, and be excused for that.
const OTHERS_MAX: usize = 3;

/// Draws one for every second story that has room for it.
pub(crate) fn plan(seed: u64, others: usize, heal_at: i64) -> Option<EndpointPlan> {
    let mut rng = Rng::with_seed(seed ^ 0x6465_636c);
    if others > OTHERS_MAX || rng.bool() {
        return None;
    }
    let contract = pick(&mut rng, &["strict", "strict", "quick", "gives-up"]);
    let ails = pick(
        &mut rng,
        &[ReceiverMode::Status(500), ReceiverMode::Status(404), ReceiverMode::Hang, ReceiverMode::Refused],
    );
    let well_until = if rng.bool() { rng.i64(0..heal_at) } else { 0 };
    Some(EndpointPlan {
        uid: format!("receiver-{others}"),
        contract,
        overrides: json!({ "headers": { "x-attempt-id": "{attempt_id}" } }),
        max_in_flight: None,
        ordered: OrderingMode::None,
        on_dead: None,
        script: Script { changes: vec![(0, ReceiverMode::Ok), (well_until, ails)] },
    })
}
