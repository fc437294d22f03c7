"""Rules of claims, sessions and suspects that are visible in the table or on the socket."""

import threading
import time

import pytest

from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, retry

SPY = """
CREATE TABLE public.seen (lock_timeout interval, idle interval, name text);
CREATE FUNCTION public.spy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.seen VALUES (current_setting('lock_timeout')::interval,
        current_setting('idle_in_transaction_session_timeout')::interval,
        current_setting('application_name'));
    RETURN NULL; END $$;
CREATE TRIGGER spy AFTER INSERT OR UPDATE ON inbox.inbox_messages FOR EACH STATEMENT
    EXECUTE FUNCTION public.spy()"""


def test_each_transaction_ends_before_the_lease(start_inboxd, handler, streams, topic, inbox, db):
    """R5: storing, claiming and settling. The session has the name of its instance."""
    sidecar = start_inboxd(worker={"lease": "4s"})
    db.execute(SPY)
    handler(sidecar, by_id({"a": [retry(delay_ms=1)]}))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    assert inbox.value("SELECT count(*) FROM seen WHERE lock_timeout > '0'") >= 4
    assert inbox.value("SELECT count(*) FROM seen WHERE lock_timeout >= '4 s' OR lock_timeout = '0'"
                       " OR idle >= '4 s' OR idle = '0'") == 0
    assert [row["name"] for row in inbox.query("SELECT DISTINCT name FROM seen")] == \
        [f"inboxd/{sidecar.status()['instance']}"]


def test_a_parked_message_that_is_in_no_memory_is_found(inboxd, handler, produce, topic, inbox):
    """R13: the state parked can be derived from the table."""
    handler(inboxd, by_id({"a": [retry(delay_ms=3_600_000)]}))
    produce(topic, b"{}", key="k", headers=[("id", "a")])
    inbox.wait_status("a", "retrying")
    inbox.execute("UPDATE inbox.inbox_messages SET available_at = 'infinity'")
    inbox.wait_processed(1)


@pytest.fixture
def waiting_suspect(inboxd, handler, streams, topic, inbox):
    """The connection that `suspect` has reserved and waits for: it still has `busy` open. Its later answers are `done`."""
    first = handler(inboxd, always(NEVER))
    streams.events(topic, ["suspect"])
    first.wait_event("suspect")
    reserved = handler(inboxd, by_id({"busy": NEVER}, DONE))
    first.window(0)
    streams.events(topic, ["busy"])
    reserved.wait_event("busy")
    first.abort()
    eventually(lambda: inbox.message("suspect")["delivery_count"] == 2 and inbox.message("suspect")["status"] == "claimed")
    return reserved


def test_a_suspect_whose_row_is_locked_keeps_no_connection(waiting_suspect, streams, topic, inbox):
    """R14: its handler's transaction may be open again. The other messages must not wait for its end."""
    with inbox.connect() as own, own.transaction(force_rollback=True):
        own.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'suspect' FOR UPDATE")
        waiting_suspect.answer(waiting_suspect.of("busy")[0], DONE)
        streams.events(topic, [f"other-{number}" for number in range(20)])
        inbox.wait_processed(21)
        assert "suspect" not in waiting_suspect.event_ids
    inbox.wait_status("suspect", "processed")


def test_a_suspect_leaves_a_connection_whose_window_is_closed(waiting_suspect, inboxd, handler):
    """R14: a handler closes its window while its service is away. Another connection of it takes the suspect."""
    waiting_suspect.window(0)
    handler(inboxd, always(DONE)).wait_event("suspect")


def test_many_suspects_leave_half_of_the_time_to_other_messages(inboxd, handler, streams, topic, inbox):
    stored = threading.Event()

    def slow(_):
        stored.wait(30)
        time.sleep(0.1)
        return DONE

    first = handler(inboxd, always(NEVER), max_in_flight=30)
    streams.events(topic, [f"suspect-{number}" for number in range(30)])
    first.wait_count(30)
    first.abort()
    second = handler(inboxd, slow, max_in_flight=30)
    second.wait_count(1)
    streams.events(topic, [f"new-{number}" for number in range(5)])
    inbox.wait_stored(35)
    stored.set()
    inbox.wait_processed(35)
    assert max(second.event_ids.index(f"new-{number}") for number in range(5)) < 20


def test_a_suspect_completed_by_its_handler_blocks_no_connection(inboxd, handler, produce, topic, inbox):
    """R14: its crash count can no longer be raised. The attempts must end, and its connection must be free again."""
    def send(event_id):
        produce(topic, b"{}", headers=[("id", event_id)])

    first = handler(inboxd, always(NEVER))
    send("suspect")
    first.wait_event("suspect")
    blocker = handler(inboxd, always(NEVER))
    first.window(0)
    send("busy")
    busy = blocker.wait_event("busy")
    first.abort()
    eventually(lambda: inbox.message("suspect")["suspect"] and inbox.message("suspect")["status"] == "claimed")
    assert inbox.execute("UPDATE inbox.inbox_messages SET processed_at = now() WHERE event_id = 'suspect'") == 1
    blocker.answer(busy, DONE)
    inbox.wait_processed(2)
    send("next")
    blocker.wait_event("next")
    assert blocker.of("suspect") == []


# --- A partition gets another owner --------------------------------------------------------------------


@pytest.fixture
def two_partitions(make_topic, configuration):
    made = make_topic(partitions=2)
    configuration["kafka"]["topics"] = [made]
    return made


def test_undelivered_messages_of_the_old_owner_are_returned_at_once(two_partitions, start_inboxd, handler, streams,
                                                                    inbox):
    """R12: the handler never answers one message; the second sidecar gets the others."""
    first = start_inboxd()
    handler(first, always(NEVER), max_in_flight=1, timeout_ms=600_000)
    streams.produce_many(two_partitions, [
        {"value": b"{}", "key": f"k{number}", "partition": number % 2, "headers": [("id", f"e{number}")]}
        for number in range(20)])
    inbox.wait_stored(20)
    assert inbox.count("claimed") == 20
    second = start_inboxd(inbox={"instance": "second"})
    handler(second, always(DONE))
    eventually(lambda: inbox.count("processed") >= 9)


def test_open_deliveries_of_the_old_owner_end_within_one_timeout(two_partitions, start_inboxd, handler, streams, inbox):
    """R12: extensions do not change this limit; after it the new owner delivers the key."""
    first = start_inboxd(worker={"lease": "30s"})
    old = handler(first, always(NEVER), timeout_ms=5000)
    streams.produce_many(two_partitions, [
        {"value": b"{}", "key": f"k{number}", "partition": number, "headers": [("id", f"e{number}")]}
        for number in range(2)])
    opened = old.wait_count(2)

    def extended():
        for delivery in opened:
            old.extend(delivery, 30_000)
        return True

    throughout(lambda: extended() and not old.cancels, seconds=3, every=0.2)
    second = start_inboxd(inbox={"instance": "second"}, worker={"lease": "30s"})
    new = handler(second, always(DONE))
    eventually(lambda: extended() and new.count == 1, timeout=60, every=0.2)
    assert [cancel["reason"] for cancel in old.cancels] == ["lease_lost"]
    assert inbox.message(new.event_ids[0])["retry_count"] == 0
