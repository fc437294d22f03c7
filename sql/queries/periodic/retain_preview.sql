-- How many rows of one kind a shorter retention will affect.
-- Caller: store/periodic/retain_batch.c, once after a reload. Index: inbox_messages_dead; otherwise a scan that ends at the cap.
-- $1 what, as for inbox.retain(), except audit, which a sidecar may not read; $2 age in ms; $3 cap. Back: the number of rows, at most the cap.
SELECT count(*)
FROM (
    SELECT FROM inbox.inbox_messages m
    WHERE $1::text IN ('payload', 'processed') AND m.processed_at <= now() - $2::bigint * interval '1 millisecond'
      AND ($1::text = 'processed' OR m.payload IS NOT NULL)
    UNION ALL
    SELECT FROM inbox.inbox_messages m
    WHERE $1::text IN ('dead', 'dead_produced') AND m.dead_at <= now() - $2::bigint * interval '1 millisecond'
      AND ($1::text = 'dead' OR m.claimed_by IS NULL OR m.dead_topic_at IS NOT DISTINCT FROM m.dead_at)
    UNION ALL
    SELECT FROM inbox.inbox_rejects t WHERE $1::text = 'rejects' AND t.received_at <= now() - $2::bigint * interval '1 millisecond'
    UNION ALL
    SELECT FROM inbox.inbox_conflicts t WHERE $1::text = 'conflicts' AND t.received_at <= now() - $2::bigint * interval '1 millisecond'
    UNION ALL
    SELECT FROM inbox.outbox o WHERE $1::text = 'outbox' AND o.published_at <= now() - $2::bigint * interval '1 millisecond'
    UNION ALL
    SELECT FROM inbox.outbox o WHERE $1::text = 'outbox_dead' AND o.dead_at <= now() - $2::bigint * interval '1 millisecond'
    LIMIT $3::bigint) l
