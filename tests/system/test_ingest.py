"""From Kafka into the table: each record is stored once and completely, and its offset is committed afterwards."""

import datetime
import hashlib
import os
import time

import psycopg
import pytest

from support.scripts import always, DONE
from support.wait import eventually


def test_every_message_is_stored_once_and_handled_once(inboxd, handler, streams, topic, inbox):
    ids = [f"e{number}" for number in range(500)]
    client = handler(inboxd, always(DONE))
    streams.events(topic, ids)
    inbox.wait_processed(500)
    assert sorted(row["event_id"] for row in inbox.messages()) == sorted(ids)
    assert sorted(delivery.event_id for delivery in client.deliveries) == sorted(ids)


def test_messages_are_stored_without_a_handler(inboxd, streams, topic, inbox):
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_stored(3)


def test_a_record_waits_for_others_only_while_these_are_likely(start_inboxd, streams, topic, inbox):
    start_inboxd(ingest={"batch_wait": "1m", "batch_messages": 21})
    for number, event_id in enumerate(["a", "b"]):
        streams.events(topic, [event_id])
        inbox.wait_stored(number + 1)
    assert inbox.value("SELECT received_at - kafka_timestamp < '10s' FROM inbox.inbox_messages"
                       " WHERE event_id = 'b'")  # a fifth of batch_wait are 12 s
    streams.produce_many(topic, [{"value": b"{}", "partition": 0, "headers": [("id", f"c{number}")]}
                                 for number in range(20)])
    streams.produce(topic, b"{}", headers={"id": "d"}, partition=0)
    inbox.wait_stored(23)
    assert inbox.value("SELECT count(DISTINCT received_at) FROM inbox.inbox_messages") == 3, "c and d are one batch"


def test_messages_from_before_the_start_are_read(start_inboxd, streams, topic, inbox):
    streams.events(topic, ["a", "b", "c"])
    start_inboxd()
    inbox.wait_stored(3)


