"""Databases that are farther away, or that commit more slowly. Each is a context manager for Servers. Only the programs
that are measured within it get this database; the measuring code connects directly."""

import contextlib
import os

import psycopg

from support import process
from support.wait import eventually

from fleet import program

COMMIT_US = int(os.environ.get("COMMIT_US", "5000"))
DELAY_US = 1_000  # each way


@contextlib.contextmanager
def near(_servers):
    """The database of this machine, unchanged."""
    yield


@contextlib.contextmanager
def slow_commits(servers):
    """Each commit waits 5 ms, or COMMIT_US, before it writes, as for a synchronous replica. Commits that arrive meanwhile are written
    together with it."""
    settings = {"commit_delay": COMMIT_US, "commit_siblings": 0}
    with servers.postgres.connect() as connection:
        try:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = {value}")
            _reload(servers, connection, "commit_delay", COMMIT_US)
            yield
        finally:
            for name in settings:
                connection.execute(f"ALTER SYSTEM RESET {name}")
            _reload(servers, connection, "commit_delay", 0)


def _reload(servers, connection, name, value):
    def is_set():
        with servers.postgres.connect() as new:
            return int(new.execute(f"SHOW {name}").fetchone()[0]) == value

    connection.execute("SELECT pg_reload_conf()")
    eventually(is_set, what=f"{name} = {value}")


@contextlib.contextmanager
def far_away(servers, delay_us=DELAY_US):
    """A round trip takes 2 ms, as between two data centres of a region, or twice `delay_us`."""
    port = process.free_port()
    directory = process.scratch("proxy")
    proxy = process.spawn([program("tests", "bench", "delay_proxy"), str(port), str(servers.postgres.port),
                           str(delay_us)], os.path.join(directory, "proxy.log"))

    def answers():
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"{servers.postgres.conninfo()} port={port}").close()
            return True

    try:
        eventually(answers, what="the proxy to listen")
        servers.database_port = port
        yield
    finally:
        servers.database_port = servers.postgres.port
        process.end(proxy)
