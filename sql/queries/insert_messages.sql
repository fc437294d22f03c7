-- Stores a batch: each (event_id, source) once, in the order of the batch. A row is born claimed by
-- $1 (place 0), waiting (1) or parked (2); one that asks ($14) is parked instead of claimed when an
-- older row of its key (or, with $15, of its partition) waits in the table (rule R11).
-- Caller: store/inbox.c. Index: inbox_messages_pkey (conflict), inbox_messages_key, inbox_messages_position.
-- Not EXISTS: the planner may turn that into one look at every waiting row of the table. OFFSET 0: or
-- it would ask once for each mention of "behind".
-- Back: the rows that were new, in the order of the batch; of those with one id the first.
INSERT INTO inbox.inbox_messages
    (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp,
     key, headers, payload, payload_digest, available_at, claimed_by, delivery_count)
SELECT i.source, i.event_id, i.event_type, i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp,
       i.key, i.headers, i.payload, i.payload_digest,
       CASE WHEN i.place = 1 THEN now() WHEN i.place = 2 OR b.behind THEN 'infinity'::timestamptz END,
       CASE WHEN i.place = 0 AND NOT b.behind THEN $1::int END,
       CASE WHEN i.place = 0 AND NOT b.behind THEN 1 ELSE 0 END
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bigint[], $8::timestamptz[],
            $9::bytea[], $10::jsonb[], $11::bytea[], $12::bytea[], $13::smallint[], $14::boolean[])
     AS i(source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp,
          key, headers, payload, payload_digest, place, asks)
CROSS JOIN LATERAL (
    SELECT CASE WHEN NOT i.asks THEN false
                WHEN $15::boolean THEN (
                    SELECT true FROM inbox.inbox_messages w
                    WHERE w.topic = i.topic AND w.kafka_partition = i.kafka_partition
                      AND w.available_at IS NOT NULL
                    LIMIT 1) IS NOT NULL
                ELSE (
                    SELECT true FROM inbox.inbox_messages w
                    WHERE w.topic = i.topic AND w.kafka_partition = i.kafka_partition
                      AND substr(sha256(w.key), 1, 8) = substr(sha256(i.key), 1, 8)
                      AND w.available_at IS NOT NULL
                    LIMIT 1) IS NOT NULL END AS behind
    OFFSET 0) b
ON CONFLICT (event_id, source) DO NOTHING
RETURNING seq, event_id, source, claimed_by IS NOT NULL
