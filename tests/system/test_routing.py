"""Which handler gets a message, and what happens to messages without a handler."""

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, Wire


def ids(client):
    return sorted(delivery.event_id for delivery in client.deliveries)


@pytest.fixture
def send(produce, topic):
    def send(event_id, kind="plain", to=None, **options):
        return produce(to or topic, b"{}", headers={"id": event_id, "type": kind}, **options)

    return send


def test_the_most_specific_subscription_wins(inboxd, handler, send, topic, inbox):
    everything = handler(inboxd, always(DONE), name="everything")
    whole_topic = handler(inboxd, always(DONE), name="topic", subscribe=[{"topic": topic}])
    prefix = handler(inboxd, always(DONE), name="prefix",
                     subscribe=[{"topic": topic, "types": ["order.*"]}])
    longer = handler(inboxd, always(DONE), name="longer",
                     subscribe=[{"topic": topic, "types": ["order.paid.*"]}])
    exact = handler(inboxd, always(DONE), name="exact",
                    subscribe=[{"topic": topic, "types": ["order.paid.late"]}])
    send("a", "invoice")
    send("b", "order.made")
    send("c", "order.paid.early")
    send("d", "order.paid.late")
    inbox.wait_processed(4)
    assert [ids(client) for client in (everything, whole_topic, prefix, longer, exact)] == \
        [[], ["a"], ["b"], ["c"], ["d"]]


def test_a_handler_for_everything_gets_messages_without_another_handler(start_inboxd, handler, make_topic, send, inbox):
    topics = [make_topic(1), make_topic(1)]
    sidecar = start_inboxd(kafka={"topics": topics})
    everything = handler(sidecar, always(DONE), name="everything")
    one = handler(sidecar, always(DONE), name="one", subscribe=[{"topic": topics[0]}])
    send("a", to=topics[0])
    send("b", to=topics[1])
    inbox.wait_processed(2)
    assert (ids(one), ids(everything)) == (["a"], ["b"])


def test_connections_of_one_handler_share_its_messages(inboxd, handler, streams, topic, inbox):
    clients = [handler(inboxd, always(NEVER), name="billing", max_in_flight=4) for _ in range(3)]
    streams.events(topic, [f"e{number}" for number in range(6)])
    eventually(lambda: [client.count for client in clients] == [2, 2, 2])
    for client in clients:
        for delivery in list(client.deliveries):
            client.answer(delivery, DONE)
    inbox.wait_processed(6)


def test_messages_go_to_the_connection_that_is_free(inboxd, handler, streams, topic, inbox):
    stuck = handler(inboxd, always(NEVER), name="billing", max_in_flight=2)
    free = handler(inboxd, always(DONE), name="billing", max_in_flight=2)
    streams.events(topic, [f"e{number}" for number in range(50)])
    eventually(lambda: len(free.deliveries) >= 48)
    assert len(stuck.deliveries) <= 2


def hello(wire, name, subscribe):
    wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello",
                    "params": {"protocol": [1], "handler": name, "subscribe": subscribe}})
    return wire.read_line()


def test_too_many_subscriptions_are_refused_and_others_continue(inboxd, handler, send, topic, inbox):
    """Forty handlers with a thousand subscriptions each: those above the limit are refused, and the others continue."""
    billing = handler(inboxd, always(DONE), name="billing",
                      subscribe=[{"topic": topic, "types": ["order.*"]}])
    wires = [Wire(inboxd.socket_path) for _ in range(40)]
    replies = [hello(wire, f"many{n}", [{"types": [f"t{n}.{i}" for i in range(1000)]}])
               for n, wire in enumerate(wires)]
    refused = [reply["error"] for reply in replies if "error" in reply]
    assert len(refused) == 31  # 10,000 together, of which billing has one
    assert {error["code"] for error in refused} == {-32005}
    assert "10000 subscriptions" in refused[0]["message"]
    for n in range(20):
        send(f"e{n}", "order.made")
    inbox.wait_processed(20)
    assert len(billing.deliveries) == 20


def test_equal_subscriptions_of_different_handlers_are_refused(inboxd, handler, topic):
    handler(inboxd, always(DONE), name="first", subscribe=[{"topic": topic, "types": ["a"]}])
    wire = Wire(inboxd.socket_path)
    wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello",
                    "params": {"protocol": [1], "handler": "second",
                               "subscribe": [{"topic": topic, "types": ["a"]}]}})
    error = wire.read_line()["error"]
    assert error["code"] == -32003
    assert "first" in error["message"]


def test_a_message_without_handler_is_parked_until_its_handler_connects(inboxd, handler, send, topic, inbox):
    handler(inboxd, always(DONE), name="orders", subscribe=[{"topic": topic,
                                                             "types": ["order.*"]}])
    send("wanted", "order.made")
    send("unwanted", "invoice.made")
    inbox.wait_processed(1)
    row = inbox.wait_status("unwanted", "parked")
    assert (row["retry_count"], row["delivery_count"]) == (0, 0) or row["retry_count"] == 0
    eventually(lambda: inboxd.metric("inboxd_unrouted") == 1)
    late = handler(inboxd, always(DONE), name="invoices",
                   subscribe=[{"topic": topic, "types": ["invoice.*"]}])
    inbox.wait_processed(2)
    assert [delivery.attempt for delivery in late.deliveries] == [1]
    eventually(lambda: inboxd.metric("inboxd_unrouted") == 0)


def test_thousands_of_parked_messages_are_released(inboxd, handler, streams, topic, inbox):
    streams.events(topic, [f"e{number}" for number in range(3000)])
    inbox.wait_stored(3000)
    handler(inboxd, always(DONE))
    inbox.wait_processed(3000)


def test_a_message_without_handler_blocks_its_key(inboxd, handler, send, topic, inbox):
    client = handler(inboxd, always(DONE), subscribe=[{"topic": topic, "types": ["order.*"]}])
    send("unwanted", "invoice", key="k")
    send("behind", "order.made", key="k")
    send("free", "order.made", key="other")
    inbox.wait_processed(1)
    throughout(lambda: ids(client) == ["free"], 1)
    handler(inboxd, always(DONE), name="second", subscribe=[{"topic": topic, "types": ["invoice"]}])
    inbox.wait_processed(3)


def test_messages_wait_while_their_handler_is_away(inboxd, handler, streams, topic, inbox):
    first = handler(inboxd, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    first.close()
    eventually(lambda: inboxd.metric("inboxd_handlers_connected") == 0)
    streams.events(topic, ["b"])
    inbox.wait_stored(2)
    second = handler(inboxd, always(DONE))
    inbox.wait_processed(2)
    assert [delivery.attempt for delivery in second.deliveries] == [1]
