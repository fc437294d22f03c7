"""Hot keys: the next message of a key is delivered after the answer, before its COMMIT, and verdicts are committed in the
order of the key.

The tests lock a row in a transaction of their own. No settle waits for such a row, so its message stays unsettled.
"""

import contextlib
import itertools
import signal
import time

import pytest

from support.scripts import always, by_id, DONE, SETTLED
from support.wait import eventually, throughout, TimedOut
from support.wire import CLOSE, dead, done, Error, NEVER, retry, snooze

HOLD_S = 1.0  # longer than several tries to settle
COMMIT = {"inbox": {"next_after": "commit"}}
TABLES = """
CREATE TABLE public.ends (number bigint GENERATED ALWAYS AS IDENTITY, event_id text, xact xid8);
CREATE FUNCTION public.note_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.ends (event_id, xact) VALUES (NEW.event_id, pg_current_xact_id());
    RETURN NULL; END $$;
CREATE TRIGGER note_end AFTER UPDATE ON inbox.inbox_messages FOR EACH ROW
    WHEN (OLD.processed_at IS NULL AND NEW.processed_at IS NOT NULL) EXECUTE FUNCTION public.note_end()"""


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def send(streams, topic, inbox):
    """send(*ids): stores messages; the first letter is the key."""
    def produce(*ids):
        before = inbox.count()
        streams.events(topic, list(ids), key=lambda event_id: event_id[0])
        inbox.wait_stored(before + len(ids))

    return produce


@contextlib.contextmanager
def locked(inbox, *event_ids):
    """Locks rows until the end of the block."""
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT 1 FROM inbox.inbox_messages WHERE event_id = ANY (%s) FOR UPDATE", [list(event_ids)])
        yield own
        own.rollback()


@contextlib.contextmanager
def unsettled(inbox, client, event_id="k1", answer=DONE):
    """Answers the open message while its row is locked. The block begins when its settle waits for the lock, so that no
    later verdict can be in the same transaction."""
    with locked(inbox, event_id) as own:
        client.answer(client.wait_event(event_id), answer)
        eventually(lambda: inbox.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), every=0.01,
                   what=f"a settle of {event_id}")
        yield own


def ids(count, key="k"):
    return [f"{key}{number}" for number in range(1, count + 1)]


def processed(inbox):
    return [row["event_id"] for row in inbox.messages() if row["status"] == "processed"]


def in_order_of_commits(inbox):
    """Event ids; those of one transaction are sorted."""
    return [row["event_id"] for row in inbox.query(
        "SELECT event_id FROM (SELECT event_id, min(number) OVER (PARTITION BY xact) AS xact FROM public.ends) e"
        " ORDER BY xact, event_id")]


# --- K1 and K3: what the answer releases ------------------------------------------------------------------------------

def test_the_next_message_of_a_key_is_delivered_after_the_answer(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER}))
    send(*ids(3))
    with unsettled(inbox, client):
        client.wait_event("k3")
        throughout(lambda: not processed(inbox), HOLD_S)
    inbox.wait_processed(3)
    assert client.event_ids == ids(3)


def test_with_next_after_commit_it_waits_for_the_commit(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(COMMIT), by_id({"k1": NEVER}))
    send(*ids(3))
    with unsettled(inbox, client):
        throughout(lambda: client.event_ids == ["k1"], HOLD_S)
    inbox.wait_processed(3)
    assert client.event_ids == ids(3)


def test_the_next_message_of_a_partition_is_delivered_after_the_answer(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(inbox={"ordering": "partition"}), by_id({"k1": NEVER}))
    send("k1", "a1", "b1")
    with unsettled(inbox, client):
        client.wait_event("b1")
        throughout(lambda: not processed(inbox), HOLD_S)
    inbox.wait_processed(3)
    assert client.event_ids == ["k1", "a1", "b1"]


def test_a_key_has_a_limited_number_of_unsettled_messages(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(inbox={"max_unsettled_per_key": 3}), by_id({"k1": NEVER}))
    send(*ids(10), "o1")
    with unsettled(inbox, client):
        client.wait_event("k3")
        inbox.wait_status("o1", "processed")
        throughout(lambda: client.count == 4, HOLD_S)
    inbox.wait_processed(11)
    assert [event_id for event_id in client.event_ids if event_id != "o1"] == ids(10)


