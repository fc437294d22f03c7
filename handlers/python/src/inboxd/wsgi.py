"""The middleware of :mod:`inboxd.idempotency` for WSGI, with psycopg 3."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from .idempotency import (
    ALIVE,
    BEGIN,
    COMPLETE,
    MAX_RESPONSE,
    Place,
    Response,
    Rules,
    Undo,
    begin_values,
    check_size,
    complete_values,
    cut_off,
    failed,
    headers_of,
    key_of,
    too_large,
    verdict_of,
)

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Callable[[bytes], object]]], Iterable[bytes]]


class IdempotencyMiddleware:
    """``IdempotencyMiddleware(app, pool.connection)``, with psycopg_pool."""

    def __init__(self, app: App, connect: Callable[[], AbstractContextManager[Any]], rules: Rules | None = None) -> None:
        self.app = app
        self.connect = connect
        self.rules = rules or Rules()

    def __call__(self, environ: Environ, start_response: Callable[..., Callable[[bytes], object]]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in self.rules.methods:
            return self.app(environ, start_response)
        try:
            response = self._run(environ, place := Place())
        except Undo as undo:
            response = undo.response
        except Exception as error:
            if not place.is_ours:
                raise
            response = failed(error)
        reason = HTTPStatus(response.status).phrase if response.status in HTTPStatus._value2member_map_ else "Unknown"
        start_response(f"{response.status} {reason}", headers_of(response))
        return [response.body]

    def _run(self, environ: Environ, place: Place) -> Response:
        header = environ.get("HTTP_IDEMPOTENCY_KEY")
        key = key_of([] if header is None else [header], self.rules)
        body = self._body(environ)
        path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"), safe="/:@!$&'()*+,;=~")
        query = environ.get("QUERY_STRING", "")
        values = begin_values(key or "", environ["REQUEST_METHOD"], path, query, body, self.rules.scope(environ), self.rules)
        place.is_ours = True
        with self.connect() as connection, connection.transaction():
            if key is None:
                response = self._answer(environ, connection, body, place)
                _fetch(connection, ALIVE, [])
                return response
            token, expiry = verdict_of(_fetch(connection, BEGIN, values))
            response = self._answer(environ, connection, body, place)
            _fetch(connection, COMPLETE, complete_values(token, response))
            response.headers.append(expiry)
        return response

    def _body(self, environ: Environ) -> bytes:
        length = environ.get("CONTENT_LENGTH") or (self.rules.max_body + 1 if environ.get("wsgi.input_terminated") else 0)
        if int(length) > self.rules.max_body and environ.get("CONTENT_LENGTH"):
            raise Undo(too_large(self.rules))
        body: bytes = environ["wsgi.input"].read(int(length))
        if len(body) > self.rules.max_body:
            raise Undo(too_large(self.rules))
        if len(body) < int(environ.get("CONTENT_LENGTH") or 0):
            raise Undo(cut_off())
        return body

    def _answer(self, environ: Environ, connection: Any, body: bytes, place: Place) -> Response:
        """Runs the program; it gets the body, and its response is kept back until the COMMIT."""
        response = Response(500, [], b"")
        written: list[bytes] = []
        length = 0

        def write(part: bytes) -> None:
            nonlocal length
            length += len(part)
            if length <= MAX_RESPONSE:
                written.append(part)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            response.status, response.headers = int(status.split()[0]), list(headers)
            return write

        inner = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "inboxd.connection": connection}
        place.is_ours = False
        parts = self.app(inner, start)
        try:
            for part in parts:
                write(part)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        place.is_ours = True
        check_size(length)
        response.body = b"".join(written)
        if response.status >= 500:
            raise Undo(response)
        return response


def _fetch(connection: Any, query: str, values: list[Any]) -> Any:
    return connection.execute(query.format(*["%s"] * len(values)), values).fetchone()
