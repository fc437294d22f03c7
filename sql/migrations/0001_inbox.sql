-- The inbox: one table of messages, and what keeps many sidecars honest about it.
--
-- Applied by `inboxd migrate` in one transaction. The schema is written `inbox` here and replaced by
-- the configured name. Why the indexes are as they are: docs/adr/0003-completion-is-a-hot-update.md.

CREATE TABLE inbox.inbox_messages (
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    source          text COLLATE "C" NOT NULL,
    event_id        text COLLATE "C" NOT NULL,
    event_type      text COLLATE "C",
    topic           text COLLATE "C" NOT NULL,
    kafka_partition int NOT NULL,
    kafka_offset    bigint NOT NULL,
    kafka_timestamp timestamptz,
    key             bytea,
    headers         jsonb NOT NULL DEFAULT '[]',
    payload         bytea,
    payload_digest  bytea,
    received_at     timestamptz NOT NULL DEFAULT now(),
    available_at    timestamptz,
    claimed_by      int,
    claim_number    bigint,
    delivery_count  int NOT NULL DEFAULT 0,
    retry_count     int NOT NULL DEFAULT 0,
    crash_count     int NOT NULL DEFAULT 0,
    replay_count    int NOT NULL DEFAULT 0,
    rescue_count    int NOT NULL DEFAULT 0,
    suspect         boolean NOT NULL DEFAULT false,
    error           text,
    error_code      text,
    result          jsonb,
    processed_at    timestamptz,
    dead_at         timestamptz,
    attempts        jsonb,
    CONSTRAINT inbox_messages_pkey PRIMARY KEY (event_id, source),
    CONSTRAINT inbox_messages_seq_key UNIQUE (seq),
    CONSTRAINT inbox_messages_one_state CHECK (num_nonnulls(available_at, processed_at, dead_at) <= 1),
    CONSTRAINT inbox_messages_unclaimed CHECK (available_at IS NULL OR claimed_by IS NULL)
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_messages IS
    'Every message once. Waiting exactly while available_at is set; done when processed_at is; given up when dead_at is; claimed otherwise.';
COMMENT ON COLUMN inbox.inbox_messages.available_at IS
    'When it may be claimed; infinity = parked behind an earlier message of its key, or nobody here wants it';
COMMENT ON COLUMN inbox.inbox_messages.claimed_by IS 'The inbox_instances.id that holds or completed it';
COMMENT ON COLUMN inbox.inbox_messages.claim_number IS
    'Which claim of its instance took it from the table; NULL = it was born claimed, or never claimed';
COMMENT ON COLUMN inbox.inbox_messages.delivery_count IS
    'Number of the claim, never falling: with claimed_by the fencing token of every settle';
COMMENT ON COLUMN inbox.inbox_messages.rescue_count IS
    'How often it was given back because its sidecar died';
COMMENT ON COLUMN inbox.inbox_messages.suspect IS
    'Was open on a connection that was lost: the next delivery is alone on its connection';

COMMENT ON COLUMN inbox.inbox_messages.attempts IS
    'What it went through: the last ten failed attempts and the last ten replays; NULL = nothing failed yet';

-- No index and no index predicate below mentions a column that a successful completion changes
-- (processed_at, result): completing a message is a HOT update and touches no index.

-- Claims: what is due, oldest first.
CREATE INDEX inbox_messages_claim ON inbox.inbox_messages
    (topic, kafka_partition, available_at, seq) WHERE available_at IS NOT NULL;
-- Order by key: who waits before whom. Eight bytes of the hash, not the key.
CREATE INDEX inbox_messages_key ON inbox.inbox_messages
    (topic, kafka_partition, substr(sha256(key), 1, 8), kafka_offset) WHERE available_at IS NOT NULL;
-- Order by partition.
CREATE INDEX inbox_messages_position ON inbox.inbox_messages
    (topic, kafka_partition, kafka_offset) WHERE available_at IS NOT NULL;
-- Rows claimed from the table, for rescue: those an instance may still hold have a claim_number from its
-- low_claim on. Rows born claimed are found by seq >= low_seq.
CREATE INDEX inbox_messages_claimed ON inbox.inbox_messages
    (claimed_by, claim_number) WHERE delivery_count > 1;
-- What was given up.
CREATE INDEX inbox_messages_dead ON inbox.inbox_messages
    (dead_at, seq) WHERE dead_at IS NOT NULL;

CREATE TABLE inbox.inbox_offsets (
    topic           text COLLATE "C" NOT NULL,
    kafka_partition int NOT NULL,
    next_offset     bigint,
    owner           int,
    epoch           bigint NOT NULL DEFAULT 1,
    ordering        text NOT NULL CHECK (ordering IN ('none', 'key', 'partition')),
    last_offset     bigint,
    last_timestamp  timestamptz,
    forced          boolean NOT NULL DEFAULT false,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, kafka_partition)
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_offsets IS
    'The watermark of each partition: everything below next_offset is in this schema. Moved in the transaction that stores the messages, by compare-and-set on (owner, epoch, next_offset).';

CREATE TABLE inbox.inbox_instances (
    id           int PRIMARY KEY,
    name         text NOT NULL,
    place        text,
    timeline     text NOT NULL DEFAULT left(pg_walfile_name(pg_current_wal_lsn()), 8),
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fenced_at    timestamptz,
    stopped_at   timestamptz,
    low_seq      bigint NOT NULL,
    low_claim    bigint NOT NULL DEFAULT 1,
    handlers     jsonb NOT NULL DEFAULT '[]',
    lacking_since timestamptz,
    away_at      timestamptz,
    rescued_at   timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_instances IS
    'One row a running sidecar: its lease. id is random, never from a sequence. low_seq is a lower bound of every born-claimed row it may hold, low_claim of the claim_number of every other.';
COMMENT ON COLUMN inbox.inbox_instances.timeline IS
    'PostgreSQL''s timeline when it registered: after a failover it is another one, and the lease is over';
COMMENT ON COLUMN inbox.inbox_instances.away_at IS
    'Left the consumer group, because it lacks a handler (since lacking_since) that another instance has';
COMMENT ON COLUMN inbox.inbox_instances.place IS
    'Host and lock file of its socket: whoever holds that lock knows that an earlier instance of the place is gone';

CREATE TABLE inbox.inbox_rejects (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic           text COLLATE "C" NOT NULL,
    kafka_partition int NOT NULL,
    kafka_offset    bigint NOT NULL,
    kafka_timestamp timestamptz,
    key             bytea,
    headers         jsonb NOT NULL DEFAULT '[]',
    payload         bytea,
    reason          text NOT NULL,
    received_at     timestamptz NOT NULL DEFAULT now()
);
-- A record's coordinates. NULL timestamps count as equal, so that a re-read record is not kept twice.
CREATE UNIQUE INDEX inbox_rejects_coordinates ON inbox.inbox_rejects
    (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)));

