"""The middleware of :mod:`inboxd.idempotency` for ASGI, with psycopg 3 or asyncpg."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

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
    failed,
    headers_of,
    key_of,
    too_large,
    verdict_of,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class IdempotencyMiddleware:
    """``IdempotencyMiddleware(app, pool.connection)`` with psycopg_pool, ``pool.acquire`` with asyncpg."""

    def __init__(self, app: App, connect: Callable[[], AbstractAsyncContextManager[Any]], rules: Rules | None = None) -> None:
        self.app = app
        self.connect = connect
        self.rules = rules or Rules()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self.rules.methods:
            await self.app(scope, receive, send)
            return
        try:
            response = await self._run(scope, receive, place := Place())
        except Undo as undo:
            response = undo.response
        except Exception as error:
            if not place.is_ours:
                raise
            response = failed(error)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers_of(response)]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _run(self, scope: Message, receive: Receive, place: Place) -> Response:
        key = key_of([value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"], self.rules)
        body = await self._body(receive)
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        values = begin_values(key or "", scope["method"], path, query, body, self.rules.scope(scope), self.rules)
        place.is_ours = True
        async with self.connect() as connection, connection.transaction():
            if key is None:
                response = await self._answer(scope, receive, connection, body, place)
                await _fetch(connection, ALIVE, [])
                return response
            token, expiry = verdict_of(await _fetch(connection, BEGIN, values))
            response = await self._answer(scope, receive, connection, body, place)
            await _fetch(connection, COMPLETE, complete_values(token, response))
            response.headers.append(expiry)
        return response

    async def _body(self, receive: Receive) -> bytes:
        body: bytes = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Undo(Response(499, [], b""))
            body += message.get("body", b"")
            if len(body) > self.rules.max_body:
                raise Undo(too_large(self.rules))
            if not message.get("more_body"):
                return body

    async def _answer(self, scope: Message, receive: Receive, connection: Any, body: bytes, place: Place) -> Response:
        """Runs the program; it gets the body, and its response is kept back until the COMMIT."""
        response = Response(500, [], b"")
        complete = False
        length = 0
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return unread.pop() if unread else await receive()

        async def write(message: Message) -> None:
            nonlocal complete, length
            if message["type"] == "http.response.start":
                response.status = message["status"]
                response.headers = [
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())
                ]
            elif message["type"] == "http.response.body":
                part = message.get("body", b"")
                length += len(part)
                if length <= MAX_RESPONSE:
                    response.body += part
                complete = not message.get("more_body")

        # without the extensions of the response, such as http.response.pathsend, all of it comes here
        extensions = {n: e for n, e in (scope.get("extensions") or {}).items() if not n.startswith("http.response.")}
        place.is_ours = False
        await self.app({**scope, "extensions": extensions, "inboxd.connection": connection}, read, write)
        place.is_ours = True
        if not complete:  # as when the client has gone while the response was made
            raise Undo(Response(500, [], b""))
        check_size(length)
        if response.status >= 500:
            raise Undo(response)
        return response


async def _fetch(connection: Any, query: str, values: list[Any]) -> Any:
    if type(connection).__module__.partition(".")[0] == "asyncpg":
        return await connection.fetchrow(query.format(*[f"${number}" for number in range(1, len(values) + 1)]), *values)
    cursor = await connection.execute(query.format(*["%s"] * len(values)), values)
    return await cursor.fetchone()
