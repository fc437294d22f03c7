"""Rows that wait in the table and are claimed with SKIP LOCKED: overflow, retries, a dead instance's rows."""

import contextlib
import functools

from support.wait import eventually

import floor
import report
from fleet import HANDLER, Fleet
from group import Group
from growth import old_snapshot
from servers import wal_position

ROWS, SMOKE_ROWS = 200_000, 10_000
PARTITIONS = 4
TOPIC = "bench"  # the topic of floor_rows.c; it has no records
BASE = "2 connections"
DEAD = 1  # the instance that holds the rows of floor.c

# What is done to rows that instance DEAD has been holding since their birth.
WAITING = ("UPDATE inbox.inbox_messages SET claimed_by = NULL, delivery_count = 0, available_at = now()",)
RETRIES = ("UPDATE inbox.inbox_messages SET claimed_by = NULL, retry_count = 1, error = 'upstream 503',"
           " error_code = 'UPSTREAM', available_at = now() - random() * interval '1 hour'",)
RESCUE = (f"INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at)"
          f" VALUES ({DEAD}, 'dead', 1, now())",)


def measure(servers, options, *, before, connections=2, ordering="none", during=None):
    rows = SMOKE_ROWS if options.smoke else ROWS
    servers.known_topic(TOPIC, PARTITIONS)
    with servers.sidecar({"kafka": {"topics": [TOPIC]}, "inbox": {"ordering": ordering},
                          "worker": {"connections": connections}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection, Fleet(sidecar) as fleet:
            floor.fill(servers, connection, rows, *before)
            connection.execute("CHECKPOINT")
            with during(connection) if during else contextlib.nullcontext():
                return _run(servers, fleet, connection, rows)


def _run(servers, fleet, connection, rows):
    sidecar = fleet.sidecars[0]
    fleet.start()
    fleet.wait_assigned(connection, PARTITIONS)
    began = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]
    before = _costs(servers, fleet, connection)
    eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler=HANDLER,
                                      outcome="done") >= rows, timeout=600, every=0.2,
               what=f"{rows} rows to be handled; inboxd: {fleet.log()}")
    after, peak = _costs(servers, fleet, connection), fleet.peak_memory()
    counted = fleet.stop()
    left, ended = connection.execute(
        "SELECT count(*) FILTER (WHERE processed_at IS NULL), extract(epoch FROM max(processed_at))::float8"
        " FROM inbox.inbox_messages").fetchone()
    assert left == 0, f"{left} rows are not processed"
    assert counted["distinct"] == rows, f"the handler has seen {counted['distinct']} of {rows}"
    return {"rows": rows, "seconds": round(ended - began, 3), "rows_per_second": rows / (ended - began),
            **{name: (after[name] - before[name]) / rows for name in before},
            "peak_rss_bytes": peak, "again": counted["deliveries"] - rows}


def _costs(servers, fleet, connection):
    return {"inboxd_us": fleet.cpu_seconds() * 1e6, "handler_us": fleet.handler_cpu_seconds() * 1e6,
            "postgres_us": servers.cpu_seconds() * 1e6, "wal_bytes": wal_position(connection)}


def _connections(count):
    return functools.partial(measure, before=WAITING, connections=count)


GROUP = Group(
    "slow path", f"{ROWS:,} rows of 400 B wait in the table; ordering none, 2 connections unless the name"
    " says otherwise", BASE,
    [report.column("rows", "rows", "{:,}"), report.RATE, report.RATIO, *report.COSTS, report.PEAK],
    [("1 connection", _connections(1))]
    + [(f"{count} connections", _connections(count)) for count in (2, 4, 8)]
    + [("waiting, key", functools.partial(measure, before=WAITING, ordering="key")),
       ("old snapshot", functools.partial(measure, before=WAITING, during=old_snapshot)),
       ("retries due", functools.partial(measure, before=RETRIES)),
       ("rows of a dead instance", functools.partial(measure, before=RESCUE))])
