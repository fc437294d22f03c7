-- The oldest open rows of an instance by name, so that one message that stays open does not hold its lower bound back.
--
-- low_seq keeps its meaning: sidecars of an earlier version read nothing else, and miss nothing.

ALTER TABLE inbox.inbox_instances
    ADD COLUMN stragglers bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN low_rest bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN inbox.inbox_instances.stragglers IS
    'The oldest rows it was born holding that are still open, some tens at most';
COMMENT ON COLUMN inbox.inbox_instances.low_rest IS
    'A lower bound of every born-claimed row it may hold but the stragglers; 0 = low_seq is one';
