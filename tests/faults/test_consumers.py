"""Several consumers of each message: kills, lost answers, and sidecars with different lists of consumers. Each consumer has
its own ledger, which stays clean, and a consumer that fails never holds up another.
"""

import signal

import pytest

import points
from armed import Armed
from support.wait import eventually

SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
COUNT = 100
A_SECOND = 60
BACKLOG = 600
BATCH = 7  # an odd number: it divides no pair of rows, and batches are sent behind each other
BOTH = {"billing": {}, "mail": {"max_attempts": 100_000}}


@pytest.fixture
def both(fleet):
    """Each message is for billing and for mail. The handlers of mail refuse everything until ends_clean()."""
    fleet.serve(*BOTH)
    fleet.failing = {"mail"}
    return fleet


def with_both(fleet, **settings):
    return fleet.add(hands=1, kafka=SOON, consumers=BOTH, ingest={"batch_messages": BATCH}, **settings)


def at_work(fleet, **settings):
    one = with_both(fleet, **settings)
    fleet.produce_in_background(A_SECOND)
    fleet.wait_for_progress(20)
    return one


def everybody_back(fleet):
    for instance in fleet.instances:
        instance.disarm()
        if not instance.is_running:
            instance.start(ready=False)


def ends_clean(fleet):
    """A consumer that fails has nothing done, and the others have everything done. Then it fails no longer."""
    fleet.check_offsets()
    everybody_back(fleet)
    fleet.produce(COUNT)
    fleet.wait_done(consumers=set(fleet.ledgers) - fleet.failing)
    for consumer in fleet.failing:
        assert not fleet.snapshot(consumer).completions
    fleet.failing = set()
    fleet.assert_clean()


# --- Kills ------------------------------------------------------------------------------------------------------------

def under_load(one, point):
    one.arm(f"{point} kill {points.UNDER_LOAD[point]}")


def in_doubt(one, point):
    one.arm(f"{points.IN_DOUBT[point]} error", f"{point} kill")


def at_start(one, point):
    one.kill()
    one.arm(f"{point} kill")
    one.start(ready=False)


def at_stop(one, point):
    one.arm(f"{point} kill")
    one.sidecar.signal(signal.SIGTERM)


def some(names, how_many=6):
    return [names[first:first + how_many] for first in range(0, len(names), how_many)]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("reach, names", [
    pytest.param(reach, names, id=f"{reach.__name__}-{names[0]}")
    for reach, reached in ((under_load, points.UNDER_LOAD), (in_doubt, points.IN_DOUBT), (at_start, points.AT_START),
                           (at_stop, points.AT_STOP))
    for names in some(list(reached))])
def test_killed_at_each_point(both, reach, names):
    one = at_work(both)
    for point in names:
        both.produce(1, kind="crash")
        reach(one, point)
        one.wait_killed()
        assert one.hits()[-1] == (point, "kill")
        one.disarm()
        one.start()
        both.wait_for_progress(20)
    ends_clean(both)


@pytest.mark.parametrize("point, nth", points.FOLLOWING.items())
def test_killed_between_two_batches(fleet, point, nth):
    """No consumer fails: a batch is sent behind the COMMIT of another one only while no row waits."""
    fleet.serve(*BOTH)
    one = with_both(fleet)
    fleet.produce(20, kind="done")
    fleet.wait_done()
    one.arm(*(["behind_commit delay:1 *"] if point != "behind_commit" else []), f"{point} kill {nth}")
    fleet.produce(BACKLOG, kind="done")
    one.wait_killed()
    assert "behind_commit" in (name for name, _ in one.hits())
    ends_clean(fleet)


@pytest.mark.parametrize("point", points.AT_ADOPTION)
def test_killed_at_adoption(both, topic, make_topic, point):
    """The messages of both consumers wait in partitions that no sidecar reads any more."""
    one = at_work(both)
    one.kill()
    both.enough()
    one.sidecar.write_configuration({"kafka": {"topics": [make_topic()]}})
    one.arm(f"{point} kill")
    one.start(ready=False)
    one.wait_killed()
    one.sidecar.write_configuration({"kafka": {"topics": [topic]}})
    ends_clean(both)


