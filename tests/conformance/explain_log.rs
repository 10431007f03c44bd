//! A server that logs the plan of each statement: the indexes used, the blocks read, and the rows read in vain.

use crate::{database::TestDatabaseServer, fixture::Backend};
use posthaste::{
    domain::{database_address::DatabaseAddress, ports::CommitListener},
    store::{
        CommitWatch, Store,
        postgres::{PostgresStore, QueueLimits},
    },
};
use serde_json::{Deserializer, Value};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio_postgres::{Client, NoTls};

const OPTIONS: &str = "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 \
     -c auto_explain.log_format=json -c auto_explain.log_analyze=on -c auto_explain.log_buffers=on -c auto_explain.log_timing=off";

/// A watch by which every commit takes long.
#[derive(Default)]
struct SlowWatch(AtomicU64);

impl CommitWatch for SlowWatch {
    fn started(&self) -> u64 {
        self.0.fetch_add(25_000, Relaxed)
    }

    fn committed(&self, _: u64, _: usize) {}
}

#[derive(Clone)]
pub(crate) struct ExplainServer(Arc<TestDatabaseServer>);

impl Backend for ExplainServer {
    fn open(
        &self,
        commit_listener: Arc<dyn CommitListener>,
        events_max: usize,
        bytes_max: usize,
    ) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = DatabaseAddress::parse(&self.0.address("postgres")).unwrap();
        let watch = Arc::new(SlowWatch::default());
        Arc::new(PostgresStore::open(&address, commit_listener, watch, limits, Duration::ZERO).unwrap())
    }
}

impl ExplainServer {
    pub(crate) fn new() -> Self {
        Self(Arc::new(TestDatabaseServer::with_options(OPTIONS)))
    }

    /// Opens a snapshot: the server keeps all current rows until the client is dropped.
    pub(crate) async fn snapshot(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.0.address("postgres"), NoTls).await.unwrap();
        tokio::spawn(connection);
        let keep = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM posthaste.config_version";
        client.batch_execute(keep).await.unwrap();
        client
    }

    /// Runs a statement without logging its plan.
    pub(crate) fn run(&self, sql: &str) -> String {
        let quietly = "SET search_path = posthaste; SET auto_explain.log_min_duration = -1";
        self.0.run("postgres", &format!("{quietly}; {sql}")).unwrap()
    }

    /// Returns the current length of the log.
    pub(crate) fn written(&self) -> u64 {
        self.log().metadata().unwrap().len()
    }

    /// Returns the plans logged since that length.
    pub(crate) fn since(&self, written: u64) -> Vec<StatementPlan> {
        let (mut log, mut bytes) = (self.log(), Vec::new());
        log.seek(SeekFrom::Start(written)).unwrap();
        log.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).split("LOG:  duration").filter_map(StatementPlan::read).collect()
    }

    fn log(&self) -> File {
        File::open(format!("{}/log", self.0.folder)).unwrap()
    }

    /// Hides an index from the planner, or shows it again the second time. The index is kept up to date meanwhile.
    pub(crate) fn toggle(&self, index: &str) {
        self.run(&format!(
            "CREATE TEMP TABLE toggled AS SELECT i.indexrelid, i.indrelid FROM pg_index i
                 WHERE i.indexrelid IN (SELECT relid FROM pg_partition_tree('{index}') UNION SELECT '{index}'::regclass);
             UPDATE pg_index SET indisvalid = NOT indisvalid WHERE indexrelid IN (SELECT indexrelid FROM toggled);
             UPDATE pg_class SET relname = relname WHERE oid IN (SELECT indrelid FROM toggled)"
        ));
    }
}

/// The plan of one statement.
pub(crate) struct StatementPlan {
    pub(crate) query: String,
    /// The whole plan.
    pub(crate) text: String,
    /// Blocks read, from memory or disk.
    pub(crate) blocks: u64,
    /// Rows read that did not match.
    pub(crate) passed_over: u64,
}

impl StatementPlan {
    fn read(entry: &str) -> Option<Self> {
        let (_, document) = entry.split_once("plan:")?;
        let said: Value = match Deserializer::from_str(document).into_iter().next()? {
            // Another connection's entry that is not completely written yet.
            Err(error) if error.is_eof() => return None,
            said => said.unwrap(),
        };
        let top = &said["Plan"];
        Some(Self {
            query: said["Query Text"].as_str()?.to_owned(),
            text: format!("{said:#}"),
            blocks: number(top, "Shared Hit Blocks") + number(top, "Shared Read Blocks"),
            passed_over: passed_over(top),
        })
    }
}

fn number(node: &Value, name: &str) -> u64 {
    node[name].as_f64().unwrap_or(0.0).round() as u64
}

fn passed_over(node: &Value) -> u64 {
    let reasons = ["Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck"];
    // The table for rows of no day holds only the few rows of this test, so no index would help.
    if node["Relation Name"].as_str().is_some_and(|table| table.ends_with("_rest")) {
        return 0;
    }
    // The server reports the average per loop.
    let here = reasons.iter().map(|reason| number(node, reason)).sum::<u64>() * number(node, "Actual Loops");
    let below = node["Plans"].as_array().into_iter().flatten();
    here + below.map(passed_over).sum::<u64>()
}

/// An operation with the plans of its statements.
pub(crate) struct OperationPlans {
    pub(crate) what: &'static str,
    /// The limits of each statement: blocks read, and rows read in vain.
    limits: (u64, u64),
    pub(crate) plans: Vec<StatementPlan>,
}

impl OperationPlans {
    /// Returns the first statement that exceeds the limits or scans a large table.
    pub(crate) fn first_excess(&self) -> Option<&StatementPlan> {
        let tables =
            ["events_2024", "deliveries_ended_2024", "attempts_2024", "deliveries_open", "dedup", "inbox"];
        let goes_through = |plan: &StatementPlan, table: &str| {
            let scans = plan.text.split("\"Seq Scan\"").skip(1);
            scans.into_iter().any(|scan| {
                scan.split_once('}').is_some_and(|(scan, _)| scan.contains(&format!("\"{table}")))
            })
        };
        self.plans.iter().find(|plan| {
            plan.blocks > self.limits.0
                || plan.passed_over > self.limits.1
                || tables.iter().any(|table| goes_through(plan, table))
        })
    }

    pub(crate) fn figures(&self) -> String {
        let most = |of: fn(&StatementPlan) -> u64| self.plans.iter().map(of).max().unwrap_or_default();
        let (blocks, passed_over) = (most(|plan| plan.blocks), most(|plan| plan.passed_over));
        format!(
            "{}: {} statements, at most {blocks} blocks, {passed_over} rows passed over",
            self.what,
            self.plans.len()
        )
    }
}

/// The plans of the operations on a fixture, in order.
pub(crate) struct PlanLog<'a> {
    pub(crate) server: &'a ExplainServer,
    written: u64,
    pub(crate) taken: Vec<OperationPlans>,
}

impl<'a> PlanLog<'a> {
    pub(crate) fn of(server: &'a ExplainServer) -> Self {
        Self { server, written: server.written(), taken: Vec::new() }
    }

    pub(crate) fn take(&mut self, what: &'static str, most: (u64, u64)) {
        let plans = self.server.since(self.written);
        assert!(!plans.is_empty(), "{what}: nothing was explained");
        self.written = self.server.written();
        let answered = OperationPlans { what, limits: most, plans };
        println!("{}", answered.figures());
        self.taken.push(answered);
    }
}
