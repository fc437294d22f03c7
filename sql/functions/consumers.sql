-- Consumers: who wants a message, which consumers are known, and their names. A consumer is known until its memory has
-- passed after the last sidecar listed it. The one without a name is known until it is renamed or forgotten: a configuration
-- cannot list it beside others, so the first section `consumers` would end it.

-- Whether a consumer with these topics and types (NULL = all) wants a message.
CREATE OR REPLACE FUNCTION inbox.wants(topics jsonb, types jsonb, topic text, event_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (topics IS NULL OR EXISTS (
               SELECT FROM jsonb_array_elements_text(topics) AS t(name)
               WHERE CASE WHEN left(t.name, 1) = '^' THEN wants.topic ~ t.name ELSE wants.topic = t.name END))
       AND (types IS NULL OR EXISTS (
               SELECT FROM jsonb_array_elements_text(types) AS t(name)
               WHERE CASE WHEN t.name = '*' THEN true
                          WHEN right(t.name, 1) = '*' THEN starts_with(wants.event_type, left(t.name, -1))
                          ELSE wants.event_type = t.name END))
$$;

-- The known consumers that want a message. Before the first sidecar has registered, that is the one without a name.
CREATE OR REPLACE FUNCTION inbox.consumers_of(topic text, event_type text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.name FROM inbox.inbox_consumers c
    WHERE (c.listed_at > clock_timestamp() - c.memory OR c.name = '')
      AND inbox.wants(c.topics, c.types, consumers_of.topic, consumers_of.event_type)
    UNION ALL
    SELECT '' WHERE NOT EXISTS (SELECT FROM inbox.inbox_consumers)
$$;

-- The present name of a consumer: that of the consumer which had this name earlier, or the same name.
CREATE OR REPLACE FUNCTION inbox.present_name(consumer text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT r.new_name FROM inbox.inbox_renames r WHERE r.old_name = present_name.consumer), present_name.consumer)
$$;

-- Fails while a rename from or to this name has not moved all rows.
CREATE OR REPLACE FUNCTION inbox.check_rename_over(caller text, consumer text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    begun inbox.inbox_renames;
BEGIN
    SELECT r.* INTO begun FROM inbox.inbox_renames r
    WHERE r.moved_at IS NULL AND check_rename_over.consumer IN (r.old_name, r.new_name) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%', 'inbox' || '.' || caller || format(': consumer "%s" is being renamed to "%s"', begun.old_name, begun.new_name)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('Finish it first: inboxd consumers rename ''%s'' ''%s''', begun.old_name, begun.new_name);
    END IF;
END $$;

-- Forgets a consumer: from the next heartbeat of each sidecar on, no messages are stored for it. Its rows stay. A consumer
-- that a sidecar lists is known again with the next heartbeat. An earlier name of a consumer is forgotten, too: it can then
-- be the name of another one. False: there is no consumer with that name.
CREATE OR REPLACE FUNCTION inbox.forget_consumer(name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earlier boolean;
BEGIN
    IF name IS NULL THEN
        PERFORM inbox.refuse('forget_consumer', 'name must be given');
    END IF;
    PERFORM inbox.check_rename_over('forget_consumer', name);
    DELETE FROM inbox.inbox_renames r WHERE r.old_name = forget_consumer.name;
    earlier := FOUND;
    DELETE FROM inbox.inbox_consumers c WHERE c.name = forget_consumer.name;
    IF NOT FOUND AND NOT earlier THEN
        RETURN false;
    END IF;
    PERFORM inbox.audit('forget_consumer', jsonb_build_object('consumer', name), reason, 1);
    RETURN true;
END $$;

-- --- Rename (docs/adr/0040) ---------------------------------------------------------------------------
--
-- One transaction, rename_consumer(), gives the consumer its new name, in the tables that have names and in the rows of all
-- messages that are not done. It raises the epochs. So no batch that knows only the earlier name is stored after it (rule R1), and
-- a sidecar that reads the new name begins a new instance run with it. Then rename_page() moves the rows that are done, page
-- by page. Until the last one has moved, an INSERT for the consumer also looks for the event under the earlier name.

-- The messages of a consumer that are not done: they wait, or an instance holds them.
CREATE OR REPLACE FUNCTION inbox.open_messages(consumer text) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT m.seq
    FROM inbox.inbox_offsets o
    CROSS JOIN LATERAL (
        SELECT w.seq FROM inbox.inbox_messages w
        WHERE w.topic = o.topic AND w.kafka_partition = o.kafka_partition AND w.consumer = open_messages.consumer
          AND w.available_at > '-infinity' OFFSET 0) m
    UNION
    SELECT c.seq FROM inbox.open_claims() c WHERE c.consumer = open_messages.consumer
$$;

-- Moves rows to another name. If an event has a row under both names, one of them stays. It is the row of the new name if
-- this row is processed, or if an instance holds it and the other row waits or is dead. Otherwise it is the row of the
-- earlier name. The plans can be older than the rows: so the list of seqs drives each part, and no condition on the consumer fits
-- an index. CASE: as in settle_done.
CREATE OR REPLACE FUNCTION inbox.move_rows(seqs bigint[], name text, new_name text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = on SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    DELETE FROM inbox.inbox_messages m
    WHERE m.seq = ANY (ARRAY(
        SELECT CASE WHEN t.processed_at IS NOT NULL
                      OR num_nonnulls(t.available_at, t.dead_at) = 0 AND num_nonnulls(s.available_at, s.dead_at) = 1
                    THEN s.seq ELSE t.seq END
        FROM unnest(seqs) AS q(seq)
        CROSS JOIN LATERAL (SELECT o.* FROM inbox.inbox_messages o
                            WHERE o.seq = q.seq AND CASE WHEN o.consumer = move_rows.name THEN true END OFFSET 0) s
        CROSS JOIN LATERAL (SELECT o.* FROM inbox.inbox_messages o
                            WHERE o.event_id = s.event_id AND o.source = s.source AND o.consumer = move_rows.new_name OFFSET 0) t));
    UPDATE inbox.inbox_messages m SET consumer = move_rows.new_name
    WHERE m.seq = ANY (seqs) AND CASE WHEN m.consumer = move_rows.name THEN true END;
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- Fails unless the consumer `name` may get the name `new_name`.
CREATE OR REPLACE FUNCTION inbox.check_rename(name text, new_name text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other text;
BEGIN
    IF name IS NULL OR new_name IS NULL THEN
        PERFORM inbox.refuse('rename_consumer', 'name and new_name must be given');
    ELSIF name = new_name THEN
        PERFORM inbox.refuse('rename_consumer', format('consumer "%s" has this name already', name));
    ELSIF new_name !~ '^[a-z0-9._-]{0,63}$' THEN
        PERFORM inbox.refuse('rename_consumer', format('"%s" is no name of a consumer: lower-case letters, digits, ".", "_" and "-", '
            'at most 63 characters', new_name));
    END IF;
    PERFORM inbox.check_rename_over('rename_consumer', name);
    PERFORM inbox.check_rename_over('rename_consumer', new_name);
    SELECT r.new_name INTO other FROM inbox.inbox_renames r WHERE r.old_name = check_rename.name;
    IF FOUND THEN
        PERFORM inbox.refuse('rename_consumer', format('consumer "%s" was renamed to "%s"', name, other));
    END IF;
    SELECT r.new_name INTO other FROM inbox.inbox_renames r
    WHERE r.old_name = check_rename.new_name AND r.new_name <> check_rename.name;
    IF FOUND THEN
        PERFORM inbox.refuse('rename_consumer', format('"%s" is an earlier name of consumer "%s"; to use it again: '
            'inboxd consumers forget ''%s''', new_name, other, new_name));
    END IF;
    -- The view counts the waiting messages, too, so the table is asked first.
    IF NOT EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = check_rename.name)
       AND NOT EXISTS (SELECT FROM inbox.consumers c WHERE c.name = check_rename.name) THEN
        PERFORM inbox.refuse('rename_consumer', format('there is no consumer "%s"; there are: %s', name, coalesce(
            (SELECT string_agg(format('"%s"', c.name), ', ' ORDER BY c.name) FROM inbox.consumers c), 'none')));
    END IF;
    SELECT h.name INTO other FROM inbox.handlers h
    WHERE h.consumer = check_rename.new_name AND h.status <> 'lapsed' ORDER BY h.last_seen_at DESC LIMIT 1;
    IF FOUND THEN
        PERFORM inbox.refuse('rename_consumer', format('consumer "%1$s" has a handler of its own, "%2$s", which may be processing messages '
            'that "%3$s" has, too. Stop this handler, run inboxd handlers forget ''%2$s'' --consumer ''%1$s'', and rename again: of each '
            'event that both consumers have, one message stays. Under another name, both consumers would process these events',
            new_name, other, name));
    END IF;
