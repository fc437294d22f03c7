"""The handler of tests/bench/languages.py of the repository: handler.py noop|least|once BATCH.

noop answers at once. least has an effect in a transaction of its own, and then answers done. once completes the message in
the transaction of its effect.
"""

import sys

import inboxd
import psycopg_pool

kind, size = sys.argv[1], int(sys.argv[2])
INSERT = "INSERT INTO effects (order_id, customer) VALUES (%s, %s)"
INSERT_ALL = "INSERT INTO effects (order_id, customer) SELECT * FROM unnest(%s::bigint[], %s::text[])"

pool = psycopg_pool.ConnectionPool(min_size=0 if kind == "noop" else 4, max_size=4, open=True)
handler = inboxd.Handler(
    "bench", workers=4, max_in_flight=1000 if kind == "noop" else 200, batch=size, batch_wait=0.005 if size > 1 else 0
)


def one(delivery):
    order = delivery.event.data
    with pool.connection() as connection:
        connection.execute(INSERT, (order["order"], order["customer"]))
        if kind == "once":
            delivery.complete(connection)


def many(batch):
    orders = [delivery.event.data for delivery in batch]
    with pool.connection() as connection:
        connection.execute(INSERT_ALL, ([order["order"] for order in orders], [order["customer"] for order in orders]))
        if kind == "once":
            batch.complete(connection)


async def nothing(delivery):
    pass


if kind == "noop":
    handler.on()(nothing)
elif size == 1:
    handler.on()(one)
else:
    handler.on_batch()(many)
handler.run()
pool.close()
