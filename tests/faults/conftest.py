"""Fixtures of the fault suite: a real Kafka, a real PostgreSQL, fleets of sidecars that are killed.

The binary must be built with -Dfaultpoints=true (tests/run.sh faults does).
"""

import pytest
from confluent_kafka import Consumer

from armed import EAGER
from fleet import Fleet
from support.fixtures import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import
from support import earlier, pooler
from support.postgres import Postgres
from support.process import StartFailed
from support.standby import Standby
from support.wait import eventually


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true",
                     help="random kills and rebalances for minutes, every delay on its own")
    parser.addoption("--retention-rows", type=int, metavar="N",
                     help="old rows that retention deletes under load; 60,000, with --long 10,000,000")
    parser.addoption("--upgrade-rows", type=int, metavar="N", default=5_000_000,
                     help="rows of the table that is migrated under load, with --long; 5,000,000")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only with --long")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture
def long_run(request):
    return request.config.getoption("--long")


@pytest.fixture
def fleet(make_inboxd, inbox, streams, topic, group):
    """No sidecar yet: fleet.add() starts one. Handlers end before the sidecars do."""
    made = Fleet(make_inboxd, inbox, streams, topic, group)
    yield made
    made.close()


@pytest.fixture(params=["classic", "consumer"])
def protocol(request, fleet):
    """All sidecars of the fleet join the group with it."""
    fleet.protocol = request.param
    return request.param


@pytest.fixture
def rebalance(kafka_server, group, make_topic, inbox):
    """rebalance(): with the eager protocol all partitions are revoked and assigned again at once."""
    elsewhere = make_topic()
    made = []

    def epoch():
        return inbox.value("SELECT max(epoch) FROM inbox.inbox_offsets")

    def join():
        before = epoch()
        made.append(Consumer({"bootstrap.servers": kafka_server.bootstrap, "group.id": group, **EAGER}))
        made[-1].subscribe([elsewhere])
        eventually(lambda: any([consumer.poll(0.05) for consumer in made]) or epoch() > before)

    yield join
    for consumer in made:
        consumer.close()


@pytest.fixture(scope="session")
def earlier_program():
    """An inboxd whose claims have three parts, for a schema of version 14."""
    try:
        return earlier.program()
    except StartFailed as error:
        pytest.skip(str(error))


@pytest.fixture
def make_pooler():
    """make_pooler(target, mode, renames=False, **settings) -> a running PgBouncer, the installed one or one that prepares
    statements under names of its own."""
    made = []

    def make(target, mode, renames=False, **settings):
        if pooler.PROGRAM is None and not renames:
            pytest.skip("pgbouncer is not installed")
        try:
            command = pooler.renaming() if renames else None
        except StartFailed as error:
            pytest.skip(str(error))
        made.append(pooler.Pooler(target, mode, command=command, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make_server():
    """make_server(**settings) -> a PostgreSQL of the test's own, running."""
    made = []

    def make(**settings):
        made.append(Postgres(settings={name: str(value) for name, value in settings.items()}))
        return made[-1].start()

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def make_standby():
    """make_standby(primary) -> a standby that follows it, running."""
    made = []

    def make(primary):
        made.append(Standby(primary))
        return made[-1].start()

    yield make
    for server in made:
        server.stop()