def test_a_second_copy_is_dropped_and_counted(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    streams.events(topic, ["a", "b", "a", "a"], key=lambda _: "k")
    eventually(lambda: inboxd.metric("inboxd_messages_received_total", topic=topic) == 4)
    inbox.wait_processed(2)
    eventually(lambda: inboxd.metric("inboxd_duplicates_total", topic=topic) == 2)
    assert sorted(delivery.event_id for delivery in client.deliveries) == ["a", "b"]


def test_a_copy_in_another_partition_is_a_duplicate(inboxd, produce, topic, inbox):
    for partition in range(4):
        produce(topic, b"{}", headers={"id": "same"}, partition=partition)
    eventually(lambda: inboxd.metric("inboxd_duplicates_total", topic=topic) == 3)
    assert inbox.count() == 1


def test_a_copy_after_a_restart_is_a_duplicate(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    inboxd.restart()
    client = handler(inboxd, always(DONE))
    streams.events(topic, ["a", "b"])
    inbox.wait_processed(2)
    assert [delivery.event_id for delivery in client.deliveries] == ["b"]


def test_the_same_id_in_two_topics_is_two_messages(start_inboxd, make_topic, produce, inbox):
    topics = [make_topic(1), make_topic(1)]
    start_inboxd(kafka={"topics": topics})
    for topic in topics:
        produce(topic, b"{}", headers={"id": "same"})
    inbox.wait_stored(2)


def test_offsets_equal_the_end_of_the_log_when_idle(inboxd, streams, topic, group, inbox):
    streams.produce_many(topic, [{"value": b"{}", "headers": [("id", f"e{number}")],
                                  "partition": number % 4} for number in range(300)])
    inbox.wait_stored(300)
    eventually(lambda: streams.committed(group, topic) == streams.log_end(topic),
               what="group offsets at the end of the log")
    stored = {partition: offset for (_, partition), offset in inbox.offsets().items()}
    assert stored == streams.log_end(topic)


def test_only_offsets_of_stored_records_are_committed(postgres, inboxd, streams, topic, group, inbox):
    streams.events(topic, ["before"], key=lambda _: "k")
    inbox.wait_stored(1)
    eventually(lambda: streams.lag(group, topic) == 0)
    postgres.stop()
    streams.events(topic, [f"e{number}" for number in range(50)], key=lambda _: "k")
    eventually(lambda: inboxd.metric("inboxd_pg_errors_total") > 0)
    assert streams.lag(group, topic) == 50
    postgres.start()
    inbox.wait_stored(51)
    eventually(lambda: streams.lag(group, topic) == 0)


def test_a_record_is_stored_exactly(inboxd, produce, topic, inbox):
    headers = [("id", "x"), ("again", "1"), ("again", "2"), ("nothing", None), ("empty", ""),
               ("binary", b"\xff\x00"), ("umlaut", "ä")]
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    offset = produce(topic, b'{"n": 1.00}\r\n', key=b"\xfe\x00key", headers=headers, partition=3,
                     timestamp=an_hour_ago)
    inbox.wait_stored(1)
    row = inbox.message("x")
    assert row["headers"] == [["id", "x"], ["again", "1"], ["again", "2"], ["nothing", None],
                              ["empty", ""], ["binary", {"base64": "/wA="}], ["umlaut", "ä"]]
    assert (row["topic"], row["kafka_partition"], row["kafka_offset"]) == (topic, 3, offset)
    assert bytes(row["payload"]) == b'{"n": 1.00}\r\n'
    assert bytes(row["key"]) == b"\xfe\x00key"
    assert bytes(row["payload_digest"]) == hashlib.sha256(b'{"n": 1.00}\r\n').digest()[:16]
    moment = datetime.datetime.fromtimestamp(an_hour_ago / 1000, datetime.timezone.utc)
    assert row["kafka_timestamp"] == moment


def test_tombstone_empty_payload_and_missing_key_are_distinguished(inboxd, produce, topic, inbox):
    produce(topic, None, key="k", headers={"id": "tombstone"})
    produce(topic, b"", key=b"", headers={"id": "empty"})
    produce(topic, b"null", headers={"id": "null"})
    inbox.wait_stored(3)
    assert inbox.message("tombstone")["payload"] is None
    assert bytes(inbox.message("empty")["payload"]) == b""
    assert bytes(inbox.message("empty")["key"]) == b""
    assert bytes(inbox.message("null")["payload"]) == b"null"
    assert inbox.message("null")["key"] is None


@pytest.mark.parametrize("payload, member", [
    (b'{"order":17}', {"data": {"order": 17}}),
    (b"not json", {"data_base64": "bm90IGpzb24="}),
    (b'"\xff"', {"data_base64": "Iv8i"}),
    (b"", {"data_base64": ""}),
    (None, {}),
])
def test_a_handler_gets_the_payload_as_data(inboxd, handler, produce, topic, payload, member):
    client = handler(inboxd, always(DONE))
    produce(topic, payload, key=b"c-17", headers={"id": "x", "type": "order.created"})
    eventually(lambda: client.deliveries)
    event = client.deliveries[0].event
    assert {name: event[name] for name in ("data", "data_base64") if name in event} == member
    assert event["specversion"] == "1.0"
    assert (event["id"], event["type"], event["source"]) == ("x", "order.created", topic)
    assert (event["kafkatopic"], event["partitionkey"]) == (topic, "c-17")


def test_a_binary_key_is_delivered_as_base64(inboxd, handler, produce, topic):
    client = handler(inboxd, always(DONE))
    produce(topic, b"{}", key=b"\xff\x00", headers={"id": "x"})
    eventually(lambda: client.deliveries)
    event = client.deliveries[0].event
    assert event["partitionkeybase64"] == "/wA="
    assert "partitionkey" not in event


def test_a_payload_over_the_limit_is_rejected_and_the_partition_continues(start_inboxd, produce, topic, inbox):
    start_inboxd(ingest={"max_payload": "1KiB"})
    produce(topic, b"x" * 1025, headers={"id": "big"}, partition=0)
    produce(topic, b"x" * 1024, headers={"id": "fits"}, partition=0)
    inbox.wait_stored(1)
    assert inbox.message("fits")
    assert len(inbox.rejects()) == 1


def test_of_a_record_far_above_the_limit_a_part_is_kept(start_inboxd, produce, topic, inbox):
    """A producer can compress a record of any size. A replay must not take the part for the record."""
    sidecar = start_inboxd(ingest={"max_payload": "64KiB"})
    payload = os.urandom(150_000)
    produce(topic, b"{}", headers=[("id", "h"), ("large", b"x" * (16 << 20))], partition=0)
    produce(topic, payload, key="k", headers={"id": "p"}, partition=0)
    eventually(lambda: len(inbox.rejects()) == 2)
    headers, head = inbox.rejects()
    assert head["payload"] == payload[:65536] and head["key"] == b"k"
    assert f"SHA-256 begins with {hashlib.sha256(payload).hexdigest()[:32]}" in head["reason"]
    assert headers["payload"] == b"{}" and headers["headers"] == []
    sidecar.stop()
    sidecar = start_inboxd(ingest={"max_payload": "1MiB"})
    produce(topic, b"{}", headers={"id": "next"}, partition=0)
    inbox.wait_stored(1)
    assert sidecar.metric("inboxd_topic_recreated_total", topic=topic) == 0
    assert sidecar.command("replay", "--rejects", "--yes").returncode != 0
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is not the whole record"):
        inbox.query("SELECT inbox.replay_reject(%s, 'orders', 'p', NULL)", [head["seq"]])
    assert len(inbox.rejects()) == 2 and len(inbox.messages()) == 1


def test_a_payload_of_ten_megabytes_passes_through(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, always(DONE))
    text = "x" * 10_000_000
    streams_payload = f'"{text}"'.encode()
    produce(topic, streams_payload, headers={"id": "big"})
    inbox.wait_processed(1)
    assert client.deliveries[0].event["data"] == text


def test_types_that_are_not_accepted_are_skipped_and_counted(start_inboxd, produce, topic, inbox):
    sidecar = start_inboxd(topics={topic: {"accept": ["order.*", "ping"]}})
    for number, kind in enumerate(["order.created", "invoice.created", "ping", "pong"]):
        produce(topic, b"{}", headers={"id": f"e{number}", "type": kind}, partition=0)
    eventually(lambda: sidecar.metric("inboxd_skipped_total", topic=topic) == 2)
    inbox.wait_stored(2)
    assert {row["event_type"] for row in inbox.messages()} == {"order.created", "ping"}


def test_a_topic_created_later_that_matches_the_pattern_is_read(start_inboxd, make_topic, produce, topic, inbox):
    pattern = "^" + topic.rpartition(".")[0].replace(".", "\\.") + "\\..*"
    start_inboxd(kafka={"topics": [pattern], "topic.metadata.refresh.interval.ms": 1000})
    produce(topic, b"{}", headers={"id": "first"})
    inbox.wait_stored(1)
    produce(make_topic(1), b"{}", headers={"id": "second"})
    inbox.wait_stored(2)


def test_compacted_and_transactional_gaps_do_not_stop_a_partition(inboxd, kafka_server, streams, topic, group, inbox):
    from confluent_kafka import Producer

    writer = Producer({"bootstrap.servers": kafka_server.bootstrap, "log_level": 2,
                       "transactional.id": f"tx-{topic}"})
    writer.init_transactions(30)
    for number, finish in enumerate([writer.commit_transaction, writer.abort_transaction,
                                     writer.commit_transaction]):
        writer.begin_transaction()
        writer.produce(topic, b"{}", headers=[("id", f"t{number}")], partition=0)
        writer.flush(30)
        finish(30)
    inbox.wait_stored(2)
    assert {row["event_id"] for row in inbox.messages()} == {"t0", "t2"}
    eventually(lambda: streams.committed(group, topic).get(0, 0) >= 5,
               what="the offset to pass the control records")
