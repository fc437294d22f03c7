"""Ordered batches (rule R26): several messages of a key in one batch, and what happens behind one that is not finished."""

import contextlib
import time

import pytest

from support.wait import eventually, throughout
from support.wire import Wire

LATER = 60_000  # milliseconds; longer than any test


class Batches:
    """A connection that asks for ordered batches and answers them by event ids."""

    def __init__(self, sidecar, topic, most, **params):
        self.wire = Wire(sidecar.socket_path)
        self.wire.hello("wire", subscribe=[{"topic": topic}], max_in_flight=100, **{"timeout_ms": LATER, **params},
                        batch={"max": most, "wait_ms": 500, "ordered": True})

    def read(self):
        """The event ids of the next batch, in its order."""
        line = self.wire.expect_delivery()
        self.id = line["id"]
        self.entries = {entry["event"]["id"]: entry for entry in line["params"]["entries"]}
        return list(self.entries)

    def attempts(self):
        return {event_id: entry["delivery"]["attempt"] for event_id, entry in self.entries.items()}

    def answer(self, **verdicts):
        """a="done" or a={"status": "retry", …}; what is not named is left out."""
        self.wire.answer(self.id, entries=[
            {"id": self.entries[event_id]["id"], **({"status": verdict} if isinstance(verdict, str) else verdict)}
            for event_id, verdict in verdicts.items()])

    def finish(self):
        """Answers every message of the batch with done."""
        self.answer(**dict.fromkeys(self.entries, "done"))

    def finish_in_order(self, count, alone=False):
        """Finishes messages of several batches; returns their attempts, in the order in which they came."""
        seen = {}
        while len(seen) < count:
            got = self.read()
            assert len(got) == 1 or not alone, f"not delivered alone: {got}"
            seen.update(self.attempts())
            self.finish()
        return seen


@pytest.fixture
def batches(topic):
    """batches(sidecar, most, **params of hello) -> Batches, closed after the test."""
    made = []

    def connect(sidecar, most=4, **params):
        made.append(Batches(sidecar, topic, most, **params))
        return made[-1]

    yield connect
    for one in made:
        one.wire.close()


@pytest.fixture
def run(streams, topic, inbox):
    """run("a1 b1 a2") produces these events; the letter is the key."""

    def produce(names):
        streams.produce_many(topic, [{"value": b"{}", "key": name[0], "headers": [("id", name)], "partition": 0}
                                     for name in names.split()])
        inbox.wait_stored(len(names.split()))

    return produce


def counted(inbox, event_id):
    row = inbox.message(event_id)
    return row["retry_count"], row["crash_count"], row["error_code"]


UNTOUCHED = (0, 0, None)


def test_a_batch_has_the_messages_of_a_key_in_order(inboxd, batches, run, inbox):
    client = batches(inboxd, 6)
    run("a1 b1 a2 a3 b2 c1")
    got = client.read()
    assert sorted(got) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert [name for name in got if name[0] == "a"] == ["a1", "a2", "a3"]
    assert [name for name in got if name[0] == "b"] == ["b1", "b2"]
    client.finish()
    inbox.wait_processed(6)
    client.wire.expect_silence()


@pytest.mark.parametrize("rest", [{}, {"a3": "skipped", "a4": "skipped"}], ids=["left out", "skipped"])
def test_behind_an_unfinished_message_no_attempt_is_spent(inboxd, batches, run, inbox, rest):
    client = batches(inboxd)
    run("a1 a2 a3 a4")
    assert client.read() == ["a1", "a2", "a3", "a4"]
    begin = time.monotonic()
    client.answer(a1="done", a2={"status": "retry", "delay_ms": 1000, "code": "NO"}, **rest)
    assert client.finish_in_order(3) == {"a2": 2, "a3": 1, "a4": 1}
    assert time.monotonic() - begin > 0.5, "they come after the one that failed"
    inbox.wait_processed(4)
    assert [counted(inbox, name) for name in ("a3", "a4")] == [UNTOUCHED] * 2
    assert inboxd.metric("inboxd_order_violations_total") == 0


def test_other_keys_go_on(inboxd, batches, run, inbox):
    client = batches(inboxd)
    run("a1 b1 a2 b2")
    client.read()
    client.answer(a1={"status": "retry", "delay_ms": LATER}, b1="done", b2="done")
    inbox.wait_processed(2)
    inbox.wait_status("a1", "retrying")
    inbox.wait_status("a2", "parked")
    assert counted(inbox, "a2") == UNTOUCHED


def test_a_message_left_out_that_is_behind_none_is_a_retry(inboxd, batches, run, inbox):
    client = batches(inboxd)
    run("a1 a2 a3 b1")
    client.read()
    client.wire.notify("window", max_in_flight=0)
    client.answer(a1="done", b1="done")
    eventually(lambda: counted(inbox, "a2") == (1, 0, "PROTOCOL"))
    assert counted(inbox, "a3") == UNTOUCHED


def test_a_message_behind_that_is_done_counts_as_a_violation(inboxd, batches, run, inbox):
    client = batches(inboxd)
    run("a1 a2 a3 a4")
    client.read()
    client.answer(a1={"status": "retry", "delay_ms": LATER}, a2="done", a3={"status": "dead", "reason": "no"}, a4="skipped")
    inbox.wait_status("a2", "processed")
    inbox.wait_status("a3", "dead")
    inbox.wait_status("a1", "retrying")
    inbox.wait_status("a4", "parked")
    eventually(lambda: inboxd.metric("inboxd_order_violations_total") == 2)


