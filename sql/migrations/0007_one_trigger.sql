-- Oldest sidecar: 3
-- One trigger on messages instead of two: functions/triggers.sql creates ended_row_changed.

DROP TRIGGER IF EXISTS replay ON inbox.inbox_messages;
DROP TRIGGER IF EXISTS call_done ON inbox.inbox_messages;
DROP FUNCTION IF EXISTS inbox.replay_row();
DROP FUNCTION IF EXISTS inbox.call_done();
