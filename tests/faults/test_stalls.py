"""A loop that was delayed does not blame others for its own delay."""

import os
import signal
import time

import pytest

from armed import Armed
from support.proxy import Proxy
from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER


def test_an_answer_in_time_counts_although_it_is_read_late(make_inboxd, handler, streams, topic, inbox):
    """The loop is delayed until after the deadline; the answer was in the socket before."""
    sidecar = make_inboxd(worker={"lease": "15s"})
    faults = os.path.join(sidecar.directory, "faults")
    sidecar.env["INBOXD_FAULTPOINTS"] = faults
    client = handler(sidecar.start(), always(NEVER), timeout_ms=1500)
    streams.events(topic, ["a"])
    delivery = client.wait_count(1)[0]
    with open(faults, "w", encoding="utf-8") as file:
        file.write("before_tick delay:3000\n")
    eventually(lambda: os.path.exists(faults + ".hits"), every=0.005)
    client.answer(delivery, DONE)
    row = inbox.wait_status("a", "processed")
    assert (row["retry_count"], client.count) == (0, 1)


def test_a_heartbeat_answered_after_the_lease_ends_deliveries(make_inboxd, handler, streams, topic, inbox,
                                                              postgres_server):
    """The network stalls after a heartbeat; when it resumes, another instance has acquired the partitions and finished."""
    names = [f"e{number}" for number in range(8)]
    with Proxy(postgres_server.port) as proxy:
        stalled = make_inboxd(postgres={"port": proxy.port, "prepare": "never"}, inbox={"ordering": "none"}).start()
        client = handler(stalled, always(NEVER), timeout_ms=60000, max_in_flight=1)
        streams.events(topic, names)
        eventually(lambda: inbox.count("claimed") == len(names))
        delivery = client.wait_count(1)[0]
        other = make_inboxd(inbox={"ordering": "none"}).start()
        handler(other, always(DONE))
        proxy.stall_after(b"SET heartbeat_at")  # a prepared one would not show its text
        eventually(lambda: proxy.is_stalled)
        inbox.wait_processed(len(names))
        before = client.count
        client.answer(delivery, DONE)
        proxy.slow_down(1e9, 0.5)  # the answer arrives alone, before the end of the session
        proxy.heal()
        eventually(lambda: "event=fenced" in stalled.stderr, what="the next heartbeat")
        proxy.slow_down(1e9, 0)
        eventually(lambda: stalled.stderr.count("event=started") == 2, what="another life")
        assert client.count == before, "delivered after its lease was over"


NO_HEARTBEAT = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'no heartbeat now'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE OF heartbeat_at ON inbox.inbox_instances
FOR EACH ROW EXECUTE FUNCTION public.refuse()"""


def test_a_suspect_is_not_delivered_without_a_lease(make_inboxd, handler, produce, topic, inbox, db):
    """Its connection becomes idle while there is no lease. The group is not left yet, because ingest is delayed."""
    sidecar = make_inboxd()
    faults = os.path.join(sidecar.directory, "faults")
    sidecar.env["INBOXD_FAULTPOINTS"] = faults
    lost = handler(sidecar.start(), always(NEVER))
    produce(topic, b"{}", key="b", headers=[("id", "b")])
    lost.wait_event("b")
    stays = handler(sidecar, lambda delivery: NEVER if delivery.event_id == "other" else DONE)
    produce(topic, b"{}", key="other", headers=[("id", "other")])
    stays.wait_event("other")
    lost.abort()
    eventually(lambda: inbox.message("b")["delivery_count"] == 2)
    with open(faults, "w", encoding="utf-8") as file:
        file.write("before_release delay:6000\n")
    db.execute(NO_HEARTBEAT)
    eventually(lambda: os.path.exists(faults + ".hits"), what="it to leave the group for want of a lease")
    stays.answer(stays.of("other")[0], DONE)
    inbox.wait_status("other", "processed")
    throughout(lambda: stays.event_ids == ["other"], 2)
    assert inbox.message("b")["crash_count"] == 0
    db.execute("DROP TRIGGER refuse ON inbox.inbox_instances")
    stays.wait_event("b")


HANGS = {"dispatch": "before_tick", "ingest": "before_insert", "worker": "before_settle"}


@pytest.mark.parametrize("thread", HANGS)
def test_a_thread_that_hangs_ends_the_lease(make_inboxd, handler, streams, topic, inbox, thread):
    """R6: the heartbeat alone must not keep what the thread holds."""
    one = Armed(make_inboxd())
    client = handler(one.sidecar.start(), always(NEVER))
    streams.events(topic, ["a", "b", "c"])
    client.wait_count(3)
    handler(make_inboxd().start(), always(DONE))
    one.arm(f"{HANGS[thread]} hold *")
    if thread == "ingest":
        streams.events(topic, [f"d{number}" for number in range(40)])
    elif thread == "worker":
        client.answer(client.deliveries[0], DONE)
    inbox.wait_processed(43 if thread == "ingest" else 3, timeout=30)
    assert one.sidecar.wait() == 70, "the thread has not come back"
    assert f"event=thread_hangs thread={thread}" in one.sidecar.stderr


def test_a_thread_that_comes_back_finds_its_instance_fenced(make_inboxd, handler, streams, topic, inbox):
    """The process goes on as a new instance, and the delivery of the old one is void."""
    one = Armed(make_inboxd())
    client = handler(one.sidecar.start(), always(NEVER))
    streams.events(topic, ["a"])
    client.wait_count(1)
    one.arm("before_tick hold *")
    eventually(lambda: "event=thread_hangs" in one.sidecar.stderr, every=0.01)
    one.arm()
    eventually(lambda: one.sidecar.stderr.count("event=started") == 2)
    assert [cancel["reason"] for cancel in client.cancels] == ["lease_lost"]
    other = handler(one.sidecar, always(DONE))
    row = inbox.wait_status("a", "processed")
    assert (other.count, row["delivery_count"], row["retry_count"]) == (1, 2, 0)


def test_a_process_that_was_stopped_has_no_thread_that_hangs(make_inboxd):
    sidecar = make_inboxd().start()
    sidecar.signal(signal.SIGSTOP)
    time.sleep(5)
    sidecar.signal(signal.SIGCONT)
    throughout(lambda: "event=thread_hangs" not in sidecar.stderr, 2)


def test_a_main_thread_that_hangs_ends_the_process(make_inboxd):
    """Without it neither a signal nor the loss of the lease would have an effect."""
    one = Armed(make_inboxd())
    one.sidecar.start()
    one.arm("before_reload hold *")
    one.sidecar.signal(signal.SIGHUP)
    one.wait_hit("before_reload")
    one.sidecar.signal(signal.SIGTERM)
    assert one.sidecar.wait(20) == 0


def test_a_command_that_does_not_start_delays_no_other(inboxd, bridge, streams, topic, inbox, tmp_path):
    """`inboxd exec`, and a file system that does not respond to execve(2)."""
    faults = tmp_path / "faults"
    faults.write_text("before_exec hold *\n")
    bridge(inboxd, "exec", "--jobs", 3, "--", "true", env={"INBOXD_FAULTPOINTS": str(faults)})
    streams.events(topic, ["a", "b", "c"])
    hits = tmp_path / "faults.hits"
    eventually(lambda: hits.exists() and len(hits.read_text().split()) == 6, 8, what="three starts at a time")
    faults.unlink()
    inbox.wait_processed(3)
