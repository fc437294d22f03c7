-- What a backfill would copy: messages, those without payload, those whose key already has a later one that no longer
-- waits; and the last seq of the table. Reads the whole table.
-- Caller: ops/backfill.c. Index: none.
-- $1 filter.
SELECT copies, without_payload, late, until_seq FROM inbox.backfill_count($1::jsonb)
