"""complete() and transaction() of the Node.js library, with PostgreSQL: what they write, and a claim that is lost."""

import pathlib
import subprocess

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2] / "handlers/node/tests"
FRAMEWORKS = ["drizzle", "knex", "kysely", "postgres", "typeorm"]


@pytest.fixture
def rows(inboxd, inbox):
    """Three messages that a handler has, with the claims 9001.1.17 to 9003.1.17."""
    for number in (1, 2, 3):
        inbox.execute("INSERT INTO inbox.inbox_messages (seq, source, event_id, topic, kafka_partition, kafka_offset, claimed_by,"
                      " delivery_count) OVERRIDING SYSTEM VALUE VALUES (%s, 's', %s, 'other', 0, %s, 17, 1)",
                      [9000 + number, f"m{number}", number])
    return inbox


@pytest.fixture
def complete(postgres_server, database):
    """complete(name of a function, or of a framework); returns what the script prints."""

    def call(name):
        script = "complete-with-framework.js" if name in FRAMEWORKS else "complete-with-pg.js"
        done = subprocess.run(["node", str(TESTS / script), name], env=postgres_server.environment(database), capture_output=True, text=True,
                              timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return call


def stored(rows):
    return [(row["status"] == "processed", row["result"]) for row in
            rows.query("SELECT status, result FROM inbox.messages WHERE topic = 'other' ORDER BY seq")]


def test_a_message_is_completed_with_a_transaction_of_the_program(rows, complete):
    complete("inOwnTransaction")
    assert stored(rows) == [(True, {"invoice": 1}), (True, None), (False, None)]


def test_a_message_is_completed_with_a_transaction_of_the_library(rows, complete):
    assert complete("inTransaction") == "effects"
    assert stored(rows) == [(True, {"table": "effects"}), (False, None), (False, None)]
    assert rows.value("SELECT to_regclass('effects')") == "effects"


def test_events_are_emitted_with_the_completion(rows, complete):
    complete("withEvents")
    assert stored(rows)[0] == (True, None)
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox ORDER BY seq")] == ["made", "raw"]


def test_a_batch_is_completed_at_once(rows, complete):
    complete("aBatch")
    assert stored(rows) == [(True, {"n": 1}), (False, None), (True, None)]


def test_a_batch_leaves_out_a_message_that_was_completed_with_events_and_has_a_verdict(rows, complete):
    complete("aBatchWithEvents")
    assert stored(rows) == [(True, {"n": 1}), (True, None), (True, None)]
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox")] == ["made"]


def test_a_repeated_transaction_completes_what_was_completed_alone_before(rows, complete):
    complete("aRepeatedBatch")
    assert stored(rows) == [(True, None)] * 3


def test_a_lost_claim_rolls_everything_back(rows, complete):
    assert complete("lost") == "ClaimLost 9007.1.17"
    assert rows.value("SELECT to_regclass('effects')") is None
    assert not any(done for done, _ in stored(rows))


def test_a_transaction_is_repeated_after_a_serialization_failure(rows, complete):
    assert complete("repeated") == "2 2"
    assert stored(rows) == [(True, {"tries": 2}), (True, None), (True, None)]
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox")] == ["made"]


def test_a_completion_without_a_transaction_is_refused(rows, complete):
    assert complete("withoutTransaction") == "refused twice"
    assert not any(done for done, _ in stored(rows))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_message_is_completed_in_a_transaction_of_a_framework(rows, complete, framework):
    """It is refused without a transaction, and a lost claim rolls the effects back."""
    complete(framework)
    assert stored(rows) == [(True, {"invoice": 1}), (False, None), (False, None)]
    assert [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox")] == ["made"]
    assert rows.value("SELECT to_regclass('effects')") == "effects"
    assert rows.value("SELECT to_regclass('effects_of_a_lost_claim')") is None
