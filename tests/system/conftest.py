"""Fixtures of the system suite: see support/fixtures.py.

Sidecars run as a user that is granted the role inboxd_sidecar and nothing else; the commands of a test run
as the owner of the schema.
"""

import pytest

from support.fixtures import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import

SIDECAR_USER = "billing_inbox"


@pytest.fixture(scope="session")
def sidecar_user_made(postgres_server, migrated_database):
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE ROLE {SIDECAR_USER} LOGIN IN ROLE inboxd_sidecar")
    return SIDECAR_USER


@pytest.fixture
def sidecar_user(sidecar_user_made):
    return sidecar_user_made
