-- Oldest sidecar: 3
-- The request with a key in whose transaction an event was emitted, so that an operator can follow it.

ALTER TABLE inbox.outbox ADD COLUMN request_scope text COLLATE "C", ADD COLUMN request_key text COLLATE "C";

COMMENT ON COLUMN inbox.outbox.request_key IS
    'The key of the request whose program emitted it; NULL = none that is known. request_scope is the scope of the key';
