"""Fixtures of the system suite: see support/fixtures.py."""

from support.fixtures import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import
