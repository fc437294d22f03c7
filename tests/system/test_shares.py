"""What handlers share: memory, deliveries in flight, the workers, connections. Each has a part that the others cannot use up."""

import contextlib

import pytest

from support.scripts import always, DONE
from support.sidecar import binary
from support.wait import eventually
from support.wire import NEVER, Refused, Wire

HUNG = ("a", "b", "c")
# The deliveries of a handler that hangs time out later. Only a handler with a share of its own gets everything by then.
HANGS_MS = 120_000
AT_ONCE = 60


def records(name, count, size=2):
    return [{"value": b'"%s"' % (b"x" * size), "key": f"{name}{number}", "partition": number % 4,
             "headers": [("id", f"{name}{number}"), ("eventType", f"{name}.x")]} for number in range(count)]


def hang(sidecar, handler, name):
    return handler(sidecar, always(NEVER), name=name, subscribe=[{"types": [f"{name}.*"]}], timeout_ms=HANGS_MS)


@pytest.mark.parametrize("ordering", ["key", "none"])
def test_the_last_handler_gets_everything_while_all_others_hang(start_inboxd, handler, streams, topic, inbox, ordering):
    """Two of them are connected when the memory fills, so no single one is the cause."""
    sidecar = start_inboxd(inbox={"max_claimed": 200, "max_in_flight": 40, "ordering": ordering})
    silent = [hang(sidecar, handler, name) for name in HUNG]
    last = handler(sidecar, always(DONE), name="d", subscribe=[{"types": ["d.*"]}])
    streams.produce_many(topic, [record for name in HUNG for record in records(name, 150)])
    inbox.wait_stored(450)
    for client in silent:
        client.wait_count(1)
    streams.produce_many(topic, records("d", 300))
    eventually(lambda: len(last.event_ids) == 300, timeout=AT_ONCE)
    assert sorted(last.event_ids) == sorted(f"d{number}" for number in range(300))


def test_the_last_handler_gets_large_messages_while_all_others_hang(start_inboxd, handler, streams, topic, inbox):
    """The open deliveries of the others could fill the memory: these cannot be taken back."""
    sidecar = start_inboxd(inbox={"max_claimed_bytes": "1MiB"})
    silent = [hang(sidecar, handler, name) for name in HUNG]
    last = handler(sidecar, always(DONE), name="d", subscribe=[{"types": ["d.*"]}])
    streams.produce_many(topic, [record for name in HUNG for record in records(name, 50, 20000)])
    inbox.wait_stored(150)
    for client in silent:
        client.wait_count(1)
    streams.produce_many(topic, records("d", 50, 20000))
    eventually(lambda: len(last.event_ids) == 50, timeout=AT_ONCE)


def test_handlers_take_turns_when_there_are_fewer_deliveries_than_handlers(start_inboxd, handler, streams, topic, inbox):
    """Not each of them can have a share then."""
    sidecar = start_inboxd(inbox={"max_in_flight": 1})
    order = []

    def note(delivery):
        order.append(delivery.event_id[0])
        return DONE

    for name in HUNG:
        handler(sidecar, note, name=name, subscribe=[{"types": [f"{name}.*"]}])
    streams.produce_many(topic, [record for same in zip(*(records(name, 30) for name in HUNG)) for record in same])
    inbox.wait_processed(90)
    assert sorted(order[-3:]) == list(HUNG), order


def test_a_handler_that_connects_later_gets_memory_from_the_largest_ones(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 200})
    silent = [hang(sidecar, handler, name) for name in HUNG]
    for client in silent:
        client.window(1)
    streams.produce_many(topic, [record for name in HUNG for record in records(name, 150)])
    inbox.wait_stored(450)
    last = handler(sidecar, always(DONE), name="d", subscribe=[{"types": ["d.*"]}])
    streams.produce_many(topic, records("d", 100))
    eventually(lambda: len(last.event_ids) == 100, timeout=AT_ONCE)


def test_a_handler_that_restarts_finds_its_share(start_inboxd, handler, streams, topic, inbox):
    """Beside a hung one that could use all deliveries, and has messages for that."""
    sidecar = start_inboxd(inbox={"max_in_flight": 40})
    first = handler(sidecar, always(DONE), name="d", subscribe=[{"types": ["d.*"]}])
    hung = handler(sidecar, always(NEVER), name="a", window=100, subscribe=[{"types": ["a.*"]}], timeout_ms=HANGS_MS)
    streams.produce_many(topic, records("a", 150))
    hung.wait_count(20)
    first.close()
    eventually(lambda: sidecar.metric("inboxd_handlers_connected", handler="d") == 0, every=0.01)
    streams.produce_many(topic, records("more", 1))
    inbox.wait_stored(151)
    last = handler(sidecar, always(DONE), name="d", subscribe=[{"types": ["d.*"]}])
    streams.produce_many(topic, records("d", 100))
    eventually(lambda: len(last.event_ids) == 100, timeout=AT_ONCE)


def test_the_last_consumer_gets_everything_while_all_others_hang(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 200, "max_in_flight": 40}, consumers={name: {} for name in (*HUNG, "d")})
    for name in HUNG:
        handler(sidecar, always(NEVER), name=name, timeout_ms=HANGS_MS)
    last = handler(sidecar, always(DONE), name="d")
    streams.produce_many(topic, records("m", 400))
    eventually(lambda: len(last.event_ids) == 400, timeout=AT_ONCE)
    assert inbox.count("processed") <= 400


# Connections

PLACES = 128  # of 256 open files, 128 are kept for other purposes


@pytest.fixture
def crowded(start_inboxd, monkeypatch, tmp_path):
    """A sidecar that allows few connections."""
    program = tmp_path / "inboxd"
    program.write_text(f'#!/bin/sh\nulimit -n 256\nexec {binary()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("INBOXD_BINARY", str(program))
    return start_inboxd()


def test_a_handler_can_connect_while_clients_that_only_poke_have_all_places(crowded, handler, produce, topic):
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(crowded.socket_path)) for _ in range(PLACES)]
        for wire in wires:
            wire.request("poke")
        client = handler(crowded, always(DONE))
        produce(topic, b"{}", headers={"id": "e"})
        eventually(lambda: client.event_ids == ["e"])
        wires[0].expect_end()  # the one that was silent for longest
        assert wires[-1].request("poke") == {}


def test_a_handler_with_too_many_connections_leaves_places_to_others(crowded, handler, produce, topic):
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(crowded.socket_path)) for _ in range(PLACES)]
        few = PLACES - PLACES // 10
        for wire in wires[:few]:
            wire.hello("greedy", subscribe=[{"types": ["other"]}])
        with pytest.raises(Refused) as refused:
            wires[-1].hello("greedy", subscribe=[{"types": ["other"]}])
        assert refused.value.code == -32603
        assert "more than its share" in refused.value.message
        wires[-1].expect_end()
        client = handler(crowded, always(DONE))
        produce(topic, b"{}", headers={"id": "e"})
        eventually(lambda: client.event_ids == ["e"])
