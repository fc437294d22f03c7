-- Pages of messages that fit a filter, in the order of seq (docs/adr/0018).

-- The seq up to which the messages after after_seq were received before a time; NULL = not known. seq rises with
-- received_at, so this is a search and not a scan. The caller must allow for overlapping transactions. A message that
-- was received while the clock was wrong may be on the wrong side. NULL also if at most 100,000 rows are left, because
-- reading them costs no more.
CREATE OR REPLACE FUNCTION inbox.seq_before(stamp timestamptz, after_seq bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    low bigint;
    high bigint;
    middle bigint;
    step bigint := 1;
    found_seq bigint;
    low_at timestamptz;
    high_at timestamptz;
    found_at timestamptz;
BEGIN
    SELECT m.seq, m.received_at INTO high, high_at FROM inbox.inbox_messages m ORDER BY m.seq DESC LIMIT 1;
    IF high IS NULL OR high - after_seq <= 100000 THEN
        RETURN NULL;
    END IF;
    SELECT m.seq, m.received_at INTO low, low_at FROM inbox.inbox_messages m
    WHERE m.seq > after_seq ORDER BY m.seq LIMIT 1;
    IF high - low <= 100000 OR low_at >= stamp THEN
        RETURN NULL;
    ELSIF high_at < stamp THEN
        RETURN high;
    END IF;
    -- The row at low was received before the time, and rows from high on were not. The search starts at the end with
    -- doubling steps, because most requests are for recent times; after the last step it bisects.
    WHILE high - low > 1 LOOP
        middle := greatest(CASE WHEN step > 0 THEN high - step END, low + (high - low) / 2);
        SELECT m.seq, m.received_at INTO found_seq, found_at FROM inbox.inbox_messages m
        WHERE m.seq >= middle AND m.seq < high ORDER BY m.seq LIMIT 1;
        IF found_at < stamp THEN
            low := found_seq;
            step := 0;
        ELSE
            high := middle;
            step := step * 2;
        END IF;
    END LOOP;
    RETURN low;
END $$;

-- A message of a record; NULL = none was found. If it is waiting, an index has it. Otherwise this is a search and not a
-- scan: for each consumer, the offsets of a partition rise with seq, and its last row was stored before its watermark last
-- moved.
-- Rows that are out of order (the topic was created again, a reject was replayed) are found if they wait or are dead.
-- It passes over at most 100,000 seqs for each consumer, and 100,000 dead messages. So NULL does not prove that there is no
-- message: where few rows are of the partition, each step passes over many others.
CREATE OR REPLACE FUNCTION inbox.find_record(topic text, kafka_partition int, kafka_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    name text;
    low bigint;
    high bigint;
    last bigint;
    middle bigint;
    room bigint;
    found_seq bigint;
    found_offset bigint;
BEGIN
    SELECT inbox.seq_before(o.updated_at + interval '30 seconds', 0) INTO last FROM inbox.inbox_offsets o
    WHERE o.topic = find_record.topic AND o.kafka_partition = find_record.kafka_partition;
    last := coalesce(last, (SELECT max(m.seq) FROM inbox.inbox_messages m));
    FOR name IN SELECT c.name FROM inbox.inbox_consumers c UNION SELECT '' ORDER BY 1 LOOP
        SELECT m.seq INTO found_seq FROM inbox.inbox_messages m
        WHERE m.topic = find_record.topic AND m.kafka_partition = find_record.kafka_partition AND m.consumer = name
          AND m.available_at IS NOT NULL AND m.kafka_offset >= 0 AND m.kafka_offset = find_record.kafka_offset
        LIMIT 1;
        IF found_seq IS NOT NULL THEN
            RETURN found_seq;
        END IF;
        SELECT min(m.seq) INTO low FROM inbox.inbox_messages m;
        high := last + 1;
        room := 100000;
        WHILE low < high AND room > 0 LOOP
            middle := low + (high - low) / 2;
            SELECT m.seq, m.kafka_offset INTO found_seq, found_offset FROM inbox.inbox_messages m
            WHERE m.seq >= middle AND m.seq < least(high, middle + room) AND m.topic = find_record.topic
              AND m.kafka_partition = find_record.kafka_partition AND m.consumer = name
            ORDER BY m.seq LIMIT 1;
            IF found_offset = find_record.kafka_offset THEN
                RETURN found_seq;
            END IF;
            found_seq := coalesce(found_seq, least(high, middle + room));
            room := room - (found_seq - middle);
            IF found_offset < find_record.kafka_offset THEN
                low := found_seq + 1;
            ELSE
                high := middle;
            END IF;
        END LOOP;
    END LOOP;
    RETURN (
        SELECT d.seq
        FROM (SELECT m.seq, m.topic, m.kafka_partition, m.kafka_offset FROM inbox.inbox_messages m
              WHERE m.dead_at IS NOT NULL ORDER BY m.dead_at DESC, m.seq DESC LIMIT 100000) d
        WHERE d.topic = find_record.topic AND d.kafka_partition = find_record.kafka_partition
          AND d.kafka_offset = find_record.kafka_offset
        LIMIT 1);
END $$;

-- Whether a version of a row (its xmin) was there when rows were counted (op_count.sql). So a command changes what its user
-- confirmed, and no row that came later or has changed since. counted: NULL = any version will do; below:
-- every transaction with a lower number had ended; also: those of the others whose rows were counted. A snapshot cannot
-- replace `also`, because it does not have the numbers of subtransactions, such as that of a savepoint.
-- xmin has the low 32 bits of a number. It belongs to the last 2^32 numbers before the next one; the million allows
-- for transactions that begin at this moment.
-- Without SET, so that the planner puts the expression in place of the call. Its callers pin search_path.
CREATE OR REPLACE FUNCTION inbox.is_counted(version xid, counted jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT counted IS NULL
        OR ((pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint + 1000000 - version::text::bigint)
            & 4294967295)
           > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint + 1000000
             - (counted ->> 'below')::bigint
        OR coalesce(counted -> 'also' ? version::text, false)
$$;

-- One page: at most max_rows messages that fit, after after_seq. Waiting and dead messages are read along
-- inbox_messages_state, claimed ones from the bounds of the instances on, all others along the whole table. No index has
-- consumers, types, keys, codes, errors and traces. With max_rows a page also ends after 100,000 rows that did not match.
-- Without max_rows all messages of a status are read, except for processed messages and messages of any status: these are
-- most of the table, so the page ends, too. If a page may end, the search for received_from and received_to comes first. A
-- discarded message matches only the status 'discarded', or the status 'dead' with its code. filter ->> 'order': 'seq' (the
-- default), or 'died': dead messages by the time of death; with ' DESC' backwards. A page behind a message that is no
-- longer dead begins at its last death. filter -> 'counted': only messages that were counted (is_counted()), up to the seq
-- 'last'. Times are put into the statement as text. datestyle: other styles than ISO print the zone as an abbreviation,
-- which can stand for two zones. looked: the number of rows that were read. last_seq: no row after it was read; NULL =
-- there is none.
CREATE OR REPLACE FUNCTION inbox.look_page(filter jsonb, after_seq bigint, max_rows int,
    OUT seqs bigint[], OUT looked bigint, OUT last_seq bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off SET datestyle = 'ISO' AS $$
DECLARE
    kind text := filter ->> 'event_type';
    states int[] := CASE filter ->> 'status' WHEN 'dead' THEN '{1}' WHEN 'discarded' THEN '{1}' WHEN 'parked' THEN '{2}' WHEN 'retrying' THEN '{3}'
                                             WHEN 'waiting' THEN '{2,3,4}' ELSE '{}' END;
    claimed boolean := filter ->> 'status' = 'claimed';
    misfits bigint := CASE WHEN max_rows IS NULL AND (claimed OR states <> '{}') THEN NULL ELSE 100000 END;
    overlap interval := '30 seconds'; -- more than that of transactions that store
    down text := CASE WHEN filter ->> 'order' LIKE '% DESC' THEN ' DESC' ELSE '' END;
    after bigint := CASE WHEN down = '' THEN greatest(coalesce(after_seq, 0), 0) ELSE 0 END;
    top bigint := CASE WHEN down <> '' AND after_seq > 0 THEN after_seq - 1 ELSE 9223372036854775807 END;
    counted jsonb := filter -> 'counted';
    last bigint;
    born bigint;
    died timestamptz;
    fits text;
    walks text[];
    walk text;
    fit boolean;
BEGIN
    SELECT concat_ws(' AND ', CASE filter ->> 'status'
            WHEN 'processed' THEN 'm.processed_at IS NOT NULL'
            WHEN 'claimed' THEN 'm.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL'
            WHEN 'discarded' THEN 'm.error_code = ''DISCARDED'' AND m.claimed_by IS NULL'
            WHEN 'dead' THEN CASE WHEN filter ->> 'error_code' = 'DISCARDED' THEN 'true'
                                  ELSE '(m.error_code IS DISTINCT FROM ''DISCARDED'' OR m.claimed_by IS NOT NULL)' END
            ELSE 'true' END,
        CASE WHEN filter ? 'consumer' THEN format('m.consumer = %L', filter ->> 'consumer') END,
        CASE WHEN filter ? 'topic' THEN format('m.topic = %L', filter ->> 'topic') END,
        CASE WHEN right(kind, 1) = '*' THEN format('starts_with(m.event_type, %L)', left(kind, -1))
             WHEN kind IS NOT NULL THEN format('m.event_type = %L', kind) END,
        CASE WHEN filter ? 'key' THEN format('m.key = convert_to(%L, ''UTF8'')', filter ->> 'key') END,
        CASE WHEN filter ? 'trace'
             THEN format('inbox.is_of_trace(%L, m.source, m.event_id, m.headers, m.payload)', filter ->> 'trace') END,
        CASE WHEN filter ? 'received_from'
             THEN format('m.received_at >= %L::timestamptz', filter ->> 'received_from') END,
        CASE WHEN filter ? 'received_to'
             THEN format('m.received_at < %L::timestamptz', filter ->> 'received_to') END,
        CASE WHEN filter ? 'died_from' THEN format('m.dead_at >= %L::timestamptz', filter ->> 'died_from') END,
        CASE WHEN filter ? 'died_to' THEN format('m.dead_at < %L::timestamptz', filter ->> 'died_to') END,
        CASE WHEN filter ? 'error_like' THEN format('m.error LIKE %L', filter ->> 'error_like') END,
        CASE WHEN filter ->> 'error_code' = '' THEN 'coalesce(m.error_code, '''') = '''''
             WHEN filter ? 'error_code' THEN format('m.error_code = %L', filter ->> 'error_code') END,
        CASE filter ->> 'payload' WHEN 'there' THEN '(m.payload IS NOT NULL OR m.payload_digest IS NULL)'
                                  WHEN 'dropped' THEN 'm.payload IS NULL AND m.payload_digest IS NOT NULL' END,
        CASE filter ->> 'due' WHEN 'later' THEN 'm.available_at > now() AND m.available_at < ''infinity''' END,
        CASE WHEN filter ? 'counted' THEN 'inbox.is_counted(m.xmin, $1)' END)
    INTO fits;
    IF filter ? 'received_to' AND misfits > 0 THEN
        last := inbox.seq_before((filter ->> 'received_to')::timestamptz + overlap, after);
    END IF;
    IF filter ? 'received_from' AND misfits > 0 THEN
        after := coalesce(inbox.seq_before((filter ->> 'received_from')::timestamptz - overlap, after), after);
    END IF;
    last := least(last, top, (counted ->> 'last')::bigint);
    IF filter ->> 'order' LIKE 'died%' THEN
        IF after_seq > 0 THEN
            SELECT coalesce(m.dead_at, (SELECT max((a.entry ->> 'ended_at')::timestamptz)
                                        FROM jsonb_array_elements(m.attempts) AS a(entry) WHERE a.entry ->> 'was' = 'dead'))
            INTO died FROM inbox.inbox_messages m WHERE m.seq = after_seq;
            IF died IS NULL THEN
                PERFORM inbox.refuse('list', format('the message with seq %s did not die, or was deleted, so no page begins '
                    'after it; leave out --after, and use --until with the last DIED', after_seq));
            END IF;
        END IF;
        walks := ARRAY[concat('inbox.inbox_messages m WHERE m.dead_at IS NOT NULL',
            CASE WHEN died IS NOT NULL THEN format(' AND (m.dead_at, m.seq) %s (%L::timestamptz, %s)',
                                                   CASE down WHEN '' THEN '>' ELSE '<' END, died, after_seq) END,
            CASE WHEN filter ? 'died_from'
                 THEN format(' AND m.dead_at >= %L::timestamptz', (filter ->> 'died_from')::timestamptz) END,
            CASE WHEN filter ? 'died_to'
                 THEN format(' AND m.dead_at < %L::timestamptz', (filter ->> 'died_to')::timestamptz) END,
            format(' ORDER BY m.dead_at%s, m.seq%s', down, down))];
    ELSIF states <> '{}' THEN
        -- Each part has an order of its own: otherwise PostgreSQL reads all parts and sorts them.
        SELECT '(' || string_agg(
            '(SELECT c.xmin, c.seq + 0 AS place, c.* FROM inbox.inbox_messages c'
            ' WHERE (c.dead_at IS NOT NULL OR c.available_at IS NOT NULL) AND c.retry_count >= 0 AND'
            ' CASE WHEN c.dead_at IS NOT NULL THEN 1 WHEN c.available_at = ''infinity'' THEN 2 WHEN c.retry_count > 0 THEN 3'
            || format(' ELSE 4 END = %s AND c.seq + 0 > %%1$s AND c.seq + 0 <= %%2$s ORDER BY place%s)', n, down), ' UNION ALL ')
            || ') m ORDER BY m.place' || down INTO walk FROM unnest(states) n;
        walks := ARRAY[walk];
    ELSE
        walks := ARRAY['inbox.inbox_messages m WHERE m.seq > %1$s AND m.seq <= %2$s ORDER BY m.seq' || down];
    END IF;
    IF claimed THEN
        -- Rows that instances claimed from the table; then all rows from the lowest low_seq on.
        SELECT min(i.low_seq) INTO born FROM inbox.inbox_instances i WHERE i.rescued_at IS NULL;
        born := coalesce(born, 9223372036854775807);
        walk := 'inbox.inbox_instances i CROSS JOIN LATERAL (SELECT c.xmin, c.* FROM inbox.inbox_messages c'
            ' WHERE c.claimed_by = i.id AND c.claim_number >= i.low_claim AND c.delivery_count > 1 OFFSET 0) m'
            ' WHERE i.rescued_at IS NULL AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL'
            || format(' AND m.seq < %s AND m.seq > %%1$s AND m.seq <= %%2$s ORDER BY m.seq%s', born, down);
        walks := ARRAY[format('inbox.inbox_messages m WHERE m.seq >= %s AND m.seq > %%1$s AND m.seq <= %%2$s ORDER BY m.seq%s',
                              born, down)];
        walks := CASE down WHEN '' THEN walk || walks ELSE walks || walk END;
    END IF;
    seqs := '{}';
    looked := 0;
    FOREACH walk IN ARRAY walks LOOP
        FOR last_seq, fit IN EXECUTE format('SELECT m.seq, (%s) FROM %s LIMIT %s', fits, format(walk, after, last),
                coalesce(misfits + max_rows, 9223372036854775807)) USING counted LOOP
            looked := looked + 1;
            IF fit THEN
                seqs := seqs || last_seq;
            ELSE
                misfits := misfits - 1;
            END IF;
            IF misfits = 0 OR cardinality(seqs) = max_rows THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
    last_seq := NULL;
END $$;

-- Warns that a call did not read all messages, with its last position.
CREATE OR REPLACE FUNCTION inbox.warn_of_rest(caller text, looked bigint, last_seq bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING '%', 'inbox' || '.' || caller || ': looked at ' || looked || ' messages, as far as seq ' || last_seq
        USING DETAIL = 'So many did not fit that none behind that one was looked at.',
              HINT = 'Call it again with after => ' || last_seq || ', or narrow it with since.';
END $$;

-- Reports, by a notice, that a call left out rows that fit its filter.
CREATE OR REPLACE FUNCTION inbox.note_left_out(caller text, left_out bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF left_out > 0 THEN
        RAISE NOTICE '%', 'inbox' || '.' || caller || ': ' || left_out
            || ' left out, because another transaction has locked or changed them';
    END IF;
END $$;
