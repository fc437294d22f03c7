"""The handler: functions by topic and type, and the connection to inboxd, which is made again whenever it ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import logging
import os
import platform
import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeVar, overload
from uuid import UUID

from ._delivery import Batch, Delivery
from ._routes import Function, Routes
from ._session import Session, Terms
from ._verdicts import Done, Settled, Verdict
from ._version import __version__
from ._work import Dispatcher, OnError, Workers

log = logging.getLogger("inboxd")

DEFAULT_SOCKET = "/run/inboxd/inbox.sock"
UNWINDING = 10.0  # seconds that cancelled functions have, for example for a ROLLBACK
Json = str | int | float | Mapping[str, Any] | list[Any] | tuple[Any, ...] | Decimal | date | UUID
Returned = Json | Done | Verdict | Settled | None
"""What a function returns. Not an event without Done, a generator, or the class of an exception: they would be lost."""
M = TypeVar("M")
F = TypeVar("F", bound=Callable[[Delivery], Returned | Awaitable[Returned]])
B = TypeVar("B", bound=Callable[[Batch], Awaitable[Verdict | None] | Verdict | None])
FM = Callable[[Delivery[M]], Returned | Awaitable[Returned]]
BM = Callable[[Batch[M]], Awaitable[Verdict | None] | Verdict | None]


class Refused(Exception):
    """inboxd refuses this handler, and another try would not help. ``code`` is that of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"inboxd refuses this handler: {message} ({code})")
        self.code = code


