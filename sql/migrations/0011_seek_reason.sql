-- A reason for a seek, as for everything else an operator does.

-- A parameter more is another function: the earlier one gives its owner and its grants to it and goes.
ALTER FUNCTION inbox.seek(text, int, bigint) RENAME TO seek_0002;

-- Moves the watermark of a partition. The epoch tells a running sidecar, which looks every few seconds; until
-- the first batch after it the watermark alone decides where to read, whatever the group's offset. Without a row there
-- is nothing to move: a sidecar makes it when the partition is assigned to it, and starts at the group's offset then.
CREATE FUNCTION inbox.seek(topic text, kafka_partition int, next_offset bigint, reason text DEFAULT NULL) RETURNS void
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
        last_offset = NULL, last_timestamp = NULL, updated_at = now()
    WHERE o.topic = seek.topic AND o.kafka_partition = seek.kafka_partition;
    PERFORM inbox.audit('seek', jsonb_build_object('topic', topic, 'kafka_partition', kafka_partition,
        'from', earlier, 'to', next_offset), reason, 1);
END $$;

DO $$
DECLARE
    earlier pg_proc;
    given record;
BEGIN
    SELECT o.* INTO earlier FROM pg_class c JOIN pg_proc o ON o.pronamespace = c.relnamespace
    WHERE c.oid = 'inbox.inbox_messages'::regclass AND o.proname = 'seek_0002';
    EXECUTE format('ALTER FUNCTION inbox.seek OWNER TO %s', earlier.proowner::regrole);
    REVOKE ALL ON FUNCTION inbox.seek FROM PUBLIC;
    FOR given IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee,
                        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                 FROM aclexplode(coalesce(earlier.proacl, acldefault('f', earlier.proowner))) a
                 WHERE a.grantee <> earlier.proowner LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION inbox.seek TO %s%s', given.grantee, given.option);
    END LOOP;
    DROP FUNCTION inbox.seek_0002;
END $$;
