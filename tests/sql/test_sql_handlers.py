"""inbox.call_handler and inbox.sql_handler_problem, which sidecars use to call functions of the service."""

import contextlib
import json
import threading

import psycopg
import pytest

from statements import Statements
from support.wait import eventually
from test_functions import insert, row_of

NO_EFFECTS = []
ARGUMENTS = {"own_id": 1, "count": 1, "behind": None, "handler": "billing", "callee": "orders.on_event", "role": None,
             "limit": 60_000}


@pytest.fixture
def service(db):
    """service(body, returns="void") makes the function orders.on_event with this body."""
    db.execute("DROP SCHEMA IF EXISTS orders CASCADE")
    db.execute("CREATE SCHEMA orders")
    db.execute("CREATE TABLE orders.effects (event_id text)")

    def make(body="INSERT INTO orders.effects VALUES (event.event_id);", returns="void", settings=""):
        db.execute(f"CREATE OR REPLACE FUNCTION orders.on_event(event inbox.messages) RETURNS {returns}"
                   f" LANGUAGE plpgsql {settings} AS $$ BEGIN {body} END $$")
        return db

    yield make
    db.execute("DROP SCHEMA orders CASCADE")


def call(db, seq, **changes):
    """(status, code, error, delay in ms) of a call, with the statement of the sidecar."""
    given = {**ARGUMENTS, **changes}
    values = [given["own_id"], seq, given["count"], given["behind"], given["handler"], given["callee"], given["role"],
              given["limit"]]
    return Statements(db).run("call_handler", *values)[0]


def effects(db):
    return [row[0] for row in db.execute("SELECT event_id FROM orders.effects ORDER BY 1")]


def state(db, seq):
    row = row_of(db, seq)
    return row["status"], row["handler"], row["result"]


def test_the_effect_and_the_message_are_done_together(service):
    db = service()
    seq = insert(db)
    assert call(db, seq) == ("done", None, None, None)
    assert effects(db) == ["a"]
    assert state(db, seq) == ("processed", "billing", None)


def test_the_function_gets_the_row_of_the_view(service):
    db = service("INSERT INTO orders.effects VALUES (event.payload_json->>'order'), (event.status), (event.topic);")
    assert call(db, insert(db, payload=b'{"order": "17"}'))[0] == "done"
    assert effects(db) == ["17", "claimed", "orders"]


@pytest.mark.parametrize("value,result", [("'{\"n\": 1}'", {"n": 1}), ("NULL", None), ("'null'", None), ("'[1, \"x\"]'", [1, "x"])])
def test_what_the_function_returns_is_the_result(service, value, result):
    db = service(f"RETURN {value}::jsonb;", returns="jsonb")
    seq = insert(db)
    assert call(db, seq)[0] == "done"
    assert state(db, seq) == ("processed", "billing", result)


def test_a_result_that_is_too_long_is_replaced_by_a_note(service):
    db = service("RETURN to_jsonb(repeat('x', 1048575));", returns="jsonb")
    seq = insert(db)
    assert call(db, seq)[0] == "done"
    assert state(db, seq)[2] == "result not stored: it is longer than 1048576 bytes"


