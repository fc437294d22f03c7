-- The events with a seq or an event id; the columns as in op_show. No index has event ids: it reads the whole outbox.
-- Caller: ops/show.c. Index: outbox_pkey.
-- $1 seq or event id.
SELECT e.source, row_to_json(e)::text, coalesce(jsonb_pretty(e.payload_json), e.payload_text), e.payload, e.seq,
       e.payload_json IS NOT NULL, false
FROM (SELECT o.seq FROM inbox.outbox o
      WHERE o.seq = CASE WHEN $1::text ~ '^[0-9]{1,18}$' THEN $1::text::bigint END
      UNION
      SELECT o.seq FROM inbox.outbox o WHERE o.event_id = $1::text) f
JOIN inbox.events e ON e.seq = f.seq
ORDER BY e.seq
LIMIT 20
