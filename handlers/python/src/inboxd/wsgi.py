"""The middleware of :mod:`inboxd.idempotency` for WSGI, with psycopg 3, SQLAlchemy or Django."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from ._database import fetch, transaction_of
from .idempotency import BEGIN, COMPLETE, Busy, Exchange, Response, Rules, Undo, headers_of, problem

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Callable[[bytes], object]]], Iterable[bytes]]


class IdempotencyMiddleware:
    """``IdempotencyMiddleware(app, pool.connection)`` with psycopg_pool, ``Session.begin`` with a ``sessionmaker``,
    ``inboxd.django.begin`` with Django.
    """

    def __init__(self, app: App, connect: Callable[[], AbstractContextManager[Any]], rules: Rules | None = None) -> None:
        self.app = app
        self.connect = connect
        self.rules = rules or Rules()

    def __call__(self, environ: Environ, start_response: Callable[..., Callable[[bytes], object]]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in self.rules.methods:
            return self.app(environ, start_response)
        exchange = Exchange(self.rules)
        try:
            response = self._run(exchange, environ)
        except Exception as error:
            response = exchange.answer_to(error)
        reason = HTTPStatus(response.status).phrase if response.status in HTTPStatus._value2member_map_ else "Unknown"
        start_response(f"{response.status} {reason}", headers_of(response))
        return [response.body]

    def _run(self, exchange: Exchange, environ: Environ) -> Response:
        body = _body(exchange, environ)
        path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"), safe="/:@!$&'()*+,;=~")
        target = path + ("?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else "")

        def header(name: str) -> str | None:
            return environ.get("CONTENT_TYPE" if name == "content-type" else "HTTP_" + name.upper().replace("-", "_"))

        values = exchange.begin_values(header, environ["REQUEST_METHOD"], target, body, environ)
        for pause in exchange.pauses():
            try:
                return self._attempt(exchange, values, environ, body)
            except Busy:
                time.sleep(pause)
        return self._attempt(exchange, values, environ, body)

    def _attempt(self, exchange: Exchange, values: list[Any], environ: Environ, body: bytes) -> Response:
        with self.connect() as connection, transaction_of(connection, "the middleware"):
            exchange.begun(fetch(connection, BEGIN, values, "http_request_begin"))
            exchange.in_program = True
            self._call(exchange, {**environ, "inboxd.connection": connection}, body)
            exchange.in_program = False
            return exchange.completed(fetch(connection, COMPLETE, exchange.complete_values(), "http_request_complete"))

    def _call(self, exchange: Exchange, environ: Environ, body: bytes) -> None:
        """Runs the program: it gets the body, and its response is kept."""

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            exchange.status, exchange.headers = int(status.split()[0]), list(headers)
            return exchange.write

        # the copies that get the stored response may accept another encoding
        inner = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "HTTP_ACCEPT_ENCODING": "identity"}
        parts = self.app({**environ, **inner}, start)
        try:
            for part in parts:
                exchange.write(part)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        if exchange.status == 0:
            raise RuntimeError("the program has not called start_response()")


def _body(exchange: Exchange, environ: Environ) -> bytes:
    announced = int(environ.get("CONTENT_LENGTH") or 0)
    exchange.check_body(announced)
    # the server ends the input where the body ends, or does not; a filter may have decoded the body, or read it
    terminated = environ.get("wsgi.input_terminated")
    if environ.get("HTTP_TRANSFER_ENCODING") and not terminated and not environ.get("CONTENT_LENGTH"):
        raise Undo(problem(415, "request-unread", "the server does not say where a chunked body ends; send a content-length"))
    body: bytes = environ["wsgi.input"].read(exchange.rules.max_body + 1 if terminated else announced)
    exchange.check_body(len(body))
    if announced and not body:
        raise Undo(
            problem(415, "request-unread", "the body was read before, so the server cannot compare the copies of the request")
        )
    if len(body) < announced and not environ.get("HTTP_CONTENT_ENCODING"):
        raise Undo(problem(400, "request-incomplete", "the client has gone before it had sent the whole body"))
    return body