END $$;

-- The name in all other tables. A known consumer stays known until a sidecar lists it under its new name, so no message is
-- missed. If the new name has an earlier row that no sidecar lists, this row is replaced, because it may have lapsed or may
-- lapse soon.
CREATE OR REPLACE FUNCTION inbox.rename_rest(name text, new_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM inbox.inbox_consumers c
    WHERE c.name = rename_rest.new_name AND c.listed_at <= clock_timestamp() - least(c.memory, '1 minute')
      AND EXISTS (SELECT FROM inbox.inbox_consumers o
                  WHERE o.name = rename_rest.name AND (o.listed_at > clock_timestamp() - o.memory OR o.name = ''));
    IF EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = rename_rest.new_name) THEN
        DELETE FROM inbox.inbox_consumers c WHERE c.name = rename_rest.name;
    ELSE
        UPDATE inbox.inbox_consumers c
        SET name = rename_rest.new_name,
            listed_at = CASE WHEN c.name = '' OR c.listed_at > clock_timestamp() - c.memory THEN 'infinity' ELSE c.listed_at END
        WHERE c.name = rename_rest.name;
    END IF;
    DELETE FROM inbox.inbox_handlers h
    WHERE h.consumer = rename_rest.new_name
      AND EXISTS (SELECT FROM inbox.inbox_handlers o WHERE o.consumer = rename_rest.name AND o.name = h.name);
    UPDATE inbox.inbox_handlers h SET consumer = rename_rest.new_name WHERE h.consumer = rename_rest.name;
    DELETE FROM inbox.inbox_pauses p
    WHERE p.kind = 'consumer' AND p.name = rename_rest.name
      AND EXISTS (SELECT FROM inbox.inbox_pauses o WHERE o.kind = 'consumer' AND o.name = rename_rest.new_name);
    UPDATE inbox.inbox_pauses p SET name = rename_rest.new_name WHERE p.kind = 'consumer' AND p.name = rename_rest.name;
    DELETE FROM inbox.inbox_renames r WHERE r.old_name = rename_rest.new_name;
    UPDATE inbox.inbox_renames r SET new_name = rename_rest.new_name WHERE r.new_name = rename_rest.name;
    INSERT INTO inbox.inbox_renames (old_name, new_name) VALUES (rename_rest.name, rename_rest.new_name);
