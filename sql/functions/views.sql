-- The views. An unchanged view is not replaced: embed.py adds a comparison to each statement, because CREATE OR REPLACE
-- VIEW blocks readers and waits for them also when nothing changes.
--
-- New columns come last, and no column is removed or changes its type, because other views may depend on these.

-- Messages with their status.
CREATE OR REPLACE VIEW inbox.messages AS
SELECT m.seq, m.source, m.event_id, m.event_type, m.topic, m.kafka_partition, m.kafka_offset, m.kafka_timestamp, m.key,
       m.headers, m.payload, m.payload_digest, m.received_at, m.available_at, m.claimed_by, m.claim_number,
       m.delivery_count, m.retry_count, m.crash_count, m.replay_count, m.rescue_count, m.suspect, m.error, m.error_code,
       m.result, m.processed_at, m.dead_at, m.attempts,
       CASE WHEN m.processed_at IS NOT NULL THEN 'processed'
            WHEN m.dead_at IS NOT NULL THEN 'dead'
            WHEN m.available_at = 'infinity' THEN 'parked'
            WHEN m.available_at IS NOT NULL AND m.retry_count > 0 THEN 'retrying'
            WHEN m.available_at IS NOT NULL THEN 'waiting'
            ELSE 'claimed' END AS status,
       inbox.try_text(m.payload) AS payload_text,
       inbox.try_json(m.payload) AS payload_json,
       m.dead_topic_at,
       m.handler,
       m.consumer
FROM inbox.inbox_messages m;

-- Dead messages grouped by their error and their consumer, without the discarded ones.
CREATE OR REPLACE VIEW inbox.dead_groups AS
SELECT m.event_type, m.error_code, inbox.error_shape(m.error) AS error_shape, count(*) AS messages,
       min(m.dead_at) AS first_dead_at, max(m.dead_at) AS last_dead_at, max(m.seq) AS latest_seq, m.consumer
FROM inbox.inbox_messages m
WHERE m.dead_at IS NOT NULL AND (m.error_code IS DISTINCT FROM 'DISCARDED' OR m.claimed_by IS NOT NULL)
GROUP BY 1, 2, 3, 8;

-- One row per handler. Connected: a sidecar that has not ended lists it in its heartbeat. Away: its messages wait for
-- it until known_until. Lapsed: it is no longer known, and only this row is left.
CREATE OR REPLACE VIEW inbox.handlers AS
SELECT h.name,
       CASE WHEN c.instances IS NOT NULL THEN 'connected'
            WHEN h.last_seen_at > clock_timestamp() - h.memory THEN 'away'
            ELSE 'lapsed' END AS status,
       coalesce(c.instances, '{}') AS instances,
       h.known_since, h.connected_at, h.last_seen_at,
       CASE WHEN c.instances IS NULL THEN h.last_seen_at + h.memory END AS known_until,
       h.subscriptions,
       h.consumer
FROM inbox.inbox_handlers h
CROSS JOIN LATERAL (
    SELECT array_agg(i.name ORDER BY i.name) AS instances
    FROM inbox.inbox_instances i
    WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL
      AND i.handlers @> CASE h.consumer WHEN '' THEN to_jsonb(h.name)
          ELSE jsonb_build_array(jsonb_build_object('name', h.name, 'consumer', h.consumer)) END) c;

