"""inbox.backfill(): a consumer gets the messages that the table still holds for others."""

import concurrent.futures
import contextlib
import json
import re

import psycopg
import pytest

import statements
from support.wait import eventually
from test_functions import insert, interrupted
from test_operators import audit, dead, processed, value, waiting


@pytest.fixture
def consumers(db):
    """The known consumers billing, search and orders; the last wants the types order.* of the topic orders."""
    db.execute("""INSERT INTO inbox.inbox_consumers (name, ordering, topics, types, memory) VALUES
                  ('billing', 'key', NULL, NULL, '1 h'), ('search', 'key', NULL, NULL, '1 h'),
                  ('orders', 'key', '["orders", "^re"]', '["order.*", "x"]', '1 h')""")
    return db


def backfill(db, *arguments):
    cursor = db.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(f"SELECT * FROM inbox.backfill({', '.join(arguments)})").fetchone()


def copies(db, consumer="search"):
    return [row[0] for row in db.execute("SELECT event_id FROM inbox.inbox_messages WHERE consumer = %s AND available_at IS NOT"
                                         " NULL ORDER BY seq", [consumer])]


def stored(db, event_id, offset=1, **columns):
    return processed(db, event_id, **{"consumer": "billing", "kafka_offset": offset, **columns})


def test_a_consumer_gets_what_others_have_in_every_state(consumers):
    stored(consumers, "a", 1, event_type="t", key=b"k", headers='[["h", "v"]]', kafka_timestamp="2020-01-01Z", result="1",
           handler="h", attempts="[]", received_at="2020-01-01")
    dead(consumers, "b", consumer="billing", kafka_offset=2)
    waiting(consumers, "c", consumer="billing", kafka_offset=3, payload=b"{}", retry_count=2, error="boom")
    insert(consumers, "d", consumer="billing", kafka_offset=4, payload=b"{}")
    found = backfill(consumers, "'search'")
    assert found == {"affected": 4, "without_payload": 0, "late": 0, "last_seq": None}
    assert copies(consumers) == ["a", "b", "c", "d"]
    same = ("source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload,"
            " payload_digest")
    rows = consumers.execute(f"SELECT {same} FROM inbox.inbox_messages WHERE event_id = 'a'").fetchall()
    assert rows[0] == rows[1]
    assert consumers.execute("SELECT claimed_by, delivery_count, retry_count, error, result, handler, attempts, status,"
                             " received_at > now() - interval '1 h' FROM inbox.messages"
                             " WHERE consumer = 'search' AND event_id = 'a'").fetchone() == \
        (None, 0, 0, None, None, None, None, "waiting", True)


def test_a_payload_that_retention_drops_meanwhile_is_not_copied_as_none(consumers, connect):
    stored(consumers, "a", payload=b"{}", payload_digest=b"d")
    stored(consumers, "b", 2, payload=b"{}", payload_digest=b"d")
    with interrupted(consumers, "copy_rows", "    INSERT INTO inbox.inbox_messages", backfill, connect(), "'search'") as late:
        consumers.execute("UPDATE inbox.inbox_messages SET payload = NULL WHERE event_id = 'a'")
    assert late.result()["affected"] == 1
    assert copies(consumers) == ["b"]


def test_a_second_backfill_copies_nothing(consumers):
    stored(consumers, "a")
    assert backfill(consumers, "'search'")["affected"] == 1
    assert backfill(consumers, "'search'")["affected"] == 0
    consumers.execute("UPDATE inbox.inbox_messages SET available_at = NULL, processed_at = now()")
    assert backfill(consumers, "'search'")["affected"] == 0
    assert [entry["affected"] for entry in audit(consumers)] == [1]


def test_a_dry_run_counts_and_changes_nothing(consumers):
    stored(consumers, "a")
    stored(consumers, "b", payload=None)
    assert backfill(consumers, "'search'", "dry_run => true") == \
        {"affected": 1, "without_payload": 1, "late": 0, "last_seq": None}
    assert (copies(consumers), audit(consumers)) == ([], [])
    assert value(consumers, "SELECT bool_and(epoch = 1) FROM inbox.inbox_offsets")


def test_messages_without_payload_are_left_out_and_counted_once(consumers):
    stored(consumers, "dropped", payload=None)
    stored(consumers, "dropped", consumer="orders", payload=None)
    stored(consumers, "kept by one", payload=None)
    stored(consumers, "kept by one", consumer="orders", payload=b"{}")
    stored(consumers, "tombstone", payload=None, payload_digest=None)
    found = backfill(consumers, "'search'")
    assert (found["affected"], found["without_payload"]) == (2, 1)
    assert copies(consumers) == ["kept by one", "tombstone"]
    assert backfill(consumers, "'search'", "from_consumer => 'billing'", "dry_run => true")["without_payload"] == 1


