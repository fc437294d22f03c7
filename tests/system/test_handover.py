"""Several sidecars of one group: partitions get new owners; the order is kept and no message is lost."""

import signal

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, retry


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


def send(produce, topic, event_id, key):
    produce(topic, b"{}", key=key, partition=0, headers=[("id", event_id)])


def hold_open(event_id):
    return lambda delivery: NEVER if delivery.event_id == event_id else DONE


@pytest.fixture
def handed_over(start_inboxd, handler, produce, topic, inbox):
    """The first sidecar holds k1 open and stops; the second has the partition and gets k2 and other."""
    def hand_over(**options):
        options = {**options, "inbox": {"shutdown_timeout": "60s", **options.get("inbox", {})}}  # longer than the test needs
        first = start_inboxd(options)
        old = handler(first, hold_open("k1"), timeout_ms=60000)
        send(produce, topic, "k1", "k")
        old.wait_event("k1")
        second = start_inboxd(options, inbox={**options["inbox"], "instance": "second"})
        new = handler(second, always(DONE))
        first.signal(signal.SIGTERM)
        for event_id, key in (("k2", "k"), ("other", "o"), ("k3", "k")):
            send(produce, topic, event_id, key)
        return first, old, second, new

    return hand_over


def test_the_new_owner_waits_for_a_key_that_the_old_owner_still_processes(handed_over, inbox):
    first, old, second, new = handed_over()
    new.wait_event("other")
    inbox.wait_stored(4)
    throughout(lambda: new.event_ids == ["other"], seconds=1.5)
    old.answer(old.deliveries[0], DONE)
    inbox.wait_processed(4)
    assert new.event_ids == ["other", "k2", "k3"]
    assert first.wait() == 0


def test_a_message_returned_by_the_old_owner_comes_before_later_ones(handed_over, inbox):
    first, old, second, new = handed_over()
    new.wait_event("other")
    inbox.wait_stored(4)
    old.answer(old.deliveries[0], retry(delay_ms=1500))
    inbox.wait_processed(4)
    assert new.event_ids == ["other", "k1", "k2", "k3"]
    assert first.wait() == 0


def test_the_new_owner_waits_for_a_killed_owner_only_until_its_lease_ends(handed_over, inbox):
    first, old, second, new = handed_over()
    new.wait_event("other")
    first.kill()
    inbox.wait_processed(4, timeout=40)
    assert new.event_ids == ["other", "k1", "k2", "k3"]


def test_with_partition_order_the_whole_partition_waits(handed_over, inbox):
    first, old, second, new = handed_over(inbox={"ordering": "partition"})
    inbox.wait_stored(4)
    throughout(lambda: not new.event_ids, seconds=1.5)
    old.answer(old.deliveries[0], DONE)
    inbox.wait_processed(4)
    assert new.event_ids == ["k2", "other", "k3"]
    assert first.wait() == 0


def test_without_order_nothing_waits(handed_over, inbox):
    first, old, second, new = handed_over(inbox={"ordering": "none"})
    eventually(lambda: sorted(new.event_ids) == ["k2", "k3", "other"])
    old.answer(old.deliveries[0], DONE)
    inbox.wait_processed(4)
    assert first.wait() == 0


def test_a_partition_with_a_locked_row_does_not_delay_others(start_inboxd, handler, streams, make_topic, inbox,
                                                             configuration):
    many = make_topic(partitions=2)
    first = start_inboxd(kafka={"topics": [many]})
    client = handler(first, always(DONE))
    streams.events(many, [f"a{number}" for number in range(40)], key=lambda event_id: event_id)
    inbox.wait_processed(40)
    first.stop()
    locker = inbox.connect()
    locker.execute("SELECT 1 FROM inbox.inbox_offsets WHERE kafka_partition = 0 FOR UPDATE")
    first.start()
    client = handler(first, always(DONE))
    streams.events(many, [f"b{number}" for number in range(40)], key=lambda event_id: event_id)
    eventually(lambda: client.deliveries)
    assert {delivery.partition for delivery in client.deliveries} == {1}
    locker.rollback()
    locker.close()
    inbox.wait_processed(80)
