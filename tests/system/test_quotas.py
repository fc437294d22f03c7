"""A quota of the brokers that delays a client is shown by a metric and the log: the delay fails no request."""

from support.outbox import Outbox
from support.wait import eventually

# Seven or more in a window of ten seconds exceed the quota by little, so that the brokers delay a client for few seconds.
BYTES_A_SECOND = 50000


def is_throttled(sidecar, client):
    return sidecar.metric("inboxd_kafka_throttle_seconds_sum", client=client) > 0 \
        and sidecar.stderr.count(f"event=kafka_throttled client={client} broker=") == 1


def test_a_throttled_consumer_and_a_throttled_relay_are_shown(start_inboxd, kafka_server, streams, topic, make_topic, name, inbox):
    kafka_server.set_quota(name, consumer_byte_rate=BYTES_A_SECOND, producer_byte_rate=BYTES_A_SECOND)
    sidecar = start_inboxd(kafka={"client.id": name}, outbox={"enabled": True})
    streams.produce(topic, b"0" * BYTES_A_SECOND * 14, headers={"id": "a"})
    Outbox(inbox).emit(make_topic(1), "a", b"0" * BYTES_A_SECOND * 14)
    for client in ("consumer", "outbox"):
        eventually(lambda: is_throttled(sidecar, client), 60, what=client)
    assert sidecar.get("/readyz")[0] == 200
