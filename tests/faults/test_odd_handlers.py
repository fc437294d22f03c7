"""Handlers that misbehave under load, together with healthy ones of the same name: the healthy ones stay connected and
continue, and the ledger is clean at the end.
"""

import contextlib
import json
import os
import resource
import signal
import threading

import psycopg
import pytest

import odd_hands
from hands import CLOSE
from ledger import FINAL
from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import Wire, hello_params

ODD = [odd_hands.Leaves, odd_hands.Hangs, odd_hands.Late, odd_hands.Babbles, odd_hands.Misspells,
       odd_hands.Stutters, odd_hands.Repeats, odd_hands.Meddles, odd_hands.Shuffles,
       odd_hands.Chatters]
# Counters that must be at least as high as the number of faults.
COUNTED = {odd_hands.Late: "inboxd_unknown_answers_total", odd_hands.Repeats: "inboxd_unknown_answers_total",
           odd_hands.Meddles: "inboxd_unknown_answers_total",
           odd_hands.Chatters: "inboxd_unknown_answers_total",
           odd_hands.Babbles: "inboxd_protocol_errors_total"}
# The error code that its messages must have, or must not have.
CODES = {odd_hands.Hangs: "TIMEOUT", odd_hands.Late: "TIMEOUT", odd_hands.Misspells: "PROTOCOL"}
# The number of required faults. A silent handler gets one message at a time, each until its deadline.
OFTEN = {odd_hands.Hangs: 6, odd_hands.Babbles: 10}
HEALTHY = 150  # answers of the healthy ones while the odd one misbehaves


def answers(fleet, names=("h1", "h2")):
    return sum(delivered.how in FINAL for delivered in list(fleet.ledger.deliveries)
               if delivered.handler in names)


def wait_for_healthy(fleet, count=HEALTHY, timeout=30):
    wanted = answers(fleet) + count
    eventually(lambda: answers(fleet) >= wanted, timeout, every=0.02,
               what=f"{count} more answers of the healthy handlers")


def healthy_is_undisturbed(instance):
    """They never had to reconnect."""
    assert [hand.connections for hand in instance.hands[:2]] == [1, 1]


def codes(fleet):
    return {row["error_code"] for row in fleet.inbox.query(
        "SELECT DISTINCT error_code FROM inbox.messages WHERE error_code IS NOT NULL")}


def beside(fleet, connection, oddities, **hello):
    """One sidecar with two healthy handlers and an odd one, under load; returns it after the odd one has misbehaved."""
    one = fleet.add()
    odd = fleet.add_hand(one, "odd", connection=connection, **hello)
    fleet.produce_in_background()
    wait_for_healthy(fleet, 20)
    eventually(lambda: odd.oddities >= oddities, what=f"{connection.__name__}: {oddities} times")
    wait_for_healthy(fleet)
    return one, odd


@pytest.mark.parametrize("connection", ODD, ids=lambda connection: connection.__name__.lower())
def test_an_odd_handler_does_not_disturb_its_neighbours(fleet, connection):
    one, odd = beside(fleet, connection, OFTEN.get(connection, 20))
    fleet.assert_clean()
    healthy_is_undisturbed(one)
    if connection in COUNTED:
        assert one.sidecar.metric(COUNTED[connection]) >= odd.oddities / 2
    if connection in CODES:
        assert CODES[connection] in codes(fleet) | retried_codes(fleet)
    assert fleet.inbox.count("dead") == 0


def retried_codes(fleet):
    """A message that was completed later has no code, so the counters are used."""
    timeouts = fleet.instances[0].sidecar.metric("inboxd_deliveries_total", outcome="timeout")
    retries = fleet.instances[0].sidecar.metric("inboxd_deliveries_total", outcome="retry")
    return ({"TIMEOUT"} if timeouts > 0 else set()) | ({"PROTOCOL"} if retries > 0 else set())


@pytest.mark.parametrize("connection", [odd_hands.Deaf, odd_hands.Sips],
                         ids=lambda connection: connection.__name__.lower())
