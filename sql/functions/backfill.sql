-- Backfill: a consumer gets the messages that the table still holds for others (docs/adr/0030).
--
-- The copies wait like replayed messages. Claims take the messages of a key in the order of Kafka, so a copy comes before a
-- later message of its key that waits, too. A later message that is stored during the backfill must not pass the copies:
-- its INSERT has to look for waiting messages of its key, and a sidecar omits that for a stream which it knows to be clean
-- (rule R11). Therefore the first page raises the epoch of the partitions, at its COMMIT. A batch that does not
-- know the new epoch is rolled back (rule R1); the sidecar then counts the streams of the partition as not clean. They
-- stay so until inbox_consumers.backfill_until, because any_waiting reads it, too. Later pages only renew that time.

-- Checks a filter: one jsonb object with consumer and perhaps from (a consumer), since (a time), topic, until_seq (no later
-- message is copied), again (also what a handler of the consumer has processed for another one: backfill_repeats()). Returns the filter without its NULL members, and with until_seq.
CREATE OR REPLACE FUNCTION inbox.check_backfill(filter jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := jsonb_strip_nulls(filter);
    name text;
BEGIN
    SELECT k INTO name FROM jsonb_object_keys(given) k
    WHERE k NOT IN ('consumer', 'from', 'since', 'topic', 'until_seq', 'again');
    IF name IS NOT NULL THEN
        PERFORM inbox.refuse('backfill', format('there is no filter "%s"', name));
    ELSIF given ->> 'consumer' IS NULL THEN
        PERFORM inbox.refuse('backfill', 'consumer must be given');
    ELSIF given ->> 'from' = given ->> 'consumer' THEN
        PERFORM inbox.refuse('backfill', format('a consumer cannot get its own messages, those of "%s"', given ->> 'consumer'));
    ELSIF given ->> 'topic' = '' THEN
        PERFORM inbox.refuse('backfill', 'topic is empty; leave it out for any');
    END IF;
    PERFORM inbox.check_rename_over('backfill', given ->> 'consumer');
    PERFORM inbox.check_rename_over('backfill', given ->> 'from');
    IF NOT EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = given ->> 'consumer'
                   AND (c.listed_at > clock_timestamp() - c.memory OR c.name = '')) THEN
        PERFORM inbox.refuse('backfill', format('no consumer "%s" is known; known: %s', given ->> 'consumer', coalesce(
            (SELECT string_agg(format('"%s"', c.name), ', ' ORDER BY c.name) FROM inbox.inbox_consumers c
             WHERE c.listed_at > clock_timestamp() - c.memory OR c.name = ''), 'none')));
    END IF;
    RETURN jsonb_build_object('until_seq', (SELECT max(m.seq) FROM inbox.inbox_messages m)) || given
           || CASE WHEN given ? 'since' THEN jsonb_build_object('since', (given ->> 'since')::timestamptz) ELSE '{}' END;
END $$;

