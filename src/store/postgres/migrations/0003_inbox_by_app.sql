-- What waits in the inbox is looked for app by app, so that the many events of one keep no other waiting. Nodes of the version before
-- look through all of it instead, which is little.
CREATE INDEX inbox_by_app ON inbox (app, id) WHERE error IS NULL;
DROP INDEX inbox_waiting;
