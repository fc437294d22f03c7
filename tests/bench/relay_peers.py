"""Other programs that publish an outbox, and the relay of inboxd, in one run: first events that wait, then events at a fixed
rate. Each has the table that its documentation shows."""

import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing
import uuid

from support import process
from support.wait import eventually

import costs
import peer_install
import publishing
import relay
import report
from group import Group
from servers import wal_position

BASE = "inboxd"
SECONDS, SMOKE_SECONDS = 30, 6


class Peer(typing.NamedTuple):
    command: typing.Callable  # (environment, directory) -> arguments
    prepare: typing.Callable  # (connection, environment): makes the table
    columns: str
    values: str               # for the key KEY
    rate: int                 # events a second after the drain
    most: int | None = None   # events of the drain
    logical: bool = False     # it needs wal_level = logical
    table: str = "outbox"


class _Program:
    def __init__(self, servers, connection, command, directory, environment):
        self._servers = servers
        self._connection = connection
        self._command = command
        self._log = os.path.join(directory, "peer.log")
        self._environment = {**os.environ, **environment}
        self._process = None

    def start(self):
        self._process = process.spawn(self._command, self._log, env=self._environment, cwd=os.path.dirname(self._log))

    def check(self, deadline):
        assert self._process.poll() is None, f"it ended: {process.tail(self._log)}"
        assert time.monotonic() < deadline, f"too late: {process.tail(self._log)}"

    def wait_recorded(self):
        """Its confirmations are not awaited."""

    def costs(self):
        return {"client_us": costs.of_process(self._process.pid) * 1e6, "postgres_us": self._servers.cpu_seconds() * 1e6,
                "wal_bytes": wal_position(self._connection)}

    def peak_memory(self):
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024

    def stop(self):
        if self._process is not None:
            process.end(self._process, signal.SIGTERM, timeout=20)


@contextlib.contextmanager
def _wal_level(servers, level):
    before = servers.postgres.settings.get("wal_level", "replica")
    try:
        servers.postgres.settings["wal_level"] = level
        servers.postgres.restart()
        yield
    finally:
        servers.postgres.settings["wal_level"] = before
        servers.postgres.restart()


def _count(peer, options):
    count = min(peer.most or options.messages, options.messages)
    return count - count % publishing.PER_TRANSACTION


def _measure(servers, options, *, peer):
    try:
        with _wal_level(servers, "logical") if peer.logical else contextlib.nullcontext():
            return _measure_in(servers, options, peer)
    except peer_install.NotHere as reason:
        print(f"relay peers: not measured, {reason}", file=sys.stderr, flush=True)
        return None


def _measure_in(servers, options, peer):
    topic = publishing.Topic(servers, f"bench.peer.{uuid.uuid4().hex[:8]}")
    database = servers.postgres.create_database(f"peer_{uuid.uuid4().hex[:8]}")
    directory = process.scratch("peer")
    environment = {"BOOTSTRAP": servers.kafka.bootstrap, "TOPIC": topic.name,
                   "DSN": f"postgres://postgres@127.0.0.1:{servers.postgres.port}/{database}"}
    insert = f"INSERT INTO {peer.table} ({peer.columns}) SELECT {peer.values.replace('TOPIC', topic.name)}"
    with servers.postgres.connect(database) as connection:
        peer.prepare(connection, environment)
        program = _Program(servers, connection, peer.command(environment, directory), directory, environment)
        try:
            publishing.store(connection, insert.replace("KEY", f"'key' || i % {publishing.KEYS}") + " FROM SERIES",
                             _count(peer, options))
            result = publishing.drain(program, topic, _count(peer, options))
            return {**result, **_paced(servers, options, topic, database, insert.replace("KEY", ":key") + ";", peer.rate)}
        finally:
            program.stop()
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                               " AND pid <> pg_backend_pid()")
            eventually(lambda: connection.execute("SELECT count(*) FROM pg_replication_slots WHERE active").fetchone()[0] == 0)
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                               " WHERE database = current_database()")
    servers.postgres.drop_database(database)


def _paced(servers, options, topic, database, statement, rate):
    seconds = SMOKE_SECONDS if options.smoke else SECONDS
    before = topic.count()
    committed = publishing.paced(servers, database, statement, rate, seconds)
    return {"rate": rate, **publishing.latency(topic, committed, seconds / 3, before)}


def _inboxd(servers, options):
    """The relay with the clock of the others."""
    with relay.inboxd(servers) as (topic, sidecar, connection):
        publishing.store(connection, relay.INSERT.replace("TOPIC", topic.name), options.messages)
        result = publishing.drain(relay.Inboxd(servers, sidecar, connection), topic, options.messages)
        sidecar.wait_ready()
        return {**result, **_paced(servers, options, topic, connection.info.dbname, relay.EMIT.replace("TOPIC", topic.name),
                                   relay.RATE)}


