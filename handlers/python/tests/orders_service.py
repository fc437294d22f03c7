"""A service with idempotency keys for tests/languages of inboxd: orders_service.py SERVICE PORT. SERVICE is asgi-psycopg,
asgi-asyncpg, asgi-sqlalchemy, wsgi or wsgi-django.

POST /orders makes an order, as its JSON says: `id`, `status`, and `then`: raise, wait, hide an error of PostgreSQL, break the
response off, or what the response is like. The tenant `nobody` has no scope. KEY_REQUIRED=no: requests need no key.
"""

import asyncio
import contextlib
import gzip
import json
import os
import sys
import time

import inboxd
import sqlalchemy
from inboxd.idempotency import Rules
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

INSERT = "INSERT INTO orders (id, tenant) VALUES ({0}, {1})"
EMIT = "SELECT inbox.emit('orders', {0}::text, 'order.created', '{{}}'::jsonb)"
WRONG = "SELECT 1 / 0"
HTML = gzip.compress(b"\0" * 100, mtime=0) + b"\0\xff"


def rules_for(tenant_of):
    """tenant_of(request) -> the header x-tenant"""

    def scope(request):
        tenant = tenant_of(request)
        return None if tenant == "nobody" else tenant

    return Rules(scope=scope, max_body=100_000, required=os.environ.get("KEY_REQUIRED") != "no")


def respond(order):
    """(status, headers, body)"""
    if order.get("then") == "raise":
        raise RuntimeError("as the test wants it")
    if order.get("then") == "bytes":
        return 200, [("content-type", "text/html"), ("content-encoding", "x-test"), ("vary", "a"), ("vary", "b")], HTML
    if order.get("then") == "large":
        return 201, [], bytes((1 << 20) + 1)
    if order.get("then") == "nothing":
        return 204, [], b""
    headers = [("content-type", "application/json"), ("location", f"/orders/{order['id']}"), ("set-cookie", "a=b")]
    return order.get("status", 201), headers, json.dumps({"id": order["id"], "made": time.time_ns()}).encode()


def asgi(driver, port):
    import uvicorn
    from inboxd.asgi import IdempotencyMiddleware

    async def orders(scope, receive, send):
        if scope["type"] != "http" or scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"yes" if "inboxd.connection" in scope else b"no"})
            return
        order, wrong = json.loads((await receive())["body"]), WRONG
        connection = scope["inboxd.connection"]
        tenant = dict(scope["headers"]).get(b"x-tenant", b"").decode()
        if driver == "sqlalchemy":
            wrong = sqlalchemy.text(WRONG)
            insert = sqlalchemy.text(INSERT.format(":id", ":tenant"))
            await connection.execute(insert, {"id": order["id"], "tenant": tenant})
            await inboxd.emit(connection, inboxd.Emit("order.created", topic="orders", key=str(order["id"]), data={}))
        elif driver == "asyncpg":
            await connection.execute(INSERT.format("$1", "$2"), order["id"], tenant)
            await connection.execute(EMIT.format("$1"), str(order["id"]))
        else:
            await connection.execute(INSERT.format("%s", "%s"), [order["id"], tenant])
            await connection.execute(EMIT.format("%s"), [str(order["id"])])
        if order.get("then") == "wait":
            await asyncio.sleep(3600)
        if order.get("then") == "slow":
            await asyncio.sleep(order["ms"] / 1000)
        if order.get("then") == "hide":
            with contextlib.suppress(Exception):
                await connection.execute(wrong)
        if order.get("then") == "breaks":
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            return
        status, headers, body = respond(order)
        await send({"type": "http.response.start", "status": status, "headers": [(n.encode(), v.encode()) for n, v in headers]})
        await send({"type": "http.response.body", "body": body[:5], "more_body": True})
        await send({"type": "http.response.body", "body": body[5:]})

    opened = []

    async def program(scope, receive, send):
        if not opened:
            if driver == "sqlalchemy":
                opened.append(create_async_engine("postgresql+asyncpg://", pool_size=20))
                opened.append(async_sessionmaker(opened[0]).begin)
            elif driver == "asyncpg":
                import asyncpg

                opened.append(await asyncpg.create_pool(min_size=0, max_size=20))
                opened.append(opened[0].acquire)
            else:
                import psycopg_pool

                opened.append(psycopg_pool.AsyncConnectionPool("", min_size=0, max_size=20, open=False))
                await opened[0].open()
                opened.append(opened[0].connection)
        rules = rules_for(lambda scope: dict(scope["headers"]).get(b"x-tenant", b"").decode())
        await IdempotencyMiddleware(orders, opened[1], rules)(scope, receive, send)

    uvicorn.run(program, host="127.0.0.1", port=port, lifespan="off", log_level="warning")


def wsgi(driver, port):
    import psycopg_pool
    from gunicorn.app.base import BaseApplication
    from inboxd.wsgi import IdempotencyMiddleware

    def orders(environ, start_response):
        if environ["REQUEST_METHOD"] == "GET":
            start_response("200 OK", [])
            return [b"yes" if "inboxd.connection" in environ else b"no"]
        order = json.loads(environ["wsgi.input"].read())
        connection = environ["inboxd.connection"]
        if driver == "django":
            connection = connection.cursor()
        connection.execute(INSERT.format("%s", "%s"), [order["id"], environ.get("HTTP_X_TENANT", "")])
        connection.execute(EMIT.format("%s"), [str(order["id"])])
        if order.get("then") == "wait":
            time.sleep(3600)
        if order.get("then") == "slow":
            time.sleep(order["ms"] / 1000)
        if order.get("then") == "hide":
            with contextlib.suppress(Exception):
                connection.execute(WRONG)
        if order.get("then") == "breaks":
            start_response("201 Any", [])(b"one")
            raise RuntimeError("as the test wants it")
        status, headers, body = respond(order)
        start_response(f"{status} Any", headers)(body[:5])
        return [body[5:]]

    class Server(BaseApplication):
        def load_config(self):
            for name, value in {
                "bind": f"127.0.0.1:{port}",
                "threads": 20,
                "worker_class": "gthread",
                "loglevel": "warning",
            }.items():
                self.cfg.set(name, value)

        def load(self):
            if driver == "django":
                from django.conf import settings

                database = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "CONN_MAX_AGE": None}
                settings.configure(DATABASES={"default": database})
                from inboxd.django import begin as connect
            else:
                connect = psycopg_pool.ConnectionPool("", min_size=0, max_size=20, open=True).connection
            return IdempotencyMiddleware(orders, connect, rules_for(lambda environ: environ.get("HTTP_X_TENANT", "")))

    Server().run()


if __name__ == "__main__":
    os.environ.setdefault("PGAPPNAME", "orders")
    kind, _, driver = sys.argv[1].partition("-")
    (wsgi if kind == "wsgi" else asgi)(driver, int(sys.argv[2]))
