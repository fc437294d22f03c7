"""What each of the four roles may do, and what it may not."""

import psycopg
import pytest

from statements import MIGRATIONS, SQL, Statements, script
from test_functions import insert
from test_operators import dead, value, waiting

ROLES = ["inboxd_sidecar", "inboxd_handler", "inboxd_operator", "inboxd_reader"]
TABLES = ["inbox_messages", "inbox_offsets", "inbox_instances", "inbox_rejects", "inbox_conflicts", "inbox_audit",
          "inbox_binding", "inbox_schema_version", "inbox_janitor", "inbox_dead_topic", "inbox_handlers",
          "messages", "dead_groups", "handlers"]
READ = {(table, "SELECT") for table in TABLES}
MAY = {
    "inboxd_sidecar": {(table, right) for table in TABLES[:3] for right in ("SELECT", "INSERT", "UPDATE")}
                      | {(table, right) for table in ("inbox_rejects", "inbox_conflicts", "inbox_binding")
                         for right in ("SELECT", "INSERT")}
                      | {("inbox_dead_topic", right) for right in ("SELECT", "INSERT", "UPDATE")}
                      | {("inbox_handlers", right) for right in ("SELECT", "INSERT", "UPDATE", "DELETE")}
                      | {("inbox_schema_version", "SELECT"), ("messages", "SELECT"), ("dead_groups", "SELECT"), ("handlers", "SELECT")},
    "inboxd_handler": set(),
    "inboxd_operator": READ,
    "inboxd_reader": READ,
}
LOOKS = {"try_text", "try_json", "error_shape", "find_page", "look_page", "seq_before", "check_filter", "refuse", "status", "handler_of"}
ACTS = {"replay", "replay_where", "replay_page", "replay_reject", "discard", "discard_where", "discard_page",
        "purge", "seek", "adopt", "forget_handler"}
