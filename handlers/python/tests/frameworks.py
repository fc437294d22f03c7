"""complete() and emit() with a framework and a database, for tests/languages: frameworks.py CASE. Prints what was refused."""

import asyncio
import os
import sys
from types import SimpleNamespace

import asyncpg
import django
import inboxd
import psycopg
import psycopg2
import psycopg_pool
import sqlalchemy
from django.conf import settings
from inboxd import _database, _delivery, _verdicts
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import scoped_session, sessionmaker

EVENT = inboxd.Emit("made", topic="invoices", key="k", data={})
INSERT = "INSERT INTO effects VALUES ('{}')"


def delivery(number):
    params = {"delivery": {"claim": f"{9000 + number}.1.17"}, "event": {"id": f"m{number}", "source": "s"}}
    return inboxd.Delivery(SimpleNamespace(timeout=30), f"d{number}", params, 0.0, None)


def refused(function):
    try:
        function()
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")


def use_psycopg2():
    with psycopg2.connect("") as connection:
        connection.cursor().execute(INSERT.format("psycopg2"))
        delivery(1).complete(connection, {"n": 1}, [EVENT])
        inboxd.Batch([delivery(2), delivery(3)], "none").complete(connection, [None, {"n": 3}])
        inboxd.emit(connection, EVENT)
    connection.autocommit = True
    refused(lambda: delivery(4).complete(connection))


def use_psycopg():
    with psycopg.connect() as connection:
        assert len(inboxd.emit(connection, EVENT)) == 36
        inboxd.emit(connection, inboxd.Emit("raw", aggregate="mail", data=b"\xff\x00", headers={"h": "1"}, id="e-1"))
        inboxd.emit(connection, inboxd.Emit("gone", topic="invoices", key="k"))
    connection = psycopg.connect(autocommit=True)
    refused(lambda: inboxd.emit(connection, EVENT))


def use_sqlalchemy():
    from inboxd.sqlalchemy import transaction

    engine = sqlalchemy.create_engine("postgresql+psycopg://")
    make = sessionmaker(engine)
    with transaction(make, delivery(1)) as session:
        session.execute(sqlalchemy.text(INSERT.format("session")))
        inboxd.emit(session, EVENT)
    with transaction(make, inboxd.Batch([delivery(2), delivery(3)], "none")) as session:
        session.execute(sqlalchemy.text(INSERT.format("batch")))
    one = delivery(4)
    try:
        with transaction(make, one) as session:
            session.execute(sqlalchemy.text(INSERT.format("rolled back")))
            one.complete(session)
            raise KeyError
    except KeyError:
        pass
    with transaction(scoped_session(make), one) as session:  # again: what was rolled back does not count
        session.execute(sqlalchemy.text(INSERT.format("again")))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(INSERT.format("connection")))
        delivery(5).complete(connection, {"n": 5}, [EVENT])
    refused(lambda: delivery(6).complete(engine))
    refused(lambda: delivery(6).complete(make))
    refused(lambda: delivery(6).complete(sessionmaker(engine.execution_options(isolation_level="AUTOCOMMIT"))()))
    lost = delivery(7)
    try:
        with transaction(make, lost) as session:
            session.execute(sqlalchemy.text(INSERT.format("lost")))
    except inboxd.ClaimLost as error:
        print("ClaimLost:", error.claim)


async def use_sqlalchemy_async(driver):
    from inboxd.sqlalchemy import transaction

    engine = create_async_engine(f"postgresql+{driver}://")
    make = async_sessionmaker(engine)
    async with transaction(make, delivery(1)) as session:
        await session.execute(sqlalchemy.text(INSERT.format("session")))
        await inboxd.emit(session, EVENT)
    async with transaction(make, inboxd.Batch([delivery(2), delivery(3)], "none")) as session:
        await session.execute(sqlalchemy.text(INSERT.format("batch")))
    async with engine.begin() as connection:
        await connection.execute(sqlalchemy.text(INSERT.format("connection")))
        await delivery(4).complete(connection, {"n": 4}, [EVENT])
        raw = inboxd.Emit("raw", topic="invoices", data=b"\xff")
        await inboxd.emit(connection, raw)
    refused(lambda: delivery(6).complete(engine))
    async with AsyncSession(engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
        try:
            await delivery(6).complete(session)
        except RuntimeError as error:
            print(f"RuntimeError: {error}")
    await engine.dispose()


def configure_django():
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}})
    django.setup()


