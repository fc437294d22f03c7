-- How many dead messages were not produced to the dead topic, up to a cap, and how many of them come after a
-- position.
-- Caller: store/periodic/dead_messages.c, every second. Index: inbox_messages_dead_topic.
-- $1 cap, $2 and $3 the position: a dead_at in microseconds and a seq, 0 and 0 = before all. A dead_at of infinity is left
-- out, because it cannot be produced.
SELECT count(*), CASE WHEN $3::bigint = 0 THEN count(*) ELSE (
    SELECT count(*) FROM (
        SELECT 1 FROM inbox.inbox_messages m
        WHERE m.dead_at IS NOT NULL AND m.claimed_by IS NOT NULL AND m.dead_topic_at IS DISTINCT FROM m.dead_at
          AND (m.dead_at, m.seq) > (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::bigint)
          AND m.dead_at < 'infinity'
        ORDER BY m.dead_at NULLS FIRST, m.seq
        LIMIT $1::bigint) b) END
FROM (
    SELECT 1 FROM inbox.inbox_messages m
    WHERE m.dead_at IS NOT NULL AND m.claimed_by IS NOT NULL AND m.dead_topic_at IS DISTINCT FROM m.dead_at
      AND m.dead_at > '-infinity' AND m.dead_at < 'infinity'
    ORDER BY m.dead_at NULLS FIRST, m.seq
    LIMIT $1::bigint) d
