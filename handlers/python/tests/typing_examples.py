"""What mypy must accept with --strict. It is not run."""

from dataclasses import dataclass
from typing import Any

import asyncpg
import inboxd
import psycopg
import psycopg_pool
from inboxd.django import atomic
from inboxd.sqlalchemy import transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

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


@dataclass
class Refund:
    cents: int


@handler.on("refunds", model=Refund)
async def typed(delivery: inboxd.Delivery[Refund]) -> inboxd.Done:
    cents: int = delivery.event.data.cents
    return inboxd.Done(cents, [inboxd.Emit("made", topic="invoices")])


@handler.on_batch("refunds", "refund.*", model=Refund)
async def typed_batch(batch: inboxd.Batch[Refund]) -> None:
    for delivery in batch:
        delivery.set_verdict(inboxd.Dead("no") if delivery.event.data.cents < 0 else None)


@handler.on("orders", "order.counted")
def repeats(delivery: inboxd.Delivery) -> int:
    def work(connection: psycopg.Connection[Any]) -> int:
        return connection.execute("SELECT 1").rowcount

    return delivery.transaction(psycopg_pool.ConnectionPool("").connection, work, isolation="serializable")


@handler.on_batch("payments")
def together(batch: inboxd.Batch) -> None:
    for delivery in batch:
        delivery.set_verdict(inboxd.Retry(f"{delivery.event.key!r} is locked", delay=5))
    with psycopg.connect() as connection:
        batch.complete(connection, results=[None for _ in batch])


@handler.on("orders", "order.shipped")
def with_frameworks(delivery: inboxd.Delivery) -> None:
    with transaction(sessionmaker(create_engine("postgresql+psycopg://")), delivery) as session:
        delivery.complete(session, {"invoice": 1})
        name: str = inboxd.emit(session, inboxd.Emit(session.info["type"]))
    with Session() as session, session.begin():
        delivery.complete(session.connection(), {"invoice": name})
    with atomic(delivery) as connection:
        delivery.complete(connection)


async def with_async_frameworks(delivery: inboxd.Delivery, engine: AsyncEngine) -> str:
    async with transaction(async_sessionmaker(engine), delivery) as session:
        await delivery.complete(session)
    async with AsyncSession(engine) as session, engine.begin() as connection:
        await delivery.complete(connection)
        return await inboxd.emit(session, inboxd.Emit("made", topic="invoices"))
