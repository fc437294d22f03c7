-- Marks events that the brokers have confirmed as published, for retention.outbox: a HOT update for those that were not
-- deferred, as long as the page has room. Leaves out rows that somebody has locked.
-- Caller: store/outbox, behind relay_hold in its transaction. Index: outbox_pkey; no index changes.
-- $1 seqs, $2 partitions, $3 offsets, $4 own id: nothing happens if relay_hold has found no row. Back: the seqs that were left
-- out.
WITH recorded AS (
    UPDATE inbox.outbox o
    SET published_at = now(), available_at = NULL, dead_at = NULL, kafka_partition = p.kafka_partition,
        kafka_offset = p.kafka_offset
    FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS p(seq, kafka_partition, kafka_offset)
    WHERE o.seq = p.seq AND EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.instance = $4::int)
-- include: relay_free
    RETURNING o.seq
)
-- include: relay_left_out
)
