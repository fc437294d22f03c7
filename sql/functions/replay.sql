-- Replay: processed and dead messages are processed again, and rejects become messages.

-- Makes rows wait like new ones, and keeps their history. Takes rows that are processed or dead (or have the given
-- status), are not locked, and still have their payload. Retention drops payloads and keeps their digest; a tombstone
-- never had a digest.
CREATE OR REPLACE FUNCTION inbox.replay_seqs(seqs bigint[], status text, reason text, counted jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (seqs) AND (m.payload IS NOT NULL OR m.payload_digest IS NULL)
          AND CASE replay_seqs.status WHEN 'dead' THEN m.dead_at IS NOT NULL
                                      WHEN 'discarded' THEN m.dead_at IS NOT NULL
                                      WHEN 'processed' THEN m.processed_at IS NOT NULL
                                      ELSE m.dead_at IS NOT NULL OR m.processed_at IS NOT NULL END
          AND inbox.is_counted(m.xmin, counted)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET processed_at = NULL, dead_at = NULL, available_at = now(), claimed_by = NULL, suspect = false,
        retry_count = 0, crash_count = 0, rescue_count = 0, replay_count = least(m.replay_count, 2147483646) + 1,
        error = NULL, error_code = NULL, result = NULL, handler = NULL,
        attempts = inbox.remember(m.attempts, inbox.replay_entry(
            m.processed_at, m.dead_at, m.retry_count, m.error, m.error_code, m.result, replay_seqs.reason))
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS affected = ROW_COUNT;
    IF affected > 0 THEN
        PERFORM pg_notify('inboxd_replay', '');
    END IF;
    RETURN affected;
END $$;

-- Replays one message for a consumer, or for each one (NULL) for which it is processed or dead. False: there is none. A
-- row whose payload was dropped is left out; if there is no other row to replay, that is an error. counted: only rows that
-- were counted (is_counted()).
CREATE OR REPLACE FUNCTION inbox.replay(source text, event_id text, reason text DEFAULT NULL, consumer text DEFAULT NULL,
                             counted jsonb DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ended bigint[];
    dropped bigint;
    affected bigint := 0;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('replay', 'source and event_id must be given');
    END IF;
    SELECT array_agg(m.seq) FILTER (WHERE m.payload IS NOT NULL OR m.payload_digest IS NULL),
           count(*) FILTER (WHERE m.payload IS NULL AND m.payload_digest IS NOT NULL)
    INTO ended, dropped
    FROM inbox.inbox_messages m
    WHERE m.event_id = replay.event_id AND m.source = replay.source
      AND (replay.consumer IS NULL OR m.consumer = replay.consumer)
      AND (m.processed_at IS NOT NULL OR m.dead_at IS NOT NULL);
    IF dropped > 0 AND ended IS NOT NULL THEN
        RAISE NOTICE 'event % of source %: % left out, because retention has dropped their payload',
            quote_literal(event_id), quote_literal(source), dropped;
    ELSIF dropped > 0 THEN
        RAISE EXCEPTION 'inbox.replay: retention has dropped the payload of event %', quote_literal(event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Produce the event again, under a new id.';
    END IF;
    IF ended IS NOT NULL THEN
        affected := inbox.replay_seqs(ended, NULL, reason, counted);
    END IF;
    IF affected > 0 AND affected < cardinality(ended) THEN
        RAISE NOTICE 'event % of source %: % left out, because another transaction has locked or changed them',
            quote_literal(event_id), quote_literal(source), cardinality(ended) - affected;
    END IF;
    RETURN inbox.audit_message('replay', source, event_id, consumer, reason, affected, 'is processed or dead');
END $$;

-- Replays a page, for callers that replay many messages in short transactions. last_seq: where the next page
-- begins, NULL = there is none. A page without a match may have one. Messages whose payload was dropped are in no page.
CREATE OR REPLACE FUNCTION inbox.replay_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                  OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_page', filter, ARRAY['dead', 'processed', 'discarded']);
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_page(given || '{"payload": "there"}', after_seq,
        inbox.check_max_rows('replay_page', max_rows));
    affected := inbox.replay_seqs(page.seqs, given ->> 'status', reason, given -> 'counted');
    last_seq := coalesce(page.last_seq, page.seqs[cardinality(page.seqs)]);
    IF page.seqs <> '{}' THEN
        PERFORM inbox.audit('replay', given - 'counted', reason, affected);
    END IF;
END $$;

-- Replays all matching messages in one transaction; dry_run only counts. after_seq continues where an earlier call
-- ended.
CREATE OR REPLACE FUNCTION inbox.replay_where(
    status text DEFAULT 'dead', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL, after_seq bigint DEFAULT NULL, consumer text DEFAULT NULL,
    type text DEFAULT NULL, code text DEFAULT NULL, error text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, max int DEFAULT NULL, after bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_where', inbox.named_filter('replay_where', jsonb_build_object(
        'status', status, 'topic', topic, 'event_type', event_type, 'key', key, 'received_from', received_from,
        'received_to', received_to, 'error_like', error_like, 'error_code', error_code, 'consumer', consumer,
        'max_rows', max_rows, 'after_seq', after_seq,
        'type', type, 'code', code, 'error', error, 'since', since, 'until', until, 'max', max, 'after', after)),
        ARRAY['dead', 'processed', 'discarded']);
    most int := inbox.check_max_rows('replay_where', coalesce(max, max_rows));
    page record;
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('replay_where', 'dry_run is NULL; it must be true or false');
    END IF;
    SELECT * INTO page FROM inbox.look_page(given || '{"payload": "there"}', coalesce(after, after_seq), most);
    affected := cardinality(page.seqs);
    IF page.last_seq IS NOT NULL AND affected IS DISTINCT FROM most THEN
        PERFORM inbox.warn_of_rest('replay_where', page.looked, page.last_seq);
    END IF;
    IF NOT dry_run THEN
        affected := inbox.replay_seqs(page.seqs, status, reason);
        PERFORM inbox.audit('replay', given, reason, affected);
        PERFORM inbox.note_left_out('replay_where', cardinality(page.seqs) - affected);
    END IF;
    RETURN affected;
END $$;

-- True if a reject with a lower offset holds this one back. If two transactions replay rejects of one key at the same time,
-- neither sees the change of the other, so the later reject is held back.
CREATE OR REPLACE FUNCTION inbox.is_held_back(reject inbox.inbox_rejects) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT reject.holds
       AND CASE WHEN (SELECT o.ordering FROM inbox.inbox_offsets o
                      WHERE o.topic = reject.topic AND o.kafka_partition = reject.kafka_partition) = 'partition' THEN
                    EXISTS (SELECT FROM inbox.inbox_rejects r
                            WHERE r.holds AND r.topic = reject.topic AND r.kafka_partition = reject.kafka_partition
                              AND r.kafka_offset < reject.kafka_offset)
                ELSE
                    EXISTS (SELECT FROM inbox.inbox_rejects r
                            WHERE r.holds AND r.topic = reject.topic AND r.kafka_partition = reject.kafka_partition
                              AND substr(sha256(r.key), 1, 8) = substr(sha256(reject.key), 1, 8) AND r.key = reject.key
                              AND r.kafka_offset < reject.kafka_offset) END
$$;

-- Gives up the order of a reject: the later records of its key can become messages before it. Later records that are
-- rejects already need a replay. False: the reject holds nothing back.
CREATE OR REPLACE FUNCTION inbox.release_reject(reject_seq bigint, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    released bigint;
BEGIN
    UPDATE inbox.inbox_rejects r SET holds = false WHERE r.seq = reject_seq AND r.holds;
    GET DIAGNOSTICS released = ROW_COUNT;
    IF released > 0 THEN
        PERFORM inbox.audit('release_reject', jsonb_build_object('reject', reject_seq), reason, released);
    END IF;
    RETURN released > 0;
END $$;

-- Makes a message of a reject that the rules accept now. The first entry of its history has the user and the reason.
-- Returns 'stored', for each consumer that wants it; 'duplicate': the message exists already; 'conflict': it exists with
-- another payload, and the reject is kept in inbox_conflicts; 'unwanted': no known consumer wants it, and the reject stays;
-- 'behind': an earlier record of its key (of its partition, with this ordering) is a reject that holds it back, and both stay;
-- NULL: there is no such reject.
CREATE OR REPLACE FUNCTION inbox.replay_reject(reject_seq bigint, source text, event_id text, event_type text,
                                    reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    reject inbox.inbox_rejects;
    digest bytea;
    consumers text[];
    outcome text := 'stored';
BEGIN
    IF coalesce(source, '') = '' OR coalesce(event_id, '') = '' THEN
        PERFORM inbox.refuse('replay_reject', 'source and event_id must be given');
    END IF;
    SELECT r.* INTO reject FROM inbox.inbox_rejects r WHERE r.seq = reject_seq FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF strpos(reject.reason, 'not kept whole: ') > 0 THEN
        PERFORM inbox.refuse('replay_reject', format('the reject %s is not the whole record of %s/%s/%s: read the record again with '
            '`inboxd seek`', reject_seq, reject.topic, reject.kafka_partition, reject.kafka_offset));
    END IF;
    IF inbox.is_held_back(reject) THEN
        RETURN 'behind';
    END IF;
    PERFORM FROM inbox.inbox_consumers c ORDER BY c.name FOR KEY SHARE; -- a rename has ended before the INSERT, or moves its rows
    consumers := ARRAY(SELECT inbox.consumers_of(reject.topic, replay_reject.event_type));
    IF consumers = '{}' THEN
        RETURN 'unwanted';
    END IF;
    DELETE FROM inbox.inbox_rejects r WHERE r.seq = reject_seq;
    digest := substr(sha256(reject.payload), 1, 16);
    INSERT INTO inbox.inbox_messages
        (consumer, source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers,
         payload, payload_digest, available_at, attempts)
    SELECT c.name, replay_reject.source, replay_reject.event_id, replay_reject.event_type, reject.topic,
           reject.kafka_partition, reject.kafka_offset,
           -- without the microseconds of a later generation; a record without a time has them after -1 ms
           nullif(date_trunc('milliseconds', reject.kafka_timestamp), to_timestamp(-0.001)), reject.key, reject.headers,
           reject.payload, digest, now(), inbox.remember(NULL, jsonb_strip_nulls(jsonb_build_object(
               'at', now(), 'replayed_by', session_user, 'was', 'rejected', 'reason', replay_reject.reason)))
    FROM unnest(consumers) AS c(name)
    WHERE NOT EXISTS (SELECT FROM inbox.inbox_messages m
                      WHERE m.event_id = replay_reject.event_id AND m.source = replay_reject.source
                        AND m.payload_digest IS DISTINCT FROM digest)
      AND NOT EXISTS (SELECT FROM inbox.inbox_renames n
                      JOIN inbox.inbox_messages o ON o.event_id = replay_reject.event_id AND o.source = replay_reject.source
                                                 AND o.consumer = n.old_name
                      WHERE n.new_name = c.name AND n.moved_at IS NULL)
    ON CONFLICT ON CONSTRAINT inbox_messages_pkey DO NOTHING;
    IF FOUND THEN
        PERFORM pg_notify('inboxd_replay', '');
    ELSE
        INSERT INTO inbox.inbox_conflicts
            (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload,
             payload_digest)
        SELECT m.source, m.event_id, reject.topic, reject.kafka_partition, reject.kafka_offset,
               reject.kafka_timestamp, reject.key, reject.headers, reject.payload, digest
        FROM inbox.inbox_messages m
        WHERE m.event_id = replay_reject.event_id AND m.source = replay_reject.source
          AND m.payload_digest IS DISTINCT FROM digest
        LIMIT 1
        ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)))
            DO NOTHING;
        outcome := CASE WHEN FOUND THEN 'conflict' ELSE 'duplicate' END;
    END IF;
    PERFORM inbox.audit('replay', jsonb_build_object('reject', reject_seq, 'source', source,
        'event_id', event_id, 'fate', outcome), reason, 1);
    RETURN outcome;
