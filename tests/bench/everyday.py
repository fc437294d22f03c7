"""What a message costs, and how long it takes, at the rates that most services have, beside consumers written by hand.

`paced_producer` sends for some seconds first. When all of this is done, it sends again, and the measurement lasts until the
last of these records is done: all of them count. The latency is the time from when a record was due to be produced until
the transaction that completed its row began, by the clock of this machine.
"""

import contextlib
import functools
import itertools
import math
import os
import time
import typing

import psycopg

from support.wait import eventually

import costs
import environments
import latency
import report
import sidebyside
from fleet import Fleet
from group import Group
from servers import wal_position

PARTITIONS = 4
SECONDS, SMOKE_SECONDS = 8, 2
WARM_UP, SMOKE_WARM_UP = 3, 1
WARM_UP_RATE = 20  # at least: connections, plans and a JVM warm up, however slow the measured rate is
RARE_COUNT = 3     # messages, if there is less than one a second
TIMEOUT = 120
DUE = "substring(convert_from(substring(payload FOR 40), 'UTF8') FROM '\"due_us\":(\\d+)')::bigint"


class Pace(typing.NamedTuple):
    rate: float
    smoke: bool = False
    long: bool = False  # only with --long

    def chosen(self, options):
        return self.smoke if options.smoke else options.long or not self.long

    def seconds(self, options):
        """How long to send."""
        if self.rate < 1:
            return round(RARE_COUNT / self.rate)
        return options.seconds or (SMOKE_SECONDS if options.smoke else SECONDS)


class _Program(typing.NamedTuple):
    """What is measured, at work."""
    servers: typing.Any
    connection: psycopg.Connection
    topic: str
    table: str
    cpu: typing.Callable    # () -> {name: seconds}
    check: typing.Callable  # fails if it does not run


def _measured(program, pace, options):
    warmed = _send(program, 0, max(pace.rate, WARM_UP_RATE), SMOKE_WARM_UP if options.smoke else WARM_UP)["sent"]
    # One transaction for all that is asked meanwhile, so that it adds none to those that are counted.
    with program.connection.transaction(force_rollback=True):
        began, before = time.monotonic(), _now(program)
        load = _send(program, warmed, pace.rate, pace.seconds(options))
        after, sent = _now(program), load.pop("sent")
        pairs = _latencies(program, began)
    assert len(pairs) == sent, f"{len(pairs)} of {sent} messages are processed"
    busy = costs.spent(before.pop("server"), after.pop("server"), program.connection.info.backend_pid)
    return {"messages": sent, **latency.percentiles(pairs), **load, "load": os.getloadavg()[0],
            "postgres_us": busy * 1e6 / sent, **{name: (after[name] - before[name]) / sent for name in before}}


def _send(program, before, rate, seconds):
    """Sends, and waits until all rows are processed, those `before` as well."""
    load = latency.produced(latency.producer(program.servers, program.topic, rate, seconds))
    eventually(lambda: _done(program) >= before + load["sent"], timeout=TIMEOUT, what=f"{load['sent']} messages to be processed")
    return load


def _done(program):
    program.check()
    with contextlib.suppress(psycopg.errors.UndefinedTable):  # a program makes its table itself
        return program.connection.execute(f"SELECT count(processed_at) FROM {program.table}").fetchone()[0]
    return 0


