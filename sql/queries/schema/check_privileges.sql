-- The rights that a sidecar needs and this user lacks; no row = none. Each row has the user's name, at most four
-- users who can log in and have the role of sidecars, if that has the right (NULL = none), whether this user has
-- the role that has the right, and that role: inboxd_sidecar, or that of the prefix that the schema has.
-- Caller: store/schema/privileges.c, for `inboxd check`. Index: none (catalogs).
-- $1 whether requests.socket is on, which needs the functions of requests, too.
WITH used AS (
-- include: role_prefixes
), role AS (
    SELECT coalesce((SELECT u.prefix FROM used u ORDER BY u.place LIMIT 1), 'inboxd') || '_' AS start
)
SELECT l.thing, l.privilege, current_user::text,
       (SELECT string_agg(quote_ident(u.rolname), ', ' ORDER BY u.rolname)
        FROM (SELECT r.rolname
              FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
              WHERE g.rolname = l.role AND l.kind = 'sidecar' AND r.rolcanlogin
              ORDER BY r.rolname LIMIT 4) AS u),
       coalesce(pg_has_role(to_regrole(l.role)::oid, 'USAGE'), false), l.role
FROM (SELECT k.*, (SELECT role.start FROM role) || k.kind AS role FROM (
SELECT v.thing::text, v.privilege, 'sidecar'::text AS kind
FROM (VALUES
    ('inbox.inbox_messages'::regclass, 'SELECT'), ('inbox.inbox_messages', 'INSERT'), ('inbox.inbox_messages', 'UPDATE'),
    ('inbox.inbox_offsets', 'SELECT'), ('inbox.inbox_offsets', 'INSERT'), ('inbox.inbox_offsets', 'UPDATE'),
    ('inbox.inbox_instances', 'SELECT'), ('inbox.inbox_instances', 'INSERT'), ('inbox.inbox_instances', 'UPDATE'),
    ('inbox.inbox_claim_secrets', 'INSERT'),
    ('inbox.inbox_rejects', 'SELECT'), ('inbox.inbox_rejects', 'INSERT'),
    ('inbox.inbox_conflicts', 'SELECT'), ('inbox.inbox_conflicts', 'INSERT'),
    ('inbox.inbox_dead_topic', 'SELECT'), ('inbox.inbox_dead_topic', 'INSERT'), ('inbox.inbox_dead_topic', 'UPDATE'),
    ('inbox.inbox_handlers', 'SELECT'), ('inbox.inbox_handlers', 'INSERT'), ('inbox.inbox_handlers', 'UPDATE'),
    ('inbox.inbox_handlers', 'DELETE'),
    ('inbox.inbox_consumers', 'SELECT'), ('inbox.inbox_consumers', 'INSERT'), ('inbox.inbox_consumers', 'UPDATE'),
    ('inbox.inbox_consumers', 'DELETE'), ('inbox.inbox_renames', 'SELECT'),
    ('inbox.inbox_binding', 'SELECT'), ('inbox.inbox_binding', 'INSERT'),
    ('inbox.inbox_subscriptions', 'SELECT'), ('inbox.inbox_subscriptions', 'INSERT'),
    ('inbox.outbox', 'SELECT'), ('inbox.outbox', 'UPDATE'), ('inbox.outbox', 'DELETE'),
    ('inbox.outbox_relay', 'SELECT'), ('inbox.outbox_relay', 'INSERT'), ('inbox.outbox_relay', 'UPDATE'),
    ('inbox.request_states', 'SELECT'),
    ('inbox.inbox_schema_version', 'SELECT'), ('inbox.inbox_pauses', 'SELECT')) AS v(thing, privilege)
WHERE NOT has_table_privilege(v.thing, v.privilege)
UNION ALL
SELECT q.thing, 'SELECT', 'sidecar'
FROM (VALUES (pg_get_serial_sequence('inbox.inbox_messages', 'seq')),
             (pg_get_serial_sequence('inbox.outbox', 'seq'))) AS q(thing)
WHERE NOT has_sequence_privilege(q.thing, 'SELECT')
UNION ALL
SELECT 'FUNCTION ' || f.name::text, 'EXECUTE', 'sidecar'
FROM (VALUES ('inbox.retain(int, text, bigint, int, boolean)'::regprocedure), ('inbox.sequences_behind()'),
             ('inbox.advance_sequences()'), ('inbox.emit_caused(bigint, text, text, text, int, jsonb, jsonb)'),
             ('inbox.outbox_counts(bigint)'), ('inbox.handler_of(text, text, text, jsonb)'),
             ('inbox.relay_position(bigint, bigint, bigint[], bigint[])')) AS f(name)
WHERE NOT has_function_privilege(f.name, 'EXECUTE')
UNION ALL
SELECT 'FUNCTION ' || f.name::text, 'EXECUTE', 'service'
FROM (VALUES ('inbox.request_begin(text, bytea, text, text, interval, interval, text)'::regprocedure),
             ('inbox.request_complete(text, int, bytea, jsonb)'), ('inbox.request_fail(text, text)'),
             ('inbox.request_extend(text, interval, text)'), ('inbox.result(text, text, text)')) AS f(name)
WHERE $1::boolean AND NOT has_function_privilege(f.name, 'EXECUTE')) AS k) AS l
