"""Tests of functions without inboxd, Kafka and network: ``deliver(handler, message({"order": 17}, topic="orders"))``.

The message takes the way of one of inboxd: the function is found by topic and type, its exceptions and results become a
verdict. ``complete()`` needs an open transaction, as always, but stores nothing in the inbox: the outcome has what it would
store. So the effects may go to a database that has no inbox, and roll back at the end of the test.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from . import _database
from ._delivery import Delivery
from ._handler import Handler
from ._session import Session
from ._verdicts import Answer, Emit, Verdict, to_json
from ._work import Dispatcher, Workers

__all__ = ["Message", "Outcome", "adeliver", "adeliver_batch", "deliver", "deliver_batch", "load", "message"]

Message = Mapping[str, Any]
"""The params of a delivery: what ``message()`` and ``load()`` return."""
Function = Callable[[Any], Any]
_ABSENT: Any = object()


def message(
    data: Any = _ABSENT,
    *,
    topic: str = "test",
    type: str | None = None,  # noqa: A002 - as the attribute
    key: str | None = None,
    headers: Sequence[tuple[str, str | None]] = (),
    attempt: int = 1,
    max_attempts: int = 10,
    replay: bool = False,
    consumer: str | None = None,
    **attributes: Any,
) -> Message:
    """A message. Bytes are data that is no JSON; without data it is a tombstone. Others, as ``id``, are those of the event."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "test-1",
        "source": "test",
        "type": type or topic,
        "kafkatopic": topic,
        "kafkapartition": 0,
        "kafkaoffset": "0",
        **({} if key is None else {"partitionkey": key}),
        **attributes,
    }
    if isinstance(data, bytes):
        event["data_base64"] = Emit("", data=data).members()["data_base64"]
    elif data is not _ABSENT:
        event["data"] = json.loads(to_json(data))
    delivery = {"claim": "test", "seq": "1", "attempt": attempt, "max_attempts": max_attempts, "replay": replay}
    if consumer is not None:
        delivery["consumer"] = consumer
    return {"delivery": delivery, "event": event, "headers": [list(header) for header in headers]}


def load(path: str | os.PathLike[str], *, parse_float: Callable[[str], Any] | None = None) -> Message:
    """A message that ``inboxd export`` has written to a file."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file, parse_float=parse_float)
    if not isinstance(found, dict) or not isinstance(found.get("event"), dict):
        raise ValueError(f"{os.fspath(path)} is not what `inboxd export` writes")
    return {"delivery": {}, **found}


@dataclass(frozen=True)
class Outcome:
    """What a delivery has led to.

    ``status`` is done, retry, dead, snooze or skipped. ``completed`` is true if the function has called ``complete()``; the
    status is then done, too. ``result`` and ``events`` are what inboxd would store and publish, as JSON. ``error`` is the
    exception of the function.
    """

    status: str
    result: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    completed: bool = False
    reason: str | None = None
    code: str | None = None
    delay: float | None = None
    error: BaseException | None = None


def deliver(handler: Handler | Function, message: Message) -> Outcome:
    """Delivers a message to the function of the handler for it, or to a function. In a test with an event loop: ``adeliver()``.

    A function that is not ``async`` runs in this thread.
    """
    return _run(handler, [message], False, "none")[0]


def deliver_batch(handler: Handler | Function, messages: Sequence[Message], *, ordering: str = "key") -> list[Outcome]:
    """Delivers messages together. ``ordering`` is that of the consumer, for ordered batches."""
    return _run(handler, messages, True, ordering)


async def adeliver(handler: Handler | Function, message: Message) -> Outcome:
    """``deliver()`` in the event loop of the test. A function that is not ``async`` runs in another thread."""
    return (await _Kit(handler, False, "none").deliver([message]))[0]


async def adeliver_batch(handler: Handler | Function, messages: Sequence[Message], *, ordering: str = "key") -> list[Outcome]:
    """``deliver_batch()`` in the event loop of the test."""
    return await _Kit(handler, True, ordering).deliver(messages)


def _run(handler: Handler | Function, messages: Sequence[Message], together: bool, ordering: str) -> list[Outcome]:
    """The loop is in another thread, so that this one can run the functions that are not async."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("an event loop runs in this test: await adeliver() or adeliver_batch()")
    kit = _Kit(handler, together, ordering)
    jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
    kit.workers.submit = lambda job: jobs.put(job)  # type: ignore[method-assign]
    found: list[Any] = []

    def loop() -> None:
        try:
            found.append(asyncio.run(kit.deliver(messages)))
        except BaseException as error:
            found.append(error)
        finally:
            jobs.put(None)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(loop,), name="inboxd-testing", daemon=True)
    thread.start()
    while (job := jobs.get()) is not None:
        job()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return cast("list[Outcome]", found[0])


