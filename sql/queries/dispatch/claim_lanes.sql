-- Claims the first waiting rows of given keys, also parked ones: the first message of the key is processed or dead,
-- so the rows behind it may go on (rule R13). In each key it claims only an unbroken run from the lowest waiting
-- offset. The run ends at a row that waits for its retry, that no handler here wants, or that is locked.
-- Caller: store/claims/claims.c. Index: inbox_messages_by_key.
-- $1 own id, $2 topics, $3 partitions, $4 consumers, $5 key hashes, $6 most rows a key, $7 most bytes,
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
          AND substr(sha256(w.key), 1, 8) = l.key_hash AND w.available_at IS NOT NULL AND w.seq > 0
        ORDER BY w.kafka_offset
        LIMIT $6::int + 1) m
-- include: claim_lanes_end
