"""Calls the functions: ``async`` ones in tasks of the loop, others in threads. Turns what happens into answers."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ._delivery import UNSET, Batch, Delivery, Lane
from ._event import Unreadable
from ._model import Decoder, Misfit
from ._routes import Route, Routes
from ._session import Group, Session
from ._verdicts import (
    SKIPPED,
    Answer,
    ClaimLost,
    Dead,
    Done,
    Snooze,
    Verdict,
    answer_to,
    answer_to_error,
    describe,
    error_in,
    is_away,
    meaning,
)

log = logging.getLogger("inboxd")

NO_FUNCTION = Snooze(5, "this version of the handler has no function for the type", code="NO_FUNCTION")

OnError = Callable[[Delivery, Exception], "Verdict | None"]
Job = Callable[[], object]


class Workers:
    """Threads that run jobs one after the other. They start with the first job and do not keep the process alive."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Job) -> None:
        """From the thread of the loop."""
        if len(self._threads) < self._count:
            name = f"inboxd-{len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
            self._threads[-1].start()
        self._jobs.put(job)

    def close(self, timeout: float) -> None:
        """Waits for the running jobs. Those that have not begun are left out."""
        for _ in self._threads:
            self._jobs.put(None)
        ends = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(ends - time.monotonic(), 0))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException:
                log.exception("a thread of the handler goes on after an error")


