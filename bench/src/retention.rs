//! The cost of removing what is kept no longer: the same steady load with contracts that keep everything for a month and for a minute.

use crate::{
    api::Api,
    clock,
    figures::Figures,
    load::{Bench, Load},
    messages::Pace,
    procs,
    server::{Product, ServerProcess, StoreKind},
};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, fs, path::Path, time::Duration};

const STANDARD_CONTRACT: &str = include_str!("../../contracts/standard.toml");
const KEPT: &[&str] = &["30d", "1m", "1m", "30d"];
/// By then a store that keeps everything for a minute removes as much as comes in.
const BEFORE: Duration = Duration::from_secs(80);
const MEASURED: Duration = Duration::from_mins(1);
const MIB: f64 = 1024.0 * 1024.0;

/// By the server's own counters.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stretch {
    pub kept_for: String,
    pub deliveries_per_cpu_s: f64,
    pub delivered_per_s: f64,
    pub removed_per_s: f64,
    pub store_mib: f64,
}

/// The stretches, each on a fresh server. `start_bench` makes sender and receiver for each.
pub async fn stretches(
    product: &Product<'_>,
    contracts: &Path,
    start_bench: impl AsyncFn(&ServerProcess) -> Result<Bench>,
) -> Result<Vec<Stretch>> {
    let mut stretches = vec![];
    for kept in KEPT {
        fs::create_dir_all(contracts)?;
        fs::write(contracts.join("standard.toml"), contract_that_keeps(kept)?)?;
        let folder = contracts.display().to_string();
        let server = ServerProcess::fresh(product, StoreKind::Sqlite, &[("CONTRACTS_DIR", &folder)]).await?;
        let bench = start_bench(&server).await?;
        let stretch = tokio::select! {
            stretch = measured(&server, kept) => stretch?,
            failed = load_without_end(&bench) => match failed? {},
        };
        eprintln!("  {stretch:?}");
        stretches.push(stretch);
        drop(bench);
        server.stop().await?;
    }
    Ok(stretches)
}

async fn load_without_end(bench: &Bench) -> Result<Infallible> {
    loop {
        let load = Load::plain(40_000, Pace::Senders(64));
        let (observed, ()) = bench.transfer(&load, &[], async { Ok(()) }).await?;
        let broken = Figures::of(&observed).broken_promises(false);
        ensure!(broken.is_empty(), "under steady load: {}", broken.join(", "));
    }
}

fn contract_that_keeps(kept: &str) -> Result<String> {
    let (before, after) =
        STANDARD_CONTRACT.split_once("[retention]\n").context("no [retention] in the contract")?;
    let (retention, rest) = after.split_once("\n\n").context("[retention] has no end")?;
    Ok(format!("{before}[retention]\n{}\n\n{rest}", retention.replace("\"30d\"", &format!("\"{kept}\""))))
}

async fn measured(server: &ServerProcess, kept: &str) -> Result<Stretch> {
    let api = server.api()?;
    tokio::time::sleep(BEFORE).await;
    let before = Counters::read(server, &api).await?;
    tokio::time::sleep(MEASURED).await;
    let after = Counters::read(server, &api).await?;
    let seconds = clock::seconds_between(before.at_ns, after.at_ns);
    let delivered = after.delivered - before.delivered;
    Ok(Stretch {
        kept_for: kept.to_owned(),
        deliveries_per_cpu_s: (delivered / (after.cpu_s - before.cpu_s)).round(),
        delivered_per_s: (delivered / seconds).round(),
        removed_per_s: ((after.removed - before.removed) / seconds).round(),
        store_mib: (after.store_bytes / MIB).round(),
    })
}

struct Counters {
    at_ns: u64,
    cpu_s: f64,
    delivered: f64,
    removed: f64,
    store_bytes: f64,
}

impl Counters {
    async fn read(server: &ServerProcess, api: &Api) -> Result<Self> {
        let metrics = api.get("/metrics").await?;
        Ok(Self {
            at_ns: clock::now_ns(),
            cpu_s: procs::cpu_of_trees(&server.trees())?.values().sum(),
            delivered: metric(&metrics, "posthaste_attempts_total{class=\"ok\"}")?,
            removed: metric(&metrics, "posthaste_retention_removed_total{what=\"deliveries\"}")?,
            store_bytes: metric(&metrics, "posthaste_store_bytes")?,
        })
    }
}

fn metric(metrics: &str, name: &str) -> Result<f64> {
    let value =
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
    value.with_context(|| format!("/metrics lacks {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_retention_of_the_contract_changes() {
        let contract = contract_that_keeps("1m").unwrap();
        assert_eq!(contract.matches("\"1m\"").count(), 4);
        assert_eq!(contract.replace("\"1m\"", "\"30d\""), STANDARD_CONTRACT);
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let metrics = "# HELP a_total x\na_total{b=\"c\"} 4\na_total_more 5\na_total 6\n";
        assert_eq!(metric(metrics, "a_total").unwrap().to_string(), "6");
        assert_eq!(metric(metrics, "a_total{b=\"c\"}").unwrap().to_string(), "4");
        assert!(metric(metrics, "b_total").is_err());
    }
}
