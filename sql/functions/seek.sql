-- Moving a watermark.

-- Moves the watermark of a partition. A running sidecar notices the epoch within seconds. Until the first batch
-- after it, the watermark alone decides where to read, whatever the group's offset is. A partition without a row has no
-- watermark to move: a sidecar creates the row when it is assigned the partition, and starts at the group's offset.
CREATE OR REPLACE FUNCTION inbox.seek(topic text, kafka_partition int, next_offset bigint, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earlier bigint;
BEGIN
    IF coalesce(next_offset, -1) < 0 THEN
        PERFORM inbox.refuse('seek', format('next_offset is %s; it must be an offset, 0 or more',
            coalesce(next_offset::text, 'NULL')));
    END IF;
    SELECT o.next_offset INTO earlier FROM inbox.inbox_offsets o
    WHERE o.topic = seek.topic AND o.kafka_partition = seek.kafka_partition
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM inbox.refuse('seek', format('no sidecar has ever read partition %s of topic %s; start one that'
            ' does, or, before the first start, set the offset of its group in Kafka',
            coalesce(kafka_partition::text, 'NULL'), coalesce(quote_literal(topic), 'NULL')));
    END IF;
    UPDATE inbox.inbox_offsets o
    SET next_offset = seek.next_offset, epoch = o.epoch + 1, forced = true,
        last_offset = NULL, last_timestamp = NULL, updated_at = now(),
        topic_ids_at = CASE WHEN o.topic_ids_at = o.next_offset THEN seek.next_offset END
    WHERE o.topic = seek.topic AND o.kafka_partition = seek.kafka_partition;
    PERFORM inbox.audit('seek', jsonb_build_object('topic', topic, 'kafka_partition', kafka_partition,
        'from', earlier, 'to', next_offset), reason, 1);
END $$;
