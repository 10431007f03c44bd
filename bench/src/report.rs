//! The lines of the JSON file, and the medians of a shape's runs.

use crate::{
    clock,
    figures::Figures,
    retention::Stretch,
    shapes::Shape,
    statistics::{median, round},
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, io::Write, path::Path, thread};

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    Machine(Machine),
    Run {
        shape: String,
        run: usize,
        /// Which program: a path, or the target's file.
        program: String,
        #[serde(flatten)]
        figures: Box<Figures>,
    },
    Shape(Summary),
    Nodes {
        nodes: usize,
        delivered_per_s: f64,
    },
    Retention(Stretch),
    Comparison(crate::compare::Comparison),
}

/// Where and when the figures were made.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Machine {
    /// When the command began, in UTC.
    pub date: String,
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    pub kernel: String,
    pub command: String,
}

impl Machine {
    pub fn here() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
            value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let kib = field("/proc/meminfo", "MemTotal");
        Self {
            date: clock::rfc3339(clock::unix_seconds()),
            cores: thread::available_parallelism().map_or(0, std::num::NonZero::get),
            processor: field("/proc/cpuinfo", "model name"),
            memory_mib: kib.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Row of a shape in the table: medians of its runs, and sums of what must not happen.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Summary {
    pub shape: String,
    pub about: String,
    pub runs: usize,
    pub disturbed_runs: usize,
    pub cpu_ratio: Option<f64>,
    pub cpu_us_per_delivery: Option<f64>,
    pub cpu_us_per_bare_request: Option<f64>,
    pub deliveries_per_cpu_s: Option<f64>,
    /// Share of the CPU that was the database's.
    pub database_share: Option<f64>,
    pub delivered_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub lost: u64,
    pub duplicates: u64,
    pub bad_signatures: u64,
    /// Peak memory of the server without its database.
    pub peak_mib: Option<f64>,
    pub resident_at_start_mib: Option<f64>,
    pub store_bytes_per_event: Option<f64>,
    pub notes: Vec<String>,
}

impl Summary {
    pub fn of(shape: &Shape, name: &str, runs: &[Figures]) -> Self {
        let of = |figure: &dyn Fn(&Figures) -> Option<f64>| median(runs.iter().filter_map(figure)).map(round);
        let always = |figure: &dyn Fn(&Figures) -> f64| of(&|run| Some(figure(run))).unwrap_or_default();
        let database = |run: &Figures| Some(run.cpu_s.get("postgres")? / run.cpu_s.values().sum::<f64>());
        // Of another product, all that was accounted.
        let peak = |run: &Figures| match run.memory.get("posthaste") {
            Some(own) => Some(own.peak_rss_mib),
            None => run.memory.values().map(|memory| memory.peak_rss_mib).reduce(|sum, next| sum + next),
        };
        Self {
            shape: name.to_owned(),
            about: shape.about.to_owned(),
            runs: runs.len(),
            disturbed_runs: runs.iter().filter(|run| run.disturbed).count(),
            cpu_ratio: of(&|run| run.cpu_ratio),
            cpu_us_per_delivery: of(&|run| run.cpu_us_per_delivery),
            cpu_us_per_bare_request: of(&|run| run.cpu_us_per_bare_request),
            deliveries_per_cpu_s: of(&|run| run.deliveries_per_cpu_s),
            database_share: of(&database),
            delivered_per_s: always(&|run| run.delivered_per_s),
            p50_ms: always(&|run| run.send_to_receive_ms.p50),
            p99_ms: always(&|run| run.send_to_receive_ms.p99),
            p999_ms: always(&|run| run.send_to_receive_ms.p999),
            lost: runs.iter().map(|run| run.lost).sum(),
            duplicates: runs.iter().map(|run| run.duplicates).sum(),
            bad_signatures: runs.iter().map(|run| run.bad_signatures).sum(),
            peak_mib: of(&peak),
            ..Self::default()
        }
    }
}

/// Appends lines to a file as they come, so that an interrupted command leaves what it had measured.
pub struct JsonFile(Option<fs::File>);

impl JsonFile {
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let create =
            |path: &Path| fs::File::create(path).with_context(|| format!("making {}", path.display()));
        let mut file = Self(path.map(create).transpose()?);
        file.add(&Line::Machine(Machine::here()))?;
        Ok(file)
    }

    pub fn add(&mut self, line: &Line) -> Result<()> {
        if let Some(file) = &mut self.0 {
            writeln!(file, "{}", serde_json::to_string(line)?)?;
        }
        Ok(())
    }
}
