"""complete() and emit() of the Python library with frameworks (handlers/python/tests/frameworks.py), with PostgreSQL."""

import os
import subprocess

import pytest

from languages.libraries import PYTHON, ROOT

PROGRAM = str(ROOT / "handlers/python/tests/frameworks.py")
NO_SESSION = "TypeError: complete() needs a connection with an open transaction, and a {} is none: "
NOT_OPEN = "RuntimeError: {}() needs an open transaction: use `{}`"
AUTOCOMMIT = NOT_OPEN.format("complete", "with Session.begin() as session:")
# What a program does: its effects, the numbers of the messages that are processed, the events, and what was refused.
CASES = {
    "psycopg2": (["psycopg2"], [1, 2, 3], ["made", "made"], [NOT_OPEN.format("complete", "with connection.transaction():")]),
    "psycopg": ([], [], ["made", "raw", "gone"], [NOT_OPEN.format("emit", "with connection.transaction():")]),
    "sqlalchemy": (["again", "batch", "connection", "session"], [1, 2, 3, 4, 5], ["made", "made"],
                   [NO_SESSION.format("Engine"), NO_SESSION.format("sessionmaker"), AUTOCOMMIT, "ClaimLost: 9007.1.17"]),
    **{f"sqlalchemy-async-{driver}": (["batch", "connection", "session"], [1, 2, 3, 4], ["made", "made", "raw"],
                                      [NO_SESSION.format("AsyncEngine"), AUTOCOMMIT]) for driver in ("psycopg", "asyncpg")},
    "django": (["atomic", "batch", "django"], [1, 2, 3, 4, 5], ["made", "made"],
               [NOT_OPEN.format("complete", "with transaction.atomic():"), NOT_OPEN.format("complete", "with transaction.atomic():"),
                NO_SESSION.format("module"), "RuntimeError: A durable atomic block"]),
    # another transaction makes the first attempt of each fail with 40001
    "repeats": (["after 1", "after 2", "after 3"], [1, 2, 3], ["made"] * 3,
                ['"status":"snooze","delay_ms":1000', "TypeError: the function has returned an event without Done",
                 "RuntimeError: transaction() got a Session without a transaction"]),
    "repeats-async": (["after 1", "after 2", "after 3", "batch"], [1, 2, 3, 4, 5], ["made"] * 3, []),
}


@pytest.mark.parametrize("case", CASES)
def test_effects_and_completions_share_a_transaction(inboxd, inbox, postgres_server, database, case):
    for number in range(1, 7):
        inbox.execute("INSERT INTO inbox.inbox_messages (seq, source, event_id, topic, kafka_partition, kafka_offset, claimed_by,"
                      " delivery_count) OVERRIDING SYSTEM VALUE VALUES (%s, 's', %s, 'other', 0, %s, 17, 1)",
                      [9000 + number, f"m{number}", number])
    inbox.execute("CREATE TABLE public.effects (name text)")
    done = subprocess.run([PYTHON, PROGRAM, case], env={**os.environ, **postgres_server.environment(database), "PYTHONPATH": str(ROOT / "handlers/python/src")}, capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    effects, processed, events, refused = CASES[case]
    assert [row["name"] for row in inbox.query("SELECT name FROM public.effects ORDER BY name")] == effects
    assert [row["seq"] - 9000 for row in inbox.query("SELECT seq FROM inbox.messages WHERE topic = 'other' AND status = 'processed'"
                                                     " ORDER BY seq")] == processed
    assert [row["event_type"] for row in inbox.query("SELECT event_type FROM inbox.outbox ORDER BY seq")] == events
    lines = done.stdout.splitlines()
    assert len(lines) == len(refused) and all(map(str.startswith, lines, refused)), lines