def use_django():
    configure_django()
    from django.db import connection, transaction
    from inboxd.django import atomic

    refused(lambda: delivery(1).complete(connection))  # before it is connected, too
    with atomic(delivery(1)):
        connection.cursor().execute(INSERT.format("atomic"))
        inboxd.emit(connection, EVENT)
    with atomic(inboxd.Batch([delivery(2), delivery(3)], "none")):
        connection.cursor().execute(INSERT.format("batch"))
    with transaction.atomic():
        connection.cursor().execute(INSERT.format("django"))
        delivery(4).complete(connection, {"n": 4}, [EVENT])
    with transaction.atomic(), connection.cursor() as cursor:
        delivery(5).complete(cursor)
    refused(lambda: delivery(6).complete(connection))
    refused(lambda: delivery(6).complete(transaction))
    with transaction.atomic():
        refused(lambda: atomic(delivery(6)).__enter__())


def repeats(number):
    """A function that another transaction makes fail once, and the steps of it: UPDATE of a row that has changed meanwhile."""
    with psycopg.connect(autocommit=True) as other:
        other.execute("CREATE TABLE IF NOT EXISTS counters (name int PRIMARY KEY, n int)")
        other.execute("INSERT INTO counters VALUES (%s, 0)", [number])
    steps = ["SELECT 1", None, f"UPDATE counters SET n = n + 1 WHERE name = {number}", INSERT.format(f"after {number}")]
    attempts = []

    def interfere():
        attempts.append(number)
        if len(attempts) == 1:
            with psycopg.connect(autocommit=True) as other:
                other.execute("UPDATE counters SET n = n + 1 WHERE name = %s", [number])

    def work(connection):
        one.set_verdict(attempts)  # forgotten with the transaction
        for step in steps:
            _database.execute(connection, step) if step else interfere()
        return inboxd.Done({"attempts": len(attempts)}, [EVENT])

    async def work_async(connection):
        for step in steps:
            await _database.execute(connection, step) if step else interfere()
        return inboxd.Done({"attempts": len(attempts)}, [EVENT])

    one = delivery(number)
    return one, work, work_async


def use_repeats():
    from inboxd.django import begin

    configure_django()
    pool = psycopg_pool.ConnectionPool("", min_size=1, open=True)
    make = sessionmaker(sqlalchemy.create_engine("postgresql+psycopg://"))
    for number, (connect, isolation) in enumerate(
        [(pool.connection, "repeatable read"), (make.begin, "serializable"), (begin, "serializable")], 1
    ):
        one, work, _ = repeats(number)
        assert one.transaction(connect, work, isolation=isolation) == {"attempts": 2}
        assert one._completed
    one, work, _ = repeats(6)
    try:
        one.transaction(pool.connection, work, isolation="serializable", repeats=0)
    except psycopg.errors.SerializationFailure as error:
        print(_verdicts.answer_to_error(error).members)
        assert not one._completed
        assert one._verdict is _delivery.UNSET
    refused(lambda: one.transaction(pool.connection, lambda _: [EVENT]))
    refused(lambda: one.transaction(make, work))
    pool.close()


async def use_repeats_async():
    made = [
        psycopg_pool.AsyncConnectionPool("", min_size=1, open=False),
        await asyncpg.create_pool(min_size=1, max_size=2),
        create_async_engine("postgresql+asyncpg://"),
    ]
    await made[0].open()
    connects = [made[0].connection, made[1].acquire, async_sessionmaker(made[2]).begin]
    for number, connect in enumerate(connects, 1):
        one, _, work = repeats(number)
        assert await one.transaction(connect, work, isolation="serializable") == {"attempts": 2}
    batch = inboxd.Batch([delivery(4), delivery(5)], "none")
    await batch.transaction(made[0].connection, lambda connection: connection.execute(INSERT.format("batch")))
    await made[0].close()
    await made[1].close()
    await made[2].dispose()


case = sys.argv[1]
if case.startswith("sqlalchemy-async"):
    asyncio.run(use_sqlalchemy_async(case.rpartition("-")[2]))
elif case == "repeats-async":
    asyncio.run(use_repeats_async())
else:
    globals()[f"use_{case}"]()
