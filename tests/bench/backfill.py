"""The rate of `inboxd backfill`: a consumer gets rows that the table holds for another one. No handler gets the copies, so
it is the cost of copying alone."""

import contextlib
import json
import time

import floor
import report
from group import Group
from servers import wal_position

ROWS, SMOKE_ROWS = 1_000_000, 10_000
PROCESSED = ("UPDATE inbox.inbox_messages SET consumer = 'old', processed_at = now()",)
NEW = "INSERT INTO inbox.inbox_consumers (name, ordering, memory) VALUES ('new', 'key', '1 hour')"


def _backfill(servers, options):
    rows = SMOKE_ROWS if options.smoke else ROWS
    with contextlib.ExitStack() as stack:
        sidecar = stack.enter_context(servers.sidecar({"ingest": {"max_pending": 10 * rows}}))
        connection = stack.enter_context(servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]))
        floor.fill(servers, connection, rows, *PROCESSED)
        connection.execute(NEW)
        connection.execute("CHECKPOINT")
        cpu, wal, began = servers.cpu_seconds(), wal_position(connection), time.monotonic()
        done = sidecar.command("backfill", "new", "--yes", "--json", timeout=600)
        took = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        copied = json.loads(done.stdout)["count"]
        found = connection.execute("SELECT count(*) FROM inbox.inbox_messages WHERE consumer = 'new'").fetchone()[0]
        assert copied == found == rows, f"{copied} copied and {found} found, of {rows}"
        return {"rows": rows, "seconds": round(took, 3), "rows_per_second": rows / took,
                "postgres_us": (servers.cpu_seconds() - cpu) / rows * 1e6, "wal_bytes": (wal_position(connection) - wal) / rows}


GROUP = Group(
    "backfill", "rows of 400 B that another consumer has; copied in pages of 5,000, counted before", None,
    [report.column("rows", "rows", "{:,}"), report.RATE, report.column("PostgreSQL µs", "postgres_us", "{:.1f}"),
     report.column("WAL B", "wal_bytes", "{:,.0f}")],
    [("backfill rows", _backfill)])
