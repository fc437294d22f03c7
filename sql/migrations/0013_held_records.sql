-- Oldest sidecar: 3
-- A reject can hold back the later records of its key. An earlier inboxd stores them, so they overtake the reject.

ALTER TABLE inbox.inbox_rejects ADD COLUMN holds boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN inbox.inbox_rejects.holds IS
    'Later records of its key (of its partition, with ordering: partition) become rejects, too, until it is a message, is
    deleted, or inbox.release_reject() ends this';
