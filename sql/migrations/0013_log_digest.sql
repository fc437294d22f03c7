-- What tells the last record stored from another one with the same offset and timestamp, in a log of the same name.
ALTER TABLE inbox.inbox_offsets ADD COLUMN last_digest bytea;
COMMENT ON COLUMN inbox.inbox_offsets.last_digest IS
    'Eight bytes of the offset it belongs to, and the digest of the record there: key, value and headers. NULL, or of another offset than last_offset: not known';
