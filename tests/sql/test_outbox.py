"""Events: emit, order, handlers' events, and what operators do with them."""

import base64
import datetime
import json
import pathlib
import re

import psycopg
import pytest

from test_functions import insert
from test_operators import value

MIB = 1 << 20
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def rows(db, columns="*", order="seq"):
    return db.execute(f"SELECT {columns} FROM inbox.events ORDER BY {order}").fetchall()


def refused(db, sql, values=()):
    """The text of the IB020 that this raises."""
    with pytest.raises(psycopg.Error) as error:
        db.execute(sql, values)
    assert error.value.sqlstate == "IB020", error.value
    return error.value.diag.message_primary


# --- emit ---

def test_an_event_is_stored_with_the_transaction(db):
    with db.transaction(force_rollback=True):
        db.execute("SELECT inbox.emit('orders', 'k', 'order.created', '{}')")
    assert rows(db) == []
    emitted = value(db, "SELECT inbox.emit('orders', 'k', 'order.created', '{\"n\": 1}')")
    assert UUID.fullmatch(emitted)
    assert rows(db, "event_id, topic, key, event_type, content_type, headers, payload, status, source, subject, aggregate,"
                    " format, caused_by, available_at, retry_count") == [
        (emitted, "orders", b"k", "order.created", "application/json", [], b'{"n": 1}', "waiting", None, None, None, None,
         None, None, 0)]


def test_an_event_has_what_it_is_given(db):
    emitted = value(db, "SELECT inbox.emit(topic => NULL, key => NULL, type => 't', data => '1', headers => %s::jsonb,"
                        " id => 'mine', source => '/shop', subject => 'o-1', aggregate => 'order')",
                    '{"tenant": "a", "none": null}')
    assert emitted == "mine"
    assert rows(db, "event_id, topic, key, source, subject, aggregate, payload") == [
        ("mine", None, None, "/shop", "o-1", "order", b"1")]
    assert sorted(value(db, "SELECT headers FROM inbox.events")) == [["none", None], ["tenant", "a"]]


def test_no_data_is_a_tombstone_and_the_json_null_is_a_value(db):
    db.execute("SELECT inbox.emit('t', 'k', 't', NULL), inbox.emit('t', 'k', 't', 'null')")
    assert rows(db, "payload, content_type") == [(None, None), (b"null", "application/json")]


def test_any_bytes_can_be_emitted(db):
    db.execute("SELECT inbox.emit_bytes('t', '\\x00ff', 't', '\\xff00', 'application/avro',"
               " '[[\"sig\", {\"base64\": \"AP8=\"}], [\"a\", \"1\"], [\"a\", \"2\"]]')")
    assert rows(db, "key, payload, content_type, headers, payload_text") == [
        (b"\x00\xff", b"\xff\x00", "application/avro", [["sig", {"base64": "AP8="}], ["a", "1"], ["a", "2"]], None)]


def test_the_longest_values_are_accepted(db):
    db.execute("SELECT inbox.emit_bytes(%s, '', %s, %s, NULL, id => %s)", ["t" * 249, "y" * 1024, b"x" * (16 * MIB), "i" * 1024])
    assert value(db, "SELECT octet_length(payload) FROM inbox.events") == 16 * MIB


WRONG = [
    ("topic", {"topic": "a b"}), ("topic", {"topic": ""}), ("topic", {"topic": "t" * 250}), ("topic", {"topic": ".."}),
    ("topic", {"topic": None}), ("aggregate", {"aggregate": "a/b"}), ("aggregate", {"aggregate": ""}),
    ("type", {"type": ""}), ("type", {"type": None}), ("type", {"type": "ü" * 513}), ("id", {"id": ""}),
    ("id", {"id": "i" * 1025}), ("source", {"source": ""}), ("source", {"source": "s" * 1025}), ("subject", {"subject": ""}),
    ("subject", {"subject": "s" * 1025}), ("content_type", {"content_type": ""}), ("content_type", {"content_type": "c" * 1025}),
    ("key", {"key": b"k" * (16 * MIB + 1)}), ("data", {"data": b"d" * (16 * MIB + 1)}),
    ("headers", {"headers": '"text"'}), ("headers", {"headers": "1"}), ("headers", {"headers": '{"a": 1}'}),
    ("headers", {"headers": '{"a": {"base64": "!"}}'}), ("headers", {"headers": '{"a": {"base64": "AA==", "b": "c"}}'}),
    ("headers", {"headers": '{"": "a"}'}), ("headers", {"headers": '["a"]'}), ("headers", {"headers": '[["a"]]'}),
    ("headers", {"headers": '[["a", "b", "c"]]'}), ("headers", {"headers": '[[1, "b"]]'}),
    ("headers", {"headers": '{"ce_id": "x"}'}), ("headers", {"headers": '{"CE_x": "x"}'}),
    ("headers", {"headers": '{"event-id": "x"}'}), ("headers", {"headers": '{"Content-Type": "x"}'}),
    ("headers", {"headers": json.dumps({"a": "x" * 65536})}),
    ("headers", {"headers": json.dumps([["a", {"base64": "AAAA" * 16384}]])})]