CALLS = {"inboxd_sidecar": {"retain", "sequences_behind", "advance_sequences"} | LOOKS,
         "inboxd_handler": {"complete"}, "inboxd_operator": LOOKS | ACTS,
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


def test_every_table_and_view_is_known_here(granted):
    rows = granted.execute("SELECT relname FROM pg_class WHERE relnamespace = 'inbox'::regnamespace"
                           " AND relkind IN ('r', 'v')").fetchall()
    assert {row[0] for row in rows} == set(TABLES)


def test_who_could_replay_before_a_parameter_came_can_afterwards(connect):
    """0005, 0007 and 0011 replace functions by ones with a parameter more: owner and grants go over."""
    db = connect()
    db.execute("SET client_min_messages = error")
    db.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
    for role in ("before_owner", "before_replays", "before_discards"):
        db.execute(f"DROP ROLE IF EXISTS {role}")
        db.execute(f"CREATE ROLE {role}")
    try:
        db.execute("CREATE SCHEMA inbox")
        db.execute("CREATE TABLE inbox.inbox_schema_version (version int PRIMARY KEY)")
        for migration in MIGRATIONS[:4]:
            db.execute(script(migration))
        signature = "(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text)"
        db.execute(f"GRANT EXECUTE ON FUNCTION inbox.replay_where{signature} TO before_replays WITH GRANT OPTION")
        db.execute(f"GRANT EXECUTE ON FUNCTION inbox.discard_where{signature} TO before_discards")
        db.execute(f"ALTER FUNCTION inbox.discard_where{signature} OWNER TO before_owner")
        db.execute(MIGRATIONS[4].read_text())
        rows = db.execute("SELECT proname, pronargs, prosecdef, r.name FROM pg_proc CROSS JOIN unnest(ARRAY["
                          "'before_owner', 'before_replays', 'before_discards', 'public']) r(name)"
                          " WHERE pronamespace = 'inbox'::regnamespace AND proname ~ '_where'"
                          " AND has_function_privilege(r.name, oid, 'EXECUTE') ORDER BY 1, 4").fetchall()
        assert rows == [("discard_where", 11, True, "before_discards"), ("discard_where", 11, True, "before_owner"),
                        ("replay_where", 11, True, "before_replays")]
        owners = db.execute("SELECT proname, pg_get_userbyid(proowner) = 'before_owner', has_function_privilege("
                            "'before_replays', oid, 'EXECUTE WITH GRANT OPTION') FROM pg_proc"
                            " WHERE proname IN ('replay_where', 'discard_where') ORDER BY 1").fetchall()
        assert owners == [("discard_where", True, False), ("replay_where", False, True)]

        db.execute(MIGRATIONS[5].read_text())
        rejects = "inbox.replay_reject(bigint, text, text, text"
        db.execute(f"GRANT EXECUTE ON FUNCTION {rejects}) TO before_replays WITH GRANT OPTION")
        db.execute(f"ALTER FUNCTION {rejects}) OWNER TO before_owner")
        db.execute("GRANT EXECUTE ON FUNCTION inbox.seek(text, int, bigint) TO before_replays WITH GRANT OPTION")
        db.execute("ALTER FUNCTION inbox.seek(text, int, bigint) OWNER TO before_owner")
        for migration in MIGRATIONS[6:]:
            db.execute(script(migration))
        assert db.execute("SELECT pronargs, proowner::regrole::text, has_function_privilege('before_replays', oid,"
                          " 'EXECUTE WITH GRANT OPTION'), has_function_privilege('public', oid, 'EXECUTE')"
                          " FROM pg_proc WHERE proname ~ '^(replay_reject|seek)' ORDER BY 1 DESC").fetchall() == \
            [(5, "before_owner", True, False), (4, "before_owner", True, False)]
    finally:
        db.execute("DROP SCHEMA inbox CASCADE")
        for role in ("before_owner", "before_replays", "before_discards"):
            db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_who_could_look_and_replay_before_reads_followed_an_index_can_afterwards(connect):
    """0015 gives replay_where() and discard_where() a parameter more, and find_page() two heirs."""
    db = connect()
    db.execute("SET client_min_messages = error")
    db.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
    roles = ("before_owner", "before_looks", "before_replays")
    for role in roles:
        db.execute(f"DROP ROLE IF EXISTS {role}")
        db.execute(f"CREATE ROLE {role}")
    (reads,) = [number for number, path in enumerate(MIGRATIONS) if path.stem.endswith("_reads")]
    try:
        db.execute("CREATE SCHEMA inbox")
        db.execute("CREATE TABLE inbox.inbox_schema_version (version int PRIMARY KEY)")
        for migration in MIGRATIONS[:reads]:
            db.execute(script(migration))
        db.execute("GRANT EXECUTE ON FUNCTION inbox.find_page TO before_looks")
        db.execute("GRANT EXECUTE ON FUNCTION inbox.replay_where TO before_replays WITH GRANT OPTION")
        db.execute("ALTER FUNCTION inbox.discard_where OWNER TO before_owner")
        db.execute(script(MIGRATIONS[reads]))
        rows = db.execute("SELECT proname, r.name, has_function_privilege(r.name, oid, 'EXECUTE WITH GRANT OPTION')"
                          " FROM pg_proc CROSS JOIN unnest(%s || ARRAY['public']) r(name)"
                          " WHERE pronamespace = 'inbox'::regnamespace AND has_function_privilege(r.name, oid, 'EXECUTE')"
                          " ORDER BY 1, 2", [list(roles)]).fetchall()
        assert rows == [("discard_where", "before_owner", True), ("find_page", "before_looks", False),
                        ("look_page", "before_looks", False), ("replay_where", "before_replays", True),
                        ("seq_before", "before_looks", False)]
    finally:
        db.execute("DROP SCHEMA inbox CASCADE")
        for role in roles:
            db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_what_the_owner_calls_is_the_owners_when_a_superuser_migrates(connect):
    """retain() and replay_where() stay with their owner, and call functions that came later."""
    db = connect()
    db.execute("SET client_min_messages = error")
    db.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
    db.execute("DROP ROLE IF EXISTS before_owner")
    db.execute("CREATE ROLE before_owner")
    try:
        db.execute("CREATE SCHEMA inbox AUTHORIZATION before_owner")
        db.execute("SET ROLE before_owner")
        db.execute("CREATE TABLE inbox.inbox_schema_version (version int PRIMARY KEY)")
        for migration in MIGRATIONS[:7]:
            db.execute(script(migration))
        db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (1, 'me', 1)")
        db.execute("RESET ROLE")
        for migration in MIGRATIONS[7:]:
            db.execute(script(migration))
        db.execute("SET ROLE before_owner")
        assert db.execute("SELECT elected FROM inbox.retain(1, 'dead', 0, 10)").fetchone() == (True,)
        assert db.execute("SELECT inbox.replay_where(dry_run => true)").fetchone() == (0,)
        db.execute("SELECT inbox.warn_of_rest('replay_where', 1, 1)")
    finally:
        db.execute("RESET ROLE")
        db.execute("DROP SCHEMA inbox CASCADE")
        db.execute("DROP ROLE before_owner")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_call_these_functions_and_no_other(granted, role):
    rows = granted.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace"
                           " AND has_function_privilege(%s, oid, 'EXECUTE')", [role]).fetchall()
    assert {row[0] for row in rows} == CALLS[role]


def test_an_operator_updates_two_columns_only(granted):
    rows = granted.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'inbox.inbox_messages'::regclass"
                           " AND attnum > 0 AND has_column_privilege('inboxd_operator', attrelid, attnum, 'UPDATE')")
    assert {row[0] for row in rows.fetchall()} == {"processed_at", "dead_at"}


