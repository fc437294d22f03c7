"""Other programs that store the same topic in the same PostgreSQL, and inboxd, in one run.

The clock of all of them starts with the first transaction that stored a row (received_at) and stops
with the last one that changed one; the start of a JVM is not included, its warm-up is. Slow programs get a part of the
topic: the clock stops when that number of rows is done. Rows that are not distinct or not complete
fail the run.
"""

import contextlib
import functools
import os
import re
import signal
import sys
import time
import typing
import uuid

import psycopg

from support import process

import costs
import endtoend
import peer_install
import report
from group import Group
from records import Shape
from servers import wal_position

BASE = "inboxd"
TIMEOUT = 900
STILL = 1.0  # seconds without a change before rows are counted


class Peer(typing.NamedTuple):
    command: typing.Callable   # (environment, directory) -> arguments
    environment: dict = {}
    table: str = "peer_inbox"
    done: str = "processed_at"  # the column that says when a row was; store only: received_at
    most: int | None = None    # rows after which the clock stops
    prepare: str | None = None  # SQL that makes its table, when it does not do so itself


class Run:
    def __init__(self, servers, connection, topic, peer):
        self._servers = servers
        self.connection = connection
        self._peer = peer
        self.directory = process.scratch("peer")
        self.log = os.path.join(self.directory, "peer.log")
        environment = {"BOOTSTRAP": servers.kafka.bootstrap, "TOPIC": topic,
                       "GROUP": f"peer-{uuid.uuid4()}",
                       "DSN": f"postgres://postgres@127.0.0.1:{servers.database_port}"
                              f"/{connection.info.dbname}", **peer.environment}
        self._process = process.spawn(peer.command(environment, self.directory), self.log,
                                      env={**os.environ, **environment}, cwd=self.directory)

    def cpu_seconds(self):
        return costs.of_process(self._process.pid)

    def costs(self):
        return {"client_us": self.cpu_seconds() * 1e6,
                "postgres_us": self._servers.cpu_seconds() * 1e6,
                "wal_bytes": wal_position(self.connection)}

    def peak_memory(self):
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024

    def wait_first(self, deadline):
        while not self._ask(f"SELECT EXISTS (SELECT FROM {self._peer.table})"):
            self.check(deadline)
            time.sleep(0.02)

    def wait_done(self, expected, deadline, limit=None):
        """Counting rows would disturb the measurement, so it waits until nothing has changed for a while. Returns
        False if that takes longer than `limit` seconds."""
        began = since = time.monotonic()
        changed = None
        while True:
            self.check(deadline)
            if limit and time.monotonic() - began >= limit:
                return False
            time.sleep(0.2)
            now = self._ask("SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
                            f" WHERE relname = '{self._peer.table}'")
            if now != changed:
                changed, since = now, time.monotonic()
            if ((self._peer.most or time.monotonic() - since >= STILL)
                    and self.count() >= expected):
                return True

    def count(self):
        return self.count_and_seconds()[0]

    def count_and_seconds(self):
        """Rows that are done, and how long that took."""
        return self.connection.execute(
            f"SELECT count({self._peer.done}), extract(epoch FROM max({self._peer.done}) - min(received_at))::float8"
            f" FROM {self._peer.table}").fetchone()

    def stop(self):
        process.end(self._process, signal.SIGTERM, timeout=20)

    def _ask(self, sql):
        try:
            return self.connection.execute(sql).fetchone()[0]
        except (psycopg.errors.UndefinedTable, TypeError):
            return 0  # it makes its table, statistics come later

    def check(self, deadline):
        assert self._process.poll() is None, f"it ended: {process.tail(self.log)}"
        assert time.monotonic() < deadline, f"not within {TIMEOUT} s: {process.tail(self.log)}"


@contextlib.contextmanager
def running(servers, topic, peer):
    """The program at work on a topic, with a database of its own."""
    database = servers.postgres.create_database(f"peer_{uuid.uuid4().hex[:8]}")
    try:
        with servers.postgres.connect(database) as connection:
            if peer.prepare:
                connection.execute(peer.prepare)
            connection.execute("CHECKPOINT")
            run = Run(servers, connection, topic, peer)
            try:
                yield run
            finally:
                run.stop()
    finally:
        servers.postgres.drop_database(database)


