"""Logs with more than plain records: committed and aborted transactions, gaps, compression."""

import pytest
from confluent_kafka import Producer

from support.wait import eventually
from whole import log_events


@pytest.fixture
def writer(kafka_server, name):
    """A transactional producer."""
    made = Producer({"bootstrap.servers": kafka_server.bootstrap, "log_level": 2, "linger.ms": 1,
                     "transactional.id": f"tx-{name}"})
    made.init_transactions(30)
    return made


def transaction(fleet, writer, commit, count=10):
    """One transaction. Aborted records must never be visible, so they are not added to the ledger."""
    book = []
    writer.begin_transaction()
    for _ in range(count):
        fleet.send(writer, book)
    writer.flush(30)
    if commit:
        writer.commit_transaction(30)
        fleet.ledger.add(book)
    else:
        writer.abort_transaction(30)
    return book


def nothing_to_read(fleet, sidecar, streams, topic, group):
    """The lag of the group and of the metric is zero, also with control records."""
    eventually(lambda: streams.lag(group, topic) == 0, 15, "the group to have no lag")
    eventually(lambda: sidecar.metric("inboxd_kafka_lag", topic=topic) == 0, 15, "lag of 0")
    fleet.check_offsets()


def test_only_committed_transactions_are_stored(fleet, writer, streams, topic, group):
    one, two = fleet.add(), fleet.add()
    for number in range(40):
        transaction(fleet, writer, commit=number % 3 != 1)
        if number == 20:
            one.kill()
    one.start()
    fleet.assert_clean()  # an aborted message would be reported as unknown
    transaction(fleet, writer, commit=False)
    fleet.produce(100)
    fleet.assert_clean()
    assert not log_events(two.sidecar, "offset_gap") + log_events(two.sidecar, "topic_recreated")


def test_a_log_that_ends_with_control_records_is_read_to_its_end(fleet, writer, streams, topic, group):
    one = fleet.add()
    transaction(fleet, writer, commit=True, count=20)
    transaction(fleet, writer, commit=False, count=20)
    fleet.assert_clean()
    nothing_to_read(fleet, one.sidecar, streams, topic, group)
    one.stop()
    for partition, end in streams.log_end(topic).items():
        streams.delete_records(topic, partition, end)
    one.start()
    fleet.produce(50)
    fleet.assert_clean()
    assert not log_events(one.sidecar, "offset_gap"), "nothing was deleted that could be read"


def test_an_open_transaction_holds_back_later_records(fleet, writer, streams, topic):
    """Until it is committed or aborted, nothing behind it is read. Afterwards nothing is skipped."""
    one = fleet.add()
    book = []
    writer.begin_transaction()
    for _ in range(20):
        fleet.send(writer, book)
    writer.flush(30)
    fleet.produce(100)
    ids = {record.event_id for record in book}
    one.stop()
    one.start()
    assert not ids & {row["event_id"] for row in fleet.inbox.messages()}
    writer.commit_transaction(30)
    fleet.ledger.add(book)
    fleet.assert_clean()


def test_uncommitted_records_are_read_if_configured(fleet, writer):
    fleet.add(kafka={"isolation.level": "read_uncommitted"})
    fleet.ledger.add(transaction(fleet, writer, commit=False, count=20))
    fleet.ledger.add(transaction(fleet, writer, commit=False, count=20))
    fleet.assert_clean()


def test_compressed_batches_are_read_completely(fleet):
    """Each kill is in the middle of a batch of Kafka."""
    one = fleet.add(ingest={"batch_messages": 20})
    for codec in ("gzip", "snappy", "lz4", "zstd", "none"):
        fleet.produce_with(compression_type=codec, linger_ms=100)
        fleet.produce(200)
        fleet.wait_for_progress(30)
        one.kill()
        one.start()
    fleet.assert_clean()


def test_offsets_removed_by_compaction_are_no_gap(fleet, kafka_server, streams, make_topic, inbox):
    """While it is stopped, the records at the watermark, after it and at the last offset are removed."""
    topic = make_topic(1, cleanup_policy="compact", segment_ms=200, min_cleanable_dirty_ratio=0.001,
                       delete_retention_ms=100, max_compaction_lag_ms=300)
    one = fleet.add(kafka={"topics": [topic]})
    streams.events(topic, [f"a{number}" for number in range(20)], key=lambda _: "same")
    inbox.wait_processed(20)
    one.stop()
    streams.events(topic, [f"b{number}" for number in range(20)], key=lambda _: "same")

    def compacted():
        streams.events(topic, [f"c{compacted.turns}"], key=lambda _: "same")
        compacted.turns += 1
        return not set(range(39)) & {record.offset() for record in streams.read_what_is_there(topic)}

    compacted.turns = 0
    eventually(compacted, 60, "compaction", every=1)
    left = streams.read_what_is_there(topic)
    one.start()
    inbox.wait_status(f"c{compacted.turns - 1}", "processed")
    stored = {row["event_id"] for row in inbox.messages()}
    assert {dict(record.headers())["id"].decode() for record in left} <= stored
    assert not log_events(one.sidecar, "topic_recreated") + log_events(one.sidecar, "offset_gap")
    eventually(lambda: one.sidecar.metric("inboxd_kafka_lag", topic=topic) == 0, 15)
