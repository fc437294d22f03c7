"""inboxd's threads put nobody aside when they wake up: the service beside it and the database come first."""

import os

import pytest


def policies(sidecar):
    return {os.sched_getscheduler(int(thread)) for thread in os.listdir(f"/proc/{sidecar.pid}/task")}


def test_every_thread_waits_for_its_turn(start_inboxd):
    assert policies(start_inboxd()) == {os.SCHED_BATCH}


@pytest.fixture
def spare():
    """What this thread starts runs when nothing else wants to."""
    usual = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    yield
    os.sched_setscheduler(0, usual, os.sched_param(0))


@pytest.mark.usefixtures("spare")
def test_a_policy_that_somebody_chose_stays(start_inboxd):
    assert policies(start_inboxd()) == {os.SCHED_IDLE}
