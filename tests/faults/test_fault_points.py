"""kill -9, a long delay and a lost connection at every fault point: the ledger stays clean.

A point in the sources that no scenario here reaches fails the first test.
"""

import signal

import pytest

import points
from fleet import LEASE_MS
from support.wait import eventually

COUNT = 150  # messages before the fault, and after it
# A killed member leaves the group after this time, which is most of the duration of a scenario.
SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}


def test_every_point_of_the_sources_has_a_scenario():
    killed = [*points.UNDER_LOAD, *points.IN_DOUBT, *points.AT_START, *points.AT_ADOPTION,
              *points.AT_STOP, *points.OUTBOX, *points.SQL_HANDLERS]
    killed += [point for point in points.FOLLOWING if point not in killed]
    assert sorted([*killed, *points.LOOKS, *points.STALLS]) == points.in_sources("POINT")
    errors = {error.partition(":")[2] or error for error in points.ERRORS}
    assert sorted([*errors, *points.OUTBOX_ERRORS, *points.SEEK_ERRORS]) == points.in_sources("ERROR")


def ends_clean(fleet):
    """Starts a killed sidecar again; messages before and after the kill are handled."""
    fleet.check_offsets()
    for instance in fleet.instances:
        instance.disarm()
        if not instance.is_running:
            instance.start(ready=False)
    fleet.produce(COUNT // 3)
    fleet.assert_clean()


@pytest.mark.parametrize("point, nth", points.UNDER_LOAD.items())
def test_killed_under_load(fleet, point, nth):
    one = fleet.add(kafka=SOON)
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
    one = fleet.add(kafka=SOON)
    fleet.produce(COUNT // 3)
    fleet.produce_in_background()
    fleet.wait_for_progress(10)
    one.arm(f"{error} error", f"{point} kill")
    one.wait_killed()
    fleet.enough()
    assert one.hits() == [(error, "error"), (point, "kill")]
    ends_clean(fleet)


def at_work(fleet, records):
    """A sidecar that has handled some records while more are produced."""
    one = fleet.add(kafka=SOON)
    fleet.produce_in_background()
    fleet.wait_for_progress(records)
    return one


def killed_with_messages_open(fleet):
    one = at_work(fleet, 50)
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


@pytest.mark.parametrize("point", points.AT_ADOPTION)
def test_killed_at_adoption(fleet, point, topic, make_topic):
    one = killed_with_messages_open(fleet)
    one.sidecar.write_configuration({"kafka": {"topics": [make_topic()]}})
    one.arm(f"{point} kill")
    one.start(ready=False)
    one.wait_killed()
    one.sidecar.write_configuration({"kafka": {"topics": [topic]}})
    assert one.hits() == [(point, "kill")]
    ends_clean(fleet)


@pytest.mark.parametrize("point", points.AT_STOP)
def test_killed_at_stop(fleet, point):
    one = at_work(fleet, 50)
    one.arm(f"{point} kill")
    one.sidecar.signal(signal.SIGTERM)
    one.wait_killed()
    fleet.enough()
    assert one.hits() == [(point, "kill")]
    ends_clean(fleet)


@pytest.mark.parametrize("error, nth", [(error, nth) for error, hits in points.ERRORS.items()
                                        for nth in hits])
def test_a_lost_answer_loses_nothing(fleet, error, nth):
    one = at_work(fleet, 20)
    one.arm(f"{error} error {nth}")
    one.wait_hit(error)
    fleet.wait_for_progress(50)
    fleet.enough()
    assert one.hits() == [(error, "error")]
    ends_clean(fleet)


def test_a_rule_that_names_a_thread_passes_the_others(fleet):
    one = at_work(fleet, 20)
    one.arm("worker:before_insert error *", "ingest:before_insert error 3")
    one.wait_hit("ingest:before_insert")
    fleet.wait_for_progress(50)
    fleet.enough()
    assert one.hits() == [("ingest:before_insert", "error")]
    ends_clean(fleet)


@pytest.mark.parametrize("error", points.ERRORS)
def test_repeated_lost_answers_lose_nothing(fleet, error):
    one = at_work(fleet, 20)
    one.arm(f"{error} error *")
    eventually(lambda: one.hits().count((error, "error")) >= 4, what=f"four times {error}")
    fleet.enough()
    ends_clean(fleet)


def test_slow_steps_lose_nothing(fleet):
    """Small delays at every point change the order in which threads meet."""
    slow = points.in_sources("POINT")
    one, two = fleet.add(start=False), fleet.add(start=False)
    for instance in (one, two):
        instance.arm(*(f"{point} delay:{fleet.random.randrange(1, 15)} *" for point in slow))
        instance.start()
    fleet.produce_in_background(60)
    fleet.wait_for_progress(600)
    two.stop()
    fleet.wait_for_progress(100)
    fleet.enough()
    hit = {point for point, _ in fleet.hits()}
    assert hit >= set(points.UNDER_LOAD) - {"before_raise", "after_raise", "before_unpark"}
    ends_clean(fleet)


@pytest.mark.parametrize("point", [
    pytest.param(point, marks=[] if point in points.LONG_DELAYS else pytest.mark.long)
    for point in points.UNDER_LOAD])
def test_a_step_longer_than_the_lease_loses_nothing(fleet, point):
    """Another sidecar runs, which may declare this one dead."""
    one, _ = fleet.add(), fleet.add()
    fleet.produce_in_background(60)
    fleet.wait_for_progress(100)
    fleet.produce(2, kind="crash")
    one.arm(f"{point} delay:{2 * LEASE_MS}")
    one.wait_hit(point)
    fleet.wait_for_progress(200)
    fleet.enough()
    assert one.hits() == [(point, f"delay:{2 * LEASE_MS}")]
    ends_clean(fleet)