@pytest.mark.parametrize("raised,verdict", [
    ("RAISE EXCEPTION 'no stock'", ("retry", "P0001", "no stock", None)),
    ("PERFORM 1 / 0", ("retry", "22012", "division by zero", None)),
    ("ASSERT false, 'never'", ("retry", "P0004", "never", None)),
    ("RAISE EXCEPTION 'schema v9' USING ERRCODE = 'IB100'", ("dead", "IB100", "schema v9", None)),
    ("RAISE EXCEPTION 'later' USING ERRCODE = 'IB101', DETAIL = '90 seconds'", ("snooze", "IB101", "later", 90_000)),
    ("RAISE EXCEPTION 'later' USING ERRCODE = 'IB101'", ("snooze", "IB101", "later", None)),
    ("RAISE EXCEPTION 'later' USING ERRCODE = 'IB101', DETAIL = '-1 hour'", ("snooze", "IB101", "later", 0)),
    ("RAISE EXCEPTION 'later' USING ERRCODE = 'IB101', DETAIL = '9 years'", ("snooze", "IB101", "later", 31_622_400_000)),
    ("RAISE EXCEPTION 'later' USING ERRCODE = 'IB101', DETAIL = 'soon'",
     ("retry", "PROTOCOL", "the DETAIL of SQLSTATE IB101 is no interval: 'soon'", None)),
    ("RAISE EXCEPTION 'cut' USING ERRCODE = '57014'", ("timeout", "TIMEOUT", "cut", None)),
    ("RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01', DETAIL = '1 hour'", ("snooze", "40P01", "deadlock", 1000)),
    ("SET LOCAL lock_timeout = '1ms'; PERFORM pg_advisory_xact_lock(4711)",
     ("snooze", "55P03", "canceling statement due to lock timeout", 1000)),
    ("RAISE EXCEPTION 'in use' USING ERRCODE = '55006'", ("snooze", "55006", "in use", 1000)),
    ("RAISE EXCEPTION 'full' USING ERRCODE = '53100'", ("snooze", "53100", "full", 1000)),
    ("RAISE EXCEPTION 'away' USING ERRCODE = '08006'", ("snooze", "08006", "away", 1000)),
    ("COMMIT", ("retry", "2D000", "invalid transaction termination", None)),
    ("ROLLBACK", ("retry", "2D000", "invalid transaction termination", None)),
    ("EXECUTE 'SAVEPOINT x'", ("retry", "0A000", "EXECUTE of transaction commands is not implemented", None)),
])
def test_an_error_is_a_verdict_and_leaves_no_effect(service, connect, raised, verdict):
    if "4711" in raised:
        connect().execute("SELECT pg_advisory_lock(4711)")
    db = service(f"INSERT INTO orders.effects VALUES ('x'); {raised};")
    seq = insert(db)
    assert call(db, seq) == verdict
    assert effects(db) == NO_EFFECTS
    assert state(db, seq) == ("claimed", None, None)


def test_a_failing_message_does_not_affect_the_others_of_the_transaction(service):
    db = service("INSERT INTO orders.effects VALUES (event.event_id);"
                 " IF event.event_id = 'b' THEN RAISE EXCEPTION 'b fails'; END IF;")
    seqs = [insert(db, name, kafka_offset=offset) for offset, name in enumerate("abc")]
    with db.transaction():
        assert [call(db, seq)[0] for seq in seqs] == ["done", "retry", "done"]
    assert effects(db) == ["a", "c"]
    assert [row_of(db, seq)["status"] for seq in seqs] == ["processed", "claimed", "processed"]


def test_the_messages_behind_a_failing_one_are_not_tried(service):
    db = service("INSERT INTO orders.effects VALUES (event.event_id);"
                 " IF event.event_id = 'b' THEN RAISE EXCEPTION 'b fails'; END IF;")
    seqs = [insert(db, name, kafka_offset=offset) for offset, name in enumerate("abcd")]
    with db.transaction():
        found = [call(db, seq, behind=before)[0] for before, seq in zip([None, *seqs], seqs)]
    assert found == ["done", "retry", "skipped", "skipped"]
    assert effects(db) == ["a"]


def test_no_call_begins_when_the_transaction_is_too_old(service):
    db = service()
    seq = insert(db)
    assert call(db, seq, limit=-1)[0] == "skipped"
    assert effects(db) == NO_EFFECTS


@pytest.mark.parametrize("change", ["claimed_by = 2", "delivery_count = 2", "processed_at = now()",
                                    "dead_at = now()", "available_at = now(), claimed_by = NULL"])
def test_a_lost_claim_is_not_called(service, change):
    db = service()
    seq = insert(db)
    db.execute(f"UPDATE inbox.inbox_messages SET {change}")
    assert call(db, seq)[0] == "lost"
    assert effects(db) == NO_EFFECTS


def test_a_claim_that_is_lost_during_the_call_leaves_no_effect(service):
    db = service("INSERT INTO orders.effects VALUES ('x'); UPDATE inbox.inbox_messages SET delivery_count = 2;")
    seq = insert(db)
    assert call(db, seq)[0] == "lost"
    assert effects(db) == NO_EFFECTS
    assert row_of(db, seq)["delivery_count"] == 1