END $$;

-- Begins a rename; rename_page() finishes it. Returns how many messages were not done; NULL = it had begun
-- already. If the function does not get one of its locks soon, it releases all its locks and tries again later. So no
-- partition waits for a message whose handler has not committed.
CREATE OR REPLACE FUNCTION inbox.rename_consumer(name text, new_name text, reason text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off SET lock_timeout = '50ms' AS $$
DECLARE
    wait_ms int := 50;
    give_up timestamptz := clock_timestamp() + interval '60 seconds';
    affected bigint;
BEGIN
    LOOP
        BEGIN
            LOCK TABLE inbox.inbox_renames IN SHARE ROW EXCLUSIVE MODE;
            IF EXISTS (SELECT FROM inbox.inbox_renames r
                       WHERE r.old_name = rename_consumer.name AND r.new_name = rename_consumer.new_name) THEN
                RETURN NULL;
            END IF;
            PERFORM inbox.check_rename(name, new_name);
            PERFORM FROM inbox.inbox_consumers c WHERE c.name IN (rename_consumer.name, rename_consumer.new_name)
            ORDER BY c.name FOR UPDATE;
            -- The whole table is locked, and not only its rows: this transaction does not see the row of a new partition
            -- that is not committed, so it could not raise its epoch. The sidecar reads the names after it has committed
            -- such a row.
            LOCK TABLE inbox.inbox_offsets IN SHARE ROW EXCLUSIVE MODE;
            UPDATE inbox.inbox_offsets o SET epoch = o.epoch + 1, updated_at = now();
            -- Without the messages of the new name that are not done, an event that waits under the new name, and is
            -- processed under the earlier one, could be delivered.
            affected := inbox.move_rows(ARRAY(
                SELECT o.seq FROM inbox.open_messages(rename_consumer.name) o(seq)
                UNION
                SELECT s.seq FROM inbox.open_messages(rename_consumer.new_name) o(seq)
                CROSS JOIN LATERAL (SELECT m.event_id, m.source FROM inbox.inbox_messages m WHERE m.seq = o.seq OFFSET 0) t
                CROSS JOIN LATERAL (SELECT m.seq FROM inbox.inbox_messages m
                                    WHERE m.event_id = t.event_id AND m.source = t.source AND m.consumer = rename_consumer.name OFFSET 0) s),
                name, new_name);
            PERFORM inbox.rename_rest(name, new_name);
            PERFORM inbox.audit('rename_consumer', jsonb_build_object('consumer', name, 'new_name', new_name), reason, affected);
            PERFORM pg_notify('inboxd_replay', '');
            RETURN affected;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF clock_timestamp() > give_up THEN
                RAISE EXCEPTION '%', format('inbox' || '.rename_consumer: consumer "%s" keeps its name: %s', name, SQLERRM)
                    USING ERRCODE = 'lock_not_available',
                          HINT = 'Another transaction holds a message of it, or a partition, for longer than a minute. Try again when it has ended.';
            END IF;
        END;
        PERFORM pg_sleep(random() * 2 * wait_ms / 1000);
        wait_ms := least(wait_ms * 2, 2000);
        PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
    END LOOP;
END $$;

-- Reads the next max_rows rows, and moves those that still have the earlier name of a renamed consumer. more: another page
-- follows; false = no row has the earlier name any more, and the rename has ended. Locked rows are left for another walk
-- over the table. The audit of the rename counts the moved rows, too.
CREATE OR REPLACE FUNCTION inbox.rename_page(name text, max_rows int, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off SET backend_flush_after = '256kB' AS $$
DECLARE
    rename inbox.inbox_renames;
    seqs bigint[];
    free bigint[];
    looked bigint;
BEGIN
    max_rows := inbox.check_max_rows('rename_page', max_rows);
    affected := 0;
    more := false;
    SELECT r.* INTO rename FROM inbox.inbox_renames r WHERE r.old_name = rename_page.name AND r.moved_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*), coalesce(max(p.seq), 0), coalesce(array_agg(p.seq) FILTER (WHERE p.consumer = rename_page.name), '{}')
    INTO looked, rename.walked_to, seqs
    FROM (SELECT m.seq, m.consumer FROM inbox.inbox_messages m
          WHERE m.seq > rename.walked_to ORDER BY m.seq LIMIT max_rows) p;
    free := ARRAY(SELECT m.seq FROM unnest(seqs) AS q(seq)
                  CROSS JOIN LATERAL (SELECT o.seq FROM inbox.inbox_messages o
                                      WHERE o.seq = q.seq AND CASE WHEN o.consumer = rename_page.name THEN true END
                                      FOR UPDATE SKIP LOCKED) m);
    affected := inbox.move_rows(free, name, rename.new_name);
    IF affected > 0 THEN
        UPDATE inbox.inbox_audit a SET affected = a.affected + rename_page.affected
        WHERE a.seq = (SELECT l.seq FROM (SELECT * FROM inbox.inbox_audit ORDER BY seq DESC LIMIT 100000) l
                       WHERE l.action = 'rename_consumer'
                         AND l.filter = jsonb_build_object('consumer', rename.old_name, 'new_name', rename.new_name)
                       ORDER BY l.seq DESC LIMIT 1);
    END IF;
    rename.skipped := rename.skipped OR cardinality(free) < cardinality(seqs);
    more := looked = max_rows OR rename.skipped;
    UPDATE inbox.inbox_renames r
    SET walked_to = CASE WHEN looked = max_rows THEN rename.walked_to ELSE 0 END,
        skipped = rename.skipped AND looked = max_rows,
        moved_at = CASE WHEN NOT more THEN clock_timestamp() END
    WHERE r.old_name = rename_page.name;
END $$;
