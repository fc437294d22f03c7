-- Waits until all own transactions that claim have ended, also one whose answer was lost (rule R3): they hold this
-- row FOR KEY SHARE.
-- Caller: store/batches/watermarks.c and store/claims/claims.c, before a rescue of the own rows. Index: inbox_instances_pkey.
-- $1 own id.
SELECT 1 FROM inbox.inbox_instances WHERE id = $1::int FOR UPDATE
