-- How many dead messages the dead topic has not heard of, up to a cap.
-- Caller: store/dead.c, every second. Index: inbox_messages_dead_topic.
-- $1 cap.
SELECT count(*) FROM (
    SELECT 1 FROM inbox.inbox_messages m
    WHERE m.dead_at IS NOT NULL AND m.claimed_by IS NOT NULL AND m.dead_topic_at IS DISTINCT FROM m.dead_at
    ORDER BY m.dead_at NULLS FIRST, m.seq
    LIMIT $1::bigint) d
