"""Events that handlers emit with their answers: stored with the verdict or not at all, and published by the relay."""

import base64
import contextlib

import pytest

from support.outbox import Outbox, values
from support.scripts import DONE, by_id
from support.wait import eventually, throughout
from support.wire import NEVER, Wire

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TAKE_CLAIM = "UPDATE inbox.inbox_messages SET claimed_by = NULL, available_at = now() WHERE event_id = %s"
RETRY = {"backoff": "100ms", "backoff_max": "200ms"}
MIB = 1 << 20


@pytest.fixture
def out(make_topic):
    """A topic for events, with one partition."""
    return make_topic(partitions=1)


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def outbox(inbox):
    return Outbox(inbox)


@pytest.fixture
def relaying(start_inboxd):
    """relaying(…) -> a sidecar that publishes events."""
    def start(**sections):
        return start_inboxd(**{"outbox": {"enabled": True}, "retry": RETRY, **sections})

    return start


def emit(*events):
    return {"status": "done", "emit": list(events)}


def event(topic, number, **members):
    return {"topic": topic, "key": "k", "type": "Emitted", "data": number, **members}


def test_the_events_of_an_answer_are_published(relaying, handler, streams, topic, out, outbox, inbox):
    answer = emit({"topic": out, "key": "c-1", "type": "Made", "data": {"n": 1}, "headers": {"tenant": "a"}, "subject": "s"},
                  {"topic": out, "key": "c-1", "type": "Made", "data_base64": base64.b64encode(b"\x00\xff").decode(),
                   "id": "mine", "source": "/me"},
                  {"topic": out, "key": "c-1", "type": "Gone"})
    handler(relaying(), lambda delivery: {**answer, "result": 7})
    streams.produce(topic, b"{}", key="k", headers=[("id", "e1"), ("traceparent", TRACE)])
    records = streams.read(out, 3)
    assert [record.value() for record in records] == [b'{"n": 1}', b"\x00\xff", None]
    assert {record.key() for record in records} == {b"c-1"}
    headers = [dict(record.headers()) for record in records]
    assert headers[0]["tenant"] == b"a"
    assert [one["ce_type"] for one in headers] == [b"Made", b"Made", b"Gone"]
    assert headers[1]["ce_id"] == b"mine" and headers[1]["ce_source"] == b"/me"
    assert {one["traceparent"] for one in headers} == {TRACE.encode()}
    derived = inbox.value("SELECT inbox.caused_id(source, event_id, consumer, 0, 1,"
                          " jsonb_build_array(%s::text, NULL, 'Gone', 'c-1')::text) FROM inbox.inbox_messages", [out])
    assert headers[2]["ce_id"] == derived.encode()
    inbox.wait_processed(1)
    assert inbox.message("e1")["result"] == 7
    eventually(lambda: outbox.count() == 0)


def test_the_relay_is_woken_by_the_commit(relaying, handler, streams, topic, out):
    handler(relaying(outbox={"enabled": True, "poll": "60s", "poll_idle": "60s"}),
            lambda delivery: emit(event(out, delivery.event_id)))
    for number in range(1, 4):
        streams.events(topic, [f"e{number}"])
        assert len(streams.read(out, number)) == number


def test_events_that_cannot_be_stored_are_a_retry_of_their_message_only(relaying, handler, streams, topic, out, inbox):
    """Also when it is answered together with others."""
    handler(relaying(), by_id({
        "bad": [emit(event(out, 1), event("no topic", 2)), emit(event(out, "bad")), DONE],
        "nul": [emit(event(out, "a\0b")), emit(event(out, "nul"))],
    }, otherwise=emit(event(out, "other"))))
    streams.events(topic, [*(f"e{number}" for number in range(20)), "bad", "nul"])
    inbox.wait_processed(22)
    assert sorted(values(streams.read(out, 22))) == ['"bad"', '"nul"'] + ['"other"'] * 20
    bad = inbox.message("bad")
    assert (bad["retry_count"], bad["error_code"]) == (1, "EMIT")
    assert bad["error"].startswith("inbox.emit: emit[1].topic is 'no topic'; it has 1 to 249 letters")
    assert inbox.message("nul")["error_code"] == "EMIT"
    assert {row["retry_count"] for row in inbox.messages() if row["event_id"] not in ("bad", "nul")} == {0}


@pytest.mark.parametrize(("answer", "words"), [
    ({"status": "settled", "emit": [{}]}, "inbox.complete(claim, result, emit)"),
    ({"status": "dead", "emit": [{}]}, "only done can emit"),
    ({"status": "done", "emit": {}}, "result.emit must be an array"),
    ({"status": "done", "emit": [{}] * 1001}, "more than 1000"),
])
def test_an_answer_with_malformed_events_is_a_retry(relaying, handler, streams, topic, inbox, outbox, answer, words):
    handler(relaying(), by_id({"e1": [answer]}))
    streams.events(topic, ["e1"])
    inbox.wait_processed(1)
    assert inbox.message("e1")["error_code"] == "PROTOCOL"
    assert words in inbox.message("e1")["error"]
    assert outbox.count() == 0