def test_messages_above_the_limit_are_delivered_as_verdicts_are_committed(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(inbox={"max_unsettled_per_key": 2}), by_id({"k1": NEVER}))
    send(*ids(5))
    with locked(inbox, "k2"):
        client.answer(client.wait_event("k1"), DONE)
        inbox.wait_status("k1", "processed")
        client.wait_event("k3")
        throughout(lambda: client.event_ids == ids(3), HOLD_S)
    inbox.wait_processed(5)
    assert client.event_ids == ids(5)


# --- K1: what stops a lane --------------------------------------------------------------------------------------------

FAILING = {"retry": retry(delay_ms=1), "error": Error("failed"), "snooze": snooze(100), "dead": dead("no"),
           "unknown": {"status": "unknown"}}


@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING)
def test_any_other_answer_stops_the_key_until_it_is_committed(inboxd, handler, send, inbox, answer):
    client = handler(inboxd, by_id({"k1": [NEVER]}))
    send(*ids(2))
    with unsettled(inbox, client, answer=answer):
        throughout(lambda: client.event_ids == ["k1"], HOLD_S)
    client.wait_event("k2")
    assert client.event_ids == (["k1", "k2"] if answer == FAILING["dead"] else ["k1", "k1", "k2"])


@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING)
def test_it_does_so_behind_an_unsettled_message(inboxd, handler, send, inbox, answer):
    client = handler(inboxd, by_id({"k1": NEVER, "k2": [answer]}))
    send(*ids(3))
    with unsettled(inbox, client):
        client.wait_event("k2")
        throughout(lambda: client.event_ids == ["k1", "k2"], HOLD_S)
        assert inbox.message("k1")["status"] == inbox.message("k2")["status"] == "claimed"
    client.wait_event("k3")
    assert client.event_ids == (ids(3) if answer == FAILING["dead"] else ["k1", "k2", "k2", "k3"])


