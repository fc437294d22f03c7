"""What a function returns or raises becomes the answer."""

import asyncio
import datetime
import decimal
import functools
import json
import threading
import time
import uuid

import inboxd
import psycopg2
import pytest
import sqlalchemy.exc
from conftest import params


def returning(value):
    return lambda delivery: value


def raising(error):
    def function(delivery):
        raise error

    return function


def of(package, name, text):
    """An error like one of a driver."""
    return type(name, (Exception,), {"__module__": f"{package}.errors"})(text)


def wrapped(error, text="of a framework"):
    """As Django raises it."""
    outer = RuntimeError(text)
    outer.__cause__ = error
    return outer


def by_sqlalchemy(error):
    return sqlalchemy.exc.DBAPIError("SELECT 1", {}, error)


def group(*errors):
    """Like an ExceptionGroup, which Python 3.10 does not have."""
    error = RuntimeError("2 sub-exceptions")
    error.exceptions = errors
    return error


class Panic(BaseException):
    """As of a Rust extension."""


class NoText(Exception):
    def __str__(self):
        raise ValueError


class DatabaseError(Exception):
    def __init__(self, sqlstate):
        super().__init__("a text of the server")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returning(None), {"status": "done"}),
        (returning({"invoice": 88}), {"status": "done", "result": {"invoice": 88}}),
        (returning(False), {"status": "done", "result": False}),
        (returning(inboxd.Done("ü")), {"status": "done", "result": "ü"}),
        (
            returning(inboxd.Done(emit=[inboxd.Emit("made", topic="t", key="k", data={"a": 1}, headers={"h": "1"})])),
            {"status": "done", "emit": [{"type": "made", "topic": "t", "key": "k", "data": {"a": 1}, "headers": {"h": "1"}}]},
        ),
        (
            returning(inboxd.Done(emit=[inboxd.Emit("x", data=b"\xff")])),
            {"status": "done", "emit": [{"type": "x", "data_base64": "/w=="}]},
        ),
        (returning(inboxd.SETTLED), {"status": "settled"}),
        (returning(inboxd.Dead("no")), {"status": "dead", "reason": "no"}),
        (returning(inboxd.Retry), {"status": "retry"}),
        (
            raising(inboxd.Retry("503", delay=1.5, code="UP")),
            {"status": "retry", "delay_ms": 1500, "reason": "503", "code": "UP"},
        ),
        (raising(inboxd.Retry), {"status": "retry"}),
        (raising(inboxd.Dead("v9", code="SCHEMA")), {"status": "dead", "reason": "v9", "code": "SCHEMA"}),
        (raising(inboxd.Snooze(5)), {"status": "snooze", "delay_ms": 5000}),
        (raising(inboxd.Skip()), {"status": "skipped"}),
        (raising(KeyError("vat")), {"status": "retry", "reason": "KeyError: 'vat'", "code": "KeyError"}),
        (raising(SystemExit(3)), {"status": "retry", "reason": "RuntimeError: SystemExit(3)", "code": "RuntimeError"}),
        (raising(inboxd.ClaimLost("claim 1.1.17 is lost")), {"status": "settled"}),
        (raising(DatabaseError("IB001")), {"status": "settled"}),
        *(
            (
                raising(DatabaseError(code)),
                {"status": "snooze", "delay_ms": 1000, "reason": "DatabaseError: a text of the server", "code": code},
            )
            for code in ("40P01", "55P03", "55006")
        ),
        *(
            (raising(DatabaseError(code)), {"status": "retry", "reason": "DatabaseError: a text of the server", "code": code})
            for code in ("55000", "55P02", "57014")
        ),
        (
            raising(DatabaseError("23505")),
            {"status": "retry", "reason": "DatabaseError: a text of the server", "code": "23505"},
        ),
    ],
)
def test_the_verdict(sidecar, start, function, expected):
    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == expected


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (of("psycopg", "OperationalError", "connection refused"), "snooze"),
        (of("psycopg", "ProgrammingError", "no result"), "retry"),
        (of("asyncpg", "InterfaceError", "connection is closed"), "snooze"),
        (of("asyncpg", "InterfaceError", "another operation is in progress"), "retry"),
        (
            by_sqlalchemy(
                wrapped(of("asyncpg", "InternalClientError", "cannot switch to state 15; another operation (2) is in progress"))
            ),
            "snooze",
        ),
        (ConnectionRefusedError("of an HTTP server"), "retry"),
        (psycopg2.OperationalError("could not connect"), "snooze"),
        (psycopg2.InterfaceError("connection already closed"), "snooze"),
        (psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"), "snooze"),
        (psycopg2.ProgrammingError("no results to fetch"), "retry"),
        (by_sqlalchemy(psycopg2.OperationalError("server closed the connection")), "snooze"),
        (sqlalchemy.exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached"), "snooze"),
        (group(ValueError("x"), psycopg2.OperationalError("server closed the connection")), "snooze"),
    ],
)
def test_a_database_that_is_away_spends_no_attempt(sidecar, start, error, status):
    start(raising(error))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer()["status"] == status