def test_a_function_that_completes_its_own_message_is_told_what_to_do(service):
    db = service("INSERT INTO orders.effects VALUES ('x');"
                 " PERFORM inbox.complete(concat_ws('.', event.seq, event.delivery_count, event.claimed_by), NULL::jsonb);")
    seq = insert(db)
    status, code, error, _ = call(db, seq)
    assert (status, code) == ("retry", "PROTOCOL")
    assert error.startswith("orders.on_event calls inbox.complete() for its own message: remove the call, ")
    assert effects(db) == NO_EFFECTS
    assert row_of(db, seq)["status"] == "claimed"


def test_another_holder_of_the_row_waits_for_the_call(service, connect):
    """A rescue or an operator that changes the row meanwhile finds it completed."""
    db = service()
    seq = insert(db)
    other = connect()
    with db.transaction():
        assert call(db, seq)[0] == "done"
        assert other.execute("SELECT seq FROM inbox.inbox_messages FOR UPDATE SKIP LOCKED").fetchall() == []
    assert row_of(other, seq)["status"] == "processed"


def test_a_suspect_that_is_done_is_none_any_more(service):
    db = service()
    seq = insert(db, suspect=True, crash_count=2)
    assert call(db, seq)[0] == "done"
    assert (row_of(db, seq)["crash_count"], row_of(db, seq)["suspect"]) == (1, False)


def test_a_deferred_constraint_fails_at_commit_only(service):
    db = service("INSERT INTO orders.lines VALUES (1);")
    db.execute("CREATE TABLE orders.heads (id int PRIMARY KEY);"
               " CREATE TABLE orders.lines (id int REFERENCES orders.heads DEFERRABLE INITIALLY DEFERRED)")
    seq = insert(db)
    with pytest.raises(psycopg.errors.ForeignKeyViolation), db.transaction():
        assert call(db, seq)[0] == "done"
    assert row_of(db, seq)["status"] == "claimed"


def test_a_statement_timeout_is_a_verdict(service):
    db = service("INSERT INTO orders.effects VALUES ('x'); PERFORM pg_sleep(60);")
    seqs = [insert(db), insert(db, "b", kafka_offset=2)]

    def two_calls(limit):
        with db.transaction():
            db.execute(f"SET LOCAL statement_timeout = '{limit}'")
            return [call(db, seq) for seq in seqs]

    def verdicts():
        """A session that is slow ends before it has begun the call: then with more time."""
        for limit in ("50ms", "1s"):
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                return two_calls(limit)
        return two_calls("15s")

    assert verdicts() == [("timeout", "TIMEOUT", "canceling statement due to statement timeout", None)] * 2
    assert effects(db) == NO_EFFECTS


# Roles and settings


@pytest.fixture
def roles(service, connect):
    """(connection of a sidecar's user, connection of the owner), with the role orders_role that the user may become."""
    db = service()
    made = ("sql_sidecar", "orders_role", "strange_role", "weak_role")
    for role in made:
        db.execute(f"DROP ROLE IF EXISTS {role}")
    db.execute("CREATE ROLE sql_sidecar LOGIN; CREATE ROLE orders_role; CREATE ROLE strange_role; CREATE ROLE weak_role;"
               " GRANT orders_role, weak_role TO sql_sidecar")
    db.execute("GRANT USAGE ON SCHEMA inbox TO sql_sidecar; GRANT SELECT, UPDATE ON inbox.inbox_messages TO sql_sidecar;"
               " GRANT SELECT ON inbox.messages TO sql_sidecar; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA inbox TO sql_sidecar;"
               " GRANT USAGE ON SCHEMA orders TO orders_role; GRANT INSERT ON orders.effects TO orders_role;"
               " REVOKE ALL ON FUNCTION orders.on_event FROM PUBLIC; GRANT EXECUTE ON FUNCTION orders.on_event TO orders_role")
    user = connect(user="sql_sidecar")
    yield user, db
    user.close()
    for role in made:
        db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def problem(connection, callee="orders.on_event", role=None):
    return connection.execute("SELECT problem, advice FROM inbox.sql_handler_problem(%s, %s)", [callee, role]).fetchone()


def test_the_function_runs_with_the_rights_of_its_role(roles, service):
    user, db = roles
    service("INSERT INTO orders.effects VALUES (current_user);")
    seq = insert(db)
    assert call(user, seq, role="orders_role")[0] == "done"
    assert effects(db) == ["orders_role"]
    assert user.execute("SELECT current_user").fetchone() == ("sql_sidecar",)