def test_behind_a_short_retry_no_row_is_updated(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": [retry(delay_ms=1000)]}))
    send(*ids(20))
    eventually(lambda: inbox.message("k1")["retry_count"] == 1, what="k1 to wait for its retry")
    found = {row["event_id"]: row["status"] for row in inbox.messages()}
    assert found.pop("k1") != "retrying" or set(found.values()) == {"claimed"}
    inbox.wait_processed(20)
    assert client.event_ids == ["k1", *ids(20)]
    assert inbox.query("SELECT DISTINCT delivery_count FROM inbox.inbox_messages WHERE event_id <> 'k1'") == \
        [{"delivery_count": 1}]


def test_behind_a_long_retry_messages_leave_memory(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": [retry(delay_ms=3000)]}))
    send(*ids(5))
    inbox.wait_processed(5)
    assert client.event_ids == ["k1", *ids(5)]
    assert inbox.query("SELECT DISTINCT delivery_count FROM inbox.inbox_messages WHERE event_id <> 'k1'") == [{"delivery_count": 2}]


def test_messages_that_arrive_during_a_short_retry_keep_their_place(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": [retry(delay_ms=1500)]}))
    send(*ids(3))
    eventually(lambda: inbox.message("k1")["retry_count"] == 1, what="k1 to wait for its retry")
    send("k4", "k5")
    found = {row["event_id"]: row["status"] for row in inbox.messages()}
    assert found["k1"] != "retrying" or found["k5"] in ("parked", "claimed")
    inbox.wait_processed(5)
    assert client.event_ids == ["k1", *ids(5)]


def test_when_a_short_retry_does_not_come_the_key_goes_on(inboxd, handler, send, inbox):
    """An operator discards the message for which the others wait in memory. It may come before a test that stood still
    discards it, so one of three keys must do."""
    client = handler(inboxd, by_id({f"{key}1": [retry(delay_ms=1500)] for key in "klm"}))

    def discarded(key):
        send(*ids(3, key))
        eventually(lambda: inbox.message(f"{key}1")["retry_count"] == 1, what=f"{key}1 to wait for its retry")
        return inbox.value("SELECT inbox.discard(source, event_id) FROM inbox.inbox_messages WHERE event_id = %s", [f"{key}1"])

    key = next(key for key in "klm" if discarded(key))
    client.wait_event(f"{key}3")
    assert [event_id for event_id in client.event_ids if event_id[0] == key] == ids(3, key)


def test_an_earlier_message_replayed_during_a_short_retry_does_not_stop_the_key(inboxd, handler, send, inbox):
    """k3 and k4 wait in memory for the retry of k2 when k1 comes back. The retry may come before a test that stood still
    replays k1, so one of three keys must do."""
    client = handler(inboxd, by_id({f"{key}2": [retry(delay_ms=1500)] for key in "klm"}))

    def replayed(key):
        send(*ids(4, key))
        eventually(lambda: inbox.message(f"{key}2")["retry_count"] == 1, what=f"{key}2 to wait for its retry")
        return inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = %s AND EXISTS (SELECT FROM"
                             " inbox.inbox_messages WHERE event_id = %s AND available_at > clock_timestamp() + interval '0.5 s')",
                             [f"{key}1", f"{key}2"])

    key = next(key for key in "klm" if replayed(key))
    inbox.wait_processed(inbox.count())
    assert [event_id for event_id in client.event_ids if event_id[0] == key] == [f"{key}{number}" for number in (1, 2, 1, 2, 3, 4)]


@pytest.mark.parametrize("ordering", ["key", "partition"])
def test_a_short_retry_takes_a_short_time(start_inboxd, handler, send, inbox, ordering):
    """On a machine that stands still in between it takes longer, so one of three keys must do."""
    client = handler(start_inboxd(inbox={"ordering": ordering}), by_id({f"{key}1": [retry(delay_ms=100)] for key in "klm"}))
    took = []
    while min(took, default=9) > 2.5 and len(took) < 3:
        key = "klm"[len(took)]
        send(*ids(20, key))
        began = time.monotonic()
        inbox.wait_processed(20 * (len(took) + 1))
        took.append(time.monotonic() - began)
        assert client.event_ids[-21:] == [f"{key}1", *ids(20, key)]
    assert min(took) <= 2.5, f"seconds, by key: {took}"


SLOW_CLAIM = """
CREATE FUNCTION public.slow_claim() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$;
CREATE TRIGGER slow_claim BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW
    WHEN (NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL AND NEW.event_id = 'k17')
    EXECUTE FUNCTION public.slow_claim()"""


def test_a_claim_for_a_hot_key_does_not_end_the_wait_for_a_retry(start_inboxd, handler, produce, topic, inbox, db):
    """k17 to k20 wait in the table for their handler. They are claimed while k9 goes back for its retry."""
    sidecar = start_inboxd(inbox={"handler_memory": "0"})
    one = handler(sidecar, by_id({"k1": [NEVER], "k9": [NEVER]}), name="one", subscribe=[{"types": ["a"]}])
    for number, event_id in enumerate(ids(20), 1):
        produce(topic, b"{}", key="k", partition=0, headers={"id": event_id, "type": "a" if number <= 16 else "b"})
    inbox.wait_stored(20)
    k1 = one.wait_event("k1")
    eventually(lambda: inbox.message("k20")["status"] == "parked", what="k20 to be parked")
    two = handler(sidecar, always(DONE), name="two", subscribe=[{"types": ["b"]}])
    db.execute(SLOW_CLAIM)
    one.answer(k1, DONE)
    k9 = one.wait_event("k9")
    with contextlib.suppress(TimedOut):  # without the claim the test shows nothing, and does not fail
        eventually(lambda: db.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").fetchall(), 5)
    one.answer(k9, retry(delay_ms=1000))
    inbox.wait_processed(20)
    assert one.event_ids == [*ids(9), "k9", *ids(16)[9:]]
    assert two.event_ids == ids(20)[16:]


def test_one_refused_row_of_a_key_does_not_use_up_max_in_flight(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(inbox={"max_in_flight": 100})
    client = handler(sidecar, by_id({"k1": NEVER}), max_in_flight=50)
    send(*ids(150))
    inbox.execute(TABLES)
    refuse(inbox, "k1")
    client.answer(client.wait_event("k1"), DONE)
    eventually(lambda: sidecar.metric("inboxd_rows_set_aside", operation="settle") == 1, what="k1 to be set aside")
    send(*ids(5, "o"))
    eventually(lambda: set(ids(5, "o")) <= set(processed(inbox)), what="the other key to be processed")


def test_a_timeout_stops_the_key_until_it_is_committed(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": [NEVER]}))
    send(*ids(2))
    with locked(inbox, "k1"):
        client.extend(client.wait_event("k1"), 300)
        client.wait_cancel(client.of("k1")[0].id)
        throughout(lambda: client.event_ids == ["k1"], HOLD_S)
    inbox.wait_processed(2)
    assert client.event_ids == ["k1", "k1", "k2"]


def test_a_lost_connection_stops_the_key_until_it_is_committed(inboxd, handler, send, inbox):
    lost = handler(inboxd, by_id({"k2": NEVER}))
    send("k1")
    inbox.wait_processed(1)
    send("k2", "k3")
    with locked(inbox, "k2"):
        lost.answer(lost.wait_event("k2"), CLOSE)
        client = handler(inboxd, always(DONE))
        throughout(lambda: not client.deliveries, HOLD_S)
    inbox.wait_processed(3)
    assert client.event_ids == ["k2", "k3"]


def test_settled_waits_for_the_transaction_of_the_handler(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER}))
    send(*ids(2))
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT inbox.complete(%s)", [client.wait_event("k1").claim])
        client.answer(client.of("k1")[0], SETTLED)
        throughout(lambda: client.event_ids == ["k1"], HOLD_S)
        own.commit()
    inbox.wait_processed(2)
    assert client.event_ids == ids(2)


def test_messages_behind_a_completed_one_stay_in_memory(inboxd, handler, send, inbox):
    """No row behind it is updated to wait in the table, and claimed again."""
    client = handler(inboxd, by_id({"k1": NEVER}))
    send(*ids(2))
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT inbox.complete(%s)", [client.wait_event("k1").claim])
        client.answer(client.of("k1")[0], SETTLED)
        throughout(lambda: client.event_ids == ["k1"], 0.3)
        send("k3")
        own.commit()
    inbox.wait_processed(3)
    assert client.event_ids == ids(3)
    assert inbox.query("SELECT event_id FROM inbox.inbox_messages WHERE delivery_count > 1") == []


def test_messages_behind_one_that_was_not_completed_follow_its_retry(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(retry={"backoff": "100ms"}), by_id({"k1": [NEVER, DONE]}))
    send(*ids(3))
    client.answer(client.wait_event("k1"), SETTLED)
    inbox.wait_processed(3)
    assert client.event_ids == ["k1", *ids(3)]
    assert inbox.message("k1")["retry_count"] == 1
    assert [row["event_id"] for row in inbox.query("SELECT event_id FROM inbox.inbox_messages WHERE delivery_count > 1")] == ["k1"]


@pytest.mark.parametrize("attempts", [10, 1], ids=["then a retry", "then dead"])
def test_a_completion_that_hangs_does_not_fill_memory(start_inboxd, handler, send, inbox, attempts):
    """Its key waits; other keys go on."""
    client = handler(start_inboxd(inbox={"max_claimed": 20}, retry={"max_attempts": attempts}), by_id({"k1": NEVER}))
    send("k1")
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT inbox.complete(%s)", [client.wait_event("k1").claim])
        client.answer(client.of("k1")[0], SETTLED)
        send(*ids(60)[1:])
        send("o1")
        inbox.wait_status("o1", "processed")
        assert client.event_ids == ["k1", "o1"]
        own.commit()
    inbox.wait_processed(61)
    assert client.event_ids == ["k1", "o1", *ids(60)[1:]]


def test_settled_stops_the_key_behind_an_unsettled_message(inboxd, handler, send, inbox):
    """Its row is completed, but the sidecar looks into it after the verdicts before."""
    client = handler(inboxd, by_id({"k1": NEVER, "k2": NEVER}))
    send(*ids(3))
    with unsettled(inbox, client):
        inbox.execute("SELECT inbox.complete(%s)", [client.wait_event("k2").claim])
        client.answer(client.of("k2")[0], SETTLED)
        throughout(lambda: client.event_ids == ids(2), HOLD_S)
    inbox.wait_processed(3)
    assert client.event_ids == ids(3)


def test_a_completion_behind_a_locked_row_does_not_fill_memory(start_inboxd, handler, send, inbox):
    client = handler(start_inboxd(inbox={"max_claimed": 20}), by_id({"k1": NEVER, "k2": NEVER}))
    send(*ids(2))
    with unsettled(inbox, client):
        inbox.execute("SELECT inbox.complete(%s)", [client.wait_event("k2").claim])
        client.answer(client.of("k2")[0], SETTLED)
        send(*ids(60)[2:])
        send("o1")
        inbox.wait_status("o1", "processed")
    inbox.wait_processed(61)
    assert [event_id for event_id in client.event_ids if event_id != "o1"] == ids(60)


# --- K2: the order of the verdicts ------------------------------------------------------------------------------------

def test_verdicts_behind_a_locked_row_wait_for_it(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER}))
    send(*ids(6), "o1")
    inbox.execute(TABLES)
    with locked(inbox, "k2", "k5"):
        client.answer(client.wait_event("k1"), DONE)
        client.wait_event("k6")
        inbox.wait_status("k1", "processed")
        throughout(lambda: set(processed(inbox)) <= {"k1", "o1"}, HOLD_S)
    inbox.wait_processed(7)
    assert [event_id for event_id in in_order_of_commits(inbox) if event_id != "o1"] == ids(6)
    assert len(client.event_ids) == 7


def test_a_verdict_with_a_result_keeps_its_place(inboxd, handler, send, inbox):
    """Plain verdicts and others are settled by different statements."""
    client = handler(inboxd, by_id({"k1": NEVER, "k3": done({"n": 3}), "k4": done("\0")}))
    send(*ids(6))
    inbox.execute(TABLES)
    with unsettled(inbox, client):
        client.wait_event("k6")
    inbox.wait_processed(6)
    assert in_order_of_commits(inbox) == ids(6)
    assert inbox.message("k3")["result"] == {"n": 3}


def refuse(inbox, event_id):
    inbox.execute(f"""
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not this row' USING ERRCODE = 'P0001'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW
        WHEN (NEW.event_id = '{event_id}' AND NEW.processed_at IS NOT NULL) EXECUTE FUNCTION public.refuse()""")


def test_verdicts_behind_a_refused_row_wait_for_it(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER}))
    send(*ids(5), *ids(5, "o"))
    inbox.execute(TABLES)
    refuse(inbox, "k2")
    client.answer(client.wait_event("k1"), DONE)
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="settle") == 1)
    eventually(lambda: set(processed(inbox)) == {"k1", *ids(5, "o")})
    throughout(lambda: not {"k2", "k3", "k4", "k5"} & set(processed(inbox)), HOLD_S)
    inbox.execute("DROP TRIGGER refuse ON inbox.inbox_messages")
    inbox.wait_processed(10)
    assert [event_id for event_id in in_order_of_commits(inbox) if event_id[0] == "k"] == ids(5)
    assert len(client.event_ids) == 10


