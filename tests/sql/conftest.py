"""Fixtures of the sql suite: a private PostgreSQL and, for each test, a schema `inbox` made by the migrations alone.
The C programs create their own schemas.
"""

import itertools
import os
import pathlib

import psycopg
import pytest

from statements import MIGRATIONS, Statements, embed, migrate
from support.postgres import Postgres
from support.wait import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]

_schemas = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    """PG* variables of a running server: the caller's, or a private one."""
    if os.environ.get("PGHOST"):
        yield {name: value for name, value in os.environ.items() if name.startswith("PG")}
        return
    # Autovacuum changes statistics and pages between two statements of a test. It also takes transaction ids and holds a snapshot,
    # which keep horizons back and dead rows alive.
    postgres = Postgres(settings={"autovacuum": "off"}).start()
    yield postgres.environment()
    postgres.stop()


@pytest.fixture
def connect(server):
    """Makes connections with autocommit. At the end all are closed, and their sessions have ended with their locks and temporary
    objects: the next test must not meet these."""
    opened, sessions = [], []

    def make(**keywords):
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        given = {key: server[name] for key, name in names.items() if name in server}
        opened.append(psycopg.connect(**{**given, **keywords}, autocommit=True))
        if "port" not in keywords:  # a pooler makes its own numbers
            sessions.append(opened[-1].info.backend_pid)
        return opened[-1]

    yield make
    last = make() if len(sessions) > 1 else None
    for connection in opened:
        if connection is not last:
            connection.close()
    if last is not None:
        others = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s) AND pid <> pg_backend_pid()"
        eventually(lambda: last.execute(others, [sessions]).fetchone() == (0,), what="the sessions of the test to end")
        last.close()


@pytest.fixture
def db(connect):
    """A connection to a database that holds an empty, migrated schema `inbox` with one instance (id 1)
    which owns orders/0..3, ordered by key."""
    connection = connect()
    connection.execute("SET client_min_messages = error")
    connection.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
    if next(_schemas) % 50 == 0:
        connection.execute("VACUUM")  # the catalogs have the objects of many dropped schemas
    connection.execute("CREATE SCHEMA inbox")
    migrate(connection)
    for version, oldest in enumerate(embed.oldest_sidecars(MIGRATIONS), start=1):
        connection.execute("INSERT INTO inbox.inbox_schema_version (version, oldest_sidecar) VALUES (%s, %s)",
                           [version, oldest])
    connection.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq) VALUES (1, 'me', 1)")
    connection.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, owner, ordering)"
                       " SELECT 'orders', p, 1, 'key' FROM generate_series(0, 3) p")
    yield connection
    connection.close()


@pytest.fixture
def statements(db):
    return Statements(db)


@pytest.fixture(scope="session")
def programs():
    """The directory of this suite's C programs, with sanitizers if that build exists."""
    for build in (os.environ.get("INBOXD_BUILD"), ROOT / "build-asan", ROOT / "build"):
        if build and (pathlib.Path(build) / "tests/sql").is_dir():
            return pathlib.Path(build) / "tests/sql"
    pytest.fail("no build directory has tests/sql; run tests/run.sh sql, or meson compile first")
