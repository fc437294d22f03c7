"""Three brokers, and an important one dies: leaders and coordinators move, and sidecars follow."""

import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from armed import Armed
from brokers import Cluster
from fleet import Fleet
from support.inbox import INFINITY
from support.librdkafka import later_librdkafka
from support.outbox import Outbox, first_copies, values
from support.wait import eventually, throughout
from whole import log_events

FAST = {"reconnect.backoff.max.ms": 500, "session.timeout.ms": 6000,
        "topic.metadata.refresh.interval.ms": 2000}
ROUNDS = {False: 1, True: 5}


@pytest.fixture(scope="module")
def brokers():
    made = Cluster().start()
    yield made
    made.stop()


@pytest.fixture
def cluster(brokers):
    """All three run, before and after."""
    yield brokers
    brokers.restore()


def a_fleet(cluster, make_inboxd, inbox, name, group):
    made = Fleet(make_inboxd, inbox, cluster.streams, name, group)
    made.produce_with(reconnect_backoff_max_ms=500)
    return made


@pytest.fixture
def fleet(cluster, make_inboxd, inbox, name, group):
    cluster.streams.create(name)
    made = a_fleet(cluster, make_inboxd, inbox, name, group)
    for _ in range(2):
        made.add(kafka={"topics": [name], "bootstrap.servers": cluster.bootstrap, **FAST})
    yield made
    made.close()


def lose(cluster, fleet, number):
    """Kills a node under load; the fleet continues without it, and the node is started again."""
    fleet.wait_for_progress(200)
    leads = cluster.leads(number)
    cluster.nodes[number].kill()
    fleet.wait_for_progress(400, timeout=60)
    assert not leads & cluster.leads(number), "others lead now what it led"
    cluster.restore()
    fleet.check_offsets()


@pytest.mark.timeout(600)
def test_a_killed_group_coordinator_loses_nothing(fleet, cluster, name, group, long_run):
    fleet.produce_in_background()
    for _ in range(ROUNDS[long_run]):
        lose(cluster, fleet, cluster.coordinator(group))
    fleet.assert_clean()
    eventually(lambda: cluster.streams.lag(group, name) == 0)


@pytest.mark.timeout(600)
def test_a_killed_partition_leader_loses_nothing(fleet, cluster, name, long_run):
    """The log of the new leader is the same: it is not detected as a recreated topic, and it has no gap."""
    fleet.produce_in_background()
    for _ in range(ROUNDS[long_run]):
        before = cluster.leader(name, 0)
        lose(cluster, fleet, before)
    fleet.assert_clean()
    for instance in fleet.instances:
        assert not log_events(instance.sidecar, "topic_recreated")
        assert not log_events(instance.sidecar, "offset_gap")


@pytest.mark.timeout(300)
def test_the_topic_id_is_asked_at_the_new_leader(cluster, make_inboxd, inbox, name, group):
    """The broker that was asked at the start has left."""
    cluster.streams.create(name, 1)
    sidecar = make_inboxd(kafka={"topics": [name], "bootstrap.servers": cluster.bootstrap, **FAST})
    sidecar.env.update(later_librdkafka())
    sidecar.start()
    cluster.streams.events(name, ["a"])
    inbox.wait_stored(1)
    dead = cluster.leader(name, 0)
    cluster.nodes[dead].kill()
    eventually(lambda: cluster.leader(name, 0) not in (dead, -1), 60)
    inbox.query("SELECT inbox.pause('topic', %s, NULL, true)", [name])
    eventually(lambda: sidecar.metric("inboxd_paused", kind="topic", target=name) == 1)
    time.sleep(0.5)  # a shorter stop needs no answer
    inbox.query("SELECT inbox.resume('topic', %s)", [name])
    cluster.streams.events(name, ["b"])
    inbox.wait_stored(2)
    assert "event=topic_ids_unknown" not in sidecar.stderr


@pytest.mark.timeout(300)
def test_a_partition_without_a_leader_does_not_stop_others(cluster, make_inboxd, inbox, name, group):
    """Its only replica is on the dead node, when the sidecar runs and when it starts."""
    topic = NewTopic(name, replica_assignment=[[1], [2], [3], [1]], num_partitions=4)
    cluster.admin().create_topics([topic])[name].result(30)
    fleet = a_fleet(cluster, make_inboxd, inbox, name, group)
    try:
        one = fleet.add(kafka={"topics": [name], "bootstrap.servers": cluster.bootstrap, **FAST})
        fleet.produce(200)
        fleet.wait_done()
        dead = next(number for number in (2, 3) if number != cluster.coordinator(group))
        cluster.nodes[dead].kill()
        eventually(lambda: cluster.leader(name, dead - 1) == -1, 30)
        for _ in range(2):
            served = {0, 1, 2, 3} - {dead - 1}
            fleet.produce_into(served, 200)
            fleet.wait_done()
            one.stop()
            one.start(ready=False)
        cluster.restore()
        fleet.produce(200)
        fleet.assert_clean()
    finally:
        fleet.close()


