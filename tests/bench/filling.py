"""Rows that exist before a run, as wide as those of the run, like after weeks of work."""

# As floor_rows.c makes them. `number` counts from 1; offsets lie before all that a topic holds.
_ROWS = """
INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,
    kafka_timestamp, key, headers, payload, payload_digest, received_at, available_at, claimed_by,
    delivery_count, retry_count, error, error_code, processed_at, dead_at)
SELECT 'before', gen_random_uuid()::text, 'order.created', %(topic)s, {partition},
    number - %(count)s::bigint - 1, {at}, {key},
    '[["id", "0123abcd-4567-89ef-0123-456789abcdef"], ["eventType", "order.created"]]',
    convert_to('{{"order":' || number || ',"customer":"c-1234","note":"' || repeat('n', 350) || '"}}', 'UTF8'),
    decode(md5(number::text), 'hex'), {at}, {available_at}, {claimed_by}, {delivery_count},
    {retry_count}, {error}, {error_code}, {processed_at}, {dead_at}
FROM generate_series(1, %(count)s::bigint) AS number
"""
_DEFAULT = {"partition": "number %% 4", "key": "convert_to('b-' || number %% 10000, 'UTF8')",
            "at": "now() - interval '1 hour'", "available_at": "NULL", "claimed_by": "NULL",
            "delivery_count": "1", "retry_count": "0", "error": "NULL", "error_code": "NULL",
            "processed_at": "NULL", "dead_at": "NULL"}
_FAILED = {"retry_count": "1", "error": "'upstream 503'", "error_code": "'UPSTREAM'"}

PROCESSED = {"claimed_by": "1", "processed_at": "now() - interval '1 hour'"}
EXPIRED = {"at": "now() - interval '20 days'", "claimed_by": "1",
           "processed_at": "now() - interval '20 days'"}
DEAD = {**_FAILED, "dead_at": "now() - interval '1 hour'"}
WAITING = {**_FAILED, "available_at": "now() + interval '1 hour'"}
# The first one waits for its retry, all others behind it.
BLOCKED = {**_FAILED, "partition": "0", "key": "'blocked'::bytea",
           "available_at": "CASE WHEN number = 1 THEN now() + interval '1 hour' ELSE 'infinity' END"}

# Building them once is faster than keeping them up to date row by row.
_INDEXES = [("inbox_messages_pkey", "PRIMARY KEY (event_id, source, consumer)"),
            ("inbox_messages_seq_key", "UNIQUE (seq)")]
_MANY = 1_000_000


def fill(connection, topic, count, kind):
    connection.execute("SET maintenance_work_mem = '1GB'")
    rows = _ROWS.format(**{**_DEFAULT, **kind})
    if count >= _MANY:
        for name, _ in _INDEXES:
            connection.execute(f"ALTER TABLE inbox.inbox_messages DROP CONSTRAINT {name}")
    connection.execute(rows, {"topic": topic, "count": count})
    if count >= _MANY:
        for name, definition in _INDEXES:
            connection.execute(f"ALTER TABLE inbox.inbox_messages ADD CONSTRAINT {name} {definition}")
    connection.execute("VACUUM (ANALYZE) inbox.inbox_messages")
