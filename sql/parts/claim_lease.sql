-- Begins each statement that claims: locks the row of the own lease (rule R4), so that a fenced instance claims
-- nothing.
WITH lease AS MATERIALIZED (
    SELECT id FROM inbox.inbox_instances
    -- include: lease
    FOR KEY SHARE SKIP LOCKED
