"""PostgreSQL fails over, is a standby for a while, has a full disk or is behind a pooler: nothing is lost, no attempt
is spent, and work resumes automatically.
"""

import collections
import contextlib
import os
import random
import re
import socket
import subprocess

import psycopg
import pytest

from armed import Armed
from support.inbox import Inbox
from support.outbox import Outbox, first_copies, values
from support.proxy import Proxy
from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER, settled
from whole import KEYS, assert_processed, assert_whole, log_events, produce_all


@pytest.fixture
def ends():
    """An exit stack. A test that names it before its sidecars unwinds it after they have ended."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def look(ends):
    """look(server) -> an Inbox on its database `postgres`."""
    return lambda server: ends.enter_context(contextlib.closing(Inbox(server.conninfo())))


def reconnected(sidecar, handler, lives=2):
    """A handler that connects to the restarted sidecar, as a real one does."""
    eventually(lambda: len(log_events(sidecar, "started")) >= lives)
    return handler(sidecar, always(DONE))


# --- Standbys -----------------------------------------------------------------------------------------


def test_a_silent_host_does_not_hide_the_next_one(start_inboxd, handler, postgres, streams, topic, inbox):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sidecar = start_inboxd(postgres={
            "host": "127.0.0.1,127.0.0.1", "connect_timeout": 1,
            "port": f"{silent.getsockname()[1]},{postgres.port}"})
        client = handler(sidecar, always(DONE))
        produce_all(streams, topic, 100)
        assert_whole(inbox, 100, client)


def test_a_standby_in_the_list_is_skipped(make_server, make_standby, look, start_inboxd, handler, streams, topic):
    primary = make_server()
    standby = make_standby(primary)
    sidecar = start_inboxd(postgres={"host": "127.0.0.1,127.0.0.1", "dbname": "postgres",
                                     "port": f"{standby.port},{primary.port}"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    assert_whole(look(primary), 100, client)


def test_failover_to_a_complete_standby_loses_nothing(make_server, make_standby, look, start_inboxd, handler, streams,
                                                      topic):
    primary = make_server(synchronous_standby_names="*")
    standby = make_standby(primary)
    sidecar = start_inboxd(postgres={"host": "127.0.0.1,127.0.0.1", "dbname": "postgres",
                                     "port": f"{primary.port},{standby.port}"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 1000)
    client.wait_count(300)
    primary.crash()
    standby.promote()
    again = reconnected(sidecar, handler)
    produce_all(streams, topic, 100, first=1000)
    assert_processed(look(standby), 1100)
    assert len({delivery.event_id for delivery in client.deliveries + again.deliveries}) == 1100


@pytest.mark.parametrize("attributes", [None, "any"])
def test_inboxd_waits_until_a_standby_is_promoted(ends, make_server, make_standby, look, make_inboxd, handler, streams,
                                                  topic, attributes):
    primary = make_server(synchronous_standby_names="*")
    standby = make_standby(primary)
    proxy = ends.enter_context(Proxy(primary.port))
    place = {"dbname": "postgres", "port": proxy.port, "target_session_attrs": attributes}
    sidecar = make_inboxd(postgres=place).start()
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    assert_whole(look(primary), 100, client)
    primary.crash()
    proxy.lead_to(standby.port)
    late = make_inboxd(postgres=place).start(ready=False)
    words = "hot standby" if attributes is None else "class=read_only"
    for one in (sidecar, late):
        # The outage has begun with another error, and its next line comes after a minute.
        eventually(lambda: words in one.stderr, timeout=90, what=f"{words} in its log")
        assert one.is_running()
    eventually(lambda: sidecar.get("/readyz")[0] == 503)
    standby.promote()
    again = reconnected(sidecar, handler)
    late.stop()
    produce_all(streams, topic, 100, first=100)
    assert_processed(look(standby), 200)
    assert len({delivery.event_id for delivery in client.deliveries + again.deliveries}) == 200


@pytest.mark.parametrize("seen", ["by name", "behind a proxy", "behind a pooler"])
def test_failover_to_an_older_copy_reads_again(ends, make_pooler, make_server, make_standby, look, start_inboxd, handler, streams,
                                               topic, seen):
    """Messages that the copy lacks are read from Kafka again. They may be handled twice, but are not lost."""
    primary = make_server()
    standby = make_standby(primary)
    proxy = ends.enter_context(Proxy(primary.port))
    if seen == "by name":
        place = {"host": "127.0.0.1,127.0.0.1", "port": f"{primary.port},{standby.port}"}
    elif seen == "behind a proxy":
        place = {"port": proxy.port}
    else:
        place = {"port": make_pooler(proxy.port, "transaction").port}
    sidecar = start_inboxd(postgres={"dbname": "postgres", **place})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 200)
    look(primary).wait_processed(200)
    standby.stop_following()
    produce_all(streams, topic, 200, first=200)
    look(primary).wait_processed(400)
    primary.crash()
    standby.promote()
    proxy.lead_to(standby.port)
    assert look(standby).count() < 400, "the copy lost nothing: this proves nothing"
    again = reconnected(sidecar, handler)
    produce_all(streams, topic, 100, first=400)
    assert_processed(look(standby), 500)
    assert len({delivery.event_id for delivery in client.deliveries + again.deliveries}) == 500


@pytest.fixture
def emitted(look):
    """emitted(server, topic, numbers): one transaction of the service, whose events have KEYS keys."""
    def emit_all(server, topic, numbers):
        with Outbox(look(server)).transaction() as emit:
            for number in numbers:
                emit(topic, f"k{number % KEYS}", f"{number:03}")

    return emit_all


def of_keys(numbers):
    return {f"k{key}".encode(): [f"{number:03}" for number in numbers if number % KEYS == key] for key in range(KEYS)}


@pytest.mark.parametrize("synchronous", [False, True], ids=["asynchronous", "synchronous"])
def test_the_outbox_fails_over(make_server, make_standby, look, make_inboxd, streams, make_topic, name, emitted, synchronous):
    """The copy has events whose deletion it lacks: they are published again. Events of transactions that it lacks are out.
    With synchronous replication it lacks neither."""
    events, missing = make_topic(partitions=1), f"{name}.missing"
    primary = make_server(**({"synchronous_standby_names": "*"} if synchronous else {}))
    standby = make_standby(primary)
    armed = Armed(make_inboxd(outbox={"enabled": True}, kafka={"topics": None}, postgres={
        "host": "127.0.0.1,127.0.0.1", "port": f"{primary.port},{standby.port}", "dbname": "postgres"}))
    sidecar = armed.sidecar.start()
    emitted(primary, events, range(50))
    streams.read(events, 50)
    emitted(primary, missing, range(20))
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1)
    armed.arm("outbox_before_record error")  # without effect; the next try of the missing topic comes in five seconds
    armed.wait_hit("outbox_before_record")
    armed.arm("outbox_before_record hold")
    emitted(primary, events, range(50, 100))
    armed.wait_hit("outbox_before_record", 2)
    if not synchronous:
        standby.stop_following()
    armed.arm()
    emitted(primary, events, range(100, 150))
    streams.read(events, 150)
    eventually(lambda: Outbox(look(primary)).count() == 20)
    primary.crash()
    eventually(lambda: Outbox(look(standby)).count() == (20 if synchronous else 70))
    standby.promote()
    emitted(standby, events, range(150, 200))
    emitted(standby, missing, range(20, 40))
    again = 0 if synchronous else 50
    assert first_copies(streams.read(events, 200 + again, timeout=60)) == of_keys(range(200))
    streams.create(missing, 1)
    assert first_copies(streams.read(missing, 40, timeout=60)) == of_keys(range(40))
    eventually(lambda: Outbox(look(standby)).count() == 0 and sidecar.metric("inboxd_outbox_held_topics") == 0)
    copies = collections.Counter(values(streams.read_what_is_there(events)))
    assert [number for number in range(200) if copies[f"{number:03}"] == 2] == list(range(50, 50 + again))
    assert copies.total() == 200 + again


def test_a_database_that_is_read_only_by_default_can_be_used(inboxd, handler, postgres, database, streams, topic, inbox,
                                                             db):
    """Our transactions are READ WRITE, whatever the defaults of the role or the database are."""
    client = handler(inboxd, always(DONE))
    db.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    with postgres.connect() as own:
        own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name LIKE 'inboxd/%%' AND datname = %s", [database])
    produce_all(streams, topic, 100)
    assert_whole(inbox, 100, client)


# --- Disks --------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(server) -> a directory of 8 MB for a tablespace, and how to make it larger."""
    mounted = []

    def mount(server):
        path = os.path.join(server.directory, "small")
        os.makedirs(path)
        if subprocess.call(["mount", "-t", "tmpfs", "-o", f"size=8m,uid={_uid(server)},mode=700",
                            "tmpfs", path], stderr=subprocess.DEVNULL) != 0:
            pytest.skip("not permitted to mount a small file system")
        mounted.append(path)
        return path, lambda: subprocess.check_call(["mount", "-o", "remount,size=128m", path])

    yield mount
    for path in mounted:
        subprocess.check_call(["umount", "-l", path])