class Handler:
    """A handler of messages.

    All connections of one ``name`` share the messages of this name, so use one name for each use of the data. Register
    functions with ``on()`` or ``on_batch()``, then call ``run()``, or await ``serve()``.

    :param name: the name of the handler
    :param socket: the Unix socket of inboxd; otherwise ``$INBOXD_SOCKET_PATH``, or ``/run/inboxd/inbox.sock``
    :param consumer: the consumer in the configuration of inboxd, if it has several
    :param instance: who this process is among those of the name, for operators; otherwise the name of the host
    :param max_in_flight: messages that this process may hold at a time; ``async`` functions work on all of them at once.
        Otherwise 64, or, if all functions run in threads and get one message, 16 or two for each thread
    :param workers: threads for functions that are not ``async``
    :param timeout: seconds until an answer is late; the library extends it while the process is alive
    :param extend_up_to: seconds after the arrival of a message until which the library extends its deadline
    :param batch: most messages that come together; otherwise 100 with a function for batches, and 1 without
    :param batch_wait: seconds for which a batch may wait to fill
    :param ordered: a batch may have several messages of a key, in order
    :param backoff: the first and the longest wait, in seconds, before it connects again; multiplied by a random number
    :param drain_timeout: seconds that running functions have after ``stop()``
    :param on_error: called with each exception of a function; may return the verdict
    :param parse_float: passed to ``json.loads()``; ``decimal.Decimal`` keeps the digits of numbers
    """

    def __init__(
        self,
        name: str,
        *,
        socket: str | os.PathLike[str] | None = None,
        consumer: str | None = None,
        instance: str | None = None,
        max_in_flight: int | None = None,
        workers: int = 1,
        timeout: float | timedelta = 30.0,
        extend_up_to: float | timedelta = 600.0,
        batch: int | None = None,
        batch_wait: float = 0.0,
        ordered: bool = False,
        backoff: tuple[float, float] = (0.1, 10.0),
        drain_timeout: float = 25.0,
        on_error: OnError | None = None,
        parse_float: Callable[[str], Any] | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError("workers must be 1 or more")
        if inspect.iscoroutinefunction(on_error):
            raise TypeError("on_error must not be async: nobody would await it")
        self.name = name
        self._socket = socket
        self._consumer = consumer
        self._instance = instance or platform.node()
        self._window = max_in_flight
        self._workers = workers
        self._timeout = _seconds(timeout)
        self._extend_up_to = _seconds(extend_up_to)
        self._batch = batch
        self._batch_wait = batch_wait
        self._ordered = ordered
        self._backoff = backoff
        self._drain_timeout = drain_timeout
        self._on_error = on_error
        self._loads = functools.partial(json.loads, parse_float=parse_float) if parse_float else json.loads
        self._routes = Routes()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._away_since: float | None = None
        self._stop: asyncio.Event | None = None
        self._stop_asked = False
        self._drain_ends = 0.0

    @overload
    def on(self, topic: str | None = None, types: str | Iterable[str] = (), *, model: type[M]) -> Callable[[FM[M]], FM[M]]: ...

    @overload
    def on(self, topic: str | None = None, types: str | Iterable[str] = (), *, model: None = None) -> Callable[[F], F]: ...

    def on(self, topic: str | None = None, types: str | Iterable[str] = (), *, model: Any = None) -> Callable[[Any], Any]:
        """Registers a function for messages of a topic and of types; without them, of any.

        A type that ends with ``*`` is a prefix. The most specific function gets a message. The function gets a
        :class:`Delivery`. What it returns, if not None, is the result of the message; :class:`Done` also has events to publish.

        ``model`` is a dataclass or a model of pydantic 2: ``delivery.event.data`` is then an object of it. A message whose data
        does not fit is dead with the code DATA, and the reason has the paths of the fields.
        """
        return self._register(topic, types, False, model)

    @overload
    def on_batch(
        self, topic: str | None = None, types: str | Iterable[str] = (), *, model: type[M]
    ) -> Callable[[BM[M]], BM[M]]: ...

    @overload
    def on_batch(
        self, topic: str | None = None, types: str | Iterable[str] = (), *, model: None = None
    ) -> Callable[[B], B]: ...

    def on_batch(self, topic: str | None = None, types: str | Iterable[str] = (), *, model: Any = None) -> Callable[[Any], Any]:
        """Registers a function that gets a :class:`Batch`.

        When it returns, each message is done, except those for which it called ``Delivery.set_verdict()``. An exception is the
        verdict for all others; in an ordered batch for the first one of each key, and the later ones come again after it.
        """
        return self._register(topic, types, True, model)

    def _register(
        self, topic: str | None, types: str | Iterable[str], takes_batch: bool, model: Any
    ) -> Callable[[Function], Function]:
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"the topic is a text, not {topic!r}: write @handler.on() with parentheses")

        def register(function: Function) -> Function:
            self._routes.add(topic, types, function, takes_batch, model)
            return function

        return register

    def run(self) -> None:
        """A whole program: handles messages until SIGTERM or SIGINT, then drains. A second signal ends it at once.

        ``Refused``: inboxd does not want this handler.
        """
        asyncio.run(self.serve_until_signal())

    async def serve_until_signal(self) -> None:
        """``run()`` for a program that has an event loop already."""
        loop = asyncio.get_running_loop()
        serving = loop.create_task(self.serve())
        signals = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        asked = False

        def on_signal() -> None:
            nonlocal asked
            if asked:
                serving.cancel()
            asked = True
            self.stop()

        for number in signals:
            loop.add_signal_handler(number, on_signal)
        try:
            await asyncio.wait({serving})
        except asyncio.CancelledError:  # of this call, and not of serve()
            serving.cancel()
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.exception()  # otherwise the loop logs that nobody has looked at it
            raise
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
        if serving.cancelled():
            log.warning("ended by a second signal: the open messages come again")
        else:
            serving.result()

    async def serve(self) -> None:
        """Handles messages until ``stop()``. Connects again whenever the connection ends. ``Refused``: see ``run()``.

        When it is cancelled, the running functions are cancelled, too. They have ten seconds to end before it ends.
        """
        if self._routes.is_empty:
            raise ValueError("the handler has no function: register one with on()")
        if self._stop is not None:
            raise RuntimeError("the handler runs already")
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stop_asked:  # before
            self._on_stop()
        workers = Workers(self._workers)
        dispatcher = Dispatcher(self._routes, workers, self._ordered, self._on_error)
        stopped = self._loop.create_task(self._stop.wait())
        try:
            await self._connect_again_and_again(dispatcher, stopped)
        finally:
            drain_ends = 0 if sys.exc_info()[0] is not None else self._drain_ends
            dispatcher.close()
            stopped.cancel()
            if self._session is not None:
                self._session.abort()
            try:
                await dispatcher.wait_for_functions(UNWINDING)
                await asyncio.to_thread(workers.close, drain_ends - self._loop.time())
            finally:
                self._session = self._stop = None
                self._stop_asked = False

    def stop(self) -> None:
        """Drains and ends ``run()`` and ``serve()``; if they have not begun, they end at once. Any thread may call it."""
        self._stop_asked = True
        loop = self._loop
        if loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        """In the loop."""
        if self._stop is not None and self._loop is not None and not self._stop.is_set():
            self._drain_ends = self._loop.time() + self._drain_timeout
            self._stop.set()

    def set_window(self, max_in_flight: int) -> None:
        """Changes how many messages this process may hold; 0 is a pause. Also for later connections. Any thread."""
        self._window = max_in_flight
        session = self._session
        if session is not None and session.greeted:
            session.send({"method": "window", "params": {"max_in_flight": max_in_flight}})

    # The connection

    async def _connect_again_and_again(self, dispatcher: Dispatcher, stopped: asyncio.Task[Any]) -> None:
        failures = 0
        self._away_since = None
        while not stopped.done():
            session = await self._connect(dispatcher)
            if session is not None:
                await self._attend(session, stopped)
                if session.refusal is not None:
                    raise Refused(session.refusal["code"], str(session.refusal.get("message")))
                failures = 0 if session.has_lived else failures
            if self._away_since is None:
                self._away_since = time.monotonic()
            # Full jitter: many handlers that lost the same sidecar must not come back at the same time.
            first, longest = self._backoff
            wait = random.random() * min(first * 2 ** min(failures, 30), longest)
            failures += 1
            await asyncio.wait({stopped}, timeout=wait)

    async def _connect(self, dispatcher: Dispatcher) -> Session | None:
        path = os.fspath(self._socket or os.environ.get("INBOXD_SOCKET_PATH") or DEFAULT_SOCKET)
        terms = Terms(self._hello(), self._timeout, self._extend_up_to, self._loads, dispatcher.accept, self._is_back)
        try:
            _, session = await asyncio.get_running_loop().create_unix_connection(lambda: Session(terms), path)
        except OSError as error:
            log.warning("cannot connect to inboxd at %s: %s", path, error)
            return None
        return session

    def _is_back(self) -> None:
        """Logs the end of the time without a connection, at the level of its beginning."""
        if self._away_since is not None:
            log.warning("connected to inboxd again after %.1f s", time.monotonic() - self._away_since)
            self._away_since = None

    async def _attend(self, session: Session, stopped: asyncio.Task[Any]) -> None:
        """Until the end of the connection. Drains it after ``stop()``."""
        self._session = session
        await asyncio.wait({session.ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not session.ended.done():
            session.drain()
            await asyncio.wait({session.ended}, timeout=max(self._drain_ends - session.loop.time(), 0))
            if not session.ended.done():
                log.warning("functions still run after %g s: their messages come again", self._drain_timeout)
                session.abort()
                await session.ended
        elif session.greeted and not stopped.done():
            log.warning("the connection to inboxd was lost")

    def _chosen_window(self) -> int:
        if self._window is not None:
            return self._window
        at_once = self._routes.has_async or self._routes.has_batches or (self._batch or 1) > 1
        return max(64 if at_once else 16, 2 * self._workers)

    def _hello(self) -> dict[str, Any]:
        most = self._batch or (100 if self._routes.has_batches else 1)
        batch: dict[str, Any] = {"max": most, "wait_ms": round(self._batch_wait * 1000)}
        if self._ordered:
            batch["ordered"] = True
        hello: dict[str, Any] = {
            "protocol": [1],
            "handler": self.name,
            "instance": self._instance,
            "client": f"inboxd-python/{__version__}",
            "max_in_flight": self._chosen_window(),
            "timeout_ms": max(round(self._timeout * 1000), 1),
            "batch": batch,
        }
        if subscribe := self._routes.subscriptions():
            hello["subscribe"] = subscribe
        if self._consumer is not None:
            hello["consumer"] = self._consumer
        return hello


def _seconds(time: float | timedelta) -> float:
    return time.total_seconds() if isinstance(time, timedelta) else float(time)
