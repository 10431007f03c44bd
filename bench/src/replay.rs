//! The latency of fresh events alone and beside a replay of another app's past deliveries, in turn.

use crate::{
    figures::Figures,
    load::{Bench, Load},
    messages::Pace,
    prefill,
    server::ServerProcess,
};
use anyhow::{Context, Result};
use serde_json::json;

const REPLAYED: usize = 200_000;
const REPLAYED_PER_SECOND: u32 = 100;
const ROUNDS: usize = 3;
const RATE: f64 = 200.0;
const EVENTS: usize = 3000;

/// Names and figures of the rounds. The replay goes to the receiver as well; its deliveries are no strays here.
pub async fn rounds(server: &ServerProcess, bench: &Bench) -> Result<Vec<(String, Figures)>> {
    let api = server.api()?;
    prefill::cancelled(&api, REPLAYED, &format!("{}/replayed/0", bench.receiver_url)).await?;
    let replay = json!({"status": ["cancelled"], "per_second": REPLAYED_PER_SECOND});
    let replay = api.post("/v1/apps/again/replays", &replay).await?;
    let id = replay["id"].as_str().context("a replay has an id")?;
    let mut rounds = vec![];
    for round in 1..=ROUNDS {
        for (action, name) in [("pause", "alone"), ("resume", "beside a replay")] {
            api.post(&format!("/v1/apps/again/replays/{id}/{action}"), &json!({})).await?;
            let figures = bench.measure(&Load::plain(EVENTS, Pace::PerSecond(RATE)), &server.trees()).await?;
            let figures = Figures { strays: 0, ..figures.without_cpu_per_delivery() };
            rounds.push((format!("{name}, round {round}"), figures));
        }
    }
    let replay = api.get(&format!("/v1/apps/again/replays/{id}")).await?;
    eprintln!("  the replay in the end: {replay}");
    Ok(rounds)
}