def test_an_async_function_is_answered_alike(sidecar, start):
    async def function(delivery):
        await asyncio.sleep(0)
        if delivery.event.id == "A2":
            raise inboxd.Dead("second")
        return delivery.event.data

    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer(1) == {"status": "done", "result": {"order": 1}}
    sidecar.deliver(2)
    assert sidecar.answer(2) == {"status": "dead", "reason": "second"}


async def a_coroutine(delivery):
    await asyncio.sleep(0)
    return {"ran": delivery.event.id}


async def ends_with(error):
    await asyncio.sleep(0)
    raise error


def decorated(function):
    @functools.wraps(function)
    def call(delivery):
        return function(delivery)

    return call


async def nested(delivery):
    return a_coroutine(delivery)


@pytest.mark.parametrize("function", [lambda delivery: a_coroutine(delivery), decorated(a_coroutine), nested])
def test_a_coroutine_that_a_function_returns_is_run(sidecar, start, function):
    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "done", "result": {"ran": "A1"}}


def test_a_coroutine_that_a_function_returns_fails_and_is_cancelled_like_another_one(sidecar, start):
    begun, cancelled = threading.Event(), threading.Event()

    async def work(delivery):
        if delivery.event.id == "A1":
            raise inboxd.Dead("no")
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    start(lambda delivery: work(delivery))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "dead", "reason": "no"}
    sidecar.deliver(2)
    assert begun.wait(10)
    sidecar.send(method="cancel", params={"delivery": "d2", "reason": "timeout"})
    assert cancelled.wait(10)


def a_generator(delivery):
    yield delivery


async def an_async_generator(delivery):
    yield delivery


class Callable:
    def __call__(self, delivery):
        yield delivery


@pytest.mark.parametrize("function", [a_generator, an_async_generator, functools.partial(a_generator), Callable()])
def test_a_generator_is_refused_when_it_is_registered(function):
    with pytest.raises(TypeError, match="has no yield"):
        inboxd.Handler("billing").on()(function)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda: a_generator(1), "generator"),
        (lambda: inboxd.Emit("made", topic="t"), "return Done(emit=[…])"),
        (lambda: [inboxd.Emit("made", topic="t")], "return Done(emit=[…])"),
        (lambda: ValueError("no"), "ValueError: no"),
        (lambda: ValueError, "the class"),
        (lambda: inboxd.Done(emit=[{"type": "made"}]), "AttributeError"),
    ],
)
def test_what_is_no_result_is_a_failure(sidecar, start, value, reason):
    start(lambda delivery: value())
    sidecar.accept()
    sidecar.deliver(1)
    answer = sidecar.answer()
    assert answer["status"] == "retry"
    assert reason in answer["reason"]


@pytest.mark.parametrize(
    "value",
    [decimal.Decimal("1.50000000000000000001"), datetime.date(2026, 11, 28), uuid.UUID(int=7), inboxd.Event({"id": "A"})],
)
def test_values_that_the_library_gives_are_results_and_data_of_events(sidecar, start, value):
    start(lambda delivery: inboxd.Done({"v": value}, [inboxd.Emit("made", topic="t", data={"v": value})]))
    sidecar.accept()
    sidecar.deliver(1)
    message = json.loads(sidecar._lines.readline(), parse_float=decimal.Decimal)["result"]
    expected = value if isinstance(value, decimal.Decimal) else dict(value) if isinstance(value, inboxd.Event) else str(value)
    assert (message["result"], message["emit"][0]["data"]) == ({"v": expected}, {"v": expected})