# --- Lost answers and random kills ------------------------------------------------------------------------------------

def test_lost_answers_lose_nothing(both):
    one = at_work(both)
    for error in points.ERRORS:
        one.arm(f"{error} error *")
        eventually(lambda: one.hits().count((error, "error")) >= 3, what=f"three times {error}")
        one.disarm()
        both.wait_for_progress(20)
    ends_clean(both)


def test_a_rename_between_a_lost_commit_and_its_check_is_noticed(make_inboxd, inbox, streams, make_topic):
    """The epoch and the watermark have both changed. The next batch has the new epoch, so nothing but the names stops it."""
    topic = make_topic(partitions=1)  # a partition whose epoch alone has changed would show the rename
    one = Armed(make_inboxd({"kafka": {"topics": [topic]}, "worker": {"lease": "60s"}}))  # the names are read every 20 s otherwise
    one.sidecar.start()
    one.arm("error_after_store error", "before_resync hold")
    streams.events(topic, ["a"])
    one.wait_hit("before_resync")
    inbox.value("SELECT inbox.rename_consumer('', 'billing')")
    one.arm()
    streams.events(topic, ["b"])
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_messages") == 2)
    assert inbox.value("SELECT array_agg(DISTINCT consumer) FROM inbox.inbox_messages") == ["billing"]
    assert "event=watermark_moved" in one.sidecar.stderr


@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", [
    pytest.param({}, id="usual"), pytest.param({"inbox": {"max_claimed": 30}, "worker": {"claim_batch": 10}}, id="little memory")])
def test_random_kills_of_two_sidecars(both, long_run, settings):
    """With little memory most messages wait in the table."""
    for _ in range(2):
        with_both(both, **settings)
    both.produce_in_background(A_SECOND)
    for _ in range(60 if long_run else 6):
        victim = both.random.choice(both.instances)
        both.wait_for_progress(both.random.randrange(150))
        victim.kill()
        both.wait_for_progress(both.random.randrange(100))
        victim.start()
    ends_clean(both)


@pytest.mark.timeout(200)
def test_handlers_that_complete_messages_in_their_transactions(fleet):
    """Each message has one effect for each of three consumers, although most are sent several times."""
    fleet.serve("billing", "mail", "search")
    fleet.kinds = {"effect": 3, "effect_after_rollback": 1}
    fleet.repeats = 0.8
    for _ in range(2):
        fleet.add(hands=1, consumers=dict.fromkeys(fleet.ledgers, {}))
    fleet.produce_in_background()
    for instance, point in zip(fleet.instances * 2, [
            "after_deliver_before_settle", "before_settle", "after_answer", "after_insert_before_commit"]):
        instance.arm(f"{point} kill 20")
        instance.wait_killed()
        instance.disarm()
        instance.start()
    ends_clean(fleet)


def test_consumers_with_other_types_and_without_an_order(fleet):
    """A retry is for nobody. Each consumer has gaps in the sequence of offsets."""
    fleet.serve("billing", "search")
    fleet.want("billing", "done", "effect")
    fleet.want("search", "effect", "slow")
    fleet.kinds = {"done": 3, "effect": 3, "slow": 1, "retry": 3}
    for _ in range(2):
        fleet.add(hands=1, kafka=SOON, consumers={
            "billing": {"types": ["done", "effect"]}, "search": {"types": ["eff*", "slow"], "ordering": "none"}})
    fleet.produce_in_background(A_SECOND)
    for instance in fleet.instances * 2:
        fleet.wait_for_progress(50)
        instance.kill()
        instance.start()
    ends_clean(fleet)


# --- Different lists --------------------------------------------------------------------------------------------------

