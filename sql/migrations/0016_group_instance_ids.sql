-- Oldest sidecar: 3
-- Which static member of the consumer group a sidecar is. Kafka tells no member which other one has its id.

ALTER TABLE inbox.inbox_instances ADD COLUMN group_instance_id text;