def if_installed(measure):
    """`measure`, or no result and the reason on stderr if a program cannot be installed."""
    @functools.wraps(measure)
    def tried(*arguments, **options):
        try:
            return measure(*arguments, **options)
        except peer_install.NotHere as reason:
            print(f"peers: not measured, {reason}", file=sys.stderr, flush=True)
            return None
    return tried


@if_installed
def measure(servers, peer, shape, limit=None):
    """Runs the program until all records are done, or for `limit` seconds."""
    with running(servers, servers.topic(shape), peer) as run:
        return _watch(run, peer, shape.distinct(), limit)


def _watch(run, peer, distinct, limit):
    expected = min(peer.most or distinct, distinct)
    deadline = time.monotonic() + TIMEOUT
    run.wait_first(deadline)
    before = run.costs()
    done = run.wait_done(expected, deadline, limit)
    rows, seconds = run.count_and_seconds()
    after, peak = run.costs(), run.peak_memory()
    assert (expected if done else 0) <= rows <= distinct, f"{rows} rows, {distinct} distinct messages"
    assert seconds, f"{rows} rows in one transaction have no rate: more messages, or more time"
    return {"rows": rows, "seconds": round(seconds, 3), "rows_per_second": rows / seconds,
            **{name: (after[name] - before[name]) / rows for name in before},
            "peak_rss_bytes": peak}


def _peer(servers, options, *, peer):
    return measure(servers, peer, Shape(options.messages))


def _inboxd(servers, options, *, batch):
    """The usual run with the clock of the others. The client is inboxd with its handler."""
    result = endtoend.measure(servers, endtoend.Scenario(Shape(options.messages), batch=batch))
    return {"rows": result["messages"], "seconds": result["busy_seconds"],
            "rows_per_second": result["messages"] / result["busy_seconds"],
            "client_us": result["inboxd_us"] + result["handler_us"],
            **{name: result[name] for name in ("inboxd_us", "postgres_us", "wal_bytes", "peak_rss_bytes")}}


def _go(_environment, _directory):
    return [str(peer_install.go())]


def _node(_environment, _directory):
    return ["node", str(peer_install.node() / "inbox.js")]


def _java(main, memory):
    def command(_environment, _directory):
        home = peer_install.java()
        return ["java", f"-Xmx{memory}", "-cp", f"{home}/classes:{home}/jars/*", main]
    return command


def _connect(environment, directory):
    home = peer_install.connect()
    paths = []
    for name, added in (
            ("worker", {"bootstrap.servers": environment["BOOTSTRAP"],
                        "listeners": f"http://127.0.0.1:{process.free_port()}",
                        "offset.storage.file.filename": os.path.join(directory, "offsets")}),
            ("sink", {"topics": environment["TOPIC"],
                      "connection.url": "jdbc:postgresql://" + environment["DSN"].rpartition("@")[2]})):
        paths.append(os.path.join(directory, f"{name}.properties"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write((home / f"{name}.properties").read_text(encoding="utf-8")
                       + "".join(f"{key}={value}\n" for key, value in added.items()))
    return ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{home}/jars/*",
            "org.apache.kafka.connect.cli.ConnectStandalone", *paths]


_STORED_ONLY = ("CREATE TABLE peer_inbox (id text COLLATE \"C\" PRIMARY KEY, payload text,"
                " received_at timestamptz NOT NULL DEFAULT now())")
PEERS = [
    ("Go, claim in a transaction", Peer(_go, {"VARIANT": "tx"})),
    ("Go, inline", Peer(_go, {"VARIANT": "inline"})),
    ("Parallel Consumer, batches of 500", Peer(_java("Batches", "1g"))),
    ("Debezium JDBC sink, stores only",
     Peer(_connect, done="received_at", prepare=_STORED_ONLY)),
    ("Java, a transaction per message", Peer(_java("Textbook", "512m"), most=20_000)),
    ("pg-transactional-outbox", Peer(_node, most=3_000)),
]

GROUP = Group(
    "peers", "others with the same topic, side by side; client µs: of the process that reads Kafka and"
    " of the handler", BASE,
    [report.column("rows", "rows", "{:,}"), report.RATE, report.RATIO,
     report.column("client µs", "client_us", "{:.1f}"), *report.COSTS[2:], report.PEAK],
    [(BASE, functools.partial(_inboxd, batch=1)),
     ("inboxd, batch 100", functools.partial(_inboxd, batch=100))]
    + [(name, functools.partial(_peer, peer=peer)) for name, peer in PEERS])
