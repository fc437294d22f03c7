"""SQL handlers: functions of the service that inboxd calls in the transaction that marks their messages processed."""

import json
import os
import pathlib
import re
import signal

import psycopg
import pytest

from support.wait import eventually, throughout
from support.wire import Refused
from support.scripts import DONE, always

ROOT = pathlib.Path(__file__).resolve().parents[2]
EFFECT = "INSERT INTO orders.effects (event_id) VALUES (event.event_id);"
LATER = 60
HOLD = "WHILE EXISTS (SELECT FROM orders.held) LOOP PERFORM pg_sleep(0.05); END LOOP;"  # until the test deletes the row


@pytest.fixture
def service(make_inboxd, db, sidecar_user):
    """service(body, returns="void") makes orders.on_event; the tables of the inbox exist already."""
    assert make_inboxd().command("migrate", "--roles=inboxd").returncode == 0
    db.execute("CREATE SCHEMA orders")
    db.execute("CREATE TABLE orders.effects (n bigint GENERATED ALWAYS AS IDENTITY, event_id text, txid bigint DEFAULT txid_current())")
    db.execute(f"GRANT USAGE ON SCHEMA orders TO {sidecar_user};"
               f" ALTER DEFAULT PRIVILEGES IN SCHEMA orders GRANT ALL ON TABLES TO {sidecar_user};"
               f" GRANT ALL ON orders.effects TO {sidecar_user};"
               " CREATE TABLE orders.held AS SELECT 1")

    def make(body=EFFECT, returns="void", name="on_event"):
        db.execute(f"CREATE OR REPLACE FUNCTION orders.{name}(event inbox.messages) RETURNS {returns} LANGUAGE plpgsql AS"
                   f" $$ BEGIN {body} END $$")

    return make


@pytest.fixture
def start(start_inboxd):
    """start(batch=…, …) -> a sidecar with the SQL handler billing."""

    def begin(sections=None, **keys):
        return start_inboxd({"handlers": {"billing": {"call": "orders.on_event", **keys}}}, **(sections or {}))

    return begin


@pytest.fixture
def send(streams, topic):
    """send("a1 b1 a2") produces these events to one partition; the letter is the key."""

    def produce(names, kind="order.created"):
        streams.produce_many(topic, [{"value": json.dumps({"name": name}).encode(), "key": name[0], "partition": 0,
                                      "headers": [("id", name), ("type", kind)]} for name in names.split()])

    return produce


def effects(db):
    return [row["event_id"] for row in db.execute("SELECT event_id FROM orders.effects ORDER BY n").fetchall()]


def test_each_message_has_its_effect_once_and_its_result(service, start, send, inbox, db):
    service(f"{EFFECT} RETURN jsonb_build_object('seen', event.payload_json->>'name');", returns="jsonb")
    sidecar = start()
    send("a1 b1 a2 c1")
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "a2", "b1", "c1"]
    assert [row["event_id"] for row in inbox.messages()] == ["a1", "b1", "a2", "c1"]
    assert {row["event_id"]: (row["result"], row["handler"]) for row in inbox.messages()} == {
        name: ({"seen": name}, "billing") for name in ("a1", "b1", "a2", "c1")}
    eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler="billing", outcome="settled") == 4)
    assert sidecar.metric("inboxd_handlers_connected", handler="billing") == 1
    eventually(lambda: sidecar.metric("inboxd_in_flight", handler="billing") == 0)
    listed = sidecar.command("handlers", "--json")
    assert '"billing"' in listed.stdout and '"connected"' in listed.stdout


def test_many_messages_share_a_transaction(service, start, send, inbox, db, start_inboxd):
    """Those that are stored while no handler is there come in full batches."""
    service()
    first = start_inboxd()
    names = " ".join(f"{chr(97 + n % 26)}{n}" for n in range(200))
    send(names)
    inbox.wait_stored(200)
    first.stop()
    start()
    inbox.wait_processed(200)
    assert sorted(effects(db)) == sorted(names.split())
    transactions = db.execute("SELECT count(DISTINCT txid) AS n FROM orders.effects").fetchone()["n"]
    assert 4 <= transactions <= 30


