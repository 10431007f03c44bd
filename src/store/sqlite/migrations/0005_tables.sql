-- Everything the embedded store keeps. Ids are time-ordered integers, so tables grow at their right edge and need no
-- index on time. `lane` is the queue: the endpoint's id while waiting, while carried the epoch of whoever does so, negated (0
-- where there is one process), NULL otherwise.

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
    off TEXT,
    headers BLOB,
    tls BLOB,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    UNIQUE (app, uid)
) STRICT;

CREATE TABLE secrets (
    endpoint INTEGER NOT NULL,
    position INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    valid_from INTEGER NOT NULL,
    valid_until INTEGER,
    PRIMARY KEY (endpoint, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    shown TEXT NOT NULL,
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

-- Deleted apps whose events and deliveries are still being removed, and up to which id that is done.
CREATE TABLE purges (
    app INTEGER PRIMARY KEY,
    done INTEGER NOT NULL
) STRICT;

-- The newest id there was when rows were last deleted: no id is given out twice, even if the clock is set back.
CREATE TABLE newest (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    app INTEGER NOT NULL,
    type TEXT NOT NULL,
    given_id TEXT,
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
    place INTEGER NOT NULL,
    attempt_count INTEGER NOT NULL,
    history_len INTEGER NOT NULL,
    lane INTEGER,
    due INTEGER,
    at_due INTEGER NOT NULL,
    give_up_at INTEGER,
    finished_at INTEGER,
    held_at INTEGER,
    root INTEGER,
    replay_of INTEGER,
    return_to TEXT,
    restarted_at INTEGER,
    okey INTEGER,
    asked INTEGER,
    skipped_at INTEGER,
    turn INTEGER,
    CHECK (state BETWEEN 0 AND 7),
    CHECK ((state >= 4) = (finished_at IS NOT NULL)),
    CHECK ((state >= 5) = (reason IS NOT NULL)),
    CHECK ((state = 3) = (held_at IS NOT NULL)),
    -- IS, because a CHECK lets an unknown pass: what waits in no lane would never be found again.
    CHECK (CASE WHEN state <= 1 THEN lane IS endpoint AND due IS NOT NULL WHEN state = 2 THEN lane IS NOT NULL AND lane <= 0 ELSE lane IS NULL END),
    CHECK (return_to IS NULL OR state IN (0, 2, 3) AND return_to GLOB '[1567],*'),
    CHECK (okey IS NULL OR state <= 3 OR state = 5),
    CHECK (CASE WHEN due IS 253402300799000 THEN okey IS NOT NULL AND turn IS NOT NULL AND state IN (0, 3) ELSE turn IS NULL END)
) STRICT;

CREATE INDEX deliveries_by_lane ON deliveries (lane, due) WHERE lane IS NOT NULL;
-- A probe takes the first of these where nothing is due.
CREATE INDEX deliveries_retrying ON deliveries (lane, due) WHERE state = 1 AND at_due = 0;
CREATE INDEX deliveries_held ON deliveries (endpoint) WHERE state = 3;
CREATE INDEX deliveries_dead ON deliveries (app, finished_at) WHERE state = 5;
-- What a person waits for is found in a lane of any length.
CREATE INDEX deliveries_by_hand ON deliveries (lane, due)
    WHERE lane IS NOT NULL AND state = 0 AND asked IS NOT NULL;
-- The first deliveries of an event follow its id; only later ones (replays, backfills) need to be looked up.
CREATE INDEX deliveries_later ON deliveries (event) WHERE id > event + 65535;

-- Lines of deliveries that are kept in order: (endpoint, okey). Each has at most one first, which waits, is carried, is held or
-- is dead and in the way; the others wait behind it, due never, which is the end of the year 9999. Their
-- turns are in the order of the commits that put them there.
CREATE UNIQUE INDEX deliveries_first ON deliveries (endpoint, okey) WHERE okey IS NOT NULL AND due IS NOT 253402300799000;
CREATE INDEX deliveries_behind ON deliveries (endpoint, okey, turn) WHERE okey IS NOT NULL AND due = 253402300799000;
CREATE INDEX deliveries_blocking ON deliveries (endpoint) WHERE okey IS NOT NULL AND state = 5;

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

-- The producer's event ids and Idempotency-Keys, hashed with their app. An event's own keys stand in `events.dedup`, 16 bytes
-- each, so that they can go when the event goes.
CREATE TABLE dedup (
    key BLOB PRIMARY KEY,
    event INTEGER NOT NULL,
    fingerprint BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Pieces of work that send many past deliveries or events again; `reached` is the last id that was looked at.
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

-- Receivers that were or are to be inspected. At most one of an endpoint waits (0) or runs (1); a report is there when it
-- finished (2).
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

-- Who changed what, when; written in the transaction of the change. `app` is NULL for what belongs to no app.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key INTEGER NOT NULL,
    key_name TEXT,
    scope TEXT NOT NULL,
    app INTEGER,
    action TEXT NOT NULL,
    thing TEXT NOT NULL,
    detail TEXT
) STRICT;

CREATE INDEX audit_by_app ON audit (app, id);

-- The outbox of notices. A digest counts what comes until it closes, which takes its `open_until` away; `mail` says what became of its e-mail, `letter` is the
-- first notice of the mail it goes in once that is put together, `hook` is 1 until its operational webhook is published.
CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    endpoint INTEGER,
    delivery INTEGER,
    replay INTEGER,
    at INTEGER NOT NULL,
    facts TEXT NOT NULL,
    event TEXT,
    digest TEXT,
    count INTEGER NOT NULL,
    open_until INTEGER,
    mail INTEGER NOT NULL,
    letter INTEGER,
    mail_error TEXT,
    mailed_at INTEGER,
    hook INTEGER NOT NULL
) STRICT;

CREATE INDEX notices_by_app ON notices (app, id);
CREATE INDEX notices_by_age ON notices (at);
CREATE INDEX notices_to_mail ON notices (app, kind, id) WHERE mail = 1 AND open_until IS NULL;
CREATE INDEX notices_in_letters ON notices (app, letter) WHERE mail = 1 AND letter IS NOT NULL;
CREATE INDEX notices_to_publish ON notices (id) WHERE hook = 1;
CREATE INDEX notices_digests ON notices (app, kind, open_until) WHERE open_until IS NOT NULL;
CREATE INDEX notices_closing ON notices (open_until) WHERE open_until IS NOT NULL;

-- What is known of endpoints that failed since they were made or switched on; one without a row is healthy. `..._clock` is
-- accountable time in milliseconds.
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
    told_by INTEGER,
    told_since INTEGER,
    paused_until INTEGER,
    paused_status INTEGER
) STRICT;

