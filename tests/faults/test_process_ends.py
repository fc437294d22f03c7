"""Rules for processes that die, stop or hang."""

import contextlib
import signal
import time

import pytest

from armed import Armed
from support.proxy import Proxy
from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import NEVER

SHUTDOWN_S = 3


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


def heartbeats(inbox, name):
    return inbox.value("SELECT max(heartbeat_at) FROM inbox.inbox_instances WHERE name = %s", [name])


def test_after_a_database_outage_no_instance_is_fenced(start_inboxd, postgres, inbox):
    """R4: after an outage every heartbeat is late. An instance may fence others only if its own was on time for a whole
    lease."""
    start_inboxd(inbox={"instance": "one"}, worker={"lease": "4s"})
    two = start_inboxd(inbox={"instance": "two"}, worker={"lease": "4s"})
    before = heartbeats(inbox, "one")
    eventually(lambda: heartbeats(inbox, "one") > before)
    inbox.close()
    postgres.stop()
    two.signal(signal.SIGSTOP)  # so that it is late for certain
    time.sleep(5)
    postgres.start()
    before = heartbeats(inbox, "one")
    eventually(lambda: heartbeats(inbox, "one") > before)
    throughout(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_instances"
                                   " WHERE fenced_at IS NOT NULL") == 0, seconds=2.5)
    two.signal(signal.SIGCONT)
    before = heartbeats(inbox, "two")
    eventually(lambda: heartbeats(inbox, "two") > before)


def test_a_transaction_that_outlives_its_sidecar_blocks_its_key(inboxd, handler, produce, topic, inbox):
    """R8 and R12: the handler of k1 works in its own transaction while its sidecar is killed and another one starts.
    Messages behind k1 wait for the transaction, other keys do not."""
    def send(event_id, key):
        produce(topic, b"{}", key=key, headers=[("id", event_id)])

    first = handler(inboxd, by_id({"k1": NEVER}))
    send("k1", "k")
    claim = first.wait_event("k1").claim
    send("k2", "k")
    inbox.wait_stored(2)
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT inbox.complete(%s)", [claim])
        for life in range(2):
            inboxd.kill()
            inboxd.start()
            client = handler(inboxd, always(DONE))
            send(f"k{3 + life}", "k")
            send(f"o{life}", "o")
            client.wait_event(f"o{life}")
            throughout(lambda: set(client.event_ids) <= {"o0", "o1"}, seconds=2)
        own.commit()
    inbox.wait_processed(6)
    assert [event_id for event_id in client.event_ids if event_id[0] == "k"] == ["k2", "k3", "k4"]


@pytest.mark.parametrize("point", ["before_last_offset_commit", "before_leave_group", "before_settle",
                                   "before_heartbeat", "before_deregister"])
def test_a_stop_ends_in_time_although_a_call_hangs(make_inboxd, handler, streams, topic, inbox, point):
    """R20, G9: a call of librdkafka or of libpq. Unsettled rows are returned after the lease."""
    one = Armed(make_inboxd(inbox={"shutdown_timeout": f"{SHUTDOWN_S}s"}))
    one.sidecar.start()
    client = handler(one.sidecar, always(NEVER))
    streams.events(topic, ["a"])
    delivery = client.wait_count(1)[0]
    one.arm(f"{point} delay:60000")
    if point == "before_heartbeat":
        one.wait_hit(point)
    began = time.monotonic()
    one.sidecar.signal(signal.SIGTERM)
    client.answer(delivery, DONE)
    one.sidecar.wait(40)
    assert time.monotonic() - began < SHUTDOWN_S + 3.5
    assert one.hits(point) == 1


def test_a_stop_ends_in_time_although_the_database_does_not_answer(start_inboxd, handler, streams, topic, inbox,
                                                                   postgres):
    with Proxy(postgres.port) as proxy:
        sidecar = start_inboxd(inbox={"shutdown_timeout": f"{SHUTDOWN_S}s"}, postgres={"port": proxy.port})
        client = handler(sidecar, always(NEVER))
        streams.events(topic, ["a"])
        client.wait_count(1)
        proxy.blackhole()
        began = time.monotonic()
        sidecar.stop()
        assert time.monotonic() - began < SHUTDOWN_S + 3.5
