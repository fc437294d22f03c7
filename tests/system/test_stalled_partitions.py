"""A partition that stands still at an offset that cannot be fetched is reported, and both ways out work."""

import json

import pytest
from confluent_kafka import Producer

from support.wait import eventually

SMALL = {"receive.message.max.bytes": 1000000, "fetch.max.bytes": 900000, "message.max.bytes": 900000}
LARGE = {"receive.message.max.bytes": 50000000}


@pytest.fixture
def topic(make_topic):
    return make_topic(2)


@pytest.fixture(params=["zstd", "none"])
def stalled(request, start_inboxd, kafka_server, topic, inbox):
    """A batch that grows beyond the limit, or a record above it, at offset 1 of partition 0."""
    sidecar = start_inboxd(kafka=SMALL)
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap, "compression.type": request.param, "linger.ms": 0,
                         "message.max.bytes": 30000000})
    for event_id, size in [("a", 2), ("large", 6000000), ("b", 2)]:
        producer.produce(topic, b"0" * size, headers=[("id", event_id)], partition=0)
        assert producer.flush(30) == 0
    eventually(lambda: "event=partition_stalled" in sidecar.stderr, 60)
    return sidecar


def is_reported(sidecar, topic):
    line = next(line for line in sidecar.stderr.splitlines() if "event=partition_stalled" in line)
    assert f"topic={topic} partition=0 offset=1 log_ends=3" in line and "receive.message.max.bytes" in line
    assert "none is reported" not in line
    status, _, body = sidecar.get("/readyz")
    reasons = json.loads(body).get("reasons", [])
    return status == 503 and [reason["check"] for reason in reasons] == ["progress"] \
        and sidecar.metric("inboxd_partitions_stalled") == 1


def continues(sidecar, inbox, ids):
    eventually(lambda: {row["event_id"] for row in inbox.messages()} == ids, 60)
    eventually(lambda: sidecar.get("/readyz")[0] == 200 and sidecar.metric("inboxd_partitions_stalled") == 0)


def test_a_batch_that_cannot_be_fetched_is_reported_and_can_be_skipped(stalled, topic, inbox):
    eventually(lambda: is_reported(stalled, topic))
    done = stalled.command("seek", topic, "0", "2", "--yes")
    assert done.returncode == 0, done.stderr
    continues(stalled, inbox, {"a", "b"})
    assert "event=partition_continues" in stalled.stderr


@pytest.mark.parametrize("stalled", ["zstd"], indirect=True)
def test_a_larger_limit_reads_the_batch(stalled, inbox):
    assert stalled.stop() == 0
    stalled.write_configuration({"kafka": LARGE})
    stalled.start()
    continues(stalled, inbox, {"a", "large", "b"})
