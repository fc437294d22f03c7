"""Fixtures of the fault suite: a real Kafka, a real PostgreSQL, fleets of sidecars that are killed.

The binary must be built with -Dfaultpoints=true (tests/run.sh faults does).
"""

import pytest

from fleet import Fleet
from support.fixtures import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true",
                     help="run the random kills for minutes and every delay on its own")


@pytest.fixture
def long_run(request):
    return request.config.getoption("--long")


@pytest.fixture
def fleet(make_inboxd, inbox, streams, topic, group):
    """No sidecar yet: fleet.add() starts one. Handlers end before the sidecars do."""
    made = Fleet(make_inboxd, inbox, streams, topic, group)
    yield made
    made.close()
