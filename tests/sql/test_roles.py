"""The rights of each of the five roles."""

import psycopg
import pytest

from statements import SQL, Statements, functions, migrate
from test_functions import insert
from test_operators import dead, value, waiting

ROLES = ["inboxd_sidecar", "inboxd_handler", "inboxd_service", "inboxd_operator", "inboxd_reader"]
TABLES = ["inbox_messages", "inbox_offsets", "inbox_instances", "inbox_rejects", "inbox_conflicts", "inbox_audit",
          "inbox_binding", "inbox_subscriptions", "inbox_schema_version", "inbox_janitor", "inbox_dead_topic", "inbox_handlers", "inbox_consumers", "inbox_renames", "inbox_pauses",
          "messages", "dead_groups", "handlers", "consumers", "outbox", "outbox_relay", "events", "request_states"]
ALL_TABLES = [*TABLES, "outboxevent", "requests", "inbox_claim_secrets"]
READ = {(table, "SELECT") for table in TABLES}
MAY = {
    "inboxd_sidecar": {(table, right) for table in TABLES[:3] for right in ("SELECT", "INSERT", "UPDATE")}
                      | {(table, right) for table in ("inbox_rejects", "inbox_conflicts", "inbox_binding", "inbox_subscriptions")
                         for right in ("SELECT", "INSERT")}
                      | {("inbox_dead_topic", right) for right in ("SELECT", "INSERT", "UPDATE")}
                      | {(table, right) for table in ("inbox_handlers", "inbox_consumers")
                         for right in ("SELECT", "INSERT", "UPDATE", "DELETE")}
                      | {("inbox_claim_secrets", "INSERT"), ("inbox_schema_version", "SELECT"), ("inbox_pauses", "SELECT"), ("inbox_renames", "SELECT"), ("inbox_janitor", "SELECT"), ("messages", "SELECT"), ("dead_groups", "SELECT"), ("handlers", "SELECT"), ("consumers", "SELECT")}
                      | {("outbox", right) for right in ("SELECT", "UPDATE", "DELETE")}
                      | {("outbox_relay", right) for right in ("SELECT", "INSERT", "UPDATE")} | {("events", "SELECT"), ("request_states", "SELECT")},
    "inboxd_handler": set(),
    "inboxd_service": {("outboxevent", right) for right in ("SELECT", "INSERT", "DELETE")},
    "inboxd_operator": READ,
    "inboxd_reader": READ,
}
LOOKS = {"try_text", "try_json", "error_shape", "look_page", "is_counted", "seq_before", "find_record", "check_filter", "refuse", "status", "handler_of",
         "waiting_streams", "check_rename_over", "check_rename", "open_messages",
         "ordering_of", "open_claims", "lane_head", "waits_behind", "next_of_lane", "describe_key", "look_keys", "check_keys",
         "check_max_rows", "keys", "lanes_of", "wants", "consumers_of", "check_backfill", "backfill_count", "backfill_repeats", "recent_backfills", "outbox_page", "check_outbox_filter", "outbox_status", "outbox_counts",
         "relay_position", "trace_pairs", "envelope_trace", "is_structured", "computed_trace", "is_of_trace", "trace_of", "event_before",
         "caused_events"}
ACTS = {"replay", "replay_where", "replay_page", "replay_reject", "release_reject", "take_conflict", "discard", "discard_where", "discard_page",
        "purge", "seek", "adopt", "forget_handler", "forget_consumer", "rename_consumer", "rename_page", "skip_key", "retry_now", "retry_page", "resolve", "pause", "resume", "backfill", "backfill_page", "outbox_replay_where", "outbox_replay_page", "outbox_discard_where",
        "outbox_discard_page", "request_forget"}
CALLS = {"inboxd_sidecar": {"retain", "sequences_behind", "advance_sequences", "emit_caused", "sql_handler_problem",
                            "call_handler"} | LOOKS,
         "inboxd_handler": {"complete"}, "inboxd_service": {"emit", "emit_bytes", "lock_key", "request_begin", "request_complete", "request_fail", "request_extend",
                            "request_digest", "http_request_begin", "http_request_complete", "result"}, "inboxd_operator": LOOKS | ACTS,
         "inboxd_reader": LOOKS}


