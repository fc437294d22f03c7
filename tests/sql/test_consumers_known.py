"""The known consumers, and the streams that have waiting rows."""

import json

import pytest

from support.wait import in_time
from test_operators import value

MEMORY = 60_000


@pytest.fixture
def keep(statements):
    """keep("billing", topics, types, …): a sidecar lists a consumer. Returns {name: the definition that was replaced}."""
    def keep(name, topics=None, types=None, ordering="key", memory=MEMORY, define=False):
        texts = [names and json.dumps(names) for names in (topics, types)]
        return {noted: before and json.loads(before) for noted, before, _ in statements.run(
            "keep_consumers", [name], texts[:1], texts[1:], [ordering], memory, define)}

    return keep


@pytest.fixture
def known(statements):
    """{name: (ordering, topics, types)}"""
    def known():
        found = {}
        for name, ordering, kind, text in statements.run("known_consumers"):
            entry = found.setdefault(name, (ordering, [], []))
            if kind in (1, 2):
                entry[kind].append(text)
        return found

    return known


def test_a_listed_consumer_is_known_with_what_it_wants(keep, known):
    assert keep("billing", ["orders", "^pay"], ["order.*", "paid"]) == {"billing": None}
    assert keep("", ordering="none") == {"": None}
    assert known() == {"": ("none", [], []), "billing": ("key", ["orders", "^pay"], ["order.*", "paid"])}


def test_a_consumer_is_known_until_its_memory_has_passed(db, keep, known):
    def known_after(age):
        db.execute("UPDATE inbox.inbox_consumers SET listed_at = clock_timestamp() - %s::interval", [age])
        return known()

    keep("billing")
    assert "billing" in in_time(lambda: known_after("59 s"), 1)
    assert known_after("61 s") == {}
    since = value(db, "SELECT known_since FROM inbox.inbox_consumers")
    keep("billing")
    assert "billing" in known()
    assert value(db, "SELECT known_since > %s FROM inbox.inbox_consumers", since)


def test_a_consumer_is_unlisted_a_minute_after_its_last_listing(db, keep, statements):
    def unlisted():
        return [(name, ordering) for name, ordering, kind, _ in statements.run("known_consumers") if kind == 6]

    keep("billing", ["orders"], ordering="none", memory=10 * MEMORY)
    keep("short", memory=MEMORY // 2)
    assert unlisted() == []
    db.execute("UPDATE inbox.inbox_consumers SET listed_at = listed_at - interval '61 s'")
    assert unlisted() == [("billing", "none")], "the other one is not known any more"
    keep("billing", memory=10 * MEMORY)
    assert unlisted() == []


def test_a_registration_replaces_the_definition_and_a_heartbeat_does_not(keep, known):
    keep("billing", ["orders"], define=True)
    assert keep("billing", ["mails"], ["x"], "none") == {"billing": None}
    assert known() == {"billing": ("key", ["orders"], [])}
    assert keep("billing", ["mails"], ["x"], "none", define=True) == {"billing": {"topics": ["orders"], "ordering": "key"}}
    assert known() == {"billing": ("none", ["mails"], ["x"])}
    assert keep("billing", ["mails"], ["x"], "none", define=True) == {"billing": None}
    keep("billing", define=True)
    assert keep("billing", types=["*"], define=True) == {"billing": None}, "the default, written out"
    assert keep("billing", types=["*", "x"], define=True)["billing"] is not None


def test_a_locked_consumer_is_not_waited_for(connect, keep, known):
    keep("billing", ["orders"])
    with connect().transaction() as other:
        other.connection.execute("SELECT FROM inbox.inbox_consumers FOR UPDATE")
        assert keep("billing", ["mails"], define=True) == {}
    assert keep("billing", ["mails"], define=True) == {"billing": {"topics": ["orders"], "ordering": "key"}}
    assert known()["billing"][1] == ["mails"]


def test_a_deleted_consumer_is_known_again_when_a_sidecar_lists_it(db, keep, known):
    keep("billing")
    db.execute("DELETE FROM inbox.inbox_consumers")
    assert known() == {}
    keep("billing", ["orders"])
    assert known() == {"billing": ("key", ["orders"], [])}


def test_streams_with_waiting_rows_are_found(db):
    db.execute("""
        INSERT INTO inbox.inbox_messages (consumer, source, event_id, topic, kafka_partition, kafka_offset, available_at,
                                          processed_at)
        SELECT c, 's', p || '.' || i, 'orders', p, i, CASE WHEN i < 3 THEN now() END, CASE WHEN i >= 3 THEN now() END
        FROM unnest(ARRAY['', 'billing', 'search']) c, generate_series(0, 1) p, generate_series(1, 5) i
        WHERE NOT (c = 'search' AND p = 0)""")
    assert db.execute("SELECT * FROM inbox.waiting_streams() ORDER BY 2, 3").fetchall() == [
        ("orders", 0, ""), ("orders", 0, "billing"), ("orders", 1, ""), ("orders", 1, "billing"), ("orders", 1, "search")]
    status = value(db, "SELECT inbox.status()")
    assert (status["waiting"], [p["waiting"] for p in status["partitions"]]) == (10, [4, 6, 0, 0])

