"""Fixtures of the sql suite: a private PostgreSQL and, for each test, a schema `inbox` made by the migrations alone.
The C programs create their own schemas.
"""

import os
import pathlib

import psycopg
import pytest

from statements import MIGRATIONS, Statements, embed, migrate
from support.postgres import Postgres

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def server():
    """PG* variables of a running server: the caller's, or a private one."""
    if os.environ.get("PGHOST"):
        yield {name: value for name, value in os.environ.items() if name.startswith("PG")}
        return
    postgres = Postgres().start()
    yield postgres.environment()
    postgres.stop()


@pytest.fixture(scope="session")
def connect(server):
    """Makes connections with autocommit; all are closed at the end."""
    opened = []

    def make(**keywords):
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        given = {key: server[name] for key, name in names.items() if name in server}
        opened.append(psycopg.connect(**{**given, **keywords}, autocommit=True))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture
def db(connect):
    """A connection to a database that holds an empty, migrated schema `inbox` with one instance (id 1)
    which owns orders/0..3, ordered by key."""
    connection = connect()
    connection.execute("SET client_min_messages = error")
    connection.execute("DROP SCHEMA IF EXISTS inbox CASCADE")
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
