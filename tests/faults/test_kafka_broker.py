"""A broker that dies, is down, cuts its connections or is slow: nothing is lost, the order is kept, no attempt is
spent, and work resumes automatically.
"""

import os
import signal
import struct

import pytest

from brokers import Proxied
from fleet import Fleet
from support.librdkafka import later_librdkafka
from support.scripts import always, DONE
from support.wait import eventually, throughout
from whole import log_events

FAST = {"reconnect.backoff.max.ms": 500}  # librdkafka's own 10 s would be most of a test


@pytest.fixture(scope="module")
def broker():
    server = Proxied().start()
    yield server
    server.close()


@pytest.fixture
def fleet(broker, make_inboxd, inbox, name, group):
    """Its sidecars reach the broker through the proxy."""
    broker.streams.create(name)
    made = Fleet(make_inboxd, inbox, broker.streams, name, group)
    made.produce_with(reconnect_backoff_max_ms=500)
    made.add(kafka={"topics": [name], "bootstrap.servers": broker.bootstrap, **FAST})
    yield made
    made.close()
    if not broker.kafka.is_running():
        broker.kafka.start()


def caught_up(fleet, broker, name, group):
    fleet.assert_clean()
    eventually(lambda: broker.streams.lag(group, name) == 0, 30, "the group to have no lag")


@pytest.mark.timeout(900)
def test_repeated_broker_kills_lose_nothing(fleet, broker, name, group, long_run):
    fleet.produce_in_background()
    for _ in range(10 if long_run else 2):
        fleet.wait_for_progress(200)
        broker.kafka.kill()
        broker.kafka.start()
        fleet.check_offsets()
    fleet.wait_for_progress(200)
    caught_up(fleet, broker, name, group)


@pytest.mark.timeout(400)
def test_a_broker_outage_loses_nothing(fleet, broker, name, group, long_run):
    """Also after a minute it resumes automatically, and it has not used CPU time in a loop."""
    sidecar = fleet.instances[0].sidecar
    fleet.produce(600)
    fleet.wait_for_progress(100)
    broker.kafka.kill()
    eventually(lambda: sidecar.get("/readyz")[0] == 503, 30, "readyz to say it")
    before = sidecar.cpu_seconds()
    throughout(lambda: sidecar.get("/livez")[0] == 200, 60 if long_run else 5, every=0.5)
    assert sidecar.cpu_seconds() - before < (6 if long_run else 2), "it spins while Kafka is away"
    broker.kafka.start()
    eventually(lambda: sidecar.get("/readyz")[0] == 200, 60, "it to be ready again")
    fleet.produce(200)
    caught_up(fleet, broker, name, group)
    assert sidecar.is_running() and not log_events(sidecar, "fatal")


def test_a_partition_starts_behind_a_network_that_is_slow(broker, make_inboxd, handler, name):
    """An answer needs longer than a broker that may be silent gets at first."""
    broker.streams.create(name)
    broker.streams.produce(name, "{}")
    broker.proxy.slow_down(10_000_000, 0.35)
    try:
        sidecar = make_inboxd(kafka={"topics": [name], "bootstrap.servers": broker.bootstrap, "session.timeout.ms": 30000,
                                     "heartbeat.interval.ms": 5000})
        sidecar.start(ready=False)
        eventually(lambda: os.path.exists(sidecar.socket_path), 30, "the socket")
        received = handler(sidecar, always(DONE))
        received.wait_count(1, timeout=60)
    finally:
        broker.proxy.slow_down(None, 0)