-- Counts what a backfill would copy. without_payload: messages that it leaves out, because retention has dropped the payload
-- for every consumer. late: copies of whose key the consumer already has a later message that no longer waits.
-- Reads the whole table.
--
-- Without nested loops: the statistics may be from a time when the consumer had no rows. Otherwise the
-- planner could choose a nested loop, which compares each message with each row that the consumer has got since.
CREATE OR REPLACE FUNCTION inbox.backfill_count(filter jsonb, OUT copies bigint, OUT without_payload bigint, OUT late bigint,
                                     OUT until_seq bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_backfill(filter);
    receiver text := given ->> 'consumer';
    giver text := given ->> 'from';
    only_topic text := given ->> 'topic';
    since timestamptz := given ->> 'since';
    last bigint := given ->> 'until_seq';
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT k.topic, k.event_type
        FROM (SELECT DISTINCT m.topic, m.event_type FROM inbox.inbox_messages m) k
        JOIN inbox.inbox_consumers c ON c.name = receiver
        WHERE inbox.wants(c.topics, c.types, k.topic, k.event_type)
    ), later AS MATERIALIZED (
        SELECT m.topic, m.kafka_partition,
               CASE inbox.ordering_of(m.topic, m.kafka_partition, receiver)
                   WHEN 'key' THEN m.key_hash WHEN 'partition' THEN '' END AS lane,
               max(m.kafka_offset) AS kafka_offset
        FROM (SELECT d.topic, d.kafka_partition, substr(sha256(d.key), 1, 8) AS key_hash, max(d.kafka_offset) AS kafka_offset
              FROM inbox.inbox_messages d
              WHERE d.consumer = receiver AND d.available_at IS NULL
              GROUP BY 1, 2, 3) m
        GROUP BY 1, 2, 3
    ), missing AS (
        SELECT m.topic, m.kafka_partition, m.kafka_offset, m.key_hash, bool_or(m.whole) AS whole
        FROM (SELECT m.topic, m.kafka_partition, m.kafka_offset, substr(sha256(m.key), 1, 8) AS key_hash, m.event_id, m.source,
                     m.payload IS NOT NULL OR m.payload_digest IS NULL AS whole
              FROM inbox.inbox_messages m
              JOIN wanted w ON w.topic = m.topic AND w.event_type IS NOT DISTINCT FROM m.event_type
              WHERE m.seq <= last AND m.consumer <> receiver
                AND (giver IS NULL OR m.consumer = giver)
                AND (only_topic IS NULL OR m.topic = only_topic)
                AND (since IS NULL OR m.received_at >= since)
                AND NOT EXISTS (SELECT FROM inbox.inbox_messages d
                                WHERE d.event_id = m.event_id AND d.source = m.source AND d.consumer = receiver)
              OFFSET 0) m -- so that the payloads are not sorted with the rows
        GROUP BY m.event_id, m.source, m.topic, m.kafka_partition, m.kafka_offset, m.key_hash
    )
    SELECT count(*) FILTER (WHERE m.whole), count(*) FILTER (WHERE NOT m.whole),
           count(*) FILTER (WHERE m.whole AND coalesce(k.kafka_offset, s.kafka_offset) > m.kafka_offset)
    INTO copies, without_payload, late
    FROM missing m
    LEFT JOIN later k ON k.topic = m.topic AND k.kafka_partition = m.kafka_partition AND k.lane = m.key_hash
    LEFT JOIN later s ON s.topic = m.topic AND s.kafka_partition = m.kafka_partition AND s.lane = '';
    until_seq := last;
END $$;

-- Counts the messages of a backfill that a handler of the consumer would process again. Such a handler has the name of the
-- consumer or belongs to it, and has processed the message for another consumer. handler and done_for: the handler of one
-- of these messages, and the consumer for which it has processed the message. Reads the whole table.
CREATE OR REPLACE FUNCTION inbox.backfill_repeats(filter jsonb, OUT repeats bigint, OUT handler text, OUT done_for text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_nestloop = off AS $$
DECLARE
    given jsonb := inbox.check_backfill(filter);
    receiver text := given ->> 'consumer';
    names text[] := ARRAY(SELECT h.name FROM inbox.inbox_handlers h WHERE h.consumer = given ->> 'consumer') || receiver;
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT k.topic, k.event_type
        FROM (SELECT DISTINCT m.topic, m.event_type FROM inbox.inbox_messages m WHERE m.handler = ANY (names)) k
        JOIN inbox.inbox_consumers c ON c.name = receiver
        WHERE inbox.wants(c.topics, c.types, k.topic, k.event_type)
    )
    SELECT count(*), min(m.handler), min(m.consumer) INTO repeats, handler, done_for
    FROM inbox.inbox_messages m
    JOIN wanted w ON w.topic = m.topic AND w.event_type IS NOT DISTINCT FROM m.event_type
    WHERE m.processed_at IS NOT NULL AND m.handler = ANY (names)
      AND m.seq <= (given ->> 'until_seq')::bigint AND m.consumer <> receiver
      AND (NOT given ? 'from' OR m.consumer = given ->> 'from')
      AND (NOT given ? 'topic' OR m.topic = given ->> 'topic')
      AND (NOT given ? 'since' OR m.received_at >= (given ->> 'since')::timestamptz)
      AND (m.payload IS NOT NULL OR m.payload_digest IS NULL)
      AND NOT EXISTS (SELECT FROM inbox.inbox_messages d
                      WHERE d.event_id = m.event_id AND d.source = m.source AND d.consumer = receiver);
