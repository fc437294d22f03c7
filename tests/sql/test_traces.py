"""What belongs to a trace, and what a message or a request has caused."""

import json

import psycopg
import pytest

from statements import Statements
from test_functions import insert
from test_operators import value

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
OTHER = "00-11111111111111111111111111111111-00f067aa0ba902b7-01"
STRUCTURED = ["content-type", "application/cloudevents+json; charset=utf-8"]


def message(db, name, headers=(), payload=None):
    return insert(db, name, headers=json.dumps(headers), payload=payload)


def of_trace(db, trace, status="any"):
    (seqs,) = db.execute("SELECT seqs FROM inbox.look_page(inbox.check_filter('list', %s::jsonb, '{any,dead,waiting}'), 0, 100)",
                         [json.dumps({"status": status, "trace": trace})]).fetchone()
    return [value(db, "SELECT event_id FROM inbox.inbox_messages WHERE seq = %s", seq) for seq in seqs]


def test_messages_of_a_trace_are_found_wherever_it_is(db):
    message(db, "header", [["traceparent", PARENT]])
    message(db, "ce", [["ce_traceparent", PARENT]])
    message(db, "other standard", [["b3", f"{TRACE}-e457b5a2e4d86bd1-1"]])
    message(db, "structured", [STRUCTURED], json.dumps({"traceparent": PARENT}).encode())
    message(db, "data", [], json.dumps({"traceparent": PARENT}).encode())
    message(db, "other", [["traceparent", OTHER]])
    message(db, "none")
    for trace in TRACE, TRACE.upper(), PARENT:
        assert of_trace(db, trace) == ["header", "ce", "other standard", "structured"]
    # Without a trace, inboxd's own spans have this one.
    assert of_trace(db, value(db, "SELECT left(encode(sha256('s\\000none'), 'hex'), 32)")) == ["none"]
    assert of_trace(db, value(db, "SELECT left(encode(sha256('s\\000other'), 'hex'), 32)")) == []
    # The filter applies along each index.
    for name, column in ("dead", "dead_at"), ("waiting", "available_at"):
        seq = message(db, name, [["traceparent", PARENT]])
        db.execute(f"UPDATE inbox.inbox_messages SET {column} = now(), claimed_by = NULL WHERE seq = %s", [seq])
        assert of_trace(db, TRACE, name) == [name]
    for wrong in "", "4bf9", TRACE + "0", "x" * 32, f"00-{TRACE}":
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="trace is "):
            of_trace(db, wrong)


def caused(db, seq=None, scope=None, key=None):
    rows = Statements(db).run("op_caused", str(seq) if seq else None, scope, key)
    return json.loads("{" + rows[0][3] + "}"), [row[:3] for row in rows]


def test_a_message_has_the_events_of_each_of_its_runs(db):
    seq = message(db, "a", [["traceparent", PARENT]])
    emit = json.dumps([{"topic": "t", "type": "first"}, {"aggregate": "order", "type": "second"}])
    assert "none" not in str(caused(db, seq))
    db.execute("SELECT inbox.emit('t', 'k', 'stranger', '{}')")
    db.execute("SELECT inbox.complete(%s, NULL, %s::jsonb)", [f"{seq}.1.1", emit])
    found, _ = caused(db, seq)
    assert ([event["event_type"] for event in found["caused"]], found["all_caused"]) == (["first", "second"], True)
    # An hour later it was replayed; many events were emitted meanwhile.
    for table in ("inbox.inbox_messages SET processed_at = processed_at - interval '1 hour', received_at = received_at - interval '1 hour'",
                  "inbox.outbox SET created_at = created_at - interval '1 hour'"):
        db.execute(f"UPDATE {table}")
    db.execute("SELECT inbox.replay('s', 'a')")
    db.execute("INSERT INTO inbox.outbox (topic, event_type, created_at)"
               " SELECT 't', 't', now() - interval '1 hour' + n * interval '20 ms' FROM generate_series(1, 150000) n")
    db.execute("UPDATE inbox.inbox_messages SET claimed_by = 1, delivery_count = 2, available_at = NULL")
    db.execute("SELECT inbox.complete(%s, NULL, %s::jsonb)", [f"{seq}.2.1", emit])
    found, cells = caused(db, seq)
    assert found["trace"] == TRACE
    assert [event["event_type"] for event in found["caused"]] == ["first", "second"] * 2
    assert found["all_caused"] is False, "some of the many events were not read"
    assert [name for section, name, _ in cells if section.startswith("events")] == ["t", "{order}", "t", "{order}", "not searched"]
    db.execute("UPDATE inbox.inbox_messages SET processed_at = received_at, attempts = '[]'")
    found, cells = caused(db, seq)
    assert ([event["event_type"] for event in found["caused"]], found["all_caused"]) == (["first", "second"], False)
    assert "100000" in str(cells)
    db.execute("DELETE FROM inbox.outbox")
    db.execute("UPDATE inbox.outbox_relay SET floor = 1")
    assert "published ones are deleted, unless" in str(caused(db, seq)[1])


def test_a_request_has_the_events_of_its_transaction(db):
    def request(key, event_type, trace):
        with db.transaction():
            token = value(db, f"SELECT token FROM inbox.request_begin({key}, 'f', scope => 'a')")
            db.execute("SELECT set_config('inboxd.traceparent', %s, true)", [trace])
            db.execute("SELECT inbox.emit('t', 'k', %s, '{}')", [event_type])
            db.execute("SELECT inbox.request_complete(%s, 201)", [token])

    request("E'k\\xc3\\xb6'", "mine", PARENT)
    request("'other'", "stranger", OTHER)
    db.execute("SELECT inbox.emit('t', 'k', 'without', '{}')")
    assert db.execute("SELECT event_type, request_scope, request_key FROM inbox.events ORDER BY seq").fetchall() == [
        ("mine", "a", "kö"), ("stranger", "a", "other"), ("without", None, None)]
    found, _ = caused(db, None, "a", "kö")
    assert (found["trace"], [event["event_type"] for event in found["caused"]]) == (TRACE, ["mine"])
    # Of a request with a lease, the service sets the token.
    token = value(db, "SELECT token FROM inbox.request_begin('k', 'f', lease => '1 minute')")
    for given, known in (token, True), ("l.1", False), ("l.1.ff.ff", False), ("t.1.1.1..ff.00.ff", False):
        db.execute("DELETE FROM inbox.outbox")
        with db.transaction():
            db.execute("SELECT set_config('inboxd.request', %s, true)", [given])
            db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
        assert value(db, "SELECT request_key FROM inbox.outbox") == ("k" if known else None)


def test_a_structured_event_passes_its_trace_on(db):
    seq = message(db, "a", [STRUCTURED], json.dumps({"traceparent": PARENT, "tracestate": "a=1", "data": {}}).encode())
    with db.transaction():
        db.execute("SELECT set_config('inboxd.claim', %s, true)", [f"{seq}.1.1"])
        db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
        db.execute("SELECT inbox.complete(%s, NULL, %s::jsonb)", [f"{seq}.1.1", json.dumps([{"topic": "t", "type": "t"}])])
    assert db.execute("SELECT headers FROM inbox.outbox").fetchall() == [([["traceparent", PARENT], ["tracestate", "a=1"]],)] * 2
    assert caused(db, seq)[0]["trace"] == TRACE
