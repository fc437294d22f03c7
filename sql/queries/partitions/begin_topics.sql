-- Notes the entries of kafka.topics that are used for the first time, and makes the watermark rows of the partitions that
-- they match now. A partition that gets its row later did not exist then (take_partitions makes it).
-- Caller: store/batches/watermarks.c, at start. Index: inbox_subscriptions_pkey, inbox_offsets_pkey (conflicts).
-- $1 entries; then, for each topic, $2 its entry, $3 its name, $4 how many partitions it has; $5 ordering.
WITH begun AS (
    INSERT INTO inbox.inbox_subscriptions (entry) SELECT e FROM unnest($1::text[]) AS e ORDER BY e
    ON CONFLICT (entry) DO NOTHING
    RETURNING entry
)
INSERT INTO inbox.inbox_offsets (topic, kafka_partition, epoch, ordering, at_begin)
SELECT t.topic, p.number, 0, $5::text, true
FROM unnest($2::text[], $3::text[], $4::int[]) AS t(entry, topic, partitions)
JOIN begun ON begun.entry = t.entry
CROSS JOIN LATERAL generate_series(0, t.partitions - 1) AS p(number)
ORDER BY t.topic, p.number
ON CONFLICT (topic, kafka_partition) DO NOTHING
