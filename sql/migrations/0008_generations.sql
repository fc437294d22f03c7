-- Oldest sidecar: 3
-- A topic that is deleted and created again is another log under the same name: a generation (docs/adr/0037).

ALTER TABLE inbox.inbox_offsets
    ADD COLUMN generation int NOT NULL DEFAULT 1,
    ADD COLUMN generation_from bigint NOT NULL DEFAULT 0,
    ADD COLUMN topic_ids text COLLATE "C",
    ADD COLUMN topic_ids_at bigint;
