"""The consumer group: strategies, protocols, members without a common strategy, a member that is expelled during a commit."""

import pytest

from support.librdkafka import installed_version
from support.wait import eventually, throughout
from test_instances import storm
from whole import log_events

@pytest.mark.long
@pytest.mark.timeout(600)
def test_rebalances_with_roundrobin_lose_nothing(fleet):
    """Cooperative-sticky and range: test_instances.py."""
    storm(fleet, 120, kafka={"partition.assignment.strategy": "roundrobin"})


def test_members_without_a_common_strategy(fleet):
    """The second one logs the reason and is not ready; the first one is not affected."""
    one = fleet.add(kafka={"partition.assignment.strategy": "cooperative-sticky"})
    other = fleet.add(kafka={"partition.assignment.strategy": "range"}, start=False)
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    other.start(ready=False)
    eventually(lambda: "INCONSISTENT_GROUP_PROTOCOL" in other.sidecar.stderr, 30)
    said = next(line for line in other.sidecar.stderr.splitlines() if "INCONSISTENT" in line)
    assert "partition.assignment.strategy" in said, said
    fleet.wait_for_progress(300)
    status, _, reasons = other.sidecar.get("/readyz")
    assert status == 503 and "group" in reasons
    assert not log_events(one.sidecar, "partitions_revoked")
    one.stop()  # when the last member without the strategy has left, it can join
    other.sidecar.wait_ready(60)
    fleet.assert_clean()


def test_a_rolling_change_of_the_strategy(fleet):
    """As Kafka requires: both in the list, then only the new one. This needs two restarts of each, without a pause."""
    steps = ["range", "roundrobin,range", "roundrobin"]
    for _ in range(2):
        fleet.add(kafka={"partition.assignment.strategy": steps[0]})
    fleet.produce_in_background()
    for strategy in steps[1:]:
        for instance in fleet.instances:
            fleet.wait_for_progress(100)
            instance.stop()
            instance.sidecar.write_configuration(
                {"kafka": {"partition.assignment.strategy": strategy}})
            instance.start()
    fleet.assert_clean()
    assert not any("INCONSISTENT" in each.sidecar.stderr for each in fleet.instances)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", [None, 0, 1], ids=["stopped", "kill-new", "kill-old"])
def test_a_rolling_change_of_the_protocol_and_back(fleet, streams, group, killed):
    """One sidecar after the other. While the group has members of both protocols, one of them is killed and starts again."""
    for _ in range(2):
        fleet.add(kafka={"partition.assignment.strategy": "range"})
    fleet.produce_in_background()
    for protocol, strategy in (("consumer", None), ("classic", "range")):
        for instance in fleet.instances:
            fleet.wait_for_progress(200)
            instance.stop()
            fleet.check_offsets()
            instance.use(protocol, strategy)
            instance.start()
            if instance is fleet.instances[0]:
                assert streams.protocol_of(group) == "CONSUMER", "it has members of both"
                kill_and_start(fleet, killed)
        eventually(lambda: streams.protocol_of(group) == protocol.upper(), 40)
    fleet.assert_clean()


def test_members_with_cooperative_sticky_are_stopped_before_the_protocol_is_changed(fleet, streams, group):
    """The brokers cannot convert such a group, whose assignments have data of the strategy in librdkafka. The new member waits, and the others
    go on; the way back needs no stop."""
    one, two = fleet.add(), fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    one.stop()
    one.use("consumer")
    one.start(ready=False)
    eventually(lambda: "kafka_client_ended" in one.sidecar.stderr or "group_waiting" in one.sidecar.stderr, 40)
    fleet.wait_for_progress(200)
    assert streams.protocol_of(group) == "CLASSIC"
    two.stop()
    fleet.check_offsets()
    one.sidecar.wait_ready(40)
    two.use("consumer")
    two.start()
    assert streams.protocol_of(group) == "CONSUMER"
    for instance in fleet.instances:
        fleet.wait_for_progress(200)
        instance.stop()
        instance.use("classic")
        instance.start()
    eventually(lambda: streams.protocol_of(group) == "CLASSIC", 40)
    fleet.assert_clean()


def kill_and_start(fleet, number):
    if number is None:
        return
    fleet.wait_for_progress(100)
    fleet.instances[number].kill()
    fleet.check_offsets()
    fleet.wait_for_progress(100)
    fleet.instances[number].start(ready=False)
    fleet.instances[number].sidecar.wait_ready(60)


@pytest.mark.usefixtures("protocol")
def test_a_rebalance_during_a_slow_commit(fleet):
    """A batch of the first one is being committed while its partitions are assigned to the other."""
    one = fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    one.arm("after_insert_before_commit delay:1500 *")
    one.wait_hit("after_insert_before_commit")
    two = fleet.add()
    fleet.check_offsets()
    eventually(lambda: two.name in {delivered.instance for delivered in fleet.ledger.deliveries}, 40)
    one.disarm()
    fleet.wait_for_progress(300)
    fleet.assert_clean()


@pytest.mark.usefixtures("protocol")
def test_a_member_expelled_during_a_commit_loses_nothing(fleet, streams, group):
    """max.poll.interval.ms passes, another member continues to store, and then the COMMIT succeeds or fails."""
    settings = {"max.poll.interval.ms": 3000}
    one = fleet.add(kafka=settings)
    two = fleet.add(kafka=settings)
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    one.arm("after_insert_before_commit delay:6000")
    one.wait_hit("after_insert_before_commit")
    if fleet.protocol == "consumer" and installed_version() >= (2, 15, 0):  # it leaves when it has given up its partitions
        eventually(lambda: "_MAX_POLL_EXCEEDED" in one.sidecar.stderr, 30)
    else:
        eventually(lambda: len(streams.members(group)) == 1, 30, "the group to throw it out", every=0.2)
    fleet.check_offsets()
    fleet.wait_for_progress(300)
    one.disarm()
    eventually(lambda: len(streams.members(group)) == 2, 60, "it to come back", every=0.2)
    fleet.check_offsets()
    fleet.assert_clean()
    assert two.is_running


def test_another_service_is_refused_and_disturbs_no_sidecar(fleet, streams, group):
    one = fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(200)
    other = fleet.add(kafka={"group.id": "another_service"}, start=False, hands=0)
    other.start(ready=False)
    assert other.sidecar.wait(30) == 2
    last = other.sidecar.stderr.splitlines()[-1]
    assert f'"{group}"' in last and '"another_service"' in last
    throughout(lambda: one.sidecar.get("/readyz")[0] == 200, 1)
    fleet.assert_clean()
    assert not streams.committed("another_service", fleet.topic)
