"""Memory and table stay within their limits with any input."""

import time

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER


MIB = 1 << 20


def test_partitions_pause_above_max_pending_and_resume_below_it(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(ingest={"max_pending": 500, "batch_messages": 100})
    streams.events(topic, [f"e{number}" for number in range(5000)])
    eventually(lambda: inbox.count() >= 400)  # it pauses before 500, because some are not placed yet
    eventually(lambda: sidecar.metric("inboxd_partitions_paused") == 4)
    stored = inbox.count()
    assert stored < 5000
    throughout(lambda: inbox.count() <= stored + 400, 1)
    assert sidecar.get("/readyz")[0] == 200
    handler(sidecar, always(DONE))
    inbox.wait_processed(5000)
    eventually(lambda: sidecar.metric("inboxd_partitions_paused") == 0)


def test_memory_holds_no_more_messages_than_allowed(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 50, "max_in_flight": 10},
                           worker={"claim_batch": 20})
    client = handler(sidecar, always(NEVER), max_in_flight=10)
    streams.events(topic, [f"e{number}" for number in range(1000)])
    inbox.wait_stored(1000)
    eventually(lambda: len(client.deliveries) == 10)
    assert inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE claimed_by IS NOT NULL"
                       " AND processed_at IS NULL") <= 50
    client.decide = always(DONE)
    for delivery in list(client.deliveries):
        client.answer(delivery, DONE)
    inbox.wait_processed(1000)


def test_while_a_handler_makes_room_no_message_is_stored_waiting(start_inboxd, handler, streams, topic, inbox):
    """Room for a batch needs 0.3 s here, longer than one turn of the wait. Ingest waits for 2 s at most. The handler takes
    batches, so a busy machine adds little to the 0.3 s. It may still stand still for longer, so one of three rounds must do."""
    sidecar = start_inboxd(inbox={"max_claimed": 120, "max_in_flight": 20}, worker={"claim_batch": 20},
                           ingest={"batch_messages": 60})

    def decide(_):
        time.sleep(0.005)
        return DONE

    handler(sidecar, decide, batch=20, max_in_flight=20)
    claimed = []
    while 0 not in claimed and len(claimed) < 3:
        after = inbox.value("SELECT coalesce(max(seq), 0) FROM inbox.inbox_messages")
        streams.events(topic, [f"{len(claimed)}-{number}" for number in range(800)])
        inbox.wait_processed(800 * (len(claimed) + 1))
        claimed.append(inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE delivery_count > 1 AND seq > %s", [after]))
    assert 0 in claimed, f"messages that were claimed from the table, by round: {claimed}"


def test_large_messages_stay_within_the_memory_budget(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed_bytes": "8MiB"})
    streams.produce_many(topic, ({"value": b"x" * MIB, "headers": [("id", f"e{number}")]}
                                 for number in range(400)))
    inbox.wait_stored(400, timeout=120)
    assert sidecar.peak_memory() < 300 * MIB


def test_a_slow_handler_does_not_delay_storing(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(NEVER), max_in_flight=1)
    streams.events(topic, [f"e{number}" for number in range(2000)])
    inbox.wait_stored(2000)
