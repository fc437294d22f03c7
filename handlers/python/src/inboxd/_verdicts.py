"""Verdicts: what a function says about a message, and how an exception becomes one."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

log = logging.getLogger("inboxd")

_REASON_MAX = 4096
_CODE_MAX = 64
_RESULT_MAX = 1 << 20  # inboxd stores no longer one
_EMIT_MAX = 8 << 20
_AWAY_DELAY = 1.0
CLAIM_LOST = "IB001"
# SQLSTATEs that the message has not caused: connection, standby, deadlock, no resources, a lock of others, shutdown.
_AWAY = ("08", "25006", "40", "53", "55006", "55P03", "57P")
# Errors of drivers and pools without a SQLSTATE: the connection is lost, or there is none.
_AWAY_ERRORS = {("psycopg", "OperationalError"), ("psycopg2", "OperationalError"), ("sqlalchemy", "TimeoutError")}
# Those that say so only by their text.
_CLOSED_ERRORS = {("asyncpg", "InterfaceError"), ("asyncpg", "InternalClientError"), ("psycopg2", "InterfaceError")}
_CLOSED = re.compile("closed|not connected|cannot switch to state")
_MOST_CAUSES = 100
_LOST = re.compile(r"claim (\S+) is lost")


class Verdict(Exception):
    """Base of the exceptions that are verdicts."""

    status = ""

    def __init__(self, reason: str = "", *, delay: float | timedelta | None = None, code: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.code = code


class Retry(Verdict):
    """The attempt failed. The message comes again after ``delay`` seconds, or after the backoff of inboxd."""

    status = "retry"


class Dead(Verdict):
    """The message can never be processed. It does not come again unless an operator replays it."""

    status = "dead"

    def __init__(self, reason: str = "", *, code: str | None = None) -> None:
        super().__init__(reason, code=code)


class Snooze(Verdict):
    """Not now: the message comes again after ``delay`` seconds (0.1 at least). This spends no attempt."""

    status = "snooze"

    def __init__(self, delay: float | timedelta | None = None, reason: str = "", *, code: str | None = None) -> None:
        super().__init__(reason, delay=delay, code=code)


class Skip(Verdict):
    """The function did not try the message. It comes again, and nothing is counted."""

    status = "skipped"


class Cancelled(Exception):
    """The delivery was cancelled: inboxd does not wait for its answer any more."""


class ClaimLost(Exception):
    """The claim of the delivery is lost (SQLSTATE IB001). The transaction must roll back, so let this exception pass."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = _LOST.search(message)
        self.claim = found[1] if found else None


@dataclass(frozen=True)
class Emit:
    """An event that inboxd publishes when it stores the verdict. Give a ``topic`` or an ``aggregate``, and a ``type``.

    ``data`` is a JSON value, or bytes. None is a tombstone. A Decimal, datetime, date or UUID, and any mapping, is written as
    JSON.
    """

    type: str
    topic: str | None = None
    aggregate: str | None = None
    key: str | None = None
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    source: str | None = None
    subject: str | None = None

    def members(self) -> dict[str, Any]:
        members = {name: value for name, value in vars(self).items() if value is not None}
        if not self.headers:
            members.pop("headers", None)
        if isinstance(self.data, (bytes, bytearray, memoryview)):
            members["data_base64"] = base64.b64encode(members.pop("data")).decode()
        return members


@dataclass(frozen=True)
class Done:
    """The message is processed, with a ``result`` to store in the row, and events to publish. A function returns it."""

    result: Any = None
    emit: Sequence[Emit] = ()


class Settled:
    """See SETTLED."""

    def __repr__(self) -> str:
        return "inboxd.SETTLED"


SETTLED = Settled()
"""A function returns this after it has called ``inbox.complete()`` by itself, in a transaction that has committed."""


class Answer(NamedTuple):
    """The members of an answer as JSON, and whether later messages of the key may be processed (done, dead or settled).

    ``short`` are the members to send if the line would be too long; None if they are never long.
    """

    members: str
    finished: bool
    short: str | None = None


DONE = Answer('"status":"done"', True)
SETTLED_ANSWER = Answer('"status":"settled"', True)
SKIPPED = Answer('"status":"skipped"', False)
_WITHOUT_RESULT = '"status":"done","result":{"inboxd":"result not stored: the answer of the batch is too long"}'


def to_json(value: Any) -> str:
    """ValueError or TypeError if it is not a JSON value."""
    text = _ENCODER.encode(value)
    return _NUMBER.sub(r"\1", text) if _MARK in text else text


_MARK = secrets.token_hex(16)  # the JSON encoder writes no number as a text of ours: it is marked, and gets its form at the end
_NUMBER = re.compile(f'"{_MARK}([^"]*)"')


def _as_json(value: Any) -> Any:
    """The values that the library or a driver gives, as JSON. A Decimal keeps its digits."""
    if isinstance(value, Decimal) and value.is_finite():
        return f"{_MARK}{value}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_as_json)


