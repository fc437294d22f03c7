"""Calls functions of the schema inbox in a transaction of a driver or of an ORM. Knows them by their objects."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ._verdicts import CLAIM_LOST, ClaimLost, sqlstate

_IDLE = 0  # psycopg.pq.TransactionStatus, and TRANSACTION_STATUS_IDLE of psycopg2
# Packages with a module here, which has fetch(transaction, query, values, name) and require_open(transaction, name).
_ADAPTERS = {"sqlalchemy": "inboxd.sqlalchemy", "django": "inboxd.django"}
NOT_OPEN = "{}() needs an open transaction: use `{}` around the effects"


class SyncTransaction(Protocol):
    """An open transaction: a ``Connection`` or ``Cursor`` of psycopg 3, or a ``Session`` or ``Connection`` of SQLAlchemy."""

    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class DbapiTransaction(Protocol):
    """A connection with an open transaction whose cursors execute: of psycopg2, or ``django.db.connection``."""

    def cursor(self, *args: Any, **kwargs: Any) -> Any: ...


class AsyncTransaction(Protocol):
    """An open transaction: an ``AsyncConnection`` or ``AsyncCursor`` of psycopg 3, a ``Connection`` of asyncpg, or an
    ``AsyncSession`` or ``AsyncConnection`` of SQLAlchemy.
    """

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


AnyTransaction = SyncTransaction | AsyncTransaction | DbapiTransaction


def fetch(transaction: Any, query: str, values: Sequence[Any], name: str) -> Any:
    """The first row of a query with a ``{}`` for each value, or an awaitable of it. ``name`` is for errors."""
    package = _package(transaction)
    if package in _ADAPTERS:
        return importlib.import_module(_ADAPTERS[package]).fetch(transaction, query, values, name)
    if package == "asyncpg":
        return transaction.fetchrow(query.format(*[f"${number}" for number in range(1, len(values) + 1)]), *values)
    text = query.format(*["%s"] * len(values))
    if not hasattr(transaction, "execute"):
        with transaction.cursor() as cursor:
            cursor.execute(text, values)
            return cursor.fetchone()
    done = transaction.execute(text, values)
    return _first_row_of(done) if inspect.isawaitable(done) else _row(done or transaction)


def call(transaction: Any, query: str, values: Sequence[Any], name: str, finish: Callable[[Any], Any]) -> Any:
    """``finish(row)`` of the query, which the function ``name`` needs in an open transaction; or a coroutine of it.

    A coroutine looks at the transaction when it is awaited. ClaimLost: roll back.
    """
    require_open(transaction, name)
    if is_async(transaction):
        return _call_later(transaction, query, values, name, finish)
    try:
        row = fetch(transaction, query, values, name)
    except Exception as error:
        raise _as_lost(error) from error
    return _finish(row, finish) if inspect.isawaitable(row) else finish(row)


def is_async(transaction: Any) -> bool:
    return _package(transaction) == "asyncpg" or inspect.iscoroutinefunction(getattr(transaction, "execute", None))


async def _call_later(transaction: Any, query: str, values: Sequence[Any], name: str, finish: Callable[[Any], Any]) -> Any:
    require_open(transaction, name)
    return await _finish(fetch(transaction, query, values, name), finish)


async def _finish(row: Awaitable[Any], finish: Callable[[Any], Any]) -> Any:
    try:
        found = await row
    except Exception as error:
        raise _as_lost(error) from error
    return finish(found)


def execute(transaction: Any, statement: str) -> Any:
    """Executes a statement without parameters and rows; returns an awaitable if the connection is asynchronous."""
    if not hasattr(transaction, "execute"):
        with transaction.cursor() as cursor:
            cursor.execute(statement)
            return None
    if _package(transaction) == "sqlalchemy":
        return transaction.execute(importlib.import_module("sqlalchemy").text(statement))
    return transaction.execute(statement)


def transaction_of(connection: Any, name: str) -> Any:
    """The transaction of a driver's connection. A session, or a connection of Django, comes with an open one."""
    if hasattr(connection, "transaction"):
        return connection.transaction()
    is_open = (
        connection.in_transaction() if hasattr(connection, "in_transaction") else getattr(connection, "in_atomic_block", None)
    )
    if not is_open:  # its end would roll back
        raise RuntimeError(
            f"{name} got a {type(connection).__name__} without a transaction: give it what begins one, as Session.begin"
            " of SQLAlchemy, or inboxd.django.begin"
        )
    return contextlib.nullcontext()


def _package(transaction: Any) -> str:
    """Of the driver, also for a class of the program that is derived from one of the driver, as the session of SQLModel."""
    packages = [base.__module__.partition(".")[0] for base in type(transaction).__mro__]
    return next((one for one in packages if one in _ADAPTERS or one == "asyncpg"), packages[0])


async def _first_row_of(done: Awaitable[Any]) -> Any:
    row = _row(await done)
    return await row if inspect.isawaitable(row) else row


def _row(cursor: Any) -> Any:
    fetchone = getattr(cursor, "fetchone", None)
    return None if fetchone is None else fetchone()


def _as_lost(error: Exception) -> Exception:
    return ClaimLost(str(error)) if sqlstate(error) == CLAIM_LOST and not isinstance(error, ClaimLost) else error


def require_open(transaction: Any, name: str) -> None:
    """Without a transaction the call would commit alone, before or after the effects."""
    package = _package(transaction)
    if package in _ADAPTERS:
        importlib.import_module(_ADAPTERS[package]).require_open(transaction, name)
        return
    if package == "asyncpg" and hasattr(transaction, "is_in_transaction"):
        is_open = transaction.is_in_transaction()
    elif package != "asyncpg" and (hasattr(transaction, "execute") or hasattr(transaction, "cursor")):
        connection = getattr(transaction, "connection", transaction)
        status = getattr(getattr(connection, "info", None), "transaction_status", None)  # not every driver tells
        is_open = not getattr(connection, "autocommit", False) or status not in (_IDLE, None)
    else:
        raise not_a_transaction(transaction, name)
    if not is_open:
        raise RuntimeError(NOT_OPEN.format(name, "with connection.transaction():"))


def not_a_transaction(transaction: Any, name: str) -> TypeError:
    return TypeError(
        f"{name}() needs a connection with an open transaction, and a {type(transaction).__name__} is none:"
        " docs/frameworks.md of inboxd says what to pass with each driver and framework"
    )