def test_a_handler_that_does_not_read_does_not_disturb_its_neighbours(fleet, connection):
    """Unread deliveries fill its socket; its messages are returned at their deadlines."""
    fleet.kinds["large"] = 25
    fleet.values["large"] = b'"%s"' % (b"x" * 60_000)
    one, _ = beside(fleet, connection, 1)
    assert one.sidecar.metric("inboxd_deliveries_total", outcome="timeout") > 0
    fleet.assert_clean()
    healthy_is_undisturbed(one)


def test_an_entry_missing_in_a_batch_answer_is_retried(fleet):
    one, odd = beside(fleet, odd_hands.Forgets, 20, batch={"max": 8, "wait_ms": 20})
    fleet.assert_clean()
    healthy_is_undisturbed(one)
    assert one.sidecar.metric("inboxd_deliveries_total", outcome="retry") >= odd.oddities


# Connections that are no handlers of these messages


class Nuisance(threading.Thread):
    """Repeats an action in its own thread until end()."""

    def __init__(self, do):
        super().__init__(daemon=True)
        self.do = do
        self.count = 0
        self.failures = []
        self._ended = threading.Event()
        self.start()

    def run(self):
        try:
            while not self._ended.is_set():
                self.do(self.count)
                self.count += 1
        except Exception as error:  # told by end()
            self.failures.append(error)

    def end(self):
        self._ended.set()
        self.join(30)
        assert not self.is_alive() and not self.failures, self.failures


ELSEWHERE = {"subscribe": [{"types": ["nothing"]}]}


def test_connecting_and_closing_in_a_loop_disturbs_no_handler(fleet):
    """Without a line, within hello, after it, and without reading the answer."""
    one = fleet.add()
    fleet.produce_in_background()

    def come_and_go(number):
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello",
                            "params": hello_params(f"guest{number % 7}", **ELSEWHERE)}).encode() + b"\n"
        with Wire(one.sidecar.socket_path) as wire:
            wire.send_bytes((b"", hello[:20], hello, hello)[number % 4])
            if number % 4 == 2:
                wire.read_line()

    nuisances = [Nuisance(come_and_go) for _ in range(2)]
    eventually(lambda: all(each.count >= 500 for each in nuisances), 60)
    wait_for_healthy(fleet)
    for each in nuisances:
        each.end()
    fleet.assert_clean()
    healthy_is_undisturbed(one)
    eventually(lambda: one.sidecar.metric("inboxd_handlers_connected") == 2)


def test_ten_thousand_hellos_on_one_connection_disturb_no_handler(fleet):
    one = fleet.add()
    fleet.produce_in_background()
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello",
                        "params": hello_params("guest", **ELSEWHERE)}).encode() + b"\n"
    with Wire(one.sidecar.socket_path) as wire:
        wire.hello("guest", **ELSEWHERE)
        for _ in range(100):
            wire.send_bytes(hello * 100)
            for _ in range(100):
                wire.expect_error(-32002, 1)
        wait_for_healthy(fleet)
    fleet.assert_clean()
    healthy_is_undisturbed(one)


def test_unread_replies_do_not_fill_memory(fleet):
    """A client that sends requests and reads nothing is disconnected."""
    one = fleet.add()
    fleet.produce_in_background()
    wait_for_healthy(fleet, 50)
    before = one.sidecar.peak_memory()
    question = b'{"jsonrpc":"2.0","id":"%s","method":"hello","params":{"protocol":[1],"handler":"guest",' \
        b'"subscribe":[{"types":["nothing"]}]}}\n' % (b"x" * 200)
    with Wire(one.sidecar.socket_path) as wire:
        eventually(lambda: is_thrown_out(wire, question * 1000, one.sidecar, before), every=0)
    wait_for_healthy(fleet)
    fleet.assert_clean()
    healthy_is_undisturbed(one)


def is_thrown_out(wire, questions, sidecar, before):
    try:
        wire.send_bytes(questions)
    except (BrokenPipeError, ConnectionResetError):
        return True
    grown = sidecar.peak_memory() - before
    if grown > 32 << 20:
        pytest.fail(f"it keeps {grown >> 20} MiB of replies")
    return False


