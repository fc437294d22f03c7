"""Transactions of SQLAlchemy 2: ``with transaction(Session, delivery) as session``.

``complete()`` and ``emit()`` use this module for a ``Session`` or a ``Connection``, also of ``sqlalchemy.ext.asyncio``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from ._database import NOT_OPEN, not_a_transaction
from ._delivery import Batch, Delivery

S = TypeVar("S")


class transaction(Generic[S]):  # noqa: N801 - it is used like a function
    """A session whose transaction makes the effects of a delivery, or of a batch, and completes it.

    ``with transaction(Session, delivery) as session:``, with ``async`` before it for an ``async_sessionmaker``. The end of the
    block completes the message, unless the block did with a result: ``delivery.complete(session, result)``. Then it commits. An
    exception rolls both back. So raise a verdict in the block; do not return it there.
    """

    def __init__(self, make_session: Callable[[], S], work: Delivery | Batch) -> None:
        self._make_session = make_session
        self._work = work
        self._session: Any = None

    def __enter__(self) -> S:
        self._session = self._make_session()
        self._work._begin_attempt()
        session: S = self._session.__enter__()
        return session

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                if not self._work._is_completed:
                    self._work.complete(self._session)
                self._session.commit()
            else:
                self._work._begin_attempt()
        except BaseException:
            self._work._begin_attempt()
            raise
        finally:
            self._session.__exit__(kind, error, trace)  # rolls back what is not committed

    async def __aenter__(self) -> S:
        self._session = self._make_session()
        self._work._begin_attempt()
        session: S = await self._session.__aenter__()
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if not self._work._is_completed:
                    await self._work.complete(self._session)
                await self._session.commit()
            else:
                self._work._begin_attempt()
        except BaseException:
            self._work._begin_attempt()
            raise
        finally:
            await self._session.__aexit__(kind, error, trace)


def fetch(session: Any, query: str, values: Sequence[Any], name: str) -> Any:
    """The first row of the query, or a coroutine of it."""
    session = _unscoped(session)
    names = [f"p{number}" for number in range(len(values))]
    # A colon begins a parameter in text(), so that of a cast is escaped.
    statement = text(query.replace("::", r"\:\:").format(*[f":{one}" for one in names])).bindparams(
        **dict(zip(names, values, strict=True))
    )
    if isinstance(session, (AsyncSession, AsyncConnection)):
        return session.run_sync(_fetch, statement, name)
    return _fetch(session, statement, name)


def _fetch(session: Session | Connection, statement: Any, name: str) -> Any:
    connection = session.connection() if isinstance(session, Session) else session
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise RuntimeError(NOT_OPEN.format(name, "with Session.begin() as session:") + ", and an engine without AUTOCOMMIT")
    return session.execute(statement).first()


def require_open(session: Any, name: str) -> None:
    """A session and a connection begin a transaction by themselves, so only an engine or the like has none."""
    if not isinstance(_unscoped(session), (Session, Connection, AsyncSession, AsyncConnection)):
        raise not_a_transaction(session, name)


def _unscoped(session: Any) -> Any:
    return session() if isinstance(session, (scoped_session, async_scoped_session)) else session
