//! Where nodes meet in what they share: accountable time.

use crate::{
    health::{plain, see},
    pair::{Pair, play},
    stage::{NOW, after, retry_at},
};
use posthaste::{
    domain::{blame::Account, verdict::Verdict},
};
use std::time::Duration;

async fn time_that_one_node_counted_is_everybody_s_and_never_runs_back(mut pair: Pair) {
    let minutes = Duration::from_mins;
    let mine = |accountable| Account { accountable, is_ours: false };
    let (here, there) = (pair.stage.shared(), pair.other.store.clone());
    here.account(mine(minutes(50)), NOW).await.unwrap();
    assert_eq!(there.account(mine(minutes(2)), NOW).await.unwrap(), mine(minutes(50)));
    // Whoever has less than others rolls up.
    see(&mut pair.stage, Verdict::Delivered, &plain()).await;
    there.roll_up(minutes(3), after(1)).await.unwrap();
    assert_eq!(here.standing(after(1)).await.unwrap().accountable, minutes(50));
    there.account(mine(minutes(60)), after(2)).await.unwrap();
    // And its attempts are known by everybody's time: by its own this one would have begun long ago.
    see(&mut pair.stage, retry_at(after(60)), &plain()).await;
    let report = here.health(pair.stage.app, pair.stage.endpoint, after(3)).await.unwrap();
    assert_eq!(report.health.first_failure.unwrap().clock, minutes(60));
    assert_eq!(report.clock, Some((minutes(60), after(2))));
}

async fn a_node_that_finds_that_it_is_us_is_heard_for_half_a_minute(pair: Pair) {
    let mine = |is_ours| Account { accountable: Duration::from_mins(1), is_ours };
    let here = pair.stage.store();
    assert_eq!(here.account(mine(false), NOW).await.unwrap(), mine(false));
    pair.other.store.account(mine(true), NOW).await.unwrap();
    assert_eq!(here.account(mine(false), after(20)).await.unwrap(), mine(true));
    assert_eq!(here.account(mine(false), after(40)).await.unwrap(), mine(false));
}

play! {
    database:
    time_that_one_node_counted_is_everybody_s_and_never_runs_back,
    a_node_that_finds_that_it_is_us_is_heard_for_half_a_minute,
}

play! {
    file:
    time_that_one_node_counted_is_everybody_s_and_never_runs_back,
    a_node_that_finds_that_it_is_us_is_heard_for_half_a_minute,
}
