//! A throw-away PostgreSQL server in a folder of its own, which is removed with it when whoever started it is gone, however that
//! ended. It listens on a socket in the folder and nowhere else, unless it is to speak TLS.

use super::keeper::Keeper;
use std::{net::TcpListener, path::PathBuf, process::Command};

/// Says where the server is, then does what it is told on its input until that ends.
const SERVE: &str = r#"
trap '' INT TERM HUP
programs=$1 options=$2 identity=$3
# No test of these outlives the machine: in its memory, if there is room, many databases are made and dropped quickly.
in=${TMPDIR:-/tmp}
[ -w /dev/shm ] && [ "$(df -kP /dev/shm | awk 'NR == 2 { print $4 }')" -gt 6000000 ] && in=/dev/shm
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
"$programs/initdb" -D "$folder/data" -A trust -U posthaste --no-locale -E UTF8 --no-sync >"$folder/log" 2>&1 &&
    start && echo "$folder" || { cat "$folder/log" >&2; rm -rf "$folder"; exit 1; }
while read -r word; do
    "$word" && echo "$word"
done
stop
rm -rf "$folder"
"#;

pub(crate) struct Server {
    pub(crate) folder: String,
    pub(crate) port: u16,
    programs: PathBuf,
    keeper: Keeper,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// With options for the server, such as `-c fsync=off`.
    pub(crate) fn with(options: &str) -> Self {
        Self::make(5432, options, "")
    }

    /// Listens on loopback too, and speaks TLS there with this certificate and key, in PEM.
    pub(crate) fn encrypted(identity: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Self::make(port, &format!("-c listen_addresses=127.0.0.1 -c port={port}"), identity)
    }

    fn make(port: u16, options: &str, identity: &str) -> Self {
        let programs = programs();
        let keeper = Keeper::start(SERVE, &[&programs.display().to_string(), options, identity]);
        Self { folder: keeper.folder.clone(), port, programs, keeper }
    }

    /// As if its machine had failed; comes back when it is gone.
    pub(crate) fn crash(&self) {
        self.keeper.tell("stop");
    }

    /// After a crash; comes back when it answers.
    pub(crate) fn start_again(&self) {
        self.keeper.tell("start");
    }

    pub(crate) fn address(&self, database: &str) -> String {
        address(&self.folder, database)
    }

    /// Runs statements beside whoever else is there.
    pub(crate) fn run(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-h",
            &self.folder,
            "-p",
            &self.port.to_string(),
            "-U",
            "posthaste",
            "-d",
            database,
            "-XAtqc",
            sql,
        ]);
        let output = psql.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let said = || format!("{sql}: {}", text(&output.stderr));
        output.status.success().then(|| text(&output.stdout)).ok_or_else(said)
    }
}

/// Of a database whose server has its socket in this folder.
pub(crate) fn address(folder: &str, database: &str) -> String {
    format!("postgres:///{database}?host={folder}&user=posthaste")
}

/// Where the newest PostgreSQL of this machine is.
fn programs() -> PathBuf {
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL's server: apt install postgresql");
    let newest = versions
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    newest.expect("PostgreSQL's server: apt install postgresql").join("bin")
}
