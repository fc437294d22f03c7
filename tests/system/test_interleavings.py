"""Interleavings that had errors before: concurrent claims, retries, batches and heartbeats."""

import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER, retry

SLOW_CLAIM = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER UPDATE ON inbox.inbox_messages FOR EACH ROW
WHEN (OLD.available_at IS NOT NULL AND NEW.claimed_by IS NOT NULL AND NEW.event_id = 'k6'
      AND OLD.delivery_count = 0) EXECUTE FUNCTION public.slow()"""


def subscribed(name):
    return [{"types": [f"{name}.*"]}]


def send(produce, topic, event_id, kind="t", key="k", value=b"{}", partition=0):
    produce(topic, value, key=key, partition=partition,
            headers=[("id", event_id), ("eventType", f"{kind}.x")])


def test_a_running_claim_does_not_overtake_an_earlier_retry(start_inboxd, handler, produce, topic, inbox, db):
    sidecar = start_inboxd(inbox={"max_claimed": 2})
    db.execute(SLOW_CLAIM)
    first = {}

    def decide(delivery):
        if delivery.event_id in ("other", "k5") and delivery.event_id not in first:
            first[delivery.event_id] = delivery
            return NEVER
        return DONE

    client = handler(sidecar, decide)
    send(produce, topic, "other", key="other", partition=1)
    send(produce, topic, "k5")
    client.wait_count(2)
    send(produce, topic, "k6")
    eventually(lambda: inbox.message("k6")["status"] == "waiting")
    client.answer(first["other"], DONE)  # budget for k6: its claim takes a second
    time.sleep(0.5)
    client.answer(first["k5"], retry(delay_ms=3000))
    inbox.wait_processed(3)
    assert [(delivery.event_id, delivery.attempt) for delivery in client.deliveries
            if delivery.event_id != "other"] == [("k5", 1), ("k5", 2), ("k6", 1)]


def test_low_seq_never_passes_a_batch_in_flight(make_inboxd, handler, streams, produce, topic, inbox):
    """A row claimed from the table has a higher seq than a batch that is not committed yet."""
    sidecar = make_inboxd(ingest={"batch_wait": "200ms"}).start()
    handler(sidecar, lambda delivery: NEVER if delivery.event_id in ("a1", "a2") else DONE)
    blocker = inbox.connect()
    blocker.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition,"
                    " kafka_offset) VALUES (%s, 'dup', %s, 0, 999)", (topic, topic))
    streams.produce_many(topic, [{"value": b"{}", "key": event_id, "partition": 0,
                                  "headers": [("id", event_id)]} for event_id in ("a1", "a2", "dup")])
    time.sleep(0.7)  # the batch has its seqs and waits for the blocker
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic,"
                  " kafka_partition, kafka_offset, key, payload, available_at)"
                  " VALUES (%s, 'later', 't', %s, 0, 1000, 'zz', '{}', now())", (topic, topic))
    inbox.wait_processed(1)
    beat = inbox.value("SELECT max(heartbeat_at) FROM inbox.inbox_instances")
    eventually(lambda: inbox.value("SELECT max(heartbeat_at) FROM inbox.inbox_instances") > beat)
    blocker.rollback()
    blocker.close()
    inbox.wait_stored(4)
    # A heartbeat after the COMMIT may list a1 and a2 as stragglers, with a bound for the others above them.
    assert inbox.value("SELECT count(*) FROM inbox.inbox_instances i, inbox.inbox_messages m"
                       " WHERE m.event_id IN ('a1', 'a2')"
                       " AND (m.seq < i.low_seq OR (m.seq < i.low_rest AND m.seq <> ALL (i.stragglers)))") == 0
    sidecar.kill()
    sidecar.start()
    second = handler(sidecar, always(DONE))
    eventually(lambda: {"a1", "a2"} <= set(second.event_ids), timeout=60)


def test_a_message_replayed_without_its_handler_is_handled_later(inboxd, handler, produce, topic, inbox):
    handler(inboxd, always(DONE), name="a", subscribe=subscribed("a"))
    away = handler(inboxd, always(DONE), name="b", subscribe=subscribed("b"))
    send(produce, topic, "b1", kind="b")
    inbox.wait_processed(1)
    away.close()
    time.sleep(5)  # a sweep finds the partition clean
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'b1'")
    eventually(lambda: inbox.message("b1")["status"] == "parked")
    back = handler(inboxd, always(DONE), name="b", subscribe=subscribed("b"))
    eventually(lambda: back.event_ids == ["b1"])


def test_large_messages_of_one_handler_leave_memory_for_another(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed_bytes": "1MiB"})
    slow = handler(sidecar, name="a", subscribe=subscribed("a"))
    other = handler(sidecar, name="b", subscribe=subscribed("b"))
    slow.window(0)
    for number in range(100):
        send(produce, topic, f"a{number}", kind="a", key=f"a{number}", value=b'"%s"' % (b"x" * 20000))
    inbox.wait_stored(100)
    for number in range(10):
        send(produce, topic, f"b{number}", kind="b", key=f"b{number}")
    eventually(lambda: len(other.event_ids) == 10)


def test_a_paused_handler_returns_messages_above_its_share_of_memory(start_inboxd, handler, produce, streams, topic,
                                                                     inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 100})
    slow = handler(sidecar, name="a", subscribe=subscribed("a"))
    other = handler(sidecar, name="b", subscribe=subscribed("b"))
    slow.window(0)
    streams.produce_many(topic, [{"value": b"{}", "key": f"a{number % 150}", "partition": 0,
                                  "headers": [("id", f"a{number}"), ("eventType", "a.x")]}
                                 for number in range(300)])  # one batch uses the whole budget
    inbox.wait_stored(300)
    for number in range(10):
        send(produce, topic, f"b{number}", kind="b", key=f"b{number}")
    eventually(lambda: len(other.event_ids) == 10)
    slow.window(64)
    eventually(lambda: len(set(slow.event_ids)) == 300)
    assert all(slow.event_ids.index(f"a{number}") < slow.event_ids.index(f"a{number + 150}")
               for number in range(150))


def keyed_of(name, count, keys):
    return [{"value": b"{}", "key": f"{name}{number % keys}", "partition": 0,
             "headers": [("id", f"{name}{number}"), ("eventType", f"{name}.x")]} for number in range(count)]


@pytest.mark.parametrize("room", [20, 100])
def test_a_handler_that_filled_memory_makes_room_for_a_later_handler(start_inboxd, handler, produce, streams, topic,
                                                                     inbox, room):
    sidecar = start_inboxd(inbox={"max_claimed": room})
    slow = handler(sidecar, name="a", subscribe=subscribed("a"))
    slow.window(0)
    streams.produce_many(topic, keyed_of("a", 300, 300))
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.messages WHERE status = 'claimed'") == room)
    other = handler(sidecar, name="b", subscribe=subscribed("b"))
    for number in range(10):
        send(produce, topic, f"b{number}", kind="b", key=f"b{number}")
    eventually(lambda: len(other.event_ids) == 10)


def test_messages_behind_open_ones_are_returned_to_make_room(start_inboxd, handler, produce, streams, topic, inbox):
    """No message is ready, because one of each key is open."""
    sidecar = start_inboxd(inbox={"max_claimed": 100})
    slow = handler(sidecar, always(NEVER), name="a", subscribe=subscribed("a"))
    other = handler(sidecar, name="b", subscribe=subscribed("b"))
    streams.produce_many(topic, keyed_of("a", 300, 3))
    slow.wait_count(3)
    inbox.wait_stored(300)
    for number in range(10):
        send(produce, topic, f"b{number}", kind="b", key=f"b{number}")
    eventually(lambda: len(other.event_ids) == 10)
    assert len(slow.deliveries) == 3
    slow.decide = always(DONE)
    for delivery in list(slow.deliveries):
        slow.answer(delivery, DONE)
    eventually(lambda: len(slow.event_ids) == 300)
    assert sorted(slow.event_ids, key=lambda name: (int(name[1:]) % 3, int(name[1:]))) == \
        sorted(slow.event_ids, key=lambda name: int(name[1:]) % 3)


def commits(inbox):
    return inbox.value("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")


def test_a_full_partition_is_claimed_with_pauses(start_inboxd, handler, produce, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"ordering": "partition", "max_claimed": 100},
                           worker={"claim_batch": 10})
    handler(sidecar, always(NEVER), timeout_ms=60000)
    streams.produce_many(topic, [{"value": b"{}", "key": "k", "partition": 0,
                                  "headers": [("id", f"m{number}")]} for number in range(400)])
    inbox.wait_stored(400)
    time.sleep(3)
    before, began = commits(inbox), time.monotonic()
    time.sleep(3)
    assert commits(inbox) - before < 100 * (time.monotonic() - began)


def test_without_its_database_for_a_lease_nothing_new_is_delivered(start_inboxd, handler, streams, topic, inbox,
                                                                   postgres):
    sidecar = start_inboxd(worker={"lease": "4s"})
    client = handler(sidecar, always(NEVER), timeout_ms=60000, max_in_flight=1)
    streams.events(topic, [f"e{number}" for number in range(5)])
    inbox.wait_stored(5)
    client.wait_count(1)
    inbox.close()
    postgres.stop()
    time.sleep(6)
    client.answer(client.deliveries[0], DONE)
    time.sleep(1)
    assert client.count == 1
    postgres.start()
    client.wait_count(2)


SLOW_RAISE = """
CREATE TABLE public.held AS SELECT 1;
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN WHILE EXISTS (SELECT FROM public.held) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NULL; END $$;
CREATE TRIGGER slow AFTER UPDATE ON inbox.inbox_messages FOR EACH ROW
WHEN (NEW.crash_count > OLD.crash_count) EXECUTE FUNCTION public.slow()"""


def suspect_behind_a_busy_connection(sidecar, handler, produce, topic, inbox, first=DONE):
    """a is handled; b, of the same key, lost its connection; the only one left is busy with `other`. It answers the first
    message after that with `first`."""
    answers = [first]
    left = handler(sidecar, lambda delivery: DONE if delivery.event_id == "a" else NEVER)
    send(produce, topic, "a")
    inbox.wait_processed(1)
    send(produce, topic, "b")
    left.wait_event("b")
    stays = handler(sidecar, lambda delivery: NEVER if delivery.event_id == "other" else answers.pop() if answers else DONE)
    send(produce, topic, "other", key="other", partition=1)
    stays.wait_event("other")
    left.abort()
    eventually(lambda: inbox.message("b")["delivery_count"] == 2)
    return stays


def replay(inbox, event_id):
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = %s", [event_id])


def test_a_suspect_waiting_for_a_connection_does_not_overtake_its_key(inboxd, handler, produce, topic, inbox):
    stays = suspect_behind_a_busy_connection(inboxd, handler, produce, topic, inbox)
    replay(inbox, "a")
    stays.wait_event("a")  # also while the suspect would still wait
    stays.answer(stays.of("other")[0], DONE)
    inbox.wait_processed(3)
    assert stays.event_ids == ["other", "a", "b"]
    assert inbox.message("b")["crash_count"] == 0


def replay_while_a_crash_is_counted(stays, inbox, db):
    """`other` is answered, so the crash of b is counted. That ends when a has come back from the table."""
    db.execute(SLOW_RAISE)
    stays.answer(stays.of("other")[0], DONE)
    eventually(lambda: db.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").fetchall())
    replay(inbox, "a")
    eventually(lambda: inbox.message("a")["delivery_count"] > 1)
    db.execute("DELETE FROM public.held")


def test_a_suspect_whose_crash_is_being_counted_does_not_overtake_its_key(inboxd, handler, produce, topic, inbox, db):
    stays = suspect_behind_a_busy_connection(inboxd, handler, produce, topic, inbox)
    replay_while_a_crash_is_counted(stays, inbox, db)
    inbox.wait_processed(3)
    assert stays.event_ids == ["other", "a", "b"]
    assert inbox.message("b")["crash_count"] == 0


def test_a_suspect_whose_crash_is_being_counted_waits_for_the_retry_of_its_key(inboxd, handler, produce, topic, inbox, db):
    stays = suspect_behind_a_busy_connection(inboxd, handler, produce, topic, inbox, first=retry(delay_ms=2000))
    replay_while_a_crash_is_counted(stays, inbox, db)
    inbox.wait_processed(3)
    assert stays.event_ids == ["other", "a", "a", "b"]
