-- Oldest sidecar: 3
-- A reject can hold back the later records of its key. An earlier inboxd stores them, so they overtake the reject.

ALTER TABLE inbox.inbox_rejects ADD COLUMN holds boolean NOT NULL DEFAULT false;