class NoBrokers:
    """Takes the only broker out of the answers to Metadata requests (version 9 and later), as a broker does that starts or
    stops and knows of no other."""

    def __init__(self, port):
        address = b"\x0a127.0.0.1" + struct.pack(">i", port)
        self._one = b"\x02" + struct.pack(">i", 1) + address + b"\x00\x00"  # a list of one; no rack, no tags
        self.count = 0

    def __call__(self, data):
        out, rest = b"", data
        while len(rest) >= 4 and len(rest) >= 4 + (length := struct.unpack_from(">i", rest)[0]) > 4:
            frame, rest = rest[4:4 + length], rest[4 + length:]
            if self._one in frame:
                frame = frame.replace(self._one, b"\x01", 1)
                self.count += 1
            out += struct.pack(">i", len(frame)) + frame
        return out + rest


def test_a_broker_that_names_no_broker_is_found_again(broker, make_inboxd, handler, inbox, name):
    """librdkafka 2.10 and later then forgets all brokers. After one or several such answers it does not connect again by
    itself."""
    broker.streams.create(name)
    sidecar = make_inboxd(kafka={"topics": [name], "bootstrap.servers": broker.bootstrap, **FAST})
    sidecar.env.update(later_librdkafka())
    sidecar.start()
    handler(sidecar, always(DONE))
    broker.streams.events(name, ["before"])
    inbox.wait_processed(1)
    forgetful = NoBrokers(broker.proxy.port)
    broker.proxy.change_answers(forgetful)
    try:
        broker.proxy.cut()
        eventually(lambda: forgetful.count >= 20, 90, "twenty answers without brokers")
    finally:
        broker.proxy.change_answers(None)
    broker.streams.events(name, ["after"])
    inbox.wait_processed(2)


def test_stored_messages_are_handled_during_a_broker_outage(fleet, broker):
    """Also if the session has ended: no other instance can have the partitions."""
    sidecar = fleet.instances[0].sidecar
    fleet.produce(600)
    fleet.wait_for_progress(100)
    broker.kafka.kill()
    eventually(lambda: log_events(sidecar, "partitions_revoked"), 30)
    eventually(lambda: not fleet.unfinished(), 10, "all that is stored to be processed")


def test_a_start_during_a_broker_outage_waits_for_it(fleet, broker, name, group):
    one = fleet.instances[0]
    fleet.produce(300)
    fleet.wait_for_progress(50)
    broker.kafka.kill()
    one.kill()
    before = len(one.sidecar.stderr)
    one.start(ready=False)
    eventually(lambda: "_ALL_BROKERS_DOWN" in one.sidecar.stderr[before:], 30)
    assert one.sidecar.get("/readyz")[0] == 503
    broker.kafka.start()
    one.sidecar.wait_ready(60)
    fleet.produce(200)
    caught_up(fleet, broker, name, group)


def test_repeated_connection_resets_lose_nothing(fleet, broker, name, group, long_run):
    fleet.produce_in_background()
    for _ in range(100 if long_run else 12):
        seen = broker.proxy.connections
        fleet.wait_for_progress(25)
        broker.proxy.cut()
        eventually(lambda: broker.proxy.connections > seen, what="it to connect again")
    fleet.wait_for_progress(200)
    caught_up(fleet, broker, name, group)


def test_a_silent_broker_for_longer_than_the_session_loses_nothing(fleet, broker, name, group):
    """Nothing is refused and nothing is closed: the group expels it, and it joins again."""
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    broker.proxy.blackhole()
    eventually(lambda: not broker.streams.members(group), 30, "its session to be over")
    fleet.check_offsets()
    broker.proxy.heal()
    fleet.wait_for_progress(400)
    caught_up(fleet, broker, name, group)


def test_a_sidecar_cut_off_from_kafka_hands_over(fleet, broker, name, group):
    """It continues with its messages. When the other one owns the partitions in the table, it releases them."""
    one = fleet.instances[0]
    two = fleet.add(kafka={"topics": [name], "bootstrap.servers": broker.kafka.bootstrap, **FAST})
    fleet.produce_in_background()
    fleet.wait_for_progress(300)
    broker.proxy.blackhole()
    eventually(lambda: len(broker.streams.members(group)) == 1, 30, "the group to throw it out")
    owners = "SELECT count(DISTINCT owner) FROM inbox.inbox_offsets"
    eventually(lambda: fleet.inbox.value(owners) == 1, 30, "all partitions to be the other's")
    eventually(lambda: log_events(one.sidecar, "partitions_revoked"), 30)
    fleet.wait_done()
    assert two.is_running
    fleet.check_offsets()
    broker.proxy.heal()
    fleet.produce(200)
    caught_up(fleet, broker, name, group)