def test_an_exception_is_a_retry_with_its_sqlstate(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.retry_count < 2 THEN RAISE EXCEPTION 'no stock for %', event.event_id USING ERRCODE = 'XS001'; END IF;")
    sidecar = start()
    send("a1")
    row = inbox.wait_status("a1", "processed")
    assert row["retry_count"] == 2
    assert [(entry["attempt"], entry["code"], entry["error"], entry["handler"]) for entry in row["attempts"]] == [
        (1, "XS001", "no stock for a1", "billing"), (2, "XS001", "no stock for a1", "billing")]
    assert effects(db) == ["a1"]
    eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler="billing", outcome="retry") == 2)


def test_a_message_is_dead_after_its_attempts(service, start, send, inbox, db):
    service(f"{EFFECT} PERFORM 1 / 0;")
    start({"retry": {"max_attempts": 3}})
    send("a1")
    row = inbox.wait_status("a1", "dead")
    assert (row["retry_count"], row["error_code"], row["error"]) == (3, "22012", "division by zero")
    assert effects(db) == []


def test_sqlstates_of_inboxd_are_verdicts(service, start, send, inbox, db):
    service(f"""{EFFECT}
        IF event.event_id = 'd1' THEN RAISE EXCEPTION 'schema v9' USING ERRCODE = 'IB100'; END IF;
        IF event.event_id = 's1' THEN RAISE EXCEPTION 'upstream is away' USING ERRCODE = 'IB101', DETAIL = '1 hour'; END IF;""")
    sidecar = start()
    send("a1 d1 s1")
    dead = inbox.wait_status("d1", "dead")
    assert (dead["retry_count"], dead["error_code"], dead["error"], dead["handler"]) == (1, "IB100", "schema v9", "billing")
    snoozed = inbox.wait_status("s1", "waiting")
    assert (snoozed["retry_count"], snoozed["error_code"], snoozed["error"]) == (0, "IB101", "upstream is away")
    left = inbox.value("SELECT extract(epoch FROM available_at - now()) FROM inbox.messages WHERE event_id = 's1'")
    assert 3000 < left <= 3600
    inbox.wait_processed(1)
    assert effects(db) == ["a1"]
    for outcome in ("settled", "dead", "snooze"):
        eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler="billing", outcome=outcome) == 1,  # pylint: disable=cell-var-from-loop
                   what=outcome)


def test_a_call_that_takes_too_long_is_a_timeout(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 's1' THEN PERFORM pg_sleep({LATER}); END IF;")
    sidecar = start({"retry": {"max_attempts": 2}}, timeout="1s")
    send("a1 s1 b1")
    row = inbox.wait_status("s1", "dead")
    assert (row["error_code"], row["error"]) == ("TIMEOUT", "canceling statement due to statement timeout")
    inbox.wait_processed(2)
    assert sorted(effects(db)) == ["a1", "b1"]
    eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler="billing", outcome="timeout") >= 2)


def test_of_fifty_messages_one_fails_and_the_others_are_committed(service, start, send, inbox, db, start_inboxd):
    service(f"{EFFECT} IF event.event_id = 'z25' THEN RAISE EXCEPTION 'bad'; END IF;")
    first = start_inboxd()
    names = " ".join(f"{'z' if n == 25 else chr(97 + n % 25)}{n}" for n in range(50))
    send(names)
    inbox.wait_stored(50)
    first.stop()
    start({"retry": {"backoff": "1h", "backoff_max": "1h"}})
    inbox.wait_processed(49)
    assert inbox.wait_status("z25", "retrying")["error"] == "bad"
    assert sorted(effects(db)) == sorted(set(names.split()) - {"z25"})


