-- Finds the rows of a batch that a reject holds back: the reject is of the same lane and has a lower offset. A row whose
-- message is stored already is not held back.
-- Caller: store/batches/held_rows.c, only while a partition of the batch may have such rejects. Index: inbox_rejects_holding,
-- inbox_messages_pkey.
-- $1 topics, $2 partitions of the watermark updates; of the rows: $3 topics, $4 partitions, $5 offsets, $6 keys, $7 event ids,
-- $8 sources, $9 consumers. $10: the lane of a row is its partition, and not its key.
-- Back: places of rows, from 0, and -1 minus the places of updates whose partitions have such rejects.
SELECT -p.place
FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS p(topic, kafka_partition, place)
WHERE EXISTS (SELECT FROM inbox.inbox_rejects r
              WHERE r.holds AND r.topic = p.topic AND r.kafka_partition = p.kafka_partition)
UNION ALL
SELECT i.place - 1
FROM unnest($3::text[], $4::int[], $5::bigint[], $6::bytea[], $7::text[], $8::text[], $9::text[]) WITH ORDINALITY
    AS i(topic, kafka_partition, kafka_offset, key, event_id, source, consumer, place)
WHERE CASE WHEN $10::boolean THEN
               EXISTS (SELECT FROM inbox.inbox_rejects r
                       WHERE r.holds AND r.topic = i.topic AND r.kafka_partition = i.kafka_partition
                         AND r.kafka_offset < i.kafka_offset)
           ELSE
               EXISTS (SELECT FROM inbox.inbox_rejects r
                       WHERE r.holds AND r.topic = i.topic AND r.kafka_partition = i.kafka_partition
                         AND substr(sha256(r.key), 1, 8) = substr(sha256(i.key), 1, 8) AND r.key = i.key
                         AND r.kafka_offset < i.kafka_offset)
      END
  AND NOT EXISTS (SELECT FROM inbox.inbox_messages m
                  WHERE m.event_id = i.event_id AND m.source = i.source AND m.consumer = i.consumer)
