"""The order of messages: by key, by partition, or none."""

import itertools
import threading

from support.scripts import always, by_id, DONE
from support.wait import eventually
from support.wire import NEVER, retry


KEYS = [f"k{number}" for number in range(12)]


def ids_of(key, count):
    return [f"{key}-{number:03d}" for number in range(count)]


def delivered(client, key):
    """Event ids of one key in the order they came, attempts in a row counted once."""
    ids = [delivery.event_id for delivery in client.deliveries
           if delivery.event.get("partitionkey") == key]
    return [event_id for event_id, _ in itertools.groupby(ids)]


def produce_interleaved(streams, topic, count):
    streams.produce_many(topic, [{"value": b"{}", "key": key, "headers": [("id", event_id)]}
                                 for row in zip(*(ids_of(key, count) for key in KEYS))
                                 for key, event_id in zip(KEYS, row)])


def fails_sometimes():
    """Every third message fails twice before it succeeds."""
    lock, seen = threading.Lock(), {}

    def decide(delivery):
        event_id = delivery.event_id
        with lock:
            seen[event_id] = seen.get(event_id, 0) + 1
            return retry() if int(event_id[-3:]) % 3 == 0 and seen[event_id] < 3 else DONE

    return decide


def test_messages_of_a_key_are_handled_in_order_also_across_retries(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, fails_sometimes())
    produce_interleaved(streams, topic, 20)
    inbox.wait_processed(20 * len(KEYS))
    for key in KEYS:
        assert delivered(client, key) == ids_of(key, 20)


def test_messages_of_a_key_are_handled_one_at_a_time(inboxd, handler, streams, topic):
    client = handler(inboxd, always(NEVER))
    produce_interleaved(streams, topic, 5)
    eventually(lambda: len(client.deliveries) >= len(KEYS))
    open_keys = [delivery.event["partitionkey"] for delivery in client.deliveries]
    assert sorted(open_keys) == sorted(KEYS)


def test_order_holds_across_a_restart_in_the_middle(inboxd, handler, streams, topic, inbox):
    first = handler(inboxd, fails_sometimes())
    produce_interleaved(streams, topic, 30)
    eventually(lambda: len(first.deliveries) > 60)
    inboxd.restart()
    second = handler(inboxd, fails_sometimes())
    inbox.wait_processed(30 * len(KEYS))
    for key in KEYS:
        seen = delivered(second, key)
        assert seen == sorted(seen)
        assert seen[-1:] in ([], ids_of(key, 30)[-1:])


def test_a_failing_key_stops_no_other_key(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, by_id({"k0-000": retry(delay_ms=3_600_000)}))
    produce_interleaved(streams, topic, 10)
    inbox.wait_processed(10 * (len(KEYS) - 1))
    assert delivered(client, "k0") == ["k0-000"]
    eventually(lambda: {inbox.message(event_id)["status"] for event_id in ids_of("k0", 10)[1:]} <= {"parked", "waiting"})


def test_a_key_continues_after_its_head_is_dead(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    client = handler(sidecar, by_id({"k0-000": retry()}))
    produce_interleaved(streams, topic, 5)
    eventually(lambda: inbox.count("processed") == 5 * len(KEYS) - 1)
    assert inbox.message("k0-000")["status"] == "dead"
    assert delivered(client, "k0") == ids_of("k0", 5)


def test_messages_without_a_key_wait_for_nothing(inboxd, handler, produce, topic, inbox):
    handler(inboxd, by_id({"head": retry(delay_ms=3_600_000)}))
    for event_id in ("head", "a", "b"):
        produce(topic, b"{}", headers={"id": event_id}, partition=0)
    inbox.wait_processed(2)


def test_an_empty_key_is_a_key(inboxd, handler, produce, topic, inbox):
    handler(inboxd, by_id({"head": retry(delay_ms=3_600_000)}))
    for event_id in ("head", "behind"):
        produce(topic, b"{}", key=b"", headers={"id": event_id}, partition=0)
    produce(topic, b"{}", headers={"id": "free"}, partition=0)
    inbox.wait_processed(1)
    assert inbox.message("free")["status"] == "processed"
    eventually(lambda: inbox.message("behind")["status"] in ("parked", "waiting"))


def test_with_ordering_partition_a_failing_head_blocks_its_partition(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(inbox={"ordering": "partition"})
    client = handler(sidecar, by_id({"p0-a": retry(delay_ms=3_600_000)}))
    for partition, letter in itertools.product(range(2), "abc"):
        produce(topic, b"{}", key=letter, headers={"id": f"p{partition}-{letter}"},
                partition=partition)
    inbox.wait_processed(3)
    assert [row["event_id"] for row in inbox.messages() if row["status"] == "processed"] == \
        ["p1-a", "p1-b", "p1-c"]
    assert {delivery.event_id for delivery in client.deliveries
            if delivery.event_id.startswith("p0")} == {"p0-a"}


def test_with_ordering_none_nothing_waits(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(inbox={"ordering": "none"})
    handler(sidecar, by_id({"head": retry(delay_ms=3_600_000)}))
    for event_id in ("head", "a", "b"):
        produce(topic, b"{}", key="same", headers={"id": event_id}, partition=0)
    inbox.wait_processed(2)
    inbox.wait_status("head", "retrying")


def test_order_holds_when_memory_overflows(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 20, "max_in_flight": 10},
                           worker={"claim_batch": 10})
    client = handler(sidecar, fails_sometimes())
    produce_interleaved(streams, topic, 30)
    inbox.wait_processed(30 * len(KEYS))
    for key in KEYS:
        assert delivered(client, key) == ids_of(key, 30)


def test_two_sidecars_share_the_partitions_and_keep_order(start_inboxd, handler, streams, topic, inbox):
    first, second = start_inboxd(), start_inboxd(inbox={"instance": "second"})
    clients = [handler(sidecar, fails_sometimes()) for sidecar in (first, second)]
    eventually(lambda: [row["count"] for row in inbox.query(
        "SELECT count(*) FROM inbox.inbox_offsets WHERE owner IS NOT NULL GROUP BY owner")] == [2, 2],
        what="both sidecars to own half of the partitions")
    produce_interleaved(streams, topic, 20)
    inbox.wait_processed(20 * len(KEYS))
    for key in KEYS:
        owners = [client for client in clients if delivered(client, key)]
        assert len(owners) == 1
        assert delivered(owners[0], key) == ids_of(key, 20)