@pytest.fixture
def unanswered(cluster, name):
    """A topic that wants three replicas in sync. silence(): one of them dies, so nothing of the topic is confirmed."""
    topic = f"{name}.unanswered"
    cluster.streams.create(topic, 1, min_insync_replicas=3)

    def silence():
        dead = next(number for number in cluster.nodes if number != cluster.leader(topic, 0))
        cluster.nodes[dead].kill()
        eventually(misses_one, 60)

    def misses_one():
        try:
            return len(cluster.in_sync(topic, 0)) == 2
        except KafkaException:  # the request went to the dead one
            return False

    return topic, silence


def publishers(cluster, make_inboxd, name, count, **outbox):
    cluster.streams.create(name, 1)
    return [make_inboxd(outbox={"enabled": True, **outbox},
                        kafka={"topics": [name], "bootstrap.servers": cluster.bootstrap, **FAST}).start() for _ in range(count)]


@pytest.mark.timeout(300)
def test_a_topic_without_answers_delays_no_other_event(cluster, make_inboxd, inbox, name, unanswered):
    """Neither when it falls silent, nor when its head is tried again. When it answers again, it goes on in order."""
    topic, silence = unanswered
    other = f"{name}.other"
    cluster.streams.create(other, 1, min_insync_replicas=1)
    outbox = Outbox(inbox)
    sidecar, = publishers(cluster, make_inboxd, name, 1)
    for to in (topic, other):
        outbox.emit(to, "a", "0")
        cluster.streams.read(to, 1)
    silence()
    with outbox.transaction() as emit:
        for number in range(1, 4):
            emit(topic, "a", str(number))
    since, number = time.monotonic(), 0
    while time.monotonic() < since + 50:
        number += 1
        outbox.emit(other, "a", str(number))
        assert values(cluster.streams.read(other, number + 1, timeout=8))[-1] == str(number)
        if number == 5:
            outbox.emit(topic, "a", "4")
    assert sidecar.metric("inboxd_outbox_held_topics") == 1
    assert {state[2] for state in outbox.states().values()} == {"TOPIC", None}
    cluster.restore()
    eventually(lambda: outbox.count() == 0, 90)
    assert first_copies(cluster.streams.read_what_is_there(topic)) == {b"a": [str(value) for value in range(5)]}
    assert sum(cluster.streams.log_end(other).values()) == number + 1
    assert sidecar.metric("inboxd_outbox_failures_total") == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_a_topic_with_a_partition_without_a_leader_holds_only_its_events(cluster, make_inboxd, inbox, name, used):
    """Its only replica is on the dead node. The relay looks at a topic before the first event of it, and later every five
    minutes; in between the events of the partition get no answer."""
    topic, other = f"{name}.leaderless", f"{name}.other"
    new = NewTopic(topic, replica_assignment=[[1], [2], [3]], num_partitions=3)
    cluster.admin().create_topics([new])[topic].result(30)
    cluster.streams.create(other, 1)
    outbox = Outbox(inbox)
    sidecar, = publishers(cluster, make_inboxd, name, 1)
    keys = [f"k{number}" for number in range(12)]
    first = 0 if used else 1
    if used:
        with outbox.transaction() as emit:
            for key in keys:
                emit(topic, key, "0")
        cluster.streams.read(topic, len(keys))
        eventually(lambda: outbox.count() == 0)
    cluster.nodes[2].kill()
    eventually(lambda: cluster.leader(topic, 1) == -1, 60)
    with outbox.transaction() as emit:
        for number in range(1, 4):
            for key in keys:
                emit(topic, key, str(number))
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1, 60)
    if not used:
        errors = {row["error"] for row in outbox.rows()} - {None}
        assert errors == {"a partition of the topic has no leader"}
        assert outbox.count() == 3 * len(keys)
    for number in range(20):
        outbox.emit(other, "a", str(number))
        assert values(cluster.streams.read(other, number + 1, timeout=10))[-1] == str(number)
    for key in keys:
        outbox.emit(topic, key, "4")
    throughout(lambda: outbox.count() > 0 and sidecar.metric("inboxd_outbox_held_topics") == 1, 6)
    cluster.restore()
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_topics") == 0, 90)
    records = cluster.streams.read(topic, sum(cluster.streams.log_end(topic).values()))
    assert {record.partition() for record in records} == {0, 1, 2}
    assert first_copies(records) == {key.encode(): [str(number) for number in range(first, 5)] for key in keys}
    assert sidecar.metric("inboxd_outbox_refused_total") == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("discarded", [False, True], ids=["head", "discarded"])
