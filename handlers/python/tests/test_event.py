"""Events, their headers and their trace."""

import datetime

import inboxd
import pytest
from inboxd._event import parse_time

EVENT = {
    "specversion": "1.0",
    "id": "A1",
    "source": "urn:shop",
    "type": "order.created",
    "subject": "17",
    "time": "2026-11-21T05:40:59.120Z",
    "datacontenttype": "application/json",
    "partitionkey": "c-17",
    "kafkatopic": "orders",
    "kafkapartition": 3,
    "kafkaoffset": "9007199254740993",
    "tenant": "t1",
    "data": {"order": 17},
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "a=1",
}


def test_attributes():
    event = inboxd.Event(EVENT)
    assert (event.id, event.source, event.type, event.subject) == ("A1", "urn:shop", "order.created", "17")
    assert (event.topic, event.partition, event.offset, event.key) == ("orders", 3, 9007199254740993, "c-17")
    assert event.time == datetime.datetime(2026, 11, 21, 5, 40, 59, 120000, datetime.timezone.utc)
    assert event["tenant"] == "t1"
    assert event.get("missing") is None
    assert "data" not in event
    assert dict(event).keys() == EVENT.keys() - {"data"}
    assert "order.created" in repr(event)


@pytest.mark.parametrize(
    ("members", "data", "is_tombstone"),
    [
        ({"data": 1.5}, 1.5, False),
        ({"data": None}, None, False),
        ({"data_base64": "/w=="}, b"\xff", False),
        ({"data_base64": ""}, b"", False),
        ({}, None, True),
        ({"data_base64": None}, None, True),
    ],
)
def test_data(members, data, is_tombstone):
    event = inboxd.Event(members)
    assert (event.data, event.is_tombstone) == (data, is_tombstone)


def test_what_is_absent_is_empty():
    event = inboxd.Event({})
    assert (event.id, event.type, event.time, event.key, event.trace, event.offset) == ("", "", None, None, None, 0)
    assert inboxd.Event({"partitionkeybase64": "/w=="}).key == b"\xff"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        ("2026-01-02 03:04:05.5z", "2026-01-02T03:04:05.500000+00:00"),
        ("2026-01-02T03:04:05.123456789+02:00", "2026-01-02T03:04:05.123456+02:00"),
        ("2026-01-02T03:04:05-05:30", "2026-01-02T03:04:05-05:30"),
    ],
)
def test_times_of_rfc_3339(text, expected):
    assert parse_time(text).isoformat() == expected


@pytest.mark.parametrize("time", ["yesterday", "2026-02-30T00:00:00Z", 17, None])
def test_an_event_with_another_time_has_none(time):
    assert inboxd.Event({"id": "A", "time": time}).time is None


def test_another_time_is_an_error():
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time("yesterday")


def test_the_trace():
    trace = inboxd.Event(EVENT).trace
    assert trace.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace.sampled
    assert trace.headers() == {name: EVENT[name] for name in ("traceparent", "tracestate")}
    child = trace.child()
    assert child.trace_id == trace.trace_id
    assert child.parent_id != trace.parent_id


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00-abc-def-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    ],
)
def test_a_trace_that_is_not_valid_is_none(text):
    assert inboxd.TraceContext.parse(text) is None


def test_headers_keep_their_order(sidecar, start):
    seen = []
    start(lambda delivery: seen.append((delivery.headers, delivery.header("a"), delivery.header("x"))))
    sidecar.accept()
    sidecar.deliver(1, headers=[["a", "1"], ["b", None], ["a", {"base64": "/w=="}]])
    assert sidecar.answer() == {"status": "done"}
    assert seen == [([("a", "1"), ("b", None), ("a", b"\xff")], b"\xff", None)]


def test_the_delivery(sidecar, start):
    seen = []
    start(seen.append)
    sidecar.accept()
    sidecar.deliver(
        1,
        delivery={
            "attempt": 3,
            "replay": True,
            "seq": "9223372036854775807",
            "deadline": "2026-01-02T03:04:05Z",
            "consumer": "search",
        },
    )
    sidecar.answer()
    delivery = seen[0]
    assert (delivery.claim, delivery.seq, delivery.attempt, delivery.max_attempts) == ("1.1.17", 9223372036854775807, 3, 10)
    assert delivery.replay
    assert delivery.deadline.year == 2026
    assert delivery.consumer == "search"
    assert "attempt=3" in repr(delivery)


def test_the_type_of_the_cloudevents_package():
    pytest.importorskip("cloudevents")
    event = inboxd.Event(EVENT).to_cloudevent()
    attributes = event.get_attributes()
    assert (attributes["id"], attributes["source"], attributes["type"]) == ("A1", "urn:shop", "order.created")
    assert event.get_data() == {"order": 17}
