"""PostgreSQL is slow, locked or down: nothing is lost, no attempt is spent, the order is kept, and work resumes.

Standbys, poolers and full disks: test_failover.py.
"""

import contextlib
import threading

import pytest

from support.proxy import Proxy
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER
from whole import assert_whole, log_events, produce_all


@contextlib.contextmanager
def watchdog(postgres, database, seconds):
    """Ends every statement of the sidecars that takes longer, like statement_timeout."""
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


SLOW_CLAIM = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW
WHEN (OLD.claimed_by IS NULL AND NEW.claimed_by IS NOT NULL) EXECUTE FUNCTION public.slow()"""


REFUSE_LARGE_INSERTS = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF (SELECT count(*) FROM fresh) > 40 THEN
  RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
END IF; RETURN NULL; END $$;
CREATE TRIGGER refuse AFTER INSERT ON inbox.inbox_messages REFERENCING NEW TABLE AS fresh
FOR EACH STATEMENT EXECUTE FUNCTION public.refuse()"""


FAIL_SOMETIMES = """
CREATE SEQUENCE public.failures;
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
$$ DECLARE n bigint := nextval('public.failures'); BEGIN
IF n <= 4 THEN
  RAISE EXCEPTION 'made by the test' USING ERRCODE = CASE n % 2 WHEN 0 THEN '40P01' ELSE '40001' END;
END IF; RETURN NULL; END $$;
CREATE TRIGGER fail AFTER INSERT OR UPDATE ON inbox.inbox_messages FOR EACH STATEMENT
EXECUTE FUNCTION public.fail()"""


def end_sessions(postgres, database):
    """Ends the sidecars' sessions; returns how many."""
    with postgres.connect("postgres") as own:
        return own.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                           " WHERE application_name LIKE 'inboxd/%%' AND datname = %s",
                           [database]).fetchone()[0]


def outlive_a_lease(operator, lease):
    """Waits for a heartbeat that is more than a lease younger than the operator's transaction."""
    eventually(lambda: next(iter(operator.execute(
        "SELECT max(heartbeat_at) > now() + %s * interval '1.1 s' FROM inbox.inbox_instances",
        [lease]).fetchone().values())))


# --- Timeouts and locks -------------------------------------------------------------------------------


def test_a_slow_batch_is_stored_in_parts(inboxd, handler, postgres, database, streams, topic, inbox, db):
    """200 rows take 4 s, and nothing may take longer than 0.7 s."""
    client = handler(inboxd, always(DONE))
    db.execute(SLOW_INSERT)
    with watchdog(postgres, database, 0.7):
        produce_all(streams, topic, 200)
        assert_whole(inbox, 200, client)
    assert "class=timeout" in log_events(inboxd, "database_busy")[0]
    assert not log_events(inboxd, "database_lost")
    assert inboxd.metric("inboxd_pg_errors_total", **{"class": "timeout"}) > 0


@pytest.mark.parametrize("ordering", ["key", "none"])
def test_a_slow_claim_is_repeated_with_fewer_rows(start_inboxd, handler, postgres, database, streams, topic, inbox, db,
                                                  ordering):
    sidecar = start_inboxd(inbox={"ordering": ordering})
    produce_all(streams, topic, 200)
    inbox.wait_stored(200)
    db.execute(SLOW_CLAIM)
    with watchdog(postgres, database, 0.7):
        client = handler(sidecar, always(DONE))
        assert_whole(inbox, 200, client)
    assert "class=timeout" in log_events(sidecar, "dispatch_database_busy")[0]


def test_batches_stored_in_parts_do_not_accumulate_in_memory(start_inboxd, handler, streams, topic, inbox, db):
    """Every other part is too large; a backlog of 60 MB waits in Kafka meanwhile."""
    sidecar = start_inboxd(ingest={"batch_messages": 100})
    client = handler(sidecar, always(DONE))
    streams.events(topic, ["first"])
    inbox.wait_processed(1)
    db.execute(REFUSE_LARGE_INSERTS)
    before = sidecar.peak_memory()
    streams.produce_many(topic, ({"value": b'"%s"' % (b"x" * 15_000), "headers": [("id", f"e{number}")]}
                                 for number in range(4000)))
    inbox.wait_processed(4001, timeout=120)
    assert sidecar.metric("inboxd_pg_errors_total", **{"class": "timeout"}) > 3
    assert sidecar.peak_memory() - before < 40 << 20
    assert client.count == 4001


