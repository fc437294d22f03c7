-- Pins the plans of the statements that read events: each follows its index and stops at its limit. Without statistics,
-- or with those of an empty table, a bitmap scan would seem cheaper and read all that waits, at every poll.
-- Caller: store/outbox, first in each transaction that reads events. Index: none.
-- Named: it reads no table.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
