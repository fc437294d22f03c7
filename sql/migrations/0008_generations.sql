-- Oldest sidecar: 3
-- A topic that is deleted and created again is another log under the same name: a generation (docs/adr/0037).

ALTER TABLE inbox.inbox_offsets
    ADD COLUMN generation int NOT NULL DEFAULT 1,
    ADD COLUMN generation_from bigint NOT NULL DEFAULT 0,
    ADD COLUMN topic_ids text COLLATE "C",
    ADD COLUMN topic_ids_at bigint;

COMMENT ON COLUMN inbox.inbox_offsets.generation IS
    'How often the topic was created, as far as inboxd knows. Ids of records without an id contain it from 2 on';
COMMENT ON COLUMN inbox.inbox_offsets.generation_from IS
    'The first offset of this generation. Records below it have the generation before';
COMMENT ON COLUMN inbox.inbox_offsets.topic_ids IS
    'Kafka''s id of the topic, and behind it those of earlier generations; NULL or - = unknown';
COMMENT ON COLUMN inbox.inbox_offsets.topic_ids_at IS
    'topic_ids is valid while this equals next_offset: an older version moves the watermark without it';
