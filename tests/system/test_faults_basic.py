"""Servers restart, processes are killed: nothing is lost."""

import pytest

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER


COUNT = 3000


def produce_all(streams, topic):
    streams.events(topic, [f"e{number}" for number in range(COUNT)],
                   key=lambda event_id: event_id[-1])


def handled(*clients):
    return {delivery.event_id for client in clients for delivery in client.deliveries}


def assert_complete(inbox, *clients):
    """Everything processed, handled at least once, and no attempt spent."""
    inbox.wait_processed(COUNT, timeout=90)
    assert len(handled(*clients)) == COUNT
    assert {row["retry_count"] for row in inbox.messages()} == {0}


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_postgresql_restarts_under_load(inboxd, handler, postgres, streams, topic, inbox, how):
    client = handler(inboxd, always(DONE))
    produce_all(streams, topic)
    eventually(lambda: len(client.deliveries) > 200, every=0.005)
    postgres.stop() if how == "restart" else postgres.crash()
    postgres.start()
    assert_complete(inbox, client)


def test_postgresql_is_down_for_seconds(inboxd, handler, postgres, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    postgres.stop()
    produce_all(streams, topic)
    eventually(lambda: inboxd.get("/readyz")[0] == 503, timeout=30)
    postgres.start()
    assert_complete(inbox, client)
    eventually(lambda: inboxd.get("/readyz")[0] == 200)
    assert inboxd.metric("inboxd_pg_reconnects_total") > 0


def test_a_database_outage_longer_than_the_lease_loses_nothing(start_inboxd, handler, postgres, streams, topic, inbox):
    sidecar = start_inboxd(worker={"lease": "3s"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic)
    eventually(lambda: len(client.deliveries) > 100, every=0.005)
    postgres.stop()
    eventually(lambda: sidecar.get("/readyz")[0] == 503, timeout=30)
    gone = sidecar.cpu_seconds()
    eventually(lambda: sidecar.metric("inboxd_pg_errors_total") > 3, timeout=40)
    assert sidecar.cpu_seconds() - gone < 10, "it spins while the database is away"
    postgres.start()
    assert_complete(inbox, client)


def test_database_sessions_are_terminated(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    produce_all(streams, topic)
    for _ in range(3):
        eventually(lambda: inbox.value(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name LIKE 'inboxd/%%' AND datname = current_database()") > 0)
    assert_complete(inbox, client)


@pytest.mark.slow
def test_kafka_restarts_under_load(inboxd, handler, kafka, streams, topic, group, inbox):
    client = handler(inboxd, always(DONE))
    produce_all(streams, topic)
    eventually(lambda: len(client.deliveries) > 200, every=0.005)
    kafka.restart()
    assert_complete(inbox, client)
    streams.events(topic, ["after"])
    inbox.wait_processed(COUNT + 1)
    eventually(lambda: streams.lag(group, topic) == 0, timeout=60)


def test_inboxd_is_killed_in_the_middle(inboxd, handler, streams, topic, inbox):
    clients = [handler(inboxd, always(DONE))]
    produce_all(streams, topic)
    for _ in range(3):
        before = len(handled(*clients))
        eventually(lambda: len(handled(*clients)) > min(before + 200, COUNT - 1), timeout=60,
                   every=0.005)
        inboxd.kill()
        inboxd.start()
        clients.append(handler(inboxd, always(DONE)))
    assert_complete(inbox, *clients)


def test_inboxd_is_killed_with_messages_open(inboxd, handler, streams, topic, inbox):
    first = handler(inboxd, always(NEVER))
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: len(first.deliveries) == 3)
    inboxd.kill()
    inboxd.start()
    second = handler(inboxd, always(DONE))
    inbox.wait_processed(3)
    assert {delivery.attempt for delivery in second.deliveries} == {1}


def test_another_sidecar_takes_over_from_a_killed_sidecar(start_inboxd, handler, streams, topic, inbox):
    first, second = start_inboxd(), start_inboxd(inbox={"instance": "second"})
    clients = [handler(first, always(NEVER)), handler(second, always(DONE))]
    streams.events(topic, [f"e{number}" for number in range(400)])
    eventually(lambda: clients[0].deliveries)
    inbox.wait_stored(400)
    first.kill()
    inbox.wait_processed(400, timeout=60)
    eventually(lambda: second.metric("inboxd_rescued_total") > 0)


def test_the_handler_is_killed_and_comes_back(inboxd, handler, streams, topic, inbox):
    clients = []
    produce_all(streams, topic)
    for _ in range(4):
        client = handler(inboxd, always(DONE))
        clients.append(client)
        eventually(lambda: len(client.deliveries) > 100 or inbox.count("processed") == COUNT,
                   timeout=60, every=0.005)
        client.abort()
    clients.append(handler(inboxd, always(DONE)))
    assert_complete(inbox, *clients)


def test_an_answer_to_a_previous_instance_completes_nothing(inboxd, handler, streams, topic, inbox):
    """A claim from before the kill no longer counts: its effects roll back."""
    import psycopg

    first = handler(inboxd, always(NEVER))
    streams.events(topic, ["x"])
    claim = eventually(lambda: first.deliveries)[0].claim
    inboxd.kill()
    inboxd.start()
    second = handler(inboxd, always(NEVER))
    eventually(lambda: second.deliveries)
    with pytest.raises(psycopg.Error) as raised, inbox.connect() as own:
        own.execute("SELECT inbox.complete(%s)", [claim])
    assert raised.value.sqlstate == "IB001"
    second.answer(second.deliveries[0], DONE)
    inbox.wait_status("x", "processed")