def test_each_message_of_a_batch_has_its_own_events(relaying, streams, topic, out, inbox):
    sidecar = relaying(inbox={"ordering": "none"})
    with Wire(sidecar.socket_path) as wire:
        wire.hello("wire", batch={"max": 4, "wait_ms": 500})
        streams.events(topic, ["a", "b"])
        batch = wire.expect_delivery()
        wire.answer(batch["id"], **emit(event(out, "each")))  # for the whole batch
        eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE error_code = 'PROTOCOL'") == 2)
        assert "result.entries[].emit" in inbox.message("a")["error"]
        seen = 0
        while seen < 2:
            batch = wire.expect_delivery()
            entries = batch["params"]["entries"]
            seen += len(entries)
            wire.answer(batch["id"], entries=[{"id": entry["id"], **emit(event(out, entry["event"]["id"]))} for entry in entries])
        inbox.wait_processed(2)
        assert sorted(values(streams.read(out, 2))) == ['"a"', '"b"']


def test_behind_refused_events_the_later_messages_of_the_key_come_again(relaying, handler, streams, topic, out, inbox):
    """They were delivered because the first one was done. Their verdicts are not committed before it."""
    def good(name):
        return emit(event(out, name))

    client = handler(relaying(), by_id({
        "k1": [emit(event("no topic", 1)), good("k1")], "k2": good("k2"), "k3": good("k3"), "o1": good("o1")}))
    streams.events(topic, ["k1", "k2", "k3", "o1"], key=lambda event_id: event_id[0])
    inbox.wait_processed(4)
    names = [name for name in client.event_ids if name != "o1"]
    assert names[-3:] == ["k1", "k2", "k3"]
    assert [value for value in values(streams.read(out, 4)) if value != '"o1"'] == ['"k1"', '"k2"', '"k3"']
    assert {row["event_id"]: row["retry_count"] for row in inbox.messages()} == {"k1": 1, "k2": 0, "k3": 0, "o1": 0}


def test_an_ordered_batch_emits_in_its_order(relaying, streams, topic, out, inbox):
    with Wire(relaying().socket_path) as wire:
        wire.hello("wire", batch={"max": 10, "wait_ms": 500, "ordered": True})
        streams.events(topic, [f"k{number}" for number in range(6)], key=lambda event_id: "k")
        answered = []
        while "k2" not in answered or answered[-1] != "k5":
            batch = wire.expect_delivery()
            verdicts = []
            for entry in batch["params"]["entries"]:
                name = entry["event"]["id"]
                bad = name == "k2" and entry["delivery"]["attempt"] == 1
                answered.append("bad" if bad else name)
                verdicts.append({"id": entry["id"], **emit(event("no topic" if bad else out, name))})
            wire.answer(batch["id"], entries=verdicts)
        inbox.wait_processed(6)
        assert values(streams.read(out, 6)) == [f'"k{number}"' for number in range(6)]
        assert inbox.message("k2")["error_code"] == "EMIT"


@contextlib.contextmanager
def locked(inbox, statement, *values):
    """A transaction that holds locks until the end of the block."""
    with contextlib.closing(inbox.connect()) as own:
        own.execute(statement, list(values))
        yield own
        own.commit()


def test_a_lost_claim_emits_nothing(relaying, handler, streams, topic, out, inbox):
    client = handler(relaying(), by_id({"e1": [NEVER, emit(event(out, "second"))]}))
    streams.events(topic, ["e1"])
    delivery = client.wait_event("e1")
    with locked(inbox, "SELECT FROM inbox.inbox_messages WHERE event_id = %s FOR UPDATE", "e1") as own:
        client.answer(delivery, emit(event(out, "first")))
        eventually(lambda: inbox.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), every=0.01)
        own.execute(TAKE_CLAIM, ["e1"])
    inbox.wait_processed(1)
    assert values(streams.read(out, 1)) == ['"second"']
    assert inbox.value("SELECT last_value FROM inbox.outbox_seq") == 1


REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no events on Sundays'{code}; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON inbox.outbox FOR EACH ROW {when} EXECUTE FUNCTION refuse()
"""


def test_the_words_of_a_trigger_that_refuses_events_reach_the_operator(relaying, handler, streams, topic, out, outbox, inbox):
    """The trigger says that the event is wrong."""
    sidecar = relaying(retry={**RETRY, "max_attempts": 2})
    inbox.execute(REFUSE.format(code=" USING ERRCODE = 'IB020'", when=""))
    handler(sidecar, lambda delivery: emit(event(out, 1)))
    streams.events(topic, ["e1"])
    eventually(lambda: inbox.count("dead") == 1)
    row = inbox.message("e1")
    assert (row["error_code"], row["retry_count"]) == ("EMIT", 2)
    for command in (["show", "e1"], ["list", "--code", "EMIT"]):
        assert "no events on Sundays" in sidecar.command(*command).stdout
    assert outbox.count() == 0


def test_an_answer_whose_events_a_trigger_refuses_is_kept_and_delays_no_other(relaying, handler, streams, topic, out, inbox):
    """The handler has done its work: the message is not delivered again, no attempt counts, and no event is lost."""
    sidecar = relaying(retry={**RETRY, "max_attempts": 2})
    inbox.execute(REFUSE.format(code="", when="WHEN (NEW.event_type = 'Bad')"))
    client = handler(sidecar, lambda delivery: emit(event(out, delivery.event_id, key=delivery.event_id),
                                                    event(out, "more", type="Bad" if "bad" in delivery.event_id else "Good")))
    names = ["bad1", *(f"good{number}" for number in range(20)), "bad2"]
    streams.events(topic, names, key=lambda name: name.encode())
    inbox.wait_processed(20)
    eventually(lambda: sidecar.metric("inboxd_rows_set_aside", operation="settle") == 2)
    said = eventually(lambda: len(found := [line for line in sidecar.stderr.splitlines() if "event=row_set_aside " in line]) >= 2
                      and found)
    assert sorted(line.split("event_id=")[1].split()[0] for line in said) == ["bad1", "bad2"]
    assert all("no events on Sundays" in line for line in said)
    assert sidecar.get("/readyz")[0] == 200
    inbox.execute("DROP TRIGGER refuse ON inbox.outbox")
    inbox.wait_processed(22)
    assert sorted(client.event_ids) == sorted(names)
    assert {(row["retry_count"], row["delivery_count"]) for row in inbox.messages()} == {(0, 1)}
    found = values(streams.read(out, 44))
    assert sorted(found) == sorted([f'"{name}"' for name in names] + ['"more"'] * 22)


def test_events_behind_a_completion_are_dropped_and_reported(relaying, handler, streams, topic, out, outbox, inbox):
    """The handler completes the message in its own transaction, and answers done with events."""
    def complete(delivery):
        inbox.execute("SELECT inbox.complete(%s)", [delivery.claim])
        return emit(event(out, delivery.event_id))

    sidecar = relaying()
    handler(sidecar, complete)
    streams.events(topic, ["e1"])
    eventually(lambda: sidecar.metric("inboxd_events_dropped_total") == 1)
    eventually(lambda: 'event=events_dropped event_id=e1 ' in sidecar.stderr)
    assert inbox.message("e1")["processed_at"] is not None
    assert inbox.value("SELECT is_called FROM inbox.outbox_seq") is False


def test_without_a_relay_the_events_wait_and_one_warning_says_so(start_inboxd, relaying, handler, streams, topic, out, inbox,
                                                                 outbox):
    sidecar = start_inboxd()
    handler(sidecar, lambda delivery: emit(event(out, delivery.event_id)))
    streams.events(topic, ["e1"])
    inbox.wait_processed(1)
    streams.events(topic, ["e2"])
    inbox.wait_processed(2)
    assert outbox.count() == 2
    eventually(lambda: "event=events_without_relay " in sidecar.stderr)
    assert sidecar.stderr.count("event=events_without_relay ") == 1
    sidecar.stop()
    relaying()
    assert values(streams.read(out, 2)) == ['"e1"', '"e2"']


def is_read(wire):
    """True when inboxd reads the input of this connection."""
    wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "poke"})
    try:
        return wire.read_line(timeout=1) is not None
    except TimeoutError:
        return False


def test_while_many_events_wait_no_answer_is_read_and_none_is_late(start_inboxd, streams, topic, make_topic, out, inbox,
                                                                   outbox):
    """Each of three answers has 12 MiB of events. Their rows are locked for longer than the other deliveries may take. Another
    handler, which also emits, is not affected."""
    second = make_topic(partitions=1)
    sidecar = start_inboxd(inbox={"ordering": "none"}, kafka={"topics": [topic, second]})
    large = base64.b64encode(bytes(9 * MIB)).decode()
    with Wire(sidecar.socket_path) as one, Wire(sidecar.socket_path) as other, Wire(sidecar.socket_path) as small:
        one.hello("wire", subscribe=[{"topic": topic}], max_in_flight=3)
        other.hello("wire", subscribe=[{"topic": topic}], max_in_flight=2)
        small.hello("small", subscribe=[{"topic": second}])
        streams.events(topic, [f"e{number}" for number in range(5)])
        mine, others = ([wire.expect_delivery() for _ in range(count)] for wire, count in [(one, 3), (other, 2)])
        with locked(inbox, "SELECT FROM inbox.inbox_messages FOR UPDATE"):
            for delivery in mine:
                one.answer(delivery["id"], **emit({"topic": out, "type": "Large", "data_base64": large}))
            while is_read(other):
                for delivery in others:
                    other.notify("extend", delivery=delivery["id"], timeout_ms=4000)
            for delivery in others:
                other.answer(delivery["id"], status="done")
            for number in range(1, 4):
                streams.events(second, [f"s{number}"])
                small.answer(small.expect_delivery()["id"], **emit(event(out, number)))
                inbox.wait_processed(number)
            throughout(lambda: inbox.count("processed") == 3, 6)
        inbox.wait_processed(8)
    assert outbox.count() == 6
    assert {row["retry_count"] for row in inbox.messages()} == {0}
