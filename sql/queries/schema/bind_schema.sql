-- Binds this schema to a Kafka cluster and group at the first run, and returns the binding.
-- Caller: store/schema/binding.c, at start. Index: inbox_binding_pkey.
-- $1 cluster id, $2 group id.
WITH bound AS (
    INSERT INTO inbox.inbox_binding (cluster_id, group_id) VALUES ($1::text, $2::text)
    ON CONFLICT (only_row) DO NOTHING
    RETURNING cluster_id, group_id
)
SELECT cluster_id, group_id FROM bound
UNION ALL
SELECT cluster_id, group_id FROM inbox.inbox_binding
LIMIT 1
