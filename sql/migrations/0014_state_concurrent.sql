-- What waits or is dead, by state and seq: pages that operators read. 1 is dead, 2 parked, 3 retrying, 4 waiting. No other
-- index has this order (seq + 0 is seq), so no other one is taken for it, whatever statistics say; and it is not taken for
-- others (0007), for only statements that are meant for it say that retry_count is not negative. A completion changes
-- nothing in it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_state ON inbox.inbox_messages
    ((CASE WHEN dead_at IS NOT NULL THEN 1 WHEN available_at = 'infinity' THEN 2 WHEN retry_count > 0 THEN 3 ELSE 4 END),
     (seq + 0)) WHERE (dead_at IS NOT NULL OR available_at IS NOT NULL) AND retry_count >= 0;
