//! `posthaste-bench compare`: two builds in turn, by the third best deliveries per CPU-second and by resident memory.

use crate::{
    clock,
    command::{CompareArguments, Shared},
    figures::Figures,
    prefill,
    report::{JsonFile, Line},
    run,
    server::{ServerProcess, StoreKind, WorkFolder},
    shapes::{Kind, Shape},
    statistics::{median, round, third_best},
    table,
};
use anyhow::{Context, Result, ensure};
use rustix::thread::disable_transparent_huge_pages;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};

/// Fewer runs are a look and not a verdict.
const RUNS: usize = 10;
const STARTS: usize = 5;
const RESIDENT_AFTER: Duration = Duration::from_secs(30);
/// Between two pairs of starts, so that a start does not meet another.
const STARTS_APART: Duration = Duration::from_secs(3);
const MEMORY: &str = "resident MiB";

/// Result of the comparison for one shape, or for the memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Comparison {
    pub what: String,
    pub old: f64,
    pub new: f64,
    /// NEW by OLD.
    pub ratio: f64,
    /// Whether the ratio must be at least or at most this.
    pub bound: Bound,
    pub is_kept: bool,
    pub old_runs: Vec<f64>,
    pub new_runs: Vec<f64>,
    /// Fewer runs than a verdict needs.
    pub is_short: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Comparison {
    fn of(
        what: &str,
        bound: Bound,
        summary: fn(Vec<f64>) -> Option<f64>,
        runs: [Vec<f64>; 2],
        is_short: bool,
    ) -> Result<Self> {
        let [old_runs, new_runs] = runs;
        let old = summary(old_runs.clone()).context("no figures of OLD")?;
        let new = summary(new_runs.clone()).context("no figures of NEW")?;
        let ratio = new / old;
        let is_kept = match bound {
            Bound::AtLeast(bound) => ratio >= bound,
            Bound::AtMost(bound) => ratio <= bound,
        };
        Ok(Self {
            what: what.to_owned(),
            old,
            new,
            ratio: round(ratio),
            bound,
            is_kept,
            old_runs,
            new_runs,
            is_short,
        })
    }
}

/// Returns whether all bounds were kept.
pub async fn compare(arguments: &CompareArguments) -> Result<bool> {
    let shared = &arguments.shared;
    let shapes: Vec<Shape> = arguments.shapes.iter().map(|name| Shape::named(name)).collect::<Result<_>>()?;
    for shape in &shapes {
        ensure!(shape.is_comparable(), "{} has no deliveries per CPU-second to compare by", shape.name);
    }
    let work = WorkFolder::below(&shared.work)?;
    let mut json = JsonFile::create(shared.json.as_deref())?;
    let named = [&arguments.old, &arguments.new];
    let programs = [shared.product(Some(named[0]))?, shared.product(Some(named[1]))?];
    let mut verdicts = vec![];
    for shape in &shapes {
        eprintln!("comparing {}: {}", shape.name, shape.about);
        let mut runs = [vec![], vec![]];
        for pair in 0..arguments.runs {
            // OLD NEW, NEW OLD, …: a machine that becomes slower or quicker does so for both.
            for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
                let figures = one_run(shared, &work, shape, &programs[side]).await?;
                eprintln!("  {} {}", ["OLD", "NEW"][side], figures.line());
                runs[side].push(figures.deliveries_per_cpu_s.context("nothing was delivered")?);
                let program = named[side].display().to_string();
                let line = Line::Run {
                    shape: shape.name.clone(),
                    run: pair + 1,
                    program,
                    figures: Box::new(figures),
                };
                json.add(&line)?;
            }
        }
        let bound = Bound::AtLeast(arguments.at_least);
        verdicts.push(Comparison::of(&shape.name, bound, third_best, runs, arguments.runs < RUNS)?);
    }
    if !arguments.skip_memory {
        eprintln!("resident memory {} s after {STARTS} starts of each", RESIDENT_AFTER.as_secs());
        let runs = resident(shared, &work, &programs).await?;
        verdicts.push(Comparison::of(MEMORY, Bound::AtMost(arguments.memory_at_most), median, runs, false)?);
    }
    for verdict in &verdicts {
        json.add(&Line::Comparison(verdict.clone()))?;
    }
    print!("{}", render(&verdicts));
    Ok(verdicts.iter().all(|verdict| verdict.is_kept))
}

