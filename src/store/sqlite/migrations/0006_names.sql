-- Gives every table, column and index the name of what it holds, and contracts a format number. Nothing is copied: only the
-- indexes at the end are made anew. One mapping for both stores; `postgres/migrations/0005_names.sql` has the same names.

ALTER TABLE purges RENAME TO app_deletions;
ALTER TABLE app_deletions RENAME COLUMN done TO deleted_up_to;
ALTER TABLE newest RENAME TO id_watermark;
ALTER TABLE accountable RENAME TO adjusted_clock;
ALTER TABLE adjusted_clock RENAME COLUMN ours_at TO local_outage_at;
ALTER TABLE ledger RENAME TO writer_batches;
ALTER TABLE clock RENAME TO config_version;
ALTER TABLE config_version RENAME COLUMN forgotten TO trimmed_version;
ALTER TABLE changes RENAME TO config_changes;

ALTER TABLE endpoints RENAME COLUMN off TO disabled;
ALTER TABLE endpoints RENAME COLUMN headers TO encrypted_headers;
ALTER TABLE endpoints RENAME COLUMN tls TO encrypted_tls;
ALTER TABLE secrets RENAME COLUMN sealed TO encrypted;
ALTER TABLE keys RENAME COLUMN shown TO prefix;
ALTER TABLE events RENAME COLUMN given_id TO external_id;
ALTER TABLE audit RENAME COLUMN thing TO object;

ALTER TABLE deliveries RENAME COLUMN place TO retry_index;
ALTER TABLE deliveries RENAME COLUMN lane TO queue;
ALTER TABLE deliveries RENAME COLUMN at_due TO due_action;
ALTER TABLE deliveries RENAME COLUMN okey TO ordering_key;
ALTER TABLE deliveries RENAME COLUMN asked TO manual;
ALTER TABLE deliveries RENAME COLUMN turn TO order_seq;

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

-- An index cannot be renamed. All of these have a condition and are small.
DROP INDEX deliveries_by_lane;
DROP INDEX deliveries_by_hand;
DROP INDEX deliveries_first;
DROP INDEX deliveries_behind;
DROP INDEX notices_to_mail;
DROP INDEX notices_in_letters;
CREATE INDEX deliveries_by_queue ON deliveries (queue, due) WHERE queue IS NOT NULL;
CREATE INDEX deliveries_manual ON deliveries (queue, due)
    WHERE queue IS NOT NULL AND state = 0 AND manual IS NOT NULL;
CREATE UNIQUE INDEX deliveries_order_head ON deliveries (endpoint, ordering_key) WHERE ordering_key IS NOT NULL AND due IS NOT 253402300799000;
CREATE INDEX deliveries_order_queue ON deliveries (endpoint, ordering_key, order_seq) WHERE ordering_key IS NOT NULL AND due = 253402300799000;
CREATE INDEX notices_to_email ON notices (app, kind, id) WHERE email_state = 1 AND open_until IS NULL;
CREATE INDEX notices_in_emails ON notices (app, email_group) WHERE email_state = 1 AND email_group IS NOT NULL;

-- Stored contracts keep the hash that they were stored under: attempts refer to it.
UPDATE contracts SET document = '{"format":1,' || substr(document, 2);