END $$;

-- Makes the sidecars look for waiting messages of the consumer before they store later ones, from this transaction on. The
-- time holds for all partitions, so the epochs of all of them rise. The locks are taken in the order of the batches. A
-- function that does not get one of them soon gives all of them up for as long, so that no partition waits for another one.
CREATE OR REPLACE FUNCTION inbox.announce_backfill(consumer text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    wait_ms int := 50;
    give_up timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
    -- Heartbeats update the same row, so it is locked only once in a while. What is left of the time must be longer
    -- than any transaction of a page.
    IF EXISTS (SELECT FROM inbox.inbox_consumers c
               WHERE c.name = announce_backfill.consumer AND c.backfill_until > clock_timestamp() + interval '8 minutes') THEN
        RETURN;
    END IF;
    LOOP
        BEGIN
            PERFORM FROM inbox.inbox_consumers c
            WHERE c.name = announce_backfill.consumer AND c.backfill_until > clock_timestamp() + interval '5 minutes'
            FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                PERFORM FROM inbox.inbox_offsets o ORDER BY o.topic, o.kafka_partition FOR NO KEY UPDATE;
                UPDATE inbox.inbox_offsets o SET epoch = o.epoch + 1, updated_at = now();
            END IF;
            UPDATE inbox.inbox_consumers c SET backfill_until = clock_timestamp() + interval '10 minutes'
            WHERE c.name = announce_backfill.consumer;
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF clock_timestamp() > give_up THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(random() * 2 * wait_ms / 1000);
        wait_ms := least(wait_ms * 2, 2000);
        PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
    END LOOP;
END $$;

-- Only the COMMIT of a page announces the backfill. So while a session looks at its copies before the COMMIT, no batch
-- and no heartbeat waits for it.
CREATE OR REPLACE FUNCTION inbox.backfill_commits() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inbox.announce_backfill(NEW.filter ->> 'consumer');
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.inbox_audit'::regclass AND tgname = 'backfill_commits') THEN
        CREATE CONSTRAINT TRIGGER backfill_commits
        AFTER INSERT ON inbox.inbox_audit
        DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.action = 'backfill')
        EXECUTE FUNCTION inbox.backfill_commits();
    END IF;
END $$;