CREATE TABLE inbox.inbox_conflicts (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source          text COLLATE "C" NOT NULL,
    event_id        text COLLATE "C" NOT NULL,
    topic           text COLLATE "C" NOT NULL,
    kafka_partition int NOT NULL,
    kafka_offset    bigint NOT NULL,
    kafka_timestamp timestamptz,
    key             bytea,
    headers         jsonb NOT NULL DEFAULT '[]',
    payload         bytea,
    payload_digest  bytea,
    received_at     timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX inbox_conflicts_coordinates ON inbox.inbox_conflicts
    (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)));

CREATE TABLE inbox.inbox_audit (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    who      text NOT NULL DEFAULT session_user,
    action   text NOT NULL,
    filter   jsonb,
    reason   text,
    affected bigint
);

-- The Kafka cluster and group this schema belongs to; at most one row.
CREATE TABLE inbox.inbox_binding (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id text NOT NULL,
    group_id   text NOT NULL,
    bound_at   timestamptz NOT NULL DEFAULT now()
);

-- Both functions catch errors, which starts a subtransaction: never in a parallel plan.

-- Bytes as text, or NULL where they are not UTF-8 or hold NUL.
CREATE FUNCTION inbox.try_text(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Bytes as JSON, or NULL where they are not JSON that jsonb can hold.
CREATE FUNCTION inbox.try_json(bytes bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

CREATE VIEW inbox.messages AS
SELECT m.*,
       CASE WHEN m.processed_at IS NOT NULL THEN 'processed'
            WHEN m.dead_at IS NOT NULL THEN 'dead'
            WHEN m.available_at = 'infinity' THEN 'parked'
            WHEN m.available_at IS NOT NULL AND m.retry_count > 0 THEN 'retrying'
            WHEN m.available_at IS NOT NULL THEN 'waiting'
            ELSE 'claimed' END AS status,
       inbox.try_text(m.payload) AS payload_text,
       inbox.try_json(m.payload) AS payload_json
FROM inbox.inbox_messages m;

-- The rows a dead instance held are found by its low_seq and low_claim. Without its row nobody would ever look
-- for them: so who deletes one that is not rescued fences it instead. When it is rescued, it can go.
CREATE FUNCTION inbox.keep_unrescued() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE inbox.inbox_instances SET fenced_at = coalesce(fenced_at, clock_timestamp()) WHERE id = OLD.id;
    UPDATE inbox.inbox_offsets SET owner = NULL, epoch = epoch + 1, updated_at = now() WHERE owner = OLD.id;
    RAISE NOTICE 'instance % is fenced, not deleted: a sidecar gives back what it held first', OLD.id
        USING HINT = 'Delete it once rescued_at is set.';
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION inbox.keep_unrescued() FROM PUBLIC;

CREATE TRIGGER keep_unrescued
BEFORE DELETE ON inbox.inbox_instances
FOR EACH ROW WHEN (OLD.rescued_at IS NULL)
EXECUTE FUNCTION inbox.keep_unrescued();

-- Who may: the owner, and whoever is granted EXECUTE (a claim is no secret to readers of the table).
-- Completes a message inside the handler's own transaction: its effects and this commit together or
-- not at all. The claim is the one of the delivery, 'seq.delivery_count.instance'.
-- IB001: the claim is lost, roll back. IB002: that is not a claim.
CREATE FUNCTION inbox.complete(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part numeric[] := regexp_match(claim, '^([0-9]{1,19})\.([0-9]{1,10})\.([0-9]{1,10})$')::numeric[];
BEGIN
    IF part IS NULL OR part[1] > 9223372036854775807
       OR part[2] > 2147483647 OR part[3] > 2147483647 THEN
        RAISE EXCEPTION 'inbox.complete: % is not a claim', coalesce(quote_literal(left(claim, 80)), 'NULL')
            USING ERRCODE = 'IB002',
                  HINT = 'Pass the text in params.delivery.claim of the delivery, unchanged.';
    END IF;
    UPDATE inbox.inbox_messages m
    SET processed_at = now(),
        result = complete.result,
        crash_count = greatest(m.crash_count - m.suspect::int, 0),
        suspect = false
    WHERE m.seq = part[1]::bigint AND m.delivery_count = part[2]::int AND m.claimed_by = part[3]::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'inbox.complete: claim % is lost', claim
            USING ERRCODE = 'IB001',
                  DETAIL = 'The message was completed already, timed out, or belongs to another delivery now.',
                  HINT = 'Roll back: the effects of this transaction belong to whoever holds the claim.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION inbox.complete(text, jsonb) FROM PUBLIC;
