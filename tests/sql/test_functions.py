"""inbox.complete, the replay trigger and the view, as handlers and operators use them."""

import concurrent.futures
import contextlib
import re

import psycopg
import pytest

from support.wait import eventually


@contextlib.contextmanager
def interrupted(db, function, place, call, *arguments, **named):
    """Runs call() in a thread, and yields its future. The function of the schema stops before this place of its body until the
    block ends."""
    body = db.execute("SELECT pg_get_functiondef(%s::regproc)", [f"inbox.{function}"]).fetchone()[0]
    assert body.count(place) == 1, place
    db.execute(body.replace(place, f"PERFORM pg_advisory_xact_lock_shared(99);\n{place}"))
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        db.execute("SELECT pg_advisory_lock(99)")
        try:
            called = pool.submit(call, *arguments, **named)
            eventually(lambda: db.execute(waiting).fetchone() == (1,), what=f"{function}() is interrupted")
            yield called
        finally:
            db.execute("SELECT pg_advisory_unlock(99)")


def insert(db, event_id="a", **columns):
    """Inserts a claimed row (instance 1, delivery 1) by default; returns its seq."""
    row = {"source": "s", "event_id": event_id, "topic": "orders", "kafka_partition": 0, "kafka_offset": 1,
           "claimed_by": 1, "delivery_count": 1, **columns}
    return db.execute(f"INSERT INTO inbox.inbox_messages ({', '.join(row)}) VALUES"
                      f" ({', '.join('%s' for _ in row)}) RETURNING seq", list(row.values())).fetchone()[0]


def row_of(db, seq):
    cursor = db.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute("SELECT * FROM inbox.messages WHERE seq = %s", [seq]).fetchone()


def complete(connection, claim, result=None):
    connection.execute("SELECT inbox.complete(%s, %s::jsonb)", [claim, result])


def test_complete_processes_the_message_and_keeps_the_result(db):
    seq = insert(db)
    complete(db, f"{seq}.1.1", '{"ok": true}')
    row = row_of(db, seq)
    assert row["status"] == "processed"
    assert row["result"] == {"ok": True}


def test_complete_clears_the_crash_count_and_the_suspect_flag(db):
    seq = insert(db, suspect=True, crash_count=2)
    complete(db, f"{seq}.1.1")
    assert (row_of(db, seq)["crash_count"], row_of(db, seq)["suspect"]) == (1, False)


@pytest.mark.parametrize("change", ["claimed_by = 2", "delivery_count = 2", "processed_at = now()",
                                    "dead_at = now()", "available_at = now(), claimed_by = NULL"])
def test_complete_raises_when_the_claim_is_lost(db, change):
    seq = insert(db)
    db.execute(f"UPDATE inbox.inbox_messages SET {change}")
    with pytest.raises(psycopg.Error) as raised:
        complete(db, f"{seq}.1.1")
    assert raised.value.sqlstate == "IB001"


def test_a_second_complete_raises(db):
    seq = insert(db)
    complete(db, f"{seq}.1.1")
    with pytest.raises(psycopg.Error) as raised:
        complete(db, f"{seq}.1.1")
    assert raised.value.sqlstate == "IB001"


@pytest.mark.parametrize("claim", [None, "", "1", "1.1", "1.1.1.1", "a.b.c", "-1.1.1", " 1.1.1", "1.1.1\n",
                                   "9223372036854775808.1.1", "1.2147483648.1", "1.1.2147483648",
                                   "99999999999999999999.1.1", "1.1.1'; DROP TABLE x; --"])
def test_complete_raises_when_the_claim_is_malformed(db, claim):
    insert(db)
    with pytest.raises(psycopg.Error) as raised:
        complete(db, claim)
    assert raised.value.sqlstate == "IB002"


NAME = "YmlsbGluZw"  # billing


def tagged(db, claim, instance=1):
    """The claim of an instance that has a secret, which it gets here."""
    db.execute("INSERT INTO inbox.inbox_claim_secrets VALUES (%s, uuid_send(gen_random_uuid())) ON CONFLICT DO NOTHING", [instance])
    return db.execute("SELECT %s || '.' || inbox.claim_tag(secret, %s) FROM inbox.inbox_claim_secrets WHERE instance = %s",
                      [claim, claim, instance]).fetchone()[0]