class _Kit:
    """One call of deliver(): the dispatcher of a handler, and what it needs of a session."""

    def __init__(self, handler: Handler | Function, together: bool, ordering: str) -> None:
        if not isinstance(handler, Handler):
            function, handler = handler, Handler("test")
            (handler.on_batch if together else handler.on)()(function)
        self._handler = handler
        self._together = together
        self.workers = Workers(handler._workers)
        self.timeout = handler._timeout
        self.ordering = ordering
        self.draining = False
        self.extended: list[float] = []
        self._answers: dict[str, Answer | None] = {}
        self._errors: dict[str, BaseException] = {}
        self.completions: dict[str, tuple[Any, list[dict[str, Any]]]] = {}

    async def deliver(self, messages: Sequence[Message]) -> list[Outcome]:
        self.loop = asyncio.get_running_loop()
        self._all_settled = asyncio.Event()
        deliveries: list[Delivery] = [_Delivery(self, f"d{number}", one) for number, one in enumerate(messages, 1)]
        self._open = {delivery.id: delivery for delivery in deliveries}
        dispatcher = Dispatcher(self._handler._routes, self.workers, self._handler._ordered, self._on_error)
        dispatcher.accept(cast(Session, self), deliveries, cast(Any, self) if self._together else None)
        try:
            if deliveries:
                await self._all_settled.wait()
        finally:
            await asyncio.to_thread(self.workers.close, 0)
        return [self._outcome(delivery) for delivery in deliveries]

    def _on_error(self, delivery: Delivery, error: Exception) -> Verdict | None:
        self._errors[delivery.id] = error
        hook = self._handler._on_error
        return None if hook is None else hook(delivery, error)

    # What Dispatcher and Delivery call of a session

    def begin(self, delivery: Delivery) -> bool:
        delivery._started = True
        return True

    def settle(self, delivery: Delivery, answer: Answer | None) -> None:
        if self._open.pop(delivery.id, None) is not None:
            self._answers[delivery.id] = answer
            if not self._open:
                self.loop.call_soon_threadsafe(self._all_settled.set)

    def extend(self, delivery: Delivery, seconds: float) -> None:
        """Nobody waits."""

    def _outcome(self, delivery: Delivery) -> Outcome:
        answer = self._answers[delivery.id]
        members = json.loads("{" + (answer.members if answer is not None else '"status":"skipped"') + "}")
        status, delay = members.pop("status"), members.pop("delay_ms", None)
        result, events = members.get("result"), members.get("emit", [])
        completed = status == "settled"
        if completed:
            status = "done"
            result, events = self.completions.get(delivery.id, (None, []))
        return Outcome(
            status,
            result,
            events,
            completed,
            members.get("reason"),
            members.get("code"),
            None if delay is None else delay / 1000,
            self._errors.get(delivery.id),
        )


class _Delivery(Delivery):
    __slots__ = ()

    def __init__(self, kit: _Kit, delivery_id: str, params: Message) -> None:
        claim = {"claim": delivery_id}
        super().__init__(cast(Session, kit), delivery_id, {**params, "delivery": {**params["delivery"], **claim}}, 0.0, None)

    def _call_database(
        self, transaction: Any, query: str, values: Sequence[Any], name: str, finish: Callable[[Any], Any]
    ) -> Any:
        """The claims are the ids of the deliveries. A statement would fail, because there is no inbox."""
        _database.require_open(transaction, name)
        kit = cast(_Kit, self._session)
        if isinstance(values[0], list):
            results = values[1] if len(values) > 1 else [None] * len(values[0])
            completions: dict[str, tuple[Any, list[Any]]] = {
                claim: (_read(result), []) for claim, result in zip(values[0], results, strict=True)
            }
        else:
            _, result, emit = (*values, None, None)[:3]
            completions = {self.claim: (_read(result), _read(emit) or [])}

        def complete() -> Any:
            kit.completions.update(completions)
            return finish(None)

        async def complete_later() -> Any:
            _database.require_open(transaction, name)
            return complete()

        return complete_later() if _database.is_async(transaction) else complete()


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