def test_a_role_of_its_own_may_not_touch_the_inbox(roles, service):
    user, db = roles
    service("UPDATE inbox.inbox_messages SET dead_at = now();")
    seq = insert(db)
    assert call(user, seq, role="orders_role")[:2] == ("retry", "42501")
    assert state(db, seq) == ("claimed", None, None)


def test_a_role_that_the_function_leaves_behind_is_set_back(roles, service):
    user, db = roles
    service("SET ROLE orders_role; SET search_path = orders;")
    db.execute("GRANT EXECUTE ON FUNCTION orders.on_event TO sql_sidecar; GRANT USAGE ON SCHEMA orders TO sql_sidecar")
    for name in "ab":
        assert call(user, insert(db, name))[0] == "done"
        assert user.execute("SELECT current_user").fetchone() == ("sql_sidecar",)


def test_the_function_has_the_search_path_of_the_session(service):
    db = service("INSERT INTO effects VALUES (current_setting('search_path'));")
    db.execute("SET search_path = orders, public")
    assert call(db, insert(db))[0] == "done"
    assert effects(db) == ["orders, public"]


def test_what_calls_depend_on_is_set_back_after_each(service):
    """Other settings last until the end of the transaction, as PostgreSQL has it."""
    db = service("PERFORM set_config('search_path', 'orders', true), set_config('statement_timeout', '1ms', true);")
    shown = "SELECT current_setting('statement_timeout'), current_setting('search_path'), current_user"
    before = db.execute(shown).fetchone()
    with db.transaction():
        assert call(db, insert(db))[0] == "done"
        assert db.execute(shown).fetchone() == before
    assert db.execute(shown).fetchone() == before


def test_events_of_a_function_have_the_trace_and_the_cause_of_their_message(service):
    """Also behind a function that has set a trace of its own."""
    db = service("PERFORM inbox.emit('t', 'k', 't', '{}'),"
                 " set_config('inboxd.traceparent', '00-' || repeat('1', 32) || '-' || repeat('1', 16) || '-01', true);")
    pairs = [[["traceparent", f"00-{n * 32}-{n * 16}-01"]] for n in "ab"]
    seqs = [insert(db, str(n), headers=json.dumps(headers)) for n, headers in enumerate(pairs)]
    with db.transaction():
        for seq in seqs:
            assert call(db, seq)[0] == "done"
    assert db.execute("SELECT caused_by, headers FROM inbox.outbox ORDER BY seq").fetchall() == list(zip(seqs, pairs))


def test_a_search_path_that_the_function_sets_for_the_session_does_not_reach_the_next_call(service):
    db = service("INSERT INTO orders.effects VALUES (current_setting('search_path')); SET search_path = orders;")
    db.execute("SET search_path = public")
    with db.transaction():
        for name in "ab":
            assert call(db, insert(db, name))[0] == "done"
    assert effects(db) == ["public", "public"]


def test_a_function_cannot_put_itself_into_the_way_of_the_driver(service):
    """The search_path that the function leaves behind does not decide which set_config() the driver calls."""
    db = service("PERFORM set_config('search_path', 'orders, pg_catalog', false);")
    db.execute("CREATE FUNCTION orders.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS"
               " $$ BEGIN RAISE 'called'; END $$;"
               " CREATE FUNCTION orders.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '-infinity'::timestamptz $$")
    seq = insert(db)
    assert call(db, seq) == ("done", None, None, None)
    assert row_of(db, seq)["processed_at"].year > 2000


def test_names_are_quoted(service):
    db = service()
    db.execute('CREATE FUNCTION orders."On; Event"(inbox.messages) RETURNS void LANGUAGE sql AS'
               ' $$ INSERT INTO orders.effects VALUES ($1.event_id) $$')
    assert problem(db, 'orders."On; Event"') == (None, None)
    assert call(db, insert(db), callee='orders."On; Event"')[0] == "done"
    assert effects(db) == ["a"]


# Whether a function can be called


def test_a_function_that_can_be_called_has_no_problem(roles):
    user, db = roles
    assert problem(db) == (None, None)
    assert problem(user, role="orders_role") == (None, None)
    assert user.execute("SELECT current_user").fetchone() == ("sql_sidecar",)


