"""Blocked keys: which message each waits for, pages of them, and how an operator gives such a message up."""

import json

import psycopg
import pytest

from test_functions import insert, row_of
from test_operators import audit, dead, processed, status_of, value, waiting


def order(db, ordering):
    db.execute("UPDATE inbox.inbox_offsets SET ordering = %s", [ordering])


def parked(db, event_id, **columns):
    return waiting(db, event_id, **{"available_at": "infinity", "key": b"k", **columns})


def retrying(db, event_id, **columns):
    return waiting(db, event_id, **{"available_at": "2100-01-01", "retry_count": 2, "error": "boom", "error_code": "E",
                                    "key": b"k", **columns})


def claimed(db, event_id, **columns):
    """Claimed from the table."""
    return insert(db, event_id, **{"delivery_count": 2, "claim_number": 5, "key": b"k", **columns})


def keys(db, *arguments):
    cursor = db.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(f"SELECT * FROM inbox.keys({', '.join(arguments)})").fetchall()


BLOCKED = {
    "a retry": (lambda db: retrying(db, "head", kafka_offset=1), "retrying"),
    "a message for which there is no handler": (lambda db: parked(db, "head", kafka_offset=1), "parked"),
    "a message that is claimed from the table": (lambda db: claimed(db, "head", kafka_offset=1), "claimed"),
    "a message that was born claimed": (lambda db: insert(db, "head", key=b"k", kafka_offset=1), "claimed"),
    "a message that is due and locked": (lambda db: waiting(db, "head", key=b"k", kafka_offset=1), "waiting"),
}


@pytest.mark.parametrize("make, status", BLOCKED.values(), ids=BLOCKED)
@pytest.mark.parametrize("ordering", ["key", "partition"])
def test_a_key_is_blocked_by(db, make, status, ordering):
    order(db, ordering)
    seq = make(db)
    for offset in (2, 3):
        parked(db, f"behind{offset}", kafka_offset=offset)
    (key,) = keys(db)
    assert (key["seq"], key["event_id"], key["status"], key["waiting"]) == (seq, "head", status, 2)
    assert (key["key_text"], key["topic"], key["kafka_partition"], key["consumer"]) == \
        ("k" if ordering == "key" else None, "orders", 0, "")


NOT_BLOCKED = {
    "one message that waits alone": lambda db: retrying(db, "a"),
    "messages of other keys": lambda db: [retrying(db, "a"), parked(db, "b", key=b"other", kafka_offset=2)],
    "messages of another consumer": lambda db: [retrying(db, "a"), parked(db, "b", consumer="c", kafka_offset=2)],
    "messages of another partition": lambda db: [retrying(db, "a"), parked(db, "b", kafka_partition=1, kafka_offset=2)],
    "messages without a key": lambda db: [retrying(db, "a", key=None), parked(db, "b", key=None, kafka_offset=2)],
    "a backlog of due messages": lambda db: [waiting(db, "a", key=b"k"), waiting(db, "b", key=b"k", kafka_offset=2)],
    "a later message that is claimed": lambda db: [retrying(db, "a"), claimed(db, "b", kafka_offset=2)],
    "an earlier message that is done": lambda db: [processed(db, "a", key=b"k"), dead(db, "b", key=b"k"),
                                                   retrying(db, "c", kafka_offset=2)],
}


@pytest.mark.parametrize("make", NOT_BLOCKED.values(), ids=NOT_BLOCKED)
def test_no_key_is_blocked_by(db, make):
    make(db)
    assert keys(db) == []


def test_without_an_order_no_key_is_blocked(db):
    order(db, "none")
    retrying(db, "a")
    parked(db, "b", kafka_offset=2)
    assert keys(db) == []


def test_the_order_of_the_consumer_counts(db):
    db.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('loose', 'none', '1 h'), ('strict', 'key', '1 h')")
    order(db, "none")
    for consumer in ("loose", "strict", ""):
        retrying(db, "a", consumer=consumer)
        parked(db, "b", consumer=consumer, kafka_offset=2)
    assert [key["consumer"] for key in keys(db)] == ["strict"]


