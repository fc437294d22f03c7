"""Without an order several claims run concurrently. Whatever ends one or all of them, every message is handled, exactly
once if it was not delivered before, and no row stays claimed.
"""

import contextlib
import signal
import time

import pytest

from armed import Armed
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER

WORKER = {"connections": 4, "claim_batch": 5, "poll": "200ms"}
SLOW = "after_claim delay:700 *"  # committed, and on its way for that long
TABLES = """
CREATE TABLE public.completions (event_id text);
CREATE FUNCTION public.note_completion() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.completions VALUES (NEW.event_id);
    RETURN NULL; END $$;
CREATE TRIGGER note_completion AFTER UPDATE ON inbox.inbox_messages FOR EACH ROW
    WHEN (OLD.processed_at IS NULL AND NEW.processed_at IS NOT NULL)
    EXECUTE FUNCTION public.note_completion()"""


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=2)


@pytest.fixture
def armed(make_inboxd):
    """armed(settings) -> an Armed sidecar without an order, ready."""
    def start(**settings):
        made = Armed(make_inboxd({"inbox": {"ordering": "none"}, "worker": WORKER}, **settings))
        made.sidecar.start()
        return made

    return start


@pytest.fixture
def due(streams, topic, inbox):
    """due(count) -> the ids of that many messages, all waiting in the table and due."""
    def make(count, name="e", topic=topic, value=b"{}"):
        before = inbox.count()
        ids = [f"{name}{number}" for number in range(count)]
        streams.events(topic, ids, key=lambda event_id: event_id, value=lambda event_id: value)
        inbox.wait_stored(before + count)
        if before == 0:
            inbox.execute(TABLES)
        inbox.execute("UPDATE inbox.inbox_messages SET available_at = now() WHERE available_at = 'infinity'")
        return ids

    return make


def assert_handled(inbox, ids, *armed_ones):
    """Each message is in the table once, and no work is left."""
    inbox.wait_processed(len(ids))
    assert sorted(row["event_id"] for row in inbox.query("SELECT event_id FROM public.completions")) == sorted(ids)
    for one in armed_ones:
        one.arm()  # a slow claim of an empty table has reserved budget
        eventually(lambda running=one.sidecar: running.metric("inboxd_claimed") == 0)
        used = one.sidecar.cpu_seconds()
        time.sleep(1)
        assert one.sidecar.cpu_seconds() - used < 0.3, "it spins"


def restarted(one):
    one.arm()
    one.sidecar.restart()
    return one.sidecar


def test_a_kill_during_several_claims_loses_nothing(armed, handler, due, inbox):
    one = armed()
    ids = due(60)
    one.arm(SLOW)
    client = handler(one.sidecar, always(DONE))
    one.wait_hit("after_claim", times=4)
    one.sidecar.kill()
    assert inbox.count("claimed") >= 10
    seen = set(client.event_ids)
    again = handler(restarted(one), always(DONE))
    assert_handled(inbox, ids, one)
    assert len(again.event_ids) == len(set(again.event_ids))
    assert seen | set(again.event_ids) == set(ids)


def test_some_answers_of_several_claims_are_lost(armed, handler, due, inbox):
    one = armed(worker={**WORKER, "connections": 8})
    ids = due(100)
    one.arm("after_claim delay:200 *", *(f"error_after_claim error {hit}" for hit in (2, 3, 6, 9)))
    client = handler(one.sidecar, always(DONE))
    assert_handled(inbox, ids, one)
    assert one.sidecar.metric("inboxd_rescued_total") == 5 * one.hits("error_after_claim") == 20
    assert sorted(client.event_ids) == sorted(ids)


def test_a_claim_whose_answer_was_lost_is_found_although_the_first_rescue_fails(armed, handler, due, inbox):
    """R3: it stays the lowest claim that may hold rows until a rescue has succeeded."""
    one = armed(worker={**WORKER, "claim_batch": 100})
    ids = due(20)
    one.arm("error_after_claim error", "before_rescue_of_own delay:1000")
    client = handler(one.sidecar, always(DONE))
    one.wait_hit("before_rescue_of_own")
    assert inbox.count("claimed") >= 10
    inbox.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'inboxd/%'")
    assert_handled(inbox, ids, one)
    assert sorted(client.event_ids) == sorted(ids)


def test_a_database_restart_during_several_claims_loses_nothing(armed, handler, due, inbox, postgres):
    one = armed()
    ids = due(60)
    one.arm("before_claim delay:300 *", SLOW)
    handler(one.sidecar, always(DONE))
    one.wait_hit("after_claim", times=4)
    postgres.crash()
    postgres.start()
    assert_handled(inbox, ids, one)


def test_sidecars_can_join_during_several_claims(armed, handler, due, inbox):
    """Each one claims the rest of its partitions while the claims of the previous owner are running."""
    sidecars = [armed(inbox={"instance": "i1"})]
    ids = due(90)
    sidecars[0].arm("after_claim delay:1500 *")
    clients = [handler(sidecars[0].sidecar, always(DONE))]
    sidecars[0].wait_hit("after_claim", times=3)
    for name in ("i2", "i3"):
        sidecars.append(armed(inbox={"instance": name}))
        sidecars[-1].arm("after_claim delay:300 *")
        clients.append(handler(sidecars[-1].sidecar, always(DONE)))
    assert_handled(inbox, ids, *sidecars)
    assert sorted(event_id for client in clients for event_id in client.event_ids) == sorted(ids)


