-- Oldest sidecar: 1
-- The tables and indexes of the inbox. What is in functions/ is applied behind the last migration.
--
-- `inboxd migrate` applies each migration in one transaction. The schema is written `inbox` here and replaced by the
-- configured name. Why the indexes of messages are as they are: docs/adr/0003, 0017 and 0018.

CREATE TABLE inbox.inbox_schema_version (
    version        int PRIMARY KEY,
    applied_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    oldest_sidecar int NOT NULL
);

COMMENT ON TABLE inbox.inbox_schema_version IS 'One row a migration. The schema has the highest version.';
COMMENT ON COLUMN inbox.inbox_schema_version.oldest_sidecar IS
    'The schema can be used by every inboxd whose own newest migration has this number or a higher one (docs/adr/0020)';

-- `consumer` is reserved for several consumers of one message, each with a row of its own. It comes last in the primary
-- key: docs/adr/0021 says why. Other tables need none: a reject
-- is no message of any consumer, a conflict is about the record, and a watermark covers all consumers.
CREATE TABLE inbox.inbox_messages (
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    consumer        text COLLATE "C" NOT NULL DEFAULT '',
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
    dead_topic_at   timestamptz,
    handler         text,
    CONSTRAINT inbox_messages_pkey PRIMARY KEY (event_id, source, consumer),
    CONSTRAINT inbox_messages_seq_key UNIQUE (seq),
    CONSTRAINT inbox_messages_one_state CHECK (num_nonnulls(available_at, processed_at, dead_at) <= 1),
    CONSTRAINT inbox_messages_unclaimed CHECK (available_at IS NULL OR claimed_by IS NULL)
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_messages IS
    'Every message once. Waiting exactly while available_at is set; done when processed_at is; given up when dead_at is; claimed otherwise.';
COMMENT ON COLUMN inbox.inbox_messages.consumer IS
    'Reserved for several consumers of one message, always empty';
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
COMMENT ON COLUMN inbox.inbox_messages.dead_topic_at IS
    'The dead_at for which it was produced to the dead topic; another value, or NULL: not for this death';
COMMENT ON COLUMN inbox.inbox_messages.handler IS
    'The handler that processed the message, or gave the verdict after which it was dead; NULL = neither, or nobody did';

-- No index and no index predicate mentions a column that a successful completion changes (processed_at, result,
-- handler): a completion is a HOT update and touches no index.
--
-- The predicates of three indexes of what waits differ in a condition that every row meets, and a statement repeats the
-- condition of the index that it is meant for. Without it, statistics from a time when nothing waited tell the planner
-- that each of the indexes is as good as the others, and with the wrong one it reads everything that waits.

-- Claims: the due messages of a partition, the oldest first.
CREATE INDEX inbox_messages_claim ON inbox.inbox_messages
    (topic, kafka_partition, available_at, seq) WHERE available_at > '-infinity';
-- Order by key: the waiting messages of a key. Eight bytes of the key's hash, not the key.
CREATE INDEX inbox_messages_key ON inbox.inbox_messages
    (topic, kafka_partition, substr(sha256(key), 1, 8), kafka_offset) WHERE available_at IS NOT NULL AND seq > 0;
-- Order by partition: the waiting messages of a partition.
CREATE INDEX inbox_messages_position ON inbox.inbox_messages
    (topic, kafka_partition, kafka_offset) WHERE available_at IS NOT NULL AND kafka_offset >= 0;
-- Rows claimed from the table, for rescue: those that an instance may still hold have a claim_number from its low_claim
-- on. Rows born claimed are found by seq >= low_seq.
CREATE INDEX inbox_messages_claimed ON inbox.inbox_messages
    (claimed_by, claim_number) WHERE delivery_count > 1;
-- Dead messages.
CREATE INDEX inbox_messages_dead ON inbox.inbox_messages
    (dead_at, seq) WHERE dead_at IS NOT NULL;
-- Messages that died in a delivery and were not produced to the dead topic. A message that was discarded by hand has no
-- claimed_by: that is no failure to report. NULLS FIRST although there are none: no other index has this order, so the
-- planner takes no other one.
CREATE INDEX inbox_messages_dead_topic ON inbox.inbox_messages (dead_at NULLS FIRST, seq)
    WHERE dead_at IS NOT NULL AND claimed_by IS NOT NULL AND dead_topic_at IS DISTINCT FROM dead_at;
-- Messages that wait or are dead, by state and seq: pages that operators read. 1 is dead, 2 parked, 3 retrying,
-- 4 waiting. No other index has this order (seq + 0 is seq), so the planner takes no other one, whatever statistics say.
-- And it takes this one for no other statement, because only statements that are meant for it say that retry_count is
-- not negative.
CREATE INDEX inbox_messages_state ON inbox.inbox_messages
    ((CASE WHEN dead_at IS NOT NULL THEN 1 WHEN available_at = 'infinity' THEN 2 WHEN retry_count > 0 THEN 3 ELSE 4 END),
     (seq + 0)) WHERE (dead_at IS NOT NULL OR available_at IS NOT NULL) AND retry_count >= 0;

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
    last_digest     bytea,
    PRIMARY KEY (topic, kafka_partition)
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_offsets IS
    'The watermark of each partition: everything below next_offset is in this schema. Moved in the transaction that stores the messages, by compare-and-set on (owner, epoch, next_offset).';
COMMENT ON COLUMN inbox.inbox_offsets.last_digest IS
    'Eight bytes of the offset it belongs to, and the digest of the record there: key, value and headers. NULL, or of another offset than last_offset: not known';

CREATE TABLE inbox.inbox_instances (
    id            int PRIMARY KEY,
    name          text NOT NULL,
    host_id       text,
    timeline      text NOT NULL DEFAULT left(pg_walfile_name(pg_current_wal_lsn()), 8),
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    fenced_at     timestamptz,
    stopped_at    timestamptz,
    low_seq       bigint NOT NULL,
    low_claim     bigint NOT NULL DEFAULT 1,
    handlers      jsonb NOT NULL DEFAULT '[]',
    lacking_since timestamptz,
    away_at       timestamptz,
    rescued_at    timestamptz,
    stragglers    bigint[] NOT NULL DEFAULT '{}',
    low_rest      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_instances IS
    'One row a running sidecar: its lease. id is random, never from a sequence. low_seq is a lower bound of every born-claimed row it may hold, low_claim of the claim_number of every other.';
COMMENT ON COLUMN inbox.inbox_instances.timeline IS
    'PostgreSQL''s timeline when it registered: after a failover it is another one, and the lease is over';
COMMENT ON COLUMN inbox.inbox_instances.away_at IS
    'Left the consumer group, because it lacks a handler (since lacking_since) that another instance has';
COMMENT ON COLUMN inbox.inbox_instances.host_id IS
    'Host and lock file of its socket: an instance that holds that lock knows that an earlier instance with the same host_id has ended';
COMMENT ON COLUMN inbox.inbox_instances.stragglers IS
    'The oldest rows it was born holding that are still open, some tens at most';
COMMENT ON COLUMN inbox.inbox_instances.low_rest IS
    'A lower bound of every born-claimed row it may hold but the stragglers; 0 = low_seq is one';

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
-- A record's coordinates. NULL timestamps count as equal, so that a record that is read again is not kept twice.
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

-- No index knows when a message was processed, so retention walks messages by seq, which rises with received_at, and
-- remembers here how far it got.
CREATE TABLE inbox.inbox_janitor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    walks    jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
INSERT INTO inbox.inbox_janitor DEFAULT VALUES;

COMMENT ON TABLE inbox.inbox_janitor IS
    'One row: the instance that does the work of retention, and how far it got. Delete it, or empty walks, to begin anew.';
COMMENT ON COLUMN inbox.inbox_janitor.walks IS
    'For each walk over the messages: front = first walked to here; again = what was skipped then is looked at again up to here; rested_at = since when that is done. Of a walk over dead ones: the last row looked at';

CREATE TABLE inbox.inbox_dead_topic (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_dead_topic IS
    'One row: the instance that produces to the dead topic; NULL = nobody just now. Made when there is something to produce.';

CREATE TABLE inbox.inbox_handlers (
    name          text COLLATE "C" PRIMARY KEY,
    subscriptions jsonb NOT NULL CHECK (jsonb_typeof(subscriptions) = 'array'),
    memory        interval NOT NULL,
    known_since   timestamptz NOT NULL,
    connected_at  timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_handlers IS
    'The handlers that connected to any sidecar of this schema, as their newest hello described them. inbox.forget_handler() ends the memory of one.';
COMMENT ON COLUMN inbox.inbox_handlers.subscriptions IS 'As in the hello: [{"topic": "orders", "types": ["order.*"]}]';
COMMENT ON COLUMN inbox.inbox_handlers.memory IS
    'inbox.handler_memory, as a sidecar said it last: the messages of the handler wait for it so long after last_seen_at';
COMMENT ON COLUMN inbox.inbox_handlers.connected_at IS 'The newest hello';
