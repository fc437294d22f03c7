-- Sets the sequences that are behind the rows of their tables.
-- Caller: store/schema/sequences.c, when there are any. Index: as sequences_behind; inbox_messages_seq_key.
-- Back: those it set, from which number to which.
SELECT a.sequence, a.last, a.highest FROM inbox.advance_sequences() AS a