FILTERS = {
    "everything": ("", ["a", "b", "c", "d"]),
    "one consumer": ("from_consumer => 'orders'", ["d"]),
    "a topic": ("topic => 'bills'", ["c"]),
    "a time": ("since => '2020-01-01'", ["a", "c", "d"]),
    "so many": ("max_rows => 2", ["a", "b"]),
    "as many as there are": ("max_rows => 2147483647", ["a", "b", "c", "d"]),
    "from a place on": ("after_seq => (SELECT seq FROM inbox.inbox_messages WHERE event_id = 'b')", ["c", "d"]),
    "nothing": ("topic => 'none'", []),
}


@pytest.mark.parametrize("arguments, expected", FILTERS.values(), ids=FILTERS)
def test_filters_select_what_is_copied(consumers, arguments, expected):
    stored(consumers, "a", 1)
    stored(consumers, "b", 2, received_at="2010-01-01")
    stored(consumers, "c", 3, topic="bills")
    stored(consumers, "d", 4, consumer="orders")
    given = ["'search'", *([arguments] if arguments else [])]
    if "after_seq" not in arguments:
        assert backfill(consumers, *given, "dry_run => true")["affected"] == len(expected)
    found = backfill(consumers, *given)
    assert (found["affected"], copies(consumers)) == (len(expected), expected)
    assert found["last_seq"] == (value(consumers, "SELECT seq FROM inbox.inbox_messages WHERE event_id = 'b'"
                                       " AND consumer = 'billing'") if arguments == "max_rows => 2" else None)


def test_a_consumer_gets_only_what_it_wants(consumers):
    for number, (topic, kind) in enumerate([("orders", "order.created"), ("orders", "x"), ("returns", "order."), ("orders", "xy"),
                                            ("orders", None), ("bills", "order.created"), ("orders", "order")]):
        stored(consumers, f"{number}", number, topic=topic, event_type=kind)
    assert backfill(consumers, "'orders'", "dry_run => true")["affected"] == 3
    assert backfill(consumers, "'orders'")["affected"] == 3
    assert copies(consumers, "orders") == ["0", "1", "2"]


def test_copies_whose_key_has_later_messages_that_ended_are_counted(consumers):
    for offset in (1, 2, 5):
        stored(consumers, f"k{offset}", offset, key=b"k")
    stored(consumers, "other", 1, key=b"other")
    stored(consumers, "none", 1, key=None)
    processed(consumers, "later", consumer="search", kafka_offset=3, key=b"k")
    waiting(consumers, "waits", consumer="search", kafka_offset=9, key=b"other")
    processed(consumers, "keyless", consumer="search", kafka_offset=9, key=None)
    assert backfill(consumers, "'search'", "dry_run => true")["late"] == 2
    consumers.execute("UPDATE inbox.inbox_consumers SET ordering = 'partition'")
    assert backfill(consumers, "'search'", "dry_run => true")["late"] == 5
    consumers.execute("UPDATE inbox.inbox_consumers SET ordering = 'none'")
    assert backfill(consumers, "'search'")["late"] == 0


def test_the_count_compares_no_two_lists_of_messages(consumers):
    """Statistics from before the consumer had a row: the planner expects none, so it would compare each with each."""
    consumers.execute("INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, key,"
                      " processed_at) SELECT 'billing', 's', 'e' || i, 'orders', i % 4, i, ('k' || i)::bytea, now()"
                      " FROM generate_series(1, 20000) i")
    consumers.execute("VACUUM ANALYZE inbox.inbox_messages")
    consumers.execute("INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, key,"
                      " processed_at) SELECT 'search', source, event_id, topic, kafka_partition, kafka_offset, key, now()"
                      " FROM inbox.inbox_messages WHERE seq % 2 = 0")
    consumers.execute("LOAD 'auto_explain'")
    for name, setting in (("log_min_duration", "0"), ("log_nested_statements", "on"), ("log_analyze", "on"), ("log_timing", "off")):
        consumers.execute(f"SET auto_explain.{name} = {setting}")
    plans = []
    consumers.add_notice_handler(lambda notice: plans.append(notice.message_primary))
    consumers.execute("SET client_min_messages = log")
    assert value(consumers, "SELECT copies FROM inbox.backfill_count('{\"consumer\": \"search\"}')") == 10000
    consumers.execute("RESET client_min_messages")
    plan = next(plan for plan in plans if "wanted" in plan and "Anti Join" in plan)
    removed = [int(line.rpartition(":")[2]) for line in plan.splitlines() if "Rows Removed by Join Filter" in line]
    assert max(removed, default=0) < 1000, plan


