-- Stores a batch for the consumer '': each (event_id, source) once, in the order of the batch. A row is born claimed
-- by $1 (placement 0), waiting (1) or parked (2). A row that asks ($14) is parked instead of claimed if an older row of
-- its key (or, with $15, of its partition) waits in the table (rule R11).
-- Caller: store/batches/batch_writer.c. Index: inbox_messages_pkey (conflict), inbox_messages_key, inbox_messages_position.
-- The arrays are unnested in the select list: in FROM each would be copied into a tuplestore first (2 us a row).
-- Not EXISTS: the planner may turn that into one look at every waiting row of the table. OFFSET 0:
-- without it the probe would run once for each mention of "behind".
-- Back: the rows that were new, in the order of the batch; of those with one id the first.
INSERT INTO inbox.inbox_messages
    (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp,
     key, headers, payload, payload_digest, available_at, claimed_by, delivery_count)
SELECT i.source, i.event_id, i.event_type, i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp,
       i.key, i.headers, i.payload, i.payload_digest,
       CASE WHEN i.placement = 1 THEN now() WHEN i.placement = 2 OR i.behind THEN 'infinity'::timestamptz END,
       CASE WHEN i.placement = 0 AND NOT i.behind THEN $1::int END,
       CASE WHEN i.placement = 0 AND NOT i.behind THEN 1 ELSE 0 END
FROM (
    SELECT r.*,
           CASE WHEN NOT r.asks THEN false
                WHEN $15::boolean THEN (
                    SELECT true FROM inbox.inbox_messages w
                    WHERE w.topic = r.topic AND w.kafka_partition = r.kafka_partition
                      AND w.available_at IS NOT NULL AND w.kafka_offset >= 0
                    LIMIT 1) IS NOT NULL
                ELSE (
                    SELECT true FROM inbox.inbox_messages w
                    WHERE w.topic = r.topic AND w.kafka_partition = r.kafka_partition
                      AND substr(sha256(w.key), 1, 8) = substr(sha256(r.key), 1, 8)
                      AND w.available_at IS NOT NULL AND w.seq > 0
                    LIMIT 1) IS NOT NULL END AS behind
    FROM (
        SELECT unnest($2::text[]) AS source, unnest($3::text[]) AS event_id, unnest($4::text[]) AS event_type,
               unnest($5::text[]) AS topic, unnest($6::int[]) AS kafka_partition,
               unnest($7::bigint[]) AS kafka_offset, unnest($8::timestamptz[]) AS kafka_timestamp,
               unnest($9::bytea[]) AS key, unnest($10::jsonb[]) AS headers, unnest($11::bytea[]) AS payload,
               unnest($12::bytea[]) AS payload_digest, unnest($13::smallint[]) AS placement,
               unnest($14::boolean[]) AS asks) r
    OFFSET 0) i
ON CONFLICT (event_id, source, consumer) DO NOTHING
RETURNING seq, event_id, source, claimed_by IS NOT NULL
