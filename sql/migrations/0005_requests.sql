-- Oldest sidecar: 3
-- Requests that may be sent twice: the key of each one, its state, and the response that is stored for its copies.
--
-- Without a lease a request has one row, which request_complete() inserts in the transaction of the effects (rule I1,
-- docs/adr/0032). A leased request has its row from request_begin() on (rule I4).

-- fillfactor: the completion of a leased request finds room on its page and is a HOT update.
CREATE TABLE inbox.requests (
    scope        text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    operation    text NOT NULL DEFAULT '',
    fingerprint  bytea,
    holder       bigint NOT NULL,
    attempt      int NOT NULL DEFAULT 1,
    locked_until timestamptz,
    point        text,
    failed_at    timestamptz,
    error        text,
    completed_at timestamptz,
    status       smallint,
    headers      jsonb,
    body         bytea,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (key, scope),
    CONSTRAINT requests_one_state CHECK (num_nonnulls(locked_until, failed_at, completed_at) = 1)
) WITH (fillfactor = 80);

CREATE INDEX requests_expires ON inbox.requests (expires_at);

-- Leased requests, which are counted by state. A completion does not change these columns. The janitor sets the holder
-- of completed ones to 0 later, so that the index keeps only those that are pending or failed.
CREATE INDEX requests_leased ON inbox.requests (expires_at) WHERE holder <> 0;
