"""Fixtures of the language suite: those of the system suite, and the examples of the handler libraries."""

import pytest

from languages.libraries import COMMANDS, EMITTERS, OTHERS
from support.examples import Example
from system.conftest import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import
from system.test_examples import orders, sidecar  # noqa: F401 pylint: disable=unused-import


@pytest.fixture
def example(sidecar, postgres_server, database):  # noqa: F811 pylint: disable=redefined-outer-name
    """example(name of a library, port=…) -> its example with the test's database; it must end with success."""
    made = []

    def start(name, port=None):
        env = {**postgres_server.environment(database), "PGAPPNAME": "example"}
        command = (COMMANDS | OTHERS | EMITTERS)[name]
        made.append(Example(name, sidecar.socket_path, {**env, "PGPORT": str(port or env["PGPORT"])}, command))
        return made[-1]

    yield start
    for one in made:
        one.stop()
