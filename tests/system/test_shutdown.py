"""Shutdown: running deliveries finish, the other messages are returned, exit code 0."""

import signal
import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_sidecar_ends_at_once(start_inboxd, number):
    assert start_inboxd(inbox={"shutdown_timeout": "1m"}).stop(number, timeout=30) == 0


@pytest.mark.parametrize("milliseconds", range(40, 80, 8))
def test_a_sidecar_that_is_joining_the_group_stops_cleanly(make_inboxd, milliseconds):
    """librdkafka below 2.3 aborts when it is destroyed between joining and its first assignment."""
    sidecar = make_inboxd().start(ready=False)
    eventually(lambda: "group_joining" in sidecar.stderr, every=0.005)
    time.sleep(milliseconds / 1000)
    assert sidecar.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_deliveries_may_finish(start_inboxd, handler, streams, topic, group, inbox, number):
    inboxd = start_inboxd(inbox={"shutdown_timeout": "1m"})
    client = handler(inboxd, always(NEVER), max_in_flight=3)
    streams.events(topic, [f"e{count}" for count in range(10)])
    eventually(lambda: len(client.deliveries) == 3)
    inbox.wait_stored(10)
    inboxd.signal(number)
    eventually(lambda: "dispatch_stopping" in inboxd.stderr)
    for delivery in list(client.deliveries):
        client.answer(delivery, DONE)
    assert inboxd.wait(30) == 0
    assert inbox.count("processed") == 3
    assert len(client.deliveries) == 3, "new work was handed out while stopping"
    assert inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE claimed_by IS NOT NULL"
                       " AND processed_at IS NULL") == 0
    assert streams.lag(group, topic) == 0


def test_a_stop_is_visible_only_in_its_own_check(start_inboxd, handler, streams, topic):
    """inboxd_ready is 1 for a check that passes: "running" until a stop is requested."""
    inboxd = start_inboxd(inbox={"shutdown_timeout": "1m"})
    client = handler(inboxd, always(NEVER))
    streams.events(topic, ["e"])
    eventually(lambda: client.deliveries)

    def checks():
        return {name: inboxd.metric("inboxd_ready", check=name)
                for name in ("running", "database", "broker", "progress")}

    eventually(lambda: checks() == {"running": 1, "database": 1, "broker": 1, "progress": 1})
    inboxd.signal(signal.SIGTERM)
    eventually(lambda: checks() == {"running": 0, "database": 1, "broker": 1, "progress": 1})
    client.answer(client.deliveries[0], DONE)
    assert inboxd.wait(30) == 0


def test_returned_messages_are_handled_after_the_next_start(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(NEVER), max_in_flight=3)
    streams.events(topic, [f"e{count}" for count in range(10)])
    inbox.wait_stored(10)
    assert inboxd.stop() == 0
    inboxd.start()
    client = handler(inboxd, always(DONE))
    inbox.wait_processed(10)
    assert {delivery.attempt for delivery in client.deliveries} == {1}


def test_a_handler_that_never_answers_does_not_delay_the_stop(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"shutdown_timeout": "2s"})
    client = handler(sidecar, always(NEVER), max_in_flight=2, timeout_ms=120_000)
    streams.events(topic, ["a", "b"])
    eventually(lambda: len(client.deliveries) == 2)
    assert sidecar.stop(timeout=30) == 0
    assert {cancel["reason"] for cancel in client.cancels} <= {"shutdown"}
    assert inbox.count("processed") == 0
    assert {row["retry_count"] for row in inbox.messages()} == {0}


def test_a_second_signal_ends_it_at_once(start_inboxd, handler, streams, topic):
    sidecar = start_inboxd(inbox={"shutdown_timeout": "60s"})
    client = handler(sidecar, always(NEVER), timeout_ms=120_000)
    streams.events(topic, ["x"])
    eventually(lambda: client.deliveries)
    sidecar.signal(signal.SIGTERM)
    eventually(lambda: "stop" in sidecar.stderr)
    sidecar.signal(signal.SIGTERM)
    sidecar.wait(30)


@pytest.mark.parametrize("signals", [1, 2])
def test_it_ends_although_the_reader_of_stderr_has_stalled(full_pipe, make_inboxd, handler, streams, topic, signals):
    """The exit must not wait for a log line."""
    sidecar = make_inboxd(inbox={"shutdown_timeout": "3s" if signals == 1 else "60s"}).start(errors=full_pipe.writer)
    client = handler(sidecar, always(NEVER), timeout_ms=120_000)
    streams.events(topic, ["x"])
    eventually(lambda: client.deliveries)
    sidecar.signal(signal.SIGTERM)
    if signals == 2:
        eventually(lambda: sidecar.metric("inboxd_ready", check="running") == 0)
        sidecar.signal(signal.SIGTERM)
    assert sidecar.wait(30) == 0


def test_it_ends_while_the_database_is_away(start_inboxd, postgres):
    sidecar = start_inboxd(inbox={"shutdown_timeout": "3s"})
    postgres.stop()
    assert sidecar.stop(timeout=30) == 0


def test_it_ends_while_kafka_is_away(start_inboxd, kafka):
    sidecar = start_inboxd(inbox={"shutdown_timeout": "3s"})
    kafka.stop()
    assert sidecar.stop(timeout=30) == 0


def test_it_leaves_the_group(start_inboxd, streams, group):
    inboxd = start_inboxd(kafka={"session.timeout.ms": 60_000})
    eventually(lambda: len(streams.members(group)) == 1)
    inboxd.stop()
    eventually(lambda: len(streams.members(group)) == 0, what="the group to be empty before the session ends")


def test_the_socket_is_gone_after_the_end(inboxd):
    import os

    inboxd.stop()
    assert not os.path.exists(inboxd.socket_path)