def lists(instance, consumers):
    """From its next start on."""
    old = instance.sidecar.configuration.get("consumers", {})
    instance.sidecar.write_configuration({"consumers": {**dict.fromkeys(old), **dict.fromkeys(consumers, {})}})


def rolls(fleet, consumers):
    """One sidecar after the other gets the new list; the second one is killed."""
    for number, instance in enumerate(fleet.instances):
        fleet.wait_for_progress(30)
        instance.kill() if number == 1 else instance.stop()
        lists(instance, consumers)
        instance.start()


def ends_without_holes(fleet, *late):
    """The late consumers have rows from the first one of a partition on, and what is produced from now on at the latest."""
    first = next(iter(fleet.ledgers))
    fleet.enough()
    ends = fleet.ledgers[first].ends()
    fleet.produce(COUNT)
    fleet.wait_done(consumers=[first])
    for consumer in late:
        fleet.came_later(consumer, ends)
    fleet.assert_clean()


@pytest.mark.timeout(300)
def test_consumers_added_removed_and_renamed_by_rolling_restarts(fleet):
    """A removed consumer is known for inbox.handler_memory, so it has no hole either."""
    fleet.serve("billing", "search", "mail", "find")
    for _ in range(3):
        fleet.add(hands=1, kafka=SOON, consumers={"billing": {}, "search": {}})
    fleet.produce_in_background(A_SECOND)
    rolls(fleet, ["billing", "search", "mail"])
    rolls(fleet, ["billing", "search"])
    rolls(fleet, ["billing", "find"])
    rolls(fleet, ["billing", "find", "mail"])
    ends_without_holes(fleet, "mail", "find")


@pytest.mark.timeout(200)
def test_from_the_consumer_without_a_name_to_a_list(fleet):
    fleet.serve("", "billing", "mail")
    for _ in range(2):
        fleet.add(hands=1, kafka=SOON)
    fleet.produce_in_background(A_SECOND)
    rolls(fleet, ["billing", "mail"])
    ends_without_holes(fleet, "billing", "mail")


@pytest.mark.timeout(200)
def test_partitions_move_between_sidecars_with_different_lists(fleet):
    """mail is known because of the second sidecar, which is gone in the end."""
    fleet.serve("billing", "mail")
    one = fleet.add(hands=1, kafka=SOON, consumers={"billing": {}})
    fleet.produce_in_background(A_SECOND)
    fleet.wait_for_progress(30)
    two = fleet.add(hands=1, kafka=SOON, consumers={"billing": {}, "mail": {}})
    for end in (two.stop, one.kill, two.kill, one.stop, two.kill):
        fleet.wait_for_progress(60)
        end()
        fleet.wait_for_progress(30)
        everybody_back(fleet)
    fleet.wait_for_progress(60)
    two.stop()
    ends_without_holes(fleet, "mail")


FIRST_ROWS = ["before_insert", "after_insert_before_commit", "after_commit_before_offset", "before_offset_commit"]


@pytest.mark.timeout(200)
def test_the_only_sidecar_that_lists_a_consumer_is_killed_at_its_first_rows(fleet):
    """Its partitions go to one that does not list it."""
    fleet.serve("billing", *(f"c{number}" for number in range(len(FIRST_ROWS))))
    one = fleet.add(hands=1, kafka=SOON, consumers={"billing": {}})
    two = fleet.add(hands=1, kafka=SOON, consumers={"billing": {}}, start=False)
    fleet.produce_in_background(A_SECOND)
    fleet.wait_for_progress(30)
    for number, point in enumerate(FIRST_ROWS):
        lists(two, ["billing", f"c{number}"])
        two.arm(f"{point} kill")
        two.start(ready=False)
        two.wait_killed()
    fleet.wait_for_progress(100)
    assert one.is_running
    ends_without_holes(fleet, *(consumer for consumer in fleet.ledgers if consumer != "billing"))
