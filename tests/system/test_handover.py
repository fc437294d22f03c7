"""Several sidecars of one group: partitions get new owners; the order is kept and no message is lost."""

import signal

import pytest

from support.fixtures import KAFKA_4
from support.librdkafka import CONSUMER_PROTOCOL, later_librdkafka
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


STATIC = {"kafka": {"group.instance.id": "billing-0", "session.timeout.ms": 45000}}


def test_a_static_member_is_back_soon_after_kill_9(start_inboxd, handler, produce, topic, inbox):
    """The group knows it again, and does not wait until the session of the killed member ends."""
    sidecar = start_inboxd(STATIC)
    handler(sidecar, always(DONE))
    send(produce, topic, "a", "k")
    inbox.wait_processed(1)
    sidecar.kill()
    sidecar.start(ready=False)
    send(produce, topic, "b", "k")
    inbox.wait_stored(2, timeout=30)


def client_ended(sidecar):
    return [line for line in sidecar.stderr.splitlines() if "event=kafka_client_ended" in line]


@pytest.mark.parametrize("kafka, code", [
    ({"session.timeout.ms": 45000}, "FENCED_INSTANCE_ID"),  # the first one loses it, and gets it again after ten seconds
    pytest.param(CONSUMER_PROTOCOL, "UNRELEASED_INSTANCE_ID", marks=KAFKA_4),  # the second one does not get it
], ids=["classic", "consumer"])
def test_a_sidecar_whose_group_instance_id_another_one_has_says_so_and_runs_on(make_inboxd, group, kafka, code):
    kafka = {**kafka, "group.instance.id": "billing-0"}
    both = [make_inboxd(kafka=kafka, env=later_librdkafka(), inbox={"instance": name}) for name in ("first", "second")]
    both[0].start()
    both[1].start(ready=False)
    without, other = both if code == "FENCED_INSTANCE_ID" else both[::-1]
    line = eventually(lambda: client_ended(without), timeout=40)[0]
    assert f"code={code}" in line and "a new client joins the group in 10 s" in line
    assert f'kafka.group.instance.id \\"billing-0\\" is in use by another member of the group \\"{group}\\"' in line
    assert f'the sidecar \\"{other.configuration["inbox"]["instance"]}\\": give each sidecar an id of its own' in line
    assert len(client_ended(without)) == 1
    eventually(lambda: without.stderr.count("event=started") == 2, timeout=40)
    assert without.is_running() and other.is_running() and not client_ended(other)


@KAFKA_4
def test_an_error_that_ends_the_client_names_the_setting(make_inboxd):
    sidecar = make_inboxd(kafka={**CONSUMER_PROTOCOL, "group.remote.assignor": "sticky"}, env=later_librdkafka()).start(ready=False)
    line = eventually(lambda: client_ended(sidecar))[0]
    assert "code=UNSUPPORTED_ASSIGNOR" in line and "kafka.group.remote.assignor (see their group.consumer.assignors" in line
    eventually(lambda: sidecar.stderr.count("event=started") == 2)


@KAFKA_4
@pytest.mark.slow
def test_with_the_consumer_protocol_a_killed_static_member_waits_for_its_session_and_does_not_end(
        start_inboxd, handler, produce, topic, inbox):
    """KIP-848: the brokers refuse the new member until the session of the killed one has ended (6 s), and it tries every ten seconds."""
    sidecar = start_inboxd(kafka={**CONSUMER_PROTOCOL, "group.instance.id": "billing-0"}, env=later_librdkafka())
    send(produce, topic, "a", "k")
    inbox.wait_stored(1)
    sidecar.kill()
    sidecar.start(ready=False)
    send(produce, topic, "b", "k")
    line = eventually(lambda: client_ended(sidecar), timeout=40)[0]
    pid = sidecar.pid
    inbox.wait_stored(2, timeout=100)
    assert sidecar.pid == pid and sidecar.is_running()
    assert "code=UNRELEASED_INSTANCE_ID" in line and "No other running sidecar is known to have it" in line
    assert "group.consumer.session.timeout.ms" in line