def test_a_key_has_its_error_its_next_attempt_and_since_when_it_waits(db):
    retrying(db, "a", received_at="2020-01-01", attempts='[{"at": "2020-01-01T09:00Z", "attempt": 1}, {"at": "x", "replayed_by":'
             ' "me"}, {"at": "2020-01-02T09:00Z", "attempt": 1}, {"at": "2020-01-02T10:00Z", "attempt": 2}]')
    parked(db, "b", kafka_offset=2, received_at="2020-01-01 12:00Z")
    (key,) = keys(db)
    assert (key["error"], key["error_code"], key["retry_count"]) == ("boom", "E", 2)
    assert (key["next_attempt"].year, key["since"].isoformat()[:13]) == (2100, value(
        db, "SELECT '2020-01-02 09:00Z'::timestamptz").isoformat()[:13])
    db.execute("UPDATE inbox.inbox_messages SET received_at = '2020-01-03 12:00Z' WHERE event_id = 'b'")
    assert keys(db)[0]["since"] == value(db, "SELECT '2020-01-03 12:00Z'::timestamptz"), "b was stored later"


def test_a_key_names_the_known_handler_of_a_parked_message(db):
    parked(db, "a", event_type="order.created")
    parked(db, "b", kafka_offset=2)
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('billing', '[{\"topic\": \"orders\"}]', '1 hour', now(), now(), now())")
    assert keys(db)[0]["handler"] == "billing"


def test_pages_visit_each_blocked_key_once(db):
    db.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, owner, ordering) VALUES ('bills', 7, 1, 'partition')")
    expected = set()
    for consumer in ("", "c"):
        for partition in (0, 2):
            for key in ("k1", "k2", "k3"):
                name = f"{consumer}-{partition}-{key}"
                expected.add(retrying(db, name, consumer=consumer, kafka_partition=partition, key=key.encode(), kafka_offset=1))
                parked(db, f"{name}-b", consumer=consumer, kafka_partition=partition, key=key.encode(), kafka_offset=2)
        expected.add(claimed(db, f"{consumer}-bills", consumer=consumer, topic="bills", kafka_partition=7))
        parked(db, f"{consumer}-bills-b", consumer=consumer, topic="bills", kafka_partition=7, kafka_offset=2, key=None)
    found, after = [], 0
    while page := keys(db, "'{}'", str(after), "3"):
        found += [key["seq"] for key in page]
        after = found[-1]
    assert (len(found), set(found)) == (len(expected), expected)
    assert {key["seq"] for key in keys(db, """'{"topic": "bills"}'""")} == \
        {seq for seq in expected if row_of(db, seq)["topic"] == "bills"}
    assert {key["consumer"] for key in keys(db, """'{"consumer": "c"}'""")} == {"c"}
    assert len(keys(db, """'{"consumer": ""}'""")) == 7


def test_a_page_ends_after_many_keys_that_are_not_blocked(db):
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, key, available_at)"
               " SELECT 's', 'e' || i, 'orders', 0, i, ('k' || i)::bytea, now() FROM generate_series(1, 100005) i")
    db.execute("SET client_min_messages = warning")
    said = []
    db.add_notice_handler(lambda notice: said.append(notice.message_primary))
    assert keys(db) == []
    (words,) = said
    assert words.startswith("inbox.keys: looked at 100000 keys, as far as that of the message with seq ")
    assert keys(db, "'{}'", words.rpartition(" ")[2]) == [] and len(said) == 1


