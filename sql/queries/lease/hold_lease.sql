-- Holds the own lease until the end of a transaction that claims (rule R4): an instance that fences this one waits
-- for it, and a fenced instance finds no row.
-- Caller: store/batches/batch_writer.c and store/batches/watermarks.c, first in the transaction. Index: inbox_instances_pkey.
-- Named: with any statistics its plan is this index.
-- $1 own id.
SELECT 1 FROM inbox.inbox_instances
-- include: lease
FOR KEY SHARE