def test_a_timeout_of_the_role_is_overridden(inboxd, handler, postgres, database, streams, topic, inbox, db):
    """inboxd sets its own in each transaction."""
    client = handler(inboxd, always(DONE))
    db.execute(SLOW_INSERT)
    db.execute(f'ALTER DATABASE "{database}" SET statement_timeout = 300')
    db.execute(f'ALTER DATABASE "{database}" SET lock_timeout = 1')
    end_sessions(postgres, database)
    produce_all(streams, topic, 60)
    assert_whole(inbox, 60, client)
    assert inboxd.metric("inboxd_pg_errors_total", **{"class": "timeout"}) == 0


def test_a_table_locked_longer_than_the_lease_only_delays(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(worker={"lease": "3s"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 300)
    client.wait_count(100)
    with inbox.connect() as operator:
        operator.execute("LOCK TABLE inbox.inbox_messages IN ACCESS EXCLUSIVE MODE")
        produce_all(streams, topic, 300, first=300)
        outlive_a_lease(operator, 3)
        assert sidecar.metric("inboxd_pg_errors_total", **{"class": "busy"}) > 1
        assert sidecar.get("/readyz")[0] == 200, "a lock is no database that is away"
    assert_whole(inbox, 600, client)
    assert log_events(sidecar, "database_busy")
    assert not log_events(sidecar, "database_lost") and not log_events(sidecar, "fenced")
    assert sidecar.metric("inboxd_pg_reconnects_total") == 0


def test_a_watermark_row_locked_longer_than_the_lease_only_delays(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(worker={"lease": "3s"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    inbox.wait_processed(100)
    with inbox.connect() as operator:
        operator.execute("SELECT 1 FROM inbox.inbox_offsets FOR UPDATE")
        produce_all(streams, topic, 100, first=100)
        outlive_a_lease(operator, 3)
        assert sidecar.metric("inboxd_pg_errors_total", **{"class": "busy"}) > 0
        assert len(client.deliveries) == 100
    assert_whole(inbox, 200, client)
    assert not log_events(sidecar, "fenced")


def test_message_rows_locked_by_an_operator_block_only_themselves(inboxd, handler, streams, topic, inbox):
    open_one = {}

    def decide(delivery):
        if delivery.event_id == "e0":
            open_one["e0"] = delivery
            return NEVER
        return DONE

    client = handler(inboxd, decide)
    produce_all(streams, topic, 100)
    eventually(lambda: "e0" in open_one and inbox.count("processed") >= 80)
    with inbox.connect() as operator:
        operator.execute("SELECT 1 FROM inbox.inbox_messages WHERE event_id = 'e0' FOR UPDATE")
        client.answer(open_one["e0"], DONE)
        produce_all(streams, topic, 100, first=100)
        eventually(lambda: inbox.count("processed") >= 160)
        assert inbox.message("e0")["status"] == "claimed"
    assert_whole(inbox, 200, client)


def test_deadlocks_and_serialization_failures_are_retried(inboxd, handler, streams, topic, inbox, db):
    client = handler(inboxd, always(DONE))
    db.execute(FAIL_SOMETIMES)
    produce_all(streams, topic, 200)
    assert_whole(inbox, 200, client)
    errors = inbox.value("SELECT last_value FROM public.failures")
    assert errors >= 4
    assert inboxd.metric("inboxd_pg_errors_total", **{"class": "busy"}) > 0
    assert inboxd.metric("inboxd_pg_reconnects_total") == 0
    assert not log_events(inboxd, "database_lost")


# --- Connections --------------------------------------------------------------------------------------


def test_an_immediate_restart_under_load_loses_nothing(inboxd, handler, postgres, streams, topic, inbox):
    client = handler(inboxd, always(DONE), workers=4)
    produce_all(streams, topic, 2000)
    for _ in range(2):
        seen = len(client.deliveries)
        eventually(lambda: len(client.deliveries) > min(seen + 100, 1900), every=0.005)
        postgres.crash()
        postgres.start()
    assert_whole(inbox, 2000, client)


def test_terminated_backends_lose_nothing(inboxd, handler, postgres, database, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    produce_all(streams, topic, 2000)
    for _ in range(5):
        eventually(lambda: end_sessions(postgres, database) > 0)
    assert_whole(inbox, 2000, client)


def test_inboxd_waits_while_connections_are_refused(start_inboxd, handler, postgres, streams, topic, inbox):
    sidecar = start_inboxd(worker={"lease": "3s"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 200)
    postgres.stop()
    produce_all(streams, topic, 200, first=200)
    eventually(lambda: sidecar.get("/readyz")[0] == 503)
    assert log_events(sidecar, "database_lost")
    postgres.start()
    assert_whole(inbox, 400, client)
    eventually(lambda: sidecar.get("/readyz")[0] == 200)


@pytest.fixture
def proxy(postgres):
    """A proxy between the sidecars of the test and PostgreSQL. It is named before the fixture that starts them, so it
    ends after them."""
    with Proxy(postgres.port) as made:
        yield made


def test_a_lost_answer_to_a_commit_loses_nothing(proxy, start_inboxd, handler, streams, topic, inbox):
    """The batch is in the table, and its sidecar does not know it."""
    sidecar = start_inboxd(postgres={"port": proxy.port})
    client = handler(sidecar, always(DONE))
    for turn in range(4):
        proxy.cut_before(b"COMMIT\0")
        produce_all(streams, topic, 150, first=150 * turn)
        eventually(lambda: proxy.cuts > turn)
    assert_whole(inbox, 600, client)


def test_repeatedly_cut_connections_lose_nothing(proxy, start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(postgres={"port": proxy.port})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 2000)
    for _ in range(6):
        seen = proxy.connections
        proxy.cut()
        eventually(lambda: proxy.connections > seen)
    assert_whole(inbox, 2000, client)


def test_a_silent_network_longer_than_the_lease_loses_nothing(proxy, start_inboxd, handler, streams, topic, inbox):
    """Nothing is answered and no connection is closed."""
    sidecar = start_inboxd(postgres={"port": proxy.port}, worker={"lease": "3s"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    inbox.wait_processed(100)
    proxy.blackhole()
    produce_all(streams, topic, 100, first=100)
    eventually(lambda: sidecar.get("/readyz")[0] == 503)
    proxy.heal()
    assert_whole(inbox, 200, client)


# --- Errors and outages at the start ------------------------------------------------------------------


@pytest.mark.parametrize("wrong, words", [
    ({"dbname": "no_such_database"}, 'database "no_such_database" does not exist'),
    ({"user": "no_such_user"}, 'role "no_such_user" does not exist'),
    ({"sslmode": "perhaps"}, 'invalid sslmode value: "perhaps"'),
    ({"sslmode": "require"}, "server does not support SSL, but SSL was required"),
    ({"port": "65536"}, 'invalid port number: "65536"'),
])
def test_a_configuration_error_ends_the_start_with_its_reason(make_inboxd, wrong, words):
    sidecar = make_inboxd(postgres=wrong)
    assert sidecar.start(ready=False).wait(15) == 3
    assert words in sidecar.stderr.splitlines()[-1]


def test_a_wrong_password_ends_the_start(make_inboxd, make_server):
    server = make_server()
    server.hba("host all all 127.0.0.1/32 scram-sha-256")
    for password, words in ((None, "no password supplied"),
                            ("wrong", "password authentication failed")):
        sidecar = make_inboxd(postgres={"port": server.port, "dbname": "postgres",
                                        "password": password})
        assert sidecar.start(ready=False).wait(15) == 3
        assert words in sidecar.stderr


def test_inboxd_waits_for_a_server_that_is_down_starting_or_full(make_inboxd, make_server):
    server = make_server(max_connections=4, superuser_reserved_connections=0)
    taken = [server.connect() for _ in range(4)]
    sidecar = make_inboxd(postgres={"port": server.port, "dbname": "postgres"}).start(ready=False)
    eventually(lambda: "sqlstate=53300" in sidecar.stderr)
    for connection in taken:
        connection.close()
    server.stop()
    eventually(lambda: "class=connection" in sidecar.stderr)  # shutting down, or refused: one line for both
    assert sidecar.is_running()
    server.settings |= {"max_connections": "50"}
    server.start()
    sidecar.wait_ready()
