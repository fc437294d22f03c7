"""The floor: floor.c against the same PostgreSQL, into a table that the same migration made."""

import json
import pathlib
import subprocess

from support.sidecar import binary

from servers import wal_position

SCHEMA = "floor"


def measure(servers, rows, how="insert", connections=1):
    """`how`: insert, or copy."""
    program = pathlib.Path(binary()).parents[1] / "tests" / "bench" / "floor"
    with servers.sidecar({"inbox": {"schema": SCHEMA}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection:
            wal, cpu = wal_position(connection), servers.cpu_seconds()
            done = subprocess.run([program, servers.postgres.conninfo(database)
                                   + f" options='-c search_path={SCHEMA}'", how, str(rows), str(connections)],
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            found = json.loads(done.stdout)
            stored = connection.execute(f"SELECT count(*) FROM {SCHEMA}.inbox_messages").fetchone()
            assert stored[0] == rows, f"{stored[0]} of {rows} rows"
            return {**found, "postgres_us": (servers.cpu_seconds() - cpu) / rows * 1e6,
                    "wal_bytes": (wal_position(connection) - wal) / rows}
