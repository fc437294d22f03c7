"""A batch is sent behind the COMMIT of the previous one: the ledger stays clean whether that COMMIT succeeds or not.
Batches are small here, and there is a backlog, so that nearly every batch is sent this way.
"""

import pytest

import points
from fleet import LEASE_MS
from support.wait import eventually
from whole import log_events

BACKLOG = 600
BATCH = 5
SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
FOLLOWS = "behind_commit"  # passed whenever a batch has been sent behind a COMMIT


def at_rest(fleet):
    """A sidecar that has handled a few messages; no message waits in its partitions."""
    one = fleet.add(kafka=SOON, ingest={"batch_messages": BATCH})
    fleet.produce(20, kind="done")
    fleet.wait_done()
    return one


def follows(instance):
    return sum(point == FOLLOWS for point, _ in instance.hits())


def ends_clean(fleet):
    fleet.check_offsets()
    for instance in fleet.instances:
        instance.disarm()
        if not instance.is_running:
            instance.start(ready=False)
    fleet.produce(BACKLOG // 4)
    fleet.assert_clean()


@pytest.mark.parametrize("kind", ["done", None], ids=["healthy", "mixed"])
def test_batches_are_sent_behind_the_previous_commit(fleet, kind):
    one = at_rest(fleet)
    one.arm(f"{FOLLOWS} delay:1 *")
    fleet.produce(BACKLOG, kind)
    fleet.assert_clean()
    assert follows(one) >= (BACKLOG // BATCH // 2 if kind else 1)


@pytest.mark.parametrize("point, nth", points.FOLLOWING.items())
def test_a_kill_between_two_batches_loses_nothing(fleet, point, nth):
    one = at_rest(fleet)
    one.arm(*([f"{FOLLOWS} delay:1 *"] if point != FOLLOWS else []), f"{point} kill {nth}")
    fleet.produce(BACKLOG, kind="done")
    one.wait_killed()
    assert point == FOLLOWS or follows(one) >= 5
    ends_clean(fleet)


LOST = ["ingest:error_before_commit", "ingest:error_after_commit", "error_after_store", "error_before_depart"]


@pytest.mark.parametrize("error", LOST)
def test_a_lost_commit_also_undoes_the_next_batch(fleet, error):
    """The outcome of the first batch is unknown, and the second one is not stored. Both are stored again, in their
    order."""
    one = at_rest(fleet)
    one.arm(f"{FOLLOWS} delay:1 *", f"{error} error 12")
    fleet.produce(BACKLOG, kind="done")
    one.wait_hit(error)
    fleet.wait_for_progress(100)
    assert follows(one) >= 5
    ends_clean(fleet)


@pytest.mark.parametrize("error", LOST)
def test_repeated_lost_commits_lose_nothing(fleet, error):
    one = at_rest(fleet)
    one.arm(f"{FOLLOWS} delay:1 *", f"{error} error *")
    fleet.produce(BACKLOG, kind="done")
    eventually(lambda: one.hits().count((error, "error")) >= 4, what=f"four times {error}")
    ends_clean(fleet)


def test_a_connection_lost_under_two_batches_is_one_outage(fleet):
    """The second batch cannot be sent, and then the COMMIT of the first one is not answered."""
    one = at_rest(fleet)
    one.arm("before_insert delay:1 *", f"{FOLLOWS} delay:1 *",
            *(f"error_before_depart error {nth}" for nth in (12, 40, 70)))
    fleet.produce(BACKLOG, kind="done")
    eventually(lambda: one.hits().count(("error_before_depart", "error")) == 3, what="three lost connections")
    fleet.wait_done()
    passed = [point for point, _ in one.hits()]
    behind = [passed[at + 1] == FOLLOWS for at, point in enumerate(passed) if point == "error_before_depart"]
    assert any(behind)
    # the log has one line for outages that come back within seconds
    assert one.sidecar.metric("inboxd_pg_errors_total", **{"class": "connection"}) == 3
    assert log_events(one.sidecar, "database_lost")
    ends_clean(fleet)


def test_a_commit_longer_than_the_lease_loses_nothing(fleet):
    """The other sidecar acquires the partitions; the second batch finds its watermarks moved."""
    one = at_rest(fleet)
    fleet.add(ingest={"batch_messages": BATCH})
    one.arm(f"{FOLLOWS} delay:{2 * LEASE_MS} 5")
    fleet.produce(BACKLOG)
    fleet.produce_in_background(300)
    one.wait_hit(FOLLOWS)
    fleet.wait_for_progress(200)
    fleet.enough()
    ends_clean(fleet)


def test_a_rebalance_between_two_batches_loses_nothing(fleet):
    one = at_rest(fleet)
    one.arm(f"{FOLLOWS} delay:3 *")
    fleet.produce(2 * BACKLOG)
    two = fleet.add(ingest={"batch_messages": BATCH})
    fleet.produce(BACKLOG)
    two.stop()
    fleet.produce(BACKLOG)
    assert follows(one) >= 5
    ends_clean(fleet)
