-- Stores a batch of one row that is born claimed, in one round trip: holds the lease (rule R4), moves the watermark (R1), and
-- inserts the row. If the instance is fenced, the watermark was moved by somebody else, or the event is stored already, nothing
-- happens and no row comes back. The caller then stores the batch with hold_lease, move_watermarks and insert_messages,
-- which tell these cases apart.
-- Caller: store/batches/single_row.c. Index: inbox_instances_pkey, inbox_offsets_pkey, inbox_messages_pkey.
-- Named: with any statistics its plan is these indexes.
-- $1 own id, $2 to $12 as in move_watermarks, $13 source, $14 event id, $15 type, $16 topic, $17 partition, $18 offset,
-- $19 timestamp, $20 key, $21 headers, $22 payload, $23 digest, $24 consumer: arrays of one element. $25: the seq of the row must be
-- above it.
-- No ON CONFLICT: if another instance inserts the same event at this moment, the watermark must not move, because the payloads
-- are not compared. The unique violation undoes it. A trigger of the user may change the row or leave it out; then the division by
-- zero undoes the statement, and so it does if the seq is too low.
WITH lease AS MATERIALIZED (
    SELECT id FROM inbox.inbox_instances
    -- include: lease
    FOR KEY SHARE
), moved AS (
    UPDATE inbox.inbox_offsets o
    SET next_offset = ($6::bigint[])[1], last_offset = ($7::bigint[])[1], last_timestamp = ($8::timestamptz[])[1],
        last_digest = ($9::bytea[])[1], generation = ($10::int[])[1], generation_from = ($11::bigint[])[1],
        topic_ids = ($12::text[])[1], topic_ids_at = ($6::bigint[])[1], forced = false, updated_at = now()
    FROM lease
    WHERE o.topic = ($2::text[])[1] AND o.kafka_partition = ($3::int[])[1]
      AND o.owner = lease.id AND o.epoch = ($4::bigint[])[1] AND o.next_offset IS NOT DISTINCT FROM ($5::bigint[])[1]
      AND NOT EXISTS (SELECT FROM inbox.inbox_messages m
                      WHERE m.event_id = ($14::text[])[1] AND m.source = ($13::text[])[1] AND m.consumer = ($24::text[])[1])
    RETURNING o.owner
), stored AS (
    INSERT INTO inbox.inbox_messages
        (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp,
         key, headers, payload, payload_digest, consumer, claimed_by, delivery_count)
    SELECT ($13::text[])[1], ($14::text[])[1], ($15::text[])[1], ($16::text[])[1], ($17::int[])[1], ($18::bigint[])[1],
           ($19::timestamptz[])[1], ($20::bytea[])[1], ($21::jsonb[])[1], ($22::bytea[])[1], ($23::bytea[])[1],
           ($24::text[])[1], moved.owner, 1
    FROM moved
    RETURNING seq, seq > $25::bigint AND claimed_by = $1::int AND delivery_count = 1 AND available_at IS NULL
                   AND processed_at IS NULL AND dead_at IS NULL AS as_sent
)
SELECT CASE WHEN stored.as_sent THEN stored.seq ELSE moved.owner / 0 END
FROM moved LEFT JOIN stored ON true
