"""The identity of a message: ids from headers, CloudEvents, keys and bodies; rejects and conflicts."""

import json
import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually


@pytest.mark.parametrize("header", ["ce_id", "id", "event-id", "eventId", "idempotency-key",
                                    "message-id"])
def test_the_id_comes_from_a_header(inboxd, produce, topic, inbox, header):
    produce(topic, b"{}", headers={header: "A-1"})
    inbox.wait_stored(1)
    assert inbox.message("A-1")["source"] == topic


def test_a_binary_cloudevent_has_id_source_and_type(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, always(DONE))
    produce(topic, b'{"a":1}', headers={
        "ce_specversion": "1.0", "ce_id": "c1", "ce_source": "/shop", "ce_type": "order.created",
        "ce_time": "2026-01-02T03:04:05Z", "ce_subject": "17", "content-type": "application/json"})
    inbox.wait_processed(1)
    row = inbox.message("c1")
    assert (row["source"], row["event_type"]) == ("/shop", "order.created")
    event = client.deliveries[0].event
    assert (event["time"], event["subject"]) == ("2026-01-02T03:04:05Z", "17")
    assert event["data"] == {"a": 1}


def test_a_structured_cloudevent_is_unpacked(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, always(DONE))
    envelope = json.dumps({"specversion": "1.0", "id": "s1", "source": "/shop", "type": "paid",
                           "subject": "17", "data": {"a": 1}}).encode()
    produce(topic, envelope, headers={"content-type": "application/cloudevents+json; charset=utf-8"})
    inbox.wait_processed(1)
    row = inbox.message("s1")
    assert (row["source"], row["event_type"]) == ("/shop", "paid")
    assert bytes(row["payload"]) == envelope
    event = client.deliveries[0].event
    assert (event["id"], event["subject"], event["data"]) == ("s1", "17", {"a": 1})


def test_a_record_of_debeziums_outbox_router_is_understood(inboxd, produce, topic, inbox):
    produce(topic, b'{"order":1}', key="aggregate-7",
            headers={"id": "4a9e7a2c-0000-4000-8000-1234567890ab", "eventType": "OrderCreated"})
    inbox.wait_stored(1)
    row = inbox.message("4a9e7a2c-0000-4000-8000-1234567890ab")
    assert row["event_type"] == "OrderCreated"
    assert bytes(row["key"]) == b"aggregate-7"


def test_an_id_is_text_and_not_a_uuid(inboxd, produce, topic, inbox):
    upper, lower = "ABCDEF00-0000-4000-8000-000000000000", "abcdef00-0000-4000-8000-000000000000"
    produce(topic, b"{}", headers={"id": upper})
    produce(topic, b"{}", headers={"id": lower})
    inbox.wait_stored(2)


def test_a_json_pointer_finds_the_id_in_the_body(start_inboxd, produce, topic, inbox):
    start_inboxd(topics={topic: {"id": ["header:id", "json:/meta/id"], "type": ["json:/kind"]}})
    produce(topic, b'{"kind":"made","meta":{"id":"j-1"}}')
    produce(topic, b'{"kind":"made","meta":{"id":17}}')
    inbox.wait_stored(2)
    assert inbox.message("j-1")["event_type"] == "made"
    assert inbox.message("17")


def test_the_key_can_be_the_id(start_inboxd, produce, topic, inbox):
    start_inboxd(topics={"*": {"id": ["key"]}})
    produce(topic, b"{}", key="k-1")
    produce(topic, b"{}", key="k-1")
    produce(topic, b"{}", key="k-2")
    inbox.wait_stored(2)
    assert inbox.message("k-1")


def test_without_an_id_the_coordinates_are_the_id(inboxd, produce, topic, inbox):
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    offset = produce(topic, b'{"id":"an entity, not an event"}', partition=2,
                     timestamp=an_hour_ago)
    inbox.wait_stored(1)
    assert inbox.message(f"{topic}/2/{offset}@{an_hour_ago}")


def test_without_an_id_the_record_is_rejected_if_configured(start_inboxd, produce, topic, inbox):
    start_inboxd(topics={topic: {"missing_id": "reject"}})
    produce(topic, b"{}", partition=0)
    produce(topic, b"{}", headers={"id": "good"}, partition=0)
    inbox.wait_stored(1)
    assert len(inbox.rejects()) == 1


def test_the_last_value_of_a_repeated_header_counts(inboxd, produce, topic, inbox):
    produce(topic, b"{}", headers=[("id", "old"), ("id", "new")])
    inbox.wait_stored(1)
    assert inbox.message("new")


@pytest.mark.parametrize("headers", [
    pytest.param([("id", "a"), ("message-id", "b")], id="two different ids"),
    pytest.param([("ce_id", "a"), ("id", "b")], id="ce_id and another id"),
    pytest.param([("id", "")], id="an empty id"),
    pytest.param([("id", "x" * 1025)], id="an id over 1024 bytes"),
    pytest.param([("id", b"a\x00b")], id="an id with NUL"),
    pytest.param([("id", "a"), ("type", "t" * 1025)], id="a type over 1024 bytes"),
    pytest.param([("id", "a"), ("ce_source", "s" * 1025)], id="a source over 1024 bytes"),
])
def test_a_bad_identity_is_rejected_and_the_partition_continues(inboxd, produce, topic, inbox, headers):
    offset = produce(topic, b"\x00raw\xff", key=b"\xfe", headers=headers, partition=1)
    produce(topic, b"{}", headers={"id": "next"}, partition=1)
    inbox.wait_stored(1)
    assert inbox.message("next")
    (reject,) = inbox.rejects()
    assert bytes(reject["payload"]) == b"\x00raw\xff"
    assert bytes(reject["key"]) == b"\xfe"
    assert (reject["topic"], reject["kafka_partition"], reject["kafka_offset"]) == (topic, 1, offset)
    assert reject["reason"]
    eventually(lambda: inboxd.metric("inboxd_rejects_total", topic=topic) == 1)
    assert "reject" in inboxd.stderr


def test_the_same_id_in_two_headers_is_one_id(inboxd, produce, topic, inbox):
    produce(topic, b"{}", headers=[("ce_id", "a"), ("id", "a"), ("message-id", "a")])
    inbox.wait_stored(1)
    assert inbox.rejects() == []


def test_another_payload_under_the_same_id_is_kept_as_a_conflict(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, always(DONE))
    produce(topic, b'{"v":1}', headers={"id": "x"}, partition=0)
    inbox.wait_processed(1)
    offset = produce(topic, b'{"v":2}', key=b"k", headers={"id": "x"}, partition=1)
    eventually(lambda: inboxd.metric("inboxd_conflicts_total", topic=topic) == 1)
    (conflict,) = eventually(inbox.conflicts)
    assert bytes(conflict["payload"]) == b'{"v":2}'
    assert (conflict["event_id"], conflict["kafka_partition"], conflict["kafka_offset"]) == \
        ("x", 1, offset)
    assert bytes(inbox.message("x")["payload"]) == b'{"v":1}'
    assert len(client.deliveries) == 1


def test_a_conflict_inside_one_batch_is_found_too(start_inboxd, streams, topic, inbox):
    streams.produce_many(topic, [{"value": value, "headers": [("id", "x")], "partition": 0}
                                 for value in (b"1", b"1", b"2")])
    sidecar = start_inboxd(ingest={"batch_wait": "200ms"})
    eventually(lambda: sidecar.metric("inboxd_conflicts_total", topic=topic) == 1)
    assert inbox.count() == 1
    assert bytes(inbox.message("x")["payload"]) == b"1"
