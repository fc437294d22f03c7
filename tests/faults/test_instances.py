"""Several sidecars of one group: killed at random, restarted in turn, joining and leaving, stopped for
longer than their lease, with a clock that is wrong. The ledger stays clean, with both protocols of the group.
"""

import datetime
import pathlib
import subprocess
import time

import pytest

from fleet import LEASE_MS, TIMEOUT_MS
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER

LEASE = LEASE_MS / 1000
SESSION = {"classic": 2.0, "consumer": 6.0}  # fleet.PROTOCOLS, support/kafka.py
BOUND = 10.0    # longer than lease and session: a rebalance and the remaining work, on a busy machine


def run_for(seconds, step):
    """Runs steps until the time is over; every step waits for its own event."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        step()


def everybody_back(fleet):
    for instance in fleet.instances:
        if not instance.is_running:
            instance.start(ready=False)
    for instance in fleet.instances:
        instance.sidecar.wait_ready(60)


def every_running_one_is_heard(fleet):
    """Every instance has delivered something, so the run tested several instances."""
    heard = {delivered.instance for delivered in fleet.ledger.deliveries}
    assert heard == {instance.name for instance in fleet.instances}


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("protocol")
def test_random_kills_lose_nothing(fleet, long_run):
    """Sidecars with kill -9, handlers by messages that crash them twice."""
    fleet.kinds["crash"] = 1
    for _ in range(3):
        fleet.add()
    fleet.produce_in_background()

    def kill_one():
        victim = fleet.random.choice([each for each in fleet.instances if each.is_running])
        victim.kill()
        fleet.check_offsets()
        fleet.wait_for_progress(fleet.random.randrange(200))
        fleet.random.choice([each for each in fleet.instances if not each.is_running]).start(ready=False)
        fleet.wait_for_progress(fleet.random.randrange(400))

    run_for(300 if long_run else 45, kill_one)
    everybody_back(fleet)
    fleet.assert_clean()
    every_running_one_is_heard(fleet)


@pytest.mark.usefixtures("protocol")
def test_a_rolling_restart_loses_nothing(fleet):
    for _ in range(3):
        fleet.add()
    fleet.produce_in_background()
    for instance in fleet.instances * 2:
        fleet.wait_for_progress(100)
        instance.stop()
        fleet.check_offsets()
        instance.start()
    fleet.assert_clean()
    every_running_one_is_heard(fleet)


def storm(fleet, seconds, **settings):
    """One stays; two others start and stop at different times."""
    for _ in range(3):
        fleet.add(**settings)
    fleet.produce_in_background()
    guests = list(fleet.instances[1:])

    def come_or_go():
        guest = fleet.random.choice(guests)
        if guest.is_running:
            guest.stop()
        else:
            guest.start()
        fleet.wait_for_progress(250)

    run_for(seconds, come_or_go)
    everybody_back(fleet)
    fleet.assert_clean()
    every_running_one_is_heard(fleet)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_rebalances_in_a_loop_lose_nothing(fleet, long_run, strategy):
    storm(fleet, 120 if long_run else 15, kafka={"partition.assignment.strategy": strategy})


@pytest.mark.timeout(600)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_rebalances_with_the_consumer_protocol_lose_nothing(fleet, long_run, assignor):
    fleet.protocol = "consumer"
    storm(fleet, 120 if long_run else 15, kafka={"group.remote.assignor": assignor})


def is_stopped(instance):
    stat = pathlib.Path(f"/proc/{instance.sidecar.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def takes_over(fleet, stopped):
    """The others finish everything in time while it is stopped. Then it resumes under a new id."""
    began = time.monotonic()
    fleet.wait_done(timeout=LEASE + SESSION[fleet.protocol] + BOUND)
    assert is_stopped(stopped), "it was to be stopped all the time"
    log = len(stopped.sidecar.stderr)
    stopped.go_on()
    stopped.disarm()
    eventually(lambda: "started" in stopped.sidecar.stderr[log:], timeout=30,
               what="the stopped instance to begin another life")
    stopped.sidecar.wait_ready()
    fleet.produce(200)
    fleet.assert_clean()
    return time.monotonic() - began


@pytest.mark.usefixtures("protocol")
def test_a_pause_longer_than_the_lease_loses_nothing(fleet):
    one, _ = fleet.add(), fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(300)
    one.pause()
    fleet.produce(100)
    takes_over(fleet, one)


@pytest.mark.usefixtures("protocol")
def test_a_pause_within_a_transaction_loses_nothing(fleet):
    """Its rows and its watermark are locked until its session is ended."""
    one, _ = fleet.add(), fleet.add()
    fleet.produce_in_background()
    fleet.wait_for_progress(300)
    one.arm("after_insert_before_commit stop")
    one.wait_hit("after_insert_before_commit")
    eventually(lambda: is_stopped(one))
    fleet.produce(100)
    takes_over(fleet, one)


def preloaded(directory, name):
    """A library of this folder to be loaded before the program, compiled."""
    library = directory / f"{name}.so"
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@pytest.fixture(scope="module")
def wrong_clock(tmp_path_factory):
    """Shows a wrong time of day."""
    return preloaded(tmp_path_factory.mktemp("clock"), "wrong_clock")


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_wrong_by_an_hour_changes_nothing(fleet, wrong_clock, seconds):
    """Leases, schedules and deadlines use PostgreSQL's clock; a host's clock only measures waits."""
    skewed = fleet.add(env={"LD_PRELOAD": wrong_clock, "WRONG_CLOCK": str(seconds)})
    right = fleet.add()
    fleet.produce_in_background()
    for instance in (skewed, right):
        fleet.wait_for_progress(200)
        instance.kill()
        fleet.wait_for_progress(200)
        instance.start()
    fleet.assert_clean()
    every_running_one_is_heard(fleet)
    for delivered in fleet.ledger.deliveries:
        left_ms = (delivered.deadline - delivered.begin) * 1000
        assert -TIMEOUT_MS < left_ms < TIMEOUT_MS + 1000, f"{left_ms:.0f} ms left: {delivered}"
    assert abs(logged_at(skewed) - logged_at(right) - seconds) < 60, "the clock was to be wrong"


@pytest.mark.parametrize("seconds, seconds_of_work, options", [
    (3600, 4, ["--timeout", "30s"]),                     # the deadline seems to be over
    (-3600, 3, ["--timeout", "1s", "--extend", "1m"]),   # and here an hour away
])
def test_exec_does_not_compare_its_clock_with_a_deadline(inboxd, bridge, streams, topic, inbox, wrong_clock, seconds, seconds_of_work, options):
    client = bridge(inboxd, "exec", *options, "--", "sleep", seconds_of_work, env={"LD_PRELOAD": wrong_clock, "WRONG_CLOCK": str(seconds)})
    streams.events(topic, ["a"])
    assert inbox.wait_status("a", "processed")["retry_count"] == 0
    assert "command_killed" not in client.stderr


def logged_at(instance):
    """The time of its first line."""
    text = instance.sidecar.stderr.split("time=", 1)[1].split(" ", 1)[0]
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_without_a_boot_id_no_instance_is_fenced_for_its_socket(make_inboxd, handler, streams, topic, inbox, tmp_path):
    """Device and inode of a lock file may be equal on two hosts, so only the lease shows that an instance is dead."""
    sidecar = make_inboxd(env={"LD_PRELOAD": preloaded(tmp_path, "no_boot_id")}).start()
    first = handler(sidecar, always(NEVER))
    streams.events(topic, ["a"])
    first.wait_count(1)
    assert [row["host_id"] for row in inbox.query("SELECT host_id FROM inbox.inbox_instances")] == [None]
    sidecar.kill()
    sidecar.start()
    handler(sidecar, always(DONE))
    inbox.wait_processed(1)