@pytest.mark.parametrize("data", [{}, [], "", 0, False])
def test_empty_data_of_an_event_is_data(sidecar, start, data):
    start(returning(inboxd.Done(emit=[inboxd.Emit("x", topic="t", data=data)])))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer()["emit"] == [{"type": "x", "topic": "t", "data": data}]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (wrapped(inboxd.Dead("no", code="SCHEMA")), {"status": "dead", "reason": "no", "code": "SCHEMA"}),
        (group(ValueError("x"), wrapped(inboxd.Snooze(5))), {"status": "snooze", "delay_ms": 5000}),
        (wrapped(DatabaseError("IB001")), {"status": "settled"}),
        (by_sqlalchemy(DatabaseError("IB001")), {"status": "settled"}),
        (
            wrapped(DatabaseError("40P01")),
            {"status": "snooze", "delay_ms": 1000, "reason": "RuntimeError: of a framework", "code": "40P01"},
        ),
        (wrapped(DatabaseError("23505")), {"status": "retry", "reason": "RuntimeError: of a framework", "code": "23505"}),
    ],
)
def test_an_error_in_another_one_counts(sidecar, start, error, expected):
    start(raising(error))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == expected


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [Panic("panicked"), SystemExit(3), pytest.fail.Exception("no")])
def test_an_error_that_is_no_exception_is_a_failure(sidecar, start, is_async, error):
    async def function(delivery):
        if delivery.event.id == "A1":
            raise error

    start(function if is_async else lambda delivery: raising(error)(delivery) if delivery.event.id == "A1" else None)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer()["status"] == "retry"
    sidecar.deliver(2)
    assert sidecar.answer(2) == {"status": "done"}


def test_an_error_without_a_text_is_a_retry(sidecar, start):
    start(raising(NoText()))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "retry", "reason": "NoText", "code": "NoText"}


@pytest.mark.parametrize("value", [object(), float("nan"), {1: {2}}])
def test_a_result_that_is_not_json_does_not_change_the_verdict(sidecar, start, value):
    start(returning(value))
    sidecar.accept()
    sidecar.deliver(1)
    answer = sidecar.answer()
    assert answer["status"] == "done"
    assert "result not stored" in answer["result"]["inboxd"]


def test_an_event_to_publish_that_is_not_json_is_a_retry(sidecar, start):
    start(returning(inboxd.Done(emit=[inboxd.Emit("x", data=object())])))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer()["status"] == "retry"


def test_events_that_do_not_fit_into_a_line_are_a_retry(sidecar, start):
    start(returning(inboxd.Done(emit=[inboxd.Emit("x", topic="t", data="x" * (1 << 20))] * 17)))
    sidecar.accept()
    sidecar.deliver(1)
    answer = sidecar.answer()
    assert (answer["status"], answer["code"]) == ("retry", "ValueError")


def test_on_error_chooses_the_verdict(sidecar, start):
    start(raising(TimeoutError("slow")), on_error=lambda delivery, error: inboxd.Snooze(7) if error.args == ("slow",) else None)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "snooze", "delay_ms": 7000}


def test_an_on_error_that_fails_changes_nothing(sidecar, start):
    start(raising(inboxd.Dead("no")), on_error=lambda delivery, error: 1 // 0)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "dead", "reason": "no"}


def test_what_on_error_returns_must_be_a_verdict(sidecar, start):
    start(raising(inboxd.Dead("no")), on_error=lambda delivery, error: True)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "dead", "reason": "no"}
    with pytest.raises(TypeError, match="on_error must not be async"):
        inboxd.Handler("billing", on_error=a_coroutine)


def test_an_on_error_that_ends_with_no_exception_changes_nothing(sidecar, start):
    start(raising(inboxd.Dead("no")), on_error=lambda delivery, error: raising(Panic())(delivery))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "dead", "reason": "no"}


