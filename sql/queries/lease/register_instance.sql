-- Gives this sidecar its row, its lease and the secret of its claims.
-- Caller: store/leases/instance.c, once a start, with a random id. Index: inbox_instances_pkey, inbox_claim_secrets_pkey.
-- $1 id, $2 name, $3 host_id, $4 group_instance_id. Back: low_seq, the secret. No row back: the id is taken, draw another one.
-- The secret does not come from RETURNING, because a sidecar may not read its table.
WITH drawn AS MATERIALIZED (
    SELECT uuid_send(gen_random_uuid()) AS secret
), own AS (
    INSERT INTO inbox.inbox_instances (id, name, host_id, group_instance_id, low_seq)
    SELECT $1::int, $2::text, $3::text, $4::text,
           coalesce(pg_sequence_last_value(pg_get_serial_sequence('inbox.inbox_messages', 'seq')::regclass), 0) + 1
    ON CONFLICT (id) DO NOTHING
    RETURNING id, low_seq
), kept AS (
    INSERT INTO inbox.inbox_claim_secrets (instance, secret) SELECT own.id, drawn.secret FROM own, drawn
)
SELECT own.low_seq, drawn.secret FROM own, drawn
