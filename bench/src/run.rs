//! `posthaste-bench run`: measures shapes, prints the tables, and fails where a goal is missed or a promise was broken.

use crate::{
    command::{RunArguments, Shared},
    figures::Figures,
    load::{Bench, Load},
    nodes, prefill, replay,
    report::{JsonFile, Line, Summary},
    retention::{self, Stretch},
    server::{Product, ServerProcess, WorkFolder},
    shapes::{self, Kind, Shape},
    svg, table,
    target::Target,
};
use anyhow::{Context, Result, bail, ensure};
use std::{fs, path::Path};

mod crash;
use crash::Subject;

/// Deliveries per CPU-second, the database included.
const GOALS: &[(&str, f64)] = &[("one-32@postgres", 6000.0), ("keyed-200@postgres", 4500.0)];
/// How many times as much two nodes must deliver as one.
const NODES_GOAL: f64 = 1.6;
const NODES_IN_TURN: [usize; 6] = [1, 2, 1, 2, 1, 2];

/// Everything that was measured.
#[derive(Default)]
struct Measured {
    summaries: Vec<Summary>,
    nodes: Vec<(usize, f64)>,
    stretches: Vec<Stretch>,
    missed: Vec<String>,
}

struct Session<'a> {
    arguments: &'a RunArguments,
    shared: &'a Shared,
    work: WorkFolder,
    json: JsonFile,
    measured: Measured,
}

/// Returns whether all goals were reached and all promises kept.
pub async fn run(arguments: &RunArguments) -> Result<bool> {
    let shared = &arguments.shared;
    let shapes = Shape::all_named(&arguments.shapes)?;
    let work = WorkFolder::below(&shared.work)?;
    let json = JsonFile::create(shared.json.as_deref())?;
    let mut session = Session { arguments, shared, work, json, measured: Measured::default() };
    for shape in &shapes {
        eprintln!("measuring {}: {}", shape.name, shape.about);
        session.measure(shape).await.with_context(|| format!("measuring {}", shape.name))?;
    }
    session.finish()
}