class Dispatcher:
    def __init__(self, routes: Routes, workers: Workers, ordered: bool, on_error: OnError | None) -> None:
        self._routes = routes
        self._workers = workers
        self._ordered = ordered
        self._on_error = on_error
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself keeps only weak references
        self._functions: set[asyncio.Task[Any]] = set()  # in which a function runs
        self._closed = False

    def close(self) -> None:
        """serve() ends. A function that is cancelled from now on gives no verdict."""
        self._closed = True

    async def wait_for_functions(self, seconds: float) -> None:
        """Cancelled functions may still use what the program closes after serve(), as a pool for their ROLLBACK."""
        running = set(self._functions)
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            if late:
                log.warning("%d cancelled functions have not ended after %g s", len(late), seconds)

    def accept(self, session: Session, deliveries: list[Delivery], group: Group | None) -> None:
        """Starts the work on the deliveries of one line."""
        routed: list[tuple[Delivery, Route]] = []
        for delivery in deliveries:
            route = self._routes.find(delivery.event.topic, delivery.event.type)
            if type(delivery.event._data) is Unreadable:
                error = Dead(f"the data cannot be read: {delivery.event.data.why}", code="DATA")
                log.error("%r is dead: %s", delivery, error)
                self._conclude_error(session, delivery, error)
            elif route is None:
                self._conclude_error(session, delivery, NO_FUNCTION)
            elif route.decode is None or self._decode(session, delivery, route.decode):
                routed.append((delivery, route))
        if group is None or not self._ordered:
            self._start_all(session, routed)
        elif routed:
            self._start_task(self._run_in_order(session, routed))

    def _decode(self, session: Session, delivery: Delivery, decode: Decoder) -> bool:
        """False if the data does not fit: another attempt would not help."""
        event = delivery.event
        try:
            if event.is_tombstone or isinstance(event.data, bytes):
                raise Misfit("the message has no data" if event.is_tombstone else "the data is no JSON")
            event._data = decode(event.data)
        except Misfit as misfit:
            error = Dead(f"the data does not fit: {misfit}", code="DATA")
            log.error("%r is dead: %s", delivery, error)
            self._conclude_error(session, delivery, error)
        except Exception as error:
            self._conclude_error(session, delivery, error)
        else:
            return True
        return False

    def _start_all(self, session: Session, routed: list[tuple[Delivery, Route]]) -> None:
        """Each message, or each batch for a function, for itself."""
        batches: dict[Route, list[Delivery]] = {}
        for delivery, route in routed:
            if route.takes_batch:
                batches.setdefault(route, []).append(delivery)
            elif route.is_async:
                self._start_function(self._process(session, delivery, route), [delivery])
            else:
                self._workers.submit(lambda item=delivery, to=route: self._process_in_thread(session, item, to))  # type: ignore[misc]
        for route, together in batches.items():
            self._start_task(self._run_batch(session, together, route))

    def _start_task(self, coroutine: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start_function(self, coroutine: Any, deliveries: Sequence[Delivery]) -> asyncio.Task[Any]:
        """A task that runs a function. It is cancelled when each of the deliveries is."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._functions.add(task)
        task.add_done_callback(self._functions.discard)
        if len(deliveries) == 1:  # without a list that would refer to the delivery: such a cycle costs as much as the rest
            deliveries[0]._stop_work = functools.partial(_cancel_once, task)
            return task
        for delivery in deliveries:
            delivery._stop_work = lambda: _cancel_once(task) if all(one.cancelled for one in deliveries) else None
        return task

    # Calls

    async def _call(self, function: Any, argument: Any, deliveries: Sequence[Delivery]) -> Any:
        """What an async function returns. An error that is no Exception could end the loop."""
        try:
            returned = await function(argument)
            return await _result_of(returned, deliveries)
        except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise _as_exception(error) from error

    def _call_in_thread(self, session: Session, function: Any, argument: Any, deliveries: Sequence[Delivery]) -> Any:
        """What another function returns. A coroutine that it returns runs in the loop, and the thread waits for it."""
        try:
            returned = function(argument)
            for delivery in deliveries:
                delivery._require_awaited()
            if returned is None or not inspect.isawaitable(returned):
                return returned
            running = asyncio.run_coroutine_threadsafe(self._run_returned(returned, deliveries), session.loop)
            for delivery in deliveries:
                delivery._stop_work = lambda: all(one.cancelled for one in deliveries) and running.cancel()
            if all(delivery.cancelled for delivery in deliveries):  # before it could be stopped
                running.cancel()
            return running.result()
        except Exception:
            raise
        except BaseException as error:  # sys.exit() in a thread ends only the function
            raise _as_exception(error) from error

    async def _run_returned(self, coroutine: Any, deliveries: Sequence[Delivery]) -> Any:
        """A coroutine of a function in a thread. At the end, serve() waits for it, too."""
        task = asyncio.current_task()
        if task is not None:
            self._functions.add(task)
            task.add_done_callback(self._functions.discard)
        return await self._call(_identity, coroutine, deliveries)

    # One message

    async def _process(self, session: Session, delivery: Delivery, route: Route) -> bool:
        """True if the messages behind this one may be processed."""
        if not session.begin(delivery):
            return False
        try:
            returned = await route.function(delivery)
            if returned is not None or delivery._completion is not None:
                returned = await _result_of(returned, (delivery,))
        except asyncio.CancelledError as error:
            if delivery.cancelled is not None:
                return False
            await asyncio.sleep(0)  # the end of the loop cancels all tasks, in any order: serve() has seen it after this turn
            if self._closed:
                raise
            return self._conclude_error(session, delivery, _as_exception(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            return self._conclude_error(session, delivery, _as_exception(error))
        return self._conclude(session, delivery, returned)

    def _process_in_thread(self, session: Session, delivery: Delivery, route: Route) -> bool:
        if not session.begin(delivery):
            return False
        try:
            returned = self._call_in_thread(session, route.function, delivery, (delivery,))
        except Exception as error:
            return self._conclude_error(session, delivery, error)
        return self._conclude(session, delivery, returned)

    def _conclude(self, session: Session, delivery: Delivery, returned: Any) -> bool:
        try:
            answer = answer_to(returned, delivery._completed)
        except Exception as error:
            return self._conclude_error(session, delivery, error)
        session.settle(delivery, answer)
        return answer.finished

    def _conclude_error(self, session: Session, delivery: Delivery, error: Exception) -> bool:
        answer = self._answer_to_error(delivery, error)
        session.settle(delivery, answer)
        return answer.finished

    def _answer_to_error(self, delivery: Delivery, error: Exception) -> Answer:
        verdict = self._verdict_of_hook(delivery, error)
        if verdict is None and meaning(error) is None and delivery.cancelled is None:
            if is_away(error):
                log.warning("%r waits for the database: %s", delivery, describe(error))
            else:
                log.error("%r failed", delivery, exc_info=error)
        return answer_to_error(error if verdict is None else verdict)

    def _verdict_of_hook(self, delivery: Delivery, error: Exception) -> Verdict | None:
        """The verdict of on_error(). If it fails, or returns something else, the verdict is that of the error."""
        if self._on_error is None:
            return None
        try:
            verdict = self._on_error(delivery, error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            log.exception("on_error failed: the error decides")
            return None
        found = None if verdict is None else error_in(verdict)
        if isinstance(found, Verdict):
            return found
        if verdict is not None:
            log.error("on_error has returned %r, which is no verdict: the error decides", verdict)
        return None

    # Ordered batches

    async def _run_in_order(self, session: Session, routed: list[tuple[Delivery, Route]]) -> None:
        """The messages of a lane one after the other, until one is not finished; lanes at the same time.

        With functions for batches: messages that follow each other and have the same function at a time.
        """
        routes = dict(routed)
        if not any(route.takes_batch for route in routes.values()):
            lanes = Batch(list(routes), session.ordering).split()
            await asyncio.gather(*(self._run_lane(session, lane, routes) for lane in lanes))
            return
        unfinished: set[Lane] = set()
        together: list[Delivery] = []
        for number, (delivery, route) in enumerate(routed):
            if delivery.lane(session.ordering) in unfinished:
                session.settle(delivery, SKIPPED)
            else:
                together.append(delivery)
            if together and (number + 1 == len(routed) or routed[number + 1][1] is not route):
                unfinished |= await self._run_run(session, together, route)
                together = []

    async def _run_run(self, session: Session, deliveries: list[Delivery], route: Route) -> set[Lane]:
        """Messages for one function. Returns the lanes that have an unfinished one."""
        if route.takes_batch:
            return await self._run_batch(session, deliveries, route)
        lanes = Batch(deliveries, session.ordering).split()
        routes = dict.fromkeys(deliveries, route)
        finished = await asyncio.gather(*(self._run_lane(session, lane, routes) for lane in lanes))
        return {lane[0].lane(session.ordering) for lane, ok in zip(lanes, finished, strict=True) if not ok}

    async def _run_lane(self, session: Session, lane: list[Delivery], routes: dict[Delivery, Route]) -> bool:
        """True if each message is finished."""
        if not any(routes[delivery].is_async for delivery in lane):
            return bool(await self._in_thread(lambda: self._run_lane_in_thread(session, lane, routes)))
        go_on = True
        for delivery in lane:
            if not go_on:
                session.settle(delivery, SKIPPED)
            elif routes[delivery].is_async:
                task = self._start_function(self._process(session, delivery, routes[delivery]), [delivery])
                await asyncio.wait({task})
                go_on = not task.cancelled() and task.result()
            else:
                job = delivery, routes[delivery]
                go_on = await self._in_thread(lambda job=job: self._process_in_thread(session, *job))  # type: ignore[misc]
        return go_on

    def _run_lane_in_thread(self, session: Session, lane: list[Delivery], routes: dict[Delivery, Route]) -> bool:
        go_on = True
        for delivery in lane:
            if go_on:
                go_on = self._process_in_thread(session, delivery, routes[delivery])
            else:
                session.settle(delivery, SKIPPED)
        return go_on

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def end(method: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                method(value)

        def job() -> None:
            outcome: tuple[Callable[[Any], None], Any]
            try:
                outcome = future.set_result, function()
            except BaseException as error:
                outcome = future.set_exception, error
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, *outcome)

        self._workers.submit(job)
        return await future

    # Functions for batches

    async def _run_batch(self, session: Session, deliveries: list[Delivery], route: Route) -> set[Lane]:
        """Calls a function with all of these messages. Returns the lanes that have an unfinished one."""
        ordering = session.ordering if self._ordered else "none"
        if route.is_async:
            begun = [delivery for delivery in deliveries if session.begin(delivery)]
            if not begun:
                return set()
            task = self._start_function(self._call_batch(route, begun, ordering), begun)
            await asyncio.wait({task})
            try:
                error = task.exception()
            except asyncio.CancelledError as cancel:  # not by the end of the loop, which cancels this method, too
                if all(delivery.cancelled for delivery in begun):
                    return {delivery.lane(ordering) for delivery in begun}
                error = cancel
            return self._conclude_batch(session, begun, ordering, error)

        def job() -> tuple[list[Delivery], BaseException | None]:
            begun = [delivery for delivery in deliveries if session.begin(delivery)]
            try:
                if begun:
                    _raise_returned(self._call_in_thread(session, route.function, Batch(begun, ordering), begun))
                return begun, None
            except Exception as error:
                return begun, error

        begun, error = await self._in_thread(job)
        return self._conclude_batch(session, begun, ordering, error)

    async def _call_batch(self, route: Route, deliveries: list[Delivery], ordering: str) -> None:
        _raise_returned(await self._call(route.function, Batch(deliveries, ordering), deliveries))

    def _conclude_batch(
        self, session: Session, deliveries: Sequence[Delivery], ordering: str, error: BaseException | None
    ) -> set[Lane]:
        """Answers each message: with its own verdict, with that of the batch, or, behind an unfinished one, with skipped."""
        general = self._general_answer(deliveries, error)  # for messages without a verdict of their own
        meant = None if error is None else meaning(error)
        unfinished: set[Lane] = set()
        for delivery in deliveries:
            lane = delivery.lane(ordering)
            if lane in unfinished:
                answer = SKIPPED
            elif delivery._verdict is not UNSET or error is None:
                answer = self._answer_of(delivery)
            elif isinstance(meant, ClaimLost) and meant.claim == delivery.claim:
                answer = answer_to_error(meant)
            else:
                answer = general
            session.settle(delivery, answer)
            if not answer.finished:
                unfinished.add(lane)
        return unfinished

    def _answer_of(self, delivery: Delivery) -> Answer:
        try:
            return answer_to(None if delivery._verdict is UNSET else delivery._verdict, delivery._completed)
        except Exception as error:
            return self._answer_to_error(delivery, error)

    def _general_answer(self, deliveries: Sequence[Delivery], error: BaseException | None) -> Answer:
        if error is None or not deliveries:
            return SKIPPED
        if isinstance(meaning(error), ClaimLost):
            return SKIPPED  # the transaction has rolled back, and only one of the messages is lost
        return self._answer_to_error(deliveries[0], _as_exception(error))


async def _result_of(returned: Any, deliveries: Sequence[Delivery]) -> Any:
    """What a function has returned; if this is a coroutine, what that returns."""
    while True:
        for delivery in deliveries:
            delivery._require_awaited()
        if returned is None or not inspect.isawaitable(returned):
            return returned
        returned = await returned


async def _identity(awaitable: Any) -> Any:
    return await awaitable


def _raise_returned(returned: Any) -> None:
    """What a function for batches returns is no result. But a verdict, an error or an event must not be lost."""
    if returned is None:
        return
    if isinstance(returned, Done) and returned.emit:
        raise TypeError("the function for batches has returned events: give them with Delivery.set_verdict()")
    error = error_in(returned)
    if error is not None:
        raise error


def _cancel_once(task: asyncio.Task[Any]) -> None:
    """A task that is being cancelled may be at its ROLLBACK, which a second cancel would interrupt."""
    cancelling = getattr(task, "cancelling", None)  # Python 3.11
    if cancelling is None or not cancelling():
        task.cancel()


def _as_exception(error: BaseException) -> Exception:
    """on_error() and the answers know no SystemExit and no CancelledError."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(repr(error))
    wrapped.__cause__ = error
    return wrapped