def test_a_wrong_argument_is_named(db):
    good = {"topic": "t", "key": b"k", "type": "t", "data": b"", "content_type": None, "headers": "{}", "id": None,
            "source": None, "subject": None, "aggregate": None}
    for named, values in WRONG:
        words = refused(db, "SELECT inbox.emit_bytes(%s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s)",
                        list((good | values).values()))
        assert words.startswith(f"inbox.emit: {named} ")
        assert len(words) < 300
    assert rows(db) == []


def test_emit_names_a_wrong_argument_too(db):
    assert refused(db, "SELECT inbox.emit('a b', 'k', 't', '{}')").startswith("inbox.emit: topic is 'a b'")


def test_a_null_for_headers_is_none(db):
    db.execute("SELECT inbox.emit('t', 'k', 't', '{}', NULL)")
    assert value(db, "SELECT headers FROM inbox.events") == []


# --- Order ---

def test_lock_key_makes_the_next_transaction_of_the_key_wait(db, connect):
    other = connect()
    other.execute("SET lock_timeout = '100ms'")
    with db.transaction():
        db.execute("SELECT inbox.lock_key('orders', 'a')")
        other.execute("SELECT inbox.lock_key('orders', 'b'), inbox.lock_key('order', 'sa')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT inbox.lock_key('orders', 'a')")
    other.execute("SELECT inbox.lock_key('orders', 'a')")


@pytest.mark.parametrize("named, call", [("topic", "NULL, 'a'"), ("key", "'t', NULL")])
def test_lock_key_needs_topic_and_key(db, named, call):
    assert refused(db, f"SELECT inbox.lock_key({call})").startswith(f"inbox.emit: {named} is NULL")


def test_numbers_are_given_one_by_one(db):
    assert value(db, "SELECT seqcache FROM pg_sequence WHERE seqrelid = 'inbox.outbox_seq'::regclass") == 1


# --- Events of handlers ---

def complete(db, seq, emit, delivery=1):
    db.execute("SELECT inbox.complete(%s, NULL, %s::jsonb)", [f"{seq}.{delivery}.1", json.dumps(emit)])


def test_events_of_a_handler_commit_with_its_completion(db):
    seq = insert(db)
    with db.transaction(force_rollback=True):
        complete(db, seq, [{"topic": "t", "type": "t"}])
    assert rows(db) == []
    complete(db, seq, [
        {"topic": "out", "key": "k", "type": "a", "data": {"n": 1}, "headers": {"h": "v"}, "subject": "s", "source": "/x"},
        {"aggregate": "order", "type": "b", "data_base64": base64.b64encode(b"\x00\xff").decode(), "id": "mine"},
        {"topic": "out", "type": "c", "data": None, "key": None, "headers": None}])
    assert rows(db, "topic, aggregate, key, event_type, payload, content_type, headers, subject, source, caused_by") == [
        ("out", None, b"k", "a", b'{"n": 1}', "application/json", [["h", "v"]], "s", "/x", seq),
        (None, "order", None, "b", b"\x00\xff", None, [], None, None, seq),
        ("out", None, None, "c", None, None, [], None, None, seq)]
    ids = [row[0] for row in rows(db, "event_id")]
    assert ids[1] == "mine"
    assert UUID.fullmatch(ids[0])
    assert len(set(ids)) == 3
    assert value(db, "SELECT status FROM inbox.messages") == "processed"


def test_a_lost_claim_emits_nothing(db):
    seq = insert(db)
    complete(db, seq, [{"topic": "t", "type": "t"}])
    with pytest.raises(psycopg.Error) as lost:
        complete(db, seq, [{"topic": "t", "type": "t"}])
    assert lost.value.sqlstate == "IB001"
    assert len(rows(db)) == 1


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"


@pytest.mark.parametrize(("of_message", "given", "stored"), [
    ([["traceparent", PARENT], ["tracestate", "a=1"], ["tenant", "x"]], {"h": "v"},
     [["h", "v"], ["traceparent", PARENT], ["tracestate", "a=1"]]),
    ([["traceparent", OTHER], ["ce_traceparent", PARENT], ["traceparent", OTHER]], {}, [["traceparent", PARENT]]),
    ([["traceparent", PARENT]], {"traceparent": OTHER}, [["traceparent", OTHER]]),
    ([["traceparent", None], ["traceparent", {"base64": "AA=="}]], {}, []),
    ([["traceparent", PARENT], ["tracestate", "a" * 8193]], {}, [["traceparent", PARENT]]),
    ([], {}, []),
])
def test_events_of_a_handler_continue_the_trace_of_its_message(db, of_message, given, stored):
    seq = insert(db)
    db.execute("UPDATE inbox.inbox_messages SET headers = %s::jsonb", [json.dumps(of_message)])
    complete(db, seq, [{"topic": "t", "type": "t", "headers": given}])
    assert rows(db, "headers") == [(stored,)]


