"""One of three brokers accepts connections and answers nothing, for so long that its partitions keep it as their leader.
Nobody but these partitions waits for it."""

import pathlib
import time

import pytest
from confluent_kafka.admin import NewTopic

from armed import Armed
from brokers import Cluster
from support.librdkafka import later_librdkafka
from support.wait import eventually

PARTITIONS = 6
LIBRARIES = pytest.mark.parametrize("env", [dict, later_librdkafka], ids=["2.0", "2.11"])
# 20 records, one after the other, while one broker is silent: a second each would be too much
PROMPT_S = 20

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def brokers():
    """One replica of everything, so that no record and no offset waits for a replica on the silent broker."""
    made = Cluster(broker_session_timeout_ms=600_000, offsets_topic_replication_factor=1).start()
    yield made
    made.stop()


class Silence:
    """The partitions of a topic, two led by each broker; one broker can be silent."""

    def __init__(self, cluster, inbox, topic):
        self.cluster = cluster
        self.inbox = inbox
        self.topic = topic
        self.silent = None
        self.count = 0
        new = NewTopic(topic, replica_assignment=[[1 + number % 3] for number in range(PARTITIONS)],
                       num_partitions=PARTITIONS)
        cluster.admin().create_topics([new])[topic].result(30)
        eventually(self.has_leaders)

    def has_leaders(self):
        """Each broker has to learn of the topic, and any may answer."""
        return sum(led[0] == self.topic for number in self.cluster.nodes for led in self.cluster.leads(number)) == PARTITIONS

    def begin(self, number):
        self.silent = number
        self.cluster.nodes[number].pause()

    def end(self):
        if self.silent is not None:
            self.cluster.nodes[self.silent].resume()
        self.silent = None

    def answering(self):
        return [number for number in range(PARTITIONS) if 1 + number % 3 != self.silent]

    def produce(self, partitions):
        self.count += len(partitions)
        self.cluster.streams.produce_many(self.topic, [
            {"value": b"{}", "headers": [("id", f"{self.count}-{number}")], "partition": number} for number in partitions])

    def are_read(self, partitions):
        self.produce(partitions)
        self.inbox.wait_stored(self.count, timeout=60)

    def are_read_promptly(self):
        """Each record soon after it was written."""
        since = time.monotonic()
        for turn in range(20):
            answering = self.answering()
            self.are_read([answering[turn % len(answering)]])
        assert time.monotonic() - since < PROMPT_S


@pytest.fixture
def silence(brokers, inbox, name):
    made = Silence(brokers, inbox, f"{name}.silent")
    yield made
    made.end()


@pytest.fixture
def start(make_inboxd, silence, env, group):
    def start_one():
        sidecar = make_inboxd(kafka={"topics": [silence.topic], "bootstrap.servers": silence.cluster.bootstrap, "group.id": group,
                                     "session.timeout.ms": 120_000})
        sidecar.env.update(env())
        return sidecar.start()
    return start_one


def an_other(*numbers):
    return next(number for number in (1, 2, 3) if number not in numbers)


def threads(sidecar):
    return [path.read_text().strip() for path in pathlib.Path(f"/proc/{sidecar.pid}/task").glob("*/comm")]


def stop_and_read(inbox, topic, reading):
    inbox.query("SELECT inbox.pause('topic', %s, NULL, true)", [topic])
    eventually(lambda: reading.metric("inboxd_partitions_paused") == 0 and reading.metric("inboxd_paused", kind="topic", target=topic) == 1)
    time.sleep(0.3)  # a shorter stop needs no answer
    inbox.query("SELECT inbox.resume('topic', %s)", [topic])


@LIBRARIES
def test_a_silent_broker_delays_only_its_own_partitions(silence, start, group, inbox):
    """After a rebalance, in a client that has a connection to it; after a pause; and after a start."""
    first, second = start(), start()
    silence.are_read(range(PARTITIONS))
    silence.begin(an_other(silence.cluster.coordinator(group)))
    assert second.stop() == 0
    silence.are_read(silence.answering())
    silence.are_read_promptly()
    stop_and_read(inbox, silence.topic, first)
    silence.are_read_promptly()
    eventually(lambda: "event=start_unknown" in first.stderr, timeout=30)
    assert first.stop() == 0
    first.start()
    silence.are_read(silence.answering())
    silence.are_read_promptly()
    silence.end()
    silence.are_read(range(PARTITIONS))
    assert "event=topic_recreated" not in first.stderr and "event=offset_gap" not in first.stderr


@LIBRARIES
def test_a_silent_coordinator_stops_no_partition_that_is_read(silence, start, group, inbox):
    """A partition whose start needs the offset of the group waits for it."""
    sidecar = start()
    silence.are_read(range(PARTITIONS))
    silence.begin(silence.cluster.coordinator(group))
    silence.are_read_promptly()
    for number in silence.answering():
        inbox.query("SELECT inbox.seek(%s, %s, 0)", [silence.topic, number])
    eventually(lambda: sidecar.stderr.count("event=seek_applied") == len(silence.answering()))
    silence.are_read_promptly()
    stop_and_read(inbox, silence.topic, sidecar)
    silence.are_read_promptly()
    silence.end()
    silence.are_read(range(PARTITIONS))


def test_a_late_answer_does_not_count_after_a_seek(make_inboxd, streams, make_topic, inbox):
    """The end of the log that it has is before the offset of the seek, as in a log that was created again."""
    topic = make_topic(1)
    streams.events(topic, ["a", "b", "c"])
    armed = Armed(make_inboxd(kafka={"topics": [topic]}))
    armed.arm("after_log_ends hold 1")
    armed.sidecar.start()
    armed.wait_hit("after_log_ends")
    streams.events(topic, ["d", "e"])
    inbox.query("SELECT inbox.seek(%s, 0, 4)", [topic])
    inbox.wait_stored(1)
    armed.arm()
    eventually(lambda: "broker_query" not in threads(armed.sidecar))
    for number, event in enumerate(["f", "g"]):  # the first one may be stored in the round in which the thread ended
        streams.events(topic, [event])
        inbox.wait_stored(2 + number)
    assert sorted(row["event_id"] for row in inbox.messages()) == ["e", "f", "g"]
    assert "event=topic_recreated" not in armed.sidecar.stderr