@pytest.mark.parametrize("callee,role,words,advice", [
    ("orders.nothing", None, "there is no function orders.nothing(inbox.messages)", "create it"),
    ("orders.takes_json", None, "but orders.takes_json(jsonb)", "create it"),
    ("on_event", None, '"on_event" is not the name of a function with its schema', "schema.function"),
    ("a.b.c", None, '"a.b.c" is not the name', "schema.function"),
    ("orders.", None, '"orders." is not the name', "schema.function"),
    ("orders.on_event; DROP TABLE orders.effects", None, "is not the name", "schema.function"),
    ("orders.number", None, "orders.number(inbox.messages) is not a function that returns void or jsonb: it returns integer",
     "returns void"),
    ("orders.many", None, "it returns SETOF jsonb", "returns void"),
    ("orders.procedure", None, "orders.procedure(inbox.messages) is not a function", "returns void"),
    ("orders.on_event", "nobody", 'user "sql_sidecar" cannot become the role "nobody": role "nobody" does not exist',
     "GRANT nobody TO sql_sidecar"),
    ("orders.on_event", "strange_role", 'cannot become the role "strange_role"', "GRANT strange_role TO sql_sidecar"),
    ("orders.on_event", "weak_role", 'the role "weak_role" may not use the schema', "GRANT USAGE ON SCHEMA orders TO weak_role"),
    ("orders.on_private", "orders_role", 'the role "orders_role" may not execute orders.on_private',
     "GRANT EXECUTE ON FUNCTION orders.on_private(inbox.messages) TO orders_role"),
])
def test_what_is_wrong_is_named_with_the_next_step(roles, callee, role, words, advice):
    user, db = roles
    db.execute("CREATE FUNCTION orders.takes_json(jsonb) RETURNS void LANGUAGE sql AS '';"
               " CREATE FUNCTION orders.number(inbox.messages) RETURNS int LANGUAGE sql AS 'SELECT 1';"
               " CREATE FUNCTION orders.many(inbox.messages) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';"
               " CREATE PROCEDURE orders.procedure(inbox.messages) LANGUAGE sql AS '';"
               " CREATE FUNCTION orders.on_private(inbox.messages) RETURNS void LANGUAGE sql AS '';"
               " REVOKE ALL ON FUNCTION orders.on_private FROM PUBLIC")
    found = problem(user, callee, role)
    assert words in found[0]
    assert advice in found[1]
    assert effects(db) == NO_EFFECTS


def test_the_role_of_a_handler_has_rights_that_the_sidecar_lacks(roles):
    """The sidecar can become the role, but does not inherit its rights, as after GRANT … WITH SET TRUE, INHERIT FALSE."""
    user, db = roles
    db.execute("REVOKE orders_role FROM sql_sidecar; ALTER ROLE sql_sidecar NOINHERIT; GRANT orders_role TO sql_sidecar")
    assert problem(user, role="orders_role") == (None, None)
    assert call(user, insert(db), role="orders_role")[0] == "done"
    assert effects(db) == ["a"]
    found = problem(user)
    assert 'the role "sql_sidecar" may not use the schema of orders.on_event' in found[0]
    assert found[1] == "GRANT USAGE ON SCHEMA orders TO sql_sidecar"


def test_a_function_survives_a_new_column_of_the_view(service):
    """Its parameter is the row type of the view, whose new columns come last."""
    db = service()
    definition = db.execute("SELECT pg_get_viewdef('inbox.messages'::regclass)").fetchone()[0].rstrip().rstrip(";")
    before = call(db, insert(db))
    db.execute("CREATE OR REPLACE VIEW inbox.messages AS "
               + definition.replace("m.consumer\n", "m.consumer,\n    'new'::text AS new_column\n", 1))
    assert before[0] == "done"
    assert call(db, insert(db, "b"))[0] == "done"
    assert effects(db) == ["a", "b"]


def test_a_cancel_of_an_operator_ends_the_call_only(service, connect):
    db = service("INSERT INTO orders.effects VALUES ('x'); PERFORM pg_sleep(60);")
    seq = insert(db)
    pid = db.info.backend_pid
    other = connect()
    found = []
    thread = threading.Thread(target=lambda: found.append(call(db, seq)))
    thread.start()
    eventually(lambda: other.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'",
                                     [pid]).fetchone())
    thread.join(30)
    assert found == [("timeout", "TIMEOUT", "canceling statement due to user request", None)]