def test_a_handler_completes_and_sees_nothing(granted, as_role):
    seq = insert(granted)
    handler = as_role("inboxd_handler")
    for sql in ("SELECT * FROM inbox.inbox_messages", "SELECT * FROM inbox.messages", "SELECT inbox.status()",
                "SELECT inbox.replay('s', 'a')", "UPDATE inbox.inbox_messages SET dead_at = now()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            handler.execute(sql)
    handler.execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
    assert value(granted, "SELECT processed_at IS NOT NULL FROM inbox.inbox_messages")


def test_an_operator_replays_by_function_and_by_plain_sql_under_its_own_name(granted, as_role):
    dead(granted, "a")
    dead(granted, "b")
    waiting(granted, "w")
    operator = as_role("inboxd_operator")
    assert value(operator, "SELECT inbox.replay_where(max_rows => 1)") == 1
    operator.execute("UPDATE inbox.inbox_messages SET dead_at = NULL WHERE event_id = 'b'")
    assert value(operator, "SELECT inbox.discard('s', 'w')") is True
    granted.execute("UPDATE inbox.inbox_instances SET fenced_at = now()")  # adopt wants no sidecar alive
    operator.execute("SELECT inbox.purge('1 day'), inbox.seek('orders', 0, 5), inbox.adopt('c', 'g')")
    assert value(operator, "SELECT count(*) FROM inbox.messages WHERE status = 'waiting'") == 2
    assert {row[0] for row in operator.execute("SELECT who FROM inbox.inbox_audit")} == {"user_of_inboxd_operator"}
    names = granted.execute("SELECT attempts -> 0 ->> 'replayed_by' FROM inbox.inbox_messages"
                            " WHERE replay_count > 0").fetchall()
    assert set(names) == {("user_of_inboxd_operator",)}


def test_an_operator_calls_a_dead_message_done_by_plain_sql(granted, as_role):
    dead(granted, "a")
    operator = as_role("inboxd_operator")
    operator.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL WHERE event_id = 'a'")
    assert operator.execute("SELECT status, error, error_code, replay_count FROM inbox.messages").fetchall() == \
        [("processed", "boom", "E", 0)]
    assert value(operator, "SELECT inbox.status() ->> 'dead'") == "0"
    assert value(operator, "SELECT inbox.replay('s', 'a')") is True


def test_an_operator_who_ends_a_claimed_message_by_plain_sql_takes_its_claim(granted, as_role):
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
def test_an_operator_has_no_way_around_the_functions(as_role, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role("inboxd_operator").execute(sql)


def test_a_reader_finds_and_changes_nothing(granted, as_role):
    dead(granted, "a", payload=b'{"n": 1}')
    reader = as_role("inboxd_reader")
    assert value(reader, "SELECT payload_json FROM inbox.messages") == {"n": 1}
    assert value(reader, "SELECT messages FROM inbox.dead_groups") == 1
    assert value(reader, "SELECT inbox.status() ->> 'dead'") == "1"
    assert value(reader, "SELECT count(*) FROM inbox.find_page('{\"status\": \"dead\"}', 0, 10)") == 1
    for sql in ("SELECT inbox.replay('s', 'a')", "UPDATE inbox.inbox_messages SET dead_at = NULL",
                "SELECT inbox.purge('0')", "DELETE FROM inbox.inbox_messages"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(sql)


@pytest.mark.parametrize("name, values", [
    ("op_status", []), ("op_find", ["a", None]), ("op_show", ["a", None]), ("op_show_facts", [1]),
    ("op_list", ['{"status": "dead"}', 0, 10]), ("op_groups", ['{"status": "dead"}', 10]),
    ("op_list_rejects", ["{}", 0, 10]), ("op_list_conflicts", ["{}", 0, 10]), ("op_watermark", ["orders", 0]),
    ("op_handlers", []), ("op_verify", ["orders", 0, [1], ["s"], ["a"], [None]]), ("schema_version", [])])
def test_a_sidecars_user_looks_as_a_reader_does(granted, as_role, name, values):
    dead(granted, "a", payload=b'{"n": 1}')
    sees = [Statements(as_role(role)).run(name, *values) for role in ("inboxd_sidecar", "inboxd_reader")]
    assert sees[0] == sees[1]


@pytest.mark.parametrize("sql", ["DELETE FROM inbox.inbox_messages", "SELECT inbox.replay_where()",
                                 "SELECT inbox.replay('s', 'a')", "SELECT inbox.discard('s', 'a')",
                                 "SELECT inbox.purge('0')", "SELECT inbox.seek('orders', 0, 0)",
                                 "SELECT * FROM inbox.inbox_audit", "UPDATE inbox.inbox_binding SET group_id = 'x'",
                                 "CREATE TABLE inbox.mine (n int)"])
def test_a_sidecar_neither_deletes_nor_operates(as_role, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role("inboxd_sidecar").execute(sql)