def test_a_failing_message_blocks_its_key_only(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 'a2' AND event.retry_count < 3 THEN RAISE EXCEPTION 'not yet'; END IF;")
    start()
    send("a1 a2 a3 b1 a4 b2")
    inbox.wait_processed(6)
    found = effects(db)
    assert [name for name in found if name[0] == "a"] == ["a1", "a2", "a3", "a4"]
    assert [name for name in found if name[0] == "b"] == ["b1", "b2"]
    assert inbox.message("a2")["retry_count"] == 3
    assert inbox.message("a3")["retry_count"] == 0, "what is behind a failing message spends no attempt"


def test_a_dead_message_frees_its_key(service, start, send, inbox, db):
    service(f"IF event.event_id = 'a1' THEN RAISE EXCEPTION 'never' USING ERRCODE = 'IB100'; END IF; {EFFECT}")
    start()
    send("a1 a2 a3")
    inbox.wait_status("a1", "dead")
    inbox.wait_processed(2)
    assert effects(db) == ["a2", "a3"]


def test_messages_of_a_partition_keep_their_order(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.retry_count = 0 AND event.event_id IN ('c3', 'a7') THEN RAISE EXCEPTION 'once'; END IF;")
    start({"inbox": {"ordering": "partition"}}, batch=4, connections=2)
    names = " ".join(f"{'abc'[n % 3]}{n}" for n in range(30))
    send(names.replace("c3", "x3"))
    inbox.wait_processed(30)
    assert effects(db) == names.replace("c3", "x3").split()


def test_a_deferred_constraint_fails_at_commit_for_its_message_only(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 'z1' THEN INSERT INTO orders.lines VALUES (1); END IF;")
    db.execute("CREATE TABLE orders.heads (id int PRIMARY KEY);"
               " CREATE TABLE orders.lines (id int REFERENCES orders.heads DEFERRABLE INITIALLY DEFERRED)")
    start({"retry": {"max_attempts": 2}})
    send("a1 b1 z1 c1 z2")
    row = inbox.wait_status("z1", "dead")
    assert row["error_code"] == "23503"
    assert "violates foreign key constraint" in row["error"]
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "b1", "c1", "z2"]


@pytest.mark.parametrize("body,code", [("COMMIT;", "2D000"), ("ROLLBACK;", "2D000")])
def test_a_function_cannot_end_the_transaction(service, start, send, inbox, db, body, code):
    service(f"{EFFECT} IF event.event_id = 'a1' THEN {body} END IF;")
    start({"retry": {"max_attempts": 1}})
    send("a1 b1")
    assert inbox.wait_status("a1", "dead")["error_code"] == code
    inbox.wait_processed(1)
    assert effects(db) == ["b1"]


def test_settings_of_a_function_do_not_reach_the_next_transaction(service, start, send, inbox, db):
    service("INSERT INTO orders.effects (event_id) VALUES (event.event_id || ' ' || current_setting('work_mem'));"
            " SET work_mem = '77kB'; SET search_path = orders; SET lock_timeout = '1ms'; SET ROLE NONE;")
    start(batch=1)
    send("a1 a2 a3")
    inbox.wait_processed(3)
    assert effects(db) == ["a1 4MB", "a2 4MB", "a3 4MB"]


def test_planner_settings_of_the_sidecar_do_not_reach_the_function(service, start, send, inbox, db):
    service("INSERT INTO orders.effects (event_id) VALUES (concat_ws(' ', current_setting('enable_seqscan'),"
            " current_setting('jit'), current_setting('lock_timeout'), current_setting('transaction_isolation')));")
    start()
    send("a1")
    inbox.wait_processed(1)
    jit = db.execute("SHOW jit").fetchone()["jit"]
    assert effects(db) == [f"on {jit} 0 read committed"]


# Roles


def test_the_function_runs_as_its_role(service, start, send, inbox, db, sidecar_user):
    service("INSERT INTO orders.effects (event_id) VALUES (current_user);"
            " IF event.event_id = 'b1' THEN DELETE FROM inbox.inbox_messages; END IF;")
    db.execute(f"DROP ROLE IF EXISTS sql_orders; CREATE ROLE sql_orders; GRANT sql_orders TO {sidecar_user};"
               " GRANT USAGE ON SCHEMA orders, inbox TO sql_orders; GRANT INSERT ON orders.effects TO sql_orders")
    start({"retry": {"max_attempts": 1}}, role="sql_orders")
    send("a1 b1")
    inbox.wait_processed(1)
    row = inbox.wait_status("b1", "dead")
    assert (row["error_code"], row["error"]) == ("42501", "permission denied for table inbox_messages")
    assert effects(db) == ["sql_orders"]
    db.execute("DROP OWNED BY sql_orders; DROP ROLE sql_orders")


def test_a_role_that_the_sidecar_cannot_become_keeps_the_handler_away(service, start, send, inbox, db, make_inboxd, sidecar_user):
    service()
    db.execute("DROP ROLE IF EXISTS sql_strange; CREATE ROLE sql_strange;"
               " GRANT USAGE ON SCHEMA orders, inbox TO sql_strange; GRANT INSERT ON orders.effects TO sql_strange")
    sidecar = start(role="sql_strange")
    eventually(lambda: "sql_handler_away" in sidecar.stderr)
    assert f"GRANT sql_strange TO {sidecar_user}" in sidecar.stderr
    send("a1")
    inbox.wait_stored(1)
    throughout(lambda: inbox.message("a1")["retry_count"] == 0 and not effects(db), seconds=0.5)
    checked = sidecar.command("check", env={"INBOXD_POSTGRES_USER": sidecar_user})
    assert checked.returncode == 6
    assert re.search(r"FAILED handlers .*sql_strange", checked.stdout)
    db.execute(f"GRANT sql_strange TO {sidecar_user}")
    inbox.wait_processed(1)
    assert effects(db) == ["a1"]
    db.execute("DROP OWNED BY sql_strange; DROP ROLE sql_strange")


# The function comes and goes


def test_messages_wait_until_the_function_exists(start, service, send, inbox, db, sidecar_user):
    sidecar = start()
    eventually(lambda: "sql_handler_away" in sidecar.stderr)
    assert "there is no function orders.on_event(inbox.messages)" in sidecar.stderr
    send("a1 a2")
    inbox.wait_stored(2)
    checked = sidecar.command("check", env={"INBOXD_POSTGRES_USER": sidecar_user})
    assert checked.returncode == 6
    assert "FAILED handlers" in checked.stdout and "there is no function orders.on_event(inbox.messages)" in checked.stdout
    service()
    inbox.wait_processed(2)
    assert effects(db) == ["a1", "a2"]
    checked = sidecar.command("check", "--json", env={"INBOXD_POSTGRES_USER": sidecar_user})
    found = {check["name"]: check for check in json.loads(checked.stdout)["checks"]}
    assert (found["handlers"]["result"], found["handlers"]["text"]) == ("ok", "billing calls orders.on_event")


def test_a_missing_right_to_a_function_of_the_inbox_is_named_with_the_next_step(start, service, send, inbox, db):
    service()
    function = "FUNCTION inbox.sql_handler_problem(text, text)"
    sidecar = start()
    eventually(lambda: "event=handler_connected" in sidecar.stderr)
    db.execute(f"REVOKE EXECUTE ON {function} FROM PUBLIC, inboxd_sidecar")
    send("a1")
    eventually(lambda: "sql_handler_away" in sidecar.stderr)
    assert "permission denied for function sql_handler_problem" in sidecar.stderr
    assert "inboxd migrate --roles" in sidecar.stderr
    throughout(lambda: "sql_handler_database_lost" not in sidecar.stderr, seconds=6)  # it is checked again after 5 s
    db.execute(f"GRANT EXECUTE ON {function} TO inboxd_sidecar")
    inbox.wait_processed(1)


def test_a_function_that_is_dropped_while_it_runs_spends_no_attempt(service, start, send, inbox, db):
    service()
    sidecar = start()
    send("a1")
    inbox.wait_processed(1)
    db.execute("DROP FUNCTION orders.on_event")
    send("a2 a3 b1")
    eventually(lambda: "sql_handler_away" in sidecar.stderr)
    eventually(lambda: sidecar.metric("inboxd_handlers_connected", handler="billing") == 0)
    throughout(lambda: effects(db) == ["a1"], seconds=0.5)
    service()
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "a2", "a3", "b1"]
    assert {row["retry_count"] for row in inbox.messages()} == {0}
    assert effects(db).index("a2") < effects(db).index("a3")


# Failures of sidecar and database


def calling(db):
    """The backend of the SQL handler that sleeps."""
    rows = db.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name LIKE 'inboxd/%'").fetchall()
    return rows[0]["pid"] if rows else None


def test_a_backend_that_is_terminated_leaves_no_effect(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 'c1' AND NOT event.suspect"
            f" THEN PERFORM pg_sleep({LATER}); END IF;")
    sidecar = start()
    send("a1 b1 c1 d1")
    pid = eventually(lambda: calling(db))
    db.execute("SELECT pg_terminate_backend(%s)", [pid])
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "b1", "c1", "d1"]
    assert {row["retry_count"] for row in inbox.messages()} == {0}
    assert {row["crash_count"] for row in inbox.messages()} == {0}
    eventually(lambda: "sql_handler_database_lost" in sidecar.stderr)


