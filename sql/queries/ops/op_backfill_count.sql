-- What a backfill would copy: messages, those without payload, those whose key already has a later one that no longer
-- waits; the last seq of the table; how many a handler of the consumer has processed for another one, that handler, and that
-- consumer. Reads the whole table.
-- Caller: ops/backfill.c. Index: none.
-- $1 filter.
SELECT c.copies, c.without_payload, c.late, c.until_seq, k.repeats, k.handler, k.done_for
FROM inbox.backfill_count($1::jsonb) c
CROSS JOIN inbox.backfill_repeats($1::jsonb) k
