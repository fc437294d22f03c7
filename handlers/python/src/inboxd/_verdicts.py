"""Verdicts: what a function says about a message, and how an exception becomes one."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

log = logging.getLogger("inboxd")

_REASON_MAX = 4096
_CODE_MAX = 64
_RESULT_MAX = 1 << 20  # inboxd stores no longer one
_EMIT_MAX = 8 << 20
_AWAY_DELAY = 1.0
CLAIM_LOST = "IB001"
# SQLSTATEs that the message has not caused: connection, standby, deadlock, no resources, a lock of others, shutdown.
_AWAY = ("08", "25006", "40", "53", "55006", "55P03", "57P")
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

    ``data`` is a JSON value, or bytes. None is a tombstone.
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
        members = {name: value for name, value in vars(self).items() if value is not None and value != {}}
        if isinstance(self.data, bytes):
            members["data_base64"] = base64.b64encode(members.pop("data")).decode()
        return members


@dataclass(frozen=True)
class Done:
    """The message is processed, with a ``result`` to store in the row, and events to publish. A function returns it."""

    result: Any = None
    emit: Sequence[Emit] = ()


class _Settled:
    """See SETTLED."""

    def __repr__(self) -> str:
        return "inboxd.SETTLED"


SETTLED = _Settled()
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
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def answer_to(returned: Any, completed: bool) -> Answer:
    """The answer for what a function has returned. ValueError or TypeError: its events cannot be emitted."""
    if isinstance(returned, Verdict):
        return _answer_with(returned)
    if completed and isinstance(returned, Done) and returned.emit:
        raise ValueError("the events of Done are lost, because the message is completed: give them to complete(…, emit=…)")
    if completed or returned is SETTLED:
        return SETTLED_ANSWER
    if returned is None:
        return DONE
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


def answer_to_error(error: Exception) -> Answer:
    """The answer for an exception: a verdict, a failure that the message did not cause, or a retry."""
    if isinstance(error, Verdict):
        return _answer_with(error)
    if isinstance(error, ClaimLost) or sqlstate(error) == CLAIM_LOST:
        # The answer does not matter any more. This one makes inboxd look at the row at once.
        return Answer(SETTLED_ANSWER.members, False)
    reason = f"{type(error).__name__}: {error}"
    if is_away(error):
        return _answer_with(Snooze(_AWAY_DELAY, reason, code=sqlstate(error)))
    return _answer_with(Retry(reason, code=sqlstate(error) or type(error).__name__))


def sqlstate(error: BaseException) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


def is_away(error: BaseException) -> bool:
    """True if the database caused the failure, not the message: such an attempt is not counted."""
    code = sqlstate(error)
    if code is not None:
        return code.startswith(_AWAY)
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(error).__mro__}
    if ("psycopg", "OperationalError") in bases or (("asyncpg", "InterfaceError") in bases and "closed" in str(error)):
        return True
    return isinstance(error, (OSError, TimeoutError)) and _passed_through(error, "asyncpg")


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
    except (TypeError, ValueError, RecursionError) as error:
        why = str(error)
    log.warning("a result is not stored: %s", why)
    return to_json({"inboxd": f"result not stored: {why}"})
