-- Oldest sidecar: 2
-- Several consumers of one message: each has a row of its own.

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

-- A name of a handler stands for itself within a consumer.
ALTER TABLE inbox.inbox_handlers ADD COLUMN consumer text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE inbox.inbox_handlers DROP CONSTRAINT inbox_handlers_pkey;
ALTER TABLE inbox.inbox_handlers ADD CONSTRAINT inbox_handlers_pkey PRIMARY KEY (name, consumer);
