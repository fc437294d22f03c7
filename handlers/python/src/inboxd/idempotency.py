"""Idempotency keys of HTTP requests: what the middlewares of inboxd.asgi and inboxd.wsgi have in common.

A request runs in a transaction, which the program finds as ``"inboxd.connection"`` in its scope or environ. The effects, the
key and the response commit together, before the client gets the response. All copies of the request get this response. One of
500 or more, and those of NOT_STORED, roll back: the next copy runs again. docs/idempotency-keys.md has the rules.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

NOT_STORED = frozenset({401, 403, 408, 409, 425, 429})
_CONNECTION = ["connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"]
_CLIENT = ["date", "proxy-authenticate", "proxy-authorization", "set-cookie", "set-cookie2", "upgrade"]
_DROPPED = frozenset(_CONNECTION + _CLIENT)  # headers that belong to one connection or one client
BEGIN = (
    "SELECT verdict, token, status, headers::text, body, ceil(extract(epoch FROM retry_after))::int,"
    " extract(epoch FROM expires_at)::float8"
    " FROM inbox.request_begin({}::text, {}::bytea, {}::text, {}::text, keep => {}::interval)"
)
# Fails in a transaction in which a statement has failed and the program has hidden the error: its COMMIT would roll back.
ALIVE = "SELECT 1"
COMPLETE = "SELECT inbox.request_complete({}::text, {}::int, {}::bytea, {}::text::jsonb)"
_REFUSALS: dict[str, tuple[int, str, str]] = {
    "busy": (409, "request-outstanding", "a request with this key runs at this moment; send it again later"),
    "mismatch": (422, "key-reused", "this key was used for another request; use a new key for each request"),
    "lost": (409, "outcome-unknown", "nobody knows how far the request with this key came; ask the operator"),
}


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Rules:
    """``scope`` gets the scope or environ of a request, and returns whose key it is: the tenant, as the server knows it."""

    scope: Callable[[Any], str] = lambda _: ""
    required: bool = True
    methods: frozenset[str] = field(default=frozenset({"POST", "PATCH"}))
    keep: timedelta = timedelta(hours=24)
    max_body: int = 1 << 20


MAX_RESPONSE = 1 << 20  # bytes of the largest response that the database stores
_AWAY = re.compile("08|40|53|57|25006")  # SQLSTATE: unavailable or busy; the other errors are the service's
_log = logging.getLogger("inboxd")


class Undo(Exception):
    """Rolls the transaction back and answers with the response."""

    def __init__(self, response: Response) -> None:
        self.response = response


def _problem(status: int, kind: str, detail: str, *headers: tuple[str, str]) -> Response:
    body = json.dumps({"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}).encode()
    return Response(status, [("content-type", "application/problem+json"), *headers], body)


def key_of(values: list[str], rules: Rules) -> str | None:
    """The key: a string of RFC 8941, or a bare value, as most clients send it."""
    if not values and not rules.required:
        return None
    text = values[0].strip() if values else ""
    if re.fullmatch(r'"([ !#-\[\]-~]|\\["\\])*"', text):
        key = re.sub(r"\\(.)", r"\1", text[1:-1])
    else:
        key = text if re.fullmatch(r"[!#-+\--~]+", text) else ""
    if len(values) != 1 or not 1 <= len(key) <= 255:
        detail = "send the header Idempotency-Key once, with a text of 1 to 255 printable characters"
        raise Undo(_problem(400, "key-invalid" if values else "key-missing", detail))
    return key


def too_large(rules: Rules) -> Response:
    return _problem(413, "request-too-large", f"the body of a request with a key has at most {rules.max_body} bytes")


def cut_off() -> Response:
    return _problem(400, "request-incomplete", "the client has gone before it had sent the whole body")


class Place:
    """Whether the statements of the middleware run: their errors are answered here, and those of the program are not."""

    def __init__(self) -> None:
        self.is_ours = False


def failed(error: Exception) -> Response:
    """The database failed. Then nothing has happened, or nobody knows: the next copy of the request tells."""
    _log.error("the request has no result", exc_info=error)
    state = getattr(error, "sqlstate", None)
    if state is None or _AWAY.match(state):
        detail = "the request has no result; send it again with the same key"
        return _problem(503, "database-away", detail, ("retry-after", "1"))
    return _invalid()


def _invalid() -> Response:
    return _problem(500, "response-invalid", "the request had no effect; the log of the service has the reason")


def check_size(length: int) -> None:
    if length > MAX_RESPONSE:
        _log.error("the response has more than %d bytes, so it is not stored", MAX_RESPONSE)
        raise Undo(_invalid())


def headers_of(response: Response) -> list[tuple[str, str]]:
    """The headers to send. The body is here as a whole, so it has a length; responses without a body have none."""
    headers = [header for header in response.headers if header[0].lower() != "transfer-encoding"]
    if response.status not in (204, 304) and not any(name.lower() == "content-length" for name, _ in headers):
        headers.append(("content-length", str(len(response.body))))
    return headers


def begin_values(key: str, method: str, path: str, query: str, body: bytes, scope: str, rules: Rules) -> list[Any]:
    target = path + ("?" + query if query else "")
    digest = hashlib.sha256(f"{method} {target}\n".encode() + body).digest()
    return [key, digest, scope, f"{method} {path}".encode()[:128].decode(errors="ignore"), rules.keep]


def verdict_of(row: Any) -> tuple[str, tuple[str, str]]:
    """The token and the header with the time of expiry. Undo: this copy does not run."""
    verdict, token, status, headers, body, retry_after, expires = row.values() if hasattr(row, "values") else row
    expiry = ("idempotency-expires", formatdate(expires or 0, usegmt=True))
    if verdict == "replay":
        stored = list(json.loads(headers or "{}").items())
        raise Undo(Response(status, [*stored, expiry, ("idempotent-replayed", "true")], bytes(body or b"")))
    if verdict != "started":
        retry = [("retry-after", str(max(retry_after, 1)))] if retry_after is not None else []
        raise Undo(_problem(*_REFUSALS[verdict], *retry))
    return token, expiry


def complete_values(token: str, response: Response) -> list[Any]:
    """Undo: the response must not be stored."""
    if response.status >= 500 or response.status in NOT_STORED:
        raise Undo(response)
    stored: dict[str, str] = {}
    for name, value in response.headers:
        if name.lower() not in _DROPPED:
            stored[name.lower()] = f"{stored[name.lower()]}, {value}" if name.lower() in stored else value
    return [token, response.status, response.body, json.dumps(stored)]
