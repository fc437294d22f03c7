"""delivery.complete() and batch.complete() of the Python library, with PostgreSQL: what they write, and a claim that is lost."""

import pathlib
import sys
from types import SimpleNamespace

import psycopg
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "handlers/python/src"))

import inboxd as library  # pylint: disable=wrong-import-position


@pytest.fixture
def rows(inboxd, inbox):
    """Three messages that a handler has, with the claims 9001.1.17 to 9003.1.17."""
    for number in (1, 2, 3):
        inbox.execute("INSERT INTO inbox.inbox_messages (seq, source, event_id, topic, kafka_partition, kafka_offset, claimed_by,"
                      " delivery_count) OVERRIDING SYSTEM VALUE VALUES (%s, 's', %s, 'other', 0, %s, 17, 1)",
                      [9000 + number, f"m{number}", number])
    return inbox


def delivery(number):
    params = {"delivery": {"claim": f"{9000 + number}.1.17"}, "event": {"id": f"m{number}", "source": "s"}}
    return library.Delivery(SimpleNamespace(timeout=30), f"d{number}", params, 0.0, None)


def stored(rows):
    return [(row["status"], row["result"]) for row in
            rows.query("SELECT status, result FROM inbox.messages WHERE topic = 'other' ORDER BY seq")]


def test_a_message_is_completed_with_its_transaction(rows):
    with rows.connect() as connection, connection.transaction():
        delivery(1).complete(connection, {"invoice": 1})
        delivery(2).complete(connection)
    assert stored(rows)[:2] == [("processed", {"invoice": 1}), ("processed", None)]


def test_events_are_emitted_with_the_completion(rows):
    events = [library.Emit("made", topic="invoices", key="c-1", data={"n": 1}, headers={"h": "1"}),
              library.Emit("raw", topic="invoices", data=b"\xff")]
    with rows.connect() as connection, connection.transaction():
        delivery(1).complete(connection, None, events)
    assert stored(rows)[0] == ("processed", None)
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox ORDER BY seq")] == ["made", "raw"]


def test_a_batch_is_completed_at_once(rows):
    batch = library.Batch([delivery(number) for number in (1, 2, 3)], "none")
    batch[1].set_verdict(library.Retry("locked"))
    with rows.connect() as connection, connection.transaction():
        batch.complete(connection, [{"n": 1}, None])
    assert stored(rows) == [("processed", {"n": 1}), (stored(rows)[1][0], None), ("processed", None)]
    assert stored(rows)[1][0] != "processed"


def test_a_batch_leaves_out_a_message_that_was_completed_with_events_and_has_a_verdict(rows):
    batch = library.Batch([delivery(number) for number in (1, 2, 3)], "none")
    with rows.connect() as connection, connection.transaction():
        batch[1].complete(connection, None, [library.Emit("made", topic="invoices")])
        batch[1].set_verdict(library.SETTLED)
        batch.complete(connection, [{"n": 1}, None])
    assert stored(rows) == [("processed", {"n": 1}), ("processed", None), ("processed", None)]
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox")] == ["made"]


def test_a_repeated_transaction_completes_what_was_completed_alone_before(rows):
    """The rollback takes that completion back, so the batch must not leave the message out."""
    batch = library.Batch([delivery(number) for number in (1, 2, 3)], "none")
    with rows.connect() as connection:
        batch[1].complete(connection)
        connection.rollback()
        batch.complete(connection)
        connection.commit()
    assert [status for status, _ in stored(rows)] == ["processed"] * 3


def test_a_lost_claim_rolls_everything_back(rows):
    batch = library.Batch([delivery(1), delivery(7)], "none")
    with rows.connect() as connection, pytest.raises(library.ClaimLost) as lost, connection.transaction():
        connection.execute("CREATE TABLE effects ()")
        batch.complete(connection)
    assert lost.value.claim == "9007.1.17"
    assert isinstance(lost.value.__cause__, psycopg.Error)
    assert rows.value("SELECT to_regclass('effects')") is None
    assert stored(rows)[0][0] != "processed"


def test_a_completion_in_autocommit_mode_is_refused(rows):
    with rows.connect() as connection:
        connection.autocommit = True
        with pytest.raises(RuntimeError, match="open transaction"):
            delivery(1).complete(connection)