def test_a_page_of_keys_reads_no_row_behind_their_heads(db):
    """And no row of other keys: 50 keys are blocked, with 100,000 parked rows and as many that are due."""
    db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, key, available_at,"
               " retry_count) SELECT 's', 'e' || i, 'orders', 0, i, ('k' || CASE WHEN i % 2 = 0 THEN i % 100 ELSE 1 END)::bytea,"
               " CASE WHEN i % 2 = 1 THEN now() WHEN i <= 100 THEN '2100-01-01' ELSE 'infinity' END, 0"
               " FROM generate_series(1, 200000) i")
    db.execute("UPDATE inbox.inbox_instances SET low_seq = 200001")
    plan = value(db, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT inbox.look_keys('{}', 0, 100)")[0]["Plan"]
    assert value(db, "SELECT cardinality(seqs) FROM inbox.look_keys('{}', 0, 100)") == 50
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 2000


def test_a_waiting_message_waits_behind_the_first_one_of_its_key(db):
    head = retrying(db, "a", kafka_offset=1)
    between = parked(db, "b", kafka_offset=2)
    last = parked(db, "c", kafka_offset=3)
    other = parked(db, "d", key=None, kafka_offset=4)
    found = [value(db, "SELECT inbox.waits_behind(%s)", seq) for seq in (head, between, last, other)]
    assert found == [None, head, head, None]
    held = claimed(db, "e", kafka_offset=0)
    assert value(db, "SELECT inbox.waits_behind(%s)", last) == held


def test_a_page_of_the_command_ends_as_that_of_the_function(db, statements):
    assert statements.run("op_keys", "{}", 0, 10)[0][-3:] == (None, 0, None), "no key is blocked"
    for key in (b"k1", b"k2"):
        retrying(db, key.decode(), key=key)
        parked(db, f"{key.decode()}-b", key=key, kafka_offset=2)
    (first, *_), (second, *_) = pages = statements.run("op_keys", "{}", 0, 10)
    assert (first, second) == ("", "") and {page[3] for page in pages} == {"k1", "k2"}
    assert [page[6:10] for page in pages if page[3] == "k1"] == [("k1", "retrying", "2100-01-01T00:00:00Z", "E: boom")]
    (page,) = statements.run("op_keys", "{}", 0, 1)
    assert (page[-2], page[-1]) == (1, page[-3])


def test_show_names_what_a_message_waits_for(db, statements):
    def waits_for(seq):
        return [value for (_, name, value) in statements.run("op_show_facts", seq) if name == "waits for"]

    head, last = retrying(db, "a"), parked(db, "b", kafka_offset=2)
    alone = parked(db, "c", key=b"other")
    assert waits_for(head) == []
    assert waits_for(last) == [f"event a of its key (seq {head}), which is retrying, next attempt at 2100-01-01T00:00:00Z"]
    assert waits_for(alone) == ["a handler: no known one wants it"]
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('billing', '[{\"topic\": \"orders\"}]', '1 hour', now(), now(), '2020-01-01Z')")
    db.execute("UPDATE inbox.inbox_handlers SET memory = '1000 years'")
    assert waits_for(alone) == ["handler billing, away since 2020-01-01T00:00:00Z"]
    shown = json.loads(statements.run("op_show", "b", None, None)[0][1])
    assert (shown["waits_behind"]["event_id"], shown["waits_behind"]["status"]) == ("a", "retrying")
    assert json.loads(statements.run("op_show", "c", None, None)[0][1])["waits_for"] == "billing"


def test_show_says_that_a_handler_is_not_connected_to_the_owner(db, statements):
    def waits_for():
        return [value for (_, name, value) in statements.run("op_show_facts", seq) if name == "waits for"]

    seq = parked(db, "a")
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('billing', '[{\"topic\": \"orders\"}]', '1 hour', now(), now(), now())")
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, handlers) VALUES (2, 'other', 1, '[\"billing\"]')")
    assert waits_for() == ["handler billing: not connected to the sidecar that owns the partition"]
    db.execute("UPDATE inbox.inbox_instances SET handlers = '[\"billing\"]' WHERE id = 1")
    assert waits_for() == ["the handler billing: inboxd releases the message within seconds"]


def test_show_as_json_says_what_a_message_waits_for(db, statements):
    def shown(event_id):
        row = json.loads(statements.run("op_show", event_id, None, None)[0][1])
        return {name: row[name] for name in ("wanted_by", "paused", "waits_for", "waits_behind") if name in row}

    parked(db, "a")
    processed(db, "p", kafka_offset=2)
    assert shown("a") == {"wanted_by": None}, "no known handler wants it"
    assert shown("p") == {}
    db.execute("INSERT INTO inbox.inbox_handlers (name, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('billing', '[{\"topic\": \"orders\"}]', '1 hour', now(), now(), now())")
    db.execute("SELECT inbox.pause('handler', 'billing', 'deploy')")
    paused = shown("a")
    assert (paused["wanted_by"], paused["paused"]["kind"], paused["paused"]["name"], paused["paused"]["reason"]) == \
        ("billing", "handler", "billing", "deploy")
    db.execute("SELECT inbox.pause('topic', 'orders')")
    assert shown("a")["paused"]["kind"] == "topic", "as in the table"


def test_show_names_no_handler_of_a_resolved_message(db, statements):
    seq = dead(db, "a", handler="billing")
    db.execute("SELECT inbox.resolve('s', 'a', 'booked by hand')")
    me = value(db, "SELECT session_user::text")
    assert ("message", "handler", f"none: resolved by {me}") in statements.run("op_show_facts", seq)
    assert statements.run("op_find", "a", None, None, None)[0][-2].endswith(f" by {me}")
    db.execute("SELECT inbox.replay('s', 'a')")
    assert "handler" not in [name for (_, name, _) in statements.run("op_show_facts", seq)]


# --- skip -------------------------------------------------------------------------------------------


