//! Shows that the judge of three nodes can say no: the same faults with a database that does not keep its part.

use super::{
    faults::{die, frozen},
    stage::Stage,
};
use std::time::Duration;

/// Whoever is declared dead lives on.
const NOBODY_DIES: &str = "CREATE FUNCTION posthaste.nobody_dies() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.dead := 0; RETURN NEW; END';
    CREATE TRIGGER nobody_dies BEFORE UPDATE ON posthaste.nodes FOR EACH ROW EXECUTE FUNCTION posthaste.nobody_dies()";
/// Less than it takes a node to notice by itself that it heard nothing.
const FROZEN: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_of_kills_and_freezes_leases_that_are_not_kept_send_again_and_without_takeover_all_stays() {
    let mut stage = Stage::set("").await;
    let load = stage.load().await;
    stage.ask(NOBODY_DIES).await;
    let death = die(&mut stage).await;
    stage.ask("DROP TRIGGER nobody_dies ON posthaste.nodes").await;
    stage.start_again(death.of).await;
    let verdict = stage.judge("kill -9", load).await;
    verdict.in_flight(death.in_flight).taken_over(death.takeover).must_be_broken();

    let verdict = frozen(&mut stage, FROZEN, false).await;
    verdict.must_be_broken();
    assert!(verdict.totals.after_success > 0, "{verdict}");
}
