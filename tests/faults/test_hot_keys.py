"""Hot keys: several messages of a key are answered and not settled when a sidecar is killed, loses its lease, or gives
its partition away. The ledger stays clean: verdicts are committed in order, and what was not settled comes again in order,
from its first message on.
"""

import signal

import pytest

from armed import Armed, EAGER
from fleet import LEASE_MS
from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import NEVER

SLOW = "before_settle delay:150 *"  # so that messages wait for their settle
SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
COUNT = 200


@pytest.fixture
def hot(fleet):
    """One key, whose messages are done at once; sometimes one fails or is completed by its handler."""
    fleet.keys = 1
    fleet.kinds = {"done": 90, "retry": 1, "effect": 2}
    return fleet


@pytest.fixture
def send(streams, topic, inbox):
    """send(ids): stores messages of one key."""
    def produce(ids):
        before = inbox.count()
        streams.events(topic, ids, key=lambda event_id: "k")
        inbox.wait_stored(before + len(ids))

    return produce


def ends_clean(fleet):
    for instance in fleet.instances:
        instance.disarm()
        if not instance.is_running:
            instance.start(ready=False)
    fleet.produce(COUNT // 4)
    fleet.assert_clean()


def again(fleet):
    """Messages that were answered with done and came again."""
    return {event_id for (_, event_id), deliveries in fleet.ledger.by_message().items()
            if any(each.how == "done" for each in deliveries[:-1])}


# --- Kills ------------------------------------------------------------------------------------------------------------

def killed(fleet, *rules, **settings):
    one = fleet.add(kafka=SOON, **settings)
    fleet.produce(20)
    fleet.wait_for_progress(1)
    one.arm(*rules)
    fleet.produce_in_background()
    one.wait_killed()
    fleet.enough()
    return one


@pytest.mark.parametrize("nth", [30, 45, 60])
def test_killed_between_answers_and_their_settle(hot, nth):
    killed(hot, SLOW, f"after_answer kill {nth}")
    ends_clean(hot)
    assert len(again(hot)) > 1, "several messages of the key were to be unsettled"


@pytest.mark.parametrize("point, nth", [(point, nth) for point in ("before_settle", "after_settle") for nth in (5, 6)])
def test_killed_before_and_after_consecutive_settles(hot, point, nth):
    hot.kinds = {"done": 1}
    killed(hot, f"{point} kill {nth}")
    ends_clean(hot)


@pytest.mark.parametrize("point, nth", [("after_answer", 40), ("before_settle", 6), ("after_settle", 6)])
def test_with_next_after_commit_no_later_message_was_delivered(hot, point, nth):
    """The ledger checks the stronger rule."""
    killed(hot, f"{point} kill {nth}", inbox={"next_after": "commit"})
    ends_clean(hot)
    assert len(again(hot)) <= 1 + sum(key is None for key in _keys_again(hot))


def _keys_again(fleet):
    names = again(fleet)
    return [record.key for (_, event_id), record in fleet.ledger.first_copies().items() if event_id in names]


def test_a_kill_shows_no_more_than_the_bound_again(hot):
    hot.kinds = {"done": 1}
    killed(hot, "before_settle delay:600 *", "after_answer kill 60", inbox={"max_unsettled_per_key": 5})
    ends_clean(hot)
    assert 1 < sum(key is not None for key in _keys_again(hot)) <= 5


def test_lost_answers_to_a_settle_keep_the_order(hot):
    """It is not known whether the transaction was committed."""
    one = hot.add()
    hot.produce(20)
    one.arm("error_after_settle error *")
    hot.produce_in_background()
    eventually(lambda: len(one.hits()) >= 5)
    one.arm("error_after_settle error 3", SLOW)
    hot.wait_for_progress(30)
    hot.enough()
    ends_clean(hot)
    assert not again(hot)


SMALL = {
    "little memory": {"inbox": {"max_claimed": 40, "max_unsettled_per_key": 4}, "worker": {"claim_batch": 10}},
    "one connection": {"inbox": {"max_claimed": 200}, "worker": {"connections": 1}},
    "few in flight": {"inbox": {"max_claimed": 100, "max_in_flight": 20}, "worker": {"claim_batch": 20}},
    "next after commit": {"inbox": {"max_claimed": 60, "next_after": "commit"}, "worker": {"claim_batch": 10}},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("settings", [
    pytest.param(settings, id=name, marks=[] if name == "little memory" else pytest.mark.long)
    for name, settings in SMALL.items()])
def test_random_ends_of_sidecars_with_hot_keys(hot, settings):
    """Many messages fail, and most wait in the table: claims, retries, rescues and settles of few keys meet."""
    hot.keys = 4
    hot.kinds = {"done": 80, "retry": 14, "effect": 4, "effect_after_rollback": 1, "crash": 1}
    for _ in range(2):
        hot.add(**settings)
    for instance in hot.instances:
        instance.arm("before_settle delay:30 *", "error_after_settle error 20", "error_after_claim error 7")
    hot.produce_in_background(300)
    for stops in (False, True, False, True):
        victim = hot.random.choice(hot.instances)
        hot.wait_for_progress(hot.random.randrange(300))
        victim.stop() if stops else victim.kill()
        hot.wait_for_progress(hot.random.randrange(200))
        victim.start()
    ends_clean(hot)


# --- New owners -------------------------------------------------------------------------------------------------------

@pytest.fixture
def two(hot):
    """Two sidecars with slow settles. Each one has a hot key."""
    hot.keys = 6  # some in each partition
    instances = [hot.add(), hot.add()]
    for instance in instances:
        instance.arm("before_settle delay:400 *")
    hot.produce_in_background()
    hot.wait_for_progress(100)
    return instances


def test_a_stopped_owner_settles_before_the_next_one_continues(hot, two):
    two[0].stop()
    hot.wait_for_progress(50)
    two[0].start()
    hot.wait_for_progress(50)
    two[1].stop()
    ends_clean(hot)
    assert not again(hot)


def test_after_a_killed_owner_the_next_one_begins_with_its_unsettled_messages(hot, two):
    two[0].kill()
    hot.wait_for_progress(50)
    ends_clean(hot)
    assert again(hot)


def test_after_a_lost_lease_the_next_owner_begins_with_its_unsettled_messages(hot, two):
    """Its settle is under way for longer than the lease, then it goes on."""
    two[0].arm(f"before_settle delay:{2 * LEASE_MS}")
    two[0].wait_hit("before_settle")
    hot.wait_for_progress(100)
    ends_clean(hot)


def test_a_stopped_process_shows_its_unsettled_messages_again(hot, two):
    two[0].pause()
    eventually(lambda: hot.inbox.value("SELECT count(*) FROM fenced") > 0, timeout=30)
    hot.wait_for_progress(50)
    two[0].go_on()
    ends_clean(hot)


def test_a_partition_that_comes_back_keeps_its_unsettled_messages_in_order(make_inboxd, handler, send, inbox, rebalance):
    """The same sidecar loses the partition and has it again while k1 to k3 are answered and not settled."""
    one = Armed(make_inboxd(kafka=EAGER))
    client = handler(one.sidecar.start(), by_id({"k1": NEVER}))
    send(["k1", "k2", "k3"])
    with inbox.connect() as own:
        k1 = client.wait_event("k1")
        own.execute("SELECT 1 FROM inbox.inbox_messages WHERE event_id = 'k1' FOR UPDATE")
        client.answer(k1, DONE)
        client.wait_event("k3")
        rebalance()
        send(["k4", "k5"])
        throughout(lambda: inbox.count("processed") == 0, seconds=1)
        own.rollback()
    inbox.wait_processed(5)
    assert client.event_ids == ["k1", "k2", "k3", "k4", "k5"]


# --- A claim that is lost while its verdict is under way --------------------------------------------------------------

TAKE_CLAIM = "UPDATE inbox.inbox_messages SET claimed_by = NULL, available_at = now() WHERE event_id = %s"


def test_a_message_that_comes_again_before_its_loss_is_known(make_inboxd, handler, send, inbox):
    """The settle of k1 is delayed. Meanwhile its claim is lost, and the sidecar has claimed and delivered it again."""
    one = Armed(make_inboxd(worker={"connections": 3}))
    client = handler(one.sidecar.start(), by_id({"k1": [NEVER]}))
    send(["k1", "k2", "k3"])
    one.arm("before_settle delay:3000")
    client.answer(client.wait_event("k1"), DONE)
    one.wait_hit("before_settle")
    client.wait_event("k3")
    inbox.execute(TAKE_CLAIM, ["k1"])
    client.wait_event("k1", 2, timeout=2.5)
    inbox.wait_processed(3)
    assert client.event_ids[:4] == ["k1", "k2", "k3", "k1"]
    assert client.event_ids[-3:] == ["k1", "k2", "k3"]


def test_a_stop_with_a_settle_under_way_loses_no_answer(make_inboxd, handler, send, inbox):
    one = Armed(make_inboxd())
    client = handler(one.sidecar.start(), by_id({"k1": [NEVER]}))
    send(["k1", "k2", "k3"])
    one.arm("before_settle delay:2000")
    client.answer(client.wait_event("k1"), DONE)
    one.wait_hit("before_settle")
    client.wait_event("k3")
    one.sidecar.signal(signal.SIGTERM)
    assert one.sidecar.wait() == 0
    assert inbox.count("processed") == 3
    one.sidecar.start()
    late = handler(one.sidecar, always(DONE))
    send(["k4"])
    inbox.wait_processed(4)
    assert late.event_ids == ["k4"]
