-- Oldest sidecar: 3
-- Which static member of the consumer group a sidecar is. Kafka tells no member which other one has its id.

ALTER TABLE inbox.inbox_instances ADD COLUMN group_instance_id text;

COMMENT ON COLUMN inbox.inbox_instances.group_instance_id IS
    'kafka.group.instance.id of the sidecar; NULL: it has none, or it is of an earlier version';
