-- Limits the wait for locks in this transaction. A row that stays locked for longer belongs to a handler's
-- transaction, or to an operator.
-- Caller: store/claims/settle.c, store/claims/known_handlers.c, store/leased_requests.c. Index: none.
-- Named: it reads no table.
SELECT set_config('lock_timeout', '100', true)