@pytest.fixture
def granted(db):
    db.execute((SQL / "roles.sql").read_text())
    return db


@pytest.fixture
def as_role(granted, connect):
    """as_role(role) -> a connection of a user that is granted this role and nothing else."""
    opened = []

    def login(role):
        user = f"user_of_{role}"
        granted.execute(f"DROP ROLE IF EXISTS {user}")
        granted.execute(f"CREATE ROLE {user} LOGIN IN ROLE {role}")
        opened.append(connect(user=user))
        return opened[-1]

    yield login
    for connection in opened:
        connection.close()


def test_the_script_can_be_applied_again(granted):
    granted.execute((SQL / "roles.sql").read_text())
    found = granted.execute("SELECT rolname, rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls"
                            " FROM pg_roles WHERE rolname LIKE 'inboxd\\_%' ORDER BY 1").fetchall()
    assert found == [(role, False) for role in sorted(ROLES)]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_these_rights_on_tables_and_no_other(granted, role):
    rows = granted.execute("""
        SELECT c.relname, r.name FROM pg_class c
        CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) r(name)
        WHERE c.relnamespace = 'inbox'::regnamespace AND c.relkind IN ('r', 'v')
          AND has_table_privilege(%s, c.oid, r.name)""", [role]).fetchall()
    assert set(rows) == MAY[role]


def test_every_table_and_view_is_covered_by_this_test(granted):
    rows = granted.execute("SELECT relname FROM pg_class WHERE relnamespace = 'inbox'::regnamespace"
                           " AND relkind IN ('r', 'v')").fetchall()
    assert {row[0] for row in rows} == set(ALL_TABLES)


@pytest.fixture
def owner(connect):
    """owner(*roles) -> a superuser's connection, in a database without the schema and with these roles."""
    db = connect()
    made = []

    def make(*roles):
        db.execute("SET client_min_messages = error")
        db.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
        for role in roles:
            db.execute(f"DROP ROLE IF EXISTS {role}")
            db.execute(f"CREATE ROLE {role}")
            made.append(role)
        return db

    yield make
    db.execute("RESET ROLE")
    db.execute("DROP SCHEMA inbox CASCADE")
    for role in made:
        db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_grants_are_kept_when_a_function_gains_a_parameter(owner):
    """To PostgreSQL that is a new function. It gets the owner and the grants of the earlier one."""
    db = owner("before_owner", "before_seeks")
    db.execute("CREATE SCHEMA inbox")
    migrate(db)
    db.execute("GRANT EXECUTE ON FUNCTION inbox.seek TO before_seeks WITH GRANT OPTION")
    db.execute("ALTER FUNCTION inbox.seek OWNER TO before_owner")
    db.execute(functions().replace("next_offset bigint, reason text DEFAULT NULL", "next_offset bigint, reason text, more int"))
    rows = db.execute("SELECT pronargs, proowner::regrole::text, has_function_privilege('before_seeks', oid,"
                      " 'EXECUTE WITH GRANT OPTION'), has_function_privilege('public', oid, 'EXECUTE')"
                      " FROM pg_proc WHERE proname = 'seek' AND pronamespace = 'inbox'::regnamespace ORDER BY 1").fetchall()
    assert rows == [(4, "before_owner", True, False), (5, "before_owner", True, False)]


def test_a_migration_keeps_owners_and_grants(owner):
    db = owner("before_owner", "before_looks")
    db.execute("CREATE SCHEMA inbox")
    migrate(db)
    db.execute("ALTER FUNCTION inbox.purge OWNER TO before_owner")
    db.execute("GRANT EXECUTE ON FUNCTION inbox.status TO before_looks, PUBLIC")
    rights = "SELECT oid::regprocedure::text, proowner, proacl::text FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace ORDER BY 1"
    before = db.execute(rights).fetchall()
    db.execute(functions())
    assert db.execute(rights).fetchall() == before


