-- Oldest sidecar: 3
-- The outbox: events that the service emits in its own transactions, and that the relay publishes to Kafka.
--
-- The state is in each row and not in a position (rule O1). A row of which available_at, published_at and dead_at are
-- NULL is not published yet. No index has such rows except the primary key, so an event that is published at once costs one
-- INSERT into one index, and one DELETE.

-- No cache: with one, a session would store numbers that are lower than those of events committed before (rule O3).
CREATE SEQUENCE inbox.outbox_seq CACHE 1;

-- The default of seq gives the transaction its id first and then takes the number. So the xmin of a snapshot passes no
-- transaction that has a number and no id, and the relay knows when nobody can commit a missing seq any more (rule O1).
CREATE TABLE inbox.outbox (
    seq             bigint PRIMARY KEY DEFAULT
                        (CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('inbox.outbox_seq') END),
    event_id        text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    source          text COLLATE "C",
    topic           text COLLATE "C",
    aggregate       text COLLATE "C",
    key             bytea,
    event_type      text COLLATE "C" NOT NULL,
    subject         text COLLATE "C",
    content_type    text COLLATE "C",
    format          text COLLATE "C",
    headers         jsonb NOT NULL DEFAULT '[]',
    payload         bytea,
    caused_by       bigint,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    available_at    timestamptz,
    retry_count     int NOT NULL DEFAULT 0,
    error           text,
    error_code      text,
    published_at    timestamptz,
    kafka_partition int,
    kafka_offset    bigint,
    dead_at         timestamptz,
    CONSTRAINT outbox_one_state CHECK (num_nonnulls(available_at, published_at, dead_at) <= 1)
);
ALTER SEQUENCE inbox.outbox_seq OWNED BY inbox.outbox.seq;

-- Deferred events: those that are due again, and then those that are parked, in the order of seq.
CREATE INDEX outbox_waiting ON inbox.outbox (available_at, seq) WHERE available_at IS NOT NULL;
CREATE INDEX outbox_dead ON inbox.outbox (dead_at, seq) WHERE dead_at IS NOT NULL;

CREATE TABLE inbox.outbox_relay (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    floor    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO inbox.outbox_relay DEFAULT VALUES;
