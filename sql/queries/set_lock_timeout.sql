-- This transaction waits for locks but a moment: who holds one longer is a handler's transaction, or an operator's.
-- Caller: store/settle.c, store/known_handlers.c. Index: none.
SELECT set_config('lock_timeout', '100', true)