def _debezium_table(connection, _environment):
    connection.execute("CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,"
                       " type text NOT NULL, payload text)")
    connection.execute("CREATE PUBLICATION peer FOR TABLE outbox")
    connection.execute("SELECT pg_create_logical_replication_slot(current_database()::text, 'pgoutput')")


def _debezium(environment, directory):
    home = peer_install.debezium()
    server, _, database = environment["DSN"].rpartition("@")[2].partition("/")
    host, _, port = server.partition(":")
    paths = []
    for name, added in (
            ("worker", {"bootstrap.servers": environment["BOOTSTRAP"],
                        "listeners": f"http://127.0.0.1:{process.free_port()}",
                        "offset.storage.file.filename": os.path.join(directory, "offsets")}),
            ("source", {"database.hostname": host, "database.port": port, "database.dbname": database,
                        "slot.name": database})):
        paths.append(os.path.join(directory, f"{name}.properties"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write((home / f"{name}.properties").read_text(encoding="utf-8")
                       + "".join(f"{key}={value}\n" for key, value in added.items()))
    return ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{home}/jars/*",
            "org.apache.kafka.connect.cli.ConnectStandalone", *paths]


def _open_outbox_home():
    """A checkout of open-outbox/relay with its program, which is in no registry."""
    home = os.environ.get("OPEN_OUTBOX_RELAY", "")
    if not os.access(os.path.join(home, "relay"), os.X_OK):
        raise peer_install.NotHere("OPEN_OUTBOX_RELAY names no checkout of open-outbox/relay with its program `relay` in it")
    return pathlib.Path(home)


def _open_outbox_table(connection, _environment):
    for name in ("open-outbox.sql", "maintenance.sql"):
        connection.execute((_open_outbox_home() / "schema" / "postgres" / name).read_text(encoding="utf-8"))


def _open_outbox(environment, _directory):
    """It sends one request a record. Larger batches of the producer are slower: the program waits for each record, so no batch is
    ever full. The claims are larger than by default, and it polls more often, because that is faster."""
    settings = {"STORAGE_URL": environment["DSN"] + "?sslmode=disable", "PUBLISHER_TYPE": "kafka",
                "PUBLISHER_URL": environment["BOOTSTRAP"], "SERVER_PORT": f"127.0.0.1:{process.free_port()}",
                "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "BATCH_SIZE": 5000, "POLL_INTERVAL": "10ms"}
    return ["env", *(f"{name}={value}" for name, value in settings.items()), str(_open_outbox_home() / "relay")]


def _node_table(_connection, environment):
    done = subprocess.run(["node", str(peer_install.node() / "outbox.js"), "table"], env={**os.environ, **environment},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _node(_environment, _directory):
    return ["node", str(peer_install.node() / "outbox.js")]


PEERS = [
    ("Debezium, outbox event router",
     Peer(_debezium, _debezium_table, "id, aggregatetype, aggregateid, type, payload",
          f"gen_random_uuid(), 'TOPIC', KEY, 'order.paid', {publishing.PAYLOAD}", rate=relay.RATE, logical=True)),
    ("open-outbox/relay",
     Peer(_open_outbox, _open_outbox_table, "event_id, event_type, partition_key, payload",
          f"gen_random_uuid(), 'TOPIC', KEY, convert_to({publishing.PAYLOAD}, 'UTF8')", rate=relay.RATE, table="openoutbox_events")),
    ("pg-transactional-outbox, polling",
     Peer(_node, _node_table, "id, aggregate_type, aggregate_id, message_type, segment, payload",
          f"gen_random_uuid(), 'order', KEY, 'order.paid', KEY, {publishing.PAYLOAD}::jsonb", rate=100, most=3_000)),
]

GROUP = Group(
    "relay peers", "others that publish events of 400 B, side by side; then milliseconds from COMMIT to the broker at a fixed rate",
    BASE,
    [report.column("events", "events", "{:,}"), report.RATE, report.RATIO, report.column("client µs", "client_us", "{:.1f}"),
     *report.COSTS[2:], report.PEAK, report.column("rate", "rate", "{:,}"),
     *(report.column(title, key, "{:.1f}", 1e-3) for title, key in (("p50", "p50_us"), ("p99", "p99_us"), ("max", "max_us")))],
    [(BASE, _inboxd)] + [(name, functools.partial(_measure, peer=peer)) for name, peer in PEERS])
