"""A delivery, and a batch of them: what a function gets."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, overload

from . import _database
from ._event import D, Event, parse_time
from ._transaction import Transactional
from ._verdicts import Cancelled, Dead, Done, Emit, Verdict, to_json

if TYPE_CHECKING:
    from ._database import AnyTransaction, AsyncTransaction, DbapiTransaction, SyncTransaction
    from ._session import Group, Session

Header = tuple[str | bytes, str | bytes | None]
Lane = tuple[Any, ...]
UNSET = object()  # the verdict of a message for which set_verdict() was not called


class Delivery(Transactional, Generic[D]):
    """One message, delivered once.

    A function in a thread may use it in this thread. ``id`` is that of this delivery; the message is identified by the source
    and the id of its event.
    """

    __slots__ = (
        "_completed",
        "_completion",
        "_deadline",
        "_group",
        "_members",
        "_received",
        "_session",
        "_started",
        "_stop_work",
        "_verdict",
        "cancelled",
        "event",
        "headers",
        "id",
    )

    def __init__(self, session: Session, delivery_id: str, params: Mapping[str, Any], now: float, group: Group | None) -> None:
        self.id = delivery_id
        self.event: Event[D] = Event(params["event"])
        self.headers: list[Header] = [(_text(name), _value(value)) for name, value, *_ in params.get("headers") or ()]
        self.cancelled: str | None = None
        """None, or why the delivery was cancelled: timeout, lease_lost, shutdown or connection_lost."""
        self._members = params["delivery"]
        self._session = session
        self._group = group
        self._received = now
        self._deadline = now + session.timeout
        self._started = False
        self._completed = False
        self._completion: Any = None  # the coroutine of the last call of complete()
        self._verdict: Any = UNSET
        self._stop_work: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"Delivery({self.id!r}, attempt={self.attempt}, {self.event!r})"

    @property
    def claim(self) -> str:
        """The argument of ``inbox.complete()``; ``complete()`` passes it."""
        return str(self._members["claim"])

    @property
    def seq(self) -> int:
        """The row in ``inbox_messages``."""
        return int(self._members.get("seq", 0))

    @property
    def attempt(self) -> int:
        """1 is the first attempt."""
        return int(self._members.get("attempt", 1))

    @property
    def max_attempts(self) -> int:
        return int(self._members.get("max_attempts", 0))

    @property
    def consumer(self) -> str | None:
        """The consumer, if the configuration of inboxd has several."""
        name = self._members.get("consumer")
        return None if name is None else str(name)

    @property
    def deadline(self) -> datetime | None:
        """The first deadline, by the clock of inboxd. ``extend()`` does not change it."""
        text = self._members.get("deadline")
        return None if text is None else parse_time(text)

    @property
    def replay(self) -> bool:
        """True if an operator asked for another run: the message may have been processed before."""
        return self._members.get("replay") is True

    def header(self, name: str) -> str | bytes | None:
        """The last Kafka header with this name; None if there is none."""
        return next((value for found, value in reversed(self.headers) if found == name), None)

    def raise_if_cancelled(self) -> None:
        """Cancelled if the delivery was cancelled. A function in a thread calls it between the steps of long work.

        An ``async`` function does not need it: its task is cancelled.
        """
        if self.cancelled is not None:
            raise Cancelled(self.cancelled)

    def extend(self, seconds: float | None = None) -> None:
        """Moves the deadline to ``seconds`` from now; without them, to the timeout of the handler. Does not block.

        The library does this by itself for every message that it holds (``extend_up_to`` of :class:`Handler`).
        """
        self.raise_if_cancelled()
        self._session.extend(self, self._session.timeout if seconds is None else seconds)

    def set_verdict(self, verdict: Any) -> None:
        """In a function for batches: the verdict of this message alone, for example ``Retry("locked")``.

        It takes what a function for one message may return or raise: a result, ``Done``, ``SETTLED`` or a ``Verdict``.
        """
        self._verdict = verdict

    @overload
    def complete(self, transaction: AsyncTransaction, result: Any = None, emit: Sequence[Emit] = ()) -> Awaitable[None]: ...

    @overload
    def complete(
        self, transaction: SyncTransaction | DbapiTransaction, result: Any = None, emit: Sequence[Emit] = ()
    ) -> None: ...

    def complete(self, transaction: AnyTransaction, result: Any = None, emit: Sequence[Emit] = ()) -> Awaitable[None] | None:
        """Completes the message in your transaction: its effects and the completion commit together, or neither.

        ``transaction`` is a connection (or a cursor) of psycopg 3, psycopg2 or asyncpg, a session or connection of SQLAlchemy,
        or ``django.db.connection``, with an open transaction, to the database of the inbox. Await the call if the connection is
        asynchronous: a message is dead if its function did not. The function then just returns.

        ``ClaimLost``: the message is not yours any more. Let the exception pass, so that the transaction rolls back.
        """
        types = ["text"]
        values: list[str | None] = [self.claim]
        if result is not None or emit:
            types.append("text::jsonb")
            values.append(None if result is None else to_json(result))
        if emit:
            types.append("text::jsonb")
            values.append(to_json([event.members() for event in emit]))
        return _complete(transaction, types, values, [self])

    def _complete_with(self, connection: Any, returned: Any) -> tuple[Any, Any]:
        """For Transaction: the result, and what must be awaited."""
        done = returned if isinstance(returned, Done) else Done(returned)
        return done.result, self.complete(connection, done.result, done.emit)

    def _remember(self) -> Callable[[], None]:
        """Returns what makes a transaction undone that does not commit. A failure needs no transaction, and stays."""
        verdict = self._verdict

        def forget() -> None:
            self._begin_attempt()
            if not isinstance(self._verdict, Verdict):
                self._verdict = verdict

        return forget

    @property
    def _is_cancelled(self) -> bool:
        return self.cancelled is not None

    def _call_database(self, *arguments: Any) -> Any:
        """The test kit has another one."""
        return _database.call(*arguments)

    def _require_awaited(self) -> None:
        """Dead, if the function called complete() without waiting for it: the effects may have happened, and would again."""
        pending, self._completion = self._completion, None
        if pending is None or self._completed or inspect.getcoroutinestate(pending) == inspect.CORO_CLOSED:
            return
        if inspect.getcoroutinestate(pending) == inspect.CORO_CREATED:
            pending.close()
        raise Dead(
            "complete() was called and not awaited, so the effects of this attempt may have been committed without it:"
            " write `await delivery.complete(…)`",
            code="NOT_AWAITED",
        )

    def _begin_attempt(self) -> None:
        """A transaction begins: what one before it has completed was rolled back."""
        self._completed = False

    @property
    def _is_completed(self) -> bool:
        return self._completed

    def _cancel(self, reason: str) -> None:
        self.cancelled = reason
        if self._stop_work is not None:
            self._stop_work()

    def lane(self, ordering: str) -> Lane:
        """What messages that must be processed one after the other have in common. A message without order has its own."""
        place = (self.event.topic, self.event.partition)
        if ordering == "partition":
            return place
        key = self.event.key
        if ordering == "none" or key is None:
            return (self.id,)
        return (*place, key.encode() if isinstance(key, str) else key)


class Batch(Transactional, Sequence[Delivery[D]], Generic[D]):
    """The deliveries that a function for batches gets together.

    In an ordered batch, ``for delivery in batch`` leaves out the messages behind one that has got a verdict like ``Retry`` by
    ``Delivery.set_verdict()``. They come again after it, in order.
    """

    def __init__(self, deliveries: Sequence[Delivery[D]], ordering: str) -> None:
        self._deliveries = deliveries
        self._ordering = ordering

    def __len__(self) -> int:
        return len(self._deliveries)

    @overload
    def __getitem__(self, index: int) -> Delivery[D]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Delivery[D]]: ...

    def __getitem__(self, index: int | slice) -> Delivery[D] | Sequence[Delivery[D]]:
        return self._deliveries[index]

    def __iter__(self) -> Iterator[Delivery[D]]:
        failed = set()
        for delivery in self._deliveries:
            lane = delivery.lane(self._ordering)
            if lane not in failed:
                yield delivery
            if isinstance(delivery._verdict, Verdict) and not isinstance(delivery._verdict, Dead):
                failed.add(lane)

    @overload
    def complete(self, transaction: AsyncTransaction, results: Sequence[Any] | None = None) -> Awaitable[None]: ...

    @overload
    def complete(self, transaction: SyncTransaction | DbapiTransaction, results: Sequence[Any] | None = None) -> None: ...

    def complete(self, transaction: AnyTransaction, results: Sequence[Any] | None = None) -> Awaitable[None] | None:
        """Completes, in your transaction, every message that has no verdict by ``Delivery.set_verdict()``: all or none.

        ``results`` has one result, or None, for each of these messages. See ``Delivery.complete()``.
        """
        chosen = [delivery for delivery in self if delivery._verdict is UNSET]
        types = ["text[]"]
        values: list[Sequence[str | None]] = [[delivery.claim for delivery in chosen]]
        if results is not None:
            types.append("text[]::jsonb[]")
            values.append([None if result is None else to_json(result) for result in results])
        return _complete(transaction, types, values, chosen)

    def _complete_with(self, connection: Any, returned: Any) -> tuple[Any, Any]:
        if isinstance(returned, Done) and returned.emit:
            raise TypeError("the function has returned events of no message: give them to Delivery.complete(…, emit=…)")
        return returned, self.complete(connection)

    def _begin_attempt(self) -> None:
        for delivery in self._deliveries:
            delivery._begin_attempt()

    def _remember(self) -> Callable[[], None]:
        forgets = [delivery._remember() for delivery in self._deliveries]

        def forget() -> None:
            for one in forgets:
                one()

        return forget

    @property
    def _is_cancelled(self) -> bool:
        return all(delivery.cancelled is not None for delivery in self._deliveries)

    @property
    def _is_completed(self) -> bool:
        """True if the function has completed any of them: it does so for each."""
        return any(delivery._completed for delivery in self._deliveries)

    def split(self) -> list[list[Delivery[D]]]:
        """The deliveries of each lane, in order."""
        lanes: dict[Lane, list[Delivery[D]]] = {}
        for delivery in self._deliveries:
            lanes.setdefault(delivery.lane(self._ordering), []).append(delivery)
        return list(lanes.values())


def _complete(
    transaction: AnyTransaction, types: Sequence[str], values: Sequence[Any], deliveries: Sequence[Delivery]
) -> Awaitable[None] | None:
    """Calls ``inbox.complete(values…)``, each cast to its type."""
    query = "SELECT inbox.complete({})".format(", ".join(f"{{}}::{cast}" for cast in types))

    def mark(_: Any) -> None:
        for delivery in deliveries:
            delivery._completed = True

    call = deliveries[0]._call_database if deliveries else _database.call
    pending: Awaitable[None] | None = call(transaction, query, values, "complete", mark)
    if pending is not None:
        for delivery in deliveries:
            delivery._completion = pending
    return pending


def _text(value: Any) -> str | bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, Mapping) else str(value)


def _value(value: Any) -> str | bytes | None:
    return None if value is None else _text(value)
