-- The Kafka cluster and group that the schema belongs to.

-- Binds the schema to another Kafka cluster or group. False: it was bound to them already.
CREATE OR REPLACE FUNCTION inbox.adopt(cluster_id text, group_id text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earlier inbox.inbox_binding;
    alive inbox.inbox_instances;
BEGIN
    IF coalesce(cluster_id, '') = '' OR coalesce(group_id, '') = '' THEN
        PERFORM inbox.refuse('adopt', 'cluster_id and group_id must be given');
    END IF;
    SELECT i.* INTO alive FROM inbox.inbox_instances i
    WHERE i.fenced_at IS NULL AND i.heartbeat_at > clock_timestamp() - interval '1 minute' LIMIT 1;
    IF alive.id IS NOT NULL THEN
        RAISE EXCEPTION 'inbox.adopt: sidecar "%" is running: its last heartbeat is % s old', alive.name,
            round(extract(epoch FROM clock_timestamp() - alive.heartbeat_at))
            USING ERRCODE = 'object_in_use',
                  HINT = 'Stop all sidecars of this schema first; one that was killed counts for a minute.';
    END IF;
    SELECT b.* INTO earlier FROM inbox.inbox_binding b FOR UPDATE;
    INSERT INTO inbox.inbox_binding AS b (cluster_id, group_id) VALUES (adopt.cluster_id, adopt.group_id)
    ON CONFLICT (only_row) DO UPDATE
    SET cluster_id = excluded.cluster_id, group_id = excluded.group_id, bound_at = now()
    WHERE (b.cluster_id, b.group_id) <> (excluded.cluster_id, excluded.group_id);
    PERFORM inbox.audit('adopt', jsonb_build_object('cluster_id', cluster_id, 'group_id', group_id,
        'from_cluster_id', earlier.cluster_id, 'from_group_id', earlier.group_id), reason, FOUND::int);
    -- Another cluster may have the same logs under other topic ids: the last stored records decide.
    IF earlier.cluster_id <> adopt.cluster_id THEN
        UPDATE inbox.inbox_offsets o SET topic_ids = NULL, topic_ids_at = NULL WHERE o.topic_ids IS NOT NULL;
    END IF;
    RETURN (earlier.cluster_id, earlier.group_id) IS DISTINCT FROM (adopt.cluster_id, adopt.group_id);
END $$;
