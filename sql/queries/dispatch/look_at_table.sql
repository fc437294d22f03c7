-- What the other periodic reads would find, so that they take place only if there is something: known_handlers and
-- list_pauses; known_consumers and peek_partitions; list_orphans; claim_due of these streams; and retain. Locks and changes nothing.
-- Caller: store/claims/waiting_rows.c, every third of a lease or five seconds. Index: inbox_messages_due (one row a stream), and small tables.
-- $1 own id, $2 lease in ms, $3 topics, $4 partitions, $5 consumers, $6 memory of handlers in ms.
-- Back: ms until the first message of the streams is due (0: it is, NULL: none waits for a time); a number that changes with the
-- handlers and pauses; one that changes with the consumers and the own partitions; whether a partition is orphaned;
-- whether another instance runs retention, as inbox.elect_janitor() would find it.
SELECT
    (SELECT CASE WHEN min(d.available_at) <= clock_timestamp() THEN 0
                 ELSE ceil(extract(epoch FROM min(d.available_at) - clock_timestamp()) * 1000) END::bigint
     FROM unnest($3::text[], $4::int[], $5::text[]) AS p(topic, kafka_partition, consumer)
     CROSS JOIN LATERAL (
         SELECT m.available_at FROM inbox.inbox_messages m
         WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
           AND m.available_at > '-infinity' AND m.available_at < 'infinity'
         ORDER BY m.available_at, m.seq
         LIMIT 1) d),
    hashtextextended(concat_ws(E'\n',
        (SELECT string_agg(concat_ws(',', x.kind, x.name, x.ingest), E'\n' ORDER BY x.kind, x.name) FROM inbox.inbox_pauses x), '-',
        (SELECT string_agg(concat_ws(',', k.name, k.consumer, k.subscriptions, k.connected_at,
                     k.last_seen_at > clock_timestamp() - $6::bigint * interval '1 millisecond',
                     EXISTS (SELECT FROM inbox.inbox_instances i
                             WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL
                               AND i.handlers @> CASE k.consumer WHEN '' THEN to_jsonb(k.name)
                                   ELSE jsonb_build_array(jsonb_build_object('name', k.name, 'consumer', k.consumer)) END
                               AND i.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 millisecond')),
                 E'\n' ORDER BY k.name, k.consumer)
         FROM inbox.inbox_handlers k)), 0),
    hashtextextended(concat_ws(E'\n',
        (SELECT string_agg(concat_ws(',', c.name, c.ordering, c.topics, c.types, c.listed_at > clock_timestamp() - c.memory),
                 E'\n' ORDER BY c.name)
         FROM inbox.inbox_consumers c), '-',
        (SELECT string_agg(concat_ws(',', r.old_name, r.new_name, r.moved_at), E'\n' ORDER BY r.old_name)
         FROM inbox.inbox_renames r), '-',
        (SELECT string_agg(h.name, E'\n' ORDER BY h.name) FROM inbox.inbox_handlers h WHERE h.consumer = ''), '-',
        (SELECT string_agg(concat_ws(',', o.topic, o.kafka_partition, o.next_offset, o.epoch, o.last_offset, o.forced,
                     o.generation, o.generation_from, o.at_begin), E'\n' ORDER BY o.topic, o.kafka_partition)
         FROM inbox.inbox_offsets o WHERE o.owner = $1::int)), 0),
    EXISTS (SELECT FROM inbox.inbox_offsets o WHERE
            -- include: orphaned
            ),
    EXISTS (SELECT FROM inbox.inbox_janitor j
            JOIN inbox.inbox_instances i ON i.id = j.instance AND i.fenced_at IS NULL
            WHERE j.instance <> $1::int AND j.seen_at >= clock_timestamp() - interval '30 seconds')