def test_a_handler_can_connect_and_disconnect_during_claims(armed, handler, due, inbox):
    one = armed()
    ids = due(80)
    one.arm("after_claim delay:200 *")
    for _ in range(3):
        client = handler(one.sidecar, always(NEVER), max_in_flight=5)
        client.wait_count(3)
        with contextlib.suppress(AssertionError):
            client.close()
    handler(one.sidecar, always(DONE))
    assert_handled(inbox, ids, one)


@pytest.mark.parametrize("limits, value", [({"max_claimed": 1}, b"{}"), ({"max_claimed": 7}, b"{}"),
                                           ({"max_claimed_bytes": "1KiB"}, b"{}"),
                                           ({"max_claimed_bytes": "1MiB"}, b"x" * 100000)],
                         ids=["one", "seven", "a message", "ten messages"])
def test_claims_stay_within_a_small_budget(armed, handler, due, inbox, limits, value):
    one = armed(inbox=limits, worker={**WORKER, "connections": 8, "claim_batch": min(limits.get("max_claimed", 5), 5)})
    ids = due(60, value=value)
    client = handler(one.sidecar, always(DONE))
    assert_handled(inbox, ids, one)
    assert sorted(client.event_ids) == sorted(ids)


def test_concurrent_claims_share_the_budget(armed, handler, due, inbox):
    """G8: each one may exceed the budget by its last message, but has no budget of its own."""
    one = armed(inbox={"max_claimed_bytes": "2MiB"}, worker={**WORKER, "connections": 8, "claim_batch": 15})
    ids = due(120, value=b"x" * 100000)
    one.arm("after_claim delay:500 *")
    client = handler(one.sidecar, always(NEVER), max_in_flight=1000)
    one.wait_hit("after_claim", times=2)
    eventually(lambda: one.sidecar.metric("inboxd_claimed_bytes") > 1500000)
    most = max(_claimed_bytes(one.sidecar, seconds=3))
    assert most < 2097152 + 8 * 102000, most
    client.decide = always(DONE)
    for delivery in list(client.deliveries):
        client.answer(delivery, DONE)
    assert_handled(inbox, ids, one)


def _claimed_bytes(sidecar, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield sidecar.metric("inboxd_claimed_bytes")
        time.sleep(0.05)


def test_a_stuck_handler_leaves_the_others_their_share(armed, handler, due, inbox, make_topic, topic):
    other = make_topic(partitions=2)
    one = armed(inbox={"max_claimed": 100}, kafka={"topics": [topic, other]}, worker={**WORKER, "claim_batch": 20})
    ids = due(200, "still") + due(60, "other", topic=other)
    one.arm("after_claim delay:100 *")
    still = handler(one.sidecar, always(NEVER), name="still", subscribe=[{"topic": topic}], max_in_flight=1000)
    handler(one.sidecar, always(DONE), name="other", subscribe=[{"topic": other}])
    inbox.wait_processed(60)
    assert one.sidecar.metric("inboxd_claimed") <= 100
    still.decide = always(DONE)
    for delivery in list(still.deliveries):
        still.answer(delivery, DONE)
    assert_handled(inbox, ids, one)


@pytest.mark.parametrize("ordering, connections", [("none", 4), ("none", 2), ("key", 2), ("none", 1)])
def test_waiting_rows_are_counted_during_claims(armed, handler, due, inbox, ordering, connections):
    """The counts that pause ingest and that operators see must be current."""
    one = armed(worker={**WORKER, "connections": connections}, inbox={"ordering": ordering})
    ids = due(1200)
    eventually(lambda: one.sidecar.metric("inboxd_waiting") + one.sidecar.metric("inboxd_unrouted") >= 1200)
    one.arm("after_claim delay:40 2", "after_claim delay:80 2", "after_claim delay:120 *")  # one after the other
    handler(one.sidecar, always(DONE))
    eventually(lambda: 0 < one.sidecar.metric("inboxd_waiting") < 900, every=0.1)
    assert inbox.count("processed") < 1000
    one.arm()
    assert_handled(inbox, ids, one)


@pytest.mark.parametrize("lost", [[], ["error_after_claim error 3"]], ids=["heard", "unheard"])
def test_a_stop_during_several_claims_loses_nothing(armed, handler, due, streams, topic, inbox, lost):
    one = armed()
    ids = due(60)
    one.arm(SLOW, *lost)
    client = handler(one.sidecar, always(DONE))
    one.wait_hit("after_claim", times=3)
    streams.events(topic, ["late"])
    inbox.wait_stored(61)
    started = time.monotonic()
    one.sidecar.signal(signal.SIGTERM)
    assert one.sidecar.wait() == 0
    assert time.monotonic() - started < 10
    assert inbox.count("claimed") == 0
    seen = client.event_ids
    one.arm()
    one.sidecar.start()
    again = handler(one.sidecar, always(DONE))
    assert_handled(inbox, ids + ["late"], one)
    assert sorted(seen + again.event_ids) == sorted(ids + ["late"])