-- Copies what is missing among the next max_looks rows after a seq, at most max_copies. last_seq: the last row that was
-- read; NULL = the end. Of a message that several consumers have, the first row with the payload is copied.
-- A page reads as many rows as it may copy, and the INSERT leaves out what the consumer has already. If more rows may be read
-- than copied, these are left out before, so that they do not count as copies.
-- backend_flush_after: what this session must write to make room in shared_buffers, the kernel writes soon, a little at a time.
-- Otherwise it collects this for half a minute, and the COMMITs of the load then wait behind all of it.
CREATE OR REPLACE FUNCTION inbox.copy_rows(given jsonb, after_seq bigint, max_looks int, max_copies int, OUT affected bigint,
                                OUT without_payload bigint, OUT last_seq bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET backend_flush_after = '256kB' AS $$
DECLARE
    receiver text := given ->> 'consumer';
    giver text := given ->> 'from';
    only_topic text := given ->> 'topic';
    since timestamptz := given ->> 'since';
    until_seq bigint := given ->> 'until_seq';
    wanted bigint[];
    dropped bigint[];
    looked bigint;
BEGIN
    PERFORM FROM inbox.inbox_consumers c WHERE c.name = receiver FOR KEY SHARE; -- a rename has ended before the INSERT, or moves its rows
    PERFORM inbox.check_backfill(given);
    WITH page AS MATERIALIZED (
        SELECT m.seq, m.consumer, m.topic, m.event_type, m.received_at, m.event_id, m.source,
               m.payload IS NOT NULL OR m.payload_digest IS NULL AS whole
        FROM inbox.inbox_messages m
        WHERE m.seq > after_seq AND m.seq <= until_seq
        ORDER BY m.seq LIMIT max_looks
    ), kind AS MATERIALIZED (
        SELECT k.topic, k.event_type
        FROM (SELECT DISTINCT p.topic, p.event_type FROM page p) k
        JOIN inbox.inbox_consumers c ON c.name = receiver
        WHERE inbox.wants(c.topics, c.types, k.topic, k.event_type)
    ), fit AS MATERIALIZED (
        SELECT min(p.seq) AS seq, p.whole
        FROM page p
        JOIN kind k ON k.topic = p.topic AND k.event_type IS NOT DISTINCT FROM p.event_type
        WHERE p.consumer <> receiver
          AND (giver IS NULL OR p.consumer = giver)
          AND (only_topic IS NULL OR p.topic = only_topic)
          AND (since IS NULL OR p.received_at >= since)
          AND CASE WHEN max_looks IS DISTINCT FROM max_copies THEN
                  (SELECT true FROM inbox.inbox_messages d
                   WHERE d.event_id = p.event_id AND d.source = p.source AND d.consumer = receiver) IS NULL
              ELSE true END
        GROUP BY p.event_id, p.source, p.whole
    )
    SELECT array_agg(f.seq ORDER BY f.seq) FILTER (WHERE f.whole), array_agg(f.seq) FILTER (WHERE NOT f.whole),
           (SELECT count(*) FROM page), (SELECT max(p.seq) FROM page p)
    INTO wanted, dropped, looked, last_seq
    FROM fit f;
    IF cardinality(wanted) > max_copies THEN
        wanted := wanted[:max_copies];
        last_seq := wanted[max_copies];
    ELSIF looked IS DISTINCT FROM max_looks THEN
        last_seq := NULL;
    END IF;
    INSERT INTO inbox.inbox_messages
        (consumer, source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers,
         payload, payload_digest, available_at)
    SELECT receiver, m.source, m.event_id, m.event_type, m.topic, m.kafka_partition, m.kafka_offset,
           m.kafka_timestamp, m.key, m.headers, m.payload, m.payload_digest, now()
    FROM inbox.inbox_messages m
    WHERE m.seq = ANY (wanted) AND (m.payload IS NOT NULL OR m.payload_digest IS NULL) -- retention may have dropped it since
    ORDER BY m.seq
    ON CONFLICT ON CONSTRAINT inbox_messages_pkey DO NOTHING;
    GET DIAGNOSTICS affected = ROW_COUNT;
    -- Counted once for a message: at the first of its rows, if no other row of it can be copied.
    SELECT count(*) INTO without_payload
    FROM unnest(dropped) AS d(seq)
    CROSS JOIN LATERAL (SELECT o.seq, o.event_id, o.source FROM inbox.inbox_messages o WHERE o.seq = d.seq OFFSET 0) m
    WHERE (last_seq IS NULL OR m.seq <= last_seq)
      AND (SELECT true FROM inbox.inbox_messages o
           WHERE o.event_id = m.event_id AND o.source = m.source
             AND (o.consumer = receiver
                  OR ((giver IS NULL OR o.consumer = giver)
                      AND (o.seq < m.seq OR o.payload IS NOT NULL OR o.payload_digest IS NULL)))
           LIMIT 1) IS NULL;
END $$;

-- Wakes dispatch and writes the audit after the copies of a page, in the same transaction. The entry in the audit fires
-- backfill_commits.
CREATE OR REPLACE FUNCTION inbox.finish_page(given jsonb, after_seq bigint, reason text, affected bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF affected > 0 THEN
        PERFORM pg_notify('inboxd_replay', '');
        PERFORM inbox.audit('backfill', jsonb_strip_nulls(given || jsonb_build_object('after_seq', after_seq)), reason, affected);
    END IF;
END $$;

-- Copies a page, for callers that copy many messages in short transactions. The filter must have until_seq, so that no page
-- reads the copies of another one. last_seq: where the next page begins; NULL = there is none.
CREATE OR REPLACE FUNCTION inbox.backfill_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                    OUT affected bigint, OUT without_payload bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_backfill(filter);
BEGIN
    IF NOT filter ? 'until_seq' THEN
        PERFORM inbox.refuse('backfill_page', 'until_seq must be given; inbox.backfill_count() returns it');
    END IF;
    SELECT c.* INTO affected, without_payload, last_seq
    FROM inbox.copy_rows(given, after_seq, inbox.check_max_rows('backfill_page', max_rows), max_rows) c;
    PERFORM inbox.finish_page(given || jsonb_build_object('to_seq', coalesce(last_seq, (given ->> 'until_seq')::bigint)),
                              after_seq, reason, affected);
END $$;

-- Copies everything, or max_rows messages, in one transaction. dry_run only counts. after_seq continues where an earlier call
-- ended. late: of all messages that can be copied. again: see backfill_repeats(); without it, such messages are an error.
CREATE OR REPLACE FUNCTION inbox.backfill(
    consumer text, from_consumer text DEFAULT NULL, since timestamptz DEFAULT NULL, topic text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, after_seq bigint DEFAULT NULL,
    again boolean DEFAULT false, OUT affected bigint, OUT without_payload bigint, OUT late bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    filter jsonb := jsonb_build_object('consumer', consumer, 'from', from_consumer, 'since', since, 'topic', topic);
    counted record;
    known record;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('backfill', 'dry_run is NULL; it must be true or false');
    END IF;
    IF dry_run AND after_seq IS NOT NULL THEN
        PERFORM inbox.refuse('backfill', 'after_seq is given with dry_run, which counts all; leave one of them out');
    END IF;
    PERFORM inbox.check_max_rows('backfill', max_rows);
    SELECT * INTO counted FROM inbox.backfill_count(filter);
    SELECT * INTO known FROM inbox.backfill_repeats(filter);
    IF known.repeats > 0 AND NOT dry_run AND again IS NOT TRUE THEN
        RAISE EXCEPTION '%', format('inbox' || '.backfill: the handler "%s" has processed %s of these messages for the consumer "%s"',
                                    known.handler, known.repeats, known.done_for)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('If "%s" is another name for that consumer: inboxd consumers rename ''%s'' ''%s''. To process them '
                                'again: again => true.', consumer, known.done_for, consumer);
    END IF;
    affected := least(counted.copies, max_rows);
    without_payload := counted.without_payload;
    late := counted.late;
    IF NOT dry_run THEN
        filter := inbox.check_backfill(filter || jsonb_build_object('until_seq', counted.until_seq));
        SELECT c.affected, c.without_payload, c.last_seq INTO affected, without_payload, last_seq
        FROM inbox.copy_rows(filter, coalesce(after_seq, 0), NULL, max_rows) c;
        PERFORM inbox.finish_page(filter || jsonb_build_object('to_seq', coalesce(last_seq, counted.until_seq)), after_seq, reason, affected);
    END IF;
END $$;

-- The backfills whose last page was committed in the last ten minutes: for which consumers they were, what they have copied
-- since they began, and whether a command runs at present. A command that counts or asks has no page yet. A pooler keeps the
-- session of a command that has ended, with its name. So a session counts only while rows are left, and while it is not idle, or
-- became so a moment ago. The definer reads the audit, which a sidecar may not read; each page has a row there.
CREATE OR REPLACE FUNCTION inbox.recent_backfills() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('consumer', c.name, 'who', b.who, 'copied', b.copied, 'began_at', b.began_at,
               'copied_at', b.copied_at, 'seq', b.seq, 'until_seq', b.until_seq, 'runs', b.seq < b.until_seq::bigint AND EXISTS (
                   SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND a.application_name = 'inboxd backfill'
                     AND (a.state = 'idle' AND a.state_change < clock_timestamp() - interval '10 seconds') IS NOT TRUE))
               ORDER BY c.name), '[]')
    FROM inbox.inbox_consumers c
    CROSS JOIN LATERAL (
        SELECT a.who, a.filter ->> 'until_seq' AS until_seq, sum(a.affected)::bigint AS copied, min(a.at) AS began_at,
               max(a.at) AS copied_at, coalesce(max((coalesce(a.filter ->> 'to_seq', a.filter ->> 'after_seq'))::bigint), 0) AS seq
        FROM (SELECT l.* FROM inbox.inbox_audit l ORDER BY l.seq DESC LIMIT 100000) a
        WHERE a.action = 'backfill' AND a.filter ->> 'consumer' = c.name
        GROUP BY a.who, a.filter ->> 'until_seq'
        ORDER BY max(a.seq) DESC LIMIT 1) b
    WHERE c.backfill_until > clock_timestamp() AND b.copied_at > clock_timestamp() - interval '10 minutes'
$$;
