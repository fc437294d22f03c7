"""A partition that stands still at an offset that cannot be fetched is reported, and both ways out work. So is one that waits for
the end of a transaction."""

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


def opened(kafka_server, topic):
    """A transaction with a record in partition 0 that nobody ends, as of a producer that hangs."""
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap, "transactional.id": f"open-{topic}",
                         "transaction.timeout.ms": 300000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=0, headers=[("id", "open")])
    assert producer.flush(30) == 0
    return producer


def waits_for_a_transaction(sidecar):
    return sidecar.metric("inboxd_open_transaction_seconds") > 0


def test_a_partition_that_waits_for_a_transaction_is_shown(start_inboxd, kafka_server, streams, topic, inbox):
    sidecar = start_inboxd()
    producer = opened(kafka_server, topic)
    eventually(lambda: waits_for_a_transaction(sidecar), 60)
    streams.produce(topic, b"{}", partition=1, headers={"id": "other"})
    eventually(lambda: {row["event_id"] for row in inbox.messages()} == {"other"}, 60)
    assert sidecar.metric("inboxd_partitions_stalled") == 0 and sidecar.get("/readyz")[0] == 200
    producer.commit_transaction(30)
    eventually(lambda: not waits_for_a_transaction(sidecar), 60)
    eventually(lambda: {row["event_id"] for row in inbox.messages()} == {"open", "other"}, 60)


@pytest.mark.slow
def test_a_long_transaction_is_logged(start_inboxd, kafka_server, topic):
    sidecar = start_inboxd()
    producer = opened(kafka_server, topic)
    eventually(lambda: f"event=transaction_open topic={topic} partition=0 offset=0 log_ends=1" in sidecar.stderr, 120)
    producer.abort_transaction(30)
    eventually(lambda: f"event=transaction_ended topic={topic} partition=0" in sidecar.stderr, 60)
