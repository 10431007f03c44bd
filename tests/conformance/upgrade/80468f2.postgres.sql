-- A database made by the program of commit 80468f2 (migration 4), dumped by pg_dump after it was killed. It had delivered,
-- retried, held and cancelled events of an app with endpoints of every kind, a replay, a backfill and inspections; statements
-- filled the columns that stayed empty. The encryption key is `k1:` and the bytes 0 to 31.
DO $role$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'posthaste_publisher') THEN
        CREATE ROLE posthaste_publisher NOLOGIN;
    END IF;
END
$role$;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA posthaste;
CREATE FUNCTION posthaste.forget_inbox() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'posthaste', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM inbox i WHERE i.app = OLD.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION posthaste.forget_locks() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'posthaste', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM locks l WHERE l.endpoint = OLD.id AND l.kind = ANY (CAST(TG_ARGV[0] AS bigint[]));
    RETURN NULL;
END
$$;
CREATE FUNCTION posthaste.publish(app text, type text, data json, id text DEFAULT NULL::text, key text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'posthaste', 'pg_temp'
    AS $_$
DECLARE
    found_app record;
    wrong text;
    event text;
BEGIN
    SELECT a.id, a.settings INTO found_app FROM apps a WHERE a.uid = publish.app;
    event := coalesce(
        publish.id,
        coalesce(CAST(found_app.settings AS json) ->> 'id_prefix', 'evt') || '_' || replace(CAST(gen_random_uuid() AS text), '-', '')
    );
    wrong := CASE
        WHEN publish.app IS NULL THEN 'app: is missing'
        WHEN found_app.id IS NULL THEN format('app: there is no app "%s"', left(publish.app, 128))
        WHEN publish.type IS NULL THEN 'type: is missing'
        WHEN publish.type COLLATE "C" !~ '^[A-Za-z0-9_.:-]{1,128}$' THEN
            'type: must be 1 to 128 characters out of A-Z a-z 0-9 _ . : -'
        WHEN starts_with(publish.type, 'webhook.') THEN 'type: must not start with "webhook.", which is reserved'
        WHEN starts_with(publish.type, 'posthaste.') THEN 'type: must not start with "posthaste.", which is reserved'
        WHEN publish.data IS NULL THEN 'data: is missing; a JSON null is written ''null'''
        WHEN octet_length(CAST(publish.data AS text)) > 1048576 THEN 'data: must be at most 1 MiB'
        WHEN event COLLATE "C" !~ '^[A-Za-z0-9_.:~-]{1,128}$' THEN
            'id: must be 1 to 128 characters out of A-Z a-z 0-9 _ . : ~ -'
        WHEN octet_length(publish.key) NOT BETWEEN 1 AND 256 OR publish.key ~ '[\u0001-\u001f\u007f-\u009f]' THEN
            'key: must be 1 to 256 bytes without control characters'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = wrong;
    END IF;
    INSERT INTO inbox (app, type, data, event_id, key)
    VALUES (found_app.id, publish.type, publish.data, event, publish.key);
    RETURN event;
END
$_$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE posthaste.accountable (
    only_row bigint NOT NULL,
    clock bigint NOT NULL,
    at bigint NOT NULL,
    ours_at bigint,
    CONSTRAINT accountable_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE posthaste.apps (
    id bigint NOT NULL,
    uid text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE posthaste.attempts (
    delivery bigint NOT NULL,
    "position" bigint NOT NULL,
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
    note text
)
PARTITION BY RANGE (delivery);
CREATE TABLE posthaste.attempts_20261119 (
    delivery bigint NOT NULL,
    "position" bigint NOT NULL,
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
    note text
);
CREATE TABLE posthaste.attempts_20261120 (
    delivery bigint NOT NULL,
    "position" bigint NOT NULL,
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
    note text
);
CREATE TABLE posthaste.attempts_20261121 (
    delivery bigint NOT NULL,
    "position" bigint NOT NULL,
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
    note text
);
CREATE TABLE posthaste.attempts_rest (
    delivery bigint NOT NULL,
    "position" bigint NOT NULL,
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
    note text
);
CREATE TABLE posthaste.audit (
    id bigint NOT NULL,
    at bigint NOT NULL,
    key bigint NOT NULL,
    key_name text,
    scope text NOT NULL,
    app bigint,
    action text NOT NULL,
    thing text NOT NULL,
    detail text
);
CREATE TABLE posthaste.changes (
    version bigint NOT NULL,
    kind bigint NOT NULL,
    id bigint NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE posthaste.clock (
    only_row bigint NOT NULL,
    version bigint NOT NULL,
    forgotten bigint NOT NULL,
    CONSTRAINT clock_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE posthaste.contracts (
    hash bytea NOT NULL,
    document text NOT NULL
);
CREATE TABLE posthaste.dedup (
    key bytea NOT NULL,
    event bigint NOT NULL,
    fingerprint bytea NOT NULL
);
CREATE TABLE posthaste.done (
    id bigint NOT NULL,
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
    CONSTRAINT done_check CHECK (((state >= 5) = (reason IS NOT NULL))),
    CONSTRAINT done_check1 CHECK ((num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)),
    CONSTRAINT done_state_check CHECK (((state >= 4) AND (state <= 7)))
)
PARTITION BY RANGE (id);
CREATE TABLE posthaste.live (
    id bigint NOT NULL,
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
    CONSTRAINT live_check CHECK ((((state >= 0) AND (state <= 3)) OR ((state = 5) AND (okey IS NOT NULL)))),
    CONSTRAINT live_check1 CHECK (((state = 5) = (finished_at IS NOT NULL))),
    CONSTRAINT live_check2 CHECK (((state = 5) = (reason IS NOT NULL))),
    CONSTRAINT live_check3 CHECK (((state = 3) = (held_at IS NOT NULL))),
    CONSTRAINT live_check4 CHECK (
CASE
    WHEN (state <= 1) THEN ((NOT (lane IS DISTINCT FROM endpoint)) AND (due IS NOT NULL))
    WHEN (state = 2) THEN ((lane IS NOT NULL) AND (lane < 0))
    ELSE (lane IS NULL)
END),
    CONSTRAINT live_check5 CHECK (((return_to IS NULL) OR ((state = ANY (ARRAY[(0)::bigint, (2)::bigint, (3)::bigint])) AND (return_to ~ '^[1567],'::text)))),
    CONSTRAINT live_check6 CHECK (
CASE
    WHEN (NOT (due IS DISTINCT FROM '253402300799000'::bigint)) THEN ((okey IS NOT NULL) AND (turn IS NOT NULL) AND (state = ANY (ARRAY[(0)::bigint, (3)::bigint])))
    ELSE (turn IS NULL)
END)
);
CREATE VIEW posthaste.deliveries AS
 SELECT live.id,
    live.app,
    live.event,
    live.endpoint,
    live.state,
    live.reason,
    live.place,
    live.attempt_count,
    live.history_len,
    live.lane,
    live.due,
    live.at_due,
    live.give_up_at,
    live.finished_at,
    live.held_at,
    live.root,
    live.replay_of,
    live.return_to,
    live.restarted_at,
    live.okey,
    live.asked,
    live.skipped_at,
    live.turn
   FROM posthaste.live
UNION ALL
 SELECT done.id,
    done.app,
    done.event,
    done.endpoint,
    done.state,
    done.reason,
    done.place,
    done.attempt_count,
    done.history_len,
    NULL::bigint AS lane,
    NULL::bigint AS due,
    done.at_due,
    done.give_up_at,
    done.finished_at,
    NULL::bigint AS held_at,
    done.root,
    done.replay_of,
    NULL::text AS return_to,
    done.restarted_at,
    NULL::bigint AS okey,
    done.asked,
    done.skipped_at,
    NULL::bigint AS turn
   FROM posthaste.done;
CREATE TABLE posthaste.done_20261119 (
    id bigint NOT NULL,
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
    CONSTRAINT done_check CHECK (((state >= 5) = (reason IS NOT NULL))),
    CONSTRAINT done_check1 CHECK ((num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)),
    CONSTRAINT done_state_check CHECK (((state >= 4) AND (state <= 7)))
);
CREATE TABLE posthaste.done_20261120 (
    id bigint NOT NULL,
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
    CONSTRAINT done_check CHECK (((state >= 5) = (reason IS NOT NULL))),
    CONSTRAINT done_check1 CHECK ((num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)),
    CONSTRAINT done_state_check CHECK (((state >= 4) AND (state <= 7)))
);
CREATE TABLE posthaste.done_20261121 (
    id bigint NOT NULL,
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
    CONSTRAINT done_check CHECK (((state >= 5) = (reason IS NOT NULL))),
    CONSTRAINT done_check1 CHECK ((num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)),
    CONSTRAINT done_state_check CHECK (((state >= 4) AND (state <= 7)))
);
CREATE TABLE posthaste.done_rest (
    id bigint NOT NULL,
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
    CONSTRAINT done_check CHECK (((state >= 5) = (reason IS NOT NULL))),
    CONSTRAINT done_check1 CHECK ((num_nonnulls(lane, due, held_at, return_to, okey, turn) = 0)),
    CONSTRAINT done_state_check CHECK (((state >= 4) AND (state <= 7)))
);
CREATE TABLE posthaste.endpoints (
    id bigint NOT NULL,
    app bigint NOT NULL,
    uid text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL,
    off text,
    headers bytea,
    tls bytea,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint
);
CREATE TABLE posthaste.event_types (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE posthaste.events (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
)
PARTITION BY RANGE (id);
CREATE TABLE posthaste.events_20261119 (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
);
CREATE TABLE posthaste.events_20261120 (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
);
CREATE TABLE posthaste.events_20261121 (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
);
CREATE TABLE posthaste.events_rest (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    given_id text,
    created_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    key text,
    deliver_at bigint,
    skipped bigint NOT NULL,
    dedup bytea,
    data bytea NOT NULL
);
CREATE TABLE posthaste.health (
    endpoint bigint NOT NULL,
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
CREATE TABLE posthaste.inbox (
    id bigint NOT NULL,
    app bigint NOT NULL,
    type text NOT NULL,
    data json NOT NULL,
    event_id text NOT NULL,
    key text,
    at timestamp with time zone DEFAULT now() NOT NULL,
    error text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
ALTER TABLE posthaste.inbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME posthaste.inbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE posthaste.inspections (
    id bigint NOT NULL,
    app bigint NOT NULL,
    endpoint bigint NOT NULL,
    kind bigint NOT NULL,
    state bigint NOT NULL,
    created_at bigint NOT NULL,
    finished_at bigint,
    report text,
    epoch bigint,
    CONSTRAINT inspections_check CHECK (((state >= 2) = (finished_at IS NOT NULL))),
    CONSTRAINT inspections_check1 CHECK (((state = 2) = (report IS NOT NULL))),
    CONSTRAINT inspections_state_check CHECK (((state >= 0) AND (state <= 4)))
);
CREATE TABLE posthaste.keys (
    id bigint NOT NULL,
    hash bytea NOT NULL,
    shown text NOT NULL,
    scope text NOT NULL,
    app bigint,
    name text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint,
    theme text
);
CREATE TABLE posthaste.ledger (
    epoch bigint NOT NULL,
    writer bigint NOT NULL,
    batch bigint NOT NULL,
    fenced_at bigint,
    CONSTRAINT ledger_check CHECK (((writer < 0) = (fenced_at IS NOT NULL)))
)
WITH (fillfactor='25');
CREATE TABLE posthaste.locks (
    kind bigint NOT NULL,
    endpoint bigint NOT NULL
);
CREATE TABLE posthaste.migrations (
    number bigint NOT NULL,
    oldest bigint NOT NULL,
    checksum bytea NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT migrations_check CHECK (((oldest >= 1) AND (oldest <= number)))
);
CREATE TABLE posthaste.moving (
    only_row bigint NOT NULL,
    origin text NOT NULL,
    done bigint NOT NULL,
    CONSTRAINT moving_done_check CHECK ((done = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT moving_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE posthaste.newest (
    only_row bigint NOT NULL,
    id bigint NOT NULL,
    CONSTRAINT newest_only_row_check CHECK ((only_row = 1))
);
CREATE TABLE posthaste.nodes (
    epoch bigint NOT NULL,
    slot bigint NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    joined_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    steady_since bigint NOT NULL,
    dead bigint NOT NULL,
    seen bigint NOT NULL,
    free_hands bigint NOT NULL,
    stopping bigint NOT NULL,
    help text NOT NULL,
    knows bigint DEFAULT 0 NOT NULL,
    CONSTRAINT nodes_dead_check CHECK ((dead = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT nodes_epoch_check CHECK ((epoch > 0))
)
WITH (fillfactor='50');
CREATE TABLE posthaste.notices (
    id bigint NOT NULL,
    app bigint NOT NULL,
    kind bigint NOT NULL,
    endpoint bigint,
    delivery bigint,
    replay bigint,
    at bigint NOT NULL,
    facts text NOT NULL,
    event text,
    digest text COLLATE pg_catalog."C",
    count bigint NOT NULL,
    open_until bigint,
    mail bigint NOT NULL,
    letter bigint,
    mail_error text,
    mailed_at bigint,
    hook bigint NOT NULL
);
ALTER TABLE posthaste.notices ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME posthaste.notices_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE posthaste.purges (
    app bigint NOT NULL,
    done bigint NOT NULL
);
CREATE TABLE posthaste.replays (
    id bigint NOT NULL,
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
    ran_ms bigint DEFAULT 0 NOT NULL,
    CONSTRAINT replays_state_check CHECK (((state >= 0) AND (state <= 3)))
);
CREATE TABLE posthaste.secrets (
    endpoint bigint NOT NULL,
    "position" bigint NOT NULL,
    sealed bytea NOT NULL,
    valid_from bigint NOT NULL,
    valid_until bigint
);
CREATE TABLE posthaste.shards (
    shard bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT shards_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);
CREATE TABLE posthaste.statistics (
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
    expired bigint NOT NULL
);
CREATE TABLE posthaste.statistics_by_type (
    app bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
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
    expired bigint NOT NULL
);
CREATE TABLE posthaste.statistics_log (
    id bigint NOT NULL,
    document text NOT NULL
);
ALTER TABLE posthaste.statistics_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME posthaste.statistics_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY posthaste.attempts ATTACH PARTITION posthaste.attempts_20261119 FOR VALUES FROM ('381594422476800000') TO ('381956810342400000');
ALTER TABLE ONLY posthaste.attempts ATTACH PARTITION posthaste.attempts_20261120 FOR VALUES FROM ('381956810342400000') TO ('382319198208000000');
ALTER TABLE ONLY posthaste.attempts ATTACH PARTITION posthaste.attempts_20261121 FOR VALUES FROM ('382319198208000000') TO ('382681586073600000');
ALTER TABLE ONLY posthaste.attempts ATTACH PARTITION posthaste.attempts_rest DEFAULT;
ALTER TABLE ONLY posthaste.done ATTACH PARTITION posthaste.done_20261119 FOR VALUES FROM ('381594422476800000') TO ('381956810342400000');
ALTER TABLE ONLY posthaste.done ATTACH PARTITION posthaste.done_20261120 FOR VALUES FROM ('381956810342400000') TO ('382319198208000000');
ALTER TABLE ONLY posthaste.done ATTACH PARTITION posthaste.done_20261121 FOR VALUES FROM ('382319198208000000') TO ('382681586073600000');
ALTER TABLE ONLY posthaste.done ATTACH PARTITION posthaste.done_rest DEFAULT;
ALTER TABLE ONLY posthaste.events ATTACH PARTITION posthaste.events_20261119 FOR VALUES FROM ('381594422476800000') TO ('381956810342400000');
ALTER TABLE ONLY posthaste.events ATTACH PARTITION posthaste.events_20261120 FOR VALUES FROM ('381956810342400000') TO ('382319198208000000');
ALTER TABLE ONLY posthaste.events ATTACH PARTITION posthaste.events_20261121 FOR VALUES FROM ('382319198208000000') TO ('382681586073600000');
ALTER TABLE ONLY posthaste.events ATTACH PARTITION posthaste.events_rest DEFAULT;
INSERT INTO posthaste.accountable VALUES
	(1, 4058, 1795069636824, 1795069636827);
INSERT INTO posthaste.apps VALUES
	(381691867793719296, 'shop', '{"name":"Corner Bakery","contract":"standard","overrides":{"retry":{"waits":["20ms"],"jitter":"none"},"notices":{"dead_letter":"digest","digest_window":"1h"},"health":{"off_after_failed_events":50,"degraded_above":"5%","degraded_window":"1h"},"answers":{"switch_off":["410"]}},"livemode":true,"id_prefix":"bak","contact_email":"ops@bakery.example","quota":{"events_per_second":500,"bytes_per_second":10000000},"limits":{"max_in_flight":64,"rate_limit":{"per_second":1000,"burst":2000}},"metadata":{"plan":"gold"}}', 1795069632774, 1795069636062);
INSERT INTO posthaste.attempts_20261119 VALUES
	(381691868489973762, 1, 1, 1795069632952, 3776, NULL, 339, NULL, 3119, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868489973770, 1, 1, 1795069632950, 2906, NULL, 2046, NULL, 750, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x2d5a11d8d258fcd46cf6d5fe618c2438', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868489973761, 1, 1, 1795069632951, 2704, NULL, 391, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691868489973765, 1, 1, 1795069632950, 4425, NULL, 1731, NULL, 2290, '127.0.0.1:18471', 410, 1, 'HTTP 410', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22343130227d', 'http://127.0.0.1:18471/gone', NULL),
	(381691868489973764, 1, 1, 1795069632952, 4018, NULL, 109, NULL, 3866, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868540305416, 1, 1, 1795069632958, 1991, NULL, 351, NULL, 1628, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868540305417, 1, 1, 1795069632959, 2110, NULL, 334, NULL, 1764, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868540305414, 1, 1, 1795069632958, 1736, NULL, 364, NULL, 1355, '127.0.0.1:18471', 503, 1, 'HTTP 503', '\xf7626fa04692f50761d903ab23f64da4', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a72657472792d61667465723a333630300a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353033227d', 'http://127.0.0.1:18471/busy', NULL),
	(381691868489973764, 2, 2, 1795069632990, 1939, NULL, 468, NULL, 1401, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868489973761, 2, 2, 1795069632991, 718, NULL, 212, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691868540305410, 1, 1, 1795069632958, 43403, NULL, NULL, NULL, 988, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868540305412, 1, 1, 1795069632959, 43274, NULL, NULL, NULL, 1678, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868540305413, 1, 1, 1795069632958, 43459, NULL, NULL, NULL, 509, '127.0.0.1:18471', 410, 1, 'HTTP 410', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22343130227d', 'http://127.0.0.1:18471/gone', NULL),
	(381691868540305418, 1, 1, 1795069632958, 43521, NULL, NULL, NULL, 1073, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x2d5a11d8d258fcd46cf6d5fe618c2438', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313220474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868540305409, 1, 1, 1795069633013, 1893, NULL, 426, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691868540305409, 2, 2, 1795069633043, 3573, NULL, 313, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691868540305412, 2, 2, 1795069633030, 43860, NULL, NULL, NULL, 510, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313320474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868489973768, 1, 1, 1795069632952, 1017200, NULL, 1014533, NULL, 2644, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868489973769, 1, 1, 1795069632952, 1017219, NULL, 1014418, NULL, 1587, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691868489973766, 1, 1, 1795069632952, 1018860, NULL, 1014569, NULL, 4269, '127.0.0.1:18471', 503, 1, 'HTTP 503', '\xf7626fa04692f50761d903ab23f64da4', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313320474d540a72657472792d61667465723a333630300a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353033227d', 'http://127.0.0.1:18471/busy', NULL),
	(381691868489973767, 1, 1, 1795069632952, 1022062, NULL, 1014611, NULL, 7245, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313320474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691868489973767, 2, 2, 1795069633997, 41096, NULL, NULL, NULL, 504, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313320474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771017, 1, 1, 1795069634984, 1204, NULL, NULL, NULL, 979, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691877033771010, 1, 1, 1795069634984, 1831, NULL, NULL, NULL, 1439, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691877033771012, 1, 1, 1795069634984, 1633, NULL, NULL, NULL, 1631, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313420474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771018, 1, 1, 1795069634984, 1944, NULL, NULL, NULL, 1553, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x2d5a11d8d258fcd46cf6d5fe618c2438', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313420474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771009, 1, 1, 1795069634985, 1240, NULL, 39, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691877033771009, 2, 2, 1795069635010, 514, NULL, 77, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691877033771012, 2, 2, 1795069635009, 44508, NULL, NULL, NULL, 1264, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313520474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771012, 3, 3, 1795069636011, 395, NULL, NULL, NULL, 386, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313620474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771012, 4, 4, 1795069636031, 42416, NULL, NULL, NULL, 294, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313620474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691877033771012, 5, 5, 1795069636082, 43975, NULL, NULL, NULL, 385, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a313620474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691898445692930, 1, 1, 1795069640090, 620, NULL, NULL, NULL, 618, '127.0.0.1:18471', 200, 0, NULL, '\x9e44be36ba7869d90de73f48e84ac53d', 1, NULL, '\x7b22616e73776572223a22323030227d', NULL, NULL),
	(381691898445692932, 1, 1, 1795069640090, 814, NULL, NULL, NULL, 733, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x9e44be36ba7869d90de73f48e84ac53d', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a323020474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', NULL),
	(381691898445692929, 1, 1, 1795069640094, 729, NULL, 219, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691898445692929, 2, 2, 1795069640126, 3774, NULL, 350, NULL, NULL, '127.0.0.1:18471', NULL, 5, 'the server does not speak TLS on this port', '\xbd111e4cb0d4789dd62e6dd48e52f50a', 2, NULL, NULL, 'https://127.0.0.1:18471/ok', NULL),
	(381691898445692937, 1, 1, 1795069640090, 576, 11, NULL, 13, 568, '127.0.0.1:18471', 500, 1, 'HTTP 500', '\x2d5a11d8d258fcd46cf6d5fe618c2438', 1, '\x7365727665723a42617365485454502f302e3620507974686f6e2f332e31312e370a646174653a5468752c203139204e6f7620323032362030363a32373a323020474d540a636f6e74656e742d6c656e6774683a31360a782d74726163653a6162630a', '\x7b22616e73776572223a22353030227d', 'http://127.0.0.1:18471/fail', 'retried ahead of its time');
INSERT INTO posthaste.audit VALUES
	(381691867714027520, 1795069632755, 0, 'given by the settings', 'admin', NULL, 'event_type.created', 'order.paid', NULL),
	(381691867755970560, 1795069632765, 0, 'given by the settings', 'admin', NULL, 'event_type.created', 'order.old', NULL),
	(381691867772747776, 1795069632769, 0, 'given by the settings', 'admin', NULL, 'event_type.archived', 'order.old', NULL),
	(381691867793719297, 1795069632774, 0, 'given by the settings', 'admin', 381691867793719296, 'app.created', 'shop', NULL),
	(381691867802107905, 1795069632776, 0, 'given by the settings', 'admin', 381691867802107904, 'app.created', 'gone', NULL),
	(381691867915354112, 1795069632803, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'full', NULL),
	(381691868011823104, 1795069632826, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'ok', NULL),
	(381691868045377536, 1795069632834, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'slow', NULL),
	(381691868078931968, 1795069632842, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'fail', NULL),
	(381691868146040832, 1795069632858, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'gone', NULL),
	(381691868179595264, 1795069632866, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'adaptive', NULL),
	(381691868208955392, 1795069632873, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'line', NULL),
	(381691868246704128, 1795069632882, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'off', NULL),
	(381691868297035776, 1795069632894, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'deleted', NULL),
	(381691868330590208, 1795069632902, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.created', 'wait', NULL),
	(381691868338978816, 1795069632904, 0, 'given by the settings', 'admin', 381691867793719296, 'secret.rotated', 'full', NULL),
	(381691868380921857, 1795069632914, 0, 'given by the settings', 'admin', 381691867793719296, 'key.created', 'key_0ak0aqdj80000', '{"scope":"app"}'),
	(381691868414476289, 1795069632922, 0, 'given by the settings', 'admin', NULL, 'key.created', 'key_0ak0aqdk80000', '{"scope":"admin"}'),
	(381691868435447809, 1795069632927, 0, 'given by the settings', 'admin', 381691867793719296, 'key.created', 'key_0ak0aqdkw0000', '{"scope":"publish"}'),
	(381691868448030720, 1795069632930, 0, 'given by the settings', 'admin', 381691867793719296, 'key.revoked', 'key_0ak0aqdkw0000', NULL),
	(381691868464807937, 1795069632934, 0, 'given by the settings', 'admin', 381691867793719296, 'portal_link.created', 'key_0ak0aqdmr0000', '{"scope":"portal"}'),
	(381691877004410880, 1795069634970, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.disabled', 'off', NULL),
	(381691881270018048, 1795069635987, 0, 'given by the settings', 'admin', 381691867793719296, 'endpoint.deleted', 'deleted', NULL),
	(381691881349709824, 1795069636006, 0, 'given by the settings', 'admin', 381691867793719296, 'delivery.replayed', 'dlv_0ak0aqnm40004', NULL),
	(381691881379069952, 1795069636013, 0, 'given by the settings', 'admin', 381691867793719296, 'delivery.closed', 'dlv_0ak0aqdng0005', NULL),
	(381691881412624384, 1795069636021, 0, 'given by the settings', 'admin', 381691867793719296, 'delivery.cancelled', 'dlv_0ak0aqnm4000a', NULL),
	(381691881437790208, 1795069636027, 0, 'given by the settings', 'admin', 381691867793719296, 'delivery.retried', 'dlv_0ak0aqnm40004', NULL),
	(381691881462956032, 1795069636033, 0, 'given by the settings', 'admin', 381691867793719296, 'replay.begun', 'rpl_0ak0aqsqw0000', '{"kind":"replay","total":12}'),
	(381691881483927552, 1795069636038, 0, 'given by the settings', 'admin', 381691867793719296, 'replay.paused', 'rpl_0ak0aqsqw0000', NULL),
	(381691881509093376, 1795069636044, 0, 'given by the settings', 'admin', 381691867793719296, 'replay.begun', 'rpl_0ak0aqss00000', '{"kind":"backfill","total":0}'),
	(381691881584590848, 1795069636062, 0, 'given by the settings', 'admin', 381691867793719296, 'app.changed', 'shop', '{"fields":["name"]}'),
	(381691894205251584, 1795069639071, 0, 'given by the settings', 'admin', NULL, 'app.deleted', 'gone', NULL);
INSERT INTO posthaste.changes VALUES
	(1, 3, 381691867697250304, 1795069632757),
	(2, 3, 381691867747581952, 1795069632767),
	(3, 3, 381691867747581952, 1795069632770),
	(4, 0, 381691867793719296, 1795069632775),
	(5, 0, 381691867802107904, 1795069632776),
	(6, 1, 381691867806302208, 1795069632806),
	(7, 1, 381691867948908544, 1795069632827),
	(8, 1, 381691868024406016, 1795069632834),
	(9, 1, 381691868066349056, 1795069632846),
	(10, 1, 381691868104097792, 1795069632858),
	(11, 1, 381691868167012352, 1795069632866),
	(12, 1, 381691868200566784, 1795069632874),
	(13, 1, 381691868221538304, 1795069632882),
	(14, 1, 381691868259287040, 1795069632894),
	(15, 1, 381691868309618688, 1795069632902),
	(16, 1, 381691867806302208, 1795069632910),
	(17, 2, 381691868380921856, 1795069632918),
	(18, 2, 381691868414476288, 1795069632923),
	(19, 2, 381691868435447808, 1795069632927),
	(20, 2, 381691868435447808, 1795069632930),
	(21, 2, 381691868464807936, 1795069632938),
	(22, 1, 381691868104097792, 1795069632968),
	(23, 1, 381691868221538304, 1795069634971),
	(24, 1, 381691868259287040, 1795069635988),
	(25, 0, 381691867793719296, 1795069636067),
	(26, 0, 381691867802107904, 1795069639076);
INSERT INTO posthaste.clock VALUES
	(1, 26, 0);
INSERT INTO posthaste.contracts VALUES
	('\xbd111e4cb0d4789dd62e6dd48e52f50a', '{"name":"standard","description":"Standard Webhooks: signed with HMAC-SHA256 or ed25519, ten attempts in just over three days","brand":"Posthaste","event_types":[],"user_agent":"{brand}/{version}","timeout":"20s","pacing":"adaptive","https_only":null,"body":{"form":"envelope","json":"as_given","time":"milliseconds","fields":[{"name":"id","from":"event_id"},{"name":"type","from":"type"},{"name":"timestamp","from":"created_at"},{"name":"data","from":"data"}]},"signature":{"header":"webhook-signature","signs":"{id}.{t}.{body}","hmac_sha256":"v1,{signature}","ed25519":"v1a,{signature}","encoding":"base64","separator":" "},"secret":{"key":"base64","prefix":"whsec_","bytes":32,"rotation":"both","ed25519_prefix":"whsk_"},"headers":{"webhook-id":"{id}","webhook-timestamp":"{t}"},"retry":{"waits":["20ms"],"jitter":"none","final_wait":null,"give_up_after":"7d","give_up_while_held":false,"retry_after":"honour"},"answers":{"success":["2xx"],"never":[],"switch_off":["410"],"advise_rotation":[]},"off":{"waiting":"held","published":"held"},"health":{"off_after_failed_events":50,"off_after_failing_for":"5d","warning_after":"60h","off_reason":"failing","degraded_above":"5%","degraded_window":"1h"},"notices":{"dead_letter":"digest","dead_letter_by":"email","digest_window":"1h","degraded":"list","off_warning":"email","switched_off":"email","replay_finished":"list"},"retention":{"events":"30d","attempts":"30d","payloads":"30d","dead_letters":"30d"},"states":{"pending":"pending","in_flight":"in_flight","retrying":"retrying","held":"held","delivered":"delivered","dead":"dead","cancelled":"cancelled","expired":"expired","skipped":"skipped","serialisation_failed":null,"signing_failed":null},"ids":{"event":"evt","delivery":"dlv"},"rendering":{"tries":1,"timeout":"5s"}}'),
	('\x9e44be36ba7869d90de73f48e84ac53d', '{"name":"standard","description":"Standard Webhooks: signed with HMAC-SHA256 or ed25519, ten attempts in just over three days","brand":"Posthaste","event_types":[],"user_agent":"{brand}/{version}","timeout":"15s","pacing":"adaptive","https_only":null,"body":{"form":"envelope","json":"as_given","time":"milliseconds","fields":[{"name":"id","from":"event_id"},{"name":"type","from":"type"},{"name":"timestamp","from":"created_at"},{"name":"data","from":"data"}]},"signature":{"header":"webhook-signature","signs":"{id}.{t}.{body}","hmac_sha256":"v1,{signature}","ed25519":"v1a,{signature}","encoding":"base64","separator":" "},"secret":{"key":"base64","prefix":"whsec_","bytes":32,"rotation":"both","ed25519_prefix":"whsk_"},"headers":{"webhook-id":"{id}","webhook-timestamp":"{t}"},"retry":{"waits":["20ms"],"jitter":"none","final_wait":null,"give_up_after":"7d","give_up_while_held":false,"retry_after":"honour"},"answers":{"success":["2xx"],"never":[],"switch_off":["410"],"advise_rotation":[]},"off":{"waiting":"held","published":"held"},"health":{"off_after_failed_events":50,"off_after_failing_for":"5d","warning_after":"60h","off_reason":"failing","degraded_above":"5%","degraded_window":"1h"},"notices":{"dead_letter":"digest","dead_letter_by":"email","digest_window":"1h","degraded":"list","off_warning":"email","switched_off":"email","replay_finished":"list"},"retention":{"events":"30d","attempts":"30d","payloads":"30d","dead_letters":"30d"},"states":{"pending":"pending","in_flight":"in_flight","retrying":"retrying","held":"held","delivered":"delivered","dead":"dead","cancelled":"cancelled","expired":"expired","skipped":"skipped","serialisation_failed":null,"signing_failed":null},"ids":{"event":"evt","delivery":"dlv"},"rendering":{"tries":1,"timeout":"5s"}}'),
	('\xf7626fa04692f50761d903ab23f64da4', '{"name":"standard","description":"Standard Webhooks: signed with HMAC-SHA256 or ed25519, ten attempts in just over three days","brand":"Posthaste","event_types":[],"user_agent":"{brand}/{version}","timeout":"15s","pacing":"adaptive","https_only":null,"body":{"form":"envelope","json":"as_given","time":"milliseconds","fields":[{"name":"id","from":"event_id"},{"name":"type","from":"type"},{"name":"timestamp","from":"created_at"},{"name":"data","from":"data"}]},"signature":{"header":"webhook-signature","signs":"{id}.{t}.{body}","hmac_sha256":"v1,{signature}","ed25519":"v1a,{signature}","encoding":"base64","separator":" "},"secret":{"key":"base64","prefix":"whsec_","bytes":32,"rotation":"both","ed25519_prefix":"whsk_"},"headers":{"webhook-id":"{id}","webhook-timestamp":"{t}"},"retry":{"waits":["1h"],"jitter":"none","final_wait":null,"give_up_after":"7d","give_up_while_held":false,"retry_after":"honour"},"answers":{"success":["2xx"],"never":[],"switch_off":["410"],"advise_rotation":[]},"off":{"waiting":"held","published":"held"},"health":{"off_after_failed_events":50,"off_after_failing_for":"5d","warning_after":"60h","off_reason":"failing","degraded_above":"5%","degraded_window":"1h"},"notices":{"dead_letter":"digest","dead_letter_by":"email","digest_window":"1h","degraded":"list","off_warning":"email","switched_off":"email","replay_finished":"list"},"retention":{"events":"30d","attempts":"30d","payloads":"30d","dead_letters":"30d"},"states":{"pending":"pending","in_flight":"in_flight","retrying":"retrying","held":"held","delivered":"delivered","dead":"dead","cancelled":"cancelled","expired":"expired","skipped":"skipped","serialisation_failed":null,"signing_failed":null},"ids":{"event":"evt","delivery":"dlv"},"rendering":{"tries":1,"timeout":"5s"}}'),
	('\x2d5a11d8d258fcd46cf6d5fe618c2438', '{"name":"standard","description":"Standard Webhooks: signed with HMAC-SHA256 or ed25519, ten attempts in just over three days","brand":"Posthaste","event_types":[],"user_agent":"{brand}/{version}","timeout":"15s","pacing":"adaptive","https_only":null,"body":{"form":"envelope","json":"as_given","time":"milliseconds","fields":[{"name":"id","from":"event_id"},{"name":"type","from":"type"},{"name":"timestamp","from":"created_at"},{"name":"data","from":"data"}]},"signature":{"header":"webhook-signature","signs":"{id}.{t}.{body}","hmac_sha256":"v1,{signature}","ed25519":"v1a,{signature}","encoding":"base64","separator":" "},"secret":{"key":"base64","prefix":"whsec_","bytes":32,"rotation":"both","ed25519_prefix":"whsk_"},"headers":{"webhook-id":"{id}","webhook-timestamp":"{t}"},"retry":{"waits":["1h","2h"],"jitter":"none","final_wait":null,"give_up_after":"7d","give_up_while_held":false,"retry_after":"honour"},"answers":{"success":["2xx"],"never":[],"switch_off":["410"],"advise_rotation":[]},"off":{"waiting":"held","published":"held"},"health":{"off_after_failed_events":50,"off_after_failing_for":"5d","warning_after":"60h","off_reason":"failing","degraded_above":"5%","degraded_window":"1h"},"notices":{"dead_letter":"digest","dead_letter_by":"email","digest_window":"1h","degraded":"list","off_warning":"email","switched_off":"email","replay_finished":"list"},"retention":{"events":"30d","attempts":"30d","payloads":"30d","dead_letters":"30d"},"states":{"pending":"pending","in_flight":"in_flight","retrying":"retrying","held":"held","delivered":"delivered","dead":"dead","cancelled":"cancelled","expired":"expired","skipped":"skipped","serialisation_failed":null,"signing_failed":null},"ids":{"event":"evt","delivery":"dlv"},"rendering":{"tries":1,"timeout":"5s"}}');
INSERT INTO posthaste.dedup VALUES
	('\xcef22e283ab9312e9c08c974c6f21327', 381691868489973760, '\x89e12c1743513447b63ec28f8862b699'),
	('\x2844a543abf4de83d7b916b844a127e4', 381691868489973760, '\x89e12c1743513447b63ec28f8862b699'),
	('\x1fd25311b5ed0619b1895c2181d4f02a', 381691898428915712, '\x2b93dce777df071b141381bb47d0a120'),
	('\x9831ef91200e101e513af8fdea2b151c', 381691898428915712, '\x2b93dce777df071b141381bb47d0a120');
INSERT INTO posthaste.done_20261119 VALUES
	(381691868489973762, 381691867793719296, 381691868489973760, 381691867948908544, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432940, 1795069632955, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305416, 381691867793719296, 381691868540305408, 381691868221538304, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432952, 1795069632960, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305417, 381691867793719296, 381691868540305408, 381691868259287040, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432952, 1795069632961, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973764, 381691867793719296, 381691868489973760, 381691868066349056, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674432940, 1795069632992, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305410, 381691867793719296, 381691868540305408, 381691867948908544, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432952, 1795069633002, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305413, 381691867793719296, 381691868540305408, 381691868104097792, 5, 1, 1, 1, 1, NULL, NULL, 0, 1795674432952, 1795069633002, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305409, 381691867793719296, 381691868540305408, 381691867806302208, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674432952, 1795069633046, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795069633046, NULL),
	(381691868540305412, 381691867793719296, 381691868540305408, 381691868066349056, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674432952, 1795069633074, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973768, 381691867793719296, 381691868489973760, 381691868221538304, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432940, 1795069633969, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973769, 381691867793719296, 381691868489973760, 381691868259287040, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674432940, 1795069633969, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771017, 381691867793719296, 381691877033771008, 381691868259287040, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674434977, 1795069634986, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771010, 381691867793719296, 381691877033771008, 381691867948908544, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674434977, 1795069634986, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771009, 381691867793719296, 381691877033771008, 381691867806302208, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674434977, 1795069635011, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795069635011, NULL),
	(381691876962467849, 381691867793719296, 381691876962467840, 381691868259287040, 6, 6, 0, 0, 0, NULL, NULL, 0, 1795678034000, 1795069635990, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973765, 381691867793719296, 381691868489973760, 381691868104097792, 5, 4, 1, 1, 1, NULL, NULL, 0, 1795674432940, 1795069632954, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771018, 381691867793719296, 381691877033771008, 381691868309618688, 6, 7, 1, 1, 1, NULL, NULL, 0, 1795674434977, 1795069636021, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771012, 381691867793719296, 381691877033771008, 381691868066349056, 5, 0, 2, 5, 5, NULL, NULL, 0, 1795674436005, 1795069636126, NULL, NULL, NULL, NULL, 1795069636027, NULL, NULL, NULL, NULL),
	(381691898445692930, 381691867793719296, 381691898445692928, 381691867948908544, 4, NULL, 0, 1, 1, NULL, NULL, 0, 1795674440082, 1795069640091, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692929, 381691867793719296, 381691898445692928, 381691867806302208, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674440082, 1795069640130, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973761, 381691867793719296, 381691868489973760, 381691867806302208, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674432940, 1795069632992, NULL, 381691868489973760, 381691868489973760, NULL, NULL, NULL, 1, 1795069632992, NULL);
INSERT INTO posthaste.endpoints VALUES
	(381691867948908544, 381691867793719296, 'ok', '{"url":"http://127.0.0.1:18471/ok","event_types":["order.*"]}', NULL, NULL, NULL, 1, 1795069632811, 1795069632811, NULL),
	(381691868024406016, 381691867793719296, 'slow', '{"url":"http://127.0.0.1:18471/slow","event_types":["order.*"]}', NULL, NULL, NULL, 1, 1795069632829, 1795069632829, NULL),
	(381691868066349056, 381691867793719296, 'fail', '{"url":"http://127.0.0.1:18471/fail","event_types":["order.*"]}', NULL, NULL, NULL, 1, 1795069632839, 1795069632839, NULL),
	(381691868167012352, 381691867793719296, 'adaptive', '{"url":"http://127.0.0.1:18471/busy","event_types":["order.*"],"overrides":{"pacing":"adaptive","retry":{"waits":["1h"],"retry_after":"honour"}}}', NULL, NULL, NULL, 1, 1795069632863, 1795069632863, NULL),
	(381691868200566784, 381691867793719296, 'line', '{"url":"http://127.0.0.1:18471/fail","event_types":["order.*"],"ordered":"endpoint","on_dead":"block"}', NULL, NULL, NULL, 1, 1795069632871, 1795069632871, NULL),
	(381691868309618688, 381691867793719296, 'wait', '{"url":"http://127.0.0.1:18471/fail","event_types":["order.*"],"overrides":{"retry":{"waits":["1h","2h"]}}}', NULL, NULL, NULL, 1, 1795069632897, 1795069632897, NULL),
	(381691867806302208, 381691867793719296, 'full', '{"url":"https://127.0.0.1:18471/ok","event_types":["order.*"],"contract":"standard","overrides":{"timeout":"20s"},"payload_version":"2024-01-01","max_in_flight":4,"rate_limit":{"per_second":50,"burst":100},"ordered":"key","on_dead":"skip","health_url":"https://127.0.0.1:18471/health","description":"Orders","metadata":{"team":"shop"}}', NULL, '\x01026b31c1def830f82b4ec18e71142e7bbf954494f18c079aecad49f2beb2cdd0abc800ee677c2d23e6dfc212264affe777086627b4dcffdabc8e9637355662cd48e675211e74ae4196a0210911c52071c9d400', '\x01026b31c26bc0fba621aa1bbd10ba2d6d59cdbf51d7c7ed35f8c47d5d4c69c20c8efab4aa5de73a089d6ecfdf414a474d9af2b69b3a8dde89d409fc643335680ee9c0bea270ab5385e383a24b759c20612c7b0af76f7156a892a7162370de930f155ca3d7e7df28f3f2c7b591ae3814e4fe2cfc1cdfa257f3a870d29e3bf8ccc319f7ddaeacab7d43bd48632e0d4d147ae7746b83a12b255af7d63f1b94860f5f35625fa901390374f6a28c3d263f1ff0e05a2bb268d6dda9b207c5ed00e36eb3a28ddef9174c9d6696792c6bdbef5274ebb7be9f97455096e600aa20d521bd1e94a9962f38941ac7e61779dcdb350d224f89048021eb78b9db565024c1b328cfba4dcee3089673cdedd83abc8aa4ca61c3f8a4333714de4c6b2b0798a190f0b3f762c9615d5e1921c6b7c76ffe5890e90dae24c6a4aeac8edefd1efa56697aeb3904d936fc81478ddcad7bdcff11a3205e3e149f0d3a9ff491dba9f410d73f9334e8af522cc5c27765ad61607ccf5538c8c069e0b6af5d9dd40f55052ec4713b46c6b1b84681d8b915195e80ea0a9c4507ac8566dc7d61ffdf3ae914cadbec094865a165014adad73baf42159e94075fcf4f2709482b0e9d17d33d6e1c770332b0ac806cc53afcaa1797112d8254e64b4193f4d046aa004ab0b0f1a56ee5794257bc6d7012f518290ca00e1fb39c4a9f84c56cb8a654f4b38405f512f086762f07cb584aa5d09d77eedfbb35e22e4b867bc6f15358c91b4178443cb9ab91f189b5c59a47dd7ae6851a16e11fe03eb361a3f675d58f61ba6e40bdb0973c8dfbd5e772df8fd44c5dac181799b68cd42e235b8521b07de9eb796d81510f9b41e3abee0d5ae75c70161efcb805e5020496866e1a98ee3a7a7fb813a2188ec17ea172f791c7206e6a0d4eabc411e3b420c45d3b7a6cf10e25e5685fda5d84fd04ec83216a3764c3c9735158eefe780db58c10a08b5c0e8603a3245aa0081d74b1c4cc7945d8025f3a1ce04c70f36e25e2c40fae43325df72c1c26b93ba96ac1c13dd346493b43520e2056eb761a91be0975059fcab733ed34ed6619c2c3e7161ba25e9282c9637635835d18973955515df38e7f64bd19d607c760ec6d9ae633d67fcf77079876a0e20ccd30bc95df22804da888f0c580c63a4bd3b00e49ba719fa24e02502ea546db5154d2d86464e7dba079f239da04adc9e1b35891c8369d26957794bb4feeec61e9bc7b016e9f73af6b25db60277d321b9bc59f002d07e2076ba99610c34b3841ec221e00ba979468adf15b4e647e9273dba342487ead85027248c005327792ce5dcdeac3600845b2b6e9febcff08420d6b2c91af86464f4b2ca7fd19cd3ab7ee36be6b65ed5b982bba24a8d981df1fb421a0ba4114599e3bf969c642028c0cbbde3e1b4df7eea99936caaf24e209fcbd03320f7773ccda5c6bdc5164ca4ac3d974f72d701a0ae78c37b5755502bd55b8d94d99f3aef2aa58b4ab22c5e0544c180f59d16247d13c479642c8983bba45d832db18b3478fe080fd60fd3bda4dd6d0d706b578e5ddaeb164da6b501234a41ff67102f82fd92a56486282b8d16bbf73053663c9b998232979c9b075ae773c0736d52a2bc8c2e644c5fdb7b7fc50e9b20959d52403d4dadbcbc24321f83568bb377a19b78f1681584309ba8faf7da1565ed6af0f31f248d68570ea244330e4593679f74904e316994558df6bb7c3b46ff03b70a295f5ba972373b4aa3da6837cc9cc04c7e0cd3e7c2d3cfe20097397f5fc24857c980baa849e91f9c8b1d9d8133a523ce2ae03e21005f1d7b418e926db1f8aecf23fb94675edd29426958d88d55f5547c45c9eb2a7e28f10dfebfe2b28c1c97e5e520b2d366360b4c8c5605c3c12ba831b75142332d4a58e787f5111c0c375742798d07edd8750993ec99413ca69b16cbd97d8cbf61fc99511921dc179bb08e0267814cd867b7faffa84421a76c8e0d5c6f5e4617c1a7bc83800daa74fa9adcfc63b714bd2cf001c24977d518f532bf33790590199ba666044c288e120c64c96856adab1882224967e4df4d840da944942baa735bfd1e5b37d21df2dea', 2, 1795069632777, 1795069632903, NULL),
	(381691868104097792, 381691867793719296, 'gone', '{"url":"http://127.0.0.1:18471/gone","event_types":["order.*"]}', '{"reason":"gone","at":1795069632954,"waiting":"held","by":"receiver"}', NULL, NULL, 2, 1795069632848, 1795069632954, NULL),
	(381691868221538304, 381691867793719296, 'off', '{"url":"http://127.0.0.1:18471/ok","event_types":["order.*"]}', '{"reason":"by_hand","at":1795069634970,"waiting":"held","by":{"key":{"id":"settings","name":"given by the settings"}}}', NULL, NULL, 2, 1795069632876, 1795069634970, NULL),
	(381691868259287040, 381691867793719296, 'deleted', '{"url":"http://127.0.0.1:18471/ok","event_types":["order.*"]}', NULL, NULL, NULL, 1, 1795069632885, 1795069632885, 1795069635987);
INSERT INTO posthaste.event_types VALUES
	(381691867697250304, 'order.paid', '{"description":"An order was paid","sample":"{\"total\": 5}","versions":[{"name":"2024-01-01","description":"Flat","schema":{"type":"object"},"function":"data => data"},{"name":"2","schema":{"type":"object"}}],"enforce_schema":true}', 1, 1795069632751, 1795069632751),
	(381691867747581952, 'order.old', '{"description":"Old","sample":"{\"a\": 1}","versions":[{"name":"1","function":"data => data"}],"archived_at":1795069632768}', 2, 1795069632763, 1795069632768);
INSERT INTO posthaste.events_20261119 VALUES
	(381691868489973760, 381691867793719296, 'order.paid', 'paid-1', 1767323045678, 1795069632940, 'order-1', NULL, 0, '\xcef22e283ab9312e9c08c974c6f213272844a543abf4de83d7b916b844a127e4', '\x7b22746f74616c223a20357d'),
	(381691868540305408, 381691867793719296, 'order.paid', NULL, 1795069632952, 1795069632952, 'order-1', NULL, 0, NULL, '\x7b22746f74616c223a20307d'),
	(381691876962467840, 381691867793719296, 'order.paid', NULL, 1795069634960, 1795069634960, NULL, 1795073234000, 0, NULL, '\x7b22746f74616c223a20397d'),
	(381691876987633664, 381691867793719296, 'nobody.wants', NULL, 1795069634966, 1795069634966, NULL, NULL, 1, NULL, '\x7b2278223a20317d'),
	(381691877033771008, 381691867793719296, 'order.paid', NULL, 1795069634977, 1795069634977, 'order-7', NULL, 0, NULL, '\x7b22746f74616c223a20377d'),
	(381691898428915712, 381691867793719296, 'order.paid', 'last', 1795069640078, 1795069640078, 'order-9', 1795073240000, 0, '\x1fd25311b5ed0619b1895c2181d4f02a9831ef91200e101e513af8fdea2b151c', '\x7b22746f74616c223a2031307d'),
	(381691898445692928, 381691867793719296, 'order.paid', NULL, 1795069640082, 1795069640082, NULL, NULL, 0, NULL, '\x7b22746f74616c223a2031317d');
INSERT INTO posthaste.health VALUES
	(381691868104097792, 381691867793719296, 1, 1, 1795069632954, 188, 'HTTP 410', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868167012352, 381691867793719296, 2, 0, 1795069632960, 194, 'HTTP 503', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, 1795073233971, 503),
	(381691868200566784, 381691867793719296, 2, 1, 1795069633974, 1208, 'HTTP 500', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868309618688, 381691867793719296, 4, 0, 1795069632953, 187, 'HTTP 500', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868066349056, 381691867793719296, 10, 3, 1795069632956, 190, 'HTTP 500', NULL, NULL, 0, NULL, 1795069640091, NULL, NULL, NULL, NULL, NULL),
	(381691867806302208, 381691867793719296, 8, 4, 1700000000006, 1700000000007, '500', 1700000000001, 1700000000002, 0, 1700000000003, 1700000000008, 1700000000004, 1, 1700000000005, 1700000000009, 429);
INSERT INTO posthaste.inbox VALUES
	(1, 381691867793719296, 'order.paid', '{"total": 12}', 'inbox-1', 'order-1', '2026-11-19 06:28:04.344469+00', NULL),
	(2, 381691867793719296, 'order.paid', '{"total": 13}', 'inbox-2', 'order-2', '2026-11-19 06:28:04.344469+00', 'data: does not fit');
INSERT INTO posthaste.inspections VALUES
	(381691881546842112, 381691867793719296, 381691867806302208, 1, 2, 1795069636053, 1795069636066, '{"contract":"standard","checks":[{"name":"health_address","finding":"failed","status":null,"duration_ms":1,"sent":"A GET of the health_url.","came_back":"No answer: the server does not speak TLS on this port.","why":"With a health address people can tell a receiver that is down from one that refuses.","advice":"Let the health_url answer a plain GET with 2xx, without a redirect and without a key, while the receiver is well."}]}', 6720812966679563765),
	(381691881534259200, 381691867793719296, 381691867948908544, 0, 2, 1795069636050, 1795069636274, '{"contract":"standard","checks":[{"name":"correct_delivery","finding":"passed","status":200,"duration_ms":1,"sent":"A webhook.test event, signed with the endpoint''s secret as the contract standard says.","came_back":"HTTP 200 after 1 ms.","why":"Everything else can be judged only at a receiver that takes what is right.","advice":null},{"name":"tampered_body","finding":"failed","status":200,"duration_ms":44,"sent":"A correctly signed request in whose body one value was changed afterwards.","came_back":"HTTP 200 after 44 ms.","why":"Whoever can change a request on its way, or knows the form of one, could change amounts and accounts.","advice":"Compute the signature over the bytes of the body as they came, compare it in constant time with the one in the header, and answer 401 before anything else is done when they differ."},{"name":"old_timestamp","finding":"failed","status":200,"duration_ms":44,"sent":"A request whose timestamp is 1h old, correctly signed.","came_back":"HTTP 200 after 44 ms.","why":"Whoever once recorded a request, from a log or a proxy, could send it again at any later time.","advice":"Refuse with 400 what is older than five minutes, by the timestamp that is part of the signed text."},{"name":"unknown_signature","finding":"failed","status":200,"duration_ms":44,"sent":"A request whose webhook-signature has the right form, but was made with a random secret.","came_back":"HTTP 200 after 44 ms.","why":"The address of a receiver is no secret: anybody can send it a request.","advice":"Compute the signature over the bytes of the body as they came, compare it in constant time with the one in the header, and answer 401 before anything else is done when they differ."},{"name":"repeated_id","finding":"passed","status":200,"duration_ms":44,"sent":"The correct delivery once more, as a retry: the same ids, a fresh timestamp.","came_back":"HTTP 200 after 44 ms.","why":"Every sender repeats itself: an answer can get lost, and then the same event comes again.","advice":"Whether the work was done only once cannot be seen from outside: look it up in the receiver."},{"name":"odd_json","finding":"passed","status":200,"duration_ms":44,"sent":"A correctly signed body of legal JSON that few serialisers would write: raw and escaped characters beyond ASCII, 1.0, 1e5, a large integer, an empty key, unsorted keys, spaces, deep nesting.","came_back":"HTTP 200 after 44 ms.","why":"Real data holds such values sooner or later. A receiver that parses the body and writes it again before it verifies gets other bytes than those that were signed.","advice":null},{"name":"answer_time","finding":"passed","status":null,"duration_ms":44,"sent":"Nothing more: the accepted requests were timed, from looking up the name to the last byte.","came_back":"The slowest of 6 accepted requests took 44 ms.","why":"Under this contract a request is given up after 15s and tried again. Receivers should answer within 5s.","advice":null},{"name":"health_address","finding":"does_not_apply","status":null,"duration_ms":null,"sent":"Nothing.","came_back":"The endpoint has no health_url.","why":"With a health address people can tell a receiver that is down from one that refuses.","advice":"If the receiver has an address that answers 2xx while it is well, set it as health_url on the endpoint."}]}', 6720812966679563765);
INSERT INTO posthaste.keys VALUES
	(381691868380921856, '\x756a3deb8c4aee0ceab881c5543948438a04fa04747ba1e495d6e7f45f524454', 'phk_1x8q0a', 'app', 381691867793719296, 'checkout', 1795069632914, 4070908800000, NULL, NULL, NULL),
	(381691868435447808, '\x9d42060d901ebe502ec473905864afea1c7f5872474b61f75f990b5c157ab872', 'phk_g0mpef', 'publish', 381691867793719296, 'old', 1795069632927, NULL, NULL, 1795069632930, NULL),
	(381691868464807936, '\x25095d3c6544d5f81473c8306e19e14ea9dc7cd31afa053f7fa58da178eda516', 'pht_dejeg1', 'portal', 381691867793719296, 'Bakery', 1795069632934, 1795156032934, NULL, NULL, '{"name":"Bakery","logo_url":"https://cdn.bakery.example/logo.svg","accent":"#1a73e8"}'),
	(381691868414476288, '\x13a9f92b85735fe82ef8ec55b7c247ba38b98696a6f7f56fe12504ba6d537944', 'phk_8ed0ec', 'admin', NULL, 'ops', 1795069632922, NULL, 1795069632929, NULL, NULL);
INSERT INTO posthaste.ledger VALUES
	(6720812966679563765, -2, 1, 4102444800014),
	(6720812966679563765, -1, 136, 4102444800014);
INSERT INTO posthaste.live VALUES
	(381691868489973763, 381691867793719296, 381691868489973760, 381691868024406016, 2, NULL, 0, 0, 0, -6720812966679563765, NULL, 0, 1795674432940, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305411, 381691867793719296, 381691868540305408, 381691868024406016, 2, NULL, 0, 0, 0, -6720812966679563765, NULL, 0, 1795674432952, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305415, 381691867793719296, 381691868540305408, 381691868200566784, 0, NULL, 0, 0, 0, 381691868200566784, 253402300799000, 0, 1795674432952, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, 1),
	(381691868489973770, 381691867793719296, 381691868489973760, 381691868309618688, 1, NULL, 2, 1, 1, 381691868309618688, 1795073232953, 0, 1795674432940, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305414, 381691867793719296, 381691868540305408, 381691868167012352, 1, NULL, 1, 1, 1, 381691868167012352, 1795073232960, 0, 1795674432952, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868540305418, 381691867793719296, 381691868540305408, 381691868309618688, 1, NULL, 1, 1, 1, 381691868309618688, 1795073233002, 0, 1795674432952, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691868489973767, 381691867793719296, 381691868489973760, 381691868200566784, 5, 0, 2, 2, 2, NULL, NULL, 0, 1795674432940, 1795069634038, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL),
	(381691876962467841, 381691867793719296, 381691876962467840, 381691867806302208, 0, NULL, 0, 0, 0, 381691867806302208, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467842, 381691867793719296, 381691876962467840, 381691867948908544, 0, NULL, 0, 0, 0, 381691867948908544, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467843, 381691867793719296, 381691876962467840, 381691868024406016, 0, NULL, 0, 0, 0, 381691868024406016, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467844, 381691867793719296, 381691876962467840, 381691868066349056, 0, NULL, 0, 0, 0, 381691868066349056, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467845, 381691867793719296, 381691876962467840, 381691868104097792, 3, NULL, 0, 0, 0, NULL, 1795073234000, 0, 1795678034000, NULL, 1795069634960, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467846, 381691867793719296, 381691876962467840, 381691868167012352, 0, NULL, 0, 0, 0, 381691868167012352, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467847, 381691867793719296, 381691876962467840, 381691868200566784, 0, NULL, 0, 0, 0, 381691868200566784, 253402300799000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, 2),
	(381691876962467850, 381691867793719296, 381691876962467840, 381691868309618688, 0, NULL, 0, 0, 0, 381691868309618688, 1795073234000, 0, 1795678034000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691876962467848, 381691867793719296, 381691876962467840, 381691868221538304, 3, NULL, 0, 0, 0, NULL, 1795073234000, 0, 1795678034000, NULL, 1795069634974, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771011, 381691867793719296, 381691877033771008, 381691868024406016, 2, NULL, 0, 0, 0, -6720812966679563765, NULL, 0, 1795674434977, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771013, 381691867793719296, 381691877033771008, 381691868104097792, 3, NULL, 0, 0, 0, NULL, 1795069634977, 0, 1795674434977, NULL, 1795069634977, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771014, 381691867793719296, 381691877033771008, 381691868167012352, 0, NULL, 0, 0, 0, 381691868167012352, 1795069634977, 0, 1795674434977, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691877033771015, 381691867793719296, 381691877033771008, 381691868200566784, 0, NULL, 0, 0, 0, 381691868200566784, 253402300799000, 0, 1795674434977, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, 3),
	(381691877033771016, 381691867793719296, 381691877033771008, 381691868221538304, 3, NULL, 0, 0, 0, NULL, 1795069634977, 0, 1795674434977, NULL, 1795069634977, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915713, 381691867793719296, 381691898428915712, 381691867806302208, 0, NULL, 0, 0, 0, 381691867806302208, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, 7269423979332677445, NULL, NULL, NULL),
	(381691898428915714, 381691867793719296, 381691898428915712, 381691867948908544, 0, NULL, 0, 0, 0, 381691867948908544, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915715, 381691867793719296, 381691898428915712, 381691868024406016, 0, NULL, 0, 0, 0, 381691868024406016, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915716, 381691867793719296, 381691898428915712, 381691868066349056, 0, NULL, 0, 0, 0, 381691868066349056, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915717, 381691867793719296, 381691898428915712, 381691868104097792, 3, NULL, 0, 0, 0, NULL, 1795073240000, 0, 1795678040000, NULL, 1795069640078, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915718, 381691867793719296, 381691898428915712, 381691868167012352, 0, NULL, 0, 0, 0, 381691868167012352, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915719, 381691867793719296, 381691898428915712, 381691868200566784, 0, NULL, 0, 0, 0, 381691868200566784, 253402300799000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, 4),
	(381691898428915720, 381691867793719296, 381691898428915712, 381691868221538304, 3, NULL, 0, 0, 0, NULL, 1795073240000, 0, 1795678040000, NULL, 1795069640078, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898428915721, 381691867793719296, 381691898428915712, 381691868309618688, 0, NULL, 0, 0, 0, 381691868309618688, 1795073240000, 0, 1795678040000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692931, 381691867793719296, 381691898445692928, 381691868024406016, 2, NULL, 0, 0, 0, -6720812966679563765, NULL, 0, 1795674440082, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692933, 381691867793719296, 381691898445692928, 381691868104097792, 3, NULL, 0, 0, 0, NULL, 1795069640082, 0, 1795674440082, NULL, 1795069640082, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692935, 381691867793719296, 381691898445692928, 381691868200566784, 0, NULL, 0, 0, 0, 381691868200566784, 253402300799000, 0, 1795674440082, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, 5),
	(381691898445692936, 381691867793719296, 381691898445692928, 381691868221538304, 3, NULL, 0, 0, 0, NULL, 1795069640082, 0, 1795674440082, NULL, 1795069640082, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692937, 381691867793719296, 381691898445692928, 381691868309618688, 1, NULL, 1, 1, 1, 381691868309618688, 1795073240091, 0, 1795674440082, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692932, 381691867793719296, 381691898445692928, 381691868066349056, 1, NULL, 1, 1, 1, 381691868066349056, 1795069640111, 0, 1795674440082, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(381691898445692934, 381691867793719296, 381691898445692928, 381691868167012352, 0, NULL, 0, 0, 0, 381691868167012352, 1795069640082, 0, 1795674440082, NULL, NULL, 381691898445692933, 381691898445692933, '5,0,,0,1700000000000,1', 1700000000010, NULL, 1, NULL, NULL),
	(381691868489973766, 381691867793719296, 381691868489973760, 381691868167012352, 1, NULL, 1, 1, 1, 381691868167012352, 1795073233971, 0, 1795674432940, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1700000000016, NULL);
INSERT INTO posthaste.locks VALUES
	(0, 381691867806302208),
	(0, 381691867948908544),
	(0, 381691868024406016),
	(0, 381691868066349056),
	(0, 381691868104097792),
	(0, 381691868167012352),
	(0, 381691868200566784),
	(0, 381691868221538304),
	(0, 381691868259287040),
	(0, 381691868309618688),
	(1, 381691867806302208),
	(1, 381691868066349056),
	(1, 381691868104097792),
	(1, 381691868309618688),
	(2, 381691867793719296),
	(1, 381691868167012352),
	(1, 381691868200566784),
	(1, 381691868259287040);
INSERT INTO posthaste.migrations VALUES
	(1, 1, '\x30974f7831346057e5e1cb2f1c41098c6012cd0ad7ce0e28a0c079e132182614', '2026-11-19 06:27:12.19954+00'),
	(2, 1, '\xd9847e9907802598cb6d50dccef30d8eeb2e8471556fb92884ef6ac30ff2c6aa', '2026-11-19 06:27:12.456241+00'),
	(3, 1, '\x8ebcf1f458655f641eb8de997868cad18fb21c2edbbafb97b17d2332de0322bb', '2026-11-19 06:27:12.4872+00'),
	(4, 1, '\xb8c2de9561a53ad6e3fe2b628c0804297301ff4041dec183604da5c9dcc4d838', '2026-11-19 06:27:12.496323+00');
INSERT INTO posthaste.moving VALUES
	(1, 'file:0123', 1);
INSERT INTO posthaste.newest VALUES
	(1, 381691881584590848);
INSERT INTO posthaste.nodes VALUES
	(6720812966679563765, -6720812966679563765, 'a-1', '0.1.0', 'host-a', 4711, 1795069632642, 1795069650047, 1795069632643, 1, 26, 17, 0, '381691868167012352', 4);
INSERT INTO posthaste.notices VALUES
	(4, 381691867793719296, 5, 381691867948908544, NULL, 381691881492316160, 1795069636051, '{"text":"The backfill rpl_0ak0aqss00000 is finished: 0 sent.","since":1795069636040}', NULL, NULL, 1, NULL, 0, NULL, NULL, NULL, 0),
	(2, 381691867793719296, 4, NULL, 381691898445692929, NULL, 1795069632954, '{"text":"11 deliveries could not be delivered and are dead letters now.","since":1795069632940,"last_error":"the server does not speak TLS on this port"}', '{"number":381691898445692928,"event_type":"order.paid"}', '{"first":{"at":1795069632954,"delivery":381691868489973765,"event":{"number":381691868489973760,"given_id":"paid-1","event_type":"order.paid"},"last_error":"HTTP 410"},"last":{"at":1795069640130,"delivery":381691898445692929,"event":{"number":381691898445692928,"event_type":"order.paid"},"last_error":"the server does not speak TLS on this port"},"endpoints":[{"endpoint":381691868104097792,"count":2},{"endpoint":381691868066349056,"count":4},{"endpoint":381691867806302208,"count":4},{"endpoint":381691868200566784,"count":1}],"elsewhere":0}', 11, 1795073232954, 1, NULL, NULL, NULL, 1),
	(3, 381691867793719296, 2, 381691868221538304, NULL, NULL, 1795069634970, '{"text":"This endpoint was switched off by hand with the key settings (given by the settings).","reason":"by_hand"}', NULL, NULL, 1, NULL, 0, NULL, NULL, NULL, 0),
	(1, 381691867793719296, 2, 381691868104097792, NULL, NULL, 1795069632954, '{"text":"This endpoint was switched off: its receiver answered that it is gone.","last_error":"HTTP 410","reason":"gone"}', NULL, NULL, 1, NULL, 2, 1, '250 queued', 1795069632959, 0);
INSERT INTO posthaste.purges VALUES
	(381691867802107904, 0);
INSERT INTO posthaste.replays VALUES
	(381691881492316160, 381691867793719296, '{"backfill":{"endpoint":381691867948908544,"event_type":"order.paid"}}', 1, 2, 0, 381692133150556160, 381691877033771008, 0, 0, 0, NULL, 1795069636040, 1795069636051, 11),
	(381691881454567424, 381691867793719296, '{"deliveries":{"endpoint":null,"event_type":"order.paid","states":["dead","delivered"]}}', 1, 1, 0, 381691881454567424, -1, 12, 3, 2, 'not_found', 1795069636031, 1795069636038, 7);
INSERT INTO posthaste.secrets VALUES
	(381691867948908544, 0, '\x01026b31647cd6b6005c5885e01ab0310bbcb2a176ac97bf994e02b1034d7e36cd3e237e59d9d2a5f4d9b6d6cc68f00fb3b53fcfdd59f7cbe45a60c7c67b21645e85756d049bb393c9b790b8e8b45520fda8', 1795069632811, NULL),
	(381691868024406016, 0, '\x01026b31dd5682bdee7069b36ac9396413e261f05861b7be83ff8cd49f73555d68025c464e054cb22fce65c5fcdd0b651bb1ab9a2d66eb95d3d458d55f9e649deeb0e91fb30b0ca1b22d50c115380a08fa2a', 1795069632829, NULL),
	(381691868066349056, 0, '\x01026b31ecec5350c03ea6eb6ad048d5e7d4e9c4dab17c1a2e220271d314e031e16fb5dc4b64bec11435d7301fb30c0c274fbf8dfd26b7c4f75773e798cf8a889d05da6845b0475f68ae6247cbcee82aedce', 1795069632839, NULL),
	(381691868104097792, 0, '\x01026b312ec6ae69a3f6cb9ee2924481ad17693606eecbb961fb783830a7242c659e06856f7868d0de2bc18e4bcc70f8eca3c51f4e9ebf0f352fcf96e1bf2ef9c83b699ab799bda2bf0a833b0ef3d7eb4332', 1795069632848, NULL),
	(381691868167012352, 0, '\x01026b3132d37ea40c72a879effab520fcf964fddd0fb2e027234c8a2d9ad7445cd28c1a178429b9387e34be80253aed6ec422c353ff6a556e82128684e032a554987ec811dff2432d1e616e964f1e0ddd6a', 1795069632863, NULL),
	(381691868200566784, 0, '\x01026b31502ad288312655a82f30622cfbca06b9c78caf7ceea60f3f37b84742f35d1a6544965838f81c807ce429b33dfac3d0e19b2c9a1039fc3f79525a8a140868e5270138de5ec3bd39c09ea9508e0a77', 1795069632871, NULL),
	(381691868309618688, 0, '\x01026b31ce869497d9a4ff38e0b6792f9525b082523c311c421f26c1056a63733665f1c2de4dfd56a4775e1ebe2bb1d479d8cf3819b3d6c0dd4232a55f9b7d2cfbe6f68c154be77a5e8cf77585205f7ddbd8', 1795069632897, NULL),
	(381691867806302208, 0, '\x01026b31abd4f3f34511be5b2d07b6b978145c7e163b20bf0fe80f40bbf6653926eff44c9a9b53d0bee6a1d8dbb8773504724172e59fb349a3461f827ce95526c3befe85148140e948e643307c893a0ec76c', 1795069632777, 1795156032903),
	(381691867806302208, 1, '\x01026b31c1f89b4eb8b122d74388d00a04485f267382ff1c1f7ad968bb2c768d14d0184175af61a976abfadcc4387cbccdaee475c73691c49d2790df22bb86fdc95ccfad3b1c672ddcfc1196f245af78755b', 1795069632903, NULL),
	(381691868221538304, 0, '\x01026b312a22416790bc6a4e1e9d577b1829b962ee87c10c9e4280ee03032ed58a42e1fb860315d8547ddbd047308520995ec17109dfbb1e08f716d64a5e34e014aa5dfeb18086403a1c42bbc4126a1ffeeb', 1795069632876, NULL);
INSERT INTO posthaste.shards VALUES
	(184, 6720812966679563765),
	(116, 6720812966679563765),
	(87, 6720812966679563765),
	(51, 6720812966679563765),
	(70, 6720812966679563765),
	(190, 6720812966679563765),
	(176, 6720812966679563765),
	(169, 6720812966679563765),
	(92, 6720812966679563765),
	(180, 6720812966679563765),
	(236, 6720812966679563765),
	(22, 6720812966679563765),
	(156, 6720812966679563765),
	(197, 6720812966679563765),
	(135, 6720812966679563765),
	(227, 6720812966679563765),
	(173, 6720812966679563765),
	(149, 6720812966679563765),
	(73, 6720812966679563765),
	(103, 6720812966679563765),
	(42, 6720812966679563765),
	(189, 6720812966679563765),
	(239, 6720812966679563765),
	(161, 6720812966679563765),
	(121, 6720812966679563765),
	(117, 6720812966679563765),
	(88, 6720812966679563765),
	(188, 6720812966679563765),
	(125, 6720812966679563765),
	(113, 6720812966679563765),
	(40, 6720812966679563765),
	(240, 6720812966679563765),
	(43, 6720812966679563765),
	(196, 6720812966679563765),
	(120, 6720812966679563765),
	(15, 6720812966679563765),
	(226, 6720812966679563765),
	(210, 6720812966679563765),
	(48, 6720812966679563765),
	(187, 6720812966679563765),
	(57, 6720812966679563765),
	(81, 6720812966679563765),
	(61, 6720812966679563765),
	(19, 6720812966679563765),
	(244, 6720812966679563765),
	(160, 6720812966679563765),
	(242, 6720812966679563765),
	(251, 6720812966679563765),
	(204, 6720812966679563765),
	(104, 6720812966679563765),
	(5, 6720812966679563765),
	(171, 6720812966679563765),
	(91, 6720812966679563765),
	(179, 6720812966679563765),
	(54, 6720812966679563765),
	(29, 6720812966679563765),
	(4, 6720812966679563765),
	(181, 6720812966679563765),
	(96, 6720812966679563765),
	(201, 6720812966679563765),
	(10, 6720812966679563765),
	(105, 6720812966679563765),
	(35, 6720812966679563765),
	(107, 6720812966679563765),
	(6, 6720812966679563765),
	(233, 6720812966679563765),
	(220, 6720812966679563765),
	(86, 6720812966679563765),
	(93, 6720812966679563765),
	(89, 6720812966679563765),
	(219, 6720812966679563765),
	(252, 6720812966679563765),
	(241, 6720812966679563765),
	(175, 6720812966679563765),
	(31, 6720812966679563765),
	(50, 6720812966679563765),
	(253, 6720812966679563765),
	(14, 6720812966679563765),
	(231, 6720812966679563765),
	(66, 6720812966679563765),
	(109, 6720812966679563765),
	(155, 6720812966679563765),
	(13, 6720812966679563765),
	(133, 6720812966679563765),
	(195, 6720812966679563765),
	(2, 6720812966679563765),
	(199, 6720812966679563765),
	(246, 6720812966679563765),
	(75, 6720812966679563765),
	(128, 6720812966679563765),
	(243, 6720812966679563765),
	(166, 6720812966679563765),
	(142, 6720812966679563765),
	(152, 6720812966679563765),
	(230, 6720812966679563765),
	(7, 6720812966679563765),
	(222, 6720812966679563765),
	(38, 6720812966679563765),
	(193, 6720812966679563765),
	(254, 6720812966679563765),
	(164, 6720812966679563765),
	(78, 6720812966679563765),
	(217, 6720812966679563765),
	(159, 6720812966679563765),
	(250, 6720812966679563765),
	(186, 6720812966679563765),
	(47, 6720812966679563765),
	(177, 6720812966679563765),
	(20, 6720812966679563765),
	(182, 6720812966679563765),
	(1, 6720812966679563765),
	(76, 6720812966679563765),
	(106, 6720812966679563765),
	(18, 6720812966679563765),
	(110, 6720812966679563765),
	(178, 6720812966679563765),
	(145, 6720812966679563765),
	(129, 6720812966679563765),
	(27, 6720812966679563765),
	(143, 6720812966679563765),
	(203, 6720812966679563765),
	(58, 6720812966679563765),
	(228, 6720812966679563765),
	(8, 6720812966679563765),
	(71, 6720812966679563765),
	(229, 6720812966679563765),
	(68, 6720812966679563765),
	(146, 6720812966679563765),
	(80, 6720812966679563765),
	(52, 6720812966679563765),
	(162, 6720812966679563765),
	(132, 6720812966679563765),
	(84, 6720812966679563765),
	(170, 6720812966679563765),
	(192, 6720812966679563765),
	(237, 6720812966679563765),
	(101, 6720812966679563765),
	(69, 6720812966679563765),
	(115, 6720812966679563765),
	(114, 6720812966679563765),
	(60, 6720812966679563765),
	(97, 6720812966679563765),
	(238, 6720812966679563765),
	(112, 6720812966679563765),
	(108, 6720812966679563765),
	(59, 6720812966679563765),
	(65, 6720812966679563765),
	(127, 6720812966679563765),
	(124, 6720812966679563765),
	(98, 6720812966679563765),
	(200, 6720812966679563765),
	(44, 6720812966679563765),
	(11, 6720812966679563765),
	(235, 6720812966679563765),
	(82, 6720812966679563765),
	(119, 6720812966679563765),
	(153, 6720812966679563765),
	(147, 6720812966679563765),
	(214, 6720812966679563765),
	(202, 6720812966679563765),
	(9, 6720812966679563765),
	(79, 6720812966679563765),
	(26, 6720812966679563765),
	(85, 6720812966679563765),
	(72, 6720812966679563765),
	(95, 6720812966679563765),
	(232, 6720812966679563765),
	(77, 6720812966679563765),
	(172, 6720812966679563765),
	(30, 6720812966679563765),
	(21, 6720812966679563765),
	(131, 6720812966679563765),
	(3, 6720812966679563765),
	(198, 6720812966679563765),
	(17, 6720812966679563765),
	(212, 6720812966679563765),
	(37, 6720812966679563765),
	(28, 6720812966679563765),
	(249, 6720812966679563765),
	(255, 6720812966679563765),
	(165, 6720812966679563765),
	(56, 6720812966679563765),
	(151, 6720812966679563765),
	(209, 6720812966679563765),
	(74, 6720812966679563765),
	(225, 6720812966679563765),
	(138, 6720812966679563765),
	(34, 6720812966679563765),
	(0, 6720812966679563765),
	(245, 6720812966679563765),
	(205, 6720812966679563765),
	(83, 6720812966679563765),
	(67, 6720812966679563765),
	(63, 6720812966679563765),
	(90, 6720812966679563765),
	(216, 6720812966679563765),
	(174, 6720812966679563765),
	(45, 6720812966679563765),
	(213, 6720812966679563765),
	(134, 6720812966679563765),
	(144, 6720812966679563765),
	(39, 6720812966679563765),
	(168, 6720812966679563765),
	(163, 6720812966679563765),
	(223, 6720812966679563765),
	(36, 6720812966679563765),
	(221, 6720812966679563765),
	(102, 6720812966679563765),
	(167, 6720812966679563765),
	(158, 6720812966679563765),
	(118, 6720812966679563765),
	(111, 6720812966679563765),
	(16, 6720812966679563765),
	(207, 6720812966679563765),
	(62, 6720812966679563765),
	(123, 6720812966679563765),
	(126, 6720812966679563765),
	(194, 6720812966679563765),
	(99, 6720812966679563765),
	(41, 6720812966679563765),
	(206, 6720812966679563765),
	(46, 6720812966679563765),
	(224, 6720812966679563765),
	(157, 6720812966679563765),
	(53, 6720812966679563765),
	(32, 6720812966679563765),
	(247, 6720812966679563765),
	(183, 6720812966679563765),
	(100, 6720812966679563765),
	(136, 6720812966679563765),
	(150, 6720812966679563765),
	(140, 6720812966679563765),
	(139, 6720812966679563765),
	(12, 6720812966679563765),
	(248, 6720812966679563765),
	(137, 6720812966679563765),
	(208, 6720812966679563765),
	(24, 6720812966679563765),
	(191, 6720812966679563765),
	(25, 6720812966679563765),
	(141, 6720812966679563765),
	(122, 6720812966679563765),
	(94, 6720812966679563765),
	(218, 6720812966679563765),
	(154, 6720812966679563765),
	(234, 6720812966679563765),
	(49, 6720812966679563765),
	(211, 6720812966679563765),
	(33, 6720812966679563765),
	(185, 6720812966679563765),
	(64, 6720812966679563765),
	(215, 6720812966679563765),
	(55, 6720812966679563765),
	(148, 6720812966679563765),
	(130, 6720812966679563765),
	(23, 6720812966679563765);
INSERT INTO posthaste.statistics VALUES
	(381691867793719296, 381691868104097792, 60, 1795069620000, 0, 2, 0, 2, 47884, '{"13":1,"16":1}', NULL, 0, '{"-410":2}', 2, 3),
	(381691867793719296, 381691868104097792, 3600, 1795068000000, 0, 2, 0, 2, 47884, '{"13":1,"16":1}', NULL, 0, '{"-410":2}', 0, 0),
	(381691867793719296, 381691868104097792, 86400, 1795046400000, 0, 2, 0, 2, 47884, '{"13":1,"16":1}', NULL, 0, '{"-410":2}', 0, 0),
	(0, 0, 60, 1795069620000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(0, 0, 3600, 1795068000000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(0, 0, 86400, 1795046400000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 0, 60, 1795069620000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 0, 3600, 1795068000000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 0, 86400, 1795046400000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 5, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 381691868167012352, 60, 1795069620000, 0, 2, 0, 0, 1020596, '{"11":1,"20":1}', NULL, 0, '{"-503":2}', 0, 0),
	(381691867793719296, 381691868167012352, 3600, 1795068000000, 0, 2, 0, 0, 1020596, '{"11":1,"20":1}', NULL, 0, '{"-503":2}', 0, 0),
	(381691867793719296, 381691868167012352, 86400, 1795046400000, 0, 2, 0, 0, 1020596, '{"11":1,"20":1}', NULL, 0, '{"-503":2}', 0, 0),
	(381691867793719296, 381691868200566784, 60, 1795069620000, 0, 2, 0, 1, 1063158, '{"16":1,"20":1}', NULL, 0, '{"-500":2}', 0, 0),
	(381691867793719296, 381691868200566784, 3600, 1795068000000, 0, 2, 0, 1, 1063158, '{"16":1,"20":1}', NULL, 0, '{"-500":2}', 0, 0),
	(381691867793719296, 381691868200566784, 86400, 1795046400000, 0, 2, 0, 1, 1063158, '{"16":1,"20":1}', NULL, 0, '{"-500":2}', 0, 0),
	(381691867793719296, 381691868221538304, 60, 1795069620000, 2, 0, 2, 0, 1019191, '{"11":1,"20":1}', 1795069633969, 0, '{"200":2}', 0, 0),
	(381691867793719296, 381691868221538304, 3600, 1795068000000, 2, 0, 2, 0, 1019191, '{"11":1,"20":1}', 1795069633969, 0, '{"200":2}', 0, 0),
	(381691867793719296, 381691868221538304, 86400, 1795046400000, 2, 0, 2, 0, 1019191, '{"11":1,"20":1}', 1795069633969, 0, '{"200":2}', 0, 0),
	(381691867793719296, 381691867806302208, 60, 1795069620000, 0, 6, 0, 3, 10642, '{"10":2,"11":2,"12":2}', NULL, 0, '{"-5":6}', 0, 0),
	(381691867793719296, 381691867806302208, 3600, 1795068000000, 0, 6, 0, 3, 10642, '{"10":2,"11":2,"12":2}', NULL, 0, '{"-5":6}', 0, 0),
	(381691867793719296, 381691867806302208, 86400, 1795046400000, 0, 6, 0, 3, 10642, '{"10":2,"11":2,"12":2}', NULL, 0, '{"-5":6}', 0, 0),
	(381691867793719296, 381691867948908544, 60, 1795069620000, 3, 0, 3, 0, 49010, '{"11":1,"12":1,"16":1}', 1795069634986, 0, '{"200":3}', 0, 0),
	(381691867793719296, 381691867948908544, 3600, 1795068000000, 3, 0, 3, 0, 49010, '{"11":1,"12":1,"16":1}', 1795069634986, 0, '{"200":3}', 0, 0),
	(381691867793719296, 381691867948908544, 86400, 1795046400000, 3, 0, 3, 0, 49010, '{"11":1,"12":1,"16":1}', 1795069634986, 0, '{"200":3}', 0, 0),
	(381691867793719296, 381691868066349056, 60, 1795069620000, 0, 9, 0, 4, 226018, '{"9":1,"11":2,"12":1,"16":5}', NULL, 0, '{"-500":9}', 0, 0),
	(381691867793719296, 381691868066349056, 3600, 1795068000000, 0, 9, 0, 4, 226018, '{"9":1,"11":2,"12":1,"16":5}', NULL, 0, '{"-500":9}', 0, 0),
	(381691867793719296, 381691868309618688, 60, 1795069620000, 0, 3, 0, 0, 48371, '{"11":1,"12":1,"16":1}', NULL, 0, '{"-500":3}', 0, 0),
	(381691867793719296, 381691868309618688, 3600, 1795068000000, 0, 3, 0, 0, 48371, '{"11":1,"12":1,"16":1}', NULL, 0, '{"-500":3}', 0, 0),
	(381691867793719296, 381691868309618688, 86400, 1795046400000, 0, 3, 0, 0, 48371, '{"11":1,"12":1,"16":1}', NULL, 0, '{"-500":3}', 0, 0),
	(381691867793719296, 381691868066349056, 86400, 1795046400000, 0, 9, 0, 4, 226018, '{"9":1,"11":2,"12":1,"16":5}', NULL, 0, '{"-500":9}', 0, 0);
INSERT INTO posthaste.statistics_by_type VALUES
	(0, 'nobody.wants', 60, 1795069620000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(0, 'nobody.wants', 3600, 1795068000000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(0, 'nobody.wants', 86400, 1795046400000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(381691867793719296, 'nobody.wants', 60, 1795069620000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(381691867793719296, 'nobody.wants', 3600, 1795068000000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(381691867793719296, 'nobody.wants', 86400, 1795046400000, 0, 0, 0, 0, 0, '{}', NULL, 1, '{}', 0, 0),
	(0, 'order.paid', 60, 1795069620000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 2, 3),
	(0, 'order.paid', 3600, 1795068000000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(0, 'order.paid', 86400, 1795046400000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 'order.paid', 60, 1795069620000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 'order.paid', 3600, 1795068000000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0),
	(381691867793719296, 'order.paid', 86400, 1795046400000, 8, 24, 8, 10, 4505403, '{"9":1,"10":2,"11":9,"12":6,"13":1,"16":9,"20":4}', 1795069634986, 4, '{"-503":2,"-500":14,"-410":2,"-5":6,"200":8}', 0, 0);
INSERT INTO posthaste.statistics_log VALUES
	(27, '[[381691867793719296,null,"order.paid",29917827,[1,0,0,0,0,0,0,0],null,[],[]]]'),
	(28, '[[381691867793719296,null,"order.paid",29917827,[1,0,0,0,0,0,0,0],null,[],[]]]'),
	(29, '[[381691867793719296,381691868309618688,"order.paid",29917827,[0,0,1,0,0,0,0,576],null,[[10,1]],[[-500,1]]]]'),
	(30, '[[381691867793719296,381691867948908544,"order.paid",29917827,[0,1,0,1,0,0,0,620],20091,[[10,1]],[[200,1]]]]'),
	(31, '[[381691867793719296,381691867806302208,"order.paid",29917827,[0,0,1,0,0,0,0,729],null,[[10,1]],[[-5,1]]],[381691867793719296,381691868066349056,"order.paid",29917827,[0,0,1,0,0,0,0,814],null,[[10,1]],[[-500,1]]]]'),
	(32, '[[381691867793719296,381691867806302208,"order.paid",29917827,[0,0,1,0,1,0,0,3774],null,[[12,1]],[[-5,1]]]]');
SELECT pg_catalog.setval('posthaste.inbox_id_seq', 2, true);
SELECT pg_catalog.setval('posthaste.notices_id_seq', 4, true);
SELECT pg_catalog.setval('posthaste.statistics_log_id_seq', 32, true);
ALTER TABLE ONLY posthaste.accountable
    ADD CONSTRAINT accountable_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY posthaste.apps
    ADD CONSTRAINT apps_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.apps
    ADD CONSTRAINT apps_uid_key UNIQUE (uid);
ALTER TABLE ONLY posthaste.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (delivery, "position");
ALTER TABLE ONLY posthaste.attempts_20261119
    ADD CONSTRAINT attempts_20261119_pkey PRIMARY KEY (delivery, "position");
ALTER TABLE ONLY posthaste.attempts_20261120
    ADD CONSTRAINT attempts_20261120_pkey PRIMARY KEY (delivery, "position");
ALTER TABLE ONLY posthaste.attempts_20261121
    ADD CONSTRAINT attempts_20261121_pkey PRIMARY KEY (delivery, "position");
ALTER TABLE ONLY posthaste.attempts_rest
    ADD CONSTRAINT attempts_rest_pkey PRIMARY KEY (delivery, "position");
ALTER TABLE ONLY posthaste.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (version, kind, id);
ALTER TABLE ONLY posthaste.clock
    ADD CONSTRAINT clock_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY posthaste.contracts
    ADD CONSTRAINT contracts_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY posthaste.dedup
    ADD CONSTRAINT dedup_pkey PRIMARY KEY (key);
ALTER TABLE ONLY posthaste.done
    ADD CONSTRAINT done_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.done_20261119
    ADD CONSTRAINT done_20261119_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.done_20261120
    ADD CONSTRAINT done_20261120_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.done_20261121
    ADD CONSTRAINT done_20261121_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.done_rest
    ADD CONSTRAINT done_rest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.endpoints
    ADD CONSTRAINT endpoints_app_uid_key UNIQUE (app, uid);
ALTER TABLE ONLY posthaste.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.event_types
    ADD CONSTRAINT event_types_name_key UNIQUE (name);
ALTER TABLE ONLY posthaste.event_types
    ADD CONSTRAINT event_types_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.events_20261119
    ADD CONSTRAINT events_20261119_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.events_20261120
    ADD CONSTRAINT events_20261120_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.events_20261121
    ADD CONSTRAINT events_20261121_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.events_rest
    ADD CONSTRAINT events_rest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.health
    ADD CONSTRAINT health_pkey PRIMARY KEY (endpoint);
ALTER TABLE ONLY posthaste.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.inspections
    ADD CONSTRAINT inspections_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (epoch, writer);
ALTER TABLE ONLY posthaste.live
    ADD CONSTRAINT live_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.locks
    ADD CONSTRAINT locks_pkey PRIMARY KEY (kind, endpoint);
ALTER TABLE ONLY posthaste.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);
ALTER TABLE ONLY posthaste.moving
    ADD CONSTRAINT moving_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY posthaste.newest
    ADD CONSTRAINT newest_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY posthaste.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (epoch);
ALTER TABLE ONLY posthaste.nodes
    ADD CONSTRAINT nodes_slot_key UNIQUE (slot);
ALTER TABLE ONLY posthaste.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.purges
    ADD CONSTRAINT purges_pkey PRIMARY KEY (app);
ALTER TABLE ONLY posthaste.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (endpoint, "position");
ALTER TABLE ONLY posthaste.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY posthaste.statistics_by_type
    ADD CONSTRAINT statistics_by_type_pkey PRIMARY KEY (app, width, start, type);
ALTER TABLE ONLY posthaste.statistics_log
    ADD CONSTRAINT statistics_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY posthaste.statistics
    ADD CONSTRAINT statistics_pkey PRIMARY KEY (app, endpoint, width, start);
CREATE INDEX audit_by_app ON posthaste.audit USING btree (app, id);
CREATE INDEX done_dead ON ONLY posthaste.done USING btree (app, finished_at) WHERE (state = 5);
CREATE INDEX done_20261119_app_finished_at_idx ON posthaste.done_20261119 USING btree (app, finished_at) WHERE (state = 5);
CREATE INDEX done_later ON ONLY posthaste.done USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX done_20261119_event_idx ON posthaste.done_20261119 USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX done_20261120_app_finished_at_idx ON posthaste.done_20261120 USING btree (app, finished_at) WHERE (state = 5);
CREATE INDEX done_20261120_event_idx ON posthaste.done_20261120 USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX done_20261121_app_finished_at_idx ON posthaste.done_20261121 USING btree (app, finished_at) WHERE (state = 5);
CREATE INDEX done_20261121_event_idx ON posthaste.done_20261121 USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX done_rest_app_finished_at_idx ON posthaste.done_rest USING btree (app, finished_at) WHERE (state = 5);
CREATE INDEX done_rest_event_idx ON posthaste.done_rest USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX health_degraded ON posthaste.health USING btree (endpoint) WHERE (degraded_since IS NOT NULL);
CREATE INDEX health_failed ON posthaste.health USING btree (endpoint) WHERE (first_failed_at IS NOT NULL);
CREATE INDEX health_in_trouble ON posthaste.health USING btree (app) WHERE ((degraded_since IS NOT NULL) OR (failing_since IS NOT NULL));
CREATE INDEX inbox_by_app ON posthaste.inbox USING btree (app, id) WHERE (error IS NULL);
CREATE INDEX inbox_refused ON posthaste.inbox USING btree (id) WHERE (error IS NOT NULL);
CREATE INDEX inspections_by_endpoint ON posthaste.inspections USING btree (endpoint);
CREATE UNIQUE INDEX inspections_open ON posthaste.inspections USING btree (endpoint) WHERE (state < 2);
CREATE INDEX keys_of_portals ON posthaste.keys USING btree (app, expires_at) WHERE (scope = ANY (ARRAY['portal'::text, 'portal_read'::text]));
CREATE INDEX live_behind ON posthaste.live USING btree (endpoint, okey, turn) WHERE ((okey IS NOT NULL) AND (due = '253402300799000'::bigint));
CREATE INDEX live_blocking ON posthaste.live USING btree (endpoint) WHERE ((okey IS NOT NULL) AND (state = 5));
CREATE INDEX live_by_hand ON posthaste.live USING btree (lane, due, id) WHERE ((lane IS NOT NULL) AND (state = 0) AND (asked IS NOT NULL));
CREATE INDEX live_by_lane ON posthaste.live USING btree (lane, due, id) WHERE (lane IS NOT NULL);
CREATE INDEX live_dead ON posthaste.live USING btree (app, finished_at) WHERE (state = 5);
CREATE UNIQUE INDEX live_first ON posthaste.live USING btree (endpoint, okey) WHERE ((okey IS NOT NULL) AND (due IS DISTINCT FROM '253402300799000'::bigint));
CREATE INDEX live_held ON posthaste.live USING btree (endpoint, id) WHERE (state = 3);
CREATE INDEX live_later ON posthaste.live USING btree (event) WHERE (id > (event + 65535));
CREATE INDEX live_retrying ON posthaste.live USING btree (lane, due) WHERE ((state = 1) AND (at_due = 0));
CREATE INDEX notices_by_age ON posthaste.notices USING btree (at);
CREATE INDEX notices_by_app ON posthaste.notices USING btree (app, id);
CREATE INDEX notices_closing ON posthaste.notices USING btree (open_until) WHERE (open_until IS NOT NULL);
CREATE INDEX notices_digests ON posthaste.notices USING btree (app, kind, open_until) WHERE (open_until IS NOT NULL);
CREATE INDEX notices_in_letters ON posthaste.notices USING btree (app, letter) WHERE ((mail = 1) AND (letter IS NOT NULL));
CREATE INDEX notices_to_mail ON posthaste.notices USING btree (app, kind, id) WHERE ((mail = 1) AND (open_until IS NULL));
CREATE INDEX notices_to_publish ON posthaste.notices USING btree (id) WHERE (hook = 1);
CREATE INDEX replays_by_app ON posthaste.replays USING btree (app, id);
CREATE INDEX replays_running ON posthaste.replays USING btree (id) WHERE (state = 0);
CREATE INDEX statistics_by_age ON posthaste.statistics USING btree (width, start) WHERE (app >= 0);
CREATE INDEX statistics_by_type_by_age ON posthaste.statistics_by_type USING btree (width, start) WHERE (app >= 0);
ALTER INDEX posthaste.attempts_pkey ATTACH PARTITION posthaste.attempts_20261119_pkey;
ALTER INDEX posthaste.attempts_pkey ATTACH PARTITION posthaste.attempts_20261120_pkey;
ALTER INDEX posthaste.attempts_pkey ATTACH PARTITION posthaste.attempts_20261121_pkey;
ALTER INDEX posthaste.attempts_pkey ATTACH PARTITION posthaste.attempts_rest_pkey;
ALTER INDEX posthaste.done_dead ATTACH PARTITION posthaste.done_20261119_app_finished_at_idx;
ALTER INDEX posthaste.done_later ATTACH PARTITION posthaste.done_20261119_event_idx;
ALTER INDEX posthaste.done_pkey ATTACH PARTITION posthaste.done_20261119_pkey;
ALTER INDEX posthaste.done_dead ATTACH PARTITION posthaste.done_20261120_app_finished_at_idx;
ALTER INDEX posthaste.done_later ATTACH PARTITION posthaste.done_20261120_event_idx;
ALTER INDEX posthaste.done_pkey ATTACH PARTITION posthaste.done_20261120_pkey;
ALTER INDEX posthaste.done_dead ATTACH PARTITION posthaste.done_20261121_app_finished_at_idx;
ALTER INDEX posthaste.done_later ATTACH PARTITION posthaste.done_20261121_event_idx;
ALTER INDEX posthaste.done_pkey ATTACH PARTITION posthaste.done_20261121_pkey;
ALTER INDEX posthaste.done_dead ATTACH PARTITION posthaste.done_rest_app_finished_at_idx;
ALTER INDEX posthaste.done_later ATTACH PARTITION posthaste.done_rest_event_idx;
ALTER INDEX posthaste.done_pkey ATTACH PARTITION posthaste.done_rest_pkey;
ALTER INDEX posthaste.events_pkey ATTACH PARTITION posthaste.events_20261119_pkey;
ALTER INDEX posthaste.events_pkey ATTACH PARTITION posthaste.events_20261120_pkey;
ALTER INDEX posthaste.events_pkey ATTACH PARTITION posthaste.events_20261121_pkey;
ALTER INDEX posthaste.events_pkey ATTACH PARTITION posthaste.events_rest_pkey;
CREATE TRIGGER forget_inbox AFTER DELETE ON posthaste.apps FOR EACH ROW EXECUTE FUNCTION posthaste.forget_inbox();
CREATE TRIGGER forget_locks AFTER DELETE ON posthaste.apps FOR EACH ROW EXECUTE FUNCTION posthaste.forget_locks('{2}');
CREATE TRIGGER forget_locks AFTER DELETE ON posthaste.endpoints FOR EACH ROW EXECUTE FUNCTION posthaste.forget_locks('{0,1}');
GRANT USAGE ON SCHEMA posthaste TO posthaste_publisher;
REVOKE ALL ON FUNCTION posthaste.forget_inbox() FROM PUBLIC;
REVOKE ALL ON FUNCTION posthaste.forget_locks() FROM PUBLIC;
REVOKE ALL ON FUNCTION posthaste.publish(app text, type text, data json, id text, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION posthaste.publish(app text, type text, data json, id text, key text) TO posthaste_publisher;
