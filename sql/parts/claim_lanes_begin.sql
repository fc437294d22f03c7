-- Begins claim_lanes and claim_partitions: the lanes `mine` of this call. The parameters are those of claim_lanes.
-- include: claim_lease
), mine AS MATERIALIZED (
    -- Only its owner claims rows of an ordered partition; acquiring a partition locks its row (R10, R12).
    SELECT p.lane, o.topic, o.kafka_partition, p.consumer, p.key_hash
    FROM lease
    CROSS JOIN unnest($2::text[], $3::int[], $4::text[], $5::bytea[])
        WITH ORDINALITY AS p(topic, kafka_partition, consumer, key_hash, lane)
    JOIN inbox.inbox_offsets o ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
    WHERE o.ordering = 'none' OR o.owner = $1::int
    FOR KEY SHARE OF o SKIP LOCKED
