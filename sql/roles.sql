-- The five roles and what each may do in this schema; applied by `inboxd migrate --roles`, again at any time.
-- Do not log in as one of them: GRANT inboxd_sidecar TO billing_inbox; and so on. Roles belong to the whole
-- PostgreSQL cluster, their rights to this schema. With --roles=PREFIX each inboxd_ here is PREFIX_, so that the users of two
-- services on one server have nothing in common. A role with one of these names that can log in is a user of somebody, so
-- that the script refuses it.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['inboxd_sidecar', 'inboxd_handler', 'inboxd_service', 'inboxd_operator', 'inboxd_reader'] LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role AND rolcanlogin) THEN
            RAISE EXCEPTION 'role "%" exists and can log in: it is a user, who would get the privileges of the role', role
                USING HINT = 'use another --roles=PREFIX, or rename the user with ALTER ROLE … RENAME TO …';
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I',
                       (SELECT relnamespace::regnamespace FROM pg_catalog.pg_class
                        WHERE oid = 'inbox.inbox_messages'::regclass), role);
    END LOOP;
END $$;

-- The sidecar: stores, claims and settles messages, and publishes events. It changes no history, and deletes messages
-- only with inbox.retain(). It may also read, because `inboxd status`, `list`, `show` and `verify` run in its container
-- with its configuration.
GRANT SELECT, INSERT, UPDATE ON inbox.inbox_messages, inbox.inbox_offsets, inbox.inbox_instances TO inboxd_sidecar;
GRANT SELECT, INSERT ON inbox.inbox_rejects, inbox.inbox_conflicts, inbox.inbox_binding, inbox.inbox_subscriptions
    TO inboxd_sidecar;
GRANT SELECT, INSERT, UPDATE ON inbox.inbox_dead_topic TO inboxd_sidecar;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox.inbox_handlers, inbox.inbox_consumers TO inboxd_sidecar;
GRANT SELECT ON inbox.inbox_schema_version, inbox.inbox_pauses, inbox.inbox_renames, inbox.inbox_janitor TO inboxd_sidecar;
-- Nobody but the owner reads it: who knows the secret of a sidecar can make a claim for each message that it holds.
GRANT INSERT ON inbox.inbox_claim_secrets TO inboxd_sidecar;
GRANT SELECT ON SEQUENCE inbox.inbox_messages_seq_seq TO inboxd_sidecar;
GRANT EXECUTE ON FUNCTION inbox.retain(int, text, bigint, int, boolean), inbox.sequences_behind(), inbox.advance_sequences()
    TO inboxd_sidecar;
GRANT SELECT ON inbox.messages, inbox.dead_groups, inbox.handlers, inbox.consumers TO inboxd_sidecar;
GRANT SELECT, UPDATE, DELETE ON inbox.outbox TO inboxd_sidecar;
GRANT SELECT, INSERT, UPDATE ON inbox.outbox_relay TO inboxd_sidecar;
GRANT SELECT ON SEQUENCE inbox.outbox_seq TO inboxd_sidecar;
GRANT EXECUTE ON FUNCTION inbox.emit_caused(bigint, text, text, text, int, jsonb, jsonb) TO inboxd_sidecar;
GRANT SELECT ON inbox.events, inbox.request_states TO inboxd_sidecar;
-- SQL handlers. A handler with a role of its own needs GRANT role TO the sidecar's user, too.
GRANT EXECUTE ON FUNCTION inbox.sql_handler_problem(text, text),
    inbox.call_handler(int, bigint, int, bigint, text, text, text, bigint, text) TO inboxd_sidecar;

-- A handler: completes the messages it was given, in its own transaction.
GRANT EXECUTE ON FUNCTION inbox.complete(text, jsonb), inbox.complete(text, text),
    inbox.complete(text[], jsonb[]), inbox.complete(text, jsonb, jsonb) TO inboxd_handler;

-- A service that emits events in its own transactions. It can read none, except its own until the end of its transaction
-- in the view for Debezium's users.
GRANT EXECUTE ON FUNCTION inbox.emit(text, text, text, jsonb, jsonb, text, text, text, text),
    inbox.emit_bytes(text, bytea, text, bytea, text, jsonb, text, text, text, text),
    inbox.lock_key(text, text) TO inboxd_service;
GRANT SELECT, INSERT, DELETE ON inbox.outboxevent TO inboxd_service;

-- It makes its requests repeatable, and asks what became of a message. Nobody but the owner reads stored responses.
GRANT EXECUTE ON FUNCTION inbox.request_begin(text, bytea, text, text, interval, interval, text),
    inbox.request_complete(text, int, bytea, jsonb), inbox.request_fail(text, text),
    inbox.request_extend(text, interval, text), inbox.request_digest(text, text, bytea),
    inbox.http_request_begin(text, text, text, bytea, text, interval, boolean), inbox.http_request_complete(text, int, jsonb, bytea),
    inbox.result(text, text, text) TO inboxd_service;

