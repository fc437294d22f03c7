"""``Delivery.transaction()`` and ``Batch.transaction()``: a transaction that may be repeated, because it is a function."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, TypeVar, overload

from . import _database
from ._verdicts import Done, error_in, meaning, sqlstate

C = TypeVar("C")
T = TypeVar("T")
Isolation = Literal["read committed", "repeatable read", "serializable"]
ISOLATIONS = ("read committed", "repeatable read", "serializable")
REPEATED = ("40001", "40P01")  # serialization failure, deadlock
REPEATS = 4
_FIRST_PAUSE = 0.01  # seconds


class Transaction:
    """The attempts of one transaction."""

    def __init__(self, work: Transactional, isolation: Isolation | None, repeats: int) -> None:
        if isolation is not None and isolation not in ISOLATIONS:
            raise ValueError(f"the isolation level is one of {', '.join(ISOLATIONS)}, not {isolation!r}")
        self._work = work
        self._forget = work._remember()
        self._isolation = isolation
        self._left = repeats
        self._pause = _FIRST_PAUSE

    def run(self, connect: Callable[[], Any], function: Callable[[Any], Any]) -> Any:
        """What the function has returned, or a coroutine of it if the connection is asynchronous."""
        opened = connect()
        if hasattr(opened, "__aenter__"):
            return self._run_async(opened, connect, function)
        while True:
            self._forget()
            try:
                with opened as connection, _database.transaction_of(connection, "transaction()"):
                    if self._isolation is not None:
                        _database.execute(connection, self._isolate())
                    result, completion = self._complete(connection, function(connection))
                    if completion is not None:
                        completion.close()
                        raise TypeError("the connection is asynchronous: `connect` must return an asynchronous context manager")
                return result
            except BaseException as error:
                pause = self._pause_after(error)
            time.sleep(pause)
            opened = connect()

    async def _run_async(self, opened: Any, connect: Callable[[], Any], function: Callable[[Any], Any]) -> Any:
        while True:
            self._forget()
            try:
                async with opened as connection, _database.transaction_of(connection, "transaction()"):
                    if self._isolation is not None:
                        await _database.execute(connection, self._isolate())
                    returned = function(connection)
                    result, completion = self._complete(
                        connection, await returned if inspect.isawaitable(returned) else returned
                    )
                    if completion is not None:
                        await completion
                return result
            except BaseException as error:
                pause = self._pause_after(error)
            await asyncio.sleep(pause)
            opened = connect()

    def _isolate(self) -> str:
        return f"SET TRANSACTION ISOLATION LEVEL {str(self._isolation).upper()}"

    def _complete(self, connection: Any, returned: Any) -> tuple[Any, Any]:
        """The result, and what must be awaited; None if nothing must. A verdict that was returned rolls back."""
        error = error_in(returned)
        if error is not None:
            raise error
        if self._work._is_completed:
            if isinstance(returned, Done) and returned.emit:
                raise ValueError(
                    "the events of Done are lost, because the message is completed: give them to complete(…, emit=…)"
                )
            return returned, None
        return self._work._complete_with(connection, returned)

    def _pause_after(self, error: BaseException) -> float:
        """How long to wait before the next attempt. Raises the error if there is none."""
        self._forget()  # nothing of this one was committed
        is_repeated = isinstance(error, Exception) and meaning(error) is None and sqlstate(error) in REPEATED
        if not is_repeated or self._left <= 0 or self._work._is_cancelled:
            raise error
        self._left -= 1
        self._pause *= 2
        return random.random() * self._pause


class Transactional:
    """What has a transaction of its own: a delivery, or a batch for its messages without a verdict."""

    __slots__ = ()

    @overload
    def transaction(
        self,
        connect: Callable[[], AbstractContextManager[C]],
        function: Callable[[C], T],
        *,
        isolation: Isolation | None = None,
        repeats: int = REPEATS,
    ) -> T: ...

    @overload
    def transaction(
        self,
        connect: Callable[[], AbstractAsyncContextManager[C]],
        function: Callable[[C], Awaitable[T]],
        *,
        isolation: Isolation | None = None,
        repeats: int = REPEATS,
    ) -> Awaitable[T]: ...

    def transaction(
        self,
        connect: Callable[[], Any],
        function: Callable[[Any], Any],
        *,
        isolation: Isolation | None = None,
        repeats: int = REPEATS,
    ) -> Any:
        """Calls ``function(connection)`` in a transaction, completes the message or the batch in it, and commits.

        ``connect`` is ``pool.connection`` of psycopg_pool, ``pool.acquire`` of asyncpg, ``Session.begin`` of a sessionmaker of
        SQLAlchemy, or ``inboxd.django.begin``. Await the call if the connection is asynchronous. What the function returns is
        the result of the message; :class:`Done` also has events. For a batch it is no result: call ``complete()`` to store
        results. An exception, and a verdict that the function returns, rolls back.

        After a serialization failure or a deadlock (40001, 40P01) the transaction is repeated up to ``repeats`` times, with
        another connection. This spends no attempt, but the function runs again. After the last one the message comes again
        after a second, and this spends no attempt either. ``isolation`` is "repeatable read" or "serializable"; otherwise
        the connection decides.
        """
        return Transaction(self, isolation, repeats).run(connect, function)

    def _complete_with(self, connection: Any, returned: Any) -> tuple[Any, Any]:
        """The result, and what must be awaited."""
        raise NotImplementedError

    def _remember(self) -> Callable[[], None]:
        """Returns what makes a transaction undone that does not commit."""
        raise NotImplementedError

    @property
    def _is_cancelled(self) -> bool:
        raise NotImplementedError

    @property
    def _is_completed(self) -> bool:
        raise NotImplementedError