/// On a server and store of its own.
async fn one_run(shared: &Shared, work: &WorkFolder, shape: &Shape, binary: &Path) -> Result<Figures> {
    let server = ServerProcess::fresh(&run::product(shared, work, binary), shape.store, &[]).await?;
    let bench = run::bench_of(shared, shape, &server).await?;
    if let Kind::Beside { waiting, endpoints } = shape.kind {
        prefill::endpoints(&server.api()?, endpoints).await?;
        prefill::waiting(&server.api()?, waiting).await?;
    }
    run::warm_up(shared, &bench).await?;
    let load = shape.load(shared.events).context("this shape has no load of its own")?;
    let figures = bench.measure(&load, &server.trees()).await?;
    server.stop().await?;
    let broken = figures.broken_promises(false);
    ensure!(broken.is_empty(), "{} with {}: {}", shape.name, binary.display(), broken.join(", "));
    Ok(figures)
}

/// Resident memory of idle servers, which wait side by side. A pair starts when the one before has settled.
async fn resident(
    shared: &Shared,
    work: &WorkFolder,
    programs: &[std::path::PathBuf; 2],
) -> Result<[Vec<f64>; 2]> {
    let mut servers = vec![];
    // Each huge page that the kernel happens to have at a start is 2 MiB, more than the bound. The servers inherit this.
    disable_transparent_huge_pages(true)?;
    for _ in 0..STARTS {
        for (side, binary) in programs.iter().enumerate() {
            let server =
                ServerProcess::fresh(&run::product(shared, work, binary), StoreKind::Sqlite, &[]).await?;
            servers.push((side, clock::now_ns(), server));
        }
        tokio::time::sleep(STARTS_APART).await;
    }
    disable_transparent_huge_pages(false)?;
    let mut runs = [vec![], vec![]];
    for (side, ready_ns, server) in servers {
        let passed = clock::now_ns() - ready_ns;
        tokio::time::sleep(RESIDENT_AFTER.saturating_sub(Duration::from_nanos(passed))).await;
        runs[side].push(round(server.resident_mib()));
        server.stop().await?;
    }
    Ok(runs)
}

fn render(verdicts: &[Comparison]) -> String {
    let columns = ["what", "OLD", "NEW", "NEW ÷ OLD", "bound", "verdict", "OLD, all runs", "NEW, all runs"];
    let rows = verdicts.iter().map(|verdict| {
        let digits = usize::from(verdict.what == MEMORY);
        let all =
            |runs: &[f64]| runs.iter().map(|run| format!("{run:.digits$}")).collect::<Vec<_>>().join(", ");
        let bound = match verdict.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        let kept = if verdict.is_kept { "kept" } else { "MISSED" };
        let short = if verdict.is_short { ", but a short look: a verdict needs ten runs" } else { "" };
        vec![
            verdict.what.clone(),
            table::number(Some(verdict.old), digits),
            table::number(Some(verdict.new), digits),
            format!("{:.3}", verdict.ratio),
            bound,
            format!("{kept}{short}"),
            all(&verdict.old_runs),
            all(&verdict.new_runs),
        ]
    });
    table::render(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bound: Bound, summary: fn(Vec<f64>) -> Option<f64>, old: &[f64], new: &[f64]) -> Comparison {
        Comparison::of("x", bound, summary, [old.to_vec(), new.to_vec()], false).unwrap()
    }

    #[test]
    fn a_shape_is_judged_by_its_third_best_run() {
        let best: fn(Vec<f64>) -> Option<f64> = third_best;
        let old = [100.0, 10.0, 120.0, 110.0, 20.0];
        let slower = verdict(Bound::AtLeast(0.97), best, &old, &[96.0, 500.0, 400.0, 1.0, 1.0]);
        assert_eq!((slower.old, slower.new, slower.ratio, slower.is_kept), (100.0, 96.0, 0.96, false));
        assert!(verdict(Bound::AtLeast(0.95), best, &old, &[96.0, 500.0, 400.0, 1.0, 1.0]).is_kept);
    }

    #[test]
    fn memory_is_judged_by_its_median() {
        let middle: fn(Vec<f64>) -> Option<f64> = median;
        let old = [30.0, 30.0, 99.0];
        assert!(verdict(Bound::AtMost(1.03), middle, &old, &[30.9, 30.0, 99.0]).is_kept);
        assert!(!verdict(Bound::AtMost(1.03), middle, &old, &[31.0, 31.0, 1.0]).is_kept);
    }

    #[test]
    fn a_short_look_says_so() {
        let mut verdict = verdict(Bound::AtLeast(0.97), third_best, &[1.0], &[1.0]);
        assert!(!render(std::slice::from_ref(&verdict)).contains("short"));
        verdict.is_short = true;
        assert!(render(&[verdict]).contains("a short look"));
    }
}
