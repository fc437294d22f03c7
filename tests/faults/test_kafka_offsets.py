"""The group's offsets and the start of the log change under load: the table decides, and deleted records are reported.
"""

import pytest

from armed import Armed
from support.wait import eventually
from whole import log_events


@pytest.fixture
def one(fleet):
    return fleet.add()


def kill_under_load(fleet, one):
    """Kills it with messages that are read, stored, open and settled; 600 more wait in Kafka."""
    fleet.produce_in_background()
    fleet.wait_for_progress(300)
    one.kill()
    fleet.enough()
    fleet.produce(600)


def is_quiet(one):
    return not log_events(one.sidecar, "offset_gap") + log_events(one.sidecar, "topic_recreated")


@pytest.mark.parametrize("where", ["back", "forward"])
def test_offsets_changed_between_two_runs_lose_nothing(fleet, one, streams, topic, group, where):
    """Back to the start of the log or forward to its end: the table decides."""
    kill_under_load(fleet, one)
    moved = streams.log_start(topic) if where == "back" else streams.log_end(topic)
    streams.set_committed(group, topic, moved)
    one.start()
    fleet.produce(100)
    fleet.assert_clean()
    eventually(lambda: streams.lag(group, topic) == 0)
    assert is_quiet(one)


@pytest.mark.parametrize("policy", ["earliest", "latest", "error"])
def test_a_deleted_or_expired_group_loses_nothing(fleet, topic, streams, group, policy):
    """The table has a watermark for each partition, so the reset policy is not used."""
    one = fleet.add()
    kill_under_load(fleet, one)
    streams.delete_group(group)
    one.sidecar.write_configuration({"kafka": {"auto.offset.reset": policy}})
    one.start()
    fleet.produce(100)
    fleet.assert_clean()
    eventually(lambda: streams.lag(group, topic) == 0)
    assert is_quiet(one)


def test_a_start_without_any_offset_is_refused_if_configured(make_inboxd, streams, topic):
    streams.events(topic, ["a"])
    sidecar = make_inboxd(kafka={"auto.offset.reset": "error"}).start(ready=False)
    assert sidecar.wait(30) == 4
    assert topic in sidecar.stderr.splitlines()[-1] and "inbox.seek()" in sidecar.stderr


def assert_gaps(one, topic, gaps):
    """{partition: (from, to)}: each is named once, as an error, and counted."""
    said = {}
    for line in log_events(one.sidecar, "offset_gap"):
        words = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
        assert (words["topic"], words["level"]) == (topic, "error")
        assert int(words["count"]) == int(words["to"]) - int(words["from"])
        assert int(words["partition"]) not in said, f"said twice: {line}"
        said[int(words["partition"])] = int(words["from"]), int(words["to"])
    assert said == gaps
    assert one.sidecar.metric("inboxd_offset_gaps_total", topic=topic) == len(gaps)


def delete_unread(fleet, streams, topic, up_to):
    """Makes Kafka delete the records between the watermarks and `up_to`; returns the expected gaps."""
    gaps = {}
    for (_, partition), first in fleet.inbox.offsets().items():
        if first < up_to[partition]:
            gaps[partition] = first, up_to[partition]
            streams.delete_records(topic, partition, up_to[partition])
            fleet.ledger.give_up(partition, first, up_to[partition])
    return gaps


def test_records_deleted_before_a_start_are_reported(fleet, one, streams, topic):
    fleet.produce(200)
    fleet.wait_done()
    one.stop()
    fleet.produce(400)
    ends = streams.log_end(topic)
    fleet.begin_again()
    fleet.produce(400)
    gaps = delete_unread(fleet, streams, topic, ends)
    one.start()
    fleet.assert_clean()
    assert_gaps(one, topic, gaps)
    one.stop()
    one.start()  # and is not logged again
    fleet.produce(50)
    fleet.assert_clean()
    assert len(log_events(one.sidecar, "offset_gap")) == len(gaps)
    assert not log_events(one.sidecar, "topic_recreated")


def test_records_deleted_during_a_database_outage_are_reported(fleet, one, postgres, streams, topic):
    """The same without a restart: reading resumes, and its offset no longer exists."""
    fleet.produce(200)
    fleet.wait_done()
    first = fleet.inbox.offsets()
    postgres.stop()
    # Otherwise new records could be in the batch that detects the outage, and would not be lost.
    eventually(lambda: log_events(one.sidecar, "database_lost"))
    fleet.produce(400)
    ends = streams.log_end(topic)
    fleet.begin_again()
    fleet.produce(400)
    for partition, end in ends.items():
        streams.delete_records(topic, partition, end)
    postgres.start()
    eventually(lambda: len(log_events(one.sidecar, "offset_gap")) == len(ends), 40)
    for (_, partition), offset in first.items():
        fleet.ledger.give_up(partition, offset, ends[partition])
    fleet.assert_clean()
    assert_gaps(one, topic, {number: (first[topic, number], end) for number, end in ends.items()})
    assert not log_events(one.sidecar, "topic_recreated")


def test_a_partition_that_is_not_started_is_logged_and_read_when_it_is(make_inboxd, streams, topic, inbox):
    sidecar = make_inboxd()
    armed = Armed(sidecar)
    armed.arm("error_not_started error *")
    sidecar.start()
    streams.events(topic, ["a"])
    lines = eventually(lambda: log_events(sidecar, "partition_not_started"), timeout=30)
    assert "for_ms=10" in lines[0] and "next=" in lines[0]
    assert inbox.count() == 0
    armed.arm()
    inbox.wait_stored(1)
    assert len(log_events(sidecar, "partition_not_started")) == 4, "one line for each partition, and the next one after a minute"
