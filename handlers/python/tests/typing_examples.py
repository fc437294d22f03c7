"""What mypy must accept with --strict. It is not run."""

from typing import Any

import asyncpg
import inboxd
import psycopg

handler = inboxd.Handler("billing")


@handler.on("orders", ["order.created", "order.paid"])
def in_thread(delivery: inboxd.Delivery) -> dict[str, Any]:
    with psycopg.connect() as connection, connection.transaction(), connection.cursor() as cursor:
        delivery.complete(connection)
        delivery.complete(cursor, {"invoice": 1}, [inboxd.Emit("made", topic="invoices")])
    return {"order": delivery.event.data["order"]}


@handler.on(types="audit.*")
async def in_loop(delivery: inboxd.Delivery) -> None:
    async with await psycopg.AsyncConnection.connect() as connection:
        await delivery.complete(connection)
    async with asyncpg.create_pool() as pool, pool.acquire() as connected, connected.transaction():
        await delivery.complete(connected, {"invoice": 1})


@handler.on_batch("payments")
def together(batch: inboxd.Batch) -> None:
    for delivery in batch:
        delivery.set_verdict(inboxd.Retry(f"{delivery.event.key!r} is locked", delay=5))
    with psycopg.connect() as connection:
        batch.complete(connection, results=[None for _ in batch])
