"""The connection: hello, deadlines, drain, refusals. The conformance kit tests the rest."""

import asyncio
import datetime
import re
import threading
import time

import inboxd
import pytest


def done(delivery):
    return None


def test_hello_has_the_options(sidecar, start):
    start(done, consumer="search", instance="pod-1", max_in_flight=7, timeout=datetime.timedelta(seconds=12))
    hello = sidecar.accept()
    assert hello == {
        "protocol": [1],
        "handler": "billing",
        "instance": "pod-1",
        "client": f"inboxd-python/{inboxd.__version__}",
        "max_in_flight": 7,
        "timeout_ms": 12000,
        "batch": {"max": 1, "wait_ms": 0},
        "consumer": "search",
    }


def test_the_window_holds_after_a_reconnect(sidecar, start):
    handler = start(done)
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.answer() == {"status": "done"}
    handler.set_window(3)
    assert sidecar.read() == {"jsonrpc": "2.0", "method": "window", "params": {"max_in_flight": 3}}
    assert sidecar.accept()["max_in_flight"] == 3


def test_the_log_says_that_the_connection_is_back(sidecar, start, caplog):
    start(done)
    sidecar.accept()
    assert "again" not in caplog.text
    sidecar.accept()
    sidecar.deliver(1)
    sidecar.answer()
    assert re.search(r"connected to inboxd again after [0-9.]+ s\n", caplog.text)


@pytest.mark.parametrize(
    ("options", "is_async", "window"),
    [
        ({}, False, 16),
        ({"workers": 20}, False, 40),
        ({}, True, 64),
        ({"batch": 5}, False, 64),
        ({"max_in_flight": 7}, False, 7),
    ],
)
def test_the_window_follows_the_workers(sidecar, start, options, is_async, window):
    async def async_done(delivery):
        pass

    start(async_done if is_async else done, **options)
    assert sidecar.accept()["max_in_flight"] == window


def test_a_message_that_no_function_has_seen_is_given_back(sidecar, start):
    """It would time out otherwise, which spends an attempt."""
    go_on = threading.Event()
    start(lambda delivery: go_on.wait(10) and None, timeout=0.4, extend_up_to=0.6)
    sidecar.accept(timeout_ms=400)
    sidecar.deliver(1)
    sidecar.deliver(2)
    while "method" in (line := sidecar.read()):
        assert line["method"] == "extend"
    assert (line["id"], line["result"]) == ("d2", {"status": "skipped"})
    go_on.set()
    while "method" in (line := sidecar.read()):
        pass
    assert (line["id"], line["result"]) == ("d1", {"status": "done"})


def test_connections_that_end_after_hello_become_rare(sidecar, start):
    start(done, backoff=(0.05, 60))
    count = 0
    ends = time.monotonic() + 2
    sidecar._listener.settimeout(0.1)
    while time.monotonic() < ends:
        try:
            sidecar.accept()
            count += 1
        except TimeoutError:
            pass
    assert count <= 15  # 20 a second if each hello began the waits anew


def test_extend_moves_the_deadline(sidecar, start):
    start(lambda delivery: delivery.extend(90))
    sidecar.accept()
    sidecar.deliver(1)
    assert sidecar.read()["params"] == {"delivery": "d1", "timeout_ms": 90000}
    assert sidecar.answer() == {"status": "done"}


def test_the_deadline_is_not_extended_for_ever(sidecar, start):
    start(lambda delivery: time.sleep(1.2), timeout=0.3, extend_up_to=0.7)
    sidecar.accept(timeout_ms=300)
    sidecar.deliver(1)
    delivered = time.monotonic()
    ends = []
    while (line := sidecar.read()).get("method") == "extend":
        assert line["params"]["timeout_ms"] <= 300
        ends.append(time.monotonic() - delivered + line["params"]["timeout_ms"] / 1000)
    assert len(ends) >= 2
    assert ends[-1] == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("extend_up_to", [0.45, 0.35])
def test_the_last_extension_asks_for_what_is_left(sidecar, start, extend_up_to):
    start(lambda delivery: time.sleep(0.8), timeout=0.3, extend_up_to=extend_up_to)
    sidecar.accept(timeout_ms=300)
    sidecar.deliver(1)
    delivered = time.monotonic()
    params = sidecar.read()["params"]
    assert time.monotonic() - delivered + params["timeout_ms"] / 1000 == pytest.approx(extend_up_to, abs=0.05)
    assert sidecar.answer() == {"status": "done"}