impl Session<'_> {
    async fn measure(&mut self, shape: &Shape) -> Result<()> {
        if let Some(file) = &self.arguments.target {
            return self.measure_other(shape, file).await;
        }
        let binary = self.shared.product(self.arguments.binary.as_deref())?;
        match shape.kind {
            Kind::Nodes => self.measure_nodes(&binary).await,
            Kind::Retention => self.measure_retention(&binary).await,
            _ => self.measure_own(shape, &binary).await,
        }
    }

    /// The product, started for this shape.
    async fn measure_own(&mut self, shape: &Shape, binary: &Path) -> Result<()> {
        let product = product(self.shared, &self.work, binary);
        let mut server = ServerProcess::fresh(&product, shape.store, &[]).await?;
        let resident_at_start_mib = server.resident_mib();
        let bench = bench_of(self.shared, shape, &server).await?;
        if let Kind::Beside { waiting, endpoints } = shape.kind {
            prefill::endpoints(&server.api()?, endpoints).await?;
            prefill::waiting(&server.api()?, waiting).await?;
        }
        if shape.kind == Kind::Replay {
            for (name, figures) in replay::rounds(&server, &bench).await? {
                self.add(shape, &format!("replay, {name}"), vec![figures], |_| {})?;
            }
            return Ok(());
        }
        let warmed_up = warm_up(self.shared, &bench).await?;
        let (runs, mut notes) = self.runs(shape, &bench, &mut Subject::Own(&mut server)).await?;
        let mut grown = None;
        if let Kind::Beside { .. } = shape.kind {
            server.kill().await?;
            let ready = server.restart().await?;
            notes.push(format!(
                "ready {ready:.2} s after kill -9, then {:.0} MiB resident",
                server.resident_mib()
            ));
        } else {
            let events = warmed_up + runs.iter().map(|run| run.accepted).sum::<u64>();
            grown = Some(server.stop().await? as f64 / events.max(1) as f64);
        }
        self.add(shape, &shape.name, runs, |summary| {
            summary.resident_at_start_mib = Some(resident_at_start_mib.round());
            summary.store_bytes_per_event = grown.map(f64::round);
            summary.notes = notes;
        })
    }

    /// Another product, which already runs.
    async fn measure_other(&mut self, shape: &Shape, file: &Path) -> Result<()> {
        ensure!(
            shape.store == crate::server::StoreKind::Sqlite,
            "with --target the store is the target's own matter"
        );
        let mut target = Target::read(file)?;
        for (name, value) in &self.arguments.variables {
            target.set(name, value);
        }
        let bench = Bench::start(target, self.shared.options(shape)).await?;
        if matches!(shape.kind, Kind::Beside { .. } | Kind::Nodes | Kind::Retention | Kind::Replay) {
            bail!("{} needs the product's own API and cannot be measured with --target", shape.name);
        }
        warm_up(self.shared, &bench).await?;
        let mut subject = Subject::Other {
            trees: &self.arguments.pids,
            restart_command: self.arguments.restart_command.as_deref(),
        };
        let (runs, notes) = self.runs(shape, &bench, &mut subject).await?;
        self.add(shape, &shape.name, runs, |summary| summary.notes = notes)
    }

    /// Figures of each run, and notes.
    async fn runs(
        &self,
        shape: &Shape,
        bench: &Bench,
        subject: &mut Subject<'_>,
    ) -> Result<(Vec<Figures>, Vec<String>)> {
        if shape.kind == Kind::Noisy {
            let [alone, beside] = shapes::noisy_loads(self.shared.events);
            let alone = bench.measure(&alone, &subject.trees()).await?;
            let broken = alone.broken_promises(false);
            ensure!(broken.is_empty(), "without the endpoint that hangs: {}", broken.join(", "));
            let beside = bench.measure(&beside, &subject.trees()).await?;
            let note = format!(
                "alone p50 {:.1}, p99 {:.1} ms; {} requests left hanging",
                alone.send_to_receive_ms.p50, alone.send_to_receive_ms.p99, beside.left_hanging
            );
            return Ok((vec![beside.without_cpu_per_delivery()], vec![note]));
        }
        let load = shape.load(self.shared.events).context("this shape has no load of its own")?;
        if shape.kind == Kind::Crash {
            let (figures, note) = crash::measure(bench, &load, subject).await?;
            return Ok((vec![figures], vec![note]));
        }
        let mut runs = vec![];
        for _ in 0..shape.runs_of(self.arguments.runs) {
            runs.push(bench.measure(&load, &subject.trees()).await?);
        }
        Ok((runs, vec![]))
    }

    async fn measure_nodes(&mut self, binary: &Path) -> Result<()> {
        let shape = Shape::named("nodes")?;
        for nodes in NODES_IN_TURN {
            let bench = Bench::start(Target::of_product()?, self.shared.options(&shape)).await?;
            let product = product(self.shared, &self.work, binary);
            let delivered_per_s = nodes::delivered_per_second(&product, &bench, nodes).await?;
            eprintln!("  {nodes}: {delivered_per_s:.0} delivered/s");
            self.json.add(&Line::Nodes { nodes, delivered_per_s })?;
            self.measured.nodes.push((nodes, delivered_per_s));
        }
        Ok(())
    }

    async fn measure_retention(&mut self, binary: &Path) -> Result<()> {
        let shape = Shape::named("retention")?;
        let product = product(self.shared, &self.work, binary);
        let contracts = self.work.fresh("contracts")?;
        let start = async |server: &ServerProcess| bench_of(self.shared, &shape, server).await;
        let stretches = retention::stretches(&product, &contracts, start).await?;
        for stretch in &stretches {
            self.json.add(&Line::Retention(stretch.clone()))?;
        }
        self.measured.stretches = stretches;
        Ok(())
    }

    fn add(
        &mut self,
        shape: &Shape,
        name: &str,
        runs: Vec<Figures>,
        fill: impl FnOnce(&mut Summary),
    ) -> Result<()> {
        let mut summary = Summary::of(shape, name, &runs);
        fill(&mut summary);
        let program = match (&self.arguments.target, &self.arguments.binary) {
            (Some(program), _) | (None, Some(program)) => program.display().to_string(),
            (None, None) => "posthaste".to_owned(),
        };
        for (run, figures) in runs.into_iter().enumerate() {
            eprintln!("  {}", figures.line());
            let broken = figures.broken_promises(shape.kind == Kind::Crash);
            self.measured.missed.extend(broken.into_iter().map(|why| format!("{name}: {why}")));
            let line = Line::Run {
                shape: name.to_owned(),
                run: run + 1,
                program: program.clone(),
                figures: Box::new(figures),
            };
            self.json.add(&line)?;
        }
        self.json.add(&Line::Shape(summary.clone()))?;
        self.measured.summaries.push(summary);
        Ok(())
    }

    fn finish(self) -> Result<bool> {
        let Measured { summaries, nodes, stretches, mut missed } = self.measured;
        if !summaries.is_empty() {
            println!("{}", table::of_shapes(&summaries));
        }
        if !nodes.is_empty() {
            println!("{}", table::of_nodes(&nodes));
        }
        if !stretches.is_empty() {
            println!("{}", table::of_retention(&stretches));
        }
        if let Some(path) = &self.shared.svg {
            fs::write(path, svg::plot(&summaries)).with_context(|| format!("writing {}", path.display()))?;
        }
        missed.extend(missed_goals(&summaries, table::nodes_ratio(&nodes)));
        for why in &missed {
            eprintln!("missed: {why}");
        }
        Ok(missed.is_empty())
    }
}

