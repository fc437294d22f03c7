-- How many messages are dead and not discarded, up to a cap.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: inbox_messages_dead.
-- $1 cap.
SELECT count(*)
FROM (SELECT 1 FROM inbox.inbox_messages
      WHERE dead_at IS NOT NULL AND (error_code IS DISTINCT FROM 'DISCARDED' OR claimed_by IS NOT NULL)
      LIMIT $1::bigint) d
