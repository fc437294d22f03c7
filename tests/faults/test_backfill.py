"""A backfill beside load, whose command, sidecar and server are killed: the command is run again, and the consumer gets each
message once, those of a key in Kafka's order."""

import contextlib
import subprocess

import pytest

from support.sidecar import binary
from support.wait import eventually

COUNT = 5000
A_SECOND = 60
LATER = {"billing": {}, "search": {}}

SLOW = """
CREATE FUNCTION slow_copy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
CREATE TRIGGER slow_copy BEFORE INSERT ON inbox.inbox_messages FOR EACH ROW WHEN (NEW.consumer = 'search') EXECUTE FUNCTION slow_copy()"""


@contextlib.contextmanager
def running(one):
    """The command, which is killed at the end if it still runs."""
    command = subprocess.Popen([binary(), "backfill", "search", "--yes", "-c", one.sidecar.config_file], env=one.sidecar.env,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    yield command
    command.kill()
    command.communicate()


def copied(inbox):
    return inbox.value("SELECT coalesce(sum(affected), 0) FROM inbox.inbox_audit WHERE action = 'backfill'")


def copies_more(inbox):
    """Waits until one more page is committed. The next one has begun then, or the pause before it."""
    before = copied(inbox)
    eventually(lambda: copied(inbox) > before, every=0.01, what="one more page")


@pytest.mark.timeout(300)
def test_a_backfill_that_is_killed_is_continued_beside_load(fleet, postgres):
    inbox = fleet.inbox
    fleet.serve("billing", "search")
    fleet.kinds = {"done": 8, "effect": 2}
    one = fleet.add(hands=0, consumers={"billing": {}}, kafka={"session.timeout.ms": 1000, "heartbeat.interval.ms": 200})
    fleet.add_hand(one, "h1", "billing")
    fleet.produce(COUNT)
    fleet.wait_done(consumers=["billing"])
    before = inbox.count()
    one.stop()
    one.sidecar.write_configuration({"consumers": LATER})
    inbox.execute(SLOW)
    one.start()
    fleet.repeats = 0  # a repeat is stored for search, with its own offset
    fleet.produce_in_background(A_SECOND)

    with running(one):
        copies_more(inbox)
    assert 0 < copied(inbox) < before
    with running(one) as command:
        copies_more(inbox)
        one.kill()
        assert command.poll() is None, "it does not need the sidecar"
        one.start()
    with running(one) as command:
        copies_more(inbox)
        postgres.crash()
        assert command.wait(30) != 0
        postgres.start()
    assert copied(inbox) < before
    done = one.sidecar.command("backfill", "search", "--yes")
    assert done.returncode == 0, done.stderr
    assert copied(inbox) == before
    fleet.wait_done(consumers=["billing"])
    rows = inbox.query("SELECT consumer, count(*) AS rows FROM inbox.inbox_messages GROUP BY 1 ORDER BY 1")
    assert [row["consumer"] for row in rows] == ["billing", "search"] and rows[0]["rows"] == rows[1]["rows"] > before

    fleet.add_hand(one, "h1", "search")
    fleet.produce(100)
    fleet.assert_clean()
    assert inbox.count("processed") == 2 * len(fleet.ledgers["search"].first_copies())
