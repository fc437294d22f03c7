-- A message as cells: section, name, value. Empty values are left out. conflicts: the last five of the 100,000 last ones.
-- Caller: ops/show.c. Index: inbox_messages_seq_key, inbox_conflicts_pkey, and those of inbox.waits_behind().
-- $1 seq.
WITH m AS MATERIALIZED (
    SELECT v.*, inbox.try_text(v.key) AS key_text, inbox.waits_behind(v.seq) AS behind,
           CASE WHEN v.available_at IS NOT NULL THEN inbox.handler_of(v.topic, v.event_type, v.consumer) END AS wanted_by
    FROM inbox.messages v WHERE v.seq = $1::bigint
), wait AS MATERIALIZED (
    -- The first reason that applies: a pause, an earlier message of the key, a handler that is away.
    SELECT coalesce((
               SELECT concat('the end of the pause of the ', p.kind, ' ', quote_literal(p.name))
               FROM inbox.inbox_pauses p
               WHERE m.available_at IS NOT NULL AND (p.kind = 'topic' AND p.name = m.topic
                     OR p.kind = 'consumer' AND p.name = m.consumer OR p.kind = 'handler' AND p.name = m.wanted_by)
               ORDER BY p.kind DESC LIMIT 1), (
               SELECT concat('event ', b.event_id, ' of its key (seq ', b.seq, '), which is ', b.status,
                             CASE WHEN b.status = 'parked'
                                  THEN ': it waits for '
                                       || coalesce('the handler ' || inbox.handler_of(b.topic, b.event_type, b.consumer),
                                                   'a handler, and no known one wants it')
                                  WHEN b.status = 'claimed' THEN ': it is queued for its handler, or being processed'
                                  ELSE CASE b.status WHEN 'retrying' THEN ', next attempt at ' ELSE ', due at ' END
                                       || to_char(b.available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END)
               FROM inbox.messages b WHERE b.seq = m.behind), (
               SELECT concat('handler ', h.name, ', away since ', to_char(h.last_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
               FROM inbox.handlers h
               WHERE h.consumer = m.consumer AND h.name = m.wanted_by AND h.status = 'away'),
               CASE WHEN m.status = 'parked' AND m.wanted_by IS NULL THEN 'a handler: no known one wants it'
                    WHEN m.status = 'parked' AND NOT EXISTS (
                        SELECT FROM inbox.inbox_offsets o JOIN inbox.inbox_instances i ON i.id = o.owner
                        WHERE o.topic = m.topic AND o.kafka_partition = m.kafka_partition
                          AND i.handlers @> CASE m.consumer WHEN '' THEN to_jsonb(m.wanted_by)
                              ELSE jsonb_build_array(jsonb_build_object('name', m.wanted_by, 'consumer', m.consumer)) END)
                    THEN concat('handler ', m.wanted_by, ': not connected to the sidecar that owns the partition')
                    WHEN m.status = 'parked'
                    THEN concat('the handler ', m.wanted_by, ': inboxd releases the message within seconds')
                    END) AS what
    FROM m
), conflict AS MATERIALIZED (
    SELECT 'the id came with another payload, too: ' || string_agg(concat('seq ', c.seq, ' (', c.topic, '/', c.kafka_partition, '/',
               c.kafka_offset, coalesce(concat(', ', octet_length(c.payload), ' bytes'), ', a tombstone'), ')'), ', ' ORDER BY c.seq DESC) AS what
    FROM m CROSS JOIN LATERAL (
        SELECT l.* FROM (SELECT i.* FROM inbox.inbox_conflicts i ORDER BY i.seq DESC LIMIT 100000) l
        WHERE l.event_id = m.event_id AND l.source = m.source AND l.payload_digest IS DISTINCT FROM m.payload_digest
        LIMIT 5) c
)
SELECT f.section, f.name, f.value
FROM m CROSS JOIN LATERAL (
    SELECT 1, v.n, 'message', v.name, v.value
    FROM (VALUES (1, 'event id', m.event_id),
                 (2, 'source', m.source),
                 (2, 'consumer', nullif(m.consumer, '')),
                 (3, 'type', m.event_type),
                 (4, 'status', m.status),
                 (5, 'record', concat(m.topic, '/', m.kafka_partition, '/', m.kafka_offset)),
                 (6, 'seq', m.seq::text),
                 (7, 'key', coalesce(m.key_text, E'\\x' || encode(m.key, 'hex'))),
                 (8, 'error', m.error),
                 (9, 'code', m.error_code),
                 (10, 'attempts spent', m.retry_count::text),
                 (11, 'claims', m.delivery_count::text),
                 (12, 'crashes', nullif(m.crash_count, 0)::text),
                 (13, 'replays', nullif(m.replay_count, 0)::text),
                 (14, 'handler', CASE WHEN m.status <> 'processed' THEN m.handler
                      WHEN m.attempts -> -1 ? 'called_done_by'
                      THEN concat('none: resolved by ', m.attempts -> -1 ->> 'called_done_by')
                      ELSE coalesce(m.handler, 'unknown: the message was completed by inbox.complete(), but its handler did not answer') END),
                 (15, 'waits for', (SELECT w.what FROM wait w)),
                 (16, 'instance', m.claimed_by::text),
                 (17, 'result', m.result::text),
                 (18, 'conflicts', (SELECT c.what || CASE WHEN m.status = 'dead'
                     THEN concat(' (`inboxd replay ', repeat('-', 2), 'conflict SEQ` processes the message with that payload)') END FROM conflict c))) AS v(n, name, value)
    UNION ALL
    SELECT 2, h.n, 'headers', coalesce(h.pair ->> 0, '-'), coalesce(h.pair ->> 1, 'null')
    FROM jsonb_array_elements(m.headers) WITH ORDINALITY AS h(pair, n)
    UNION ALL
    SELECT 3, t.n, 'timeline', to_char(t.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), t.words
    FROM (SELECT -2, m.kafka_timestamp, 'Kafka''s timestamp'
          UNION ALL SELECT -1, m.received_at, 'received'
          UNION ALL SELECT a.n, (a.entry ->> 'at')::timestamptz,
                 CASE WHEN a.entry ? 'replayed_by'
                      THEN concat('replayed by ', a.entry ->> 'replayed_by', ', was ', a.entry ->> 'was',
                                  ': ' || (a.entry ->> 'reason'))
                      WHEN a.entry ? 'discarded_by'
                      THEN concat('discarded by ', a.entry ->> 'discarded_by', ': ' || (a.entry ->> 'reason'))
                      WHEN a.entry ? 'called_done_by'
                      THEN concat('resolved by ', a.entry ->> 'called_done_by', ', was ', a.entry ->> 'was',
                                  ': ' || (a.entry ->> 'reason'))
                      WHEN a.entry ? 'retried_by'
                      THEN concat('made due by ', a.entry ->> 'retried_by', ': ' || (a.entry ->> 'reason'))
                      WHEN a.entry ? 'taken_by'
                      THEN concat('given the payload of conflict ', a.entry ->> 'took_conflict', ' by ', a.entry ->> 'taken_by',
                                  ': ' || (a.entry ->> 'reason'))
                      ELSE concat('attempt ', a.entry ->> 'attempt',
                                  CASE a.entry ->> 'code' WHEN 'CRASH' THEN ' crashed' ELSE ' failed' END, ' at ' || (a.entry ->> 'handler'),
                                  ': ' || nullif(concat_ws(' ', a.entry ->> 'code', a.entry ->> 'error'), '')) END
          FROM jsonb_array_elements(m.attempts) WITH ORDINALITY AS a(entry, n)
          UNION ALL SELECT 1000, m.processed_at, 'processed'
          UNION ALL SELECT 1000, m.dead_at, 'dead'
          UNION ALL SELECT 1000, nullif(m.available_at, 'infinity'), 'due') AS t(n, at, words)
    WHERE t.at IS NOT NULL
) AS f(rank, n, section, name, value)
WHERE f.value IS NOT NULL
ORDER BY f.rank, f.n
