"""Where reading starts: the database decides, whatever happened to Kafka's offsets or topics."""

import datetime
import re
import time

import pytest

from support.librdkafka import later_librdkafka
from support.scripts import always, DONE
from support.streams import Streams
from support.wait import eventually


@pytest.fixture
def stored(inboxd, handler, streams, make_topic, topic, group, inbox):
    """A stopped sidecar that has stored and handled 40 messages, 10 a partition."""
    client = handler(inboxd, always(DONE))
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"e{number}")],
                                  "partition": number % 4} for number in range(40)])
    inbox.wait_processed(40)
    eventually(lambda: streams.lag(group, topic) == 0)
    client.close()
    assert inboxd.stop() == 0
    return inboxd


def test_offsets_set_back_manually_create_duplicates_only(stored, handler, streams, topic, group, inbox):
    streams.set_committed(group, topic, {number: 0 for number in range(4)})
    stored.start()
    client = handler(stored, always(DONE))
    streams.events(topic, ["new"])
    inbox.wait_processed(41)
    assert [delivery.event_id for delivery in client.deliveries] == ["new"]
    eventually(lambda: stored.metric("inboxd_duplicates_total", topic=topic) >= 36)


def test_offsets_set_forward_manually_lose_nothing(stored, streams, topic, group, inbox):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"late{number}")],
                                  "partition": number % 4} for number in range(20)])
    streams.set_committed(group, topic, {number: 15 for number in range(4)})
    stored.start()
    inbox.wait_stored(60)
    eventually(lambda: streams.lag(group, topic) == 0)


def test_librdkafka_starts_no_partition_at_an_offset_of_its_own(start_inboxd, streams, topic, group, inbox):
    """If it asked for the committed offset, it would start the partition at any time, and a resume could be lost (ADR 35)."""
    streams.events(topic, ["a", "b", "c"])
    sidecar = start_inboxd(kafka={"log_level": 7}, log={"level": "debug"})
    inbox.wait_stored(3)
    offsets = eventually(lambda: (found := streams.committed(group, topic)) and sum(found.values()) == 3 and found)
    sidecar.restart()
    streams.events(topic, ["d"])
    inbox.wait_stored(4)
    starts = [line for line in sidecar.stderr.splitlines() if f"Start fetch for {topic} " in line]
    assert len(starts) == 8 and all("at offset 0 " in line for line in starts)
    for number in range(4):  # each start finds the partition paused
        steps = [line for line in sidecar.stderr.splitlines()
                 if f"Start fetch for {topic} [{number}] " in line or f"Pause {topic} [{number}]: " in line]
        assert all(at > 0 and "Pause" in steps[at - 1] and "(state none," in steps[at - 1]
                   for at, line in enumerate(steps) if "Start fetch" in line)
    for number, offset in offsets.items():  # the last record is read again, to verify it
        assert re.search(rf"Seek {re.escape(topic)} \[{number}\] to offset {max(offset - 1, 0)} (\(leader epoch -?\d+\) )?in state", sidecar.stderr)
    assert "skipped: unknown partition" not in sidecar.stderr


def first_fetch_delay(sidecar, topic):
    """Seconds between the last resume of partition 0 and librdkafka's decision to fetch it."""
    def line_with(lines, *texts):
        return next((at for at, line in reversed(list(enumerate(lines))) if all(text in line for text in texts)), None)

    def found():
        lines = sidecar.stderr.splitlines()
        resumed = line_with(lines, f"Resuming {topic} [0]: at offset 0 ")
        fetched = line_with(lines, f"Topic {topic} [0] in state active at offset 0 ", "is fetchable")
        return resumed is not None and fetched is not None and resumed < fetched and (lines[resumed], lines[fetched])

    resumed, fetched = (datetime.datetime.fromisoformat(line[len("time="):line.index("Z")]) for line in eventually(found))
    return (fetched - resumed).total_seconds()


def test_the_first_fetch_of_an_empty_partition_begins_at_once(start_inboxd, topic):
    """Since version 2.1 a resume at offset 0 does not wake the thread of librdkafka that fetches. It would look again after a second."""
    sidecar = start_inboxd(kafka={"log_level": 7, "debug": "topic,fetch"}, log={"level": "debug"}, env=later_librdkafka())
    delays = [first_fetch_delay(sidecar, topic)]
    while delays[-1] > 0.3 and len(delays) < 4:  # a busy machine delays some of them
        sidecar.restart()
        delays.append(first_fetch_delay(sidecar, topic))
    assert delays[-1] <= 0.3, delays


