"""The test kit: inboxd.testing."""

import asyncio
import json
import threading

import inboxd
import pytest
from inboxd.testing import adeliver, deliver, deliver_batch, load, message
from test_completion import AsyncConnection, Connection


def test_the_handler_finds_the_function():
    handler = inboxd.Handler(
        "billing", on_error=lambda _, error: inboxd.Dead("by the hook") if isinstance(error, KeyError) else None
    )

    @handler.on("orders", "order.*")
    def in_thread(delivery):
        assert threading.current_thread() is threading.main_thread()
        return inboxd.Done({"order": delivery.event.data["order"]}, [inboxd.Emit("made", topic="t", data=b"\xff")])

    @handler.on("orders")
    async def in_loop(delivery):
        await asyncio.sleep(0)
        raise inboxd.Retry("locked", delay=2, code="LOCKED")

    handler.on("refunds")(lambda delivery: in_loop(delivery))
    outcome = deliver(handler, message({"order": 17}, topic="orders", type="order.created", key="c-1"))
    assert (outcome.status, outcome.result, outcome.completed) == ("done", {"order": 17}, False)
    assert outcome.events == [{"type": "made", "topic": "t", "data_base64": "/w=="}]
    for topic in ("orders", "refunds"):
        outcome = deliver(handler, message(topic=topic))
        assert (outcome.status, outcome.reason, outcome.code, outcome.delay) == ("retry", "locked", "LOCKED", 2)
        assert isinstance(outcome.error, inboxd.Retry)
    assert deliver(handler, message({}, topic="orders", type="order.paid")).reason == "by the hook"
    assert deliver(handler, message(topic="unknown")).code == "NO_FUNCTION"


def test_a_completion_is_kept_and_not_executed():
    connection = Connection()
    outcome = deliver(lambda one: one.complete(connection, {"n": 1}, [inboxd.Emit("made", topic="t")]), message())
    assert (outcome.status, outcome.completed, outcome.result) == ("done", True, {"n": 1})
    assert outcome.events == [{"type": "made", "topic": "t"}]
    assert connection.calls == []
    closed = Connection(autocommit=True, status=0)
    assert "open transaction" in deliver(lambda one: one.complete(closed), message()).reason

    async def forgets(one):
        one.complete(AsyncConnection())

    assert deliver(forgets, message()).code == "NOT_AWAITED"


def test_in_an_event_loop():
    async def function(one):
        await one.complete(AsyncConnection(), one.event.key)

    async def test():
        with pytest.raises(RuntimeError, match="await adeliver"):
            deliver(function, message())
        return await adeliver(function, message(key="k"))

    outcome = asyncio.run(test())
    assert (outcome.completed, outcome.result) == (True, "k")


def test_a_batch():
    handler = inboxd.Handler("billing", ordered=True)

    @handler.on_batch()
    def together(batch):
        batch[0].set_verdict(inboxd.Retry("locked"))
        batch.complete(Connection(), [{"n": 3}])

    outcomes = deliver_batch(handler, [message(key=key) for key in "aab"])
    assert [outcome.status for outcome in outcomes] == ["retry", "skipped", "done"]
    assert outcomes[2].result == {"n": 3}
    assert deliver_batch(handler, []) == []


def test_an_exported_message(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**message({"order": 17}, topic="orders", attempt=10), "headers": [["h", "1"]]}))
    seen = []
    outcome = deliver(lambda one: seen.append((one.event.data, one.attempt, one.header("h"))), load(path))
    assert (outcome.status, seen) == ("done", [({"order": 17}, 10, "1")])
    path.write_text("[]")
    with pytest.raises(ValueError, match="inboxd export"):
        load(path)