def test_objects_keep_their_owner_when_a_superuser_migrates(owner):
    """retain() and replay_where() keep their owner, and call functions that were created later. The same is true for
    tables and views."""
    db = owner("before_owner")
    db.execute("CREATE SCHEMA inbox AUTHORIZATION before_owner")
    db.execute("SET ROLE before_owner")
    migrate(db)
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (1, 'me', 1)")
    later = ("inbox.walk_rows", "inbox.warn_of_rest", "inbox.look_page", "inbox.replay_seqs")
    for name in later:
        db.execute(f"DROP FUNCTION {name}")
    db.execute("DROP VIEW inbox.dead_groups")
    db.execute("RESET ROLE")
    db.execute("CREATE TABLE inbox.inbox_later (n int)")
    db.execute(functions())
    assert db.execute("SELECT DISTINCT proowner::regrole::text, has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc"
                      " WHERE pronamespace = 'inbox'::regnamespace").fetchall() == [("before_owner", False)]
    assert db.execute("SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'inbox'::regnamespace"
                      " AND relkind IN ('r', 'v', 'S')").fetchall() == [("before_owner",)]
    db.execute("SET ROLE before_owner")
    assert db.execute("SELECT elected FROM inbox.retain(1, 'dead', 0, 10)").fetchone() == (True,)
    assert db.execute("SELECT inbox.replay_where(dry_run => true)").fetchone() == (0,)
    db.execute("SELECT inbox.warn_of_rest('replay_where', 1, 1)")


def test_an_owner_may_have_any_name(owner):
    db = owner('"Before-owner"')
    db.execute('CREATE SCHEMA inbox AUTHORIZATION "Before-owner"; SET ROLE "Before-owner"')
    migrate(db)
    db.execute("DROP FUNCTION inbox.warn_of_rest; RESET ROLE")
    db.execute("CREATE TABLE inbox.inbox_later (n int)")
    db.execute(functions())
    assert db.execute("SELECT DISTINCT pg_get_userbyid(proowner) FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace"
                      " UNION SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'inbox_later'"
                      ).fetchall() == [("Before-owner",)]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_call_these_functions_and_no_other(granted, role):
    rows = granted.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace"
                           " AND has_function_privilege(%s, oid, 'EXECUTE')", [role]).fetchall()
    assert {row[0] for row in rows} == CALLS[role]


@pytest.mark.parametrize("options", [True, False])
def test_a_membership_without_inherit_and_set_is_not_listed(granted, statements, options):
    """From PostgreSQL 16 on, a creator without superuser gets such a membership in the role. A table stands in for that of the
    server, so that any server shows this."""
    granted.execute("CREATE TEMP TABLE pg_auth_members AS SELECT r.oid AS roleid, u.oid AS member, o.inherit_option, o.set_option"
                    " FROM pg_roles r, (VALUES ('pg_monitor', false, false), ('pg_read_all_stats', false, true),"
                    " ('pg_signal_backend', true, false)) AS o(name, inherit_option, set_option)"
                    " JOIN pg_roles u ON u.rolname = o.name WHERE r.rolname = 'inboxd_reader'")
    if not options:  # before PostgreSQL 16
        granted.execute("ALTER TABLE pg_temp.pg_auth_members DROP inherit_option, DROP set_option")
    granted.execute("SET search_path = pg_temp, pg_catalog")
    assert {row[0]: row[2] for row in statements.run("list_roles", None)}["inboxd_reader"] == \
        ("" if options else "pg_monitor, ") + "pg_read_all_stats, pg_signal_backend"


def test_an_operator_updates_two_columns_only(granted):
    rows = granted.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'inbox.inbox_messages'::regclass"
                           " AND attnum > 0 AND has_column_privilege('inboxd_operator', attrelid, attnum, 'UPDATE')")
    assert {row[0] for row in rows.fetchall()} == {"processed_at", "dead_at"}


