"""The relay of the outbox: how fast it publishes what waits, how long a COMMIT takes until the broker has its event, and
what an idle poll costs."""

import contextlib
import functools
import itertools
import json
import socket
import time

import psycopg

from support.wait import eventually

import costs
import publishing
import report
from group import Group
from servers import wal_position

SECONDS, SMOKE_SECONDS = 30, 6
RATE = 1_000
SINGLE, SMOKE_SINGLE = 30, 3
POLLS = 5  # seconds of idle polls
OLD_SNAPSHOT = 1_000_000
INSERT = (f"PERFORM inbox.emit_bytes('TOPIC', convert_to('key' || i % {publishing.KEYS}, 'UTF8'), 'order.paid',"
          f" convert_to({publishing.PAYLOAD}, 'UTF8'), 'application/json') FROM SERIES")
EMIT = f"SELECT inbox.emit('TOPIC', :key, 'order.paid', {publishing.PAYLOAD}::jsonb);"
_numbers = itertools.count(1)


class Inboxd:
    def __init__(self, servers, sidecar, connection):
        self._servers = servers
        self._sidecar = sidecar
        self._connection = connection

    def start(self):
        self._sidecar.start("run", ready=False)

    def check(self, deadline):
        assert self._sidecar.is_running() and time.monotonic() < deadline, self._sidecar.stderr[-2000:]

    def wait_recorded(self):
        eventually(lambda: self._connection.execute("SELECT count(*) FROM inbox.outbox").fetchone()[0] == 0,
                   timeout=publishing.TIMEOUT, every=0.05)

    def costs(self):
        return {"client_us": costs.of_process(self._sidecar.pid) * 1e6, "postgres_us": self._servers.cpu_seconds() * 1e6,
                "wal_bytes": wal_position(self._connection)}

    def peak_memory(self):
        return self._sidecar.peak_memory()


@contextlib.contextmanager
def inboxd(servers, **outbox):
    """An inboxd that is not started, with its database; it reads an empty topic."""
    topic = publishing.Topic(servers, f"bench.events.{next(_numbers)}")
    with servers.sidecar({"kafka": {"topics": [servers.empty_topic(1)]}, "outbox": {"enabled": True, **outbox}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect() as elsewhere, servers.postgres.connect(database) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            elsewhere.execute(f"ALTER DATABASE {database} SET pg_stat_statements.track = 'top'")
            yield topic, sidecar, connection
            sidecar.stop()


@contextlib.contextmanager
def _snapshot(servers, database):
    with psycopg.connect(servers.postgres.conninfo(database)) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM inbox.outbox")
        yield


def _poll_us(connection):
    """The mean time of an idle poll in PostgreSQL, and the pages it reads."""
    time.sleep(1)
    connection.execute("SELECT pg_stat_statements_reset()")
    time.sleep(POLLS)
    calls, us, pages = connection.execute(
        "SELECT sum(calls), sum(total_exec_time) / sum(calls) * 1000,"
        " sum(shared_blks_hit + shared_blks_read)::float8 / sum(calls) FROM pg_stat_statements"
        " WHERE query ~ 'o.seq > \\$3::bigint\\s+ORDER BY'").fetchone()
    assert calls and calls > POLLS, f"{calls} polls"
    return {"poll_us": us, "poll_pages": pages}


def _drain(servers, options, *, count=None, snapshot=False):
    count = count or options.messages
    if options.smoke:
        count = min(count, options.messages)
    with inboxd(servers) as (topic, sidecar, connection), contextlib.ExitStack() as stack:
        if snapshot:
            stack.enter_context(_snapshot(servers, connection.info.dbname))
        publishing.store(connection, INSERT.replace("TOPIC", topic.name), count)
        program = Inboxd(servers, sidecar, connection)
        return {**publishing.drain(program, topic, count), **_poll_us(connection)}


def _off(servers, _options):
    """The memory of a sidecar that publishes no events."""
    with inboxd(servers, enabled=False) as (_topic, sidecar, _connection):
        sidecar.start("run")
        time.sleep(1)
        return {"peak_rss_bytes": sidecar.peak_memory()}


def _paced(servers, options, *, snapshot=False):
    seconds = SMOKE_SECONDS if options.smoke else SECONDS
    with inboxd(servers) as (topic, sidecar, connection), contextlib.ExitStack() as stack:
        if snapshot:
            stack.enter_context(_snapshot(servers, connection.info.dbname))
        program = Inboxd(servers, sidecar, connection)
        program.start()
        sidecar.wait_ready()
        before = program.costs()
        committed = publishing.paced(servers, connection.info.dbname, EMIT.replace("TOPIC", topic.name), RATE, seconds)
        result = publishing.latency(topic, committed, seconds / 3)
        after = program.costs()
        return {**result, **{name: (after[name] - before[name]) / len(committed) for name in ("client_us", "postgres_us")}}


def _poke(sidecar):
    poke = socket.socket(socket.AF_UNIX)
    poke.connect(sidecar.socket_path)
    return lambda: poke.sendall(json.dumps({"jsonrpc": "2.0", "method": "poke"}).encode() + b"\n")


def _single(servers, options, *, poked):
    """One event a second."""
    count = SMOKE_SINGLE if options.smoke else SINGLE
    committed = {}
    with inboxd(servers) as (topic, sidecar, connection):
        sidecar.start("run")
        wake = _poke(sidecar) if poked else lambda: None
        for number in range(-2, count):  # the first two do not count
            time.sleep(1 + number % 10 / 100)
            connection.execute("SELECT inbox.emit(%s, %s, 'order.paid', '{}')", [topic.name, f"n{number}"])
            committed[f"n{number}"] = time.time()
            wake()
        return publishing.latency(topic, committed, 1.5)


_LATENCY = [report.column("events", "counted", "{:,}"), *(report.column(title, key, "{:.1f}", 1e-3) for title, key in (
    ("p50", "p50_us"), ("p90", "p90_us"), ("p99", "p99_us"), ("max", "max_us")))]
_COSTS = [report.column("client µs", "client_us", "{:.1f}"), report.column("PostgreSQL µs", "postgres_us", "{:.1f}")]
DRAIN = Group(
    "relay", "events of 400 B that wait in the outbox are published; what it adds to the INSERT", None,
    [report.column("events", "events", "{:,}"), report.RATE, *_COSTS, report.column("WAL B", "wal_bytes", "{:,.0f}"), report.PEAK,
     report.column("idle poll µs", "poll_us", "{:.0f}"), report.column("pages", "poll_pages", "{:.1f}")],
    [("drain", _drain), ("outbox off", _off),
     ("1 M events", functools.partial(_drain, count=OLD_SNAPSHOT)),
     ("1 M events, old snapshot", functools.partial(_drain, count=OLD_SNAPSHOT, snapshot=True))])
LATENCY = Group(
    "relay latency", "milliseconds from the return of COMMIT until the broker has the event", None, [*_LATENCY, *_COSTS],
    [("1,000 events/s", _paced), ("1,000 events/s, old snapshot", functools.partial(_paced, snapshot=True)),
     ("after silence", functools.partial(_single, poked=False)), ("after silence, poked", functools.partial(_single, poked=True))])
