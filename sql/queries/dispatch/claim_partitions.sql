-- Claims the first waiting rows of whole streams, also parked ones, where the partition is the order. As
-- claim_lanes, but the lane is the stream. The run ends at a row that waits for its retry, that no handler here
-- wants, or that is locked.
-- Caller: store/claims/claims.c. Index: inbox_messages_by_offset.
-- $1 own id, $2 topics, $3 partitions, $4 consumers, $5 ignored, $6 most rows a stream, $7 most bytes,
-- $8..$12 subscriptions, $13 the claim's number and $14 rows to leave, as in claim_due. Holds the own lease as claim_due does.
-- As there, the answer says whether the byte budget left rows out, and a row whose delivery_count has reached its maximum
-- dies.
-- include: claim_lanes_begin
), waiting AS MATERIALIZED (
    SELECT l.lane, m.*
    FROM mine l
    CROSS JOIN LATERAL (
        SELECT w.seq, w.topic, w.consumer, w.kafka_offset, w.event_type, w.available_at,
               coalesce(octet_length(w.payload), 0) + coalesce(octet_length(w.key), 0)
                   + octet_length(w.headers::text) + 1024 AS size
        FROM inbox.inbox_messages w
        WHERE w.topic = l.topic AND w.kafka_partition = l.kafka_partition AND w.consumer = l.consumer
          AND w.available_at IS NOT NULL AND w.kafka_offset >= 0
        ORDER BY w.kafka_offset
        LIMIT $6::int + 1) m
-- include: claim_lanes_end