def test_a_start_behind_deleted_records_resets_no_offset(start_inboxd, streams, topic, inbox):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"e{number}")], "partition": 0} for number in range(4)])
    streams.delete_records(topic, 0, 2)
    sidecar = start_inboxd()
    inbox.wait_stored(2)
    assert "facility=OFFSET" not in sidecar.stderr


def test_a_group_without_offsets_continues_at_the_watermark(stored, handler, streams, topic, group, inbox):
    streams.delete_group(group)
    stored.start()
    client = handler(stored, always(DONE))
    streams.events(topic, ["new"])
    inbox.wait_processed(41)
    assert [delivery.event_id for delivery in client.deliveries] == ["new"]
    eventually(lambda: streams.lag(group, topic) == 0)


def test_a_restored_database_reads_missing_records_again(stored, streams, topic, inbox):
    """As after a failover to a replica that lost the last commits."""
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE kafka_offset >= 5")
    inbox.execute("UPDATE inbox.inbox_offsets o SET next_offset = 5, last_offset = 4,"
                  " last_timestamp = (SELECT kafka_timestamp FROM inbox.inbox_messages m"
                  "  WHERE (m.topic, m.kafka_partition, m.kafka_offset)"
                  "      = (o.topic, o.kafka_partition, 4))")
    stored.start()
    inbox.wait_stored(40)


def test_seek_moves_the_watermark_of_a_running_sidecar(inboxd, streams, topic, inbox):
    for number in range(5):
        streams.produce(topic, b"{}", headers={"id": f"e{number}"}, partition=0)
    inbox.wait_stored(5)
    inbox.execute("DELETE FROM inbox.inbox_messages WHERE kafka_offset >= 2")
    inbox.query("SELECT inbox.seek(%s, 0, 2)", [topic])
    inbox.wait_stored(5, timeout=30)
    eventually(lambda: inbox.value("SELECT forced FROM inbox.inbox_offsets WHERE kafka_partition = 0") is False)


def test_seek_moves_the_watermark_forward_past_unwanted_records(inboxd, streams, topic, inbox):
    for number in range(3):
        streams.produce(topic, b"{}", headers={"id": f"e{number}"}, partition=0)
    inbox.wait_stored(3)
    inboxd.stop()
    for number in range(3, 6):
        streams.produce(topic, b"{}", headers={"id": f"e{number}"}, partition=0)
    inbox.query("SELECT inbox.seek(%s, 0, 5)", [topic])
    inboxd.start()
    inbox.wait_stored(4)
    assert inbox.message("e5")


def sought(sidecar):
    return [line for line in sidecar.stderr.splitlines() if "event=seek_applied" in line]


def test_the_log_has_the_start_offset_after_a_seek(inboxd, streams, topic, inbox):
    for number in range(3):
        streams.produce(topic, b"{}", headers={"id": f"e{number}"}, partition=0)
    inbox.wait_stored(3)
    inbox.query("SELECT inbox.seek(%s, 0, 1)", [topic])
    eventually(lambda: sought(inboxd))
    assert "level=info" in sought(inboxd)[0] and "asked_offset=1 start_offset=1" in sought(inboxd)[0]
    eventually(lambda: inbox.offsets()[topic, 0] == 3)
    inbox.query("SELECT inbox.seek(%s, 0, 1000)", [topic])
    eventually(lambda: len(sought(inboxd)) > 1)
    assert "level=warn" in sought(inboxd)[1] and "asked_offset=1000 start_offset=0" in sought(inboxd)[1]
    assert "log_begins=0 log_ends=3" in sought(inboxd)[1]
    eventually(lambda: inbox.offsets()[topic, 0] == 3)
    assert len(sought(inboxd)) == 2 and inbox.count() == 3
    assert "topic_recreated" not in inboxd.stderr
    assert inboxd.metric("inboxd_topic_recreated_total", topic=topic) == 0


