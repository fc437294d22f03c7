"""An outage of PostgreSQL or Kafka in the log: one line begins it, one a minute counts, one ends it."""

import collections
import json

import pytest

from support.scripts import always, DONE
from support.wait import eventually

COUNT = 1000


def lines(sidecar, *events):
    """The lines of these events, of a log in JSON; without events: of all."""
    return [line for line in map(json.loads, sidecar.stderr.splitlines()) if not events or line["event"] in events]


def numbers(sidecar, level):
    """How many lines of this level there are, by event."""
    return collections.Counter(line["event"] for line in lines(sidecar) if line["level"] == level)


def ended(sidecar, event, failed):
    """Checks the line that ends an outage against the one that began it."""
    (first,), (last,) = lines(sidecar, failed), lines(sidecar, event)
    assert (first["failures"], first["since_s"]) == (1, 0)
    assert last["outage_ms"] > 0
    return last


@pytest.fixture
def busy(start_inboxd, handler, streams, topic):
    """A sidecar with an outbox and a dead topic, a handler, and messages that are not all processed."""
    sidecar = start_inboxd(log={"format": "json"}, outbox={"enabled": True}, retry={"dead_topic": f"{topic}.dead"})
    client = handler(sidecar, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(COUNT)], key=lambda event_id: event_id[-1])
    eventually(lambda: len(client.deliveries) > 100, every=0.005)
    return sidecar


def test_an_outage_of_postgresql_has_one_line_at_its_begin_and_one_at_its_end(busy, postgres, inbox):
    postgres.stop()
    eventually(lambda: busy.metric("inboxd_pg_errors_total") > 40, timeout=60)
    postgres.start()
    inbox.wait_processed(COUNT, timeout=90)
    eventually(lambda: lines(busy, "database_back") and lines(busy, "heartbeat_back"), timeout=30)
    eventually(lambda: lines(busy, "dispatch_database_back") or not lines(busy, "dispatch_database_lost"), timeout=30)
    found = numbers(busy, "warn")
    assert set(found) <= {"database_lost", "heartbeat_failed", "dispatch_database_lost", "group_left"}, found
    assert max(found.values()) == 1, found
    assert ended(busy, "database_back", "database_lost")["failures"] > 3
    assert ended(busy, "heartbeat_back", "heartbeat_failed")["failed"] > 3


def test_an_outage_of_the_outbox_ends_also_without_an_event(start_inboxd, inbox):
    sidecar = start_inboxd(log={"format": "json"}, outbox={"enabled": True})
    eventually(lambda: sidecar.metric("inboxd_outbox_leader") == 1)
    inbox.execute("ALTER TABLE inbox.outbox RENAME TO outbox_away")
    eventually(lambda: lines(sidecar, "outbox_failed"))
    inbox.execute("ALTER TABLE inbox.outbox_away RENAME TO outbox")
    eventually(lambda: lines(sidecar, "outbox_back"), timeout=30)
    assert ended(sidecar, "outbox_back", "outbox_failed")["failures"] >= 1


def test_an_outage_of_kafka_has_one_line_at_its_begin_and_one_at_its_end(busy, kafka, streams, topic, inbox):
    inbox.wait_processed(COUNT, timeout=60)
    kafka.stop()
    eventually(lambda: lines(busy, "partitions_revoked"), timeout=60)  # the session has ended
    kafka.start()
    eventually(lambda: lines(busy, "kafka_back"), timeout=30)
    streams.events(topic, ["after"])
    inbox.wait_processed(COUNT + 1, timeout=90)
    assert ended(busy, "kafka_back", "kafka_error")["failures"] > 1
    assert lines(busy, "kafka_error")[0]["code"] == "_ALL_BROKERS_DOWN"
    assert not [line for line in lines(busy, "kafka") if line["facility"] == "FAIL"]
