"""The cost of an idle sidecar: just started, and after a load."""

import functools
import pathlib
import re
import time

from support.wait import eventually

import costs
import report
from fleet import HANDLER, Fleet
from group import Group
from records import Shape

SECONDS, SMOKE_SECONDS = 20, 3
SETTLED = 3  # seconds after the last thing that happened
PARTITIONS = 4


def _measure(servers, options, *, loaded):
    shape = Shape(options.messages)
    topic = servers.topic(shape) if loaded else servers.empty_topic(PARTITIONS)
    with servers.sidecar({"kafka": {"topics": [topic]}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect() as elsewhere, servers.postgres.connect(database) as inside, \
                Fleet(sidecar) as fleet:
            inside.execute("CREATE EXTENSION pg_stat_statements")
            elsewhere.execute(f"ALTER DATABASE {database} SET pg_stat_statements.track = 'top'")
            fleet.start()
            fleet.wait_assigned(inside, PARTITIONS)
            _wait_handled(sidecar, shape.distinct() if loaded else 0)
            time.sleep(SETTLED)
            return _watch(_Now(servers, sidecar, inside),
                          SMOKE_SECONDS if options.smoke else SECONDS)


def _wait_handled(sidecar, expected):
    eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler=HANDLER,
                                      outcome="done") >= expected, timeout=600, every=0.2)


class _Now:
    """The current counters. The statements that read them are not tracked."""

    def __init__(self, servers, sidecar, connection):
        self._servers = servers
        self._connection = connection
        self.sidecar = sidecar
        connection.execute("SET pg_stat_statements.track = 'none'")
        connection.execute("SELECT pg_stat_statements_reset()")

    def counters(self):
        return {"inboxd": costs.of_process(self.sidecar.pid),
                "postgres": self._servers.cpu_seconds(),
                "statements": sum(self.statements().values())}

    def statements(self):
        """{first words of each: how often since the start of the measurement}"""
        return dict(self._connection.execute(
            "SELECT left(regexp_replace(query, '\\s+', ' ', 'g'), 120), sum(calls)::int"
            " FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database"
            " WHERE datname = current_database()) GROUP BY 1 ORDER BY 2 DESC").fetchall())

    def connections(self):
        return self._connection.execute(
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()").fetchone()[0]


def _watch(now, seconds):
    before, began = now.counters(), time.monotonic()
    time.sleep(seconds)
    took, after = time.monotonic() - began, now.counters()
    memory = pathlib.Path(f"/proc/{now.sidecar.pid}/status").read_text(encoding="ascii")
    return {"seconds": round(took, 1),
            "inboxd_share": (after["inboxd"] - before["inboxd"]) / took,
            "postgres_share": (after["postgres"] - before["postgres"]) / took,
            "statements_per_second": (after["statements"] - before["statements"]) / took,
            "statements": now.statements(),
            "connections": now.connections(),
            "rss_bytes": int(re.search(r"VmRSS:\s+(\d+) kB", memory)[1]) * 1024,
            "peak_rss_bytes": now.sidecar.peak_memory()}


GROUP = Group(
    "idle", "no message comes; a handler is connected; % of one core", None,
    [report.column("seconds", "seconds", "{:.0f}"),
     report.column("inboxd %", "inboxd_share", "{:.2f}", 100),
     report.column("PostgreSQL %", "postgres_share", "{:.2f}", 100),
     report.column("statements/s", "statements_per_second", "{:.1f}"),
     report.column("connections", "connections", "{}"),
     report.column("resident MiB", "rss_bytes", "{:.0f}", 2 ** -20), report.PEAK],
    [("just started", functools.partial(_measure, loaded=False)),
     ("after the messages", functools.partial(_measure, loaded=True))],
    compared=[("inboxd %", "inboxd_share"), ("PostgreSQL %", "postgres_share"), ("statements/s", "statements_per_second"),
              ("connections", "connections")])