def test_a_refusal_is_raised(sidecar, tmp_path):
    handler = inboxd.Handler("billing", socket=tmp_path / "inbox.sock")
    handler.on()(done)
    refused = []

    def run():
        with pytest.raises(inboxd.Refused, match="an equal subscription") as caught:
            handler.run()
        refused.append(caught.value.code)

    thread = threading.Thread(target=run)
    thread.start()
    sidecar._connection, _ = sidecar._listener.accept()
    sidecar._lines = sidecar._connection.makefile("rb")
    sidecar.read()
    sidecar.send(id=1, error={"code": -32003, "message": "an equal subscription"})
    thread.join(10)
    assert refused == [-32003]


def test_a_drain_that_takes_too_long_is_given_up(sidecar, start):
    ended = threading.Event()

    async def function(delivery):
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    handler = start(function, drain_timeout=0.2)
    sidecar.accept()
    sidecar.deliver(1)
    time.sleep(0.1)
    handler.stop()
    assert sidecar.read()["method"] == "drain"
    assert ended.wait(5)


def test_a_thread_that_does_not_end_is_given_up(sidecar, start):
    deliveries = []
    go_on = threading.Event()

    def function(delivery):
        deliveries.append(delivery)
        go_on.wait(3)

    handler = start(function, drain_timeout=0.2)
    sidecar.accept()
    sidecar.deliver(1)
    time.sleep(0.1)
    began = time.monotonic()
    handler.stop()
    assert sidecar.read()["method"] == "drain"
    assert not sidecar.read_end()
    assert time.monotonic() - began < 2
    until = time.monotonic() + 2
    while deliveries[0].cancelled is None and time.monotonic() < until:
        time.sleep(0.01)
    assert deliveries[0].cancelled == "connection_lost"
    go_on.set()


def test_serve_runs_in_a_loop_of_the_program(sidecar, tmp_path):
    handler = inboxd.Handler("billing", socket=tmp_path / "inbox.sock")
    handler.on()(done)

    async def program():
        serving = asyncio.create_task(handler.serve())
        await asyncio.to_thread(sidecar.accept)
        sidecar.deliver(1)
        assert await asyncio.to_thread(sidecar.answer) == {"status": "done"}
        handler.stop()
        drain = await asyncio.to_thread(sidecar.read)
        sidecar.send(id=drain["id"], result={"in_flight": 0})
        await serving

    asyncio.run(program())
    with pytest.raises(ValueError, match="no function"):
        asyncio.run(inboxd.Handler("x").serve())


def serving(tmp_path, program, in_thread=False, **options):
    """Runs program(handler), whose function sleeps and then unwinds for a while. Returns the deliveries that have unwound."""
    handler = inboxd.Handler("billing", socket=tmp_path / "inbox.sock", backoff=(0.01, 0.05), **options)
    unwound, begun = [], threading.Event()

    async def function(delivery):
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.3)
            unwound.append(delivery.id)

    handler.on()((lambda delivery: function(delivery)) if in_thread else function)

    async def main():
        await program(handler, begun)

    asyncio.run(asyncio.wait_for(main(), 30))
    return unwound


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("method", ["serve", "serve_until_signal"])
def test_a_cancel_is_not_swallowed_and_functions_end_before_it(sidecar, tmp_path, method, in_thread):
    async def program(handler, begun):
        task = asyncio.create_task(getattr(handler, method)())
        await asyncio.to_thread(sidecar.accept)
        sidecar.deliver(1)
        assert await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert serving(tmp_path, program, in_thread) == ["d1"]


def test_serve_ends_after_functions_that_drain_has_cancelled(sidecar, tmp_path):
    async def program(handler, begun):
        task = asyncio.create_task(handler.serve())
        await asyncio.to_thread(sidecar.accept)
        sidecar.deliver(1)
        assert await asyncio.to_thread(begun.wait, 10)
        handler.stop()
        await task

    assert serving(tmp_path, program, drain_timeout=0.2) == ["d1"]


def test_a_stop_before_serve_ends_it_at_once(tmp_path):
    handler = inboxd.Handler("billing", socket=tmp_path / "none.sock")
    handler.on()(done)
    handler.stop()
    asyncio.run(asyncio.wait_for(handler.serve(), 10))


def test_a_stop_without_a_connection_waits_for_threads(sidecar, start):
    ended = []
    begun = threading.Event()

    def function(delivery):
        begun.set()
        time.sleep(0.5)
        ended.append(delivery.id)

    handler = inboxd.Handler("billing", socket=sidecar._listener.getsockname(), backoff=(5, 5))
    handler.on()(function)
    thread = threading.Thread(target=handler.run)
    thread.start()
    sidecar.accept()
    sidecar.deliver(1)
    assert begun.wait(10)
    sidecar.hang_up()
    time.sleep(0.1)
    handler.stop()
    thread.join(10)
    assert ended == ["d1"]