def test_no_answer_of_a_thread_is_lost(sidecar, start):
    start(lambda delivery: None, workers=8, max_in_flight=5000)
    sidecar.accept()
    for number in range(5000):
        sidecar.deliver(number)
    assert len({sidecar.read()["id"] for _ in range(5000)}) == 5000


def test_a_long_reason_is_cut(sidecar, start):
    start(raising(ValueError("x" * 10_000)))
    sidecar.accept()
    sidecar.deliver(1)
    assert len(sidecar.answer()["reason"]) == 4096


def test_the_most_specific_function_gets_the_message(sidecar, start):
    functions = [
        (None, (), "any"),
        ("orders", (), "topic"),
        (None, "order.*", "prefix"),
        ("orders", "order.*", "both"),
        (None, ["order.paid"], "exact"),
    ]

    def setup(handler):
        for topic, types, name in functions:
            handler.on(topic, types)(returning(name))

    start(setup=setup)
    assert sidecar.accept()["subscribe"] == [
        {"types": ["*", "order.*", "order.paid"]},
        {"topic": "orders", "types": ["*", "order.*"]},
    ]
    messages = [
        ("payments", "paid", "any"),
        ("orders", "audit", "topic"),
        ("payments", "order.made", "prefix"),
        ("orders", "order.made", "both"),
        ("orders", "order.paid", "exact"),
        ("orders", "", "topic"),
    ]
    for number, (topic, event_type, name) in enumerate(messages):
        sidecar.deliver(number, kafkatopic=topic, type=event_type)
        assert sidecar.answer(number)["result"] == name


def test_two_functions_for_the_same_messages_are_refused():
    handler = inboxd.Handler("billing")
    handler.on("orders", ["a", "b"])(print)
    with pytest.raises(ValueError, match="two functions for topic orders and type b"):
        handler.on("orders", "b")(print)


def test_a_message_without_a_function_waits(sidecar, start):
    start(returning(None), on=("orders", "order.paid"))
    assert sidecar.accept()["subscribe"] == [{"topic": "orders", "types": ["order.paid"]}]
    sidecar.deliver(1)
    assert sidecar.answer()["status"] == "snooze"


def test_threads_work_at_the_same_time(sidecar, start):
    together = threading.Barrier(3, timeout=5)
    start(lambda delivery: together.wait() and None, workers=3)
    sidecar.accept()
    for number in range(3):
        sidecar.deliver(number)
    assert sorted(sidecar.read()["id"] for _ in range(3)) == ["d0", "d1", "d2"]


def test_async_functions_work_at_the_same_time(sidecar, start):
    arrived = []
    all_are_here = asyncio.Event()

    async def function(delivery):
        arrived.append(delivery.id)
        if len(arrived) == 50:
            all_are_here.set()
        await all_are_here.wait()

    start(function)
    sidecar.accept()
    for number in range(50):
        sidecar.deliver(number)
    assert len({sidecar.read()["id"] for _ in range(50)}) == 50


def test_numbers_keep_their_digits_with_parse_float(sidecar, start):
    start(lambda delivery: str(delivery.event.data["cents"]), parse_float=decimal.Decimal)
    sidecar.accept()
    line = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "d1",
            "method": "deliver",
            "params": {"delivery": {"claim": "1.1.1"}, "event": {"id": "A", "source": "s", "data": {"cents": 0}}},
        }
    )
    sidecar._connection.sendall(line.replace('"cents": 0', '"cents": 1.50000000000000000001').encode() + b"\n")
    assert sidecar.answer()["result"] == "1.50000000000000000001"