def test_a_message_that_ends_its_backend_each_time_is_dead(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 'c1' THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(1); END IF;")
    db.execute("GRANT pg_signal_backend TO billing_inbox")
    start({"retry": {"max_crashes": 2}})
    send("a1 b1 c1 d1 c2")
    row = inbox.wait_status("c1", "dead", timeout=60)
    assert row["error_code"] == "CRASH"
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "b1", "c2", "d1"]


@pytest.fixture
def two_calls(service, start, send, db):
    """Two sessions that are inside of their calls: {event id: pid}. A message that comes again notes whether it is a suspect."""
    service("INSERT INTO orders.effects (event_id) VALUES (event.event_id || CASE WHEN event.suspect THEN ' suspect' ELSE '' END);"
            " PERFORM pg_advisory_xact_lock(ascii(event.event_id));"
            f" IF event.delivery_count = 1 THEN PERFORM pg_sleep({LATER}); END IF;")
    start(connections=2, batch=1)
    send("a1 b1")
    locks = "SELECT chr(objid::int) || '1' AS event_id, pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid IN (97, 98)"
    eventually(lambda: db.execute(locks).rowcount == 2)
    return {row["event_id"]: row["pid"] for row in db.execute(locks).fetchall()}


def processed(inbox):
    """The number of processed messages; None while the server refuses connections."""
    try:
        return inbox.count("processed")
    except psycopg.OperationalError:
        return None


