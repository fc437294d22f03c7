-- Oldest sidecar: 3
-- The relay stores how far it has read. An earlier inboxd stores the floor alone; then the other columns do not count.

ALTER TABLE inbox.outbox_relay
    ADD COLUMN tip bigint,
    ADD COLUMN hole_first bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN hole_last bigint[] NOT NULL DEFAULT '{}';