def _uid(server):
    return os.stat(server.data).st_uid


def test_processing_resumes_after_a_full_disk(small_disk, make_server, look, make_inboxd, handler, streams, topic):
    server = make_server()
    path, enlarge = small_disk(server)
    sidecar = make_inboxd(postgres={"dbname": "postgres", "port": server.port}).start()
    with server.connect() as own:
        own.execute(f"CREATE TABLESPACE small LOCATION '{path}'")
        own.execute("ALTER TABLE inbox.inbox_messages SET TABLESPACE small")
    client = handler(sidecar, always(DONE))
    noise = random.Random(1).randbytes(20_000)
    streams.events(topic, [f"e{number}" for number in range(600)],
                   key=lambda event_id: str(int(event_id[1:]) % 7),
                   value=lambda event_id: event_id.encode() + noise)
    eventually(lambda: log_events(sidecar, "database_full"))
    assert "sqlstate=53100" in log_events(sidecar, "database_full")[0]
    enlarge()
    assert_whole(look(server), 600, client)
    assert sidecar.metric("inboxd_rejects_total") == 0


# --- Handlers' transactions ------------------------------------------------------------------------------


def test_a_handler_that_hangs_in_its_transaction_blocks_its_key_only(inboxd, handler, streams, topic, inbox):
    """It has called inbox.complete() and does not commit until after its deadline. Until then its message is not
    settled."""
    delivered = []

    def decide(delivery):
        if delivery.event_id != "e0":
            return DONE
        delivered.append(delivery)
        return NEVER

    client = handler(inboxd, decide, timeout_ms=1000)
    produce_all(streams, topic, 70)
    eventually(lambda: delivered)
    with inbox.connect() as own:
        own.execute("SELECT inbox.complete(%s)", [delivered[0].claim])
        eventually(lambda: inbox.count("processed") == 60)
        eventually(lambda: client.cancels, what="the deadline to pass")
        produce_all(streams, topic, 70, first=70)
        eventually(lambda: inbox.count("processed") == 120)
        assert inbox.message("e0")["retry_count"] == 0
        own.commit()
    client.answer(delivered[0], settled())
    assert_whole(inbox, 140, client)
    assert len(delivered) == 1