-- A reader: every table and view.
GRANT SELECT ON inbox.inbox_messages, inbox.inbox_offsets, inbox.inbox_instances, inbox.inbox_rejects,
    inbox.inbox_conflicts, inbox.inbox_audit, inbox.inbox_binding, inbox.inbox_subscriptions, inbox.inbox_schema_version, inbox.inbox_janitor,
    inbox.inbox_dead_topic, inbox.inbox_handlers, inbox.inbox_consumers, inbox.inbox_renames, inbox.inbox_pauses, inbox.messages, inbox.dead_groups, inbox.handlers,
    inbox.consumers, inbox.outbox, inbox.outbox_relay, inbox.events, inbox.request_states
    TO inboxd_reader, inboxd_operator;
GRANT SELECT ON SEQUENCE inbox.outbox_seq TO inboxd_reader, inboxd_operator;
GRANT EXECUTE ON FUNCTION inbox.try_text(bytea), inbox.try_json(bytea), inbox.error_shape(text),
    inbox.outbox_page(jsonb, bigint, int), inbox.check_outbox_filter(text, jsonb, text[]), inbox.outbox_status(),
    inbox.outbox_counts(bigint), inbox.relay_position(bigint, bigint, bigint[], bigint[]),
    inbox.look_page(jsonb, bigint, int), inbox.is_counted(xid, jsonb), inbox.seq_before(timestamptz, bigint),
    inbox.find_record(text, int, bigint),
    inbox.trace_pairs(jsonb), inbox.envelope_trace(bigint), inbox.is_structured(jsonb), inbox.computed_trace(text, text),
    inbox.is_of_trace(text, text, text, jsonb, bytea), inbox.trace_of(bigint, jsonb), inbox.event_before(timestamptz),
    inbox.caused_events(bigint, text, text, timestamptz[]),
    inbox.check_filter(text, jsonb, text[]), inbox.refuse(text, text),
    inbox.ordering_of(text, int, text), inbox.open_claims(), inbox.lane_head(text, int, text, bytea),
    inbox.waits_behind(bigint), inbox.next_of_lane(text, int, text, bytea, bigint), inbox.describe_key(bigint),
    inbox.look_keys(jsonb, bigint, int), inbox.check_keys(jsonb), inbox.check_max_rows(text, int),
    inbox.wants(jsonb, jsonb, text, text), inbox.consumers_of(text, text), inbox.check_backfill(jsonb),
    inbox.check_rename_over(text, text), inbox.check_rename(text, text), inbox.open_messages(text),
    inbox.backfill_count(jsonb), inbox.backfill_repeats(jsonb), inbox.recent_backfills(), inbox.keys(jsonb, bigint, int),
    inbox.lanes_of(text, text, text, int),
    inbox.status(), inbox.waiting_streams(), inbox.handler_of(text, text), inbox.handler_of(text, text, text, jsonb)
    TO inboxd_reader, inboxd_operator, inboxd_sidecar;

-- An operator: the functions, which are audited, and the two columns that replay with plain SQL.
GRANT EXECUTE ON FUNCTION
    inbox.replay(text, text, text, text, jsonb),
    inbox.replay_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text, text, bigint, text,
        text, text, text, timestamptz, timestamptz, int, bigint),
    inbox.replay_page(jsonb, bigint, int, text),
    inbox.replay_reject(bigint, text, text, text, text), inbox.release_reject(bigint, text),
    inbox.take_conflict(bigint, text, text),
    inbox.discard(text, text, text, text),
    inbox.retry_now(text, text, text, text),
    inbox.retry_page(jsonb, bigint, int, text),
    inbox.resolve(text, text, text, text),
    inbox.pause(text, text, text, boolean),
    inbox.resume(text, text, text),
    inbox.discard_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text, text, bigint, text,
        text, text, text, timestamptz, timestamptz, int, bigint),
    inbox.discard_page(jsonb, bigint, int, text),
    inbox.purge(interval, int),
    inbox.seek(text, int, bigint, text),
    inbox.adopt(text, text, text),
    inbox.forget_handler(text, text, text),
    inbox.forget_consumer(text, text),
    inbox.rename_consumer(text, text, text),
    inbox.rename_page(text, int),
    inbox.backfill(text, text, timestamptz, text, int, text, boolean, bigint, boolean),
    inbox.backfill_page(jsonb, bigint, int, text),
    inbox.skip_key(text, text, text, text, int, bigint),
    inbox.outbox_replay_where(text, text, text, text, text, text, text, timestamptz, timestamptz, bigint, int, text, boolean,
        text, text, text, timestamptz, timestamptz, int, bigint),
    inbox.outbox_replay_page(jsonb, bigint, int, text),
    inbox.outbox_discard_where(text, text, text, text, text, text, text, timestamptz, timestamptz, bigint, int, text, boolean,
        text, text, text, timestamptz, timestamptz, int, bigint),
    inbox.outbox_discard_page(jsonb, bigint, int, text),
    inbox.request_forget(text, text, text, jsonb) TO inboxd_operator;
GRANT UPDATE (processed_at, dead_at) ON inbox.inbox_messages TO inboxd_operator;
