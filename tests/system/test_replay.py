"""Running a message again with plain SQL."""

import pytest

from support.scripts import always, by_id, DONE
from support.wait import eventually
from support.wire import dead, done, NEVER


@pytest.fixture
def processed(inboxd, handler, streams, topic, inbox):
    """A client that has handled a, b and c."""
    client = handler(inboxd, always(done({"run": 1})))
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_processed(3)
    client.deliveries.clear()
    return client


def test_plain_sql_replays_a_processed_message(processed, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'b'")
    delivery = eventually(lambda: processed.deliveries)[0]
    assert (delivery.event_id, delivery.attempt) == ("b", 1)
    assert delivery.replay is True
    inbox.wait_processed(3)


def test_plain_sql_replays_a_dead_message(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, by_id({"x": [dead(reason="no", code="NO")]}))
    streams.events(topic, ["x"])
    inbox.wait_status("x", "dead")
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = NULL")
    row = inbox.wait_status("x", "processed")
    assert [delivery.attempt for delivery in client.deliveries] == [1, 1]
    assert (row["error"], row["retry_count"], row["crash_count"]) == (None, 0, 0)


def test_plain_sql_replays_a_thousand_messages(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(1000)], key=lambda _: "one key")
    inbox.wait_processed(1000)
    client.deliveries.clear()
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
    eventually(lambda: len(client.deliveries) >= 1000, timeout=60)
    inbox.wait_processed(1000)
    assert [delivery.event_id for delivery in client.deliveries] == \
        [f"e{number}" for number in range(1000)]


def test_a_replay_starts_from_a_clean_row(processed, inbox):
    processed.decide = always(NEVER)
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'b'")
    eventually(lambda: processed.deliveries)
    row = inbox.message("b")
    assert (row["result"], row["error"], row["retry_count"]) == (None, None, 0)