END $$;

-- Gives dead messages the payload and the headers of a conflict, and replays them: for a consumer, or for each one (NULL)
-- for which the message is dead. The key and the coordinates stay, so that the message keeps its place. The earlier payload
-- becomes a conflict, unless it is one already, and the conflict stays. If inbox_conflicts has another payload with the
-- same topic, partition and offset, the function fails, because the earlier payload would be lost. NULL: there is no such
-- conflict. False: the message is dead for no consumer.
CREATE OR REPLACE FUNCTION inbox.take_conflict(conflict_seq bigint, reason text DEFAULT NULL, consumer text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    conflict inbox.inbox_conflicts;
    taken bigint[];
    lost bigint;
    affected bigint := 0;
BEGIN
    IF conflict_seq IS NULL THEN
        PERFORM inbox.refuse('take_conflict', 'conflict_seq must be given');
    END IF;
    SELECT c.* INTO conflict FROM inbox.inbox_conflicts c WHERE c.seq = conflict_seq;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.event_id = conflict.event_id AND m.source = conflict.source
          AND (take_conflict.consumer IS NULL OR m.consumer = take_conflict.consumer) AND m.dead_at IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ), replaced AS MATERIALIZED (
        SELECT m.source, m.event_id, m.topic, m.kafka_partition, m.kafka_offset, m.kafka_timestamp, m.key, m.headers,
               m.payload, m.payload_digest
        FROM inbox.inbox_messages m JOIN free ON free.seq = m.seq
        WHERE m.payload_digest IS DISTINCT FROM conflict.payload_digest
          AND (m.payload IS NOT NULL OR m.payload_digest IS NULL)
    ), kept AS (
        INSERT INTO inbox.inbox_conflicts
            (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload, payload_digest)
        SELECT r.* FROM replaced r
        ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)))
            DO NOTHING
        RETURNING payload_digest
    ), changed AS (
        UPDATE inbox.inbox_messages m
        SET payload = conflict.payload, payload_digest = conflict.payload_digest, headers = conflict.headers,
            attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
                'at', now(), 'took_conflict', conflict.seq, 'taken_by', session_user, 'reason', take_conflict.reason,
                'was_digest', encode(m.payload_digest, 'hex'))))
        FROM free WHERE m.seq = free.seq
        RETURNING m.seq
    )
    SELECT array_agg(c.seq), (
        SELECT count(*) FROM replaced r
        WHERE NOT EXISTS (SELECT FROM kept k WHERE k.payload_digest IS NOT DISTINCT FROM r.payload_digest)
          AND NOT EXISTS (
            SELECT FROM inbox.inbox_conflicts c
            WHERE c.source = r.source AND c.event_id = r.event_id AND c.payload_digest IS NOT DISTINCT FROM r.payload_digest))
    INTO taken, lost FROM changed c;
    IF lost > 0 THEN
        PERFORM inbox.refuse('take_conflict', format('the payload of message "%s" would be lost: another one has its coordinates in'
            ' inbox_conflicts; copy that row, delete it, and try again', conflict.event_id));
    END IF;
    IF taken IS NOT NULL THEN
        affected := inbox.replay_seqs(taken, 'dead', reason);
    END IF;
    RETURN inbox.audit_message('take_conflict', conflict.source, conflict.event_id, consumer, reason, affected, 'is dead',
        jsonb_build_object('conflict', conflict_seq));
END $$;
