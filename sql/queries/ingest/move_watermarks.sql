-- Moves the watermarks past a batch, only from where the last batch left them (rule R1).
-- Caller: store/batches/batch_writer.c, in the transaction that stores the batch. Index: inbox_offsets_pkey.
-- Named: with any statistics its plan is this index.
-- $1 own id, $2 topics, $3 partitions, $4 epochs, $5 expected, $6 next, $7 last offset stored,
-- $8 its timestamp, $9 its digest, $10 generations, $11 the first offset of each, $12 topic ids.
-- As many rows as partitions, or the batch is rolled back.
UPDATE inbox.inbox_offsets o
SET next_offset = w.next, last_offset = w.last_offset, last_timestamp = w.last_timestamp, last_digest = w.last_digest,
    generation = w.generation, generation_from = w.generation_from, topic_ids = w.topic_ids, topic_ids_at = w.next,
    forced = false, updated_at = now()
FROM unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[],
            $9::bytea[], $10::int[], $11::bigint[], $12::text[])
     AS w(topic, kafka_partition, epoch, expected, next, last_offset, last_timestamp, last_digest, generation,
          generation_from, topic_ids)
WHERE o.topic = w.topic AND o.kafka_partition = w.kafka_partition
  AND o.owner = $1::int AND o.epoch = w.epoch AND o.next_offset IS NOT DISTINCT FROM w.expected