def test_a_slow_connection_loses_nothing(fleet, broker, name, group):
    """64 kB per second and 50 ms per packet; a new member has to join over it, too."""
    fleet.produce(200)
    broker.proxy.slow_down(64_000, 0.05)
    broker.proxy.cut()
    try:
        fleet.produce(1000)
        fleet.add(kafka={"topics": [name], "bootstrap.servers": broker.bootstrap, **FAST})
        fleet.produce(500)
        caught_up(fleet, broker, name, group)
    finally:
        broker.proxy.slow_down(None, 0)
    assert {delivered.instance for delivered in fleet.ledger.deliveries} == {"i1", "i2"}


def test_a_request_whose_answer_is_not_awaited_ends_no_connection(broker, make_inboxd, inbox, name):
    """Each resume at offset 0 sends one. Once a second, librdkafka looks for answers that are late."""
    def resumes():
        return sidecar.stderr.count(f"Resuming {name} [0]: at offset 0 ")

    broker.streams.create(name)
    sidecar = make_inboxd(log={"level": "debug"}, kafka={
        "topics": [name], "bootstrap.servers": broker.bootstrap, "log_level": 7, "debug": "topic", **FAST}).start()
    eventually(lambda: resumes() == 1, 30)
    broker.proxy.slow_down(10**9, 0.2)
    try:
        for turn in range(1, 6):
            assert sidecar.command("pause", "--topic", name, "--ingest").returncode == 0
            eventually(lambda: len(log_events(sidecar, "paused")) == turn, 30)  # pylint: disable=cell-var-from-loop
            assert sidecar.command("resume", "--topic", name).returncode == 0
            eventually(lambda: resumes() == turn + 1, 30)  # pylint: disable=cell-var-from-loop
        broker.streams.events(name, ["a"])
        inbox.wait_stored(1, timeout=30)
    finally:
        broker.proxy.slow_down(None, 0)
    assert "REQTMOUT" not in sidecar.stderr


def test_a_producer_to_a_slow_dead_topic_stays_elected(broker, make_inboxd, inbox, name):
    """Another instance takes over if the producer is not seen for half a minute, and sends its messages again. Records
    that the topic refuses are sent alone, and twice: a batch of them takes a minute over this connection."""
    for topic, settings in ((name, {}), (f"{name}.dead", {"cleanup_policy": "compact"})):
        broker.streams.create(topic, 1, **settings)
    sidecar = make_inboxd(kafka={"topics": [name], "bootstrap.servers": broker.bootstrap, **FAST}).start()
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
                  " headers, payload, payload_digest, claimed_by, delivery_count, dead_at)"
                  " SELECT 'elsewhere', 'm' || i, 't', 'elsewhere', 0, i, '[]', '{}', 'd', 1, 1, now()"
                  " FROM generate_series(1, 400) i")
    broker.proxy.slow_down(10**9, 0.1)
    try:
        sidecar.write_configuration({"retry": {"dead_topic": f"{name}.dead"}})
        sidecar.signal(signal.SIGHUP)
        eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_dead_topic") == 1)
        seen = []
        eventually(lambda: seen.append(inbox.value("SELECT extract(epoch FROM clock_timestamp() - seen_at)"
                                                   " FROM inbox.inbox_dead_topic"))
                   or sidecar.metric("inboxd_dead_topic_failures_total") >= 2, timeout=200, every=0.2)
    finally:
        broker.proxy.slow_down(None, 0)
    assert max(seen) < 20
    assert sidecar.stop() == 0