def _now(program):
    """The counters. PostgreSQL reports transactions within a second; what is missing at the end was missing at the start."""
    program.connection.execute("SELECT pg_stat_clear_snapshot()")
    transactions = program.connection.execute(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").fetchone()[0]
    return {"transactions": transactions, "wal_bytes": wal_position(program.connection),
            "server": costs.exactly_of_server(program.servers.postgres.pid()),
            **{name: seconds * 1e6 for name, seconds in program.cpu().items()}}


def _latencies(program, began):
    """The pairs (due, latency) of the records that were due since, in microseconds."""
    ahead = _wall_ahead_us()
    return program.connection.execute(
        f"SELECT due, (extract(epoch FROM processed_at) * 1000000)::bigint - %s - due"
        f" FROM (SELECT {DUE} AS due, processed_at FROM {program.table}) AS rows"
        f" WHERE due >= %s AND processed_at IS NOT NULL", [ahead, int(began * 1e6)]).fetchall()


def _wall_ahead_us():
    """How far the clock of the transactions is ahead of the monotonic one of the producer."""
    samples = []
    for _ in range(20):
        first, wall, last = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        samples.append((last - first, wall - (first + last) // 2))
    return min(samples)[1] // 1000


def _inboxd(servers, options, *, pace, environment=environments.near):
    if not pace.chosen(options):
        return None
    topic = servers.empty_topic(PARTITIONS)
    with environment(servers), servers.sidecar({"kafka": {"topics": [topic]}}) as sidecar, \
            servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection, Fleet(sidecar) as fleet:
        fleet.start()
        fleet.wait_assigned(connection, PARTITIONS)

        def cpu():
            own, handler = fleet.cpu_seconds(), fleet.handler_cpu_seconds()
            return {"inboxd_us": own, "client_us": own + handler}

        def check():
            assert fleet.is_running(), fleet.log()

        result = _measured(_Program(servers, connection, topic, "inbox.inbox_messages", cpu, check), pace, options)
        counted = fleet.stop()
        assert counted["distinct"] > result["messages"], f"the handler has counted {counted}"
        return {**result, "again": counted["deliveries"] - counted["distinct"]}


@sidebyside.if_installed
def _peer(servers, options, *, pace, peer):
    if not pace.chosen(options):
        return None
    topic = servers.empty_topic(PARTITIONS)
    with sidebyside.running(servers, topic, peer) as run:
        return _measured(_Program(servers, run.connection, topic, peer.table, lambda: {"client_us": run.cpu_seconds()},
                                  lambda: run.check(math.inf)), pace, options)


PACES = {"every 2 min": Pace(1 / 120, long=True), "every 5 s": Pace(1 / 5), "20/s": Pace(20), "100/s": Pace(100, smoke=True),
         "1,000/s": Pace(1_000)}
INBOXD = "inboxd"
# The name in this group, and the name in sidebyside.py.
PEERS = {"Go, inline": "Go, inline", "Go, queue": "Go, claim in a transaction", "Java, textbook": "Java, a transaction per message"}
FAR = {"2 ms away": functools.partial(environments.far_away, delay_us=1_000),
       "20 ms away": functools.partial(environments.far_away, delay_us=10_000)}
FAR_PACES = ("100/s", "1,000/s")


def _all():
    for name, pace in PACES.items():
        yield f"{name}: {INBOXD}", functools.partial(_inboxd, pace=pace)
        for peer, of_peers in PEERS.items():
            yield f"{name}: {peer}", functools.partial(_peer, pace=pace, peer=dict(sidebyside.PEERS)[of_peers])
    for name, (far, environment) in itertools.product(FAR_PACES, FAR.items()):
        yield f"{name}: {INBOXD}, {far}", functools.partial(_inboxd, pace=PACES[name], environment=environment)


GROUP = Group(
    "everyday", "client µs: of the process that reads Kafka and of the handler; milliseconds from when a record was due to be"
    " produced until the transaction that completed its row began; load: of the machine, the mean of a minute", None,
    [report.column("messages", "messages", "{:,}"), report.column("client µs", "client_us", "{:,.0f}"),
     report.column("inboxd µs", "inboxd_us", "{:,.0f}"), report.column("PostgreSQL µs", "postgres_us", "{:,.0f}"),
     report.column("WAL B", "wal_bytes", "{:,.0f}"), report.column("transactions", "transactions", "{:.1f}"),
     latency.milliseconds("p50", "p50_us"), latency.milliseconds("p99", "p99_us"),
     latency.milliseconds("producer late, p99", "late_p99_us"), report.column("load", "load", "{:.1f}")],
    list(_all()),
    comparisons=[(f"{name}: {INBOXD}", f"{name}: {peer}") for name in PACES for peer in PEERS]
    + [(f"{name}: {INBOXD}, {far}", f"{name}: {INBOXD}") for name in FAR_PACES for far in FAR],
    compared=[("client µs", "client_us"), ("PostgreSQL µs", "postgres_us"), ("WAL B", "wal_bytes"),
              ("transactions", "transactions"), ("p50", "p50_us"), ("p99", "p99_us")])
