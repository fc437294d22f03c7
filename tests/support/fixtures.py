"""Fixtures of the suites that run the program: the real one, a real PostgreSQL, a real Kafka.

The two servers live for the whole session; every test has its own topics, consumer group and
database, so tests can't see each other. If a test stops a server, it is started again for the next test.
Every sidecar that a test starts must end with exit code 0 and without a sanitizer report.
"""

import itertools
import os
import re

import pytest

from support import process
from support.bridge import Bridge
from support.inbox import Inbox, connect
from support.kafka import Kafka, version as kafka_version
from support.noop import NoopHandler
from support.postgres import Postgres
from support.sidecar import SANITIZER_EXIT, Sidecar, merge
from support.streams import Streams
from support.wire import Handler

_numbers = itertools.count(1)

# "PORT RUN": a broker that runs already, and a prefix that separates this run's topics from others.
_SHARED_KAFKA = os.environ.get("INBOXD_TEST_KAFKA", "").split()

# Short where a test would otherwise wait: backoffs, leases, sessions.
DEFAULTS = {
    "inbox": {"shutdown_timeout": "10s"},
    "kafka": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    "retry": {"backoff": "20ms", "backoff_max": "100ms"},
    "worker": {"poll": "100ms", "lease": "4s"},
}


# For tests of `group.protocol: consumer`.
KAFKA_4 = pytest.mark.skipif(kafka_version().startswith("3."), reason="Kafka 3 does not have the protocol")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    setattr(item, f"report_{report.when}", report)


@pytest.fixture(scope="session")
def postgres_server():
    server = Postgres().start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kafka_server():
    if _SHARED_KAFKA:
        yield Kafka(port=int(_SHARED_KAFKA[0]))
        return
    server = Kafka().start()
    yield server
    server.stop()


@pytest.fixture
def postgres(postgres_server):
    """The PostgreSQL server, for tests that stop it."""
    yield postgres_server
    if not postgres_server.is_running():
        postgres_server.start()


@pytest.fixture
def kafka(kafka_server):
    """The Kafka server, for tests that stop it."""
    yield kafka_server
    if not kafka_server.is_running():
        kafka_server.start()


@pytest.fixture
def name(request):
    """Unique to the test; goes into the names of its topics, group and database."""
    words = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).removeprefix("test_")[:40]
    return "_".join([words.strip("_"), *_SHARED_KAFKA[1:], str(next(_numbers))])


def _access(server, database):
    """The section `postgres` of the owner of the schema."""
    return {"host": "127.0.0.1", "port": server.port, "user": "postgres", "dbname": database}


def create_migrated_database(server):
    """Creates a database with the schema and its roles, and returns its name."""
    created = server.create_database("migrated")
    Sidecar({"kafka": {"topics": ["none"], "bootstrap.servers": "127.0.0.1:1", "group.id": "none"},
             "postgres": _access(server, created)}).migrate()
    return created


@pytest.fixture(scope="session")
def migrated_database(postgres_server):
    """The name of the database from which those of the tests are copied: a migration takes longer."""
    return create_migrated_database(postgres_server)


@pytest.fixture(scope="session")
def migrated():
    """(port, name) of the databases that have the schema when they are created."""
    return set()


@pytest.fixture
def database(request, postgres_server, migrated, name):
    """Name of a database: with the schema, or empty for a test that is marked so."""
    if request.node.get_closest_marker("empty_database"):
        created = postgres_server.create_database(name)
    else:
        created = postgres_server.create_database(name, request.getfixturevalue("migrated_database"))
        migrated.add((postgres_server.port, created))
    yield created
    if not postgres_server.is_running():
        postgres_server.start()
    postgres_server.drop_database(created)


