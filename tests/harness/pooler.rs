//! A temporary PgBouncer in front of a temporary server, with pooling by transaction. It listens on a socket in a folder of its
//! own, and is removed when the process that started it is gone.

use super::{database::address, server_shell::ServerShell};

const POOLER_SCRIPT: &str = r#"
trap '' INT TERM HUP
server=$1
folder=$(mktemp -d "${TMPDIR:-/tmp}/posthaste-pooler.XXXXXX") || exit 1
cat >"$folder/pooler.ini" <<END
[databases]
* = host=$server port=5432 user=posthaste
[pgbouncer]
pool_mode = transaction
default_pool_size = $2
max_client_conn = 1000
server_login_retry = 1
listen_addr =
listen_port = 5432
unix_socket_dir = $folder
auth_type = any
logfile = $folder/log
END
start() {
    PATH=$PATH:/usr/sbin pgbouncer -q "$folder/pooler.ini" </dev/null >/dev/null 2>>"$folder/log" &
    pooler=$!
    until [ -S "$folder/.s.PGSQL.5432" ]; do
        kill -0 "$pooler" 2>/dev/null || return 1
        sleep 0.02
    done
}
stop() {
    kill -KILL "$pooler" && wait "$pooler"
    rm -f "$folder/.s.PGSQL.5432"
}
start && echo "$folder" || { cat "$folder/log" >&2; rm -rf "$folder"; exit 1; }
while read -r word; do
    "$word" && echo "$word"
done
stop
rm -rf "$folder"
"#;

/// How many server connections the pooler has.
pub(crate) const POOL_CONNECTIONS: usize = 4;

pub(crate) struct Pooler(ServerShell);

impl Pooler {
    /// Starts a pooler for a server whose socket is in this folder.
    pub(crate) fn start_for(server: &str) -> Self {
        Self(ServerShell::start(POOLER_SCRIPT, &[server, &POOL_CONNECTIONS.to_string()]))
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> &str {
        &self.0.folder
    }

    /// Kills the pooler, and so closes its connections.
    pub(crate) fn kill(&self) {
        self.0.run_command("stop");
    }

    pub(crate) fn start_again(&self) {
        self.0.run_command("start");
    }

    /// The address without `pooler=true`, as for a server.
    pub(crate) fn address_as_server(&self, database: &str) -> String {
        address(&self.0.folder, database)
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("{}&pooler=true", self.address_as_server(database))
    }
}