def settings(db, **texts):
    for name, text in texts.items():
        db.execute("SELECT set_config(%s, %s, true)", ["inboxd." + name, text])


VIEW = "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES ('a', '1', 't')"
EMIT = "SELECT inbox.emit('t', 'k', 't', '{}')"


def test_events_continue_the_trace_of_their_transaction(db):
    parent = [["traceparent", PARENT]]
    for given, trace in [({"traceparent": PARENT, "tracestate": "a=1"}, [*parent, ["tracestate", "a=1"]]),
                         ({"traceparent": PARENT, "tracestate": ""}, parent),
                         ({"traceparent": PARENT, "tracestate": "a" * 8193}, parent), ({"traceparent": PARENT + "\n"}, []),
                         ({"traceparent": "x"}, []), ({"traceparent": ""}, []), ({"tracestate": "a=1"}, [])]:
        for statement in EMIT, VIEW:
            db.execute("DELETE FROM inbox.outbox")
            with db.transaction():
                settings(db, **given)
                db.execute(statement)
            db.execute(statement)  # the settings have ended with the transaction
            stored = [[pair for pair in headers if pair[0].startswith("trace")] for headers, in rows(db, "headers")]
            assert stored == [trace, []], given


def test_a_trace_of_the_event_or_of_the_transaction_has_precedence_over_that_of_the_message(db):
    seq = insert(db)
    db.execute("UPDATE inbox.inbox_messages SET headers = %s::jsonb", [json.dumps([["traceparent", OTHER], ["tracestate", "b=1"]])])
    with db.transaction():
        settings(db, traceparent=PARENT)
        db.execute("SELECT inbox.emit('t', 'k', 'own', '{}', %s::jsonb)", [json.dumps({"traceparent": OTHER})])
        complete(db, seq, [{"topic": "t", "type": "caused"}])
    assert rows(db, "event_type, headers") == [("own", [["traceparent", OTHER]]), ("caused", [["traceparent", PARENT]])]


def test_a_claim_in_the_transaction_is_the_cause_of_its_events(db):
    """A claim that the message does not have stands for none, because a service can set any."""
    for claim, known in [("{}.1.1", True), ("{}.2.1", False), ("{}.1.2", False), ("9{}.1.1", False), ("{}.1", False),
                         ("99999999999999999999.1.1", False), ("", False)]:
        db.execute("DELETE FROM inbox.outbox")
        seq = insert(db, claim)
        db.execute("UPDATE inbox.inbox_messages SET headers = %s::jsonb", [json.dumps([["traceparent", PARENT]])])
        with db.transaction():
            settings(db, claim=claim.format(seq))
            db.execute(EMIT)
            db.execute(VIEW)
            db.execute("SELECT inbox.complete(%s)", [f"{seq}.1.1"])
            db.execute(EMIT)
        assert rows(db, "caused_by") == [(seq if known else None,)] * 3, claim
        assert [["traceparent", PARENT] in headers for headers, in rows(db, "headers")] == [known] * 3


@pytest.mark.parametrize("emit", [None, []])
def test_a_handler_may_emit_nothing(db, emit):
    seq = insert(db)
    db.execute("SELECT inbox.complete(%s, '{\"a\": 1}'::jsonb, %s::jsonb)", [f"{seq}.1.1", json.dumps(emit)])
    assert rows(db) == []
    assert value(db, "SELECT result FROM inbox.messages") == {"a": 1}


def test_the_same_delivery_again_emits_the_same_ids_and_a_replay_others(db):
    """A failover can lose a completion whose events went out already."""
    events = [{"topic": "t", "type": "t"}] * 2

    def ids_of(seq, delivery):
        db.execute("DELETE FROM inbox.outbox")
        complete(db, seq, events, delivery)
        return [row[0] for row in rows(db, "event_id")]

    seq = insert(db)
    first = ids_of(seq, 1)
    db.execute("UPDATE inbox.inbox_messages SET processed_at = NULL, delivery_count = 2, claimed_by = 1, available_at = NULL,"
               " replay_count = 0")
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, replay_count = 0")
    assert ids_of(seq, 2) == first
    db.execute("SELECT inbox.replay('s', 'a')")
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, delivery_count = 3")
    assert not set(ids_of(seq, 3)) & set(first)


def test_derived_ids_depend_on_each_part(db):
    call = "SELECT inbox.caused_id(%s, %s, %s, %s, %s)"
    base = ["s", "e", "", 0, 0]
    ids = [value(db, call, *base)]
    ids.append(value(db, "SELECT inbox.caused_id(%s, %s, %s, %s, %s, '[]')", *base))
    for place, other in enumerate(["s2", "e2", "c", 1, 1]):
        ids.append(value(db, call, *base[:place], other, *base[place + 1:]))
    ids.append(value(db, call, "se", "", "", 0, 0))
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r".{14}8.{4}[89ab].{16}", one) for one in ids), "a UUID of version 8"
    assert value(db, call, *base) == ids[0]


