"""A newer inboxd migrates the schema of one that works: inboxd-next, see system/test_upgrades.py.

With --long five million rows, or as many as --upgrade-rows says; the gaps are printed (-s shows them). And through a
pooler, which hands each transaction to another session. And an inboxd of an earlier commit beside this one.
"""

import collections
import subprocess
import threading
import time

import psycopg
import pytest

from backlog import fill, Load, longest_gap
from support.inbox import Inbox
from support.scripts import always, DONE
from support.sidecar import next_binary
from support.wait import eventually
from support.wire import settled
from whole import log_events, produce_all

NEXT = next_binary()
GAP_SECONDS = 2
TICK_SECONDS = 0.05
A_TICK = 50  # messages
INDEXES = "SELECT count(*) FROM pg_index WHERE indrelid = 'inbox.inbox_messages'::regclass AND {}"


def next_migrates(sidecar, timeout):
    return subprocess.run([NEXT, "migrate", "-c", sidecar.config_file], env=sidecar.env, capture_output=True, text=True,
                          timeout=timeout)


class Drizzle:
    """Sends some messages at each tick until the context ends."""

    def __init__(self, load):
        self.load = load
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self._over.wait(TICK_SECONDS):
            self.load.send(A_TICK)


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def inbox(server):
    view = Inbox(server.conninfo())
    yield view
    view.close()


@pytest.mark.long
@pytest.mark.timeout(5000)
def test_a_large_table_is_migrated_beside_a_load(request, make_inboxd, noop_handler, streams, topic, server, inbox):
    rows = request.config.getoption("--upgrade-rows")
    sidecar = make_inboxd(postgres={"port": server.port, "dbname": "postgres"}, retention={"processed": "never",
                          "payload": "never", "dead": "never"})
    assert sidecar.command("migrate").returncode == 0
    fill(inbox, rows)
    inbox.execute("VACUUM ANALYZE inbox.inbox_messages")
    sidecar.start()
    handler = noop_handler(sidecar)
    load = Load(streams, topic, handler.count)
    load.run(A_TICK)
    since = inbox.value("SELECT now()")
    with Drizzle(load):
        eventually(lambda: load.sent > 20 * A_TICK)
        began = time.monotonic()
        done = next_migrates(sidecar, timeout=4000)
        seconds = time.monotonic() - began
    load.wait()
    gaps = {column: longest_gap(inbox, column, since) for column in ("received_at", "processed_at")}
    print(f"\n{rows:,} rows were migrated in {seconds:.0f} s beside {load.sent:,} messages; longest gap: stored"
          f" {gaps['received_at']:.2f} s, handled {gaps['processed_at']:.2f} s\n{done.stderr}")

    assert done.returncode == 0, done.stderr
    assert inbox.value(INDEXES.format("indexrelid = 'inbox.inbox_messages_next'::regclass AND indisvalid")) == 1
    assert inbox.value(INDEXES.format("NOT indisvalid")) == 0
    assert handler.count() == load.sent
    assert max(gaps.values()) < GAP_SECONDS, gaps
    assert "heartbeat_failed" not in sidecar.stderr