# --- Poolers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_inboxd_works_behind_pgbouncer(make_pooler, start_inboxd, handler, postgres, streams, topic, inbox, mode):
    sidecar = start_inboxd(postgres={"port": make_pooler(postgres.port, mode).port})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 1000)
    client.wait_count(200)
    with postgres.connect() as own:
        own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name LIKE 'inboxd/%'")
    assert_whole(inbox, 1000, client)


def test_a_session_of_the_pooler_is_left_unchanged(make_pooler, start_inboxd, handler, postgres, database, streams,
                                                   topic, inbox):
    """R19: settings are local to a transaction, so the next client of the session does not inherit them."""
    pooler = make_pooler(postgres.port, "transaction")
    sidecar = start_inboxd(postgres={"port": pooler.port})
    assert len(log_events(sidecar, "statements_unprepared")) == 1
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    assert_whole(inbox, 100, client)
    assert sidecar.stop() == 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(psycopg.connect(
            f"host=127.0.0.1 port={pooler.port} user=postgres dbname={database}")) for _ in range(4)]
        seen = {own.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),"
                            " current_setting('idle_in_transaction_session_timeout'), current_setting('plan_cache_mode'),"
                            " (SELECT count(*) FROM pg_prepared_statements)").fetchone()
                for own in clients}
    assert seen == {("0", "0", "0", "auto", 0)}


def test_a_pooler_that_renames_statements_gets_prepared_ones(ends, start_inboxd, handler, postgres, streams, topic, inbox):
    """As PgBouncer from 1.21 on: the session has names of the pooler's own, and another process id."""
    proxy = ends.enter_context(Proxy(postgres.port))
    executed = collections.Counter()

    def rename(data):
        executed.update(re.findall(rb"inboxd_[0-9a-f]{16}", data))
        return re.sub(rb"inboxd_(?=[0-9a-f]{16})", b"PGBOUN_", data)

    proxy.change_requests(rename)
    proxy.change_answers(lambda data: re.sub(rb"(?s)(?<=K\0\0\0\x0c).{4}(?=.{4}Z\0\0\0\x05I)", bytes([0, 0, 0, 7]), data))
    sidecar = start_inboxd(postgres={"port": proxy.port})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 50)
    client.wait_count(50)
    produce_all(streams, topic, 50, first=50)
    assert_whole(inbox, 100, client)
    assert len(executed) > 5
    assert "class=stale" not in sidecar.stderr and "statements_unprepared" not in sidecar.stderr