TAKE_CLAIM = """
UPDATE inbox.inbox_messages SET claimed_by = NULL, available_at = now() WHERE event_id = %s"""


def test_a_lost_claim_brings_the_later_messages_again(inboxd, handler, send, inbox):
    """Also the one that is open when the loss is found."""
    client = handler(inboxd, by_id({"k1": [NEVER], "k4": [NEVER]}))
    send(*ids(5))
    inbox.execute(TABLES)
    with unsettled(inbox, client) as own:
        client.wait_event("k4")
        own.execute(TAKE_CLAIM, ["k1"])
        own.commit()
    eventually(lambda: {inbox.message(event_id)["delivery_count"] for event_id in ids(3)} == {2})
    client.answer(client.wait_event("k4"), DONE)
    inbox.wait_processed(5)
    assert in_order_of_commits(inbox) == ids(5)
    assert client.event_ids == ids(4) + ids(5)
    assert {row["retry_count"] for row in inbox.messages()} == {0}


def test_a_lost_claim_is_delivered_before_messages_that_arrive_later(inboxd, handler, send, inbox):
    """Also when it is not due yet, so that no claim brings it at once."""
    client = handler(inboxd, by_id({"k1": [NEVER]}))
    send("k1")
    with unsettled(inbox, client) as own:
        own.execute("UPDATE inbox.inbox_messages SET claimed_by = NULL, available_at = now() + interval '2 s'"
                    " WHERE event_id = 'k1'")
        own.commit()
    eventually(lambda: inboxd.metric("inboxd_claim_lost_total") == 1)
    send("k2", "k3")
    inbox.wait_processed(3)
    assert client.event_ids == ["k1", "k1", "k2", "k3"]


