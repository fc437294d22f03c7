"""The floor: floor.c with the same PostgreSQL, into a table of the same migration."""

import json
import subprocess

from fleet import program
from servers import wal_position

SCHEMA = "floor"


def measure(servers, records, how="insert", connections=1, repeats_of=0):
    """`how`: insert or copy. Costs are per distinct row."""
    with servers.sidecar({"inbox": {"schema": SCHEMA}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection:
            wal, cpu = wal_position(connection), servers.cpu_seconds()
            found = _write(servers, database, SCHEMA, (how, records, connections, repeats_of))
            rows = found["rows"]
            stored = connection.execute(f"SELECT count(*) FROM {SCHEMA}.inbox_messages").fetchone()
            assert stored[0] == rows, f"{stored[0]} of {rows} rows"
            return {**found, "postgres_us": (servers.cpu_seconds() - cpu) / rows * 1e6,
                    "wal_bytes": (wal_position(connection) - wal) / rows}


PROCESSED = "UPDATE inbox.inbox_messages SET processed_at = now()"


def fill(servers, connection, rows, *statements):
    """The same rows in the schema `inbox`, for runs that start with them: claimed by instance 1, until `statements`
    change them. The table is as compact as after a VACUUM FULL."""
    _write(servers, connection.info.dbname, "inbox", ("insert", rows, 1))
    for statement in statements:
        connection.execute(statement)
    connection.execute("VACUUM (FULL, ANALYZE) inbox.inbox_messages")


def _write(servers, database, schema, arguments):
    done = subprocess.run([program("tests", "bench", "floor"), servers.postgres.conninfo(database)
                           + f" port={servers.database_port} options='-c search_path={schema}'",
                           *(str(argument) for argument in arguments)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