def test_pages_copy_each_message_once_and_in_order(consumers):
    for offset in range(1, 8):
        stored(consumers, f"e{offset}", offset)
        stored(consumers, f"e{offset}", offset, consumer="orders")
    until, after, pages = value(consumers, "SELECT until_seq FROM inbox.backfill_count('{\"consumer\": \"search\"}')"), 0, []
    given = json.dumps({"consumer": "search", "until_seq": until})
    while after is not None:
        affected, after = consumers.execute("SELECT affected, last_seq FROM inbox.backfill_page(%s, %s, 4, 'why')",
                                            [given, after]).fetchone()
        pages.append(affected)
    assert (sum(pages), len(pages)) == (7, 4)
    assert copies(consumers) == [f"e{offset}" for offset in range(1, 8)]
    assert [entry["affected"] for entry in audit(consumers)] == [page for page in pages if page]
    assert {(entry["action"], entry["reason"], entry["filter"]["consumer"]) for entry in audit(consumers)} == \
        {("backfill", "why", "search")}


def test_two_backfills_at_once_copy_each_message_once(consumers, connect):
    for offset in range(200):
        stored(consumers, f"e{offset}", offset)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda connection: backfill(connection, "'search'"), [connect(), connect()]))
    assert sum(found["affected"] for found in both) == 200
    assert copies(consumers) == [f"e{offset}" for offset in range(200)]
    assert sum(entry["affected"] for entry in audit(consumers)) == 200


def test_the_first_page_raises_the_epochs_and_later_ones_do_not(consumers):
    """A batch of a sidecar that does not know of the copies is rolled back then."""
    def epochs():
        return {row[0] for row in consumers.execute("SELECT epoch FROM inbox.inbox_offsets")}

    consumers.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, owner, ordering) VALUES ('bills', 0, 1, 'key')")
    for number, topic in enumerate(["orders", "orders", "bills"]):
        stored(consumers, f"e{number}", number, topic=topic)
        backfill(consumers, "'search'", f"topic => '{topic}'")
        assert epochs() == {2}
    assert value(consumers, "SELECT backfill_until > now() + interval '5 min' FROM inbox.inbox_consumers WHERE name = 'search'")
    consumers.execute("UPDATE inbox.inbox_consumers SET backfill_until = now() + interval '4 min'")
    stored(consumers, "later")
    backfill(consumers, "'search'")
    assert epochs() == {3}


def test_a_stream_is_not_clean_during_a_backfill(consumers, statements):
    def waits(consumer):
        return statements.run("any_waiting", ["orders"], [0], [consumer])[0][0]

    stored(consumers, "a")
    backfill(consumers, "'search'")
    consumers.execute("UPDATE inbox.inbox_messages SET available_at = NULL, dead_at = now() WHERE available_at IS NOT NULL")
    assert (waits("search"), waits("billing"), waits("")) == (True, False, False)
    consumers.execute("UPDATE inbox.inbox_consumers SET backfill_until = now() - interval '1 s'")
    assert waits("search") is False


def test_a_backfill_keeps_no_partition_locked_while_it_waits_for_another_one(consumers, connect):
    """A stopped process may hold the row of a partition until its lease ends."""
    stored(consumers, "a")
    holder, other = connect(), connect()
    other.execute("SET lock_timeout = '30s'")
    holder.execute("BEGIN; SELECT FROM inbox.inbox_offsets WHERE kafka_partition = 2 FOR UPDATE")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting_one = pool.submit(backfill, consumers, "'search'")
        for _ in range(20):
            other.execute("UPDATE inbox.inbox_offsets SET updated_at = now() WHERE kafka_partition < 2")
        assert not waiting_one.done()
        holder.execute("COMMIT")
        assert waiting_one.result(timeout=60)["affected"] == 1


def test_an_open_backfill_lets_batches_and_heartbeats_go_on(consumers, connect):
    """An operator looks at the copies before the COMMIT."""
    stored(consumers, "a")
    operator = connect()
    with operator.transaction():
        assert backfill(operator, "'search'")["affected"] == 1
        consumers.execute("SET lock_timeout = '30s'")
        consumers.execute("UPDATE inbox.inbox_offsets SET next_offset = next_offset + 1")
        consumers.execute("UPDATE inbox.inbox_consumers SET listed_at = now()")
        consumers.execute("RESET lock_timeout")
        assert value(consumers, "SELECT max(epoch) FROM inbox.inbox_offsets") == 1
    assert value(consumers, "SELECT min(epoch) FROM inbox.inbox_offsets") == 2, "with the COMMIT that shows the copies"
    assert value(consumers, "SELECT backfill_until > now() FROM inbox.inbox_consumers WHERE name = 'search'")


