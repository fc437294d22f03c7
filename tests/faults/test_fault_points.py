"""kill -9, a long delay and a lost connection at every fault point: the ledger stays clean.

A point in the sources that no scenario here reaches fails the first test.
"""

import signal

import pytest

import points
from fleet import LEASE_MS
from support.wait import eventually

COUNT = 150  # messages before the fault, and after it


def test_every_point_of_the_sources_has_a_scenario():
    killed = [*points.UNDER_LOAD, *points.IN_DOUBT, *points.AT_START, *points.AT_STOP]
    assert sorted(killed) == points.in_sources("POINT")
    assert sorted(points.ERRORS) == points.in_sources("ERROR")


def ends_clean(fleet):
    """A killed sidecar is started again; what comes then is handled like what came before."""
    fleet.check_offsets()
    for instance in fleet.instances:
        instance.disarm()
        if not instance.is_running:
            instance.start(ready=False)
    fleet.produce(COUNT // 3)
    fleet.assert_clean()


@pytest.mark.parametrize("point, nth", points.UNDER_LOAD.items())
def test_killed_under_load(fleet, point, nth):
    one = fleet.add()
    fleet.produce(COUNT // 3)
    fleet.wait_for_progress(10)
    fleet.produce(2, kind="crash")
    one.arm(f"{point} kill {nth}")
    fleet.produce_in_background()
    one.wait_killed()
    fleet.enough()
    assert one.hits() == [(point, "kill")]
    ends_clean(fleet)


@pytest.mark.parametrize("point, error", points.IN_DOUBT.items())
def test_killed_in_doubt(fleet, point, error):
    one = fleet.add()
    fleet.produce(COUNT // 3)
    fleet.produce_in_background()
    fleet.wait_for_progress(10)
    one.arm(f"{error} error", f"{point} kill")
    one.wait_killed()
    fleet.enough()
    assert one.hits() == [(error, "error"), (point, "kill")]
    ends_clean(fleet)


def killed_with_messages_open(fleet):
    one = fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(50)
    one.kill()
    fleet.enough()
    return one


@pytest.mark.parametrize("point", points.AT_START)
def test_killed_at_start(fleet, point):
    one = killed_with_messages_open(fleet)
    one.arm(f"{point} kill")
    one.start(ready=False)
    one.wait_killed()
    assert one.hits() == [(point, "kill")]
    ends_clean(fleet)


@pytest.mark.parametrize("point", points.AT_STOP)
def test_killed_at_stop(fleet, point):
    one = fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(50)
    one.arm(f"{point} kill")
    one.sidecar.signal(signal.SIGTERM)
    one.wait_killed()
    fleet.enough()
    assert one.hits() == [(point, "kill")]
    ends_clean(fleet)