def test_statements_prepared_behind_a_pooler_lose_and_refuse_nothing(ends, make_pooler, start_inboxd, handler, postgres, streams,
                                                                     make_topic, topic, group, inbox):
    """PgBouncer 1.18 gives each transaction another session, which may lack a named statement or have it already. Two schemas
    share the sessions, and their statements differ only in the name of the schema, in no length."""
    access = {"port": make_pooler(postgres.port, "transaction").port, "prepare": "always"}
    other, elsewhere = ends.enter_context(contextlib.closing(Inbox(inbox.conninfo, "other"))), make_topic()
    sidecars = (start_inboxd(postgres=access), start_inboxd(
        postgres=access, inbox={"schema": "other"}, kafka={"topics": [elsewhere], "group.id": group + "_other"}))
    clients = [handler(sidecar, always(DONE)) for sidecar in sidecars]
    for first in range(0, 100, 20):
        for one in (topic, elsewhere):
            produce_all(streams, one, 20, first=first)
        for client in clients:
            client.wait_count(first + 20)
    for view, one, client in zip((inbox, other), (topic, elsewhere), clients):
        assert_whole(view, 100, client)
        assert {row["topic"] for row in view.messages()} == {one}


def kinds_of_names(port, database, sessions=4):
    """The first words of the names of what the sessions of a pooler have prepared."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname={database}", prepare_threshold=None))
                   for _ in range(sessions)]  # each keeps its session until its transaction ends
        return {name.split("_")[0] for own in clients for (name,) in own.execute(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%.inbox_messages%'")}


@pytest.mark.parametrize("renames, mode, names", [
    (False, "session", set()), (False, "transaction", set()), (True, "session", set()), (True, "transaction", {"PGBOUNCER"})])
def test_two_builds_and_two_schemas_work_through_one_pooler(
        ends, make_pooler, earlier_program, make_inboxd, start_inboxd, handler, postgres, streams, make_topic, topic, group, inbox,
        database, renames, mode, names):
    """An earlier inboxd has other texts for some statements. A pooler that renames statements (PgBouncer from 1.21 on, between
    transactions) gets named ones, and each of its few sessions gets what another session has prepared."""
    size = {} if mode == "session" else {"default_pool_size": 4}
    between = make_pooler(postgres.port, mode, renames, **size, **({"max_prepared_statements": 50} if renames else {}))
    access = {"port": between.port}
    other, elsewhere = ends.enter_context(contextlib.closing(Inbox(inbox.conninfo, "other"))), make_topic()
    earlier = make_inboxd(postgres=access, inbox={"instance": "earlier"})
    earlier.program = earlier_program
    earlier.start("run")
    sidecars = (start_inboxd(postgres=access), earlier, start_inboxd(
        postgres=access, inbox={"schema": "other"}, kafka={"topics": [elsewhere], "group.id": group + "_other"}))
    eventually(lambda: inbox.value("SELECT count(DISTINCT owner) FROM inbox.inbox_offsets") == 2)
    *ours, theirs = clients = [handler(sidecar, always(DONE)) for sidecar in sidecars]
    for first in range(0, 400, 100):
        for one in (topic, elsewhere):
            produce_all(streams, one, 100, first=first)
        for view in (inbox, other):
            view.wait_processed(first + 100)
        if first == 200:
            with postgres.connect() as own:
                own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'inboxd/%'")
    assert_whole(inbox, 400, *ours)
    assert_whole(other, 400, theirs)
    assert {row["topic"] for row in other.messages()} == {elsewhere}
    assert all(client.deliveries for client in clients)
    assert kinds_of_names(between.port, database) == names
    for sidecar in sidecars:
        assert bool(log_events(sidecar, "statements_unprepared")) == (not names)
        assert "class=stale" not in sidecar.stderr


def test_a_failover_behind_a_pooler_prepares_again(ends, make_pooler, make_server, make_standby, look, start_inboxd, handler,
                                                   streams, topic):
    """The pooler knows the statements, and the sessions of the new primary do not have them."""
    primary = make_server(synchronous_standby_names="*")
    standby = make_standby(primary)
    proxy = ends.enter_context(Proxy(primary.port))
    between = make_pooler(proxy.port, "transaction", renames=True, default_pool_size=4)
    sidecar = start_inboxd(postgres={"port": between.port, "dbname": "postgres"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 200)
    client.wait_count(100)
    primary.crash()
    standby.promote()
    proxy.lead_to(standby.port)
    again = reconnected(sidecar, handler)
    produce_all(streams, topic, 200, first=200)
    assert_processed(look(standby), 400)
    assert len({delivery.event_id for delivery in client.deliveries + again.deliveries}) == 400
    assert kinds_of_names(between.port, "postgres") == {"PGBOUNCER"}
    assert "class=stale" not in sidecar.stderr and not log_events(sidecar, "statements_unprepared")
