-- Which duplicates have another payload than the stored message of their id. Compares digests, because hardly any
-- differs: only those that differ are sent as a whole (insert_conflicts).
-- Caller: store/batches/batch_writer.c, for the rows that insert_messages found known. Index: inbox_messages_pkey.
-- $1 event ids, $2 sources, $3 consumers, $4 digests (NULL = no payload), $5 numbers. Back: the numbers of those that
-- differ, rising, and whether the id of the stored message is made of its coordinates.
SELECT i.number, starts_with(m.event_id, m.topic || '/' || m.kafka_partition || '/' || m.kafka_offset || '@')
FROM (
    SELECT unnest($1::text[]) AS event_id, unnest($2::text[]) AS source, unnest($3::text[]) AS consumer,
           unnest($4::bytea[]) AS payload_digest, unnest($5::int[]) AS number) i
JOIN inbox.inbox_messages m ON m.event_id = i.event_id AND m.source = i.source
    AND (m.consumer = i.consumer
         OR m.consumer IN (SELECT n.old_name FROM inbox.inbox_renames n WHERE n.new_name = i.consumer AND n.moved_at IS NULL))
WHERE m.payload_digest IS DISTINCT FROM i.payload_digest
ORDER BY i.number