def seen_again(inbox):
    eventually(lambda: processed(inbox) == 2, timeout=90)
    return [row["event_id"] for row in inbox.query("SELECT event_id FROM orders.effects ORDER BY event_id")]


def test_a_crash_makes_only_the_messages_of_its_own_session_suspects(two_calls, inbox, postgres):
    """PostgreSQL then ends the other sessions, too."""
    assert postgres.is_running()
    os.kill(two_calls["a1"], signal.SIGKILL)
    assert seen_again(inbox) == ["a1 suspect", "b1"]


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_a_server_that_stops_makes_no_suspects(two_calls, inbox, postgres, end):
    assert len(two_calls) == 2
    getattr(postgres, end)()
    postgres.start()
    assert seen_again(inbox) == ["a1", "b1"]


def test_a_killed_sidecar_leaves_no_effect_of_an_open_transaction(service, start, send, inbox, db):
    service(f"{EFFECT} IF event.event_id = 'b1' AND event.rescue_count = 0 AND event.delivery_count = 1 THEN {HOLD} END IF;")
    sidecar = start()
    send("a1 b1 c1")
    eventually(lambda: calling(db))
    sidecar.kill()
    sidecar.start()
    db.execute("DELETE FROM orders.held")
    inbox.wait_processed(3, timeout=60)
    assert sorted(effects(db)) == ["a1", "b1", "c1"]


