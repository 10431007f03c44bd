//! A throw-away PostgreSQL server with its defaults, on a socket in a folder of its own.

use crate::{
    children::{self, Child},
    procs,
};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, geteuid};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::Command;

/// A disk, unlike `/tmp` on many machines, where anybody may write. Below a checkout the path can be too long for a socket
/// and closed to the user that PostgreSQL runs as.
const FOLDER: &str = "/var/tmp";
/// `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;
const READY_WITHIN: Duration = Duration::from_secs(30);

pub struct Postgres {
    folder: PathBuf,
    /// None once it was stopped.
    child: Option<Child>,
}

impl Postgres {
    /// With an empty database, `postgres`.
    pub async fn start(programs: Option<&Path>) -> Result<Self> {
        let programs = match programs {
            Some(programs) => programs.to_owned(),
            None => newest_programs()?,
        };
        let folder = Path::new(FOLDER).join(format!(
            "posthaste-bench-{}-{:08x}",
            std::process::id(),
            fastrand::u32(..)
        ));
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut postgres = Self { folder, child: None };
        if geteuid().is_root() {
            std::os::unix::fs::chown(&postgres.folder, Some(NOBODY), Some(NOBODY))?;
        }
        postgres.initialise(&programs).await?;
        let mut command = children::tied(&programs.join("postgres"), "QUIT");
        command.arg("-D").arg(postgres.data());
        command.args(["-c", "listen_addresses=", "-c"]);
        command.arg(format!("unix_socket_directories={}", postgres.folder.display()));
        command.stdout(Stdio::null()).stderr(fs::File::create(postgres.log())?);
        postgres.child = Some(Child::start(as_nobody(command, &postgres.folder))?);
        postgres.wait(&programs).await?;
        Ok(postgres)
    }

    async fn initialise(&self, programs: &Path) -> Result<()> {
        let mut command = Command::new(programs.join("initdb"));
        command.arg("-D").arg(self.data());
        command.args(["-A", "trust", "-U", "posthaste", "--no-locale", "-E", "UTF8", "--no-sync"]);
        let output =
            as_nobody(command, &self.folder).kill_on_drop(true).output().await.context("running initdb")?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    async fn wait(&mut self, programs: &Path) -> Result<()> {
        let folder = self.folder.clone();
        let is_ready = || async {
            let mut command = Command::new(programs.join("pg_isready"));
            command.arg("-q").arg("-h").arg(&folder).kill_on_drop(true);
            command.status().await.is_ok_and(|status| status.success()).then_some(())
        };
        if children::wait_for(READY_WITHIN, is_ready).await.is_none() {
            bail!("PostgreSQL is not ready: {}", fs::read_to_string(self.log()).unwrap_or_default());
        }
        Ok(())
    }

    /// As the product's `store` setting.
    pub fn store(&self) -> String {
        format!("postgres:///postgres?host={}&user=posthaste", self.folder.display())
    }

    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Bytes of tables and indexes, without the write-ahead log.
    pub fn bytes(&self) -> u64 {
        procs::bytes_below(&self.data().join("base"), &|_| false)
    }

    /// Writes everything to its place and ends.
    pub async fn stop(&mut self) -> Result<()> {
        match self.child.take() {
            Some(child) => child.stop(Signal::INT).await,
            None => Ok(()),
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What is still running is killed with its handle; its processes notice that at once, and the folder is not needed.
        drop(self.child.take());
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn as_nobody(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn newest_programs() -> Result<PathBuf> {
    let versions =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.filter(|path| path.join("bin/initdb").exists()).max_by_key(number);
    Ok(newest.context("there is no PostgreSQL server on this machine (apt install postgresql)")?.join("bin"))
}