def refusal(db, claim):
    with pytest.raises(psycopg.Error) as raised:
        complete(db, claim)
    return raised.value.sqlstate


@pytest.mark.parametrize("claims", ["%s", "ARRAY[%s]"])
def test_complete_stores_the_name_of_the_handler_in_the_claim(db, claims):
    """An earlier sidecar does not send it."""
    for name, stored in [("." + NAME, "billing"), (".w7xtbGF1dA", "ümlaut"), (".eg", "z"), ("", None)]:
        seq = insert(db, name)
        db.execute(f"SELECT inbox.complete({claims})", [f"{seq}.1.1{name}"])
        assert row_of(db, seq)["handler"] == stored


@pytest.mark.parametrize("claims", ["%s", "ARRAY[%s]"])
def test_a_claim_cannot_be_guessed_from_another_one(db, claims):
    """A handler knows its own claims, and the numbers of its neighbours'."""
    seq, other = insert(db), insert(db, "b", kafka_offset=2)
    own = tagged(db, f"{seq}.1.1.{NAME}")
    tag = own.rsplit(".", 1)[1]
    for guess in (f"{other}.1.1", f"{other}.1.1.{NAME}", f"{other}.1.1.{NAME}.{tag}", f"{other}.1.1.{NAME}.{'A' * 16}",
                  f"0{own}", f"{seq}.1.1.eg.{tag}", own.swapcase(), own[:-1], f"{own}A", f"{seq}.1.1"):
        assert refusal(db, guess) in ("IB001", "IB002"), guess
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT inbox.complete({claims})", [guess])
        assert raised.value.sqlstate in ("IB001", "IB002")
    db.execute(f"SELECT inbox.complete({claims})", [own])
    assert [row_of(db, one)["status"] for one in (seq, other)] == ["processed", "claimed"]


def test_instances_have_different_secrets_which_end_with_them(db):
    for number in (2, 3):
        db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, rescued_at) VALUES (%s, 'x', 1, now())", [number])
    claim = f"1.1.2.{NAME}"
    assert tagged(db, claim, 2) != tagged(db, claim, 3)
    db.execute("DELETE FROM inbox.inbox_instances WHERE id = 2")
    assert db.execute("SELECT instance FROM inbox.inbox_claim_secrets").fetchall() == [(3,)]
    assert refusal(db, f"1.1.2.{NAME}.{'A' * 16}") == "IB001"


@pytest.mark.parametrize("claim", ["1.1.1.", "1.1.1..", f"1.1.1.{NAME}.", f"1.1.1..{'A' * 16}", "1.1.1.YmlsbGluZ", "1.1.1.Ymls bGlu",
                                   "1.1.1.Ymlsb+lu", "1.1.1._w", "1.1.1.AA", f"1.1.1.{NAME}.A.A", f"1.1.1.{'QUFB' * 200}",
                                   "1" * 100000 + ".1.1"])
def test_a_claim_with_a_wrong_name_is_malformed(db, claim):
    """Not base64url, not UTF-8, a NUL, too long."""
    seq = insert(db)
    assert seq == 1
    assert refusal(db, claim) == "IB002"
    with pytest.raises(psycopg.Error) as raised:
        db.execute("SELECT inbox.complete(ARRAY['1.1.1', %s])", [claim])
    assert raised.value.sqlstate == "IB002"


def test_the_claim_of_a_rehearsal_is_refused_by_name(db):
    seq = insert(db)
    with pytest.raises(psycopg.Error) as raised:
        complete(db, f"r.{seq}.1.1")
    assert (raised.value.sqlstate, "no rehearsals" in raised.value.diag.message_hint) == ("IB002", True)


def test_the_largest_claim_is_well_formed(db):
    with pytest.raises(psycopg.Error) as raised:
        complete(db, "9223372036854775807.2147483647.2147483647")
    assert raised.value.sqlstate == "IB001"


def test_a_rollback_gives_the_claim_back(db):
    seq = insert(db)
    with db.transaction(force_rollback=True):
        complete(db, f"{seq}.1.1")
    assert row_of(db, seq)["status"] == "claimed"
    complete(db, f"{seq}.1.1")


