"""Functions for batches, and functions for single messages in batches."""

import asyncio

import inboxd
import pytest

A, B = {"partitionkey": "a"}, {"partitionkey": "b"}


def statuses(sidecar):
    return {number: answer["status"] for number, answer in sorted(sidecar.answers().items())}


def test_a_function_for_batches_gets_all_messages(sidecar, start):
    seen = []

    def function(batch):
        seen.append([delivery.id for delivery in batch])

    start(function, batches=True)
    assert sidecar.accept()["batch"] == {"max": 100, "wait_ms": 0}
    sidecar.batch(A, B, A)
    assert statuses(sidecar) == {1: "done", 2: "done", 3: "done"}
    assert seen == [["d1", "d2", "d3"]]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_message_may_have_a_verdict_of_its_own(sidecar, start, is_async):
    def function(batch):
        batch[0].set_verdict({"invoice": 1})
        batch[1].set_verdict(inboxd.Retry("locked"))
        batch[2].set_verdict(inboxd.Dead())

    async def async_function(batch):
        await asyncio.sleep(0)
        function(batch)

    start(async_function if is_async else function, batches=True, batch=10, batch_wait=0.02)
    assert sidecar.accept()["batch"] == {"max": 10, "wait_ms": 20}
    sidecar.batch({}, {}, {}, {})
    assert sidecar.answers() == {
        1: {"status": "done", "result": {"invoice": 1}},
        2: {"status": "retry", "reason": "locked"},
        3: {"status": "dead"},
        4: {"status": "done"},
    }


def test_an_exception_is_the_verdict_for_all(sidecar, start):
    def function(batch):
        raise inboxd.Snooze(3)

    start(function, batches=True)
    sidecar.accept()
    sidecar.batch(A, A, B)
    assert statuses(sidecar) == {1: "snooze", 2: "snooze", 3: "snooze"}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_cancelled_task_of_the_program_is_a_failure(sidecar, start, ordered, single):
    async def function(_):
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    start(function, batches=not single, batch=10, ordered=ordered)
    sidecar.accept()
    sidecar.batch(A, A, B)
    assert statuses(sidecar) == {1: "retry", 2: "skipped" if ordered else "retry", 3: "retry"}


async def sets_verdicts(batch):
    await asyncio.sleep(0)
    batch[0].set_verdict(inboxd.Dead("no"))


def test_a_coroutine_that_a_function_for_batches_returns_is_run(sidecar, start):
    start(lambda batch: sets_verdicts(batch), batches=True)
    sidecar.accept()
    sidecar.batch({}, {})
    assert statuses(sidecar) == {1: "dead", 2: "done"}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("value", "status"),
    [(inboxd.Snooze(3), "snooze"), (inboxd.Done(emit=[inboxd.Emit("made", topic="t")]), "retry"), (["a", "result"], "done")],
)
def test_what_a_function_for_batches_returns_is_not_dropped(sidecar, start, value, status, is_async):
    async def function(batch):
        return value

    start(function if is_async else lambda batch: value, batches=True)
    sidecar.accept()
    sidecar.batch({}, {})
    assert statuses(sidecar) == {1: status, 2: status}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_verdict_that_was_not_awaited_is_a_retry(sidecar, start, is_async):
    def function(batch):
        batch[0].set_verdict(sets_verdicts(batch))

    async def async_function(batch):
        function(batch)

    start(async_function if is_async else function, batches=True)
    sidecar.accept()
    sidecar.batch({}, {})
    assert statuses(sidecar) == {1: "retry", 2: "done"}


def test_in_an_ordered_batch_it_is_the_verdict_for_the_first_of_each_key(sidecar, start):
    def function(batch):
        raise ValueError

    start(function, batches=True, ordered=True)
    assert sidecar.accept()["batch"]["ordered"] is True
    sidecar.batch(A, A, B, {})
    assert statuses(sidecar) == {1: "retry", 2: "skipped", 3: "retry", 4: "retry"}


def test_a_loop_over_an_ordered_batch_leaves_out_what_is_behind(sidecar, start):
    seen = []

    def function(batch):
        for delivery in batch:
            seen.append(delivery.id)
            if delivery.id == "d1":
                delivery.set_verdict(inboxd.Retry("locked"))
            if delivery.id == "d3":
                delivery.set_verdict(inboxd.Dead("bad"))

    start(function, batches=True, ordered=True)
    sidecar.accept()
    sidecar.batch(A, A, B, B)
    assert statuses(sidecar) == {1: "retry", 2: "skipped", 3: "dead", 4: "done"}
    assert seen == ["d1", "d3", "d4"]


def test_a_lost_claim_gives_the_others_back(sidecar, start):
    def function(batch):
        raise inboxd.ClaimLost("inbox.complete: claim 2.1.17 is lost")

    start(function, batches=True)
    sidecar.accept()
    sidecar.batch({}, {}, {})
    assert statuses(sidecar) == {1: "skipped", 2: "settled", 3: "skipped"}


@pytest.mark.parametrize("is_async", [False, True])
def test_functions_of_both_kinds_keep_the_order_of_a_key(sidecar, start, is_async):
    seen = []

    def single(delivery):
        seen.append(delivery.id)
        if delivery.event.data == "fail":
            raise inboxd.Retry

    async def async_single(delivery):
        await asyncio.sleep(0.01)
        single(delivery)

    def together(batch):
        seen.append([delivery.id for delivery in batch])

    def setup(handler):
        handler.on("orders")(async_single if is_async else single)
        handler.on_batch("orders", "order.paid")(together)

    start(ordered=True, batch=10, setup=setup)
    sidecar.accept()
    paid = {**A, "type": "order.paid"}
    sidecar.batch(A, paid, {**paid, **B}, {**A, "data": "fail"}, paid, {**paid, **B})
    assert statuses(sidecar) == {1: "done", 2: "done", 3: "done", 4: "retry", 5: "skipped", 6: "done"}
    assert seen == ["d1", ["d2", "d3"], "d4", ["d6"]]


def test_results_that_are_too_long_together_are_left_out(sidecar, start):
    long = "x" * 3000
    returned = {"d3": inboxd.Dead("no"), "d4": inboxd.Done(1, [inboxd.Emit("made", topic="t", data=long)])}
    start(lambda delivery: returned.get(delivery.id, long), batch=10)
    sidecar.accept(max_line_bytes=10_000)
    sidecar.batch({}, {}, {}, {})
    answers = sidecar.answers()
    assert answers[1]["result"] == long
    assert "result not stored" in answers[2]["result"]["inboxd"]
    assert answers[3] == {"status": "dead", "reason": "no"}
    assert answers[4] == {"status": "skipped"}  # it comes again, and its events are published
