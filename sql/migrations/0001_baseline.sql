-- Oldest sidecar: 1
-- The tables and indexes of the inbox. The files of functions/ are applied after the last migration.
--
-- `inboxd migrate` applies each migration in one transaction. The schema is written `inbox` here and replaced by the
-- configured name. docs/adr/0003, 0017 and 0018 explain the indexes of messages.

CREATE TABLE inbox.inbox_schema_version (
    version        int PRIMARY KEY,
    applied_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    oldest_sidecar int NOT NULL
);

-- `consumer` is reserved for several consumers of one message, each with its own row. It comes last in the primary key:
-- docs/adr/0021 says why. Other tables do not need it: a reject is not a message of any consumer, a conflict concerns
-- the record, and a watermark covers all consumers.
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

-- No index and no index predicate uses a column that a successful completion changes (processed_at, result, handler),
-- so a completion is a HOT update and changes no index.
--
-- The predicates of the three indexes of waiting rows differ in a condition that is true for every row. Each statement
-- contains the condition of its index. Otherwise, with statistics from a time when no row waited, the planner would
-- consider the indexes equal; with a wrong one it reads all waiting rows.

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
-- Messages that died in a delivery and were not produced to the dead topic. A message that an operator discarded has no
-- claimed_by and is not reported. NULLS FIRST although there are no NULLs: no other index has this order, so the
-- planner uses no other one.
CREATE INDEX inbox_messages_dead_topic ON inbox.inbox_messages (dead_at NULLS FIRST, seq)
    WHERE dead_at IS NOT NULL AND claimed_by IS NOT NULL AND dead_topic_at IS DISTINCT FROM dead_at;
-- Messages that wait or are dead, by state and seq: pages that operators read. 1 is dead, 2 parked, 3 retrying,
-- 4 waiting. No other index has this order (seq + 0 is seq), so the planner uses no other one, with any statistics. It
-- uses this index for no other statement, because only statements for this index contain the condition on retry_count.
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

-- No index has the time of processing, so retention walks along seq, which rises with received_at, and stores its
-- position here.
CREATE TABLE inbox.inbox_janitor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    walks    jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
INSERT INTO inbox.inbox_janitor DEFAULT VALUES;

CREATE TABLE inbox.inbox_dead_topic (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE inbox.inbox_handlers (
    name          text COLLATE "C" PRIMARY KEY,
    subscriptions jsonb NOT NULL CHECK (jsonb_typeof(subscriptions) = 'array'),
    memory        interval NOT NULL,
    known_since   timestamptz NOT NULL,
    connected_at  timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL
) WITH (fillfactor = 50);