@pytest.fixture
def db(postgres_server, database):
    """A connection to the test's database, autocommit, rows as dictionaries."""
    with connect(postgres_server.conninfo(database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def inbox(postgres_server, database):
    """Queries on the inbox's tables. Reconnects automatically after a server restart."""
    view = Inbox(postgres_server.conninfo(database))
    yield view
    view.close()


@pytest.fixture
def streams(kafka_server):
    """Producing, topics and offsets."""
    client = Streams(kafka_server)
    yield client
    client.close()


@pytest.fixture
def make_topic(streams, name):
    """make_topic(partitions=4, **topic configuration) -> name of a new topic."""
    numbers = itertools.count(1)

    def make(partitions=4, **configuration):
        topic = f"{name}.{next(numbers)}"
        streams.create(topic, partitions, **configuration)
        return topic

    return make


@pytest.fixture
def topic(make_topic):
    return make_topic()


@pytest.fixture
def group(name):
    return f"group_{name}"


@pytest.fixture
def produce(streams):
    """produce(topic, value, key=None, headers=None, partition=None, timestamp=None) -> offset."""
    return streams.produce


@pytest.fixture
def configuration(postgres_server, kafka_server, database, topic, group):
    """The base configuration of every sidecar of the test."""
    return merge(DEFAULTS, {
        "kafka": {"topics": [topic], "bootstrap.servers": kafka_server.bootstrap,
                  "group.id": group},
        "postgres": _access(postgres_server, database),
    })


@pytest.fixture
def sidecar_user():
    """The database user of sidecars; None: the owner of the schema, which also runs the commands of a test."""
    return None


@pytest.fixture
def make_inboxd(request, configuration, sidecar_user, migrated):
    """make_inboxd(overrides, env=None) -> a configured Sidecar that does not run yet."""
    made = []

    def make(overrides=None, env=None, **sections):
        sidecar = Sidecar(merge(configuration, overrides, sections), env=env)
        sidecar.user = sidecar_user
        access = sidecar.configuration["postgres"]
        sidecar.migrated = (access.get("port"), access.get("dbname")) in migrated and \
            "schema" not in sidecar.configuration["inbox"]
        made.append(sidecar)
        return sidecar

    yield make
    codes = [sidecar.stop() for sidecar in made if sidecar.is_running()]
    _show_logs(request, made)
    reports = [report for sidecar in made if (report := sidecar.sanitizer_report())]
    assert not reports, reports[0]
    assert not any(codes), f"exit codes at the end of the test: {codes}"
    last = [sidecar.process.returncode for sidecar in made if sidecar.process]
    assert SANITIZER_EXIT not in last, "a sanitizer ended inboxd"


@pytest.fixture
def start_inboxd(make_inboxd):
    """start_inboxd(overrides, env=None) -> a Sidecar that is ready.

    Overrides are nested dictionaries, also as keywords: start_inboxd(retry={"max_attempts": 2}).
    """

    def start(overrides=None, env=None, **sections):
        return make_inboxd(overrides, env, **sections).start()

    return start


@pytest.fixture
def inboxd(start_inboxd):
    """A sidecar with the defaults of the suite, ready."""
    return start_inboxd()


@pytest.fixture
def handler():
    """handler(sidecar, decide=…, …) -> a connected scripted Handler, closed after the test."""
    made = []

    def connect(sidecar, *arguments, **options):
        made.append(Handler(sidecar.socket_path, *arguments, **options))
        return made[-1]

    yield connect
    for client in made:
        _close(client)


def _close(client):
    try:
        client.close()
    except AssertionError as error:
        if "ended inside a line" not in str(error):  # a killed sidecar may leave it
            raise


def _show_logs(request, sidecars):
    """Puts the end of every log into the report of a failed test."""
    report = getattr(request.node, "report_call", None)
    if report is None or not report.failed:
        return
    for number, sidecar in enumerate(sidecars, 1):
        lines = sidecar.stderr.splitlines()[-60:] if sidecar.process else []
        print(f"--- log of sidecar {number} ({sidecar.directory}), last {len(lines)} lines")
        print("\n".join(lines))


@pytest.fixture
def noop_handler():
    """noop_handler(sidecar, **options) -> a running C handler that answers done at once."""
    made = []

    def start(sidecar, **options):
        made.append(NoopHandler(sidecar.socket_path, **options))
        return made[-1]

    yield start
    for client in made:
        client.stop()


@pytest.fixture
def full_pipe():
    """A pipe as stderr of a process whose reader has stalled."""
    pipe = process.FullPipe()
    yield pipe
    pipe.close()


@pytest.fixture
def bridge(request):
    """bridge(sidecar, command, argument…) -> a running `inboxd exec` or `inboxd forward`. At the end it must drain and end
    with exit code 0, unless the test has killed it."""
    made = []

    def start(sidecar, command, *arguments, **options):
        made.append(Bridge(command, sidecar.socket_path, *arguments, **options))
        return made[-1]

    yield start
    codes = [client.stop() for client in made if client.process.poll() is None]
    report = getattr(request.node, "report_call", None)
    if report is not None and report.failed:
        print("\n".join(f"--- log of {client.directory}\n{client.stderr[-6000:]}" for client in made))
    reports = [report for client in made if (report := client.sanitizer_report())]
    assert not reports, reports[0]
    assert not any(codes), f"exit codes of the bridges: {codes}"
