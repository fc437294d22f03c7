"""Transactions of Django: ``with atomic(delivery)``. ``complete()`` and ``emit()`` use it for ``django.db.connection``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections, transaction

from ._database import NOT_OPEN, not_a_transaction
from ._delivery import Batch, Delivery


@contextlib.contextmanager
def atomic(work: Delivery | Batch, using: str = "default") -> Iterator[Any]:
    """``transaction.atomic()`` for the effects of a delivery, or of a batch. Its end completes the message, and commits.

    The block may complete the message itself, with a result: ``delivery.complete(connection, result)``. ``connection`` is the
    value of the block. An exception rolls everything back. So raise a verdict in the block; do not return it there.
    """
    try:
        with begin(using) as connection:
            work._begin_attempt()
            yield connection
            if not work._is_completed:
                work.complete(connection)
    except BaseException:
        work._begin_attempt()  # nothing was committed
        raise


@contextlib.contextmanager
def begin(using: str = "default") -> Iterator[Any]:
    """The connection in a transaction: for :class:`inboxd.wsgi.IdempotencyMiddleware`."""
    connection = connections[using]
    # As Django does before each request: otherwise a thread would keep a connection that is lost.
    connection.close_if_unusable_or_obsolete()
    with transaction.atomic(using=using, durable=True):
        yield connection


def fetch(connection: Any, query: str, values: Sequence[Any], name: str) -> Any:
    """The first row of the query."""
    with _of_cursor(connection).cursor() as cursor:
        cursor.execute(query.format(*["%s"] * len(values)), values)
        return cursor.fetchone()


def require_open(connection: Any, name: str) -> None:
    database = _of_cursor(connection)
    if not hasattr(database, "in_atomic_block"):
        raise not_a_transaction(connection, name)
    if not database.in_atomic_block and database.get_autocommit():
        raise RuntimeError(NOT_OPEN.format(name, "with transaction.atomic():"))


def _of_cursor(connection: Any) -> Any:
    return getattr(connection, "db", connection)