fn missed_goals(summaries: &[Summary], nodes_ratio: Option<f64>) -> Vec<String> {
    let mut missed = vec![];
    for (shape, goal) in GOALS {
        let reached = summaries
            .iter()
            .find(|summary| summary.shape == *shape)
            .and_then(|summary| summary.deliveries_per_cpu_s);
        if let Some(reached) = reached.filter(|reached| reached < goal) {
            missed.push(format!("{shape}: {reached:.0} deliveries per CPU-second; the goal is {goal:.0}"));
        }
    }
    if let Some(ratio) = nodes_ratio.filter(|ratio| *ratio < NODES_GOAL) {
        missed.push(format!("nodes: two deliver {ratio:.2} times as much as one; the goal is {NODES_GOAL}"));
    }
    missed
}

pub fn product<'a>(shared: &'a Shared, work: &'a WorkFolder, binary: &'a Path) -> Product<'a> {
    Product { binary, work, postgres_programs: shared.postgres_programs.as_deref() }
}

/// Sender and receiver for a server of our own.
pub async fn bench_of(shared: &Shared, shape: &Shape, server: &ServerProcess) -> Result<Bench> {
    let mut target = Target::of_product()?;
    target.set("base", &server.base);
    target.set("key", &server.admin_key);
    Bench::start(target, shared.options(shape)).await
}

/// Unmeasured events; returns how many.
pub async fn warm_up(shared: &Shared, bench: &Bench) -> Result<u64> {
    if shared.warm_up == 0 {
        return Ok(0);
    }
    let load: Load = shapes::warm_up(shared.warm_up);
    let (observed, ()) = bench.transfer(&load, &[], async { Ok(()) }).await?;
    let broken = Figures::of(&observed).broken_promises(false);
    ensure!(broken.is_empty(), "warming up: {}", broken.join(", "));
    Ok(observed.sent.accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_missed_only_by_shapes_that_were_measured() {
        let summary = |shape: &str, rate| Summary {
            shape: shape.into(),
            deliveries_per_cpu_s: Some(rate),
            ..Summary::default()
        };
        assert_eq!(
            missed_goals(&[summary("one-32", 1.0), summary("one-32@postgres", 6000.0)], None),
            Vec::<String>::new()
        );
        let missed = missed_goals(&[summary("keyed-200@postgres", 4499.0)], Some(1.59));
        assert_eq!(missed.len(), 2);
        assert!(missed[0].contains("4499") && missed[1].contains("1.59"), "{missed:?}");
    }
}
