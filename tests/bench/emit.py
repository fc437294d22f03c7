"""The cost of an event for PostgreSQL: emit, compared with a plain INSERT into the same table, and what the relay's
statements add. One session and no client in the loop, so it is the cost of the statements alone."""

import contextlib
import functools
import re
import time

import costs
import report
from group import Group
from servers import wal_position
from sql.statements import text

INSERT = "a plain INSERT"
DATA = """('{"data": "' || repeat('x', 386) || '"}')"""  # 400 bytes
FLIGHT, FLIGHT_BYTES = 2000, 4 << 20
# As the transactions of the relay have them.
PIN = ("SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),"
       " set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)")
LOOP = """DO $do$
DECLARE data jsonb := {data}; bytes bytea := convert_to({data}, 'UTF8');
BEGIN
    FOR i IN 1..{count} LOOP {statement}; END LOOP;
END $do$"""
STATEMENTS = {
    INSERT: "INSERT INTO inbox.outbox (topic, key, event_type, content_type, payload) VALUES ('orders',"
            " convert_to('key' || i, 'UTF8'), 'order.paid', 'application/json', bytes)",
    "emit_bytes": "PERFORM inbox.emit_bytes('orders', convert_to('key' || i, 'UTF8'), 'order.paid', bytes,"
                  " 'application/json')",
    "emit": "PERFORM inbox.emit('orders', 'key' || i, 'order.paid', data)",
    "emit with a header": "PERFORM inbox.emit('orders', 'key' || i, 'order.paid', data, '{\"tenant\": \"a\"}')",
}


@contextlib.contextmanager
def _database(servers):
    with servers.sidecar() as sidecar, servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection:
        yield connection


def _store(connection, name, count):
    connection.execute(LOOP.format(data=DATA, count=count, statement=STATEMENTS[name]))
    stored = connection.execute("SELECT count(*) FROM inbox.outbox").fetchone()[0]
    assert stored == count, f"{stored} of {count} events"


def _measure(connection, rows, action):
    """CPU time of the session's process, which excludes WAL writer and checkpoints."""
    pid = connection.info.backend_pid
    cpu, wal, began = costs.of_process(pid), wal_position(connection), time.monotonic()
    action()
    took = time.monotonic() - began
    return {"rows_per_second": rows / took, "postgres_us": (costs.of_process(pid) - cpu) / rows * 1e6,
            "wal_bytes": (wal_position(connection) - wal) / rows}


def _emit(servers, options, *, name):
    with _database(servers) as connection:
        return _measure(connection, options.messages, lambda: _store(connection, name, options.messages))


def _drain(servers, options):
    """All that the relay does to events that meet no error, without Kafka."""
    statements = {name: re.sub(r"\$(\d+)", r"%(p\1)s", text(name).replace("%", "%%"))
                  for name in ("relay_read", "relay_delete")}
    with _database(servers) as connection:
        _store(connection, INSERT, options.messages)
        connection.execute("UPDATE inbox.outbox_relay SET instance = 1")

        def drain():
            tip, seen = 0, 0
            while seen < options.messages:
                with connection.transaction():
                    connection.execute(PIN)
                    events = connection.execute(statements["relay_read"], {"p1": FLIGHT, "p2": FLIGHT_BYTES, "p3": tip},
                                                binary=True).fetchall()
                    left_out = connection.execute(statements["relay_delete"], {"p1": [event[0] for event in events], "p2": 1})
                assert events and not left_out.fetchall()
                tip, seen = events[-1][0], seen + len(events)

        return _measure(connection, options.messages, drain)


GROUP = Group(
    "outbox", "events of 400 B; what each costs the process of PostgreSQL", INSERT,
    [report.RATE, report.RATIO, report.column("PostgreSQL µs", "postgres_us", "{:.1f}"),
     report.column("WAL B", "wal_bytes", "{:,.0f}")],
    [*((name, functools.partial(_emit, name=name)) for name in STATEMENTS), ("read and delete", _drain)])
