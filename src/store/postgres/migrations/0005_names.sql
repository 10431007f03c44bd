-- Gives every table, column and index the name of what it holds, and contracts a format number. Nothing is copied and no index
-- is made anew. One mapping for both stores; `sqlite/migrations/0006_names.sql` has the same names. Nodes of versions that do not
-- know this step cannot work beside it.

ALTER TABLE purges RENAME TO app_deletions;
ALTER TABLE app_deletions RENAME COLUMN done TO deleted_up_to;
ALTER TABLE newest RENAME TO id_watermark;
ALTER TABLE accountable RENAME TO adjusted_clock;
ALTER TABLE adjusted_clock RENAME COLUMN ours_at TO local_outage_at;
ALTER TABLE ledger RENAME TO writer_batches;
ALTER TABLE clock RENAME TO config_version;
ALTER TABLE config_version RENAME COLUMN forgotten TO trimmed_version;
ALTER TABLE changes RENAME TO config_changes;
ALTER TABLE moving RENAME TO sqlite_import;
ALTER TABLE sqlite_import RENAME COLUMN done TO finished;

ALTER TABLE endpoints RENAME COLUMN off TO disabled;
ALTER TABLE endpoints RENAME COLUMN headers TO encrypted_headers;
ALTER TABLE endpoints RENAME COLUMN tls TO encrypted_tls;
ALTER TABLE secrets RENAME COLUMN sealed TO encrypted;
ALTER TABLE keys RENAME COLUMN shown TO prefix;
ALTER TABLE events RENAME COLUMN given_id TO external_id;
ALTER TABLE audit RENAME COLUMN thing TO object;

ALTER TABLE live RENAME TO deliveries_open;
ALTER TABLE done RENAME TO deliveries_ended;
-- The view stays, with what it was granted to.
DO $names$
DECLARE
    relation text;
    names record;
BEGIN
    FOREACH relation IN ARRAY ARRAY['TABLE deliveries_open', 'TABLE deliveries_ended', 'VIEW deliveries'] LOOP
        FOR names IN SELECT * FROM (VALUES ('place', 'retry_index'), ('lane', 'queue'), ('at_due', 'due_action'),
            ('okey', 'ordering_key'), ('asked', 'manual'), ('turn', 'order_seq')) AS n (was, is_now)
        LOOP
            EXECUTE format('ALTER %s RENAME COLUMN %I TO %I', relation, names.was, names.is_now);
        END LOOP;
    END LOOP;
END
$names$;

ALTER TABLE notices RENAME COLUMN facts TO details;
ALTER TABLE notices RENAME COLUMN mail TO email_state;
ALTER TABLE notices RENAME COLUMN letter TO email_group;
ALTER TABLE notices RENAME COLUMN mail_error TO email_error;
ALTER TABLE notices RENAME COLUMN mailed_at TO emailed_at;
ALTER TABLE notices RENAME COLUMN hook TO webhook_pending;

ALTER TABLE health RENAME COLUMN told_by TO notified_channel;
ALTER TABLE health RENAME COLUMN told_since TO notified_since;

ALTER TABLE statistics RENAME COLUMN endings TO outcomes;
ALTER TABLE statistics RENAME COLUMN unblamed TO dead_excused;
ALTER TABLE statistics_by_type RENAME COLUMN endings TO outcomes;
ALTER TABLE statistics_by_type RENAME COLUMN unblamed TO dead_excused;

ALTER TABLE nodes RENAME COLUMN slot TO id_slot;
ALTER TABLE nodes RENAME COLUMN steady_since TO lease_unbroken_since;
ALTER TABLE nodes RENAME COLUMN seen TO seen_version;
ALTER TABLE nodes RENAME COLUMN free_hands TO free_permits;
ALTER TABLE nodes RENAME COLUMN help TO overloaded_endpoints;
ALTER TABLE nodes RENAME COLUMN knows TO schema_known;

ALTER INDEX live_by_lane RENAME TO deliveries_open_by_queue;
ALTER INDEX live_by_hand RENAME TO deliveries_open_manual;
ALTER INDEX live_first RENAME TO deliveries_open_order_head;
ALTER INDEX live_behind RENAME TO deliveries_open_order_queue;
ALTER INDEX notices_to_mail RENAME TO notices_to_email;
ALTER INDEX notices_in_letters RENAME TO notices_in_emails;

ALTER FUNCTION forget_locks() RENAME TO delete_locks;
ALTER FUNCTION forget_inbox() RENAME TO delete_inbox;
ALTER TRIGGER forget_locks ON endpoints RENAME TO delete_locks;
ALTER TRIGGER forget_locks ON apps RENAME TO delete_locks;
ALTER TRIGGER forget_inbox ON apps RENAME TO delete_inbox;

-- Partitions, indexes and constraints carry the names of their tables.
DO $names$
DECLARE
    names record;
    object record;
BEGIN
    FOR names IN SELECT * FROM (VALUES ('live', 'deliveries_open'), ('done', 'deliveries_ended'), ('purges', 'app_deletions'),
        ('newest', 'id_watermark'), ('accountable', 'adjusted_clock'), ('ledger', 'writer_batches'), ('clock', 'config_version'),
        ('changes', 'config_changes'), ('moving_done', 'sqlite_import_finished'), ('moving', 'sqlite_import'),
        ('nodes_slot', 'nodes_id_slot')) AS n (was, is_now)
    LOOP
        FOR object IN SELECT oid::regclass AS known, names.is_now || substr(relname, length(names.was) + 1) AS new FROM pg_class
            WHERE relnamespace = 'posthaste'::regnamespace AND starts_with(relname, names.was || '_') ORDER BY relkind DESC
        LOOP
            EXECUTE format('ALTER TABLE %s RENAME TO %I', object.known, object.new);
        END LOOP;
        -- A constraint of a table with partitions takes those of the partitions with it.
        FOR object IN SELECT conrelid::regclass AS known, conname AS was, names.is_now || substr(conname, length(names.was) + 1) AS new
            FROM pg_constraint WHERE connamespace = 'posthaste'::regnamespace AND starts_with(conname, names.was || '_')
                AND conparentid = 0 AND coninhcount = 0
        LOOP
            EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', object.known, object.was, object.new);
        END LOOP;
    END LOOP;
END
$names$;

-- Stored contracts keep the hash that they were stored under: attempts refer to it.
UPDATE contracts SET document = '{"format":1,' || substr(document, 2);
