-- Oldest sidecar: 2
-- Several consumers of one message: each has a row of its own.

COMMENT ON TABLE inbox.inbox_messages IS
    'Every message, once for each consumer that wants it. A row is waiting while available_at is set, processed if
    processed_at is set, dead if dead_at is set, and claimed otherwise.';
COMMENT ON COLUMN inbox.inbox_messages.consumer IS
    'The consumer for which the message is stored; empty = the consumer without a name';

CREATE TABLE inbox.inbox_consumers (
    name           text COLLATE "C" PRIMARY KEY,
    topics         jsonb CHECK (jsonb_typeof(topics) = 'array'),
    types          jsonb CHECK (jsonb_typeof(types) = 'array'),
    ordering       text NOT NULL CHECK (ordering IN ('none', 'key', 'partition')),
    memory         interval NOT NULL,
    known_since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    defined_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    listed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    backfill_until timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_consumers IS
    'The known consumers: every sidecar stores messages for all of them. inbox.forget_consumer() forgets one.';
COMMENT ON COLUMN inbox.inbox_consumers.name IS 'Empty = the consumer without a name';
COMMENT ON COLUMN inbox.inbox_consumers.topics IS 'The topics it wants, ^ begins a regular expression; NULL = all';
COMMENT ON COLUMN inbox.inbox_consumers.types IS 'The event types it wants, * ends a prefix; NULL = all';
COMMENT ON COLUMN inbox.inbox_consumers.memory IS
    'How long it is known after listed_at: inbox.handler_memory and worker.lease of the sidecar that listed it last';
COMMENT ON COLUMN inbox.inbox_consumers.defined_at IS
    'When a sidecar with this definition registered; the newest registration decides';
COMMENT ON COLUMN inbox.inbox_consumers.listed_at IS 'The newest heartbeat of a sidecar that lists it';
COMMENT ON COLUMN inbox.inbox_consumers.backfill_until IS
    'Until this time no sidecar counts a stream of the consumer as clean: inbox.backfill() may add messages';

-- A name of a handler stands for itself within a consumer.
ALTER TABLE inbox.inbox_handlers ADD COLUMN consumer text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE inbox.inbox_handlers DROP CONSTRAINT inbox_handlers_pkey;
ALTER TABLE inbox.inbox_handlers ADD CONSTRAINT inbox_handlers_pkey PRIMARY KEY (name, consumer);