def test_other_events_of_a_repeated_delivery_have_other_ids(db):
    """The completion was lost after the events went out, and the handler now emits others, or another order."""
    paid, mail = {"topic": "orders", "key": "17", "type": "paid"}, {"topic": "mails", "key": "17", "type": "mail"}
    other_type, other_key = {**paid, "type": "refused"}, {**paid, "key": "18"}
    seq = insert(db)

    def ids_of(delivery, *emit):
        complete(db, seq, list(emit), delivery)
        found = [row[0] for row in rows(db, "event_id")]
        db.execute("DELETE FROM inbox.outbox")
        db.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
        db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, replay_count = 0,"
                   " delivery_count = %s", [delivery + 1])
        return found

    first = ids_of(1, paid, mail, paid)
    assert len(set(first)) == 3
    assert ids_of(2, mail, paid, paid) == [first[1], first[0], first[2]]
    assert not set(ids_of(3, other_type, other_key, {**paid, "topic": "mails"}, {"aggregate": "orders", "type": "paid"})) & set(first)


def test_the_form_of_an_event_is_checked_member_by_member(db):
    members = ["topic", "aggregate", "key", "type", "data", "data_base64", "headers", "id", "source", "subject", "other", ""]
    values = ["", "x", 1, None, True, [], {}, ["a"], {"a": "b"}]
    events = [{"topic": "t", member: one} for member in members for one in values]
    found = db.execute("SELECT e, inbox.emitted_fault(e) FROM jsonb_array_elements(%s::jsonb) e", [json.dumps(events)]).fetchall()
    assert len(found) == len(events)
    for event, (_, fault) in zip(events, found):
        member, one = list(event.items())[-1]
        if member in ("other", ""):
            assert fault == f' has the member "{member}", which is not known'
        elif member in ("data", "headers") or one is None or isinstance(one, str) and (member, one) != ("data_base64", "x"):
            assert fault is None, (event, fault)
        else:
            assert fault.startswith(f".{member} is "), (event, fault)


WRONG_EMITS = [
    ("emit is a object", {}), ("emit has 1001 events", [{"topic": "t", "type": "t"}] * 1001),
    ("emit[1] is a string", [{"topic": "t", "type": "t"}, "x"]),
    ("emit[0] has the member \"tpoic\"", [{"tpoic": "t", "type": "t"}]),
    ("emit[0].topic is NULL", [{"type": "t"}]), ("emit[0].topic is 'a b'", [{"topic": "a b", "type": "t"}]),
    ("emit[0].key is a number", [{"topic": "t", "type": "t", "key": 1}]), ("emit[0].type is NULL", [{"topic": "t"}]),
    ("emit[0].data_base64 is not base64", [{"topic": "t", "type": "t", "data_base64": "?"}]),
    ("emit[0].data_base64 is given, and data", [{"topic": "t", "type": "t", "data": 1, "data_base64": ""}]),
    ("emit[0].headers is a string", [{"topic": "t", "type": "t", "headers": "x"}]),
    ("emit[0].headers has ce_id", [{"topic": "t", "type": "t", "headers": {"ce_id": "x"}}]),
    ("emit[0].id is empty", [{"topic": "t", "type": "t", "id": ""}])]


def test_a_wrong_event_of_a_handler_is_named(db):
    seq = insert(db)
    for named, emit in WRONG_EMITS:
        assert refused(db, "SELECT inbox.complete(%s, NULL, %s::jsonb)", [f"{seq}.1.1", json.dumps(emit)]
                       ).startswith(f"inbox.emit: {named}")
    assert value(db, "SELECT status FROM inbox.messages") == "claimed"


def test_a_thousand_events_are_in_their_order(db):
    seq = insert(db)
    complete(db, seq, [{"topic": "t", "type": f"t{n}"} for n in range(1000)])
    assert [row[0] for row in rows(db, "event_type")] == [f"t{n}" for n in range(1000)]


# --- The view of Debezium's users ---

def test_an_insert_into_the_view_emits_what_debezium_would(db):
    with db.transaction():
        done = db.execute("INSERT INTO inbox.outboxevent (id, aggregatetype, aggregateid, type, payload, tracingspancontext)"
                          " VALUES ('7f1c9a0e-0000-4000-8000-000000000001', 'Order', '42', 'OrderCreated', '{\"id\":42}',"
                          " E'#Mon\ntraceparent=00-aa-bb-01\n')")
        assert done.rowcount == 1
    assert rows(db, "event_id, topic, key, event_type, format, headers, payload, content_type") == [
        ("7f1c9a0e-0000-4000-8000-000000000001", "outbox.event.Order", b"42", "OrderCreated", "bare",
         [["id", "7f1c9a0e-0000-4000-8000-000000000001"], ["eventType", "OrderCreated"], ["traceparent", "00-aa-bb-01"]],
         b'{"id":42}', None)]


