"""What a sidecar without a message costs PostgreSQL."""

import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually

SECONDS = 20
REST_AFTER_SECONDS = 60


def connections(inbox):
    return inbox.value("SELECT count(*) FROM pg_stat_activity"
                       " WHERE datname = current_database() AND application_name LIKE 'inboxd/%'")


def transactions(inbox):
    return inbox.value("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")


@pytest.mark.slow
def test_an_idle_sidecar_makes_one_transaction_a_second_and_finds_a_due_row(start_inboxd, handler, streams, topic, inbox):
    """Before the heartbeat and the look said what is due, it made three a second."""
    client = handler(start_inboxd(worker={"poll": "5s", "lease": "15s"}), always(DONE))
    streams.events(topic, ["e1"])
    inbox.wait_processed(1)
    time.sleep(10)  # until the backlog of the start is gone
    before = transactions(inbox)
    time.sleep(SECONDS)
    assert transactions(inbox) - before < 1.4 * SECONDS
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at)"
                  " VALUES ('s', 'late', %s, 0, 1000, now())", [topic])  # nobody is notified
    eventually(lambda: len(client.deliveries) == 2, timeout=60)


@pytest.mark.slow
def test_an_idle_sidecar_keeps_one_worker_connection(start_inboxd, handler, streams, topic, inbox):
    """Besides, ingest, the heartbeat and retention have one each. Many messages make both workers work at the same time."""
    handler(start_inboxd(worker={"connections": 2}), always(DONE))
    streams.events(topic, [f"e{number}" for number in range(5000)])
    eventually(lambda: connections(inbox) == 5)
    inbox.wait_processed(5000)
    eventually(lambda: connections(inbox) == 4, timeout=REST_AFTER_SECONDS + 60)
    streams.events(topic, ["late"])
    inbox.wait_processed(5001)