def test_an_error_for_the_whole_batch_counts_for_the_first_of_each_key(inboxd, batches, run, inbox):
    client = batches(inboxd)
    run("a1 a2 b1 b2")
    client.read()
    client.wire.notify("window", max_in_flight=0)
    client.wire.send_line({"jsonrpc": "2.0", "id": client.id, "error": {"code": -32000, "message": "all"}})
    for name in ("a1", "b1"):
        eventually(lambda name=name: counted(inbox, name) == (1, 0, "HANDLER_ERROR"))
    eventually(lambda: {inbox.message(name)["status"] for name in ("a2", "b2")} <= {"parked", "waiting"})
    assert [counted(inbox, name) for name in ("a2", "b2")] == [UNTOUCHED] * 2


def test_only_the_first_of_a_key_times_out_and_the_rest_comes_alone(start_inboxd, batches, run, inbox):
    sidecar = start_inboxd(retry={"backoff": "10ms"})
    client = batches(sidecar, timeout_ms=1500)
    run("a1 a2 a3 b1")
    assert client.read() == ["a1", "a2", "a3", "b1"]
    for name in ("a1", "a2", "a3", "b1"):
        client.wire.expect_cancel(client.entries[name]["id"], "timeout")
    seen = client.finish_in_order(4, alone=True)
    assert seen == {"a1": 2, "a2": 1, "a3": 1, "b1": 2}
    assert [name for name in seen if name[0] == "a"] == ["a1", "a2", "a3"]
    inbox.wait_processed(4)
    assert [counted(inbox, name)[:2] for name in ("a1", "a2", "a3", "b1")] == [(1, 0), (0, 0), (0, 0), (1, 0)]


def test_a_later_message_whose_deadline_passes_spends_no_attempt(inboxd, batches, run, inbox):
    client = batches(inboxd, timeout_ms=1500)
    run("a1 a2 a3 b1")
    client.read()
    first = dict(client.entries)
    client.wire.notify("extend", delivery=first["a1"]["id"], timeout_ms=LATER)
    client.wire.notify("extend", delivery=first["b1"]["id"], timeout_ms=LATER)
    for name in ("a2", "a3"):
        client.wire.expect_cancel(first[name]["id"], "timeout")
    client.answer(a1="done", b1="done")
    assert client.finish_in_order(2) == {"a2": 1, "a3": 1}
    inbox.wait_processed(4)


def test_after_a_lost_connection_each_message_comes_alone_and_in_order(inboxd, batches, run, inbox):
    client = batches(inboxd)
    run("a1 a2 a3 b1")
    client.read()
    client.wire.close()
    client = batches(inboxd)
    seen = client.finish_in_order(4, alone=True)
    assert set(seen.values()) == {1}
    assert [name for name in seen if name[0] == "a"] == ["a1", "a2", "a3"]
    inbox.wait_processed(4)
    assert [counted(inbox, name)[:2] for name in ("a1", "a2", "a3", "b1")] == [(0, 0)] * 4
    eventually(lambda: inboxd.metric("inboxd_deliveries_total", handler="wire", outcome="crash") == 2)


def test_without_ordered_a_batch_has_one_message_of_a_key(inboxd, handler, run, inbox):
    client = handler(inboxd, batch=4, batch_wait_ms=500)
    run("a1 a2 b1 b2")
    inbox.wait_processed(4)
    assert all(len({one.key for one in batch}) == len(batch) for batch in client.batches)


def test_with_next_after_commit_a_batch_has_one_message_of_a_key(start_inboxd, batches, run, inbox):
    client = batches(start_inboxd(inbox={"next_after": "commit"}))
    run("a1 a2 b1 b2")
    for _ in range(2):
        assert len({name[0] for name in client.read()}) == len(client.entries) == 2
        client.finish()
    inbox.wait_processed(4)


@pytest.mark.parametrize("answer", ["done", "dead"])
def test_behind_a_lost_claim_nothing_of_the_batch_is_committed(inboxd, batches, run, inbox, answer):
    """Another transaction takes the claim of k1 while the verdicts of the batch wait for its row."""
    client = batches(inboxd, 3)
    run("k1 k2 k3")
    assert client.read() == ["k1", "k2", "k3"]
    with contextlib.closing(inbox.connect()) as own:
        own.execute("SELECT 1 FROM inbox.inbox_messages WHERE event_id = 'k1' FOR UPDATE")
        client.answer(k1=answer, k2="done", k3="done")
        throughout(lambda: not inbox.count("processed"), 1)
        own.execute("UPDATE inbox.inbox_messages SET claimed_by = NULL, available_at = now() WHERE event_id = 'k1'")
        own.commit()
    assert list(client.finish_in_order(3)) == ["k1", "k2", "k3"]
    inbox.wait_processed(3)


def test_with_ordering_partition_a_batch_stops_for_the_partition(start_inboxd, batches, run, inbox):
    sidecar = start_inboxd(inbox={"ordering": "partition"})
    client = batches(sidecar)
    run("a1 b1 a2 c1")
    assert client.read() == ["a1", "b1", "a2", "c1"]
    client.answer(a1="done", b1={"status": "snooze", "delay_ms": 100})
    seen = client.finish_in_order(3)
    assert list(seen) == ["b1", "a2", "c1"]
    assert set(seen.values()) == {1}
    inbox.wait_processed(4)


def test_the_library_gets_the_messages_of_a_key_in_order(inboxd, noop_handler, run, inbox):
    names = [f"a{number:03d}" for number in range(200)]
    run(" ".join(names))
    noop = noop_handler(inboxd, batch=50, ordered=True)
    inbox.wait_processed(200)
    assert [line.split()[0] for line in noop.lines()] == names