def test_effects_and_completion_are_one_transaction(db, connect):
    """Two deliveries of one message race: only one handler's effects survive."""
    seq = insert(db)
    db.execute("CREATE TABLE inbox.effects (who text)")
    other = connect()
    with pytest.raises(psycopg.Error) as raised, other.transaction():
        other.execute("INSERT INTO inbox.effects VALUES ('late')")
        with db.transaction():
            db.execute("INSERT INTO inbox.effects VALUES ('first')")
            complete(db, f"{seq}.1.1")
        complete(other, f"{seq}.1.1")
    assert raised.value.sqlstate == "IB001"
    assert db.execute("SELECT who FROM inbox.effects").fetchall() == [("first",)]


def test_complete_works_for_a_role_without_other_rights(db, connect):
    seq, other = insert(db), insert(db, "b", kafka_offset=2)
    db.execute("DROP ROLE IF EXISTS poor_handler")
    db.execute("CREATE ROLE poor_handler LOGIN")
    db.execute("GRANT USAGE ON SCHEMA inbox TO poor_handler")
    db.execute("GRANT EXECUTE ON FUNCTION inbox.complete(text, jsonb), inbox.complete(text, text),"
               " inbox.complete(text[], jsonb[]) TO poor_handler")
    handler = connect(user="poor_handler")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        handler.execute("SELECT * FROM inbox.inbox_messages")
    handler.execute("SELECT inbox.complete(%s, %s)", [f"{seq}.1.1", '{"ok": true}'])
    handler.execute("SELECT inbox.complete(ARRAY[%s])", [f"{other}.1.1"])
    handler.close()
    assert row_of(db, seq)["result"] == {"ok": True}
    assert [row_of(db, one)["status"] for one in (seq, other)] == ["processed"] * 2
    db.execute("DROP OWNED BY poor_handler")
    db.execute("DROP ROLE poor_handler")


@pytest.mark.parametrize("arguments", ["'1.1.1'", "'1.1.1', '{}'", "'1.1.1', '{}'::jsonb", "ARRAY['1.1.1']"])
def test_complete_needs_a_right(db, connect, arguments):
    db.execute("DROP ROLE IF EXISTS no_handler")
    db.execute("CREATE ROLE no_handler LOGIN")
    db.execute("GRANT USAGE ON SCHEMA inbox TO no_handler")
    other = connect(user="no_handler")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        other.execute(f"SELECT inbox.complete({arguments})")
    other.close()
    db.execute("DROP OWNED BY no_handler")
    db.execute("DROP ROLE no_handler")


@pytest.mark.parametrize("column", ["processed_at", "dead_at"])
def test_clearing_processed_at_or_dead_at_replays_the_message(db, column):
    seq = insert(db, retry_count=3, crash_count=1, suspect=True, error="e", error_code="c", delivery_count=4)
    db.execute(f"UPDATE inbox.inbox_messages SET {column} = now(), result = '{{}}'")
    db.execute(f"UPDATE inbox.inbox_messages SET {column} = NULL")
    row = row_of(db, seq)
    assert row["status"] == "waiting"
    assert row["delivery_count"] == 4, "the fencing token never falls"
    assert row["replay_count"] == 1
    assert (row["claimed_by"], row["retry_count"], row["crash_count"], row["suspect"]) == (None, 0, 0, False)
    assert (row["error"], row["error_code"], row["result"]) == (None, None, None)


def test_the_replay_count_stops_at_its_maximum(db):
    seq = insert(db, replay_count=2147483647, dead_at="now", payload=b"{}")
    db.execute("UPDATE inbox.inbox_messages SET dead_at = NULL")
    assert (row_of(db, seq)["status"], row_of(db, seq)["replay_count"]) == ("waiting", 2147483647)
    db.execute("UPDATE inbox.inbox_messages SET dead_at = now(), available_at = NULL")
    assert db.execute("SELECT inbox.replay('s', 'a', 'again')").fetchone()[0] is True
    assert (row_of(db, seq)["status"], row_of(db, seq)["replay_count"]) == ("waiting", 2147483647)


@pytest.mark.parametrize("change", ["processed_at = now()", "dead_at = now()", "error = 'x'",
                                    "processed_at = NULL", "retry_count = 1"])
