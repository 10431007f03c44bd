//! CPU time and memory of process trees and of the whole machine, read from `/proc`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path, str::FromStr};

/// `/proc` counts in hundredths of a second on every architecture that Linux calls x86 or ARM.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process with everything below it, under the name that the figures give it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub name: String,
    /// A number, or the path of a file whose first line is the number.
    pub pid: String,
}

impl Tree {
    pub fn of(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid: pid.to_string() }
    }

    /// The process id at this moment, if there is one.
    pub fn root(&self) -> Option<u32> {
        let in_file = || fs::read_to_string(&self.pid).ok()?.lines().next()?.trim().parse().ok();
        self.pid.parse().ok().or_else(in_file)
    }
}

impl FromStr for Tree {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pid) = text.split_once('=').ok_or("give NAME=PID or NAME=FILE")?;
        Ok(Self { name: name.to_owned(), pid: pid.to_owned() })
    }
}

/// Fields of a line of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User and system time, with that of children that ended and were waited for.
    ticks: u64,
}

impl Stat {
    /// The second field is the program's name in parentheses, which may contain anything; the fields behind it are numbers.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line[line.rfind(')')? + 1..].split_whitespace().collect();
        let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
        Some(Self { parent: fields[1].parse().ok()?, ticks })
    }

    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// CPU seconds of the whole machine since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCpu {
    pub busy: f64,
    /// Taken by other guests of the same host.
    pub stolen: f64,
}

impl MachineCpu {
    /// Parses the first line of `/proc/stat`: user nice system idle iowait irq softirq steal. Guest time is part of user time.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        let seconds = |ticks: f64| ticks / TICKS_PER_SECOND;
        Some(Self { busy: seconds(user + nice + system + irq + softirq), stolen: seconds(steal) })
    }

    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        Self::parse(&text).context("/proc/stat has another form than expected")
    }
}

/// CPU seconds so far of each tree, by its name.
pub fn cpu_of_trees(trees: &[Tree]) -> Result<BTreeMap<String, f64>> {
    let all = all_processes()?;
    let ticks = |tree: &Tree| below(tree, &all).iter().map(|pid| all[pid].ticks).sum::<u64>();
    Ok(trees.iter().map(|tree| (tree.name.clone(), ticks(tree) as f64 / TICKS_PER_SECOND)).collect())
}

/// Memory of one tree, in MiB.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Memory {
    pub processes: usize,
    /// Sum of the processes' peaks: pages that they share count once for each.
    pub peak_rss_mib: f64,
    pub rss_mib: f64,
    /// Pages that are shared count once.
    pub pss_mib: f64,
}

pub fn memory_of_trees(trees: &[Tree]) -> Result<BTreeMap<String, Memory>> {
    let all = all_processes()?;
    let memory = |tree: &Tree| {
        let pids = below(tree, &all);
        let read =
            |file: &str| pids.iter().map(|pid| text(&format!("/proc/{pid}/{file}"))).collect::<Vec<_>>();
        // Both are read at once: a peak that was read before is below what is resident afterwards.
        let (statuses, rollups) = (read("status"), read("smaps_rollup"));
        let sum = |texts: &[String], key: &str| texts.iter().map(|text| mib(text, key)).sum();
        Memory {
            processes: pids.len(),
            peak_rss_mib: sum(&statuses, "VmHWM:"),
            rss_mib: sum(&statuses, "VmRSS:"),
            pss_mib: sum(&rollups, "Pss:"),
        }
    };
    Ok(trees.iter().map(|tree| (tree.name.clone(), memory(tree))).collect())
}

/// Resident memory of one process, in MiB.
pub fn resident_mib(pid: u32) -> f64 {
    mib(&text(&format!("/proc/{pid}/status")), "VmRSS:")
}

/// A file of a process, empty if that has ended.
fn text(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn mib(text: &str, key: &str) -> f64 {
    let kib =
        text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn all_processes() -> Result<BTreeMap<u32, Stat>> {
    let entries = fs::read_dir("/proc").context("reading /proc")?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect())
}

/// The tree's root and all its descendants.
fn below(tree: &Tree, all: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let Some(root) = tree.root() else { return vec![] };
    let is_below = |pid: u32| {
        let ancestors = std::iter::successors(Some(pid), |pid| all.get(pid).map(|stat| stat.parent));
        ancestors.take_while(|pid| *pid > 0).any(|pid| pid == root)
    };
    all.keys().copied().filter(|pid| is_below(*pid)).collect()
}

/// Bytes of the files below a folder, without those that `is_left_out` names by their paths.
pub fn bytes_below(folder: &Path, is_left_out: &dyn Fn(&Path) -> bool) -> u64 {
    // A file that goes away meanwhile has no size.
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |path: &Path| match fs::symlink_metadata(path) {
        _ if is_left_out(path) => 0,
        Ok(metadata) if metadata.is_dir() => bytes_below(path, is_left_out),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(|entry| bytes(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_gives_parent_and_ticks_whatever_the_program_is_called() {
        let line = "42 (a) S 9 (b c) S 7 42 42 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 5 0 123 1000 50 18446744073709551615";
        assert_eq!(Stat::parse(line), Some(Stat { parent: 7, ticks: 110 }));
        assert_eq!(Stat::parse("42 (short) S 7 42"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn the_first_line_of_the_machine_gives_busy_and_stolen_seconds() {
        let text = "cpu  100 10 200 5000 300 20 30 400 50 0\ncpu0 1 2 3\n";
        assert_eq!(MachineCpu::parse(text), Some(MachineCpu { busy: 3.6, stolen: 4.0 }));
        assert_eq!(MachineCpu::parse("cpu 1 2 3"), None);
        assert!(MachineCpu::now().unwrap().busy > 0.0);
    }

    #[test]
    fn a_tree_is_named_by_number_or_file() {
        let tree: Tree = "server=123".parse().unwrap();
        assert_eq!((tree.name.as_str(), tree.root()), ("server", Some(123)));
        assert_eq!("server=/nowhere".parse::<Tree>().unwrap().root(), None);
        assert!("123".parse::<Tree>().is_err());
    }

    #[test]
    fn a_tree_has_the_descendants_and_no_other_process() {
        let all = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1)];
        let all = all.map(|(pid, parent)| (pid, Stat { parent, ticks: 1 })).into_iter().collect();
        assert_eq!(below(&Tree::of("x", 10), &all), [10, 11, 12]);
        assert_eq!(below(&Tree::of("x", 99), &all), Vec::<u32>::new());
    }

    #[test]
    fn this_process_has_memory_and_a_tree() {
        let own = [Tree::of("own", std::process::id())];
        let memory = memory_of_trees(&own).unwrap()["own"];
        assert!(memory.processes >= 1 && memory.rss_mib > 0.5 && memory.peak_rss_mib >= memory.rss_mib);
        assert!(cpu_of_trees(&own).unwrap().contains_key("own"));
    }
}
