"""The dead topic's statements: which instance produces, what is next, what was produced."""

import pytest

from statements import text
from test_functions import insert
from test_operators import dead, value, waiting
from test_retention import left


@pytest.fixture
def two(db):
    """A second instance."""
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (2, 'other', 1)")
    return db


def elected(statements, instance):
    return statements.run("dead_elect", instance) == [(True,)]


FIRST = (0, 0)  # the position before all messages


def fetched(statements, most=100, size=10**6, without=(), place=FIRST):
    """Event ids of the next batch."""
    return [row[4] for row in statements.run("dead_fetch", most, size, list(without), *place)]


def deaths(statements):
    """(seqs, times of death) of the messages that wait."""
    rows = statements.run("dead_fetch", 100, 10**9, [], *FIRST)
    return [row[0] for row in rows], [row[1] for row in rows]


def test_the_elected_instance_stays_elected(two, statements):
    assert elected(statements, 1)
    assert not elected(statements, 2)
    assert elected(statements, 1)


@pytest.mark.parametrize("change", [
    "UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = 1",
    "UPDATE inbox.inbox_instances SET stopped_at = now() WHERE id = 1",
    "UPDATE inbox.inbox_dead_topic SET seen_at = now() - interval '31 seconds'",
    "UPDATE inbox.inbox_dead_topic SET instance = NULL",
    "DELETE FROM inbox.inbox_dead_topic",
])
def test_another_instance_is_elected_when_the_first_is_gone(two, statements, change):
    assert elected(statements, 1)
    two.execute(change)
    assert elected(statements, 2)


def test_an_instance_resigns_only_for_itself(two, statements):
    assert elected(statements, 1)
    for instance, free in ((2, False), (1, True)):
        with two.transaction():
            two.execute(text("dead_resign").replace("$1", str(instance)))
        assert elected(statements, 2) is free


def test_a_fenced_instance_is_never_elected(two, statements):
    two.execute("UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = 2")
    assert not elected(statements, 2)


def test_messages_are_fetched_in_the_order_they_died(db, statements):
    dead(db, "b", dead_at="2026-01-02")
    dead(db, "a", dead_at="2026-01-03")
    dead(db, "c", dead_at="2026-01-01")
    assert fetched(statements) == ["c", "b", "a"]
    assert fetched(statements, most=2) == ["c", "b"]
    assert value(db, "SELECT count(*) FROM inbox.inbox_messages WHERE dead_topic_at IS NULL") == 3


def test_open_and_discarded_messages_are_not_fetched(db, statements):
    insert(db, "claimed")
    waiting(db, "discarded")
    db.execute("SELECT inbox.discard('s', 'discarded')")
    dead(db, "produced", dead_at="2026-01-01", dead_topic_at="2026-01-01")
    dead(db, "produced before", dead_at="2026-01-02", dead_topic_at="2026-01-01")
    assert fetched(statements) == ["produced before"]
    assert statements.run("dead_backlog", 10, *FIRST) == [(1, 1)]


def test_a_batch_ends_with_the_message_that_exceeds_its_size(db, statements):
    for number in range(4):
        dead(db, f"e{number}", dead_at=f"2026-01-0{number + 1}", payload=b"x" * 1000)
    assert fetched(statements, size=1500) == ["e0", "e1"]
    assert fetched(statements, size=1) == ["e0"]


def test_excluded_messages_are_not_fetched(db, statements):
    seq = dead(db, "a")
    dead(db, "b")
    assert fetched(statements, without=[seq]) == ["b"]


def test_a_fetch_after_a_position_returns_later_deaths(db, statements):
    """The position is exact to the microsecond; messages that died in the same one are ordered by seq."""
    for number, dead_at in enumerate(("2026-01-01 00:00:00.000001", "2026-01-01 00:00:00.000002",
                                      "2026-01-01 00:00:00.000002", "2026-01-01 00:00:00.000003")):
        dead(db, f"e{number}", dead_at=dead_at)
    places = [(row[1], row[0]) for row in statements.run("dead_fetch", 100, 10**9, [], *FIRST)]
    for number, place in enumerate(places):
        behind = [f"e{later}" for later in range(number + 1, 4)]
        assert fetched(statements, place=place) == behind
        assert statements.run("dead_backlog", 10, *place) == [(4, len(behind))]
        assert statements.run("dead_backlog", 2, *place) == [(2, min(2, len(behind)))], "both have the cap"