def test_a_delete_in_the_same_transaction_reports_its_row_and_keeps_the_event(db):
    add = "INSERT INTO inbox.outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES (%s, 'a', '1', 't', %s::jsonb)"
    ids = [f"7f1c9a0e-0000-4000-8000-{n:012}" for n in range(3)]
    value(db, "SELECT inbox.emit('t', 'k', 't', '{}')")
    with db.transaction():
        for one in ids:
            db.execute(add, [one, "{}"])
            db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
        for one in ids:
            assert db.execute("DELETE FROM inbox.outboxevent WHERE id = %s::uuid", [one]).rowcount == 1
    assert [row[0] for row in rows(db, "event_id") if row[0] in ids] == ids
    assert db.execute("SELECT * FROM inbox.outboxevent").fetchall() == []
    assert db.execute("DELETE FROM inbox.outboxevent WHERE id = %s::uuid", [ids[0]]).rowcount == 0


def test_the_view_forgets_what_is_rolled_back(db):
    add = "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES ('a', '1', %s)"
    with db.transaction():
        db.execute(add, ["first"])
        with db.transaction(force_rollback=True):
            db.execute(add, ["second"])
        db.execute(add, ["third"])
        assert db.execute("SELECT type, payload FROM inbox.outboxevent ORDER BY type").fetchall() == [
            ("first", None), ("third", None)]


def test_the_view_finds_what_an_earlier_savepoint_inserted(db):
    add = "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES ('a', '1', %s)"
    with db.transaction():
        with db.transaction():
            db.execute(add, ["first"])
        db.execute(add, ["second"])
        assert value(db, "SELECT count(*) FROM inbox.outboxevent") == 2
        assert db.execute("DELETE FROM inbox.outboxevent WHERE type = 'first'").rowcount == 1
        assert value(db, "SELECT string_agg(type, ',') FROM inbox.outboxevent") == "second"
    assert value(db, "SELECT count(*) FROM inbox.outbox") == 2


def test_the_cost_of_a_row_does_not_grow_with_those_before_it(db):
    """When each INSERT copied all of them, these took more than 160 s; the DELETE finds each of them."""
    with db.transaction():
        db.execute("SET LOCAL statement_timeout = '60s'")
        db.execute("INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type)"
                   " SELECT 'a', 'order-' || n, 't' FROM generate_series(1, 20000) n")
        assert db.execute("DELETE FROM inbox.outboxevent WHERE aggregateid LIKE 'order-%1'").rowcount == 2000
        db.execute("DO $$ BEGIN FOR n IN 1..200 LOOP INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES"
                   " ('a', 'once', 't'); DELETE FROM inbox.outboxevent WHERE aggregateid = 'once' AND type = 't'; END LOOP; END $$")
        assert value(db, "SELECT count(*) FROM inbox.outboxevent WHERE aggregateid = 'once'") == 0
    assert value(db, "SELECT count(*) FROM inbox.outbox") == 20200


@pytest.mark.parametrize("named, aggregate, kind", [("aggregatetype", None, "t"), ("topic", "a b", "t"), ("type", "a", None)])
def test_the_view_refuses_what_cannot_be_published(db, named, aggregate, kind):
    words = refused(db, "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type) VALUES (%s, '1', %s)",
                    [aggregate, kind])
    assert words.startswith(f"inbox.emit: {named} is ")


@pytest.mark.parametrize("timestamp", ["infinity", "-infinity", "1969-12-31 23:59:59Z", "10000-01-01 00:00:00Z"])
def test_the_view_refuses_a_time_that_is_none(db, timestamp):
    words = refused(db, "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type, timestamp) VALUES ('a', '1', 't', %s)",
                    [timestamp])
    assert words.startswith("inbox.emit: timestamp is ")


def test_the_view_refuses_a_trace_without_end(db):
    words = refused(db, "INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type, tracingspancontext)"
                        " VALUES ('a', '1', 't', %s)", ["traceparent=" + "0" * 8182])
    assert words.startswith("inbox.emit: tracingspancontext has ")


def test_the_age_of_an_event_is_counted_on_the_clock_of_the_database(db):
    """A session whose time zone is not that of the program makes another time of it."""
    with db.transaction():
        db.execute("INSERT INTO inbox.outboxevent (aggregatetype, aggregateid, type, timestamp)"
                   " VALUES ('a', '1', 't', now() + interval '8 hours'), ('a', '2', 't', '2001-01-01Z')")
        assert value(db, "SELECT max(timestamp) - now() FROM inbox.outboxevent") == datetime.timedelta(hours=8)
    assert value(db, "SELECT max(abs(extract(epoch FROM created_at - now()))) < 60 FROM inbox.outbox")