def test_a_restart_of_the_database_loses_and_repeats_nothing(service, start, send, inbox, db, postgres, configuration):
    service()
    start()
    send(" ".join(f"{chr(97 + n % 26)}{n}" for n in range(100)))
    postgres.stop()
    postgres.start()
    inbox.wait_processed(100, timeout=90)
    rows = inbox.query("SELECT event_id, count(*) AS n FROM orders.effects GROUP BY 1")
    assert len(rows) == 100 and {row["n"] for row in rows} == {1}


def test_a_stop_waits_for_the_open_transaction(service, start, send, inbox, db):
    service(f"{EFFECT} {HOLD}")
    sidecar = start()
    send("a1")
    eventually(lambda: calling(db))
    sidecar.signal(signal.SIGTERM)
    eventually(lambda: "dispatch_stopping" in sidecar.stderr)
    db.execute("DELETE FROM orders.held")
    assert sidecar.wait() == 0
    assert effects(db) == ["a1"]
    assert inbox.message("a1")["status"] == "processed"


def test_a_stop_does_not_wait_longer_than_the_shutdown_timeout(service, start, send, inbox, db):
    service(f"{EFFECT} PERFORM pg_sleep({LATER});")
    sidecar = start({"inbox": {"shutdown_timeout": "3s"}})
    send("a1")
    eventually(lambda: calling(db))
    assert sidecar.stop(timeout=30) == 0
    assert effects(db) == []


# Beside other handlers


def test_a_sql_handler_of_a_consumer_has_rows_of_its_own(service, start_inboxd, handler, send, inbox, db):
    service()
    sidecar = start_inboxd(consumers={"search": {}, "mail": {}}, handlers={
        "search": {"call": "orders.on_event"}, "worker": {"call": "orders.on_mail", "consumer": "mail", "types": ["order.*"]}})
    service("INSERT INTO orders.effects (event_id) VALUES ('mail ' || event.event_id);", name="on_mail")
    send("a1 b1")
    inbox.wait_processed(4)
    assert sorted(effects(db)) == ["a1", "b1", "mail a1", "mail b1"]
    assert {(row["consumer"], row["handler"]) for row in inbox.messages()} == {("search", "search"), ("mail", "worker")}
    assert sidecar.metric("inboxd_handlers_connected", handler="worker", consumer="mail") == 1


def test_types_and_topics_choose_the_messages(service, start, handler, send, inbox, db, topic):
    service()
    sidecar = start(topics=[topic], types=["order.*"])
    other = handler(sidecar, always(DONE), name="rest")
    send("a1")
    send("b1", kind="payment.made")
    inbox.wait_processed(2)
    assert effects(db) == ["a1"]
    assert [delivery.event_id for delivery in other.deliveries] == ["b1"]


def test_the_name_of_a_sql_handler_is_taken(service, start, handler):
    service()
    sidecar = start()
    with pytest.raises(Refused) as refused:
        handler(sidecar, name="billing", subscribe=[{"types": ["x"]}])
    assert refused.value.code == -32003
    assert "SQL handler of this name" in refused.value.message


