"""The middleware of :mod:`inboxd.idempotency` for ASGI with asyncio, for psycopg 3, asyncpg or SQLAlchemy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from ._database import fetch, transaction_of
from .idempotency import BEGIN, COMPLETE, Busy, Exchange, Response, Rules, Undo, headers_of, log

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class IdempotencyMiddleware:
    """``IdempotencyMiddleware(app, pool.connection)`` with psycopg_pool, ``pool.acquire`` with asyncpg, ``Session.begin`` with
    an ``async_sessionmaker`` of SQLAlchemy.
    """

    def __init__(self, app: App, connect: Callable[[], AbstractAsyncContextManager[Any]], rules: Rules | None = None) -> None:
        self.app = app
        self.connect = connect
        self.rules = rules or Rules()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self.rules.methods:
            await self.app(scope, receive, send)
            return
        exchange = Exchange(self.rules)
        try:
            response = await self._run(exchange, scope, receive)
        except Exception as error:
            response = exchange.answer_to(error)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers_of(response)]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _run(self, exchange: Exchange, scope: Message, receive: Receive) -> Response:
        body = await _body(exchange, receive)

        def header(wanted: str) -> str | None:
            values = [value.decode("latin-1") for name, value in scope["headers"] if name == wanted.encode()]
            return ", ".join(values) if values else None

        target = (scope.get("raw_path") or scope["path"].encode()) + (
            b"?" + scope["query_string"] if scope["query_string"] else b""
        )
        values = exchange.begin_values(header, scope["method"], target.decode("latin-1"), body, scope)
        for pause in exchange.pauses():
            try:
                return await self._attempt(exchange, values, scope, receive, body)
            except Busy:
                await asyncio.sleep(pause)
        return await self._attempt(exchange, values, scope, receive, body)

    async def _attempt(self, exchange: Exchange, values: list[Any], scope: Message, receive: Receive, body: bytes) -> Response:
        async with self.connect() as connection, transaction_of(connection, "the middleware"):
            exchange.begun(await fetch(connection, BEGIN, values, "http_request_begin"))
            exchange.in_program = True
            await self._call(exchange, {**scope, "inboxd.connection": connection}, receive, body)
            exchange.in_program = False
            return exchange.completed(await fetch(connection, COMPLETE, exchange.complete_values(), "http_request_complete"))

    async def _call(self, exchange: Exchange, scope: Message, receive: Receive, body: bytes) -> None:
        """Runs the program: it gets the body, and its response is kept."""
        complete = False
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return unread.pop() if unread else await asyncio.shield(gone)

        async def write(message: Message) -> None:
            nonlocal complete
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                exchange.headers = [
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())
                ]
            elif message["type"] == "http.response.body":
                exchange.write(message.get("body", b""))
                complete = not message.get("more_body")

        # without the extensions of the response, such as http.response.pathsend, all of it comes here
        extensions = {n: e for n, e in (scope.get("extensions") or {}).items() if not n.startswith("http.response.")}
        gone = asyncio.ensure_future(receive())  # the body is read, so the next message says that the client has gone
        # the copies that get the stored response may accept another encoding
        headers = [header for header in scope["headers"] if header[0] != b"accept-encoding"] + [
            (b"accept-encoding", b"identity")
        ]
        program = asyncio.ensure_future(self.app({**scope, "headers": headers, "extensions": extensions}, read, write))
        try:
            await asyncio.wait((program, gone), return_when=asyncio.FIRST_COMPLETED)
            is_gone = gone.done() and gone.result()["type"] == "http.disconnect"
            await asyncio.wait((program,), timeout=self.rules.abandon_after.total_seconds() if is_gone else None)
            if program.done():
                program.result()
        finally:  # the program uses the connection until it has ended
            was_abandoned = program.cancel()
            gone.cancel()
            await asyncio.wait((program, gone))
        if was_abandoned:
            log.error("the client has gone, and the request did not end; nothing is committed")
        if not complete:  # as when the client has gone while the response was made
            raise Undo(Response(500, [], b""))


async def _body(exchange: Exchange, receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Undo(Response(499, [], b""))
        body += message.get("body", b"")
        exchange.check_body(len(body))
        if not message.get("more_body"):
            return body