def test_a_claim_lost_in_the_middle_leaves_the_earlier_verdicts(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": [NEVER]}))
    send(*ids(5))
    inbox.execute(TABLES)
    with locked(inbox, "k1") as own, locked(inbox, "k3") as other:
        client.answer(client.wait_event("k1"), DONE)
        client.wait_event("k5")
        other.execute(TAKE_CLAIM, ["k3"])
        other.commit()
        time.sleep(HOLD_S)  # k3 can come again before the settle finds that it was lost, and then it does once more
        own.rollback()
    inbox.wait_processed(5)
    assert in_order_of_commits(inbox) == ids(5)
    assert [event_id for event_id, _ in itertools.groupby(client.event_ids)] == ids(5) + ["k3", "k4", "k5"]


# --- K4 and K7: restarts, crashes and new owners ----------------------------------------------------------------------

def test_a_stop_settles_what_was_answered(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER}), max_in_flight=1)
    send(*ids(3))
    with unsettled(inbox, client):
        client.wait_event("k3")
        inboxd.signal(signal.SIGTERM)
        throughout(inboxd.is_running, HOLD_S)
    assert inboxd.wait() == 0
    assert processed(inbox) == ids(3)
    inboxd.start()
    again = handler(inboxd, always(DONE))
    send("k4")
    inbox.wait_processed(4)
    assert again.event_ids == ["k4"]


