"""PostgreSQL breaks in every way it can: nothing is lost, no attempt is spent, order stays, work resumes.

Each test ends with the same look: every message once in the table and processed once, its deliveries in
order within their key, no attempt spent.
"""

import contextlib
import threading

import psycopg

from support.inbox import connect
from support.scripts import always, DONE
from support.wait import eventually

KEYS = 7


def produce_all(streams, topic, count, first=0):
    """Ids e0, e1 …; the number modulo KEYS is the key, so each key's numbers rise."""
    streams.events(topic, [f"e{number}" for number in range(first, first + count)],
                   key=lambda event_id: str(int(event_id[1:]) % KEYS))


def assert_whole(inbox, count, *clients, timeout=30):
    inbox.wait_processed(count, timeout=timeout)
    rows = inbox.messages()
    assert {row["event_id"] for row in rows} == {f"e{number}" for number in range(count)}
    assert {row["retry_count"] for row in rows} == {0}
    deliveries = sorted((delivery for client in clients for delivery in client.deliveries),
                        key=lambda delivery: delivery.received_at)
    assert {delivery.event_id for delivery in deliveries} == {row["event_id"] for row in rows}
    assert {delivery.attempt for delivery in deliveries} == {1}
    last = {}
    for delivery in deliveries:
        number = int(delivery.event_id[1:])
        assert number >= last.get(delivery.key, 0), f"{delivery} came after e{last[delivery.key]}"
        last[delivery.key] = number


def log_events(sidecar, event):
    return [line for line in sidecar.stderr.splitlines() if f"event={event} " in line]


@contextlib.contextmanager
def watchdog(postgres, database, seconds):
    """Ends every statement of the sidecars that takes longer, as statement_timeout does."""
    stop = threading.Event()

    def watch():
        with postgres.connect(database) as own:
            while not stop.wait(0.05):
                own.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                            " WHERE application_name LIKE 'inboxd/%%' AND state = 'active'"
                            " AND datname = %s AND query_start < clock_timestamp() - %s"
                            " * interval '1 second'", [database, seconds])

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    stop.set()
    thread.join()


SLOW_INSERT = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON inbox.inbox_messages FOR EACH ROW
EXECUTE FUNCTION public.slow()"""


# --- Timeouts and locks -------------------------------------------------------------------------------


def test_a_batch_that_is_too_slow_is_stored_in_parts(inboxd, handler, postgres, database, streams,
                                                     topic, inbox, db):
    """200 rows take 4 s, and nothing may take longer than 0.7 s."""
    client = handler(inboxd, always(DONE))
    db.execute(SLOW_INSERT)
    with watchdog(postgres, database, 0.7):
        produce_all(streams, topic, 200)
        assert_whole(inbox, 200, client)
    assert "class=timeout" in log_events(inboxd, "database_busy")[0]
    assert not log_events(inboxd, "database_lost")
    assert inboxd.metric("inboxd_pg_errors_total", **{"class": "timeout"}) > 0
