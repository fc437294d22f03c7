-- Stores a batch: each (event_id, source, consumer) once, in the order of the batch. A row is born claimed by $1
-- (placement 0), waiting (1) or parked (2).
-- $14: the row must be checked: it is parked instead of claimed if any row of its lane waits in the table (rule R11).
-- 0 = no, 1 = its lane is its key, 2 = its lane is its whole stream. $16: at least one row must be checked.
-- $17: a consumer is being renamed. Then an event that has a row under the earlier name is a repeat, too (docs/adr/0040).
-- Caller: store/batches/batch_writer.c. Index: inbox_messages_pkey (conflict), inbox_messages_by_key, inbox_messages_by_offset.
-- Named: with any statistics its plans are these indexes.
-- The arrays are unnested in the select list: in FROM each would be copied into a tuplestore first (2 us a row).
-- One lookup per key starts at the highest offset, because the claimed rows of a hot key leave dead index entries at
-- the low offsets. Not EXISTS: the planner may turn that into a lookup of every waiting row of the table.
-- OFFSET 0: without it "behind" would be computed once for each mention.
-- Returns the new rows in the order of the batch; of rows with the same id and consumer, the first.
WITH waiting AS MATERIALIZED (
    SELECT a.*
    FROM (SELECT DISTINCT r.topic, r.kafka_partition, r.consumer, r.asks,
                 CASE WHEN r.asks = 2 THEN '' ELSE substr(sha256(r.key), 1, 8) END AS lane
          FROM (SELECT unnest($5::text[]) AS topic, unnest($6::int[]) AS kafka_partition,
                       unnest($9::bytea[]) AS key, unnest($14::smallint[]) AS asks, unnest($15::text[]) AS consumer) r
          WHERE r.asks > 0) a
    WHERE $16::boolean
      AND CASE WHEN a.asks = 2 THEN (
                   SELECT true FROM inbox.inbox_messages w
                   WHERE w.topic = a.topic AND w.kafka_partition = a.kafka_partition AND w.consumer = a.consumer
                     AND w.available_at IS NOT NULL AND w.kafka_offset >= 0
                   ORDER BY w.kafka_offset DESC LIMIT 1)
               ELSE (
                   SELECT true FROM inbox.inbox_messages w
                   WHERE w.topic = a.topic AND w.kafka_partition = a.kafka_partition AND w.consumer = a.consumer
                     AND substr(sha256(w.key), 1, 8) = a.lane AND w.available_at IS NOT NULL AND w.seq > 0
                   ORDER BY w.kafka_offset DESC LIMIT 1) END
)
INSERT INTO inbox.inbox_messages
    (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp,
     key, headers, payload, payload_digest, consumer, available_at, claimed_by, delivery_count)
SELECT i.source, i.event_id, i.event_type, i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp,
       i.key, i.headers, i.payload, i.payload_digest, i.consumer,
       CASE WHEN i.placement = 1 THEN now() WHEN i.placement = 2 OR i.behind THEN 'infinity'::timestamptz END,
       CASE WHEN i.placement = 0 AND NOT i.behind THEN $1::int END,
       CASE WHEN i.placement = 0 AND NOT i.behind THEN 1 ELSE 0 END
FROM (
    SELECT r.*,
           CASE WHEN r.asks = 0 THEN false
                ELSE ((r.topic, r.kafka_partition, r.consumer,
                       CASE WHEN r.asks = 2 THEN '' ELSE substr(sha256(r.key), 1, 8) END)
                      IN (SELECT w.topic, w.kafka_partition, w.consumer, w.lane FROM waiting w)) IS TRUE END AS behind
    FROM (
        SELECT unnest($2::text[]) AS source, unnest($3::text[]) AS event_id, unnest($4::text[]) AS event_type,
               unnest($5::text[]) AS topic, unnest($6::int[]) AS kafka_partition,
               unnest($7::bigint[]) AS kafka_offset, unnest($8::timestamptz[]) AS kafka_timestamp,
               unnest($9::bytea[]) AS key, unnest($10::jsonb[]) AS headers, unnest($11::bytea[]) AS payload,
               unnest($12::bytea[]) AS payload_digest, unnest($13::smallint[]) AS placement,
               unnest($14::smallint[]) AS asks, unnest($15::text[]) AS consumer) r
    OFFSET 0) i
WHERE NOT $17::boolean
   OR NOT EXISTS (SELECT FROM inbox.inbox_renames n
                  JOIN inbox.inbox_messages o ON o.event_id = i.event_id AND o.source = i.source AND o.consumer = n.old_name
                  WHERE n.new_name = i.consumer AND n.moved_at IS NULL)
ON CONFLICT (event_id, source, consumer) DO NOTHING
RETURNING seq, event_id, source, claimed_by IS NOT NULL, consumer
