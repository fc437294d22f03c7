"""Idempotency keys of HTTP requests: what the middlewares of inboxd.asgi and inboxd.wsgi have in common.

A request runs in a transaction, which the program finds as ``"inboxd.connection"`` in its scope or environ. The effects, the
key and the response commit together, before the client gets the response, and all copies of the request get this response. The
database has the rules: docs/idempotency-keys.md.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import Message
from http import HTTPStatus
from typing import Any

from ._verdicts import causes, sqlstate

MAX_RESPONSE = 1 << 20  # bytes; the database stores no larger one
# The settings are the trace of the events that the request emits.
BEGIN = (
    "SELECT b.*, set_config('inboxd.traceparent', {}::text, true), set_config('inboxd.tracestate', {}::text, true) FROM ("
    "SELECT verdict, token, status, headers::text, body FROM inbox.http_request_begin("
    "{}::text, {}::text, {}::text, {}::bytea, {}::text, {}::interval, {}::boolean)) b"
)
COMPLETE = "SELECT commits, expires FROM inbox.http_request_complete({}::text, {}::int, {}::text::jsonb, {}::bytea)"
# Errors of drivers and pools without a SQLSTATE, and the SQLSTATEs, of a database that is away or busy.
_AWAY = {"OperationalError", "InterfaceError", "OSError", "TimeoutError", "PoolError"}
_AWAY_STATE = re.compile("08|25006|40|53|55006|55P03|57")
_FIRST_LOOK = 0.01  # seconds
log = logging.getLogger("inboxd")


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Rules:
    """The rules of the middleware.

    ``scope`` gets the scope or environ of a request, and returns whose key it is: the tenant, as the server knows it.
    ``fingerprint`` gets the same and the body, and returns what is compared in place of the body. None: the body, without the
    boundary between the parts of a form, which can be another one in each copy. ``wait`` is how long a copy waits while another
    one runs, before it gets 409. ``abandon_after`` is how long a request may go on after its client has gone (ASGI).
    """

    scope: Callable[[Any], str] = lambda _: ""
    required: bool = True
    methods: frozenset[str] = field(default=frozenset({"POST", "PATCH"}))
    keep: timedelta = timedelta(hours=24)
    max_body: int = 1 << 20
    fingerprint: Callable[[Any, bytes], bytes | str] | None = None
    wait: timedelta = timedelta(milliseconds=250)
    abandon_after: timedelta = timedelta(seconds=10)


class Undo(Exception):
    """Rolls the transaction back, and answers with the response."""

    def __init__(self, response: Response) -> None:
        self.response = response


class Busy(Undo):
    """Another copy runs."""


def problem(status: int, kind: str, detail: str, *headers: tuple[str, str]) -> Response:
    body = json.dumps({"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}).encode()
    return Response(status, [("content-type", "application/problem+json"), *headers], body)


class Exchange:
    """One request and the response of the program. Errors that are raised while the program runs are its own."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.in_program = False
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.written: list[bytes] = []
        self.length = 0
        self._token: str | None = None

    def check_body(self, length: int) -> None:
        if length > self.rules.max_body:
            detail = f"the body of a request with a key has at most {self.rules.max_body} bytes"
            raise Undo(problem(413, "request-too-large", detail))

    def begin_values(
        self, headers: Callable[[str], str | None], method: str, target: str, body: bytes, scope: Any
    ) -> list[Any]:
        """``headers`` returns the value of a header."""
        if self.rules.fingerprint is None:
            compared: bytes | str = _without_boundary(headers("content-type") or "", body)
        else:
            compared = self.rules.fingerprint(scope, body)
        content = compared.encode() if isinstance(compared, str) else bytes(compared)
        rules = self.rules.scope(scope), self.rules.keep, self.rules.required
        trace = headers("traceparent"), headers("tracestate")
        return [*trace, headers("idempotency-key"), method, target, content, *rules]

    def pauses(self) -> Iterator[float]:
        """The times in seconds that a busy copy waits before each look. It holds no connection meanwhile."""
        look, left = _FIRST_LOOK, self.rules.wait.total_seconds()
        while left > 0:
            yield min(look, left)
            look, left = 2 * look, left - look

    def begun(self, row: Any) -> None:
        """Undo: this copy does not run."""
        verdict, self._token, status, headers, body, *_ = row.values() if hasattr(row, "values") else row
        if status is not None:
            response = Response(status, list(json.loads(headers).items()), bytes(body))
            raise Busy(response) if verdict == "busy" else Undo(response)

    def write(self, part: bytes) -> None:
        """Keeps a part of the response until the COMMIT."""
        self.length += len(part)
        if self.length > MAX_RESPONSE:
            raise Undo(self._invalid())
        self.written.append(part)

    def complete_values(self) -> list[Any]:
        if self.length > MAX_RESPONSE or self.status >= 500:
            raise Undo(self._response())
        headers: dict[str, list[str]] = {}
        for name, value in self.headers:
            headers.setdefault(name.lower(), []).append(value)
        return [self._token, self.status, json.dumps(headers), b"".join(self.written)]

    def completed(self, row: Any) -> Response:
        commits, expires = row.values() if hasattr(row, "values") else row
        if not commits:
            raise Undo(self._response())
        if expires is not None:
            self.headers.append(("idempotency-expires", expires))
        return self._response()

    def answer_to(self, error: Exception) -> Response:
        """The response if the request has no result. An error of the program, or in it, is raised again."""
        if self.length > MAX_RESPONSE:
            log.error("the response has more than %d bytes, so it is not stored", MAX_RESPONSE)
            return self._invalid()
        if isinstance(error, Undo):
            return error.response
        state = sqlstate(error)
        kinds = {kind.__name__ for one in causes(error) for kind in type(one).__mro__}
        is_away = _AWAY_STATE.match(state) if state else kinds & _AWAY
        if self.in_program or not (state or is_away):
            raise error
        if state == "25P02" and self.status >= 400:  # a statement had failed, as the response says
            return self._response()
        log.error("the request has no result", exc_info=error)
        if is_away:  # nothing has happened, or nobody knows: the next copy of the request tells
            detail = "the request has no result; send it again with the same key"
            return problem(503, "database-away", detail, ("retry-after", "1"))
        return self._invalid()

    def _response(self) -> Response:
        return Response(self.status, self.headers, b"".join(self.written))

    def _invalid(self) -> Response:
        return problem(500, "response-invalid", "nothing has happened; the log of the service says why")


def headers_of(response: Response) -> list[tuple[str, str]]:
    """The headers to send. The body is here as a whole, so it has a length; responses without a body have none."""
    headers = [header for header in response.headers if header[0].lower() != "transfer-encoding"]
    if response.status not in (204, 304) and not any(name.lower() == "content-length" for name, _ in headers):
        headers.append(("content-length", str(len(response.body))))
    return headers


def _without_boundary(content_type: str, body: bytes) -> bytes:
    """The body without the boundary between the parts of a form."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if header.get_content_maintype() != "multipart" or not boundary:
        return body
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)