def test_a_seek_before_the_start_of_the_log_is_no_gap(inboxd, streams, topic, inbox):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"e{number}")], "partition": 0}
                                  for number in range(4)])
    inbox.wait_stored(4)
    streams.delete_records(topic, 0, 2)
    inbox.query("SELECT inbox.seek(%s, 0, 1)", [topic])
    eventually(lambda: sought(inboxd))
    assert "level=warn" in sought(inboxd)[0] and "asked_offset=1 start_offset=2" in sought(inboxd)[0]
    eventually(lambda: inbox.offsets()[topic, 0] == 4)
    assert "offset_gap" not in inboxd.stderr and inboxd.metric("inboxd_offset_gaps_total", topic=topic) == 0


def test_a_recreated_topic_after_a_seek_is_logged(stored, streams, topic, inbox):
    inbox.query("SELECT inbox.seek(%s, 0, 10)", [topic])
    stored.start()
    eventually(lambda: sought(stored))
    streams.produce(topic, b"{}", headers={"id": "next"}, partition=0)
    inbox.wait_stored(41)
    assert stored.stop() == 0
    streams.delete(topic)
    streams.create(topic, 4)
    stored.start()
    eventually(lambda: "topic_recreated" in stored.stderr)


def test_a_new_group_reads_from_the_beginning(start_inboxd, streams, topic, inbox):
    streams.events(topic, ["a", "b"])
    start_inboxd()
    inbox.wait_stored(2)


def test_auto_offset_reset_can_be_latest(start_inboxd, streams, topic, inbox):
    streams.events(topic, ["old"])
    sidecar = start_inboxd(kafka={"auto.offset.reset": "latest"})

    def a_new_one_arrives():
        streams.events(topic, [f"new{a_new_one_arrives.count}"])
        a_new_one_arrives.count += 1
        return inbox.count() > 0

    a_new_one_arrives.count = 0
    eventually(a_new_one_arrives, every=0.5)
    assert "old" not in {row["event_id"] for row in inbox.messages()}
    assert sidecar.is_running()


@pytest.fixture
def latest(start_inboxd, streams, make_topic, name, inbox):
    """A running sidecar that skips what was there when its group began. A record in each new partition is older than it."""
    topic = make_topic(1)
    streams.events(topic, ["old"])
    sidecar = start_inboxd(kafka={"topics": [f"^{name}\\.[0-9]+$", f"{name}.later"], "auto.offset.reset": "latest",
                                  "topic.metadata.refresh.interval.ms": 1000})
    eventually(lambda: inbox.offsets().get((topic, 0)) == 1)
    return sidecar, topic


def test_latest_skips_nothing_of_partitions_that_are_added(latest, kafka_server, inbox):
    from confluent_kafka.admin import NewPartitions

    sidecar, topic = latest
    assert sidecar.stop() == 0
    kafka_server.admin().create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    Streams(kafka_server).produce_many(topic, [{"value": b"{}", "headers": [("id", f"p{number}")], "partition": number % 3}
                                                for number in range(15)])
    sidecar.start()
    inbox.wait_stored(15)


def test_latest_skips_nothing_of_topics_that_appear_later(latest, streams, make_topic, name, inbox):
    sidecar, _ = latest
    for topic in (make_topic(1), f"{name}.later"):
        if topic.endswith(".later"):
            streams.create(topic, 1)
        streams.events(topic, [f"{topic} {number}" for number in range(15)])
    inbox.wait_stored(30)
    assert sidecar.is_running()


def test_latest_skips_what_is_there_when_a_topic_is_configured(latest, streams, name, inbox):
    """Its first use is the beginning, also if no record could be stored then."""
    sidecar, _ = latest
    assert sidecar.stop() == 0
    another = f"{name}.another"
    streams.create(another, 1)
    streams.events(another, ["older"])
    sidecar.write_configuration({"kafka": {"topics": [another]}})
    sidecar.start()
    eventually(lambda: inbox.offsets().get((another, 0)) == 1)
    streams.events(another, ["newer"])
    inbox.wait_stored(1)
    assert inbox.message("newer")


def test_a_recreated_topic_is_read_from_its_start(stored, streams, topic, inbox):
    streams.delete(topic)
    streams.create(topic, 4)
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"second{number}")],
                                  "partition": 0} for number in range(3)])
    stored.start()
    inbox.wait_stored(43)
    assert "topic_recreated" in stored.stderr
    eventually(lambda: stored.metric("inboxd_topic_recreated_total", topic=topic) >= 1)


