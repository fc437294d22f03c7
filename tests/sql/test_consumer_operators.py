"""What operators do with the rows of several consumers: each has a row of its own for a message."""

import psycopg
import pytest

from statements import functions
from test_operators import audit, dead, processed, value, waiting


def states(db):
    return db.execute("SELECT event_id, consumer, status FROM inbox.messages ORDER BY event_id, consumer").fetchall()


@pytest.fixture
def twice(db):
    """Events a and b, dead for billing and processed for search."""
    for event_id in ("a", "b"):
        dead(db, event_id, consumer="billing")
        processed(db, event_id, consumer="search")
    return db


def test_a_message_is_replayed_for_all_its_consumers(twice):
    assert value(twice, "SELECT inbox.replay('s', 'a', 'why')") is True
    assert states(twice) == [("a", "billing", "waiting"), ("a", "search", "waiting"),
                             ("b", "billing", "dead"), ("b", "search", "processed")]
    assert [(entry["filter"], entry["affected"]) for entry in audit(twice)] == [({"source": "s", "event_id": "a"}, 2)]


def test_a_message_is_replayed_for_one_consumer(twice):
    assert value(twice, "SELECT inbox.replay('s', 'a', consumer => 'search')") is True
    assert value(twice, "SELECT inbox.replay('s', 'a', consumer => '')") is False
    assert states(twice)[:2] == [("a", "billing", "dead"), ("a", "search", "waiting")]
    assert [entry["filter"].get("consumer") for entry in audit(twice)] == ["search", ""]


def test_a_replay_leaves_the_rows_of_consumers_that_are_not_done(db):
    dead(db, "a", consumer="billing")
    waiting(db, "a", consumer="search", retry_count=2)
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert states(db) == [("a", "billing", "waiting"), ("a", "search", "retrying")]


def test_a_dropped_payload_of_one_consumer_refuses_the_replay_for_all(db):
    dead(db, "a", consumer="billing")
    processed(db, "a", consumer="search", payload=None)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="payload of event 'a'"):
        db.execute("SELECT inbox.replay('s', 'a')")
    assert value(db, "SELECT inbox.replay('s', 'a', consumer => 'billing')") is True


def test_a_message_is_discarded_for_one_consumer_or_for_all(db):
    for event_id in ("a", "b"):
        for consumer in ("", "billing", "search"):
            waiting(db, event_id, consumer=consumer)
    assert value(db, "SELECT inbox.discard('s', 'a', 'why', 'billing')") is True
    assert value(db, "SELECT inbox.discard('s', 'b', 'why')") is True
    assert [status for (_, _, status) in states(db)] == ["waiting", "dead", "waiting"] + ["dead"] * 3


@pytest.mark.parametrize("call, make, changed", [("replay_where", dead, "waiting"), ("discard_where", waiting, "dead")])
@pytest.mark.parametrize("consumer, expected", [("billing", ["billing"]), ("", [""]), (None, ["", "billing"]), ("none", [])])
def test_filters_select_a_consumer(db, call, make, changed, consumer, expected):
    for name in ("", "billing"):
        make(db, "a", consumer=name)
    assert value(db, f"SELECT inbox.{call}(consumer => %s, dry_run => true)", consumer) == len(expected)
    assert value(db, f"SELECT inbox.{call}(consumer => %s)", consumer) == len(expected)
    assert [name for (_, name, status) in states(db) if status == changed] == expected
    assert audit(db)[0]["filter"].get("consumer") == consumer


def test_groups_of_dead_messages_belong_to_a_consumer(twice):
    dead(twice, "c", consumer="search")
    assert twice.execute("SELECT consumer, messages FROM inbox.dead_groups ORDER BY 1").fetchall() == \
        [("billing", 2), ("search", 1)]


def test_a_function_with_more_parameters_replaces_the_earlier_one(db):
    """A call without them could mean both. The earlier one came with defaults, and has grants that the new one keeps."""
    db.execute("DROP ROLE IF EXISTS earlier_caller; CREATE ROLE earlier_caller")
    db.execute("DROP FUNCTION inbox.replay(text, text, text, text)")
    db.execute("CREATE FUNCTION inbox.replay(source text, event_id text, reason text DEFAULT NULL) RETURNS boolean"
               " LANGUAGE sql AS 'SELECT false'")
    db.execute("GRANT EXECUTE ON FUNCTION inbox.replay(text, text, text) TO earlier_caller")
    with db.transaction():
        db.execute(functions())
    dead(db, "a")
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert db.execute("SELECT pronargs, has_function_privilege('earlier_caller', oid, 'EXECUTE') FROM pg_proc"
                      " WHERE proname = 'replay' AND pronamespace = 'inbox'::regnamespace").fetchall() == [(4, True)]
    db.execute("DROP OWNED BY earlier_caller; DROP ROLE earlier_caller")