@pytest.mark.parametrize("never", ["infinity", "-infinity"])
def test_an_event_without_a_finite_time_disturbs_no_count(db, statements, never):
    """Somebody has written it into the table."""
    db.execute("INSERT INTO inbox.outbox (topic, event_type, created_at, available_at)"
               " VALUES ('t', 't', %s, NULL), ('t', 't', %s, 'infinity')", [never, never])
    status = value(db, "SELECT inbox.outbox_status()")
    assert (status["waiting"], status["oldest_seconds"]) == (2, None)
    assert statements.run("relay_backlog", 100) == [(2, 1, 0, None)]
    db.execute("INSERT INTO inbox.outbox (topic, event_type, created_at) VALUES ('t', 't', now() - interval '1 minute')")
    assert 60 <= value(db, "SELECT inbox.outbox_status()")["oldest_seconds"] < 120
    assert 60000 <= statements.run("relay_backlog", 100)[0][3] < 120000
    db.execute("UPDATE inbox.outbox SET created_at = now() + interval '1 hour'")
    assert value(db, "SELECT inbox.outbox_status()")["oldest_seconds"] == 0
    assert statements.run("relay_backlog", 100)[0][3] == 0


def test_a_trigger_decides_to_which_topics_a_user_may_emit(db):
    """That of docs/outbox.md."""
    document = (pathlib.Path(__file__).parents[2] / "docs/outbox.md").read_text(encoding="utf-8")
    sql = document[document.index("CREATE FUNCTION shop_topics()"):]
    with db.transaction(force_rollback=True):
        db.execute("SET LOCAL search_path = pg_temp")
        db.execute(sql[:sql.index("```")].replace("'shop'", "session_user").replace("FUNCTION shop", "FUNCTION pg_temp.shop"))
        db.execute("SELECT inbox.emit('orders', 'k', 't', '{}')")
        for call in ("inbox.emit('other', 'k', 't', '{}')", "inbox.emit(NULL, 'k', 't', '{}', aggregate => 'other')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
                db.execute(f"SELECT {call}")


# --- Operators ---

def dead(db, count=1, code="E", **values):
    given = {"topic": "orders", "event_type": "t"} | values
    return [value(db, "INSERT INTO inbox.outbox (topic, key, event_type, dead_at, error, error_code, retry_count)"
                      " VALUES (%s, 'k', %s, now(), 'boom', %s, 3) RETURNING seq",
                  given["topic"], given["event_type"], code) for _ in range(count)]


def statuses(db):
    return [row[0] for row in rows(db, "status")]


def test_a_dead_event_is_released_in_place(db):
    (seq,) = dead(db)
    assert value(db, "SELECT inbox.outbox_replay_where(reason => 'fixed')") == 1
    assert rows(db, "seq, status, retry_count, error, error_code, available_at <= now()") == [
        (seq, "retrying", 0, None, None, True)]
    assert db.execute("SELECT action, affected, reason, filter FROM inbox.inbox_audit").fetchall() == [
        ("outbox_replay", 1, "fixed", {"status": "dead"})]


def test_a_retrying_event_is_released_at_once(db):
    db.execute("INSERT INTO inbox.outbox (topic, event_type, available_at, retry_count) VALUES ('t', 't', now() + interval '1 h', 5)")
    assert value(db, "SELECT inbox.outbox_replay_where('retrying')") == 1
    assert rows(db, "available_at <= now(), retry_count") == [(True, 0)]


def test_failed_events_are_the_dead_and_the_retrying_ones(db):
    dead(db)
    for available_at in (None, "infinity", "2100-01-01"):
        db.execute("INSERT INTO inbox.outbox (topic, event_type, available_at) VALUES ('t', 't', %s)", [available_at])
    db.execute("INSERT INTO inbox.outbox (topic, event_type, published_at) VALUES ('t', 't', now())")
    page = "SELECT * FROM inbox.outbox_replay_page('{\"status\": \"failed\"}', 0, 10, 'r')"
    assert db.execute(page).fetchone() == (2, None)
    assert rows(db, "status, available_at <= now()") == [
        ("retrying", True), ("waiting", None), ("parked", False), ("retrying", True), ("published", None)]


def test_a_published_event_is_copied_with_its_id(db):
    emitted = value(db, "SELECT inbox.emit('t', 'k', 't', '{}', '{\"h\": \"v\"}', aggregate => 'a', subject => 's')")
    db.execute("UPDATE inbox.outbox SET published_at = now(), kafka_partition = 1, kafka_offset = 2")
    assert value(db, "SELECT inbox.outbox_replay_where('published', event_id => %s)", emitted) == 1
    columns = "event_id, topic, key, event_type, payload, headers, aggregate, subject, created_at"
    first, copy = rows(db, columns)
    assert first == copy
    assert statuses(db) == ["published", "waiting"]


def test_discarded_events_are_dead_with_the_reason(db):
    db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
    db.execute("INSERT INTO inbox.outbox (topic, event_type, available_at) VALUES ('t', 't', now()), ('t', 't', 'infinity')")
    assert value(db, "SELECT inbox.outbox_discard_where('parked', reason => 'old', dry_run => true)") == 1
    assert value(db, "SELECT inbox.outbox_discard_where('parked', reason => 'old')") == 1
    assert statuses(db) == ["waiting", "retrying", "dead"]
    assert value(db, "SELECT inbox.outbox_discard_where()") == 2
    assert rows(db, "status, error, error_code") == [("dead", "discarded", "DISCARDED")] * 2 + [("dead", "old", "DISCARDED")]


def test_discarded_events_need_no_attention(db):
    dead(db, topic="a", event_type="x.one", code="E")
    dead(db, topic="b", event_type="x.two", code="E")
    assert value(db, "SELECT inbox.outbox_discard_where('dead', topic => 'b', reason => 'old')") == 1
    assert value(db, "SELECT inbox.outbox_status() -> 'dead'") == 1
    count = "SELECT inbox.outbox_replay_where(%s, dry_run => true)"
    assert [value(db, count, status) for status in ("dead", "failed", "discarded")] == [1, 1, 1]
    assert value(db, "SELECT inbox.outbox_discard_where('dead', dry_run => true)") == 1
    assert value(db, "SELECT inbox.outbox_replay_where('discarded')") == 1
    assert statuses(db) == ["dead", "retrying"]


def test_filters_select_events(db):
    dead(db, topic="a", event_type="x.one", code="E")
    dead(db, topic="b", event_type="x.two", code=None)
    count = "SELECT inbox.outbox_replay_where(dry_run => true, "
    for given, wanted in [("topic => 'a'", 1), ("event_type => 'x.*'", 2), ("event_type => 'x.one'", 1), ("error_code => 'E'", 1),
                          ("error_code => ''", 1), ("error_like => '%oo%'", 2), ("key => 'k'", 2), ("key => 'z'", 0),
                          ("event_id => 'none'", 0), ("created_from => now() + interval '1 h'", 0),
                          ("created_to => now() + interval '1 h'", 2), ("max_rows => 1", 1), ("after_seq => 1", 1),
                          ("type => 'x.*'", 2), ("code => 'E'", 1), ("code => ''", 1), ("error => 'oo'", 2), ("error => '%oo%'", 0),
                          ("since => now() + interval '1 h'", 0), ("until => now() + interval '1 h'", 2), ("max => 1", 1),
                          ("after => 1", 1)]:
        assert value(db, count + given + ")") == wanted, given
    assert value(db, count + "status => 'retrying')") == 0


@pytest.mark.parametrize("call", ["outbox_replay_where('waiting')", "outbox_replay_where(NULL)", "outbox_discard_where('discarded')",
                                  "outbox_replay_where(event_id => '')", "outbox_replay_where(max_rows => 0)",
                                  "outbox_replay_where(dry_run => NULL)",
                                  "outbox_replay_page('{\"status\": \"dead\", \"foo\": 1}', 0, 1)",
                                  "outbox_replay_page('{\"status\": \"dead\", \"consumer\": \"\"}', 0, 1)",
                                  "outbox_discard_page('{\"status\": \"waiting\", \"consumer\": \"mail\"}', 0, 1)",
                                  "outbox_discard_page('{\"status\": \"published\"}', 0, 1)",
                                  "outbox_discard_page('{\"status\": \"failed\"}', 0, 1)",
                                  "outbox_replay_page('{\"status\": \"dead\", \"died_from\": \"2020-01-01\"}', 0, 1)",
                                  "outbox_replay_page('{\"status\": \"dead\", \"died_to\": \"2020-01-01\"}', 0, 1)"])
def test_wrong_arguments_of_operators_are_refused(db, call):
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        db.execute(f"SELECT inbox.{call}")


def test_pages_continue_and_end(db):
    seqs = dead(db, 5)
    after, pages = 0, []
    while after is not None:
        affected, after = db.execute("SELECT * FROM inbox.outbox_replay_page('{\"status\": \"dead\"}', %s, 2, 'r')",
                                     [after]).fetchone()
        pages.append((affected, after))
    assert pages == [(2, seqs[1]), (2, seqs[3]), (1, None)]


def test_a_page_ends_after_many_events_that_do_not_match(db):
    db.execute("INSERT INTO inbox.outbox (topic, event_type) SELECT 't', 't' FROM generate_series(1, 100001)")
    (seq,) = dead(db)
    page = "SELECT cardinality(seqs), looked, last_seq FROM inbox.outbox_page('{\"status\": \"dead\"}', %s, %s)"
    assert db.execute(page, [0, 10]).fetchone() == (0, 100_000, 100_000)
    assert db.execute(page, [100_000, 10]).fetchone() == (1, 2, None)
    assert db.execute(page, [0, None]).fetchone() == (1, 100_002, None)
    assert seq == 100_002


def test_a_locked_event_is_left_alone(db, connect):
    seqs = dead(db, 2)
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.outbox WHERE seq = %s FOR UPDATE", [seqs[0]])
        assert value(db, "SELECT inbox.outbox_replay_where()") == 1
    assert statuses(db) == ["dead", "retrying"]


def test_the_status_counts_each_state(db):
    assert value(db, "SELECT inbox.outbox_status()")["waiting"] == 0
    db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
    dead(db)
    db.execute("INSERT INTO inbox.outbox (topic, event_type, available_at, created_at)"
               " VALUES ('t', 't', now(), now() - interval '5 s'), ('t', 't', 'infinity', now())")
    db.execute("INSERT INTO inbox.outbox (topic, event_type, published_at) VALUES ('t', 't', now())")
    db.execute("UPDATE inbox.outbox_relay SET instance = 1")
    status = value(db, "SELECT inbox.outbox_status()")
    assert {name: status[name] for name in ("waiting", "retrying", "parked", "dead", "relay", "floor", "last_seq")} == {
        "waiting": 3, "retrying": 1, "parked": 1, "dead": 1, "relay": "me", "floor": 0, "last_seq": 5}
    assert 4 <= status["oldest_seconds"] < 60


# --- Retention and restores ---

def retain(db, what, age_ms, rows_at_most=100):
    return db.execute("SELECT elected, affected, more FROM inbox.retain(1, %s, %s, %s)", [what, age_ms, rows_at_most]).fetchone()


def test_published_events_are_deleted_when_they_are_old(db):
    insert_event = ("INSERT INTO inbox.outbox (topic, event_type, created_at, published_at, dead_at, available_at)"
                    " VALUES ('t', 't', now() - interval '1 h', {}, {}, {})")
    db.execute(insert_event.format("NULL", "now() - interval '1 h'", "NULL"))
    for _ in range(5):
        db.execute(insert_event.format("now() - interval '1 h'", "NULL", "NULL"))
    db.execute(insert_event.format("NULL", "NULL", "'infinity'"))
    db.execute("INSERT INTO inbox.outbox (topic, event_type, published_at) VALUES ('t', 't', now())")
    assert retain(db, "outbox", 1_800_000, 4) == (True, 3, True)
    assert retain(db, "outbox", 1_800_000, 4) == (True, 2, False)
    assert statuses(db) == ["dead", "parked", "published"]
    assert retain(db, "outbox", 1_800_000, 4) == (True, 0, False)


def test_an_event_that_was_published_late_is_deleted_by_a_later_walk(db):
    hour = 3_600_000  # the next walk begins after a tenth of it, so no stall of the test begins one
    db.execute("INSERT INTO inbox.outbox (topic, event_type, created_at, available_at) VALUES ('t', 't', now() - interval '3 h', now())")
    assert retain(db, "outbox", hour) == (True, 0, False)
    db.execute("UPDATE inbox.outbox SET available_at = NULL, published_at = now() - interval '2 h'")
    assert retain(db, "outbox", hour) == (True, 0, False)
    db.execute("UPDATE inbox.inbox_janitor SET walks = jsonb_set(walks, '{outbox,begun_at}', to_jsonb(now() - interval '1 h'))")
    assert retain(db, "outbox", hour) == (True, 0, False)
    assert retain(db, "outbox", hour) == (True, 1, False)


def test_dead_events_are_deleted_when_they_are_old(db):
    dead(db, 3)
    db.execute("UPDATE inbox.outbox SET dead_at = now() - interval '1 h' WHERE seq < 3")
    assert retain(db, "outbox_dead", 1_800_000, 1) == (True, 1, True)
    assert retain(db, "outbox_dead", 1_800_000) == (True, 1, False)
    assert len(rows(db)) == 1


def test_a_sequence_behind_the_events_is_advanced(db):
    for _ in range(3):
        db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
    db.execute("ALTER SEQUENCE inbox.outbox_seq RESTART")
    assert db.execute("SELECT * FROM inbox.advance_sequences()").fetchall() == [
        ("inbox.outbox", "inbox.outbox_seq", 0, 3)]
    db.execute("SELECT inbox.emit('t', 'k', 't', '{}')")
    assert len(rows(db)) == 4


def test_a_filter_by_topic_finds_events_with_an_aggregate(db):
    """The relay makes their topic of outbox.topic, which the command line knows."""
    db.execute("SELECT inbox.emit('order', 'k', 't', '{}'), inbox.emit(NULL, 'k', 't', '{}', aggregate => 'order'),"
               " inbox.emit(NULL, 'k', 't', '{}', aggregate => 'other')")
    assert value(db, "SELECT inbox.outbox_discard_where(topic => 'order', dry_run => true)") == 2
    found = "SELECT cardinality(seqs) FROM inbox.outbox_page(inbox.check_outbox_filter('list', %s, '{waiting}'), 0, 10)"
    for topic, template, count in (("order", "{aggregate}", 2), ("order", "x.{aggregate}.{type}", 1),
                                   ("x.order.t", "x.{aggregate}.{type}", 1), ("order.t", "{aggregate}", 0)):
        assert value(db, found, json.dumps({"status": "waiting", "topic": topic, "topic_template": template})) == count
