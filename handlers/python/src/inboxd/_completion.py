"""Calls inbox.complete() in a transaction of psycopg 3 or asyncpg. Knows both by their objects and imports neither."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ._verdicts import CLAIM_LOST, ClaimLost, sqlstate

_IDLE = 0  # psycopg.pq.TransactionStatus


class SyncTransaction(Protocol):
    """A ``psycopg.Connection`` or ``psycopg.Cursor`` with an open transaction."""

    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class AsyncTransaction(Protocol):
    """A ``psycopg.AsyncConnection`` or ``AsyncCursor``, or an ``asyncpg.Connection``, with an open transaction."""

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


def complete(
    transaction: SyncTransaction | AsyncTransaction,
    types: Sequence[str],
    values: Sequence[Any],
    on_success: Callable[[], None],
) -> Awaitable[None] | None:
    """Calls ``inbox.complete(values…)``, each cast to its type. ClaimLost: roll back.

    Returns an awaitable if the transaction is asynchronous.
    """
    is_asyncpg = type(transaction).__module__.partition(".")[0] == "asyncpg"
    _require_open(transaction, is_asyncpg)
    marks = [f"${number}" if is_asyncpg else "%s" for number in range(1, len(values) + 1)]
    arguments = ", ".join(f"{mark}::{cast}" for mark, cast in zip(marks, types, strict=True))
    query = f"SELECT inbox.complete({arguments})"
    try:
        done = transaction.execute(query, *values) if is_asyncpg else transaction.execute(query, values)
    except Exception as error:
        raise _as_lost(error) from error
    if inspect.isawaitable(done):
        return _finish(done, on_success)
    on_success()
    return None


async def _finish(done: Awaitable[Any], on_success: Callable[[], None]) -> None:
    try:
        await done
    except Exception as error:
        raise _as_lost(error) from error
    on_success()


def _as_lost(error: Exception) -> Exception:
    return ClaimLost(str(error)) if sqlstate(error) == CLAIM_LOST else error


def _require_open(transaction: Any, is_asyncpg: bool) -> None:
    """Without a transaction the completion would commit alone, before the effects."""
    if is_asyncpg:
        is_open = transaction.is_in_transaction()
    else:
        connection = getattr(transaction, "connection", transaction)
        info = getattr(connection, "info", None)
        is_open = not getattr(connection, "autocommit", False) or getattr(info, "transaction_status", None) != _IDLE
    if not is_open:
        raise RuntimeError("complete() needs an open transaction: use `with connection.transaction():` around the effects")
