-- Blocked keys: keys whose first message holds back later ones, and how an operator gives such a message up.
--
-- The lane of a message is its key or, with the order `partition`, its partition, for one consumer. In these functions a
-- lane is named by its hash: that of the key, or an empty one for the whole partition.

-- The order in force for the messages of a consumer.
CREATE OR REPLACE FUNCTION inbox.ordering_of(topic text, kafka_partition int, consumer text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(c.ordering, o.ordering)
    FROM inbox.inbox_offsets o
    LEFT JOIN inbox.inbox_consumers c ON c.name = ordering_of.consumer
    WHERE o.topic = ordering_of.topic AND o.kafka_partition = ordering_of.kafka_partition
$$;

-- The rows that instances hold: claimed, and without a verdict. Reads the rows that were claimed from the table along
-- inbox_messages_claimed, and those that were born claimed from the bounds of the instances on.
CREATE OR REPLACE FUNCTION inbox.open_claims(OUT seq bigint, OUT topic text, OUT kafka_partition int, OUT consumer text,
                                  OUT kafka_offset bigint, OUT key_hash bytea)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH held AS (
        SELECT c.* FROM inbox.inbox_instances i
        CROSS JOIN LATERAL (
            SELECT m.* FROM inbox.inbox_messages m
            WHERE m.claimed_by = i.id AND m.claim_number >= i.low_claim AND m.delivery_count > 1 OFFSET 0) c
        WHERE i.rescued_at IS NULL
        UNION ALL
        SELECT b.* FROM inbox.inbox_instances i
        CROSS JOIN LATERAL (
            SELECT m.* FROM inbox.inbox_messages m
            WHERE m.seq = ANY (i.stragglers) AND m.seq < greatest(i.low_seq, i.low_rest)
              AND m.claimed_by = i.id AND m.delivery_count = 1 OFFSET 0) b
        WHERE i.rescued_at IS NULL
        UNION ALL
        SELECT m.* FROM inbox.inbox_messages m
        JOIN inbox.inbox_instances i ON i.id = m.claimed_by AND m.seq >= greatest(i.low_seq, i.low_rest)
        WHERE i.rescued_at IS NULL AND m.delivery_count = 1
          AND m.seq >= (SELECT min(greatest(j.low_seq, j.low_rest)) FROM inbox.inbox_instances j
                        WHERE j.rescued_at IS NULL)
    )
    SELECT h.seq, h.topic, h.kafka_partition, h.consumer, h.kafka_offset, substr(sha256(h.key), 1, 8)
    FROM held h
    WHERE h.available_at IS NULL AND h.processed_at IS NULL AND h.dead_at IS NULL
$$;

-- The first message of a lane that is not done: the one that its later messages wait for. NULL: no message of it waits.
CREATE OR REPLACE FUNCTION inbox.lane_head(topic text, kafka_partition int, consumer text, lane bytea,
                                OUT seq bigint, OUT claimed boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    first bigint;
    held bigint;
BEGIN
    IF lane = '' THEN
        SELECT m.seq, m.kafka_offset INTO seq, first FROM inbox.inbox_messages m
        WHERE m.topic = lane_head.topic AND m.kafka_partition = lane_head.kafka_partition
          AND m.consumer = lane_head.consumer AND m.available_at IS NOT NULL AND m.kafka_offset >= 0
        ORDER BY m.kafka_offset LIMIT 1;
    ELSE
        SELECT m.seq, m.kafka_offset INTO seq, first FROM inbox.inbox_messages m
        WHERE m.topic = lane_head.topic AND m.kafka_partition = lane_head.kafka_partition
          AND m.consumer = lane_head.consumer AND substr(sha256(m.key), 1, 8) = lane
          AND m.available_at IS NOT NULL AND m.seq > 0
        ORDER BY m.kafka_offset LIMIT 1;
    END IF;
    claimed := false;
    IF seq IS NOT NULL THEN
        SELECT c.seq INTO held FROM inbox.open_claims() c
        WHERE c.topic = lane_head.topic AND c.kafka_partition = lane_head.kafka_partition
          AND c.consumer = lane_head.consumer AND (lane = '' OR c.key_hash = lane) AND c.kafka_offset < first
        ORDER BY c.kafka_offset LIMIT 1;
        claimed := held IS NOT NULL;
        seq := coalesce(held, seq);
    END IF;
END $$;

-- The message that a waiting message waits for, because it is earlier in its lane. NULL: there is none.
CREATE OR REPLACE FUNCTION inbox.waits_behind(message bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT nullif(h.seq, m.seq)
    FROM (SELECT w.seq, w.topic, w.kafka_partition, w.consumer,
                 CASE inbox.ordering_of(w.topic, w.kafka_partition, w.consumer)
                     WHEN 'key' THEN substr(sha256(w.key), 1, 8) WHEN 'partition' THEN ''::bytea END AS lane
          FROM inbox.inbox_messages w
          WHERE w.seq = message AND w.available_at IS NOT NULL OFFSET 0) m
    CROSS JOIN LATERAL inbox.lane_head(m.topic, m.kafka_partition, m.consumer, m.lane) h
    WHERE m.lane IS NOT NULL
$$;

-- One page of blocked lanes: at most max_rows of them, in the order of topic, partition, consumer and hash, after the lane
-- of the message after_seq. A lane is blocked if a message of it waits behind
-- - one that instances hold, or
-- - one that waits for its next attempt or for a handler, or
-- - one that is due and not claimed, although the next one is parked: it is locked, or PostgreSQL refuses it.
-- Walks the indexes of waiting rows from lane to lane, and not from row to row. A page also ends after 100,000 lanes that
-- are not blocked.
-- seqs: the messages that the lanes wait for. looked: the lanes that were read. last_seq: no lane after that of this
-- message was read; NULL = there is none.
CREATE OR REPLACE FUNCTION inbox.look_keys(filter jsonb, after_seq bigint, max_rows int,
    OUT seqs bigint[], OUT looked bigint, OUT last_seq bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    misfits bigint := 100000;
    after record;
    held record;
    stream record;
    head record;
    next_at timestamptz;
    place int;
    blocker bigint;
BEGIN
    seqs := '{}';
    looked := 0;
    SELECT m.topic, m.kafka_partition, m.consumer, coalesce(substr(sha256(m.key), 1, 8), '') AS lane INTO after
    FROM inbox.inbox_messages m WHERE m.seq = after_seq;
    IF NOT FOUND AND after_seq > 0 THEN
        PERFORM inbox.refuse('keys', format('there is no message with seq %s, so no page begins after it', after_seq));
    END IF;
    FOR stream IN
        SELECT s.*, inbox.ordering_of(s.topic, s.kafka_partition, s.consumer) AS ordering,
               coalesce((s.topic, s.kafka_partition, s.consumer) = (after.topic, after.kafka_partition, after.consumer),
                        false) AS begun
        FROM inbox.waiting_streams() s
        WHERE (NOT filter ? 'topic' OR s.topic = filter ->> 'topic')
          AND (NOT filter ? 'consumer' OR s.consumer = filter ->> 'consumer')
          AND (after.topic IS NULL OR (s.topic COLLATE "C", s.kafka_partition, s.consumer COLLATE "C")
                                      >= (after.topic, after.kafka_partition, after.consumer))
        ORDER BY s.topic COLLATE "C", s.kafka_partition, s.consumer COLLATE "C"
    LOOP
        CONTINUE WHEN stream.ordering = 'none' OR (stream.ordering = 'partition' AND stream.begun);
        IF held IS NULL THEN
            SELECT array_agg(c.topic) AS topics, array_agg(c.kafka_partition) AS partitions,
                   array_agg(c.consumer) AS consumers, array_agg(coalesce(c.key_hash, '')) AS lanes,
                   array_agg(c.kafka_offset) AS offsets, array_agg(c.seq) AS seqs INTO held
            FROM (SELECT * FROM inbox.open_claims() ORDER BY kafka_offset) c;
        END IF;
        FOR head IN
            WITH RECURSIVE lane AS (
                (SELECT CASE stream.ordering WHEN 'key' THEN substr(sha256(m.key), 1, 8) ELSE '' END AS hash,
                        m.seq, m.kafka_offset, m.available_at
                 FROM inbox.inbox_messages m
                 WHERE stream.ordering = 'key'
                   AND m.topic = stream.topic AND m.kafka_partition = stream.kafka_partition
                   AND m.consumer = stream.consumer AND m.available_at IS NOT NULL AND m.seq > 0
                   AND substr(sha256(m.key), 1, 8) > CASE WHEN stream.begun THEN after.lane ELSE '' END
                 ORDER BY substr(sha256(m.key), 1, 8), m.kafka_offset LIMIT 1)
                UNION ALL
                SELECT next.* FROM lane CROSS JOIN LATERAL (
                    SELECT substr(sha256(m.key), 1, 8), m.seq, m.kafka_offset, m.available_at
                    FROM inbox.inbox_messages m
                    WHERE m.topic = stream.topic AND m.kafka_partition = stream.kafka_partition
                      AND m.consumer = stream.consumer AND m.available_at IS NOT NULL AND m.seq > 0
                      AND substr(sha256(m.key), 1, 8) > lane.hash
                    ORDER BY substr(sha256(m.key), 1, 8), m.kafka_offset LIMIT 1) next
            ), whole AS (
                SELECT ''::bytea AS hash, m.seq, m.kafka_offset, m.available_at FROM inbox.inbox_messages m
                WHERE stream.ordering = 'partition'
                  AND m.topic = stream.topic AND m.kafka_partition = stream.kafka_partition
                  AND m.consumer = stream.consumer AND m.available_at IS NOT NULL AND m.kafka_offset >= 0
                ORDER BY m.kafka_offset LIMIT 1
            )
            SELECT l.*, l.hash IN (
                       SELECT CASE stream.ordering WHEN 'key' THEN c.hash ELSE '' END
                       FROM unnest(held.topics, held.partitions, held.consumers, held.lanes) AS c(topic, part, consumer, hash)
                       WHERE c.topic = stream.topic AND c.part = stream.kafka_partition
                         AND c.consumer = stream.consumer) AS is_held
            FROM (SELECT * FROM lane UNION ALL SELECT * FROM whole) l
        LOOP
            looked := looked + 1;
            last_seq := head.seq;
            blocker := NULL;
            IF head.is_held THEN
                SELECT c.seq INTO blocker
                FROM unnest(held.topics, held.partitions, held.consumers, held.lanes, held.offsets, held.seqs)
                     AS c(topic, part, consumer, hash, kafka_offset, seq)
                WHERE c.topic = stream.topic AND c.part = stream.kafka_partition AND c.consumer = stream.consumer
                  AND (stream.ordering = 'partition' OR c.hash = head.hash) AND c.kafka_offset < head.kafka_offset
                LIMIT 1;
            END IF;
            IF blocker IS NULL THEN
                next_at := inbox.next_of_lane(stream.topic, stream.kafka_partition, stream.consumer, head.hash,
                                              head.kafka_offset);
                IF next_at IS NOT NULL AND (head.available_at > now() OR next_at = 'infinity') THEN
                    blocker := head.seq;
                END IF;
            END IF;
            IF blocker IS NULL THEN
                misfits := misfits - 1;
            ELSE
                seqs := seqs || blocker;
            END IF;
            IF misfits = 0 OR cardinality(seqs) = max_rows THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
    last_seq := NULL;
END $$;

-- When the first waiting message of a lane after an offset is due. NULL: no message waits there.
CREATE OR REPLACE FUNCTION inbox.next_of_lane(topic text, kafka_partition int, consumer text, lane bytea, after bigint)
RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT CASE WHEN lane = '' THEN (
               SELECT m.available_at FROM inbox.inbox_messages m
               WHERE m.topic = next_of_lane.topic AND m.kafka_partition = next_of_lane.kafka_partition
                 AND m.consumer = next_of_lane.consumer AND m.available_at IS NOT NULL AND m.kafka_offset >= 0
                 AND m.kafka_offset > after
               ORDER BY m.kafka_offset LIMIT 1)
           ELSE (
               SELECT m.available_at FROM inbox.inbox_messages m
               WHERE m.topic = next_of_lane.topic AND m.kafka_partition = next_of_lane.kafka_partition
                 AND m.consumer = next_of_lane.consumer AND substr(sha256(m.key), 1, 8) = lane
                 AND m.available_at IS NOT NULL AND m.seq > 0 AND m.kafka_offset > after
               ORDER BY m.kafka_offset LIMIT 1) END
$$;

-- What is known of a message that blocks its lane. waiting: the messages that wait behind it, at most 10,000. since: when
-- the first of them was stored or, if this is later, when the message failed first.
CREATE OR REPLACE FUNCTION inbox.describe_key(message bigint,
    OUT consumer text, OUT topic text, OUT kafka_partition int, OUT key bytea, OUT key_text text, OUT waiting bigint,
    OUT since timestamptz, OUT status text, OUT seq bigint, OUT source text, OUT event_id text, OUT event_type text,
    OUT kafka_offset bigint, OUT retry_count int, OUT error_code text, OUT error text, OUT next_attempt timestamptz,
    OUT handler text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT m.consumer, m.topic, m.kafka_partition, k.key, inbox.try_text(k.key), b.waiting, greatest(b.since, f.since),
           m.status, m.seq, m.source, m.event_id, m.event_type, m.kafka_offset, m.retry_count, m.error_code, m.error,
           nullif(m.available_at, 'infinity'),
           CASE WHEN m.status = 'parked' THEN inbox.handler_of(m.topic, m.event_type, m.consumer) END
    FROM (SELECT v.*, inbox.ordering_of(v.topic, v.kafka_partition, v.consumer) AS ordering
          FROM inbox.messages v WHERE v.seq = message OFFSET 0) m
    CROSS JOIN LATERAL (SELECT CASE WHEN m.ordering = 'key' THEN m.key END AS key) k
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting, min(w.received_at) FILTER (WHERE w.n = 1) AS since
        FROM (SELECT l.received_at, row_number() OVER (ORDER BY l.kafka_offset) AS n
              FROM (SELECT d.received_at, d.kafka_offset FROM inbox.inbox_messages d
                    WHERE m.ordering = 'key' AND d.topic = m.topic AND d.kafka_partition = m.kafka_partition
                      AND d.consumer = m.consumer AND substr(sha256(d.key), 1, 8) = substr(sha256(m.key), 1, 8)
                      AND d.available_at IS NOT NULL AND d.seq > 0 AND d.kafka_offset > m.kafka_offset
                    ORDER BY d.kafka_offset LIMIT 10000) l
              UNION ALL
              SELECT l.received_at, row_number() OVER (ORDER BY l.kafka_offset)
              FROM (SELECT d.received_at, d.kafka_offset FROM inbox.inbox_messages d
                    WHERE m.ordering = 'partition' AND d.topic = m.topic AND d.kafka_partition = m.kafka_partition
                      AND d.consumer = m.consumer AND d.available_at IS NOT NULL AND d.kafka_offset >= 0
                      AND d.kafka_offset > m.kafka_offset
                    ORDER BY d.kafka_offset LIMIT 10000) l) w) b
    CROSS JOIN LATERAL (
        SELECT min((a.entry ->> 'at')::timestamptz) AS since
        FROM jsonb_array_elements(m.attempts) WITH ORDINALITY AS a(entry, n)
        WHERE a.entry ? 'attempt'
          AND a.n > coalesce((SELECT max(o.n) FROM jsonb_array_elements(m.attempts) WITH ORDINALITY AS o(entry, n)
                              WHERE NOT o.entry ? 'attempt' AND NOT o.entry ? 'retried_by'), 0)) f
$$;

-- A page of blocked keys, each with the message that it waits for. The filter may have consumer and topic. after_seq: that
-- message of the last key of the page before.
CREATE OR REPLACE FUNCTION inbox.keys(filter jsonb DEFAULT '{}', after_seq bigint DEFAULT 0, max_rows int DEFAULT 100,
    OUT consumer text, OUT topic text, OUT kafka_partition int, OUT key bytea, OUT key_text text, OUT waiting bigint,
    OUT since timestamptz, OUT status text, OUT seq bigint, OUT source text, OUT event_id text, OUT event_type text,
    OUT kafka_offset bigint, OUT retry_count int, OUT error_code text, OUT error text, OUT next_attempt timestamptz,
    OUT handler text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_keys(inbox.check_keys(filter), after_seq, inbox.check_max_rows('keys', max_rows));
    IF page.last_seq IS NOT NULL AND cardinality(page.seqs) IS DISTINCT FROM max_rows THEN
        RAISE WARNING 'inbox.keys: looked at % keys, as far as that of the message with seq %', page.looked, page.last_seq
            USING HINT = 'Call it again with after_seq => ' || page.last_seq || '.';
    END IF;
    RETURN QUERY SELECT k.* FROM unnest(page.seqs) WITH ORDINALITY AS s(seq, n)
                 CROSS JOIN LATERAL inbox.describe_key(s.seq) k ORDER BY s.n;
END $$;

-- Checks the filter of keys().
CREATE OR REPLACE FUNCTION inbox.check_keys(filter jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := coalesce(jsonb_strip_nulls(filter), '{}');
    name text;
BEGIN
    SELECT k INTO name FROM jsonb_object_keys(given) k WHERE k NOT IN ('consumer', 'topic');
    IF name IS NOT NULL THEN
        PERFORM inbox.refuse('keys', format('there is no filter "%s"; it may be consumer, topic', name));
    END IF;
    RETURN given;
END $$;

-- The lanes in which messages of a key wait, with the message that each waits for. The key is a text as in the record or,
-- for other bytes, `\x` and their hexadecimal digits. NULL: the whole partitions, if that is their order.
CREATE OR REPLACE FUNCTION inbox.lanes_of(topic text, key text, consumer text, kafka_partition int,
                               OUT partition int, OUT ordering text, OUT seq bigint, OUT claimed boolean)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.kafka_partition, o.ordering, h.seq, h.claimed
    FROM (SELECT p.kafka_partition, inbox.ordering_of(p.topic, p.kafka_partition, lanes_of.consumer) AS ordering
          FROM inbox.inbox_offsets p
          WHERE p.topic = lanes_of.topic
            AND (lanes_of.kafka_partition IS NULL OR p.kafka_partition = lanes_of.kafka_partition)) o
    CROSS JOIN (
        SELECT convert_to(lanes_of.key, 'UTF8') AS bytes
        UNION ALL
        SELECT decode(substr(lanes_of.key, 3), 'hex') WHERE lanes_of.key ~ E'^\\\\x([0-9a-fA-F]{2})*$') k
    CROSS JOIN LATERAL inbox.lane_head(lanes_of.topic, o.kafka_partition, lanes_of.consumer,
        CASE WHEN k.bytes IS NULL THEN '' ELSE substr(sha256(k.bytes), 1, 8) END) h
    WHERE h.seq IS NOT NULL AND o.ordering = CASE WHEN k.bytes IS NULL THEN 'partition' ELSE 'key' END
    ORDER BY o.kafka_partition
$$;

-- Gives up the message that a key waits for: it becomes dead with the reason, as with discard(), and the key goes on.
-- Returns its event id; NULL: no message of the key waits. A message that an instance holds is never changed, because its
-- handler may be at work: the call fails, and the verdict decides.
-- kafka_partition: needed if messages of the key wait in several partitions. seq: only this message may become dead.
CREATE OR REPLACE FUNCTION inbox.skip_key(topic text, key text, consumer text DEFAULT '', reason text DEFAULT NULL,
    kafka_partition int DEFAULT NULL, seq bigint DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    lane record;
    head inbox.inbox_messages;
    held boolean;
    affected bigint := 0;
BEGIN
    IF topic IS NULL OR consumer IS NULL THEN
        PERFORM inbox.refuse('skip_key', 'topic and consumer must be given');
    ELSIF key IS NULL AND kafka_partition IS NULL THEN
        PERFORM inbox.refuse('skip_key', 'give a key or, with ordering: partition, a kafka_partition');
    END IF;
    FOR lane IN SELECT * FROM inbox.lanes_of(topic, key, consumer, kafka_partition) LOOP
        IF head.seq IS NOT NULL THEN
            PERFORM inbox.refuse('skip_key', format('messages of the key wait in the partitions %s and %s; give one as'
                ' kafka_partition', head.kafka_partition, lane.partition));
        END IF;
        SELECT m.* INTO head FROM inbox.inbox_messages m WHERE m.seq = lane.seq;
        held := lane.claimed;
    END LOOP;
    IF head.seq <> skip_key.seq THEN
        RAISE EXCEPTION 'inbox.skip_key: the key waits for event % now', quote_literal(head.event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('Its seq is %s.', head.seq);
    ELSIF held THEN
        RAISE EXCEPTION 'inbox.skip_key: an instance holds event %, for which the key waits', quote_literal(head.event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Its handler may be at work. Wait for the verdict or the timeout; after a failed attempt, call again.';
    ELSIF head.seq IS NOT NULL THEN
        affected := inbox.discard_seqs(ARRAY[head.seq], coalesce(reason, 'skipped'));
        IF affected = 0 THEN
            RAISE EXCEPTION 'inbox.skip_key: event % is locked, or has changed in the meantime', quote_literal(head.event_id)
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call again.';
        END IF;
    END IF;
    PERFORM inbox.audit('skip_key', jsonb_strip_nulls(jsonb_build_object('topic', topic, 'key', key,
        'consumer', nullif(consumer, ''), 'kafka_partition', coalesce(head.kafka_partition, kafka_partition),
        'source', head.source, 'event_id', head.event_id, 'seq', head.seq)), reason, affected);
    RETURN head.event_id;
END $$;
