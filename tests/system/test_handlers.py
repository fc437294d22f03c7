"""Connections of handlers: deadlines, windows, draining, crashes, permissions."""

import os
import threading

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, Wire


def test_a_silent_handler_is_cancelled_and_the_message_is_retried(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, lambda delivery: NEVER if delivery.attempt == 1 else DONE)
    produce(topic, b"{}", headers={"id": "x"})
    client.extend(client.wait_event("x"), 300)  # this delivery only: the second one has its time
    row = inbox.wait_status("x", "processed")
    assert row["retry_count"] == 1
    assert [delivery.attempt for delivery in client.deliveries] == [1, 2]
    assert [cancel["reason"] for cancel in client.cancels] == ["timeout"]
    assert client.cancels[0]["delivery"] == client.deliveries[0].id


def test_timeouts_spend_attempts_until_the_message_is_dead(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    handler(sidecar, always(NEVER), timeout_ms=200)
    produce(topic, b"{}", headers={"id": "x"})
    row = inbox.wait_status("x", "dead")
    assert (row["error_code"], row["retry_count"]) == ("TIMEOUT", 2)


def test_an_answer_after_the_deadline_is_ignored_and_counted(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, lambda delivery: NEVER if delivery.attempt == 1 else DONE)
    produce(topic, b"{}", headers={"id": "x"})
    client.extend(client.wait_event("x"), 300)
    inbox.wait_status("x", "processed")
    client.answer(client.deliveries[0], {"status": "dead"})
    eventually(lambda: inboxd.metric("inboxd_unknown_answers_total") == 1)
    assert inbox.message("x")["status"] == "processed"


def test_a_silent_connection_gets_one_message_at_a_time_until_it_answers(start_inboxd, handler, streams, topic, inbox):
    """A late answer counts, too; then its full window applies again."""
    sidecar = start_inboxd(retry={"backoff": "10ms", "backoff_max": "20ms"})
    answers = threading.Event()
    opened = []  # how many deliveries were open when one arrived

    def decide(_):
        opened.append(client.count - len(client.cancels))
        return DONE if answers.is_set() else NEVER

    client = handler(sidecar, decide, max_in_flight=5, timeout_ms=500)
    streams.events(topic, [f"e{number}" for number in range(20)])
    first = client.wait_count(5)
    eventually(lambda: len(opened) >= 8)
    silent = len(opened)
    assert set(opened[5:silent]) == {1}
    client.answer(first[0], DONE)
    eventually(lambda: max(opened[silent:], default=0) > 1)
    answers.set()
    inbox.wait_processed(20)
    assert "event=handler_silent handler=handler" in sidecar.stderr


def test_a_connection_that_extends_is_not_silent(inboxd, handler, streams, topic, inbox):
    """It works on one message and extends it; the others of its window time out."""
    client = handler(inboxd, lambda delivery: NEVER if delivery.attempt == 1 else DONE, max_in_flight=3)
    streams.events(topic, ["a", "b", "c"])
    at_work, *others = client.wait_count(3)
    for delivery in others:
        client.extend(delivery, 500)
    client.extend(at_work, 60_000)
    eventually(lambda: len(client.cancels) == 2)
    client.answer(at_work, DONE)
    inbox.wait_processed(3)
    assert "handler_silent" not in inboxd.stderr


def test_other_connections_are_served_before_a_silent_one(inboxd, handler, streams, topic, inbox):
    silent = handler(inboxd, always(NEVER), name="twin", max_in_flight=5, timeout_ms=1000)
    streams.events(topic, [f"e{number}" for number in range(10)])
    eventually(lambda: silent.cancels)
    healthy = handler(inboxd, always(DONE), name="twin", max_in_flight=64)
    streams.events(topic, [f"f{number}" for number in range(200)])
    inbox.wait_processed(210)
    assert len(silent.deliveries) <= 5 + 10
    assert healthy.count >= 195


def test_extend_moves_the_deadline(inboxd, handler, produce, topic, inbox):
    client = handler(inboxd, always(NEVER))
    produce(topic, b"{}", headers={"id": "x"})
    delivery = client.wait_event("x")
    client.extend(delivery, 1000)
    client.extend(delivery, 30_000)  # it is read with the line before, or soon after it
    throughout(lambda: not client.cancels, 2)
    client.answer(delivery, DONE)
    assert inbox.wait_status("x", "processed")["retry_count"] == 0
    assert len(client.deliveries) == 1


def test_a_window_is_never_exceeded(inboxd, handler, streams, topic):
    client = handler(inboxd, always(NEVER), max_in_flight=5)
    streams.events(topic, [f"e{number}" for number in range(50)])
    eventually(lambda: len(client.deliveries) == 5)
    throughout(lambda: len(client.deliveries) == 5, 1)
    eventually(lambda: inboxd.metric("inboxd_in_flight") == 5)


def test_a_window_of_zero_pauses_and_a_larger_one_resumes(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE), max_in_flight=10)
    streams.events(topic, ["first"])
    inbox.wait_processed(1)
    client.window(0)
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_stored(4)
    throughout(lambda: len(client.deliveries) == 1, 1)
    client.window(10)
    inbox.wait_processed(4)


def test_max_in_flight_of_the_inbox_is_never_exceeded(start_inboxd, handler, streams, topic):
    sidecar = start_inboxd(inbox={"max_in_flight": 7})
    clients = [handler(sidecar, always(NEVER), max_in_flight=100) for _ in range(2)]
    streams.events(topic, [f"e{number}" for number in range(50)])
    eventually(lambda: sum(len(client.deliveries) for client in clients) == 7)
    throughout(lambda: sum(len(client.deliveries) for client in clients) == 7, 1)