def test_a_longer_recreated_topic_is_detected(stored, streams, topic, inbox):
    streams.delete(topic)
    streams.create(topic, 4)
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"second{number}")],
                                  "partition": number % 4} for number in range(100)])
    stored.start()
    inbox.wait_stored(140)
    assert "topic_recreated" in stored.stderr


def test_messages_deleted_before_they_were_read_are_logged_as_a_gap(stored, streams, topic, inbox):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"late{number}")],
                                  "partition": 0} for number in range(10)])
    streams.delete_records(topic, 0, 16)
    stored.start()
    inbox.wait_stored(44)
    eventually(lambda: stored.metric("inboxd_offset_gaps_total", topic=topic) == 1)
    gap = next(line for line in stored.stderr.splitlines() if "offset_gap" in line)
    assert "from=10" in gap and "to=16" in gap and "count=6" in gap


def test_records_deleted_after_they_were_read_are_no_gap(stored, streams, topic, inbox):
    streams.delete_records(topic, 0, 10)
    streams.produce(topic, b"{}", headers={"id": "next"}, partition=0)
    stored.start()
    inbox.wait_stored(41)
    assert "offset_gap" not in stored.stderr
    assert "topic_recreated" not in stored.stderr


def test_partitions_added_later_are_read(start_inboxd, kafka_server, streams, make_topic, inbox):
    from confluent_kafka.admin import NewPartitions

    topic = make_topic(1)
    start_inboxd(kafka={"topics": [topic], "topic.metadata.refresh.interval.ms": 1000})
    kafka_server.admin().create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"p{number}")],
                                  "partition": number} for number in range(3)])
    inbox.wait_stored(3, timeout=60)


CONSTANT = int(time.time() * 1000)  # in each record, like producers that use the time of their batch


def produce_constant(streams, topic, word, count):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"{word}{number}")], "partition": 0,
                                  "timestamp": CONSTANT} for number in range(count)])


def create_again(streams, topic):
    streams.delete(topic)
    streams.create(topic, 1)


@pytest.fixture
def constant(inboxd, streams, topic, inbox):
    """A stopped sidecar that has stored ten records of one timestamp."""
    produce_constant(streams, topic, "first", 10)
    inbox.wait_stored(10)
    assert inboxd.stop() == 0
    return inboxd


def test_a_recreated_topic_with_the_same_timestamps_is_detected(constant, streams, topic, inbox):
    create_again(streams, topic)
    produce_constant(streams, topic, "second", 20)
    constant.start()
    inbox.wait_stored(30)
    assert "topic_recreated" in constant.stderr


def test_a_recreated_topic_is_detected_by_a_skipped_record(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd(topics={topic: {"accept": ["wanted"]}})

    def produce(word, count):
        streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"{word}{number}"), ("type", "other")],
                                      "partition": 0, "timestamp": CONSTANT} for number in range(count)])

    produce("first", 10)
    eventually(lambda: inbox.offsets().get((topic, 0)) == 10)
    assert sidecar.stop() == 0
    create_again(streams, topic)
    produce("second", 20)
    sidecar.start()
    eventually(lambda: inbox.offsets()[topic, 0] == 20)
    assert "topic_recreated" in sidecar.stderr


def test_the_same_log_with_the_same_timestamps_is_continued(constant, streams, topic, inbox):
    produce_constant(streams, topic, "later", 5)
    constant.start()
    inbox.wait_stored(15)
    assert "topic_recreated" not in constant.stderr


@pytest.mark.parametrize("change", ["last_digest = NULL", "last_offset = 4, last_timestamp = last_timestamp"])
def test_a_digest_of_another_record_is_ignored(constant, streams, topic, inbox, change):
    """An older version or an operator has moved the watermark and left the digest."""
    inbox.execute(f"UPDATE inbox.inbox_offsets SET next_offset = CASE WHEN '{change}' LIKE '%%= 4%%' THEN 5"
                  f" ELSE next_offset END, {change} WHERE kafka_partition = 0")
    produce_constant(streams, topic, "later", 5)
    constant.start()
    inbox.wait_stored(15)
    assert "topic_recreated" not in constant.stderr