def test_late_answers_are_recorded_and_nothing_is_sent_twice(cluster, make_inboxd, inbox, name, unanswered, discarded):
    """The brokers confirm after some seconds what they already have, also events behind the head. An operator who discards
    the head cannot take it back."""
    topic, silence = unanswered
    outbox = Outbox(inbox)
    sidecar, = publishers(cluster, make_inboxd, name, 1)
    outbox.emit(topic, "a", "0")
    cluster.streams.read(topic, 1)
    silence()
    with outbox.transaction() as emit:
        for number in range(1, 4):
            emit(topic, "a", str(number))
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1)
    outbox.emit(topic, "a", "4")
    eventually(lambda: outbox.states()["4"][0] == INFINITY)
    if discarded:
        inbox.execute("UPDATE inbox.outbox SET available_at = NULL, dead_at = now() WHERE payload = '1'")
        throughout(lambda: outbox.states()["4"][0] == INFINITY, 8)
    cluster.restore()
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_topics") == 0, 60)
    assert values(cluster.streams.read_what_is_there(topic)) == [str(value) for value in range(5)]
    assert sidecar.metric("inboxd_outbox_published_total") == 5


@pytest.mark.timeout(300)
def test_a_stall_begins_after_one_answer_of_a_broker(cluster, make_inboxd, inbox, name, unanswered):
    """A second request would fail the flight if it went to a broker that is away."""
    topic, silence = unanswered
    outbox = Outbox(inbox)
    armed = Armed(make_inboxd(outbox={"enabled": True}, kafka={"topics": None, "bootstrap.servers": cluster.bootstrap, **FAST}))
    armed.arm("error_no_broker_answers error 2")
    armed.sidecar.start()
    outbox.emit(topic, "a", "0")
    cluster.streams.read(topic, 1)
    silence()
    outbox.emit(topic, "a", "1")
    eventually(lambda: armed.sidecar.metric("inboxd_outbox_held_topics") == 1)
    assert armed.sidecar.metric("inboxd_outbox_failures_total") == 0


@pytest.mark.timeout(300)
def test_some_silent_seconds_park_no_backlog(cluster, make_inboxd, inbox, name, unanswered):
    """The events of the topic that no page has are left as they are. An event of another topic behind them waits for
    some seconds."""
    topic, silence = unanswered
    other = f"{name}.other"
    cluster.streams.create(other, 1, min_insync_replicas=1)
    outbox = Outbox(inbox)
    sidecar, = publishers(cluster, make_inboxd, name, 1, batch_messages=100)
    for to in (topic, other):
        outbox.emit(to, "a", "0")
        cluster.streams.read(to, 1)
    silence()
    with outbox.transaction() as emit:
        for number in range(1, 5000):
            emit(topic, "a", str(number))
        emit(other, "a", "1")
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1)
    throughout(lambda: inbox.value("SELECT count(available_at) FROM inbox.outbox") <= 200, 3)
    assert values(cluster.streams.read(other, 2, timeout=20)) == ["0", "1"]
    cluster.restore()
    eventually(lambda: outbox.count() == 0, 90)
    assert first_copies(cluster.streams.read_what_is_there(topic)) == {b"a": [str(value) for value in range(5000)]}


@pytest.mark.timeout(300)
def test_a_topic_without_answers_ends_no_election(cluster, make_inboxd, inbox, name, unanswered):
    """A transaction waits half a minute for its answers, as long as an election lasts without a renewal."""
    topic, silence = unanswered
    outbox = Outbox(inbox)
    pair = publishers(cluster, make_inboxd, name, 2, producer="transactional")
    leader = eventually(lambda: next((one for one in pair if one.metric("inboxd_outbox_leader")), None))
    outbox.emit(topic, "a", "0")
    cluster.streams.read(topic, 1)
    eventually(lambda: outbox.count() == 0)
    silence()
    with outbox.transaction() as emit:
        for number in range(1, 4):
            emit(topic, "a", str(number))
    eventually(lambda: {state[2] for state in outbox.states().values()} == {"TOPIC", None}, 90, "the topic to be held")
    eventually(lambda: leader.metric("inboxd_outbox_held_topics") == 1)
    assert leader.metric("inboxd_outbox_leader") == 1
    assert not any(log_events(one, "outbox_lost") for one in pair)
    cluster.restore()
    assert first_copies(cluster.streams.read(topic, 4, timeout=90)) == {b"a": ["0", "1", "2", "3"]}
    eventually(lambda: outbox.count() == 0)


def test_another_cluster_is_refused(cluster, fleet, kafka_server, streams, make_topic, make_inboxd):
    """The same group and the same topic name in another cluster have other offsets."""
    fleet.produce(100)
    sidecar = make_inboxd(kafka={"group.id": fleet.group,
                                 "bootstrap.servers": kafka_server.bootstrap})
    assert sidecar.start(ready=False).wait(30) == 2
    last = sidecar.stderr.splitlines()[-1]
    ids = [each.admin().describe_cluster().result(10).cluster_id for each in (cluster, kafka_server)]
    assert all(f'"{cluster_id}"' in last for cluster_id in ids)
    fleet.assert_clean()
