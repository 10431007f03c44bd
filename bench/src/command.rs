//! The command line, and an end that leaves nothing running.

use crate::{compare, load::Options, procs::Tree, receiver, run, sender, shapes, shapes::Shape};
use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// Measures a webhook sender under load.
///
/// Starts the product on a fresh store, publishes events from one process, receives the webhooks in another, and checks each
/// for loss, duplication and signature. The headline is the CPU time of a delivery, the database's included, divided by that
/// of a bare request from the same sender to the same receiver, measured right before and after. bench/README.md defines
/// every figure.
#[derive(Parser)]
#[command(version, after_long_help = shapes_help())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure shapes and print tables
    ///
    /// Exits with 1 where a goal is missed, or where something was lost, repeated without a crash, or wrongly signed.
    #[command(after_long_help = shapes_help())]
    Run(RunArguments),
    /// Compare two builds of the product, in turn, and say whether the new one is slower
    ///
    /// Ten runs of each per shape, each on a fresh server and store. They are compared by the third best deliveries per
    /// CPU-second, and by the median of five starts' resident memory 30 s after each. Exits with 1 where a bound is missed.
    Compare(CompareArguments),
    #[command(hide = true)]
    Sender {
        #[arg(long)]
        threads: usize,
    },
    #[command(hide = true)]
    Receiver {
        #[arg(long)]
        threads: usize,
    },
}

#[derive(Args)]
pub struct RunArguments {
    /// Shapes, all if absent; with @postgres on a throw-away PostgreSQL server
    #[arg(value_name = "SHAPE")]
    pub shapes: Vec<String>,
    /// The product's program [default: posthaste beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub binary: Option<PathBuf>,
    /// Runs per shape on one server [default: 3, or 1 at a fixed pace]
    #[arg(long, value_name = "N")]
    pub runs: Option<usize>,
    /// Measure another product, which already runs; the file describes its API
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// Set a variable of the description
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable, requires = "target")]
    pub variables: Vec<(String, String)>,
    /// Count the CPU and memory of this process and all below it; a number, or a file with one
    #[arg(long = "pid", value_name = "NAME=PID", requires = "target")]
    pub pids: Vec<Tree>,
    /// Start the product again after the kill of the shape `crash`; must come back once it is started
    #[arg(long, value_name = "COMMAND", requires = "target")]
    pub restart_command: Option<String>,
    #[command(flatten)]
    pub shared: Shared,
}

#[derive(Args)]
pub struct CompareArguments {
    /// Program of the build before
    pub old: PathBuf,
    /// Program of the build to judge
    pub new: PathBuf,
    /// Shapes with deliveries per CPU-second; none compares the memory alone
    #[arg(value_name = "SHAPE")]
    pub shapes: Vec<String>,
    /// Runs of each program per shape; fewer than ten are a short look
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub runs: usize,
    /// Least NEW ÷ OLD of the deliveries per CPU-second
    #[arg(long, value_name = "RATIO", default_value_t = 0.97)]
    pub at_least: f64,
    /// Greatest NEW ÷ OLD of the resident memory
    #[arg(long, value_name = "RATIO", default_value_t = 1.03)]
    pub memory_at_most: f64,
    /// Leave the memory out
    #[arg(long)]
    pub skip_memory: bool,
    #[command(flatten)]
    pub shared: Shared,
}

#[derive(Args)]
pub struct Shared {
    /// Events per run instead of the shape's own number
    #[arg(long, value_name = "N")]
    pub events: Option<usize>,
    /// Unmeasured events sent to each fresh server
    #[arg(long, value_name = "N", default_value_t = shapes::WARM_UP_EVENTS)]
    pub warm_up: usize,
    /// Bare requests before each run, and as many behind it; 0 leaves the ratio out
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub bare: usize,
    /// Size of an event's data
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub payload: usize,
    /// Seconds without an arrival after which what is missing is lost [default: 60, or as the shape needs]
    #[arg(long, value_name = "SECONDS")]
    pub settle: Option<u64>,
    /// Threads of the sender, and of the receiver
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Write every run as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot of the shapes
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Folder for stores and logs while they are needed; on a real disk
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    pub work: PathBuf,
    /// Folder of PostgreSQL's programs [default: the newest below /usr/lib/postgresql]
    #[arg(long, value_name = "FOLDER")]
    pub postgres_programs: Option<PathBuf>,
}

impl Shared {
    pub fn options(&self, shape: &Shape) -> Options {
        Options {
            payload_bytes: self.payload,
            settle: self.settle.map_or_else(|| shape.settle(), Duration::from_secs),
            bare_requests: self.bare,
            threads: self.threads,
        }
    }

    /// The product's program, which must be there. Absolute, because it is started from elsewhere.
    pub fn product(&self, given: Option<&Path>) -> Result<PathBuf> {
        let binary = match given {
            Some(binary) => binary.to_owned(),
            None => std::env::current_exe()?.with_file_name("posthaste"),
        };
        ensure!(binary.is_file(), "there is no program {}; cargo build --release makes it", binary.display());
        binary.canonicalize().with_context(|| format!("finding {}", binary.display()))
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn shapes_help() -> String {
    let lines = shapes::ROWS.iter().map(|row| {
        let when = if row.by_name_only { " (only if named)" } else { "" };
        format!("  {:<14} {}{when}\n", row.name, row.about)
    });
    let any = "waiting-N and endpoints-N measure any number, as 500, 20k or 2m.";
    format!("Shapes:\n{}{any}\n", lines.collect::<String>())
}

pub fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::Sender { threads } => sender::serve(threads).map(|()| true),
        Command::Receiver { threads } => receiver::serve(threads).map(|()| true),
        Command::Run(arguments) => until_interrupted(run::run(&arguments)),
        Command::Compare(arguments) => until_interrupted(compare::compare(&arguments)),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("posthaste-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the work on one thread, which lives as long as the program: the kernel ends children together with the thread that started them.
fn until_interrupted(work: impl Future<Output = Result<bool>>) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        // Whatever work has started ends when it is dropped.
        let interrupted = || Err(anyhow::anyhow!("interrupted; everything that was started is stopped"));
        tokio::select! {
            ended = work => ended,
            _ = interrupt.recv() => interrupted(),
            _ = terminate.recv() => interrupted(),
            _ = hangup.recv() => interrupted(),
        }
    })
}