def test_skip_makes_the_blocking_message_dead_with_the_reason(db):
    seq = retrying(db, "a")
    parked(db, "b", kafka_offset=2)
    assert value(db, "SELECT inbox.skip_key('orders', 'k', reason => 'no such order')") == "a"
    row = row_of(db, seq)
    assert (row["status"], row["error"], row["error_code"]) == ("dead", "no such order", "DISCARDED")
    assert row["attempts"][-1]["discarded_by"] == value(db, "SELECT session_user::text")
    assert status_of(db, "b") == "parked", "a sidecar releases it"
    (entry,) = audit(db)
    assert (entry["action"], entry["reason"], entry["affected"]) == ("skip_key", "no such order", 1)
    assert entry["filter"] == {"topic": "orders", "key": "k", "kafka_partition": 0, "source": "s", "event_id": "a", "seq": seq}
    assert value(db, "SELECT inbox.replay('s', 'a')") is True


def test_skip_never_touches_a_message_that_an_instance_holds(db):
    seq = claimed(db, "a")
    parked(db, "b", kafka_offset=2)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="an instance holds event 'a'"):
        db.execute("SELECT inbox.skip_key('orders', 'k')")
    assert (row_of(db, seq)["status"], status_of(db, "b"), audit(db)) == ("claimed", "parked", [])


def test_skip_does_not_wait_for_a_locked_message(db, connect):
    retrying(db, "a")
    parked(db, "b", kafka_offset=2)
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'a' FOR UPDATE")
        db.execute("SET lock_timeout = '30s'")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="event 'a' is locked"):
            db.execute("SELECT inbox.skip_key('orders', 'k')")


def test_skip_refuses_another_message_than_the_one_given(db):
    seq = retrying(db, "a")
    parked(db, "b", kafka_offset=2)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="waits for event 'a' now"):
        db.execute("SELECT inbox.skip_key('orders', 'k', seq => %s)", [seq + 1])
    assert value(db, "SELECT inbox.skip_key('orders', 'k', seq => %s)", seq) == "a"


def test_skip_of_a_key_without_waiting_messages_changes_nothing(db):
    processed(db, "a", key=b"k")
    assert value(db, "SELECT inbox.skip_key('orders', 'k')") is None
    assert [entry["affected"] for entry in audit(db)] == [0]


def test_skip_is_for_one_consumer_and_one_partition(db):
    for consumer in ("", "c"):
        for partition in (0, 1):
            retrying(db, f"{consumer}{partition}", consumer=consumer, kafka_partition=partition)
            parked(db, f"{consumer}{partition}-b", consumer=consumer, kafka_partition=partition, kafka_offset=2)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="partitions 0 and 1"):
        db.execute("SELECT inbox.skip_key('orders', 'k', 'c')")
    assert value(db, "SELECT inbox.skip_key('orders', 'k', 'c', kafka_partition => 1)") == "c1"
    assert value(db, "SELECT array_agg(event_id) FROM inbox.messages WHERE status = 'dead'") == ["c1"]


def test_skip_takes_a_key_that_is_no_text(db):
    for key in (b"\xff\x00", b"\\xff"):
        db.execute("DELETE FROM inbox.inbox_messages")
        retrying(db, "a", key=key)
        parked(db, "b", key=key, kafka_offset=2)
        shown = value(db, "SELECT coalesce(key_text, '\\x' || encode(key, 'hex')) FROM inbox.keys()")
        assert value(db, "SELECT inbox.skip_key('orders', %s)", shown) == "a"


def test_with_the_order_partition_skip_takes_the_partition(db):
    order(db, "partition")
    retrying(db, "a", key=None)
    parked(db, "b", kafka_offset=2)
    assert value(db, "SELECT inbox.skip_key('orders', 'k')") is None, "the order is not by key"
    assert value(db, "SELECT inbox.skip_key('orders', NULL, kafka_partition => 0)") == "a"


@pytest.mark.parametrize("call, words", [
    ("skip_key(NULL, 'k')", "topic and consumer"), ("skip_key('orders', 'k', NULL)", "topic and consumer"),
    ("skip_key('orders', NULL)", "give a key"), ("keys('{\"status\": \"dead\"}')", "no filter \"status\""),
    ("keys('{}', 0, 0)", "max_rows is 0"), ("keys('{}', 77)", "no message with seq 77")])
def test_a_wrong_argument_is_one_clear_error(db, call, words):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as raised:
        db.execute(f"SELECT inbox.{call}")
    assert words in raised.value.diag.message_primary
