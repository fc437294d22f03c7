-- Gives this sidecar its row and lease.
-- Caller: store/leases/instance.c, once a start, with a random id. Index: inbox_instances_pkey.
-- $1 id, $2 name, $3 host_id. No row back: the id is taken, draw another.
INSERT INTO inbox.inbox_instances (id, name, host_id, low_seq)
SELECT $1::int, $2::text, $3::text,
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('inbox.inbox_messages', 'seq')::regclass), 0) + 1
ON CONFLICT (id) DO NOTHING
RETURNING low_seq