def test_a_backfill_gets_its_locks_although_batches_hold_them_nearly_all_the_time(consumers, connect):
    stored(consumers, "a")

    def store(partition):
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            connect().execute(f"""DO $do$ BEGIN FOR i IN 1..2000 LOOP
                UPDATE inbox.inbox_offsets SET updated_at = now() WHERE kafka_partition = {partition};
                PERFORM pg_sleep(0.05);
                COMMIT;
            END LOOP; END $do$""")

    writing = "FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO $do$ BEGIN FOR%'"
    consumers.execute("SET statement_timeout = '60s'")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        sidecars = [pool.submit(store, partition) for partition in range(3)]
        try:
            eventually(lambda: consumers.execute(f"SELECT count(*) {writing}").fetchone()[0] == 3)
            assert backfill(consumers, "'search'")["affected"] == 1
        finally:
            # Again, because a cancel that comes before the statement has begun is lost.
            eventually(lambda: consumers.execute(f"SELECT pg_cancel_backend(pid) {writing}") and all(map(concurrent.futures.Future.done, sidecars)))
        for sidecar in sidecars:
            sidecar.result()


def test_a_backfill_notifies_the_sidecars(consumers, connect):
    stored(consumers, "a")
    listener = connect()
    listener.execute("LISTEN inboxd_replay")
    backfill(consumers, "'search'")
    assert len(list(listener.notifies(timeout=60, stop_after=1))) == 1
    listener.close()


@pytest.mark.parametrize("call, words", [
    ("backfill(NULL)", "consumer must be given"), ("backfill('serach')", 'no consumer "serach" is known; known: "billing", "orders"'),
    ("backfill('old')", 'no consumer "old" is known'), ("backfill('search', 'search')", "cannot get its own messages"),
    ("backfill('search', topic => '')", "topic is empty"), ("backfill('search', max_rows => 0)", "max_rows is 0"),
    ("backfill('search', dry_run => NULL)", "dry_run is NULL"),
    ("backfill('search', dry_run => true, after_seq => 1)", "after_seq is given with dry_run"), ("backfill_page('{\"consumer\": \"search\"}', 0, 1)", "until_seq"),
    ("backfill_page('{\"consumer\": \"search\", \"key\": \"k\"}', 0, 1)", 'no filter "key"')])
def test_a_wrong_argument_is_one_clear_error(consumers, call, words):
    consumers.execute("INSERT INTO inbox.inbox_consumers (name, ordering, memory, listed_at) VALUES ('old', 'key', '1 h', '2020-01-01')")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as raised:
        consumers.execute(f"SELECT inbox.{call}")
    assert words in raised.value.diag.message_primary


@pytest.mark.parametrize("follows, rows, expected", [(True, 1, "off"), (False, 1, "on"), (True, 9, "on")],
                         ids=["another page follows", "the last page", "the end"])
def test_only_a_page_that_another_one_follows_does_not_wait_for_the_disk(consumers, follows, rows, expected):
    stored(consumers, "a", 1)
    stored(consumers, "b", 2)
    last = value(consumers, "SELECT max(seq) FROM inbox.inbox_messages")
    page = re.sub(r"\$([0-9])", r"%(p\1)s", statements.text("op_backfill_page"))
    parameters = {"p1": json.dumps({"consumer": "search", "until_seq": last}), "p2": 0, "p3": rows, "p4": None, "p5": follows}
    with consumers.transaction():
        consumers.execute(page, parameters)
        assert value(consumers, "SHOW synchronous_commit") == expected
    assert value(consumers, "SHOW synchronous_commit") == "on"


def test_messages_that_the_handler_has_processed_need_a_word(consumers):
    """The consumer is listed under the name of a handler, which has processed messages for another consumer."""
    stored(consumers, "a", 1, handler="search", consumer="")
    stored(consumers, "b", 2, handler="invoices")
    stored(consumers, "c", 3, handler="search", consumer="")
    stored(consumers, "c", 3, handler="search", consumer="search")
    assert backfill(consumers, "'search'", "dry_run => true")["affected"] == 2
    assert consumers.execute("SELECT * FROM inbox.backfill_repeats('{\"consumer\": \"search\"}')").fetchone() == (1, "search", "")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as raised:
        backfill(consumers, "'search'")
    assert 'the handler "search" has processed 1 of these messages for the consumer ""' in raised.value.diag.message_primary
    assert "inboxd consumers rename '' 'search'" in raised.value.diag.message_hint
    assert copies(consumers) == []
    consumers.execute("INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)"
                      " VALUES ('invoices', 'orders', '[]', '1 h', now(), now(), now())")
    assert consumers.execute("SELECT * FROM inbox.backfill_repeats('{\"consumer\": \"orders\"}')").fetchone()[0] == 0, "it wants none"
    assert backfill(consumers, "'search'", "again => true")["affected"] == 2