def answer_to(returned: Any, completed: bool) -> Answer:
    """The answer for what a function has returned. An exception: it has returned no result, or its events cannot be emitted."""
    if returned is None:
        return SETTLED_ANSWER if completed else DONE
    error = error_in(returned)
    if isinstance(error, Verdict):
        return _answer_with(error)
    if error is not None:
        raise error
    if completed and isinstance(returned, Done) and returned.emit:
        raise ValueError("the events of Done are lost, because the message is completed: give them to complete(…, emit=…)")
    if completed or returned is SETTLED:
        return SETTLED_ANSWER
    done = returned if isinstance(returned, Done) else Done(returned)
    members = DONE.members
    if done.result is not None:
        members += ',"result":' + _result(done.result)
    if done.emit:
        events = to_json([event.members() for event in done.emit])
        if len(events) > _EMIT_MAX:
            raise ValueError(f"the events to publish have {len(events)} bytes, more than {_EMIT_MAX}")
        members += ',"emit":' + events
    # Without its events the message would not be done. It comes again, perhaps in a smaller batch.
    return Answer(members, True, SKIPPED.members if done.emit else _WITHOUT_RESULT)


def error_in(returned: Any) -> Exception | None:
    """The verdict, the exception or the mistake that a function has returned; None if it is a result.

    As a result, each of them would be dropped without a word, and the message would be done.
    """
    if isinstance(returned, Exception):
        return returned
    if isinstance(returned, type) and issubclass(returned, BaseException):
        return returned() if issubclass(returned, Verdict) else TypeError(f"the function has returned the class {returned!r}")
    if isinstance(returned, BaseException):
        return TypeError(f"the function has returned {returned!r}: raise it")
    several = returned if isinstance(returned, (list, tuple)) else (returned,)
    if any(isinstance(one, Emit) for one in several):
        return TypeError("the function has returned an event without Done: return Done(emit=[…])")
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        return TypeError("the verdict is a coroutine that was not awaited")
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        return TypeError("the function has returned a generator, which nobody runs: a function returns its result")
    return None


def answer_to_error(error: BaseException) -> Answer:
    """The answer for an exception: a verdict, a failure that the message did not cause, or a retry."""
    meant = meaning(error)
    if isinstance(meant, Verdict):
        return _answer_with(meant)
    if meant is not None:
        # The answer does not matter any more. This one makes inboxd look at the row at once.
        return Answer(SETTLED_ANSWER.members, False)
    away = _away(error)
    if away is not None:
        return _answer_with(Snooze(_AWAY_DELAY, describe(error), code=_own_sqlstate(away)))
    return _answer_with(Retry(describe(error), code=sqlstate(error) or type(error).__name__))


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it wraps: the members of a group, the error of the driver in one of SQLAlchemy, the cause."""
    found: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting and len(found) < _MOST_CAUSES:
        one = waiting.pop()
        if isinstance(one, BaseException) and not any(one is other for other in found):
            found.append(one)
            members = getattr(one, "exceptions", ())  # of an ExceptionGroup
            inner = reversed(members) if isinstance(members, (list, tuple)) else ()
            waiting += [one.__cause__, getattr(one, "orig", None), *inner]
    return found


def meaning(error: BaseException) -> Verdict | ClaimLost | None:
    """The verdict or the lost claim that an exception is, or wraps. The outermost one counts."""
    for one in causes(error):
        if isinstance(one, (Verdict, ClaimLost)):
            return one
        if _own_sqlstate(one) == CLAIM_LOST:
            return ClaimLost(str(one))
    return None


def describe(error: BaseException) -> str:
    """Type and text, also if the text cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of an error of a driver, also of one that it wraps."""
    return next(filter(None, map(_own_sqlstate, causes(error))), None)


def _own_sqlstate(error: BaseException) -> str | None:
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)  # psycopg2 has the latter
    return code if isinstance(code, str) else None


def is_away(error: BaseException) -> bool:
    """True if the database caused the failure, not the message: such an attempt is not counted."""
    return _away(error) is not None


def _away(error: BaseException) -> BaseException | None:
    """The error that says so."""
    return next(filter(_says_away, causes(error)), None)


def _says_away(error: BaseException) -> bool:
    code = _own_sqlstate(error)
    if code is not None:
        return code.startswith(_AWAY)
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(error).__mro__}
    if bases & _AWAY_ERRORS or (bases & _CLOSED_ERRORS and _CLOSED.search(str(error))):
        return True
    if type(error).__name__ == "DatabaseError" and type(error).__module__ == "psycopg2":
        return True  # libpq lost the connection: an error of the server has a SQLSTATE and a class of its own
    return isinstance(error, (OSError, TimeoutError, asyncio.TimeoutError)) and _passed_through(error, "asyncpg")


def _passed_through(error: BaseException, package: str) -> bool:
    frame = error.__traceback__
    while frame is not None:
        if str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return True
        frame = frame.tb_next
    return False


def _answer_with(verdict: Verdict) -> Answer:
    members: dict[str, Any] = {"status": verdict.status}
    if verdict.delay is not None and verdict.status != "skipped":
        members["delay_ms"] = max(round(verdict.delay * 1000), 0)
    if verdict.reason:
        members["reason"] = verdict.reason[:_REASON_MAX]
    if verdict.code:
        members["code"] = verdict.code[:_CODE_MAX]
    return Answer(to_json(members)[1:-1], verdict.status == "dead")


def _result(value: Any) -> str:
    """The result as JSON. One that is not JSON does not change the verdict, because the work is done."""
    try:
        text = to_json(value)
        if len(text) <= _RESULT_MAX:
            return text
        why = f"{len(text)} bytes"
    except Exception as error:  # a value may have methods of its own
        why = describe(error)
    log.warning("a result is not stored: %s", why)
    return to_json({"inboxd": f"result not stored: {why}"})