-- One row per consumer that is known, or that has waiting messages or a connected handler. Listed: a sidecar that runs
-- lists it. Unlisted: no sidecar has listed it for a minute; messages are stored for it until known_until. known_until is
-- NULL for the consumer without a name, and for a renamed consumer that no sidecar has listed since. Lapsed: no messages
-- are stored for it any more, and its waiting messages wait for nobody.
CREATE OR REPLACE VIEW inbox.consumers AS
SELECT v.*,
       nullif(concat_ws(' ',
           CASE WHEN v.status <> 'unlisted' THEN NULL
                WHEN v.name = '' THEN 'No running sidecar lists it, and messages are stored for it: `inboxd consumers rename '''' NAME` '
                                      'gives it a name that they list.'
                ELSE 'No running sidecar lists it, and messages are stored for it: list, rename or forget it.' END,
           CASE WHEN v.status <> 'lapsed' AND v.waiting > 0 AND v.handlers = '{}'
                THEN 'Messages wait, and no handler of it is connected.' END), '') AS attention
FROM (
    SELECT coalesce(c.name, w.consumer, h.consumer) AS name,
           CASE WHEN c.listed_at > clock_timestamp() - least(c.memory, '1 minute') AND c.listed_at < 'infinity' THEN 'listed'
                WHEN c.listed_at > clock_timestamp() - c.memory OR c.name = '' THEN 'unlisted'
                ELSE 'lapsed' END AS status,
           coalesce(w.waiting, 0) AS waiting,
           c.ordering, c.topics, c.types, c.known_since, nullif(c.listed_at, 'infinity') AS listed_at,
           CASE WHEN c.name <> '' AND c.listed_at < 'infinity' THEN c.listed_at + c.memory END AS known_until,
           coalesce(h.handlers, '{}') AS handlers,
           ARRAY(SELECT r.old_name FROM inbox.inbox_renames r WHERE r.new_name = c.name ORDER BY r.old_name) AS earlier_names,
           EXISTS (SELECT FROM inbox.inbox_renames r WHERE r.new_name = c.name AND r.moved_at IS NULL) AS moving
    FROM inbox.inbox_consumers c
    FULL JOIN (
        SELECT s.consumer, sum(n.waiting)::bigint AS waiting
        FROM inbox.waiting_streams() s
        CROSS JOIN LATERAL (
            SELECT count(*) AS waiting
            FROM (SELECT FROM inbox.inbox_messages m
                  WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
                    AND m.available_at > '-infinity' LIMIT 10000) l) n
        GROUP BY s.consumer) w ON w.consumer = c.name
    FULL JOIN (
        SELECT coalesce(r.new_name, k.consumer) AS consumer, array_agg(DISTINCT k.name ORDER BY k.name) AS handlers
        FROM inbox.handlers k LEFT JOIN inbox.inbox_renames r ON r.old_name = k.consumer
        WHERE k.status = 'connected' GROUP BY 1) h ON h.consumer = coalesce(c.name, w.consumer)) v;

-- Events of the outbox with their status. Published events are here only with retention.outbox.
CREATE OR REPLACE VIEW inbox.events AS
SELECT o.seq, o.event_id, o.source, o.topic, o.aggregate, o.key, o.event_type, o.subject, o.content_type, o.format,
       o.headers, o.payload, o.caused_by, o.created_at, o.available_at, o.retry_count, o.error, o.error_code,
       o.published_at, o.kafka_partition, o.kafka_offset, o.dead_at,
       CASE WHEN o.published_at IS NOT NULL THEN 'published'
            WHEN o.dead_at IS NOT NULL THEN 'dead'
            WHEN o.available_at = 'infinity' THEN 'parked'
            WHEN o.available_at IS NOT NULL THEN 'retrying'
            ELSE 'waiting' END AS status,
       inbox.try_text(o.payload) AS payload_text,
       inbox.try_json(o.payload) AS payload_json,
       o.request_scope,
       o.request_key
FROM inbox.outbox o;

-- Requests with an idempotency key, without their responses.
--
-- leased: the request is in the index requests_leased, as each one that is pending or failed.
-- A volatile function in this view, such as clock_timestamp(), would keep the planner from using an index.
CREATE OR REPLACE VIEW inbox.request_states AS
SELECT r.scope, r.key, r.operation, r.fingerprint,
       CASE WHEN r.completed_at IS NOT NULL THEN 'COMPLETED' WHEN r.failed_at IS NOT NULL THEN 'FAILED' ELSE 'PENDING' END AS state,
       r.attempt, r.locked_until, coalesce(r.locked_until <= statement_timestamp(), false) AS lost, r.point, r.failed_at, r.error,
       r.completed_at, r.status, octet_length(r.body) AS body_bytes, r.created_at, r.expires_at, r.holder <> 0 AS leased
FROM inbox.requests r;