def test_a_handler_can_complete_and_read_nothing(granted, as_role):
    seq = insert(granted)
    handler = as_role("inboxd_handler")
    for sql in ("SELECT * FROM inbox.inbox_messages", "SELECT * FROM inbox.messages", "SELECT inbox.status()",
                "SELECT inbox.replay('s', 'a')", "UPDATE inbox.inbox_messages SET dead_at = now()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            handler.execute(sql)
    handler.execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
    assert value(granted, "SELECT processed_at IS NOT NULL FROM inbox.inbox_messages")
    seq = insert(granted, "b", kafka_offset=2)
    handler.execute("SELECT inbox.complete(ARRAY[%s])", [f"{seq}.1.1"])
    assert value(granted, "SELECT bool_and(processed_at IS NOT NULL) FROM inbox.inbox_messages")


def test_a_handler_can_emit_with_its_completion(granted, as_role):
    seq = insert(granted)
    as_role("inboxd_handler").execute("SELECT inbox.complete(%s, NULL, '[{\"topic\": \"t\", \"type\": \"t\"}]')", [f"{seq}.1.1"])
    assert value(granted, "SELECT caused_by FROM inbox.events") == seq


def test_a_service_can_emit_and_read_nothing(granted, as_role):
    service = as_role("inboxd_service")
    service.execute("SELECT inbox.lock_key('t', 'k'), inbox.emit('t', 'k', 't', '{}', '{\"h\": \"v\"}'),"
                    " inbox.emit_bytes('t', 'k', 't', 'x', 'text/plain')")
    with service.transaction():
        service.execute("INSERT INTO inbox.outboxevent (id, aggregatetype, aggregateid, type, payload)"
                        " VALUES (gen_random_uuid(), 'a', '1', 't', 'secret')")
        assert service.execute("DELETE FROM inbox.outboxevent WHERE aggregateid = '1'").rowcount == 1
    assert value(granted, "SELECT count(*) FROM inbox.events WHERE status = 'waiting'") == 3
    for sql in ("SELECT * FROM inbox.outbox", "SELECT * FROM inbox.events", "DELETE FROM inbox.outbox",
                "INSERT INTO inbox.outbox (topic, event_type) VALUES ('t', 't')", "SELECT nextval('inbox.outbox_seq')",
                "SELECT inbox.outbox_replay_where()", "SELECT inbox.outbox_status()",
                "SELECT inbox.emit_caused(1, 's', 'e', '', 0, '[]', '[]')", "SELECT inbox.complete('1.1.1')",
                "SELECT * FROM inbox.inbox_messages"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            service.execute(sql)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="cannot update view"):
        service.execute("UPDATE inbox.outboxevent SET type = 'x'")


def test_a_service_makes_requests_repeatable_and_reads_no_other_response(granted, as_role):
    service = as_role("inboxd_service")
    with service.transaction():
        token = value(service, "SELECT token FROM inbox.request_begin('k', inbox.request_digest('POST', '/', 'b'))")
        service.execute("SELECT inbox.request_complete(%s, 200, 'body', '{\"a\": \"b\"}')", [token])
    leased = value(service, "SELECT token FROM inbox.request_begin('l', NULL, lease => '1 minute')")
    service.execute("SELECT inbox.request_extend(%s, '1 minute', 'p'), inbox.request_fail(%s)", [leased, leased])
    service.execute("SELECT * FROM inbox.result('s', 'a')")
    with service.transaction():
        token = value(service, "SELECT token FROM inbox.http_request_begin('h', 'POST', '/', 'b')")
        assert value(service, "SELECT commits FROM inbox.http_request_complete(%s, 200, '{\"a\": \"b\"}', 'body')", token)
    with pytest.raises(psycopg.Error, match="method is 'a b'"):
        service.execute("SELECT inbox.request_digest('a b', '/', NULL)")
    readers = [as_role(role) for role in ("inboxd_reader", "inboxd_operator", "inboxd_sidecar", "inboxd_handler")]
    for user in [service, *readers]:
        for sql in ("SELECT body FROM inbox.requests", "SELECT inbox.put_request(NULL, 1)", "DELETE FROM inbox.requests"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                user.execute(sql)
    for user in (service, readers[0], readers[2], readers[3]):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            user.execute("SELECT inbox.request_forget('', 'k', 'r')")
    assert value(readers[0], "SELECT state FROM inbox.request_states WHERE key = 'k'") == "COMPLETED"
    assert value(readers[1], "SELECT inbox.request_forget('', 'k', 'r')")


def test_a_service_reads_no_event_of_others_in_the_view(granted, as_role):
    """The setting with the number of its rows is no secret."""
    granted.execute("INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES ('a', 'secret', 't')")
    oid = value(granted, "SELECT 'inbox.outbox'::regclass::oid")
    service = as_role("inboxd_service")
    service.execute("CREATE FUNCTION pg_temp.look(words text) RETURNS boolean LANGUAGE plpgsql COST 0.000001"
                    " AS $$BEGIN RAISE 'read: %', words; END$$")
    for isolation in ("READ COMMITTED", "REPEATABLE READ"):
        with service.transaction():
            service.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            service.execute(f"SELECT set_config('inboxd.outboxevents_{oid}', '99', true)")
            assert service.execute("SELECT * FROM inbox.outboxevent").fetchall() == []
            assert service.execute("SELECT FROM inbox.outboxevent WHERE pg_temp.look(aggregateid)").fetchall() == []
            service.execute("INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES ('a', 'own', 't')")
            assert service.execute("SELECT aggregateid FROM inbox.outboxevent").fetchall() == [("own",)]


def test_an_operator_replays_and_discards_events(granted, as_role):
    granted.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
    operator = as_role("inboxd_operator")
    assert value(operator, "SELECT inbox.outbox_discard_where(reason => 'r')") == 1
    assert value(operator, "SELECT affected FROM inbox.outbox_replay_page('{\"status\": \"discarded\"}', 0, 10)") == 1
    assert value(operator, "SELECT inbox.outbox_status() ->> 'retrying'") == "1"
    assert operator.execute("SELECT action, who FROM inbox.inbox_audit ORDER BY seq").fetchall() == [
        ("outbox_discard", "user_of_inboxd_operator"), ("outbox_replay", "user_of_inboxd_operator")]
    for sql in ("DELETE FROM inbox.outbox", "UPDATE inbox.outbox SET dead_at = NULL", "SELECT inbox.emit('t', 'k', 't', '{}')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute(sql)


def test_the_sidecar_role_can_run_the_relay(granted, as_role):
    granted.execute("SELECT inbox.emit('t', 'k', 't', '{}') FROM generate_series(1, 4)")
    sidecar = as_role("inboxd_sidecar")
    run = Statements(sidecar).run
    assert run("relay_elect", 1, -1, 0, [], [])[0][:2] == (0, 4)
    assert len(run("relay_hold", 1)) == 1
    assert len(run("relay_read", 10, 1000, 0)) == 4
    assert run("relay_delete", [1], 1) == run("relay_keep", [2], [0], [0], 1) == []
    assert run("relay_defer", [3], [1], [0], [0], [None], [None], 1) == []
    assert len(run("relay_parked", 10, 0)) == 1
    assert value(sidecar, "SELECT inbox.emit_caused(1, 's', 'e', '', 0, '[]', '[{\"topic\": \"t\", \"type\": \"t\"}]')") == 1
    assert run("relay_backlog", 10)[0][:2] == (3, 1)


def test_an_operator_can_replay_by_function_and_by_plain_sql(granted, as_role):
    dead(granted, "a")
    dead(granted, "b")
    waiting(granted, "w")
    operator = as_role("inboxd_operator")
    assert value(operator, "SELECT inbox.replay_where(max_rows => 1)") == 1
    operator.execute("UPDATE inbox.inbox_messages SET dead_at = NULL WHERE event_id = 'b'")
    assert value(operator, "SELECT inbox.discard('s', 'w')") is True
    granted.execute("UPDATE inbox.inbox_instances SET fenced_at = now()")  # adopt requires that no sidecar runs
    operator.execute("SELECT inbox.purge('1 day'), inbox.seek('orders', 0, 5), inbox.adopt('c', 'g')")
    assert value(operator, "SELECT count(*) FROM inbox.messages WHERE status = 'waiting'") == 2
    assert {row[0] for row in operator.execute("SELECT who FROM inbox.inbox_audit")} == {"user_of_inboxd_operator"}
    names = granted.execute("SELECT attempts -> 0 ->> 'replayed_by' FROM inbox.inbox_messages"
                            " WHERE replay_count > 0").fetchall()
    assert set(names) == {("user_of_inboxd_operator",)}


def test_an_operator_can_mark_a_dead_message_processed_by_plain_sql(granted, as_role):
    dead(granted, "a")
    operator = as_role("inboxd_operator")
    operator.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL WHERE event_id = 'a'")
    assert operator.execute("SELECT status, error, error_code, replay_count FROM inbox.messages").fetchall() == \
        [("processed", "boom", "E", 0)]
    assert value(operator, "SELECT inbox.status() ->> 'dead'") == "0"
    assert value(operator, "SELECT inbox.replay('s', 'a')") is True


def test_ending_a_claimed_message_by_plain_sql_revokes_its_claim(granted, as_role):
    seq = insert(granted)
    as_role("inboxd_operator").execute("UPDATE inbox.inbox_messages SET processed_at = now()")
    assert value(granted, "SELECT status FROM inbox.messages") == "processed"
    with pytest.raises(psycopg.Error) as lost:
        as_role("inboxd_handler").execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
    assert lost.value.sqlstate == "IB001"


@pytest.mark.parametrize("sql", ["DELETE FROM inbox.inbox_messages", "UPDATE inbox.inbox_messages SET payload = ''",
                                 "DELETE FROM inbox.inbox_audit", "INSERT INTO inbox.inbox_audit (action) VALUES ('x')",
                                 "UPDATE inbox.inbox_offsets SET next_offset = 0",
                                 "SELECT inbox.replay_seqs(ARRAY[1], NULL, NULL)",
                                 "SELECT inbox.audit('x', NULL, NULL, 1)"])
def test_an_operator_cannot_bypass_the_functions(as_role, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role("inboxd_operator").execute(sql)


def test_a_reader_can_read_and_change_nothing(granted, as_role):
    dead(granted, "a", payload=b'{"n": 1}')
    reader = as_role("inboxd_reader")
    assert value(reader, "SELECT payload_json FROM inbox.messages") == {"n": 1}
    assert value(reader, "SELECT messages FROM inbox.dead_groups") == 1
    assert value(reader, "SELECT inbox.status() ->> 'dead'") == "1"
    assert value(reader, "SELECT cardinality(seqs) FROM inbox.look_page('{\"status\": \"dead\"}', 0, 10)") == 1
    for sql in ("SELECT inbox.replay('s', 'a')", "UPDATE inbox.inbox_messages SET dead_at = NULL",
                "SELECT inbox.purge('0')", "DELETE FROM inbox.inbox_messages"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(sql)


@pytest.mark.parametrize("name, values", [
    ("op_status", []), ("op_find", ["a", None, None, '{"below": 1, "also": {}}']), ("op_show", ["a", None, None]), ("op_show_facts", [1]),
    ("op_list", ['{"status": "dead"}', 0, 10, "died DESC"]), ("op_groups", ['{"status": "dead"}', 10]),
    ("op_list_rejects", ["{}", 0, 10]), ("op_list_conflicts", ["{}", 0, 10]), ("op_watermark", ["orders", 0]),
    ("op_outbox_status", []), ("op_outbox_list", ['{"status": "any"}', 0, 10]), ("op_outbox_show", ["1"]), ("op_outbox_facts", [1]),
    ("op_handlers", []), ("op_consumers", []), ("op_keys", ["{}", 0, 10]), ("op_skip_find", ["orders", "k", "", None]),
    ("op_backfill_count", ['{"consumer": "search"}']), ("op_backfill_waiting", [10]), ("op_verify", ["orders", 0, [1], ["s"], ["a"], [None], [None], [None]]), ("schema_version", [])])
def test_the_sidecar_role_can_read_what_a_reader_can(granted, as_role, name, values):
    dead(granted, "a", payload=b'{"n": 1}')
    granted.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('search', 'key', '1 h')")
    granted.execute("SELECT inbox.emit('t', 'k', 't', '{}', '{\"h\": \"v\"}')")
    sees = [Statements(as_role(role)).run(name, *values) for role in ("inboxd_sidecar", "inboxd_reader")]
    assert sees[0] == sees[1]


@pytest.mark.parametrize("sql", ["DELETE FROM inbox.inbox_messages", "SELECT inbox.replay_where()",
                                 "SELECT inbox.replay('s', 'a')", "SELECT inbox.discard('s', 'a')",
                                 "SELECT inbox.purge('0')", "SELECT inbox.seek('orders', 0, 0)",
                                 "SELECT * FROM inbox.inbox_audit", "UPDATE inbox.inbox_binding SET group_id = 'x'",
                                 "CREATE TABLE inbox.mine (n int)"])
def test_the_sidecar_role_cannot_delete_or_operate(as_role, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role("inboxd_sidecar").execute(sql)
