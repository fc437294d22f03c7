"""The rate of `inboxd backfill`: a consumer gets rows that the table holds for another one, alone and beside a running
load. No handler gets the copies, so it is the cost of copying alone. The floor is an INSERT of the same rows."""

import contextlib
import functools
import json
import time

from support.wait import eventually

import floor
import latency
import report
from fleet import HANDLER, Fleet
from group import Group
from servers import wal_position

ROWS, SMOKE_ROWS = 1_000_000, 10_000
PROCESSED = (f"UPDATE inbox.inbox_messages SET consumer = '{HANDLER}', processed_at = now()",)
NEW = "INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('new', 'key', '1 hour')"
TOPIC = "bench"  # of floor_rows.c; it has no records
PARTITIONS = 4
WARM_UP, BEFORE, MOST = 20, 20, 80  # seconds of the load: not counted, without the backfill, and most of it with the backfill
SMOKE_SHARE = 10
PAGE = 1_000  # rows of a transaction, as in src/ops/backfill.c
INSERT = """INSERT INTO inbox.inbox_messages (consumer, source, event_id, event_type, topic, kafka_partition, kafka_offset,
            kafka_timestamp, key, headers, payload, payload_digest, available_at)
            SELECT 'new', source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers,
                   payload, payload_digest, now()
            FROM inbox.inbox_messages WHERE seq > %s AND seq <= %s AND topic = %s"""


def _command(sidecar, _connection, _rows):
    done = sidecar.command("backfill", "new", "--yes", "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["count"]


def _insert(_sidecar, connection, rows):
    """floor.fill() gave the rows the numbers from 1 on. Only the last COMMIT waits for the disk, as in the backfill."""
    connection.execute("SET synchronous_commit = off")
    copied = sum(connection.execute(INSERT, [after, min(after + PAGE, rows), TOPIC]).rowcount
                 for after in range(0, rows - PAGE, PAGE))
    connection.execute("RESET synchronous_commit")
    return copied + connection.execute(INSERT, [rows - PAGE, rows, TOPIC]).rowcount


def _backfill(servers, sidecar, connection, rows, copy):
    connection.execute("CHECKPOINT")
    cpu, wal, began = servers.cpu_seconds(), wal_position(connection), time.monotonic()
    copied = copy(sidecar, connection, rows)
    took = time.monotonic() - began
    found = connection.execute("SELECT count(*) FROM inbox.inbox_messages WHERE consumer = 'new' AND topic = %s", [TOPIC]).fetchone()[0]
    assert found == rows <= copied, f"{copied} copied and {found} found, of {rows}"
    return {"rows": rows, "seconds": round(took, 3), "rows_per_second": rows / took, "began": began,
            "postgres_us": (servers.cpu_seconds() - cpu) / rows * 1e6, "wal_bytes": (wal_position(connection) - wal) / rows}


@contextlib.contextmanager
def _filled(servers, rows, *configurations):
    """A sidecar that does not run, with rows that the consumer HANDLER has processed, and a connection."""
    with servers.sidecar({"ingest": {"max_pending": 10 * rows}}, *configurations) as sidecar, \
            servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection:
        floor.fill(servers, connection, rows, *PROCESSED)
        yield sidecar, connection


def _alone(servers, options, *, copy):
    rows = SMOKE_ROWS if options.smoke else ROWS
    with _filled(servers, rows) as (sidecar, connection):
        connection.execute(NEW)
        return _backfill(servers, sidecar, connection, rows, copy)


def _beside(servers, options, *, copy, rate):
    """Both consumers want the messages of the load. Its latencies are those of the consumer that has a handler."""
    rows, share = (SMOKE_ROWS, SMOKE_SHARE) if options.smoke else (ROWS, 1)
    topic = servers.empty_topic(PARTITIONS)
    servers.known_topic(TOPIC, PARTITIONS)
    with _filled(servers, rows, {"kafka": {"topics": [topic, TOPIC]}, "consumers": {HANDLER: {}, "new": {}}}) as (
            sidecar, connection), Fleet(sidecar, handler=latency.Handler, names=[HANDLER]) as fleet:
        fleet.start()
        fleet.wait_assigned(connection, 2 * PARTITIONS)
        load, began = latency.producer(servers, topic, rate, (WARM_UP + BEFORE + MOST) // share), time.monotonic()
        time.sleep((WARM_UP + BEFORE) / share)
        result = _backfill(servers, sidecar, connection, rows, copy)
        produced = latency.produced(load)
        eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler=HANDLER, outcome="done") >= produced["sent"],
                   timeout=120, every=0.2, what=f"{produced['sent']} messages to be done; inboxd: {fleet.log()}")
        pairs = fleet.stop_each()[0]
    assert len(pairs) == produced["sent"], f"the handler has seen {len(pairs)} of {produced['sent']}"
    start = result.pop("began")
    return {**result, **_latencies(pairs, "before", began + WARM_UP / share, start),
            **_latencies(pairs, "during", start, start + result["seconds"])}


def _latencies(pairs, name, first, last):
    found = latency.percentiles([(due, took) for due, took in pairs if first <= due / 1e6 < last])
    return {f"{key}_{name}": value for key, value in found.items()}


RATE = 1_000
HOW = {"INSERT": _insert, "backfill": _command}

GROUP = Group(
    "backfill", "rows of 400 B that another consumer has; milliseconds from when a record of the load was due until the handler"
    " has it", lambda name: name.replace("backfill", "INSERT"),
    [report.column("rows", "rows", "{:,}"), report.RATE, report.RATIO, report.column("PostgreSQL µs", "postgres_us", "{:.1f}"),
     report.column("WAL B", "wal_bytes", "{:,.0f}"),
     *(latency.milliseconds(f"{name}, {when}", f"{name}_us_{when}") for name in ("p50", "p99") for when in ("before", "during"))],
    [(f"{name} alone", functools.partial(_alone, copy=copy)) for name, copy in HOW.items()]
    + [(f"{name} beside {RATE:,}/s", functools.partial(_beside, copy=copy, rate=RATE)) for name, copy in HOW.items()])
