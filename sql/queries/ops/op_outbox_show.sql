-- The events with a seq or an event id; the columns as in op_show. No index has event ids: it reads the whole outbox.
-- Caller: ops/show.c. Index: outbox_pkey.
-- $1 seq or event id.
SELECT m.source, row_to_json(m)::text, coalesce(f.formatted, m.payload_text), m.payload, m.seq,
       f.formatted IS NOT NULL, false
FROM (SELECT o.seq FROM inbox.outbox o
      WHERE o.seq = CASE WHEN $1::text ~ '^[0-9]{1,18}$' THEN $1::text::bigint END
      UNION
      SELECT o.seq FROM inbox.outbox o WHERE o.event_id = $1::text) n
JOIN inbox.events m ON m.seq = n.seq
-- include: formatted
ORDER BY m.seq
LIMIT 20