@contextlib.contextmanager
def few_descriptors():
    """Processes started here may have 256 open files, unless they raise the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_connections_disturb_no_handler(fleet):
    """Connections above the limit are closed, and the database can be reached. When they have ended, others can
    connect."""
    with few_descriptors():
        one = fleet.add()
    fleet.produce_in_background()
    with crowd(one, 1100) as wires:
        wait_for_healthy(fleet)
        refused = [wire for wire in wires if is_closed(wire)]
        assert len(refused) == 1100 + 2 - 1024
        fleet.inbox.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                          " current_database() AND application_name LIKE 'inboxd%'")
        wait_for_healthy(fleet)
    eventually(lambda: can_join(one), what="room for a handler")
    fleet.assert_clean()
    healthy_is_undisturbed(one)


@contextlib.contextmanager
def crowd(instance, count):
    """Opens silent connections."""
    wires = [Wire(instance.sidecar.socket_path) for _ in range(count)]
    try:
        yield wires
    finally:
        for wire in wires:
            wire.close()


def is_closed(wire):
    wire.socket.setblocking(False)
    try:
        return wire.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def can_join(instance):
    with Wire(instance.sidecar.socket_path) as wire:
        try:
            return wire.hello("guest", **ELSEWHERE)
        except (AssertionError, BrokenPipeError, ConnectionResetError):
            return False


def test_more_connections_than_descriptors_disturb_no_handler(fleet):
    """The loop does not spin on a connection that it cannot accept, and serves the others."""
    one = fleet.add()
    fleet.produce_in_background()
    wait_for_healthy(fleet, 50)
    used = len(os.listdir(f"/proc/{one.sidecar.pid}/fd"))
    resource.prlimit(one.sidecar.pid, resource.RLIMIT_NOFILE, (used + 20, 20000))
    with crowd(one, 60):
        wait_for_healthy(fleet)
        logged = len(one.sidecar.stderr)
        throughout(lambda: one.is_running, 2)
        assert len(one.sidecar.stderr) - logged < 20_000
        wait_for_healthy(fleet)
    eventually(lambda: can_join(one), what="room for a handler")
    fleet.assert_clean()
    healthy_is_undisturbed(one)


# Crashes


def test_a_message_that_kills_its_handlers_becomes_dead_and_others_continue(fleet):
    """Messages of its key continue when it is dead, messages of other keys all the time (rule R14)."""
    fleet.scripts["poison"] = lambda delivered, connect: CLOSE
    one = fleet.add()
    fleet.produce_in_background()
    wait_for_healthy(fleet, 50)
    fleet.produce(2, kind="poison")
    poisoned = [record for record in fleet.ledger.produced if record.event_id.startswith("poison")]
    for record in poisoned:
        fleet.ledger.expect_dead(record.event_id)
    eventually(lambda: len(fleet.ledger.by_message()[poisoned[0].id]) >= 2, what="a second delivery")
    wait_for_healthy(fleet)
    eventually(lambda: fleet.inbox.count("dead") == 2, what="the poisoned ones to die")
    fleet.assert_clean()
    for row in fleet.inbox.messages():
        deadly = row["event_id"].startswith("poison")
        assert (row["crash_count"], row["error_code"] if deadly else None) == \
            ((5, "CRASH") if deadly else (0, None)), row
    for record in poisoned:  # one made it a suspect, five were counted
        assert 5 <= len(fleet.ledger.by_message()[record.id]) <= 6


def test_a_frozen_handler_loses_its_messages_and_gets_others_when_it_resumes(start_inboxd, streams, topic, inbox,
                                                                             handler, noop_handler):
    """SIGSTOP with messages open, for longer than their timeout; then SIGCONT."""
    sidecar = start_inboxd()
    frozen = noop_handler(sidecar, name="twin", window=20, timeout_ms=1000)
    healthy = handler(sidecar, always(DONE), name="twin", max_in_flight=20, timeout_ms=1000)
    streams.events(topic, [f"e{number}" for number in range(100)])
    inbox.wait_processed(100)
    assert frozen.count() > 0 and healthy.count > 0
    frozen.signal(signal.SIGSTOP)
    streams.events(topic, [f"f{number}" for number in range(400)], key=lambda event_id: event_id[-1])
    inbox.wait_processed(500)
    assert 0 < sidecar.metric("inboxd_deliveries_total", outcome="timeout") <= 30, "a window, then now and then one"
    frozen.signal(signal.SIGCONT)
    inbox.execute("CREATE TABLE kept AS SELECT event_id, processed_at FROM inbox.inbox_messages")
    handled = frozen.count()
    streams.events(topic, [f"g{number}" for number in range(300)])
    inbox.wait_processed(800)
    assert frozen.count() > handled
    assert inbox.value("SELECT count(*) FROM kept JOIN inbox.inbox_messages USING (event_id, processed_at)") == 500
    rows = inbox.messages()
    timeouts = sidecar.metric("inboxd_deliveries_total", outcome="timeout")
    assert sum(row["retry_count"] for row in rows) == timeouts
    assert {row["crash_count"] for row in rows} == {0}


# inbox.complete()


def once(odd, then=lambda delivered, connect: {"status": "done"}):
    """Odd at the first delivery of a message."""
    return lambda delivered, connect: (odd if delivered.number == 1 else then)(delivered, connect)


def run_with(fleet, script, kind="effect_odd", again=None):
    """`script` handles every message of this kind the first time; the next time it is handled normally."""
    def rightly(delivered, connect):
        fleet.make_effect(delivered, connect())
        return {"status": "settled"}

    fleet.scripts[kind] = once(script, again or rightly)
    fleet.kinds[kind] = 15
    one = fleet.add()
    fleet.produce_in_background()
    eventually(lambda: len([1 for delivered in list(fleet.ledger.deliveries)
                            if delivered.event_id.startswith(kind + "-")]) >= 20)
    wait_for_healthy(fleet)
    fleet.assert_clean()
    return one, [row for row in fleet.inbox.messages() if row["event_id"].startswith(kind + "-")]


def test_a_crash_between_complete_and_its_answer_changes_nothing(fleet):
    def crash(delivered, connect):
        fleet.make_effect(delivered, connect())
        return CLOSE

    one, rows = run_with(fleet, crash)
    assert {(row["retry_count"], row["crash_count"]) for row in rows} == {(0, 0)}
    # The other open messages of its connection were lost with it; nearly all others were delivered once.
    assert one.sidecar.metric("inboxd_deliveries_total", outcome="settled") >= len(rows)


def test_complete_twice_in_one_transaction_rolls_it_back(fleet):
    def twice(delivered, connect):
        connection = connect()
        fleet.make_effect(delivered, connection,
                          lambda: connection.execute("SELECT inbox.complete(%s)", [delivered.claim]))

    _, rows = run_with(fleet, twice)
    assert {row["retry_count"] for row in rows} == {1}


def test_complete_after_its_commit_is_refused(fleet):
    refused = []

    def again(delivered, connect):
        fleet.make_effect(delivered, connect())
        committed_at = delivered.completed_at
        try:
            fleet.make_effect(delivered, connect())
        except psycopg.Error as error:
            refused.append(error.sqlstate)
        delivered.completed_at = committed_at
        return {"status": "settled"}

    _, rows = run_with(fleet, again)
    assert refused == ["IB001"] * len(rows)
    assert {row["retry_count"] for row in rows} == {0}
    assert {len(fleet.ledger.by_message()[row["source"], row["event_id"]]) for row in rows} == {1}


def test_settled_after_a_rollback_is_a_failed_attempt(fleet):
    class Undone(Exception):
        pass

    class Lie(dict):
        how = "retry"  # what it is worth

    def roll_back(delivered, connect):
        def fail():
            raise Undone

        try:
            fleet.make_effect(delivered, connect(), fail)
        except Undone:
            return Lie(status="settled")

    seen = set()

    def rightly(delivered, connect):
        row = connect().execute(
            "SELECT error_code FROM inbox.inbox_messages WHERE seq = %s", [delivered.token[0]]).fetchone()
        connect().rollback()
        seen.add(row[0])
        fleet.make_effect(delivered, connect())
        return {"status": "settled"}

    _, rows = run_with(fleet, roll_back, again=rightly)
    assert {row["retry_count"] for row in rows} == {1}
    assert seen == {"NOT_SETTLED"}
