"""Many partitions in one instance: they are acquired, read, and acquired again after a kill, within its memory."""

import time

import pytest

from fleet import Fleet
from support.wait import eventually
from whole import log_events

MIB = 1 << 20
OF_ITS_OWN = 32 * MIB        # libraries, buffers, what is claimed
A_PARTITION = 16 << 10       # in librdkafka and here


@pytest.mark.timeout(600)
def test_many_partitions_are_acquired_and_read(make_inboxd, inbox, streams, make_topic, group, long_run,
                                               record_property):
    count = 1000 if long_run else 300
    topic = make_topic(count)
    fleet = Fleet(make_inboxd, inbox, streams, topic, group, partitions=count)
    one = fleet.add(kafka={"topics": [topic]}, start=False)
    sidecar = one.sidecar

    def all_flow():
        return sidecar.metric("inboxd_partitions_paused") == 0 \
            and len(inbox.offsets()) == count and one.sidecar.get("/readyz")[0] == 200

    for life in ("first", "second"):
        began = time.monotonic()
        one.start()
        eventually(all_flow, 120, "all partitions to flow")
        record_property(f"seconds until all flow, {life} life", round(time.monotonic() - began, 1))
        seen = fleet.ledger.count
        fleet.produce(2 * count)
        eventually(lambda: fleet.ledger.count >= seen + count, what="half of them to be delivered")
        one.kill()
    one.start()
    fleet.assert_clean()
    record_property("MiB", round(sidecar.peak_memory() / MIB, 1))
    assert sidecar.peak_memory() < OF_ITS_OWN + count * A_PARTITION
    assert not log_events(sidecar, "topic_recreated") + log_events(sidecar, "offset_gap")
    fleet.close()