CREATE INDEX health_in_trouble ON health (app) WHERE degraded_since IS NOT NULL OR failing_since IS NOT NULL;
CREATE INDEX health_failed ON health (endpoint) WHERE first_failed_at IS NOT NULL;
CREATE INDEX health_degraded ON health (endpoint) WHERE degraded_since IS NOT NULL;

-- Sums of attempts and of how deliveries ended by endpoint, in rows of a minute (`width` 60), an hour (3600) and a day (86400). Endpoint 0 is all of an app,
-- app 0 all of them. `latency` counts attempts by bucket n, up to 2^n microseconds, and `endings` by status or class, negative
-- where that is a failure.
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
    endings TEXT NOT NULL,
    unblamed INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    PRIMARY KEY (app, endpoint, width, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX statistics_by_age ON statistics (width, start);

-- The same by event type; type * is all those for which there was no room.
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
    endings TEXT NOT NULL,
    unblamed INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    PRIMARY KEY (app, width, start, type)
) STRICT, WITHOUT ROWID;

CREATE INDEX statistics_by_type_by_age ON statistics_by_type (width, start);

-- What each commit adds to the statistics, until that is rolled up.
CREATE TABLE statistics_log (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL
) STRICT;

-- How much time has passed for which receivers can be held to account, when that was written, and when a node last found that
-- nothing without an answer says anything about anybody.
CREATE TABLE accountable (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    clock INTEGER NOT NULL,
    at INTEGER NOT NULL,
    ours_at INTEGER
) STRICT;

-- Nodes that share the store, each start of one under an epoch of its own. A file has one process, which needs none of these; the
-- simulation of many nodes is played on one.
CREATE TABLE nodes (
    epoch INTEGER PRIMARY KEY CHECK (epoch > 0),
    slot INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    steady_since INTEGER NOT NULL,
    dead INTEGER NOT NULL CHECK (dead IN (0, 1)),
    seen INTEGER NOT NULL,
    free_hands INTEGER NOT NULL,
    stopping INTEGER NOT NULL,
    help TEXT NOT NULL
) STRICT;

-- The number of the last batch that each writer committed; below 0 is a writer that was fenced.
CREATE TABLE ledger (
    epoch INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    fenced_at INTEGER,
    PRIMARY KEY (epoch, writer),
    CHECK ((writer < 0) = (fenced_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The epoch at which each shard of the endpoints is at home; 0 if it is free.
CREATE TABLE shards (
    shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    epoch INTEGER NOT NULL
) STRICT;

-- The version of the configuration, and up to which it is not known any more what changed.
CREATE TABLE clock (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version INTEGER NOT NULL,
    forgotten INTEGER NOT NULL
) STRICT;

-- What each version changed: an app (kind 0), an endpoint (1), a key (2) or an event type (3).
CREATE TABLE changes (
    version INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (version, kind, id)
) STRICT, WITHOUT ROWID;
