//! A temporary PostgreSQL server in a folder of its own. Both are removed when the process that started them is gone, however
//! that ended. It listens on a socket in the folder only, unless it is to speak TLS.

use super::server_shell::ServerShell;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::Write,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Shell script: prints the server's folder, then runs the commands on its input until that ends.
const SERVER_SCRIPT: &str = r#"
trap '' INT TERM HUP
programs=$1 options=$2 identity=$3 primary=$4
# No test of these outlives the machine: in its memory, if there is room, many databases are made and dropped quickly. Whoever
# says where temporary files go is obeyed.
in=${TMPDIR:-/tmp}
[ -z "${TMPDIR-}" ] && [ -w /dev/shm ] && [ "$(df -kP /dev/shm | awk 'NR == 2 { print $4 }')" -gt 6000000 ] && in=/dev/shm
folder=$(mktemp -d "$in/posthaste-postgres.XXXXXX") || exit 1
start() {
    "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w \
        -o "-c listen_addresses= -c unix_socket_directories=$folder $options" start >>"$folder/log" 2>&1
}
stop() {
    "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1
}
if [ -n "$identity" ]; then
    (umask 077 && printf '%s\n' "$identity" >"$folder/identity.pem")
    options="$options -c ssl=on -c ssl_cert_file=$folder/identity.pem -c ssl_key_file=$folder/identity.pem"
fi
if [ -n "$primary" ]; then
    "$programs/pg_basebackup" -D "$folder/data" -h "$primary" -U posthaste -R -c fast --no-sync >"$folder/log" 2>&1
else
    "$programs/initdb" -D "$folder/data" -A trust -U posthaste --no-locale -E UTF8 --no-sync >"$folder/log" 2>&1
fi && start && echo "$folder" || { cat "$folder/log" >&2; rm -rf "$folder"; exit 1; }
while read -r word; do
    "$word" && echo "$word"
done
stop
rm -rf "$folder"
"#;

/// An option with which only committing processes write to the disk, and one process that can be stopped.
pub(crate) const NO_BACKGROUND_WRITES: &str = "-c bgwriter_lru_maxpages=0";

pub(crate) struct TestDatabaseServer {
    pub(crate) folder: String,
    pub(crate) port: u16,
    programs: PathBuf,
    shell: ServerShell,
}

impl TestDatabaseServer {
    pub(crate) fn start() -> Self {
        Self::with_options("")
    }

    /// Starts a server with options, such as `-c fsync=off`.
    pub(crate) fn with_options(options: &str) -> Self {
        Self::make(5432, options, "", "")
    }

    /// Starts a streaming standby of this server, with the same options.
    pub(crate) fn standby(&self, options: &str) -> Self {
        Self::make(5432, options, "", &self.folder)
    }

    /// Starts a server that also listens on loopback, with TLS by this certificate and key, in PEM.
    pub(crate) fn encrypted(identity: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Self::make(port, &format!("-c listen_addresses=127.0.0.1 -c port={port}"), identity, "")
    }

    fn make(port: u16, options: &str, identity: &str, primary: &str) -> Self {
        let programs = postgres_programs();
        let shell =
            ServerShell::start(SERVER_SCRIPT, &[&programs.display().to_string(), options, identity, primary]);
        Self { folder: shell.folder.clone(), port, programs, shell }
    }

    /// Stops the server as if its machine had failed. Returns when it is gone.
    pub(crate) fn crash(&self) {
        self.shell.run_command("stop");
    }

    /// Starts the server after a crash. Returns when it answers.
    pub(crate) fn start_again(&self) {
        self.shell.run_command("start");
    }

    /// Makes the server confirm commits that are only in memory, although a client has read other settings; a crash loses
    /// them. The server must have been started with [`NO_BACKGROUND_WRITES`].
    pub(crate) fn stop_flushing(&self) {
        let ask = |sql| self.run("postgres", sql).unwrap();
        ask("ALTER SYSTEM SET synchronous_commit = off");
        ask("SELECT pg_reload_conf()");
        let flusher = ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
        kill_process(Pid::from_raw(flusher.parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    }

    pub(crate) fn flush_again(&self) {
        for sql in ["ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()"] {
            self.run("postgres", sql).unwrap();
        }
    }

    /// Runs a dump, which may be too long for an argument.
    pub(crate) fn load(&self, database: &str, dump: &str) {
        let mut psql = self.psql(database).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        psql.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
        assert!(psql.wait().unwrap().success(), "the dump was not loaded");
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        let port = self.port.to_string();
        psql.args(["-h", &self.folder, "-p", &port, "-U", "posthaste", "-d", database, "-XAtq"]);
        psql.args(["-v", "ON_ERROR_STOP=1"]);
        psql
    }

    pub(crate) fn address(&self, database: &str) -> String {
        address(&self.folder, database)
    }

    /// Runs statements in a connection of its own.
    pub(crate) fn run(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = self.psql(database).args(["-c", sql]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let said = || format!("{sql}: {}", text(&output.stderr));
        output.status.success().then(|| text(&output.stdout)).ok_or_else(said)
    }
}

/// Returns the address of a database whose server has its socket in this folder.
pub(crate) fn address(folder: &str, database: &str) -> String {
    format!("postgres:///{database}?host={folder}&user=posthaste")
}

/// Returns the folder of PostgreSQL's programs: the newest of this machine, unless `POSTHASTE_TEST_POSTGRES` names another.
#[expect(clippy::disallowed_methods, reason = "how a person asks for another version of the database")]
fn postgres_programs() -> PathBuf {
    if let Some(chosen) = std::env::var_os("POSTHASTE_TEST_POSTGRES") {
        return chosen.into();
    }
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL's server: apt install postgresql");
    let newest = versions
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    newest.expect("PostgreSQL's server: apt install postgresql").join("bin")
}
