-- The schema of the embedded store; `migrations/` leads older files here. Ids are time-ordered integers, so tables grow at
-- their right edge and need no index on time. `queue` of a delivery is the endpoint's id while it waits; in flight it is the
-- negated epoch of the node that sends it (0 with one process); otherwise it is NULL.

CREATE TABLE apps (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE endpoints (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    uid TEXT NOT NULL,
    settings TEXT NOT NULL,
    disabled TEXT,
    encrypted_headers BLOB,
    encrypted_tls BLOB,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    UNIQUE (app, uid)
) STRICT;

CREATE TABLE secrets (
    endpoint INTEGER NOT NULL,
    position INTEGER NOT NULL,
    encrypted BLOB NOT NULL,
    valid_from INTEGER NOT NULL,
    valid_until INTEGER,
    PRIMARY KEY (endpoint, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    prefix TEXT NOT NULL,
    scope TEXT NOT NULL,
    app INTEGER,
    name TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    theme TEXT
) STRICT;

CREATE INDEX keys_of_portals ON keys (app, expires_at) WHERE scope IN ('portal', 'portal_read');

CREATE TABLE contracts (
    hash BLOB PRIMARY KEY,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event_types (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- Deleted apps whose events and deliveries are still being removed, and the id up to which that is done.
CREATE TABLE app_deletions (
    app INTEGER PRIMARY KEY,
    deleted_up_to INTEGER NOT NULL
) STRICT;

-- The largest id at the last deletion of rows: no id is assigned twice, even if the clock is set back.
CREATE TABLE id_watermark (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    type TEXT NOT NULL,
    external_id TEXT,
    created_at INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    key TEXT,
    deliver_at INTEGER,
    skipped INTEGER NOT NULL,
    dedup BLOB,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    event INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason INTEGER,
    retry_index INTEGER NOT NULL,
    attempt_count INTEGER NOT NULL,
    history_len INTEGER NOT NULL,
    queue INTEGER,
    due INTEGER,
    due_action INTEGER NOT NULL,
    give_up_at INTEGER,
    finished_at INTEGER,
    held_at INTEGER,
    root INTEGER,
    replay_of INTEGER,
    return_to TEXT,
    restarted_at INTEGER,
    ordering_key INTEGER,
    manual INTEGER,
    skipped_at INTEGER,
    order_seq INTEGER,
    CHECK (state BETWEEN 0 AND 7),
    CHECK ((state >= 4) = (finished_at IS NOT NULL)),
    CHECK ((state >= 5) = (reason IS NOT NULL)),
    CHECK ((state = 3) = (held_at IS NOT NULL)),
    -- IS, because a CHECK passes NULL: a waiting delivery in no queue would never be found.
    CHECK (CASE WHEN state <= 1 THEN queue IS endpoint AND due IS NOT NULL WHEN state = 2 THEN queue IS NOT NULL AND queue <= 0 ELSE queue IS NULL END),
    CHECK (return_to IS NULL OR state IN (0, 2, 3) AND return_to GLOB '[1567],*'),
    CHECK (ordering_key IS NULL OR state <= 3 OR state = 5),
    CHECK (CASE WHEN due IS 253402300799000 THEN ordering_key IS NOT NULL AND order_seq IS NOT NULL AND state IN (0, 3) ELSE order_seq IS NULL END)
) STRICT;

CREATE INDEX deliveries_by_queue ON deliveries (queue, due) WHERE queue IS NOT NULL;
-- A probe takes the first of these when nothing is due.
CREATE INDEX deliveries_retrying ON deliveries (queue, due) WHERE state = 1 AND due_action = 0;
CREATE INDEX deliveries_held ON deliveries (endpoint) WHERE state = 3;
CREATE INDEX deliveries_dead ON deliveries (app, finished_at) WHERE state = 5;
-- Manually requested deliveries are found in a queue of any length.
CREATE INDEX deliveries_manual ON deliveries (queue, due)
    WHERE queue IS NOT NULL AND state = 0 AND manual IS NOT NULL;
-- The first deliveries of an event follow its id; only later ones (replays, backfills) need an index.
CREATE INDEX deliveries_later ON deliveries (event) WHERE id > event + 65535;

-- Ordering groups: (endpoint, ordering_key). Each has at most one head, which waits, is in flight, is held, or is dead and
-- blocks; the others are queued behind it, due at the end of the year 9999, which means never. `order_seq` follows the order of
-- the commits that queued them.
CREATE UNIQUE INDEX deliveries_order_head ON deliveries (endpoint, ordering_key) WHERE ordering_key IS NOT NULL AND due IS NOT 253402300799000;
CREATE INDEX deliveries_order_queue ON deliveries (endpoint, ordering_key, order_seq) WHERE ordering_key IS NOT NULL AND due = 253402300799000;
CREATE INDEX deliveries_blocking ON deliveries (endpoint) WHERE ordering_key IS NOT NULL AND state = 5;

CREATE TABLE attempts (
    delivery INTEGER NOT NULL,
    position INTEGER NOT NULL,
    number INTEGER,
    started_at INTEGER NOT NULL,
    total_us INTEGER NOT NULL,
    dns_us INTEGER,
    connect_us INTEGER,
    tls_us INTEGER,
    first_byte_us INTEGER,
    address TEXT,
    status INTEGER,
    class INTEGER NOT NULL,
    error TEXT,
    contract BLOB,
    revision INTEGER,
    response_headers BLOB,
    response_body BLOB,
    url TEXT,
    note TEXT,
    PRIMARY KEY (delivery, position)
) STRICT, WITHOUT ROWID;

-- The producer's event ids and Idempotency-Keys, hashed with their app. `events.dedup` has the keys of an event, 16 bytes each,
-- so that they are deleted with it.
CREATE TABLE dedup (
    key BLOB PRIMARY KEY,
    event INTEGER NOT NULL,
    fingerprint BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Replays and backfills. `reached` is the last id that was examined.
CREATE TABLE replays (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    selection TEXT NOT NULL,
    per_second INTEGER NOT NULL,
    state INTEGER NOT NULL,
    from_id INTEGER NOT NULL,
    to_id INTEGER NOT NULL,
    reached INTEGER NOT NULL,
    total INTEGER NOT NULL,
    replayed INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    last_refusal TEXT,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ran_ms INTEGER NOT NULL DEFAULT 0,
    CHECK (state BETWEEN 0 AND 3)
) STRICT;

CREATE INDEX replays_by_app ON replays (app, id);
CREATE INDEX replays_running ON replays (id) WHERE state = 0;

-- Inspections of receivers. At most one of an endpoint waits (0) or runs (1); a finished one (2) has a report.
CREATE TABLE inspections (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    report TEXT,
    epoch INTEGER,
    CHECK (state BETWEEN 0 AND 4),
    CHECK ((state >= 2) = (finished_at IS NOT NULL)),
    CHECK ((state = 2) = (report IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX inspections_open ON inspections (endpoint) WHERE state < 2;
CREATE INDEX inspections_by_endpoint ON inspections (endpoint);

-- Changes with their keys and times, written in the transaction of the change. `app` is NULL where no app is concerned.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key INTEGER NOT NULL,
    key_name TEXT,
    scope TEXT NOT NULL,
    app INTEGER,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    detail TEXT
) STRICT;

CREATE INDEX audit_by_app ON audit (app, id);

-- The outbox of notices. A digest counts events until it closes, which clears `open_until`. `email_state` is the state of its
-- e-mail, `email_group` the first notice of the e-mail that it is sent in, `webhook_pending` 1 until its operational webhook is
-- published.
CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    endpoint INTEGER,
    delivery INTEGER,
    replay INTEGER,
    at INTEGER NOT NULL,
    details TEXT NOT NULL,
    event TEXT,
    digest TEXT,
    count INTEGER NOT NULL,
    open_until INTEGER,
    email_state INTEGER NOT NULL,
    email_group INTEGER,
    email_error TEXT,
    emailed_at INTEGER,
    webhook_pending INTEGER NOT NULL
) STRICT;

CREATE INDEX notices_by_app ON notices (app, id);
CREATE INDEX notices_by_age ON notices (at);
CREATE INDEX notices_to_email ON notices (app, kind, id) WHERE email_state = 1 AND open_until IS NULL;
CREATE INDEX notices_in_emails ON notices (app, email_group) WHERE email_state = 1 AND email_group IS NOT NULL;
CREATE INDEX notices_to_publish ON notices (id) WHERE webhook_pending = 1;
CREATE INDEX notices_digests ON notices (app, kind, open_until) WHERE open_until IS NOT NULL;
CREATE INDEX notices_closing ON notices (open_until) WHERE open_until IS NOT NULL;

-- Health of endpoints that failed since they were made or enabled; one without a row is healthy. `..._clock` is outage-adjusted
-- time in milliseconds.
CREATE TABLE health (
    endpoint INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    consecutive_failures INTEGER NOT NULL,
    failed_events INTEGER NOT NULL,
    first_failed_at INTEGER,
    first_failed_clock INTEGER,
    last_error TEXT,
    warned_at INTEGER,
    warned_clock INTEGER,
    successes INTEGER NOT NULL,
    degraded_since INTEGER,
    failing_since INTEGER,
    healthy_since INTEGER,
    notified_channel INTEGER,
    notified_since INTEGER,
    paused_until INTEGER,
    paused_status INTEGER
) STRICT;

CREATE INDEX health_in_trouble ON health (app) WHERE degraded_since IS NOT NULL OR failing_since IS NOT NULL;
CREATE INDEX health_failed ON health (endpoint) WHERE first_failed_at IS NOT NULL;
CREATE INDEX health_degraded ON health (endpoint) WHERE degraded_since IS NOT NULL;

-- Counters of attempts and ended deliveries by endpoint, in rows of a minute (`width` 60), an hour (3600) and a day (86400).
-- Endpoint 0 is all of an app, app 0 is all apps. `latency` counts attempts by bucket n, up to 2^n microseconds; `outcomes` counts
-- them by status or class, negative for failures; `dead_excused` are dead deliveries that do not count against the receiver.
CREATE TABLE statistics (
    app INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    width INTEGER NOT NULL,
    start INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    total_us INTEGER NOT NULL,
    latency TEXT NOT NULL,
    last_ok_at INTEGER,
    events INTEGER NOT NULL,
    outcomes TEXT NOT NULL,
    dead_excused INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    PRIMARY KEY (app, endpoint, width, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX statistics_by_age ON statistics (width, start);

-- Counters by event type; type * is all types beyond the limit.
CREATE TABLE statistics_by_type (
    app INTEGER NOT NULL,
    type TEXT NOT NULL,
    width INTEGER NOT NULL,
    start INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    total_us INTEGER NOT NULL,
    latency TEXT NOT NULL,
    last_ok_at INTEGER,
    events INTEGER NOT NULL,
    outcomes TEXT NOT NULL,
    dead_excused INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    PRIMARY KEY (app, width, start, type)
) STRICT, WITHOUT ROWID;

CREATE INDEX statistics_by_type_by_age ON statistics_by_type (width, start);

-- Counters of each commit, until they are rolled up.
CREATE TABLE statistics_log (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL
) STRICT;

-- The outage-adjusted time, the time of its last write, and when a node last found an outage of its own.
CREATE TABLE adjusted_clock (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    clock INTEGER NOT NULL,
    at INTEGER NOT NULL,
    local_outage_at INTEGER
) STRICT;

-- Nodes that share the store; each start has an epoch of its own. A file has one process, which needs none of these: they are
-- for the simulation of many nodes.
CREATE TABLE nodes (
    epoch INTEGER PRIMARY KEY CHECK (epoch > 0),
    id_slot INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    lease_unbroken_since INTEGER NOT NULL,
    dead INTEGER NOT NULL CHECK (dead IN (0, 1)),
    seen_version INTEGER NOT NULL,
    free_permits INTEGER NOT NULL,
    stopping INTEGER NOT NULL,
    overloaded_endpoints TEXT NOT NULL
) STRICT;

-- The number of the last batch of each writer; a fenced writer is below 0.
CREATE TABLE writer_batches (
    epoch INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    fenced_at INTEGER,
    PRIMARY KEY (epoch, writer),
    CHECK ((writer < 0) = (fenced_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The epoch of the node that owns each shard of the endpoints; 0 if it is free.
CREATE TABLE shards (
    shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    epoch INTEGER NOT NULL
) STRICT;

-- The version of the configuration, and the version up to which its changes are no longer known.
CREATE TABLE config_version (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version INTEGER NOT NULL,
    trimmed_version INTEGER NOT NULL
) STRICT;

-- Changes of each version: an app (kind 0), an endpoint (1), a key (2) or an event type (3).
CREATE TABLE config_changes (
    version INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (version, kind, id)
) STRICT, WITHOUT ROWID;
