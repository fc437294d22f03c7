-- What is paused.
-- Caller: store/claims/known_handlers.c, in a transaction of its own. Index: none (small table).
SELECT p.kind, p.name, p.ingest FROM inbox.inbox_pauses p ORDER BY p.kind, p.name