@pytest.mark.parametrize("mode, renames", [("transaction", False), ("session", False), ("transaction", True)])
def test_a_migration_works_through_a_pooler(make_pooler, make_inboxd, handler, streams, topic, server, inbox, mode, renames):
    """Two at the same time, while an old snapshot delays the build. A sidecar works through the pooler, too, perhaps with
    statements that were prepared before the migration."""
    between = make_pooler(server.port, mode, renames)
    sidecar = make_inboxd(postgres={"port": between.port, "dbname": "postgres"}).start()
    handler(sidecar, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    with inbox.connect() as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM inbox.inbox_schema_version")
        ended = []
        both = [threading.Thread(target=lambda: ended.append(next_migrates(sidecar, timeout=60))) for _ in range(2)]
        for one in both:
            one.start()
        eventually(lambda: inbox.value(INDEXES.format("NOT indisvalid")) == 1)
        streams.events(topic, ["b"])
        inbox.wait_processed(2)
        old.rollback()
    for one in both:
        one.join()
    assert [done.returncode for done in ended] == [0, 0], [done.stderr for done in ended]
    applied = [int(done.stdout.split(", ")[1].split()[0]) for done in ended]
    assert sum(applied) == 2, applied  # the other one may apply the second migration: each one has a lock of its own
    assert inbox.value(INDEXES.format("NOT indisvalid")) == 0
    streams.events(topic, ["c"])
    inbox.wait_processed(3)
    assert bool(log_events(sidecar, "statements_unprepared")) == (not renames)
    assert "level=error" not in sidecar.stderr


# --- An earlier build --------------------------------------------------------------------------------------

VERSION = "SELECT max(version) FROM inbox.inbox_schema_version"
COMPLETES = {0: None, 1: "%s", 2: "ARRAY[%s]"}


class Shop:
    """Handlers that answer `done`, or complete their messages in a transaction with an effect, one by one or as an array."""

    def __init__(self, inbox):
        self.inbox = inbox
        self.parts = collections.defaultdict(set)  # of the claims of each sidecar
        inbox.execute("CREATE TABLE public.effects (id text)")

    def decide(self, sidecar):
        def decide(delivery):
            self.parts[sidecar].add(len(delivery.claim.split(".")))
            argument = COMPLETES[int(delivery.event_id[1:]) % len(COMPLETES)]
            if argument is None:
                return DONE
            try:
                with psycopg.connect(self.inbox.conninfo) as own:
                    own.execute("INSERT INTO public.effects VALUES (%s)", [delivery.event_id])
                    own.execute(f"SELECT inbox.complete({argument})", [delivery.claim])
            except psycopg.Error as error:
                assert error.sqlstate == "IB001", error
            return settled()

        return decide

    def is_exact(self, count):
        assert self.inbox.value("SELECT count(*) FROM inbox.inbox_messages") == count
        assert self.inbox.value("SELECT count(*) || ' ' || count(DISTINCT id) FROM public.effects") == f"{count * 2 // 3} {count * 2 // 3}"


def test_an_earlier_build_works_beside_a_new_one_and_after_it(earlier_program, make_inboxd, handler, streams, topic, server, inbox):
    """A rolling update and a rollback, with kills under load. oldest_sidecar admits a build whose claims have three parts, so these
    stay valid, as those of five parts do."""
    earlier, new = (make_inboxd(postgres={"port": server.port, "dbname": "postgres"}, inbox={"instance": name})
                    for name in ("earlier", "new"))
    earlier.program = earlier_program
    earlier.start("run", "--migrate")
    before, shop, sent = inbox.value(VERSION), Shop(inbox), 0

    def produce(count):
        nonlocal sent
        produce_all(streams, topic, count, first=sent)
        sent += count

    def all_done():
        inbox.wait_processed(sent, timeout=60)
        shop.is_exact(sent)

    def serve(sidecar):
        handler(sidecar.start("run") if not sidecar.is_running() else sidecar, shop.decide(sidecar))
        eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_instances WHERE stopped_at IS NULL AND fenced_at IS NULL"
                                       " AND id IN (SELECT owner FROM inbox.inbox_offsets)") ==
                   earlier.is_running() + new.is_running(), timeout=60, what="each sidecar to have partitions")

    def kill_under_load(sidecar):
        produce(600)
        eventually(lambda: inbox.count("processed") > sent - 500)
        sidecar.kill()
        all_done()

    serve(earlier)
    produce(300)
    all_done()
    migrated = new.command("migrate")
    assert migrated.returncode == 0, migrated.stderr
    assert inbox.value(VERSION) > before
    serve(new)
    produce(300)
    all_done()
    kill_under_load(earlier)
    serve(earlier)
    kill_under_load(new)
    produce(300)
    all_done()
    assert (shop.parts[earlier], shop.parts[new]) == ({3}, {5})
    assert "level=error" not in earlier.stderr + new.stderr
