//! The product under measurement: its own process on a fresh store, ready when it says so.

use crate::{
    api::Api,
    children::{self, Child},
    clock,
    postgres::Postgres,
    procs::{self, Tree},
};
use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::process::Signal;
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

const READY_WITHIN: Duration = Duration::from_mins(1);
const LOG_LINES: usize = 20;

/// Where the measurement keeps its files while it runs; removed in the end.
pub struct WorkFolder(PathBuf);

impl WorkFolder {
    pub fn below(folder: &Path) -> Result<Self> {
        let own = folder.join(format!("work-{}", std::process::id()));
        fs::create_dir_all(&own).with_context(|| format!("making {}", own.display()))?;
        Ok(Self(fs::canonicalize(own)?))
    }

    /// A new folder in it, whose name begins like this.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(format!("{name}-{:08x}", fastrand::u32(..)));
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

/// A program and what it is started with.
pub struct Product<'a> {
    pub binary: &'a Path,
    pub work: &'a WorkFolder,
    pub postgres_programs: Option<&'a Path>,
}

/// An empty store, which several nodes may share.
pub enum BenchStore {
    Sqlite(PathBuf),
    Postgres(Postgres),
}

impl BenchStore {
    pub async fn fresh(product: &Product<'_>, kind: StoreKind) -> Result<Self> {
        Ok(match kind {
            StoreKind::Sqlite => Self::Sqlite(product.work.fresh("store")?),
            StoreKind::Postgres => Self::Postgres(Postgres::start(product.postgres_programs).await?),
        })
    }

    fn setting(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.join("posthaste.db").display()),
            Self::Postgres(postgres) => postgres.store(),
        }
    }

    fn tree(&self) -> Option<Tree> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(postgres) => Some(Tree::of("postgres", postgres.id()?)),
        }
    }

    /// Bytes of tables and indexes, without logs.
    fn bytes(&self) -> u64 {
        let is_log =
            |path: &Path| path.extension().is_some_and(|ending| ending == "db-wal" || ending == "db-shm");
        match self {
            Self::Sqlite(folder) => procs::bytes_below(folder, &is_log),
            Self::Postgres(postgres) => postgres.bytes(),
        }
    }
}

pub struct ServerProcess {
    pub base: String,
    pub admin_key: String,
    pub store: BenchStore,
    node: NodeProcess,
    bytes_at_start: u64,
}

impl ServerProcess {
    pub async fn fresh(product: &Product<'_>, kind: StoreKind, settings: &[(&str, &str)]) -> Result<Self> {
        let store = BenchStore::fresh(product, kind).await?;
        let keys = Keys::random();
        let mut node = NodeProcess::new(product, &store, &keys, settings)?;
        node.start().await?;
        let bytes_at_start = store.bytes();
        Ok(Self { base: node.base.clone(), admin_key: keys.admin, store, node, bytes_at_start })
    }

    pub fn api(&self) -> Result<Api> {
        Api::with_key(&self.base, &self.admin_key)
    }

    /// The server and its database.
    pub fn trees(&self) -> Vec<Tree> {
        let own = self.node.id().map(|pid| Tree::of("posthaste", pid));
        own.into_iter().chain(self.store.tree()).collect()
    }

    pub fn resident_mib(&self) -> f64 {
        self.node.id().map_or(0.0, procs::resident_mib)
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        self.node.kill().await
    }

    /// Starts again on the same store and port, and returns the seconds until it was ready.
    pub async fn restart(&mut self) -> Result<f64> {
        self.node.start().await
    }

    /// Stops the server, then its database, and returns by how many bytes the store has grown.
    pub async fn stop(mut self) -> Result<u64> {
        self.node.stop().await?;
        if let BenchStore::Postgres(postgres) = &mut self.store {
            postgres.stop().await?;
        }
        let grown = self.store.bytes().saturating_sub(self.bytes_at_start);
        if let BenchStore::Sqlite(folder) = &self.store {
            drop(fs::remove_dir_all(folder));
        }
        Ok(grown)
    }
}

/// Keys that the nodes of one store share.
pub struct Keys {
    pub admin: String,
    encryption: String,
}

impl Keys {
    pub fn random() -> Self {
        let bytes: Vec<u8> = (0..32).map(|_| fastrand::u8(..)).collect();
        Self { admin: format!("bench-{:032x}", fastrand::u128(..)), encryption: STANDARD.encode(bytes) }
    }
}

/// Process of the product.
pub struct NodeProcess {
    pub base: String,
    binary: PathBuf,
    settings: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl NodeProcess {
    pub fn new(
        product: &Product<'_>,
        store: &BenchStore,
        keys: &Keys,
        further: &[(&str, &str)],
    ) -> Result<Self> {
        let listen = format!("127.0.0.1:{}", free_port()?);
        let own = [
            ("LISTEN", listen.as_str()),
            ("STORE", &store.setting()),
            ("ADMIN_KEY", &keys.admin),
            ("ENCRYPTION_KEY", &keys.encryption),
            ("ALLOW_ADDRESSES", "127.0.0.0/8"),
            ("HTTPS_ONLY", "false"),
        ];
        let setting = |(name, value): &(&str, &str)| (format!("POSTHASTE_{name}"), (*value).to_owned());
        Ok(Self {
            base: format!("http://{listen}"),
            binary: product.binary.to_owned(),
            settings: own.iter().chain(further).map(setting).collect(),
            log: product.work.fresh("node")?.join("log"),
            child: None,
        })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the seconds from the start of the process until it is ready.
    pub async fn start(&mut self) -> Result<f64> {
        let began_ns = clock::now_ns();
        let mut command = children::tied(&self.binary, "KILL");
        command.arg("serve").envs(self.settings.iter().map(|(name, value)| (name, value)));
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        command.stdout(log.try_clone()?).stderr(log);
        let mut child = Child::start(command)?;
        let address = self.base.trim_start_matches("http://");
        loop {
            if is_ready(address).await {
                self.child = Some(child);
                return Ok(clock::seconds_between(began_ns, clock::now_ns()));
            }
            if child.has_ended()
                || clock::seconds_between(began_ns, clock::now_ns()) > READY_WITHIN.as_secs_f64()
            {
                bail!("the server is not ready; its log ends with:\n{}", last_lines(&self.log));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn kill(&mut self) -> Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await,
            None => Ok(()),
        }
    }

    pub async fn stop(&mut self) -> Result<()> {
        match self.child.take() {
            Some(child) => child.stop(Signal::TERM).await,
            None => Ok(()),
        }
    }
}

/// Whether `/readyz` answers 200. A refused connection is no error here.
async fn is_ready(address: &str) -> bool {
    if tokio::net::TcpStream::connect(address).await.is_err() {
        return false;
    }
    let Ok(api) = Api::of(&format!("http://{address}"), vec![]) else { return false };
    tokio::time::timeout(Duration::from_secs(1), api.get("/readyz")).await.is_ok_and(|answer| answer.is_ok())
}

/// Returns a free port. The system gives ports out in turn, so another process is unlikely to get it before the server listens.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.port())
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
