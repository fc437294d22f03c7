"""Complete, CompletePGX and CompleteSQL of the Go library, with PostgreSQL: what they write, and a claim that is lost."""

import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / ".cache/languages/go/complete"


@pytest.fixture
def rows(inboxd, inbox):
    """Three messages that a handler has, with the claims 9001.1.17 to 9003.1.17."""
    for number in (1, 2, 3):
        inbox.execute("INSERT INTO inbox.inbox_messages (seq, source, event_id, topic, kafka_partition, kafka_offset, claimed_by,"
                      " delivery_count) OVERRIDING SYSTEM VALUE VALUES (%s, 's', %s, 'other', 0, %s, 17, 1)",
                      [9000 + number, f"m{number}", number])
    return inbox


@pytest.fixture(params=["pgx", "sql", "gorm", "sqlx"])
def complete(postgres_server, database, request):
    """complete(name of a function of the program); returns what it prints."""

    def call(name):
        done = subprocess.run([str(PROGRAM), request.param, name], env=postgres_server.environment(database), capture_output=True,
                              text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    call.driver = request.param
    return call


def stored(rows):
    return [(row["status"] == "processed", row["result"]) for row in
            rows.query("SELECT status, result FROM inbox.messages WHERE topic = 'other' ORDER BY seq")]


def emitted(rows):
    return [row["event_type"] for row in rows.query("SELECT event_type FROM inbox.outbox ORDER BY seq")]


def test_a_message_is_completed_with_a_transaction_of_the_program(rows, complete):
    complete("ownTransaction")
    assert stored(rows) == [(True, {"invoice": 1}), (True, None), (False, None)]


def test_a_message_is_completed_with_a_transaction_of_the_library(rows, complete):
    complete("transaction")
    assert stored(rows) == [(True, {"table": "effects"}), (False, None), (False, None)]
    assert rows.value("SELECT to_regclass('effects')") == "effects"


def test_events_are_emitted_with_the_completion(rows, complete):
    complete("events")
    assert stored(rows)[0] == (True, None)
    assert emitted(rows) == ["made", "raw"]


def test_a_batch_is_completed_at_once(rows, complete):
    complete("batch")
    assert stored(rows) == [(True, {"n": 1, "text": '"\\,{}'}), (False, None), (True, None)]


def test_a_batch_with_events_is_completed(rows, complete):
    complete("batchWithEvents")
    assert stored(rows) == [(True, None), (True, None), (False, None)]
    assert emitted(rows) == ["made"]


def test_a_repeated_transaction_completes_what_was_completed_alone_before(rows, complete):
    complete("repeatedBatch")
    assert stored(rows) == [(True, None)] * 3


def test_a_lost_claim_rolls_everything_back(rows, complete):
    assert complete("lost") == "lost 9007.1.17"
    assert rows.value("SELECT to_regclass('effects')") is None
    assert not any(done for done, _ in stored(rows))


def test_a_panic_rolls_everything_back(rows, complete):
    assert complete("panic") == "bug"
    assert rows.value("SELECT to_regclass('effects')") is None


def test_a_completion_without_a_transaction_is_refused(rows, complete):
    assert complete("outside") == "refused"
    assert not any(done for done, _ in stored(rows))


def test_a_service_emits_in_its_transaction(rows, complete):
    complete("emit")
    assert emitted(rows) == ["made", "raw", "gone"]
    assert rows.value("SELECT payload FROM inbox.outbox WHERE event_type = 'raw'") == b"\xff\x00"


def test_a_transaction_is_repeated_after_a_serialization_failure(rows, complete):
    if complete.driver == "gorm":
        return  # its transactions are those of the program
    complete("repeated")
    assert stored(rows) == [(True, {"tries": 2}), (False, None), (False, None)]
    assert emitted(rows) == ["made"]
