-- The schema of version 1, for tests of the upgrade from it.

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
    app INTEGER,
    name TEXT,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE contracts (
    hash BLOB PRIMARY KEY,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE purges (
    app INTEGER PRIMARY KEY,
    done INTEGER NOT NULL
) STRICT;

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
    CHECK (state BETWEEN 0 AND 7),
    CHECK ((state >= 4) = (finished_at IS NOT NULL)),
    CHECK ((state >= 5) = (reason IS NOT NULL)),
    CHECK ((state = 3) = (held_at IS NOT NULL)),
    -- IS, because a CHECK lets an unknown pass: what waits in no lane would never be found again.
    CHECK (CASE WHEN state <= 1 THEN lane IS endpoint AND due IS NOT NULL WHEN state = 2 THEN lane IS 0 ELSE lane IS NULL END),
    CHECK (return_to IS NULL OR state IN (0, 2, 3) AND return_to GLOB '[1567],*')
) STRICT;

CREATE INDEX deliveries_by_lane ON deliveries (lane, due) WHERE lane IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (endpoint) WHERE state = 3;
CREATE INDEX deliveries_dead ON deliveries (app, finished_at) WHERE state = 5;
CREATE INDEX deliveries_later ON deliveries (event) WHERE replay_of IS NOT NULL;

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
    PRIMARY KEY (delivery, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE dedup (
    key BLOB PRIMARY KEY,
    event INTEGER NOT NULL,
    fingerprint BLOB NOT NULL
) STRICT, WITHOUT ROWID;