def test_drain_stops_deliveries_and_is_answered_when_none_is_open(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    assert client.drain()["in_flight"] == 0
    streams.events(topic, ["b"])
    inbox.wait_stored(2)
    throughout(lambda: len(client.deliveries) == 1, 1)


def test_a_batch_has_many_messages_and_one_answer(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(DONE), batch=10, batch_wait_ms=200, max_in_flight=100)
    streams.events(topic, [f"e{number}" for number in range(200)])
    inbox.wait_processed(200)
    assert sorted(delivery.event_id for delivery in client.deliveries) == \
        sorted(f"e{number}" for number in range(200))


def test_a_lost_connection_returns_its_messages_without_an_attempt(inboxd, handler, streams, topic, inbox):
    first = handler(inboxd, always(NEVER), max_in_flight=3)
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: len(first.deliveries) == 3)
    first.abort()
    second = handler(inboxd, always(DONE))
    inbox.wait_processed(3)
    assert {delivery.attempt for delivery in second.deliveries} == {1}
    assert {row["retry_count"] for row in inbox.messages()} == {0}
    assert {row["crash_count"] for row in inbox.messages()} == {0}


def test_suspects_of_a_crash_are_delivered_alone(inboxd, handler, streams, topic, inbox):
    first = handler(inboxd, always(NEVER), max_in_flight=3)
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: len(first.deliveries) == 3)
    first.abort()
    second = handler(inboxd, always(NEVER), max_in_flight=10)
    for number in range(3):
        eventually(lambda: len(second.deliveries) == number + 1)
        throughout(lambda: len(second.deliveries) == number + 1, 0.5)
        second.answer(second.deliveries[number], DONE)
    inbox.wait_processed(3)


def test_a_message_that_repeatedly_crashes_its_handler_becomes_dead(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retry={"max_crashes": 2})
    streams.events(topic, ["good-1", "poison", "good-2"])
    losses = 0
    while inbox.count("dead") == 0 and losses < 12:
        client = handler(sidecar, lambda delivery: NEVER if delivery.event_id == "poison"
                         else DONE)
        eventually(lambda: inbox.count("dead") == 1 or any(
            delivery.event_id == "poison" for delivery in client.deliveries))
        losses += 1
        client.abort()
    row = inbox.wait_status("poison", "dead")
    assert row["error_code"] == "CRASH"
    assert row["crash_count"] == 2
    assert [(entry["code"], entry["handler"]) for entry in row["attempts"]] == [("CRASH", "handler")] * 2
    assert "attempt 1 crashed at handler: CRASH its handler's connection ended 1 time while" in \
        sidecar.command("show", "poison").stdout
    assert losses <= 4  # one that makes the suspects, two that count, one to find it dead
    handler(sidecar, always(DONE))
    inbox.wait_processed(2)


def test_an_answer_undoes_the_crash_count_of_its_own_delivery(inboxd, handler, streams, topic, inbox):
    """The first loss makes a suspect, the second counts, the third delivery is answered."""
    streams.events(topic, ["x"])
    for _ in range(2):
        client = handler(inboxd, always(NEVER))
        eventually(lambda: client.deliveries)
        client.abort()
    handler(inboxd, always(DONE))
    assert inbox.wait_status("x", "processed")["crash_count"] == 1


def test_one_crashing_handler_does_not_stop_another(inboxd, handler, produce, topic, inbox):
    crashing = handler(inboxd, always(NEVER), name="crashing", subscribe=[{"topic": topic,
                                                                         "types": ["bad"]}])
    steady = handler(inboxd, always(DONE), name="steady", subscribe=[{"topic": topic,
                                                                     "types": ["good"]}])
    for number in range(20):
        produce(topic, b"{}", headers={"id": f"g{number}", "type": "good"})
    produce(topic, b"{}", headers={"id": "b", "type": "bad"})
    eventually(lambda: crashing.deliveries)
    crashing.abort()
    inbox.wait_processed(20)
    assert len(steady.deliveries) == 20


def test_connected_handlers_are_counted(inboxd, handler):
    first = handler(inboxd, always(DONE), name="billing")
    handler(inboxd, always(DONE), name="billing")
    eventually(lambda: inboxd.metric("inboxd_handlers_connected", handler="billing") == 2)
    first.close()
    eventually(lambda: inboxd.metric("inboxd_handlers_connected", handler="billing") == 1)


def test_a_user_that_is_not_allowed_is_refused(start_inboxd):
    sidecar = start_inboxd(socket={"allow_uid": [str(os.geteuid() + 4711)]})
    wire = Wire(sidecar.socket_path)
    wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello",
                    "params": {"protocol": [1], "handler": "h"}})
    assert wire.read_line()["error"]["code"] == -32000


def test_a_user_that_is_allowed_is_accepted(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(socket={"allow_uid": [str(os.geteuid())]})
    handler(sidecar, always(DONE))
    streams.events(topic, ["x"])
    inbox.wait_processed(1)


def test_the_socket_has_the_mode_of_the_configuration(start_inboxd):
    sidecar = start_inboxd(socket={"mode": "0600"})
    assert os.stat(sidecar.socket_path).st_mode & 0o777 == 0o600


def test_a_socket_left_over_by_a_killed_sidecar_is_replaced(inboxd, handler, streams, topic, inbox):
    inboxd.kill()
    assert os.path.exists(inboxd.socket_path)
    inboxd.start()
    handler(inboxd, always(DONE))
    streams.events(topic, ["x"])
    inbox.wait_processed(1)


def test_a_socket_in_use_is_not_taken_away(inboxd, make_inboxd):
    other = make_inboxd(socket={"path": inboxd.socket_path}).start(ready=False)
    assert other.wait() == 5
    assert inboxd.socket_path in other.stderr
    assert inboxd.is_running()
