-- The traces of records: 'stored' (this record itself), 'duplicate' (its id is stored with this payload), 'conflict',
-- 'rejected', 'unwanted' (no known consumer wants it), or NULL = no trace of it. A row of any consumer is a trace.
-- Caller: ingest/verify.c. Index: inbox_messages_pkey, inbox_rejects_coordinates, inbox_conflicts_coordinates.
-- $1 topic, $2 partition, $3 offsets, $4 sources, $5 event ids (both NULL: the rules reject it), $6 digests, $7 types,
-- $8 times as in the coordinates of rejects and conflicts. A reject that is not kept whole has no payload to compare.
-- Back: one row a record, in their order.
SELECT CASE
    WHEN m.topic = $1::text AND m.kafka_partition = $2::int AND m.kafka_offset = v.kafka_offset
         AND m.payload_digest IS NOT DISTINCT FROM v.digest THEN 'stored'
    WHEN m.seq IS NOT NULL AND m.payload_digest IS NOT DISTINCT FROM v.digest THEN 'duplicate'
    WHEN (SELECT true FROM inbox.inbox_conflicts c
          WHERE c.topic = $1::text AND c.kafka_partition = $2::int AND c.kafka_offset = v.kafka_offset
            AND c.kafka_timestamp IS NOT DISTINCT FROM v.at AND c.payload_digest IS NOT DISTINCT FROM v.digest
          LIMIT 1) THEN 'conflict'
    WHEN (SELECT true FROM inbox.inbox_rejects r
          WHERE r.topic = $1::text AND r.kafka_partition = $2::int AND r.kafka_offset = v.kafka_offset
            AND r.kafka_timestamp IS NOT DISTINCT FROM v.at
            AND (substr(sha256(r.payload), 1, 16) IS NOT DISTINCT FROM v.digest OR strpos(r.reason, 'not kept whole: ') > 0)
          LIMIT 1) THEN 'rejected'
    WHEN v.event_id IS NOT NULL AND NOT EXISTS (SELECT FROM inbox.consumers_of($1::text, v.event_type)) THEN 'unwanted' END
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::timestamptz[])
     WITH ORDINALITY AS v(kafka_offset, source, event_id, digest, event_type, at, n)
LEFT JOIN LATERAL (
    SELECT s.* FROM inbox.inbox_messages s WHERE s.event_id = v.event_id AND s.source = v.source LIMIT 1) m ON true
ORDER BY v.n