def sessions(inbox):
    return inbox.query("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'inboxd/%' AND datname = current_database()")


def test_a_crash_shows_the_unsettled_messages_again_in_order(inboxd, handler, send, inbox):
    client = handler(inboxd, by_id({"k1": NEVER, "k4": NEVER}))
    send(*ids(5))
    inbox.execute(TABLES)
    with unsettled(inbox, client):
        client.wait_event("k4")
        inboxd.kill()
        eventually(lambda: not sessions(inbox), what="the last transaction to fail because of the lock")
    inboxd.start()
    again = handler(inboxd, always(DONE))
    inbox.wait_processed(5)
    assert again.event_ids == ids(5)
    assert in_order_of_commits(inbox) == ids(5)


def test_with_next_after_commit_a_crash_shows_one_message_again(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(COMMIT)
    client = handler(sidecar, by_id({"k2": NEVER}))
    send("k1")
    inbox.wait_processed(1)
    send("k2", "k3")
    with unsettled(inbox, client, "k2"):
        throughout(lambda: client.event_ids == ["k1", "k2"], HOLD_S)
        sidecar.kill()
        eventually(lambda: not sessions(inbox), what="the last transaction to fail because of the lock")
    sidecar.start()
    again = handler(sidecar, always(DONE))
    inbox.wait_processed(3)
    assert again.event_ids == ["k2", "k3"]


@pytest.fixture
def taken_over(start_inboxd, handler, send, inbox):
    """The first sidecar has k1 to k3 answered and not settled; the second one has its partition."""
    def take(own, end):
        first = start_inboxd(inbox={"shutdown_timeout": "60s"})  # longer than the test needs
        old = handler(first, by_id({"k1": NEVER}))
        send(*ids(3))
        own.execute("SELECT 1 FROM inbox.inbox_messages WHERE event_id = 'k1' FOR UPDATE")
        old.answer(old.wait_event("k1"), DONE)
        old.wait_event("k3")
        second = start_inboxd(inbox={"instance": "second"})
        new = handler(second, always(DONE))
        end(first)
        send("k4", "o1")
        new.wait_event("o1")
        throughout(lambda: new.event_ids == ["o1"], HOLD_S)
        return first, new

    return take


def test_a_new_owner_waits_for_unsettled_messages(taken_over, inbox):
    with contextlib.closing(inbox.connect()) as own:
        first, new = taken_over(own, lambda sidecar: sidecar.signal(signal.SIGTERM))
        own.rollback()
    inbox.wait_processed(5)
    assert new.event_ids == ["o1", "k4"]
    assert first.wait() == 0


def test_a_new_owner_delivers_the_unsettled_messages_of_a_dead_one(taken_over, inbox):
    """The transaction keeps k1 locked although its sidecar is dead, so its rescue waits as well."""
    with contextlib.closing(inbox.connect()) as own:
        _, new = taken_over(own, lambda sidecar: sidecar.kill())
        eventually(lambda: inbox.message("k3")["status"] != "claimed")
        throughout(lambda: new.event_ids == ["o1"], HOLD_S)
        own.rollback()
    inbox.wait_processed(5)
    assert new.event_ids == ["o1", *ids(4)]
