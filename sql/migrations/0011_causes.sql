-- Oldest sidecar: 3
-- The request with a key in whose transaction an event was emitted, so that an operator can follow it.

ALTER TABLE inbox.outbox ADD COLUMN request_scope text COLLATE "C", ADD COLUMN request_key text COLLATE "C";
