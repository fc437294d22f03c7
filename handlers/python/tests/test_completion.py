"""complete() without a database: the statement, and what happens to its errors. tests/languages has it with PostgreSQL."""

import asyncio
import contextlib
from types import SimpleNamespace

import inboxd
import pytest


class Lost(Exception):
    sqlstate = "IB001"


class Connection:
    """Like one of psycopg."""

    def __init__(self, error=None, autocommit=False, status=2):
        self.calls = []
        self.autocommit = autocommit
        self.info = type("Info", (), {"transaction_status": status})
        self._error = error

    def execute(self, query, values):
        self.calls.append((query, values))
        if self._error:
            raise self._error


class AsyncConnection(Connection):
    def __init__(self, slow=False):
        super().__init__()
        self.slow = slow

    async def execute(self, query, values):
        await asyncio.sleep(60 if self.slow else 0)
        super().execute(query, values)


def answer_to(function, sidecar, start, **options):
    start(function, **options)
    sidecar.accept()
    sidecar.deliver(1)
    return sidecar.answer()


@pytest.mark.parametrize(
    ("arguments", "query", "values"),
    [
        ((), "SELECT inbox.complete(%s::text)", ["1.1.17"]),
        (({"a": 1},), "SELECT inbox.complete(%s::text, %s::text::jsonb)", ["1.1.17", '{"a":1}']),
        (
            (None, [inboxd.Emit("made", topic="t")]),
            "SELECT inbox.complete(%s::text, %s::text::jsonb, %s::text::jsonb)",
            ["1.1.17", None, '[{"type":"made","topic":"t"}]'],
        ),
    ],
)
def test_the_statement(sidecar, start, arguments, query, values):
    connection = Connection()
    assert answer_to(lambda delivery: delivery.complete(connection, *arguments), sidecar, start) == {"status": "settled"}
    assert connection.calls == [(query, values)]


def test_events_beside_a_completion_are_refused(sidecar, start):
    def function(delivery):
        delivery.complete(Connection())
        return inboxd.Done(emit=[inboxd.Emit("made", topic="t")])

    answer = answer_to(function, sidecar, start)
    assert answer["status"] == "retry"
    assert "complete(…, emit=…)" in answer["reason"]


def test_an_async_connection_is_awaited(sidecar, start):
    connection = AsyncConnection()

    async def function(delivery):
        await delivery.complete(connection)

    assert answer_to(function, sidecar, start) == {"status": "settled"}
    assert connection.calls == [("SELECT inbox.complete(%s::text)", ["1.1.17"])]


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("how", ["forgotten", "returned", "of a thread", "in a task"])
def test_a_completion_that_is_not_awaited_is_refused(sidecar, start, how, is_batch):
    """It is dead, because another attempt would make the effects again."""

    async def function(one):
        if how == "in a task":
            tasks.append(asyncio.ensure_future(slow(one.complete(AsyncConnection(slow=True)))))
            await asyncio.sleep(0.01)
        else:
            completion = one.complete(connection)
            if how == "returned":
                return completion
        return None

    async def slow(completion):
        await completion

    tasks, connection = [], AsyncConnection()
    start((lambda one: one.complete(connection) and None) if how == "of a thread" else function, batches=is_batch)
    sidecar.accept()
    if is_batch:
        sidecar.batch({}, {})
        answers = list(sidecar.answers().values())
    else:
        sidecar.deliver(1)
        answers = [sidecar.answer()]
    assert {(answer["status"], answer["code"]) for answer in answers} == {("dead", "NOT_AWAITED")}
    assert "await delivery.complete" in answers[0]["reason"]
    assert connection.calls == []


def test_the_transaction_must_be_open_when_the_completion_is_awaited(sidecar, start):
    connection = AsyncConnection()

    async def function(delivery):
        completion = delivery.complete(connection)
        connection.autocommit, connection.info.transaction_status = True, 0
        await completion

    assert "needs an open transaction" in answer_to(function, sidecar, start)["reason"]
    assert connection.calls == []


@pytest.mark.parametrize("value", [None, "postgresql://", object()])
def test_what_is_no_transaction_is_refused_by_name(sidecar, start, value):
    answer = answer_to(lambda delivery: delivery.complete(value), sidecar, start)
    assert answer["code"] == "TypeError"
    assert f"a {type(value).__name__} is none" in answer["reason"]


def test_a_connection_whose_cursors_execute(sidecar, start):
    """As one of psycopg2."""

    class Cursors(Connection):
        execute = property()

        @contextlib.contextmanager
        def cursor(self):
            yield SimpleNamespace(execute=lambda *call: self.calls.append(call), fetchone=lambda: ("",))

    connection = Cursors()
    assert answer_to(lambda delivery: delivery.complete(connection), sidecar, start) == {"status": "settled"}
    assert connection.calls == [("SELECT inbox.complete(%s::text)", ["1.1.17"])]


def test_a_lost_claim_is_raised_and_answered_settled(sidecar, start):
    seen = []

    def function(delivery):
        try:
            delivery.complete(Connection(Lost("inbox.complete: claim 1.1.17 is lost")))
        except inboxd.ClaimLost as error:
            seen.append(error.claim)
            raise

    assert answer_to(function, sidecar, start) == {"status": "settled"}
    assert seen == ["1.1.17"]


def test_another_error_passes(sidecar, start):
    def function(delivery):
        delivery.complete(Connection(ValueError("no")))

    assert answer_to(function, sidecar, start)["code"] == "ValueError"


@pytest.mark.parametrize("status", [0, None])  # None: a driver that does not tell
def test_a_completion_without_a_transaction_is_refused(sidecar, start, status):
    connection = Connection(autocommit=True, status=status)
    assert "needs an open transaction" in answer_to(lambda delivery: delivery.complete(connection), sidecar, start)["reason"]
    assert connection.calls == []


def test_a_batch_is_completed_by_one_statement(sidecar, start):
    connection = Connection()

    def function(batch):
        batch[1].set_verdict(inboxd.Retry("locked"))
        batch.complete(connection, [{"n": 1}, None])

    start(function, batches=True)
    sidecar.accept()
    sidecar.batch({}, {}, {})
    assert {number: answer["status"] for number, answer in sidecar.answers().items()} == {
        1: "settled",
        2: "retry",
        3: "settled",
    }
    assert connection.calls == [
        ("SELECT inbox.complete(%s::text[], %s::text[]::jsonb[])", [["1.1.17", "3.1.17"], ['{"n":1}', None]])
    ]
