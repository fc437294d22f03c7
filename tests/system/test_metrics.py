"""The numbers of /metrics are true."""

from support.wait import eventually


def test_the_lag_of_a_paused_partition_grows(start_inboxd, streams, make_topic, inbox):
    topic = make_topic(partitions=1)
    sidecar = start_inboxd(kafka={"topics": [topic]}, ingest={"max_pending": 10, "batch_messages": 10})
    streams.events(topic, [f"e{number}" for number in range(1000)])
    eventually(lambda: sidecar.metric("inboxd_partitions_paused") == 1)
    eventually(lambda: 0 < sidecar.metric("inboxd_kafka_lag", topic=topic) < 1000, timeout=40)
    streams.events(topic, [f"f{number}" for number in range(5000)])
    stored = inbox.count()
    eventually(lambda: sidecar.metric("inboxd_kafka_lag", topic=topic) > 5000, timeout=40)
    assert sidecar.metric("inboxd_kafka_lag", topic=topic) <= 6000 - stored