def test_two_connections_work_at_the_same_time(service, start, send, inbox, db):
    service(HOLD + EFFECT)
    sidecar = start(batch=1, connections=4)
    eventually(lambda: sidecar.metric("inboxd_handlers_connected", handler="billing") == 4)
    send("a1 b1 c1 d1")
    eventually(lambda: db.execute("SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                                  " AND application_name LIKE 'inboxd/%'").fetchone()["n"] > 1)
    db.execute("DELETE FROM orders.held")
    inbox.wait_processed(4)


def test_events_that_the_function_emits_are_committed_with_it(service, start, send, inbox, db, sidecar_user):
    service(f"{EFFECT} PERFORM inbox.emit('billed', event.event_id, 'billed', event.payload_json);"
            " IF event.event_id = 'b1' AND event.retry_count = 0 THEN RAISE EXCEPTION 'once'; END IF;")
    db.execute(f"GRANT inboxd_service TO {sidecar_user}")
    start()
    send("a1 b1")
    inbox.wait_processed(2)
    emitted = inbox.query("SELECT key, count(*) AS n FROM inbox.outbox GROUP BY 1")
    assert len(emitted) == 2 and {row["n"] for row in emitted} == {1}


def test_a_replay_calls_the_function_again(service, start, send, inbox, db):
    service()
    start()
    send("a1")
    inbox.wait_processed(1)
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
    eventually(lambda: effects(db) == ["a1", "a1"])
    inbox.wait_processed(1)


def test_keys_of_handlers_need_a_restart(service, start):
    service()
    sidecar = start()
    sidecar.write_configuration({"handlers": {"billing": {"call": "orders.other"}}})
    sidecar.signal(1)
    eventually(lambda: "needs_restart" in sidecar.stderr or "need_restart=1" in sidecar.stderr)


@pytest.mark.parametrize("handlers,words", [
    ({"billing": {"types": ["x"]}}, "handlers.billing.call is not set"),
    ({"billing": {"call": "on_event"}}, 'has no schema; write schema.function'),
    ({"billing": {"call": "orders.on_event(jsonb)"}}, "names parameters"),
    ({"billing": {"call": "orders.on_event", "consumer": "mail"}}, 'there is no consumer "mail"'),
    ({"a": {"call": "o.a"}, "b": {"call": "o.b"}}, "handlers.a and handlers.b want the same topic and type"),
    ({"a": {"call": "o.a", "types": ["x", "y"]}, "b": {"call": "o.b", "types": ["y"]}}, "want the same topic and type"),
    ({"billing": {"call": "orders.on_event", "batch": 0}}, "handlers.billing.batch"),
    ({"billing": {"call": "orders.on_event", "rol": "x"}}, "role"),
])
def test_a_wrong_configuration_is_refused(make_inboxd, handlers, words):
    done = make_inboxd(handlers=handlers).command("check")
    assert done.returncode == 2
    assert words in done.stderr


def test_a_wrong_function_is_named_at_the_first_start(service, start, db, send, inbox):
    db.execute("CREATE FUNCTION orders.on_event(event jsonb) RETURNS void LANGUAGE sql AS ''")
    sidecar = start()
    eventually(lambda: "but orders.on_event(jsonb)" in sidecar.stderr)


def test_the_example_of_the_documentation_works(start_inboxd, make_inboxd, produce, topic, inbox, db, sidecar_user):
    example = (ROOT / "examples/sql_handler.sql").read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/handlers.md").read_text(encoding="utf-8"), re.S)
    assert [block for block in blocks if "inbox.messages" in block and block in example], "the document shows the file"
    assert make_inboxd().command("migrate", "--roles=inboxd").returncode == 0
    db.execute("DROP ROLE IF EXISTS billing_events")
    db.execute(example.replace(":sidecar", sidecar_user))
    start_inboxd(handlers={"invoices": {"call": "billing.on_order", "topics": [topic], "types": ["order.*"],
                                        "role": "billing_events"}})
    for event_id, value in (("a", b'{"order": 17, "cents": 1250}'), ("b", b"no json")):
        produce(topic, value, headers={"id": event_id, "type": "order.created"})
    assert inbox.wait_status("a", "processed")["result"] == {"invoice": 17}
    assert inbox.wait_status("b", "dead")["error"] == "the payload is no JSON"
    assert db.execute("SELECT order_id, cents FROM billing.invoices").fetchall() == [{"order_id": 17, "cents": 1250}]
    db.execute("DROP OWNED BY billing_events; DROP ROLE billing_events")
