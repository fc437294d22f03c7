-- Oldest sidecar: 3
-- The relay stores how far it has read. An earlier inboxd stores the floor alone; then the other columns do not count.

ALTER TABLE inbox.outbox_relay
    ADD COLUMN tip bigint,
    ADD COLUMN hole_first bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN hole_last bigint[] NOT NULL DEFAULT '{}';

COMMENT ON COLUMN inbox.outbox_relay.floor IS
    'All events up to this seq were published, or are deferred. It is a hint that saves the relay from reading dead index
    entries; an event below it is found, too';
COMMENT ON COLUMN inbox.outbox_relay.tip IS
    'Where reading begins: all events up to this seq were published, or are deferred, except those in holes; NULL = the floor';
COMMENT ON COLUMN inbox.outbox_relay.hole_first IS
    'The holes, ascending: ranges of seqs up to the tip whose events may not be committed yet. Tip and holes count only if the floor
    is the seq before the first hole, or the tip without a hole';
COMMENT ON COLUMN inbox.outbox_relay.hole_last IS 'The last seq of each hole';