@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize(
    "data", ["1" * 5000, "[" * 200_000 + "]" * 200_000, '{"data":"}\\"","event":{"data":[' + "1" * 5000 + "]}}"]
)
def test_data_that_cannot_be_read_is_dead_for_its_message_alone(sidecar, start, data, in_batch):
    start(lambda delivery: delivery.event.id, batch=10 if in_batch else None)
    sidecar.accept()
    entries = [
        json.dumps({"id": f"d{number}", **params(number, None, (), {"data": "HERE" if number == 2 else [number]})})
        for number in (1, 2, 3)
    ]
    lines = [f'{{"jsonrpc":"2.0","id":"b1","method":"deliver_batch","params":{{"entries":[{",".join(entries)}]}}}}']
    if not in_batch:
        lines = [
            f'{{"jsonrpc":"2.0","id":"d{number}","method":"deliver","params":{one}}}' for number, one in enumerate(entries, 1)
        ]
    for line in lines:
        sidecar._connection.sendall(line.replace('"HERE"', data).encode() + b"\n")
    if in_batch:
        answers = sidecar.answers()
    else:
        messages = [sidecar.read() for _ in entries]
        answers = {int(message["id"][1:]): message["result"] for message in messages}
    reason = answers[2].pop("reason")
    assert reason.startswith("the data cannot be read: ")
    assert answers == {
        1: {"status": "done", "result": "A1"},
        2: {"status": "dead", "code": "DATA"},
        3: {"status": "done", "result": "A3"},
    }


def test_a_number_that_parse_float_does_not_take_is_dead(sidecar, start):
    start(returning(None), parse_float=lambda text: decimal.Context(Emax=10, Emin=-10).create_decimal(text))
    sidecar.accept()
    sidecar.deliver(1, data="HERE")
    assert sidecar.answer() == {"status": "done"}
    line = json.dumps({"jsonrpc": "2.0", "id": "d2", "method": "deliver", "params": params(2, None, (), {"data": "HERE"})})
    sidecar._connection.sendall(line.replace('"HERE"', "1.5e999").encode() + b"\n")
    assert sidecar.answer(2)["code"] == "DATA"


def test_an_async_function_is_cancelled(sidecar, start):
    cancelled = threading.Event()

    async def function(delivery):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert delivery.cancelled == "timeout"
            cancelled.set()
            raise

    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    time.sleep(0.1)
    sidecar.send(method="cancel", params={"delivery": "d1", "reason": "timeout"})
    assert cancelled.wait(5)


def test_a_cancelled_task_of_the_program_is_a_failure(sidecar, start):
    async def function(delivery):
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "retry", "reason": "RuntimeError: CancelledError()", "code": "RuntimeError"}


def test_the_end_of_the_loop_is_no_failure(sidecar, tmp_path):
    async def program():
        begun = asyncio.Semaphore(0)
        handler = inboxd.Handler("billing", socket=tmp_path / "inbox.sock", on_error=lambda _, error: failures.append(error))

        @handler.on()
        async def function(delivery):
            begun.release()
            await asyncio.sleep(60)

        tasks.append(asyncio.create_task(handler.serve()))
        for _ in range(20):
            await begun.acquire()

    tasks, failures = [], []
    thread = threading.Thread(target=asyncio.run, args=[program()])
    thread.start()
    sidecar.accept()
    for number in range(20):
        sidecar.deliver(number)
    assert sidecar.read_end() == b""
    thread.join(5)
    assert not thread.is_alive()
    assert failures == []


def test_a_function_in_a_thread_sees_the_cancel(sidecar, start):
    reasons = []

    def function(delivery):
        while delivery.event.id == "A1":
            time.sleep(0.01)
            try:
                delivery.raise_if_cancelled()
            except inboxd.Cancelled as error:
                reasons.append(str(error))
                raise

    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    time.sleep(0.1)
    sidecar.send(method="cancel", params={"delivery": "d1", "reason": "lease_lost"})
    sidecar.deliver(2)
    assert sidecar.answer(2) == {"status": "done"}
    assert reasons == ["lease_lost"]


def test_a_lost_connection_cancels_the_work(sidecar, start):
    cancelled = threading.Event()

    async def function(delivery):
        if delivery.event.id == "A1":
            try:
                await asyncio.sleep(60)
            finally:
                assert delivery.cancelled == "connection_lost"
                cancelled.set()

    start(function)
    sidecar.accept()
    sidecar.deliver(1)
    time.sleep(0.1)
    sidecar.accept()
    assert cancelled.wait(5)
    sidecar.deliver(2)
    assert sidecar.answer(2) == {"status": "done"}
