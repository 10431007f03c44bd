-- Everything that is kept here. Ids are time-ordered integers, so tables grow at their right edge and need no index on time.
-- The names are those of the embedded store, whose statements these tables answer; text is compared byte by byte, as there.

-- Nodes that work here, each start of one under an epoch of its own, which is never used again. A dead one writes nothing more,
-- because its rows in `ledger` are fenced; its row here goes when nothing is left of what it carried. `host` says which
-- processes can see each other, `knows` the newest migration that it was built with. Times are milliseconds of this server's clock.
CREATE TABLE nodes (
    epoch bigint PRIMARY KEY CHECK (epoch > 0),
    slot bigint NOT NULL UNIQUE,
    name text NOT NULL,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    joined_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    steady_since bigint NOT NULL,
    dead bigint NOT NULL CHECK (dead IN (0, 1)),
    seen bigint NOT NULL,
    free_hands bigint NOT NULL,
    stopping bigint NOT NULL,
    help text NOT NULL,
    knows bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The number of the last batch that each writer committed. Every batch begins by counting it up: one that came twice, or whose
-- writer was fenced, which is below 0 then, finds no row to count.
CREATE TABLE ledger (
    epoch bigint NOT NULL,
    writer bigint NOT NULL,
    batch bigint NOT NULL,
    fenced_at bigint,
    PRIMARY KEY (epoch, writer),
    CHECK ((writer < 0) = (fenced_at IS NOT NULL))
) WITH (fillfactor = 25);

-- The epoch at which each shard of the endpoints is at home; 0 if it is free.
CREATE TABLE shards (
    shard bigint PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    epoch bigint NOT NULL
);

-- The version of the configuration, and up to which it is not known any more what changed.
CREATE TABLE clock (
    only_row bigint PRIMARY KEY CHECK (only_row = 1),
    version bigint NOT NULL,
    forgotten bigint NOT NULL
);

-- What each version changed: an app (kind 0), an endpoint (1), a key (2) or an event type (3).
CREATE TABLE changes (
    version bigint NOT NULL,
    kind bigint NOT NULL,
    id bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (version, kind, id)
);

-- Rows that exist to be locked: one for each endpoint whose lines (kind 0) or health (kind 1) somebody decided about, and for each app
-- whose digests (kind 2). They go with what they are of; whoever waits for one then makes it anew.
CREATE TABLE locks (
    kind bigint NOT NULL,
    endpoint bigint NOT NULL,
    PRIMARY KEY (kind, endpoint)
);

CREATE TABLE apps (
    id bigint PRIMARY KEY,
    uid text COLLATE "C" NOT NULL UNIQUE,
    settings text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE endpoints (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    settings text NOT NULL,
    off text,
    headers bytea,
    tls bytea,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint,
    UNIQUE (app, uid)
);

CREATE FUNCTION forget_locks() RETURNS trigger
LANGUAGE plpgsql SET search_path = posthaste, pg_temp AS $forget$
BEGIN
    DELETE FROM locks l WHERE l.endpoint = OLD.id AND l.kind = ANY (CAST(TG_ARGV[0] AS bigint[]));
    RETURN NULL;
END
$forget$;

CREATE TRIGGER forget_locks AFTER DELETE ON endpoints FOR EACH ROW EXECUTE FUNCTION forget_locks('{0,1}');
CREATE TRIGGER forget_locks AFTER DELETE ON apps FOR EACH ROW EXECUTE FUNCTION forget_locks('{2}');

CREATE TABLE secrets (
    endpoint bigint NOT NULL,
    position bigint NOT NULL,
    sealed bytea NOT NULL,
    valid_from bigint NOT NULL,
    valid_until bigint,
    PRIMARY KEY (endpoint, position)
);

CREATE TABLE keys (
    id bigint PRIMARY KEY,
    hash bytea NOT NULL,
    shown text NOT NULL,
    scope text NOT NULL,
    app bigint,
    name text COLLATE "C",
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint,
    theme text
);

CREATE INDEX keys_of_portals ON keys (app, expires_at) WHERE scope IN ('portal', 'portal_read');

CREATE TABLE contracts (
    hash bytea PRIMARY KEY,
    document text NOT NULL
);

CREATE TABLE event_types (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    document text NOT NULL,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

-- Deleted apps whose events and deliveries are still being removed, and up to which id that is done.
CREATE TABLE purges (
    app bigint PRIMARY KEY,
    done bigint NOT NULL
);

-- The newest id there was when rows were last deleted: no id is given out twice, even if the clock is set back.
CREATE TABLE newest (
    only_row bigint PRIMARY KEY CHECK (only_row = 1),
    id bigint NOT NULL
);

-- Events, deliveries that are over and attempts are kept by the day that their ids were made in; the program makes the days ahead
-- and lets go of those of which little is left. What belongs to no day that there is stands in the rest.
CREATE TABLE events (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
) PARTITION BY RANGE (id);

CREATE TABLE events_rest PARTITION OF events DEFAULT;

-- Deliveries are two tables, and `deliveries` is both: what is not over, with the dead that others wait behind, stays small
-- however much was delivered. `lane` is the queue: the endpoint's id while waiting, while carried the epoch of the node that does
-- so, negated, NULL otherwise.
CREATE TABLE live (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    event bigint NOT NULL,
    endpoint bigint NOT NULL,
    state bigint NOT NULL,
    reason bigint,
    place bigint NOT NULL,
    attempt_count bigint NOT NULL,
    history_len bigint NOT NULL,
    lane bigint,
    due bigint,
    at_due bigint NOT NULL,
    give_up_at bigint,
    finished_at bigint,
    held_at bigint,
    root bigint,
    replay_of bigint,
    return_to text,
    restarted_at bigint,
    okey bigint,
    asked bigint,
    skipped_at bigint,
    turn bigint,
    CHECK (state BETWEEN 0 AND 3 OR state = 5 AND okey IS NOT NULL),
    CHECK ((state = 5) = (finished_at IS NOT NULL)),
    CHECK ((state = 5) = (reason IS NOT NULL)),
    CHECK ((state = 3) = (held_at IS NOT NULL)),
    -- IS, because a CHECK lets an unknown pass: what waits in no lane would never be found again.
    CHECK (CASE WHEN state <= 1 THEN lane IS NOT DISTINCT FROM endpoint AND due IS NOT NULL
                WHEN state = 2 THEN lane IS NOT NULL AND lane < 0 ELSE lane IS NULL END),
    CHECK (return_to IS NULL OR state IN (0, 2, 3) AND return_to ~ '^[1567],'),
    CHECK (CASE WHEN due IS NOT DISTINCT FROM 253402300799000 THEN okey IS NOT NULL AND turn IS NOT NULL AND state IN (0, 3)
                ELSE turn IS NULL END)
);

CREATE INDEX live_by_lane ON live (lane, due, id) WHERE lane IS NOT NULL;
-- A probe takes the first of these where nothing is due.
CREATE INDEX live_retrying ON live (lane, due) WHERE state = 1 AND at_due = 0;
CREATE INDEX live_held ON live (endpoint, id) WHERE state = 3;
CREATE INDEX live_dead ON live (app, finished_at) WHERE state = 5;
-- What a person waits for is found in a lane of any length.
CREATE INDEX live_by_hand ON live (lane, due, id) WHERE lane IS NOT NULL AND state = 0 AND asked IS NOT NULL;
-- The first deliveries of an event follow its id; only later ones (replays, backfills) need to be looked up.
CREATE INDEX live_later ON live (event) WHERE id > event + 65535;
-- Lines of deliveries that are kept in order: (endpoint, okey). Each has at most one first, which waits, is carried, is held or
-- is dead and in the way; the others wait behind it, due never, which is the end of the year 9999. Their
-- turns are in the order of the commits that put them there, whichever node's these were.
CREATE UNIQUE INDEX live_first ON live (endpoint, okey) WHERE okey IS NOT NULL AND due IS DISTINCT FROM 253402300799000;
CREATE INDEX live_behind ON live (endpoint, okey, turn) WHERE okey IS NOT NULL AND due = 253402300799000;
CREATE INDEX live_blocking ON live (endpoint) WHERE okey IS NOT NULL AND state = 5;

-- The same columns, of which those stay empty that only what goes on needs.
CREATE TABLE done (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    event bigint NOT NULL,
    endpoint bigint NOT NULL,
    state bigint NOT NULL,
    reason bigint,
    place bigint NOT NULL,
    attempt_count bigint NOT NULL,
    history_len bigint NOT NULL,
    lane bigint,
    due bigint,
    at_due bigint NOT NULL,
    give_up_at bigint,
    finished_at bigint NOT NULL,
    held_at bigint,
    root bigint,
    replay_of bigint,
    return_to text,
    restarted_at bigint,
    okey bigint,
    asked bigint,
    skipped_at bigint,
    turn bigint,
    CHECK (state BETWEEN 4 AND 7),
    CHECK ((state >= 5) = (reason IS NOT NULL)),
    CHECK (num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)
) PARTITION BY RANGE (id);

CREATE TABLE done_rest PARTITION OF done DEFAULT;

CREATE INDEX done_dead ON done (app, finished_at) WHERE state = 5;
CREATE INDEX done_later ON done (event) WHERE id > event + 65535;

CREATE VIEW deliveries AS
SELECT id, app, event, endpoint, state, reason, place, attempt_count, history_len, lane, due, at_due, give_up_at, finished_at,
       held_at, root, replay_of, return_to, restarted_at, okey, asked, skipped_at, turn
FROM live
UNION ALL
SELECT id, app, event, endpoint, state, reason, place, attempt_count, history_len, NULL::bigint, NULL::bigint, at_due, give_up_at,
       finished_at, NULL::bigint, root, replay_of, NULL::text, restarted_at, NULL::bigint, asked, skipped_at, NULL::bigint
FROM done;

CREATE TABLE attempts (
    delivery bigint NOT NULL,
    position bigint NOT NULL,
    number bigint,
    started_at bigint NOT NULL,
    total_us bigint NOT NULL,
    dns_us bigint,
    connect_us bigint,
    tls_us bigint,
    first_byte_us bigint,
    address text,
    status bigint,
    class bigint NOT NULL,
    error text,
    contract bytea,
    revision bigint,
    response_headers bytea,
    response_body bytea,
    url text,
    note text,
    PRIMARY KEY (delivery, position)
) PARTITION BY RANGE (delivery);

CREATE TABLE attempts_rest PARTITION OF attempts DEFAULT;

-- The producer's event ids and Idempotency-Keys, hashed with their app. An event's own keys stand in `events.dedup`, 16 bytes
-- each, so that they can go when the event goes.
CREATE TABLE dedup (
    key bytea PRIMARY KEY,
    event bigint NOT NULL,
    fingerprint bytea NOT NULL
);

-- Pieces of work that send many past deliveries or events again; `reached` is the last id that was looked at.
CREATE TABLE replays (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    selection text NOT NULL,
    per_second bigint NOT NULL,
    state bigint NOT NULL,
    from_id bigint NOT NULL,
    to_id bigint NOT NULL,
    reached bigint NOT NULL,
    total bigint NOT NULL,
    replayed bigint NOT NULL,
    refused bigint NOT NULL,
    last_refusal text,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    ran_ms bigint NOT NULL DEFAULT 0,
    CHECK (state BETWEEN 0 AND 3)
);

CREATE INDEX replays_by_app ON replays (app, id);
CREATE INDEX replays_running ON replays (id) WHERE state = 0;

-- Receivers that were or are to be inspected. At most one of an endpoint waits (0) or runs (1); a report is there when it
-- finished (2).
CREATE TABLE inspections (
    id bigint PRIMARY KEY,
    app bigint NOT NULL,
    endpoint bigint NOT NULL,
    kind bigint NOT NULL,
    state bigint NOT NULL,
    created_at bigint NOT NULL,
    finished_at bigint,
    report text,
    epoch bigint,
    CHECK (state BETWEEN 0 AND 4),
    CHECK ((state >= 2) = (finished_at IS NOT NULL)),
    CHECK ((state = 2) = (report IS NOT NULL))
);

CREATE UNIQUE INDEX inspections_open ON inspections (endpoint) WHERE state < 2;
CREATE INDEX inspections_by_endpoint ON inspections (endpoint);

-- Who changed what, when; written in the transaction of the change. `app` is NULL for what belongs to no app.
CREATE TABLE audit (
    id bigint PRIMARY KEY,
    at bigint NOT NULL,
    key bigint NOT NULL,
    key_name text,
    scope text NOT NULL,
    app bigint,
    action text NOT NULL,
    thing text NOT NULL,
    detail text
);

CREATE INDEX audit_by_app ON audit (app, id);

-- The outbox of notices. A digest counts what comes until it closes, which takes its `open_until` away; `mail` says what became of its e-mail, `letter` is the
-- first notice of the mail it goes in once that is put together, `hook` is 1 until its operational webhook is published.
CREATE TABLE notices (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    app bigint NOT NULL,
    kind bigint NOT NULL,
    endpoint bigint,
    delivery bigint,
    replay bigint,
    at bigint NOT NULL,
    facts text NOT NULL,
    event text,
    digest text COLLATE "C",
    count bigint NOT NULL,
    open_until bigint,
    mail bigint NOT NULL,
    letter bigint,
    mail_error text,
    mailed_at bigint,
    hook bigint NOT NULL
);

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
    endpoint bigint PRIMARY KEY,
    app bigint NOT NULL,
    consecutive_failures bigint NOT NULL,
    failed_events bigint NOT NULL,
    first_failed_at bigint,
    first_failed_clock bigint,
    last_error text,
    warned_at bigint,
    warned_clock bigint,
    successes bigint NOT NULL,
    degraded_since bigint,
    failing_since bigint,
    healthy_since bigint,
    told_by bigint,
    told_since bigint,
    paused_until bigint,
    paused_status bigint
);

CREATE INDEX health_in_trouble ON health (app) WHERE degraded_since IS NOT NULL OR failing_since IS NOT NULL;
CREATE INDEX health_failed ON health (endpoint) WHERE first_failed_at IS NOT NULL;
CREATE INDEX health_degraded ON health (endpoint) WHERE degraded_since IS NOT NULL;

-- Sums of attempts and of how deliveries ended by endpoint, in rows of a minute (`width` 60), an hour (3600) and a day (86400). Endpoint 0 is all of an app,
-- app 0 all of them. `latency` counts attempts by bucket n, up to 2^n microseconds, and `endings` by status or class, negative
-- where that is a failure.
CREATE TABLE statistics (
    app bigint NOT NULL,
    endpoint bigint NOT NULL,
    width bigint NOT NULL,
    start bigint NOT NULL,
    ok bigint NOT NULL,
    failed bigint NOT NULL,
    delivered bigint NOT NULL,
    dead bigint NOT NULL,
    total_us bigint NOT NULL,
    latency text NOT NULL,
    last_ok_at bigint,
    events bigint NOT NULL,
    endings text NOT NULL,
    unblamed bigint NOT NULL,
    expired bigint NOT NULL,
    PRIMARY KEY (app, endpoint, width, start)
);

-- The condition holds for all of them, and only whoever asks by age says so: to others, who know all of the key, a server that has
-- not counted the table yet would take this for as good as the key.
CREATE INDEX statistics_by_age ON statistics (width, start) WHERE app >= 0;

-- The same by event type; type * is all those for which there was no room.
CREATE TABLE statistics_by_type (
    app bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    width bigint NOT NULL,
    start bigint NOT NULL,
    ok bigint NOT NULL,
    failed bigint NOT NULL,
    delivered bigint NOT NULL,
    dead bigint NOT NULL,
    total_us bigint NOT NULL,
    latency text NOT NULL,
    last_ok_at bigint,
    events bigint NOT NULL,
    endings text NOT NULL,
    unblamed bigint NOT NULL,
    expired bigint NOT NULL,
    PRIMARY KEY (app, width, start, type)
);

CREATE INDEX statistics_by_type_by_age ON statistics_by_type (width, start) WHERE app >= 0;

-- What each commit adds to the statistics, until that is rolled up.
CREATE TABLE statistics_log (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    document text NOT NULL
);

-- How much time has passed for which receivers can be held to account, when that was written, and when a node last found that
-- nothing without an answer says anything about anybody.
CREATE TABLE accountable (
    only_row bigint PRIMARY KEY CHECK (only_row = 1),
    clock bigint NOT NULL,
    at bigint NOT NULL,
    ours_at bigint
);
