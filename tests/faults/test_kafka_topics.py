"""Topics that are deleted, recreated, extended or created later, under load: every loss is reported."""

import pytest
from confluent_kafka.admin import NewPartitions

from fleet import Fleet
from support.wait import eventually
from whole import log_events

SOON = {"topic.metadata.refresh.interval.ms": 1000}


@pytest.fixture
def one(fleet):
    """A sidecar that checks the topics every second."""
    return fleet.add(kafka=SOON)


def fields(line):
    return dict(pair.split("=", 1) for pair in line.split() if "=" in pair)


def create_again(fleet, streams, topic, count, kind="done"):
    """Another log under the old name, with `count` messages at once."""
    streams.delete(topic)
    streams.create(topic)
    fleet.begin_again()
    fleet.produce(count, kind)


def says_recreated(sidecar, topic):
    eventually(lambda: log_events(sidecar, "topic_recreated"), 30)
    said = [fields(line) for line in log_events(sidecar, "topic_recreated")]
    assert {each["topic"] for each in said} == {topic}
    assert {each["new_offset"] for each in said} == {"0"}
    assert len({each["partition"] for each in said}) == len(said), "said once for each partition"
    eventually(lambda: sidecar.metric("inboxd_topic_recreated_total", topic=topic) == len(said))
    assert not log_events(sidecar, "offset_gap")


# 400 messages before; so many after.
LENGTHS = pytest.mark.parametrize("count", [80, 1200], ids=["shorter", "longer"])


@LENGTHS
def test_a_topic_recreated_while_stopped_is_read_from_its_start(fleet, one, streams, topic, count):
    fleet.produce(400)
    fleet.wait_done()
    one.stop()
    create_again(fleet, streams, topic, count)
    one.start()
    says_recreated(one.sidecar, topic)
    fleet.assert_clean()


@LENGTHS
def test_a_topic_recreated_at_run_time_is_read_from_its_start(fleet, one, streams, topic, count):
    fleet.produce(400)
    fleet.wait_done()
    create_again(fleet, streams, topic, count)
    fleet.wait_done()
    says_recreated(one.sidecar, topic)
    fleet.produce(200)
    fleet.assert_clean()


def test_a_longer_topic_recreated_during_a_database_outage_is_detected(fleet, one, postgres, streams, topic):
    """Paused partitions do not notice it."""
    fleet.produce(400)
    fleet.wait_done()
    postgres.stop()
    eventually(lambda: one.sidecar.get("/readyz")[0] == 503)
    create_again(fleet, streams, topic, 1200)
    postgres.start()
    fleet.wait_done()
    says_recreated(one.sidecar, topic)
    fleet.assert_clean()


def test_partitions_added_under_load_are_read(fleet, one, kafka, topic):
    fleet.add(kafka=SOON)
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    fleet.enough()
    kafka.admin().create_partitions([NewPartitions(topic, 7)])[topic].result(30)
    fleet.grow(7)
    fleet.produce_in_background()
    eventually(lambda: {4, 5, 6} <= {partition for (_, partition), offset
                                     in fleet.inbox.offsets().items() if offset}, 30)
    fleet.assert_clean()
    assert one.is_running


def test_a_deleted_topic_does_not_stop_others(fleet, streams, make_topic, topic, inbox):
    gone = make_topic()
    one = fleet.add(kafka={**SOON, "topics": [topic, gone]})
    streams.events(gone, ["g1", "g2"])
    inbox.wait_stored(2)
    inbox.wait_processed(2)
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    streams.delete(gone)
    eventually(lambda: "UNKNOWN_TOPIC_OR_PART" in one.sidecar.stderr, 30)
    fleet.wait_for_progress(300)
    one.stop()
    one.start()  # and the start succeeds without it
    fleet.wait_for_progress(300)
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE topic = %s", [gone])
    fleet.assert_clean()


def test_a_topic_created_later_is_read(make_inboxd, inbox, streams, name, group):
    """The sidecar starts, logs that the topic is missing, and reads it from its first message when it exists."""
    later = f"{name}.later"
    fleet = Fleet(make_inboxd, inbox, streams, later, group)
    one = fleet.add(kafka={**SOON, "topics": [later]}, start=False)
    one.start(ready=False)
    eventually(lambda: "UNKNOWN_TOPIC_OR_PART" in one.sidecar.stderr, 30)
    assert later in one.sidecar.stderr.partition("UNKNOWN_TOPIC_OR_PART")[2]
    streams.create(later)
    fleet.produce(300)
    one.sidecar.wait_ready()
    fleet.assert_clean()
    fleet.close()


def test_a_new_topic_that_matches_a_pattern_is_read(make_inboxd, inbox, streams, make_topic, name, group):
    """The other topics continue: none of their messages is lost or delivered twice at the same time."""
    first = make_topic()
    fleet = Fleet(make_inboxd, inbox, streams, first, group)
    for _ in range(2):
        fleet.add(kafka={**SOON, "topics": [f"^{name}\\.[0-9]+$"]})
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    second = make_topic()
    streams.events(second, [f"other{number}" for number in range(100)])
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.messages WHERE topic = %s"
                                   " AND status = 'processed'", [second]) == 100, 40)
    fleet.wait_for_progress(200)
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE topic = %s", [second])
    fleet.assert_clean()
    fleet.close()
