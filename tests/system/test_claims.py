"""Claims from the table: their number and concurrency."""

import pytest

from support.scripts import always, DONE
from support.wait import eventually

# Each claim of due rows takes a moment and notes how many there are.
WATCH = """
CREATE TABLE public.claims (at_once bigint);
CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF current_query() LIKE '%due AS MATERIALIZED%' THEN
        PERFORM pg_advisory_xact_lock_shared(4711);
        PERFORM pg_sleep(0.2);
        INSERT INTO public.claims SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON inbox.inbox_messages FOR EACH STATEMENT EXECUTE FUNCTION public.watch()"""


def test_a_parked_backlog_is_released_fast_when_its_handler_connects(start_inboxd, handler, streams, topic, inbox):
    """With fifty every three seconds it would take two minutes."""
    sidecar = start_inboxd(inbox={"ordering": "none"}, worker={"claim_batch": 50})
    streams.produce_many(topic, ({"value": b"{}", "partition": 0, "headers": [("id", f"e{number}")]}
                                 for number in range(2000)))
    eventually(lambda: inbox.count("parked") == 2000)
    handler(sidecar, always(DONE))
    inbox.wait_processed(2000)


@pytest.mark.parametrize("ordering, most", [("none", 3), ("key", 1)])
def test_claims_run_concurrently_only_without_order(start_inboxd, handler, streams, topic, inbox, db, ordering, most):
    sidecar = start_inboxd(inbox={"ordering": ordering}, worker={"connections": 4, "claim_batch": 5})
    streams.events(topic, [f"e{number}" for number in range(100)], key=lambda event_id: event_id)
    eventually(lambda: inbox.count("parked") == 100)
    db.execute(WATCH)
    client = handler(sidecar, always(DONE))
    inbox.wait_processed(100)
    assert inbox.value("SELECT max(at_once) FROM public.claims") == most
    assert sorted(delivery.event_id for delivery in client.deliveries) == sorted(f"e{number}" for number in range(100))


def test_a_message_due_behind_the_claim_cursor_does_not_wait_for_the_backlog(start_inboxd, handler, streams, topic,
                                                                             inbox, db):
    """As if its transaction had started earlier and committed later. There is no notification."""
    sidecar = start_inboxd(inbox={"ordering": "none", "max_claimed": 20}, worker={"connections": 2, "claim_batch": 5})
    streams.events(topic, [f"e{number}" for number in range(100)])
    eventually(lambda: inbox.count("parked") == 100)

    seen = []

    def decide(delivery):
        seen.append(delivery.event_id)
        if len(seen) == 15:  # it arrives while most of the backlog is not claimed: memory has room for twenty
            inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at)"
                          " VALUES ('s', 'late', %s, 0, 1000, now() - interval '1 hour')", [topic])
        return DONE

    db.execute(WATCH)  # a claim takes a fifth of a second
    handler(sidecar, decide, max_in_flight=1)
    eventually(lambda: db.execute("SELECT count(*) AS n FROM inbox.inbox_messages WHERE processed_at IS NOT NULL").fetchone()["n"] == 101)
    assert seen.index("late") < 85
