"""The procedures of docs/runbooks.md."""

import pathlib
import re
import subprocess

import pytest

from support import postgres
from support.inbox import Inbox
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER, retry


@pytest.fixture
def new_database(postgres_server, name):
    created = postgres_server.create_database(f"moved_{name}")
    yield created
    postgres_server.drop_database(created)


def copy(server, old, new):
    dump = subprocess.run([f"{postgres.binaries()}/pg_dump", "--schema=inbox", server.conninfo(old)],
                          capture_output=True, text=True, timeout=60, check=True).stdout
    subprocess.run([f"{postgres.binaries()}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", server.conninfo(new)],
                   input=dump, capture_output=True, text=True, timeout=60, check=True)


def test_the_inbox_moves_to_a_new_database(postgres_server, database, new_database, start_inboxd, make_inboxd, handler,
                                           streams, topic, inbox):
    first = start_inboxd()
    seen = handler(first, lambda delivery: NEVER if delivery.event_id == "open" else DONE)
    streams.events(topic, [f"e{number}" for number in range(50)] + ["open"])
    inbox.wait_processed(50)
    eventually(lambda: "open" in [delivery.event_id for delivery in seen.deliveries])
    assert first.stop() == 0
    assert inbox.value("SELECT count(*) FROM inbox.inbox_instances WHERE fenced_at IS NULL") == 0

    streams.events(topic, ["e1", "e2", "later"])  # while it is down: two copies and a new one
    copy(postgres_server, database, new_database)
    second = make_inboxd(postgres={"dbname": new_database})
    assert second.command("migrate", "--roles").returncode == 0
    second.start()
    again = handler(second, always(DONE))
    moved = Inbox(postgres_server.conninfo(new_database))
    try:
        moved.wait_processed(52)
        eventually(lambda: second.metric("inboxd_duplicates_total", topic=topic) == 2)
        assert sorted(delivery.event_id for delivery in again.deliveries) == ["later", "open"]
    finally:
        moved.close()


def test_a_day_is_replayed_while_new_messages_arrive(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(30)])
    inbox.wait_processed(30)
    streams.events(topic, ["new"])
    done = inboxd.command("replay", "--status", "processed", "--topic", topic, "--since", "1h", "--reason",
                          "prices were wrong", "--yes")
    assert done.returncode == 0, done.stderr
    replayed = int(done.stdout.split()[0])
    assert replayed >= 30
    eventually(lambda: len(client.deliveries) == 31 + replayed)
    inbox.wait_processed(31)


def test_a_sidecar_continues_after_a_newer_version_has_migrated(inboxd, make_inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    inbox.execute("INSERT INTO inbox.inbox_schema_version (version, oldest_sidecar)"
                  " SELECT max(version) + 1, max(version) + 1 FROM inbox.inbox_schema_version")
    streams.events(topic, ["b"])
    inbox.wait_processed(2)
    late = make_inboxd().start("run", ready=False)
    assert late.wait() == 3
    assert "newer than this inboxd knows" in late.stderr


def test_a_consumer_is_renamed_with_its_messages(start_inboxd, handler, streams, topic, inbox):
    first = start_inboxd(consumers={"old": {}}, retry={"backoff": "5s", "backoff_max": "5s"})
    before = handler(first, lambda delivery: retry("no") if delivery.event_id == "bad" else DONE, name="old")
    streams.events(topic, ["e1", "e2", "bad"])
    inbox.wait_processed(2)
    inbox.wait_status("bad", "retrying")
    before.close()
    assert first.stop() == 0
    text = pathlib.Path(__file__).parents[2].joinpath("docs/runbooks.md").read_text(encoding="utf-8")
    inbox.execute(re.search(r"```sql\nBEGIN;\n(UPDATE [^`]*consumer = 'new'[^`]*)COMMIT;\n```", text)[1])

    streams.events(topic, ["e1", "e3"])
    second = start_inboxd(consumers={"new": {}})
    after = handler(second, always(DONE), name="new")
    inbox.wait_processed(4)
    eventually(lambda: second.metric("inboxd_duplicates_total") == 1)
    assert sorted(delivery.event_id for delivery in after.deliveries) == ["bad", "e3"]
    assert inbox.value("SELECT array_agg(DISTINCT consumer) FROM inbox.inbox_messages") == ["new"]