def test_other_updates_do_not_replay(db, change):
    seq = insert(db)
    db.execute(f"UPDATE inbox.inbox_messages SET {change}")
    assert row_of(db, seq)["replay_count"] == 0
    assert row_of(db, seq)["available_at"] is None


def test_a_processed_message_can_be_made_dead_without_a_replay(db):
    seq = insert(db, processed_at="now")
    db.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, dead_at = now()")
    assert row_of(db, seq)["status"] == "dead"


def test_a_row_is_in_one_state_only(db):
    seq = insert(db)
    for change in ("processed_at = now(), dead_at = now()", "available_at = now(), dead_at = now(), claimed_by = NULL",
                   "available_at = now()"):
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute(f"UPDATE inbox.inbox_messages SET {change} WHERE seq = {seq}")


@pytest.mark.parametrize("columns, status", [
    ({}, "claimed"),
    ({"processed_at": "now"}, "processed"),
    ({"dead_at": "now"}, "dead"),
    ({"claimed_by": None, "available_at": "now"}, "waiting"),
    ({"claimed_by": None, "available_at": "now", "retry_count": 1}, "retrying"),
    ({"claimed_by": None, "available_at": "infinity", "retry_count": 1}, "parked"),
])
def test_the_view_names_the_status(db, columns, status):
    seq = insert(db, **columns)
    assert db.execute("SELECT status FROM inbox.messages WHERE seq = %s", [seq]).fetchone()[0] == status


@pytest.mark.parametrize("payload, as_text, as_json", [
    (b'{"n": 1}', '{"n": 1}', {"n": 1}),
    (b"plain", "plain", None),
    (b"", "", None),
    (b"\xff", None, None),
    (b"a\x00b", None, None),
    (b'"\\u0000"', '"\\u0000"', None),
    (None, None, None),
])
def test_the_view_decodes_payloads_that_are_text_or_json(db, payload, as_text, as_json):
    row = row_of(db, insert(db, payload=payload))
    assert (row["payload_text"], row["payload_json"]) == (as_text, as_json)


def test_the_view_is_never_read_in_parallel(db):
    """Its functions catch errors, which is impossible in a parallel plan."""
    insert(db, payload=b"{}")
    with db.transaction():
        db.execute("SELECT set_config(name, 'on', true) FROM pg_settings"
                   " WHERE name IN ('force_parallel_mode', 'debug_parallel_query')")
        row = db.execute("SELECT payload_text, payload_json FROM inbox.messages").fetchone()
    assert row == ("{}", {})


def test_no_function_depends_on_how_a_session_reads_backslashes(db):
    """The text of a function is read with the setting standard_conforming_strings of the session that calls it first."""
    def without_escapes(text):
        text = re.sub(r"--[^\n]*", "", text)
        return re.sub(r"(?<![a-zA-Z0-9_])E'(?:[^'\\]|\\.|'')*'", "", text)

    sources = db.execute("SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'inbox'::regnamespace").fetchall()
    assert len(sources) > 100
    assert [name for name, source in sources if "\\" in without_escapes(source)] == []


def test_the_planner_inserts_short_functions_into_their_callers(db):
    """A function that is called instead is parsed and planned again at each call. For this it has no settings, and is declared no
    stricter than what it calls: convert_to() is STABLE."""
    functions = db.execute("""
        SELECT p.proname, ARRAY(SELECT format('NULL::%s', t::regtype) FROM unnest(p.proargtypes) t)
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'inbox'::regnamespace AND l.lanname = 'sql' AND p.proconfig IS NULL AND NOT p.prosecdef
              AND NOT p.proretset AND p.pronargs > 0""").fetchall()
    called = []
    for name, nulls in functions:
        columns = [f"c{i}" for i in range(len(nulls))]
        plan = db.execute(f"EXPLAIN (VERBOSE, COSTS OFF) SELECT inbox.{name}({', '.join(f'r.{c}' for c in columns)})"
                          f" FROM (SELECT {', '.join(f'{null} AS {c}' for null, c in zip(nulls, columns))} OFFSET 0) r").fetchall()
        called += [name] if any(f"inbox.{name}(" in line for (line,) in plan) else []
    assert len(functions) > 10
    assert called == []
