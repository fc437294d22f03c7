"""An API that makes orders. A client may send each POST again with the same Idempotency-Key: the order and its event are made
once, and all copies get the same response.

Needs psycopg_pool and uvicorn; the PG variables name the database. Run: uvicorn idempotent_asgi:app
"""

import json

import psycopg_pool
from inboxd.asgi import IdempotencyMiddleware
from inboxd.idempotency import Rules

pool = psycopg_pool.AsyncConnectionPool("", open=False)


async def orders(scope, receive, send):
    order = json.loads((await receive())["body"])
    connection = scope["inboxd.connection"]  # its transaction has the key, and commits after this function
    row = await connection.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", [order["item"]])
    (number,) = await row.fetchone()
    event = json.dumps({"id": number, "item": order["item"]})
    await connection.execute("SELECT inbox.emit('orders', %s::text, 'order.created', %s::jsonb)", [number, event])
    headers = [(b"content-type", b"application/json"), (b"location", f"/orders/{number}".encode())]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"id": number}).encode()})


def tenant(scope):
    """Whose key it is. A real service takes it from the login, never from a header that the client can choose."""
    return "demo"


with_keys = IdempotencyMiddleware(orders, pool.connection, Rules(scope=tenant))


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await pool.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await pool.close()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await with_keys(scope, receive, send)