def test_the_bytes_of_a_batch_are_those_that_are_produced(db, statements):
    """PostgreSQL stores a long header compressed."""
    for name in "abc":
        dead(db, name)
    db.execute("UPDATE inbox.inbox_messages SET headers = jsonb_build_array(jsonb_build_array('h', repeat('x', 1000000)))")
    assert fetched(statements, size=1500000) == ["a", "b"]


@pytest.mark.parametrize("never", ["infinity", "-infinity"])
def test_an_infinite_death_time_is_ignored_and_does_not_block_others(db, statements, never):
    """Set manually; it cannot be produced and is not counted."""
    dead(db, "never", dead_at=never)
    seq = dead(db, "a", dead_at="2026-01-01")
    assert fetched(statements) == ["a"]
    assert statements.run("dead_backlog", 10, *FIRST) == [(1, 1)]
    told = deaths(statements)
    db.execute("UPDATE inbox.inbox_messages SET dead_at = %s", [never])
    assert statements.run("dead_mark", *told) == [(seq,)], "of no further interest"


def test_a_death_is_marked_once(db, statements):
    seq = dead(db, "a")
    assert statements.run("dead_mark", *deaths(statements)) == [(seq,)]
    assert fetched(statements) == []
    assert value(db, "SELECT dead_topic_at = dead_at FROM inbox.inbox_messages")


def test_a_mark_for_an_earlier_death_does_not_mark_a_later_one(db, statements):
    seq = dead(db, "a", dead_at="2026-01-01")
    told = deaths(statements)
    db.execute("UPDATE inbox.inbox_messages SET dead_at = '2026-01-02'")
    assert statements.run("dead_mark", *told) == [(seq,)], "of no further interest"
    assert fetched(statements) == ["a"]


def test_a_locked_row_is_marked_later(db, connect, statements):
    dead(db, "a")
    seq = dead(db, "b")
    told = deaths(statements)
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'a' FOR UPDATE")
        db.execute("SET lock_timeout = '30s'")
        assert statements.run("dead_mark", *told) == [(seq,)]
    assert fetched(statements) == ["a"]


@pytest.mark.parametrize("what, left", [("dead", set()), ("dead_produced", {"waits"})])
def test_retention_can_keep_messages_that_were_not_produced(db, what, left):
    dead(db, "produced", dead_at="2026-01-01", dead_topic_at="2026-01-01")
    dead(db, "waits", dead_at="2026-01-01")
    dead(db, "by hand", dead_at="2026-01-01", claimed_by=None)
    db.execute("SELECT inbox.retain(1, %s, 1000, 100)", [what])
    assert {row[0] for row in db.execute("SELECT event_id FROM inbox.inbox_messages")} == left


def retained(db, most=10):
    """(rows deleted, whether more may follow at once)"""
    return db.execute("SELECT affected, more FROM inbox.retain(1, 'dead_produced', 1000, %s)", [most]).fetchone()


def old_deaths(db, first, last, **columns):
    for number in range(first, last):
        dead(db, f"{number:02}", dead_at=f"2026-01-01 00:00:{number:02}", **columns)


def test_produced_rows_are_deleted_behind_many_unproduced_rows(db):
    old_deaths(db, 0, 25)
    db.execute("UPDATE inbox.inbox_messages SET dead_topic_at = dead_at WHERE event_id >= '20' OR event_id = '07'")
    assert [retained(db) for _ in range(3)] == [(1, True), (0, True), (5, False)]
    assert left(db) == {f"{number:02}" for number in range(20) if number != 7}


def test_rows_produced_behind_the_position_are_deleted_in_the_next_walk(db):
    old_deaths(db, 0, 15)
    assert retained(db) == (0, True)
    db.execute("UPDATE inbox.inbox_messages SET dead_topic_at = dead_at WHERE event_id IN ('03', '12')")
    assert retained(db) == (1, False)
    assert retained(db) == (1, True)
    assert left(db) == {f"{number:02}" for number in range(15) if number not in (3, 12)}


def test_deaths_with_the_same_time_are_all_checked(db):
    for name in "abcdefgh":
        dead(db, name, dead_at="2026-01-01", dead_topic_at="2026-01-01" if name in "dh" else None)
    assert [retained(db, 3) for _ in range(3)] == [(0, True), (1, True), (1, False)]
    assert left(db) == set("abcefg")


def test_the_view_shows_every_column_of_the_table(db):
    def columns(name):
        return {row[0] for row in db.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass"
                                             " AND attnum > 0 AND NOT attisdropped", [name])}

    assert columns("inbox.inbox_messages") <= columns("inbox.messages")
