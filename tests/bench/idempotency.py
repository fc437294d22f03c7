"""The cost of an idempotency key: an INSERT of an order alone, with request_begin() and request_complete() in its transaction, and the
textbook's two commits, each also with commits that take 5 ms; the replay of a response among many; and the deletion of expired rows."""

import functools
import os
import re
import statistics
import subprocess
import time

import environments
import report
from group import Group
from servers import wal_position
from support import process

ALONE = "INSERT of an order"
SLOW = ", slow commits"
ENVIRONMENTS = {"": environments.near, SLOW: environments.slow_commits}
CLIENTS, LATENCIES = 8, 20_000
KEEP_ROWS = 1_000_000
BEGIN = ("SELECT verdict, token FROM inbox.request_begin({key}, inbox.request_digest('POST', '/orders', 'body'),"
         " scope => 'tenant-a', operation => 'POST /orders')")
RESPONSE = """'{"content-type": "application/json", "location": "/orders/17"}'"""
ORDER = "INSERT INTO public.orders (customer, cents, words) VALUES (:client_id, 1250, repeat('x', 200));"
KEY = "'key-' || :client_id::text || '-' || :n::text"
NUMBER = "\\set n random(1, 9000000000000000000)\n"
# The textbook has a row PENDING that commits first, with all that it needs to recognise and answer a copy.
SCRIPTS = {
    ALONE: f"BEGIN;\n{ORDER}\nCOMMIT;\n",
    "with a key": f"{NUMBER}BEGIN;\n{BEGIN.format(key=KEY)} \\gset\n{ORDER}\n"
                  f"SELECT inbox.request_complete(:token, 201, repeat('r', 100)::bytea, {RESPONSE});\nCOMMIT;\n",
    "textbook, two commits": f"{NUMBER}INSERT INTO public.keys (scope, key, operation, fingerprint, state, expires_at) VALUES ('tenant-a',"
                             f" {KEY}, 'POST /orders', sha256('POST /orders body'), 'PENDING', now() + interval '24 hours');\n"
                             f"BEGIN;\n{ORDER}\nUPDATE public.keys SET state = 'COMPLETED', status = 201, body = repeat('r', 100)::bytea,"
                             f" headers = {RESPONSE} WHERE key = {KEY} AND scope = 'tenant-a';\nCOMMIT;\n",
}


def _prepare(connection):
    connection.execute("""
        CREATE TABLE public.orders (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, customer bigint, cents bigint, words text);
        CREATE TABLE public.keys (scope text COLLATE "C", key text COLLATE "C", operation text, fingerprint bytea, state text,
            status smallint, headers jsonb, body bytea, created_at timestamptz DEFAULT now(), expires_at timestamptz,
            PRIMARY KEY (key, scope)) WITH (fillfactor = 80);
        CREATE INDEX ON public.keys (expires_at)""")


def _pgbench(servers, database, script, each):
    """Each of the clients runs the script so often. Returns the rate that pgbench reports, without the time to connect."""
    path = os.path.join(process.scratch("pgbench"), "script.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    done = subprocess.run([f"{servers.postgres.clients}/pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-t", str(each),
                           "-f", path, database], capture_output=True, text=True, check=False,
                          env={**os.environ, **servers.postgres.environment(database)})
    assert done.returncode == 0, done.stderr
    return float(re.search(r"tps = ([0-9.]+) \(without", done.stdout)[1])


def _measure(servers, options, *, name, environment):
    each = max(options.messages // 15 // CLIENTS, 10)
    with servers.sidecar() as sidecar, ENVIRONMENTS[environment](servers):
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection:
            _prepare(connection)
            _pgbench(servers, database, SCRIPTS[name], each // 10 + 1)
            connection.execute("CHECKPOINT")
            wal = wal_position(connection)
            rate = _pgbench(servers, database, SCRIPTS[name], each)
            found = {"rows_per_second": rate, "wal_bytes": (wal_position(connection) - wal) / each / CLIENTS}
            stored = connection.execute("SELECT count(*) FROM public.orders").fetchone()[0]
            assert stored == CLIENTS * (each + each // 10 + 1), f"{stored} orders"
        return found


def _fill(connection, rows, expires="interval '1 day'"):
    connection.execute("INSERT INTO inbox.requests (scope, key, operation, fingerprint, holder, completed_at, status, headers, body,"
                       " expires_at) SELECT 'tenant-a', 'key-' || i, 'POST /orders', inbox.request_digest('POST', '/orders', 'body'),"
                       " 0, now(), 201, '{\"location\": \"/orders/17\"}', repeat('r', 100)::bytea, now() + " + expires +
                       " FROM generate_series(1, %s) i", [rows])
    connection.execute("VACUUM ANALYZE inbox.requests")


def _rows(options):
    return 10_000_000 if options.long else min(KEEP_ROWS, options.messages * 4)


def _replay(servers, options):
    """One connection; each replay is a transaction of its own."""
    rows = _rows(options)
    with servers.sidecar() as sidecar, servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection:
        _fill(connection, rows)
        times = []
        began = time.monotonic()
        for number in range(min(LATENCIES, options.messages)):
            start = time.perf_counter()
            verdict = connection.execute(BEGIN.format(key="%s"), [f"key-{number * 7919 % rows + 1}"]).fetchone()[0]
            times.append((time.perf_counter() - start) * 1000)
            assert verdict == "replay"
        took = time.monotonic() - began
        quantiles = statistics.quantiles(times, n=100)
        return {"rows": rows, "rows_per_second": len(times) / took, "p50": quantiles[49], "p99": quantiles[98]}


def _expiry(servers, options):
    """The statement of the janitor, without its pauses."""
    rows = _rows(options) // 10
    with servers.sidecar() as sidecar, servers.postgres.connect(sidecar.configuration["postgres"]["dbname"]) as connection:
        _fill(connection, rows, "interval '-1 day'")
        connection.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (77, 'bench', 1)")
        connection.execute("DELETE FROM inbox.inbox_janitor")
        deleted, began = 0, time.monotonic()
        while deleted < rows:
            elected, affected, _ = connection.execute("SELECT * FROM inbox.retain(77, 'requests', 0, 1000)").fetchone()
            assert elected
            assert affected
            deleted += affected
        return {"rows": rows, "rows_per_second": rows / (time.monotonic() - began)}


def _base_of(name):
    return ALONE + SLOW if name.endswith(SLOW) else ALONE


GROUP = Group(
    "requests", f"idempotency keys; the orders with {CLIENTS} clients, a transaction each, fsync on", _base_of,
    [report.column("rows", "rows", "{:,}"), report.RATE, report.RATIO, report.column("WAL B", "wal_bytes", "{:,.0f}"),
     report.column("p50 ms", "p50", "{:.2f}"), report.column("p99 ms", "p99", "{:.2f}")],
    [*((name + environment, functools.partial(_measure, name=name, environment=environment))
       for environment in ENVIRONMENTS for name in SCRIPTS), ("replay", _replay), ("expiry", _expiry)],
    comparisons=[("with a key" + environment, "textbook, two commits" + environment) for environment in ENVIRONMENTS])
