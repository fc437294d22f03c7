"""Several consumers of one message: each has its own rows, order, attempts and handlers."""

import concurrent.futures
import json
import signal
import threading

import pytest
from confluent_kafka import Producer

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, Refused, retry, settled

THREE = {"billing": {}, "search": {}, "mail": {}}


def ids(client):
    return sorted(delivery.event_id for delivery in client.deliveries)


@pytest.fixture
def send(produce, topic):
    def send(event_id, kind="plain", to=None, **options):
        return produce(to or topic, b"{}", headers={"id": event_id, "type": kind}, **options)

    return send


def rows(inbox):
    """{consumer: {event id: status}}"""
    found = {}
    for row in inbox.query("SELECT consumer, event_id, status FROM inbox.messages"):
        found.setdefault(row["consumer"], {})[row["event_id"]] = row["status"]
    return found


def test_each_consumer_makes_its_effect_once_of_five_concurrent_copies(start_inboxd, handler, streams, topic, kafka_server, inbox):
    """Five producers send the same messages at once. The handlers make their effects with inbox.complete()."""
    sidecar = start_inboxd(consumers=THREE)
    inbox.execute("CREATE TABLE effects (consumer text, event_id text)")
    wanted = [f"e{number:02}" for number in range(40)]

    def make_effect(delivery):
        with inbox.connect() as own:
            own.execute("INSERT INTO effects VALUES (%s, %s)", [delivery.params["delivery"]["consumer"], delivery.event_id])
            own.execute("SELECT inbox.complete(%s)", [delivery.claim])
        return settled()

    for name in THREE:
        handler(sidecar, make_effect, name=name)
    together = threading.Barrier(5)

    def send_copies(_):
        producer = Producer({"bootstrap.servers": kafka_server.bootstrap, "linger.ms": 0})
        producer.list_topics(topic)
        together.wait()
        for event_id in wanted:
            producer.produce(topic, b"{}", key=f"k{event_id[-1]}", headers=[("id", event_id), ("type", "plain")])
            producer.poll(0)
        assert producer.flush(30) == 0

    with concurrent.futures.ThreadPoolExecutor(5) as producers:
        list(producers.map(send_copies, range(5)))
    assert sum(streams.log_end(topic).values()) == 5 * len(wanted)
    eventually(lambda: sidecar.metric("inboxd_duplicates_total") == 4 * len(wanted))
    eventually(lambda: rows(inbox) == {name: dict.fromkeys(wanted, "processed") for name in THREE})
    assert sorted(tuple(row.values()) for row in inbox.query("SELECT consumer, event_id FROM effects")) == [
        (name, event_id) for name in sorted(THREE) for event_id in wanted]


def test_each_of_eight_consumers_gets_every_message(start_inboxd, handler, streams, topic, inbox):
    """A pipeline has 16 places for statements, and the gauges have two statements for each consumer."""
    names = [f"c{number}" for number in range(8)]
    wanted = [f"e{number:03}" for number in range(200)]
    sidecar = start_inboxd(consumers={name: {} for name in names})
    clients = {name: handler(sidecar, always(DONE), name=name) for name in names[:-1]}
    streams.events(topic, wanted[:100], key=lambda event_id: event_id[-1])
    for client in clients.values():
        client.wait_count(100)
    late = names[-1]
    eventually(lambda: sidecar.metric("inboxd_waiting", consumer=late) + sidecar.metric("inboxd_unrouted", consumer=late) == 100)
    clients[late] = handler(sidecar, always(DONE), name=late)
    streams.events(topic, wanted[100:], key=lambda event_id: event_id[-1])
    eventually(lambda: inbox.count("processed") == 8 * len(wanted), timeout=60)
    for name, client in clients.items():
        assert ids(client) == wanted, name
        for key in "0123456789":
            of_key = [event_id for event_id in client.event_ids if event_id[-1] == key]
            assert of_key == sorted(of_key), (name, key)
    for name in names:
        eventually(lambda: sidecar.metric("inboxd_waiting", consumer=name) == 0)  # pylint: disable=cell-var-from-loop


def test_a_consumer_gets_the_topics_and_types_that_it_wants(start_inboxd, handler, make_topic, send, inbox):
    orders, payments = make_topic(1), make_topic(1)
    sidecar = start_inboxd(kafka={"topics": [orders, payments]}, consumers={
        "billing": {"topics": [orders, payments], "types": ["order.*", "paid"]},
        "search": {"topics": [f"^{orders}$"]}})
    clients = [handler(sidecar, always(DONE), name=name) for name in ("billing", "search")]
    send("a", "order.made", to=orders)
    send("b", "paid", to=payments)
    send("c", "other", to=orders)
    send("d", "other", to=payments)
    eventually(lambda: rows(inbox) == {"billing": {"a": "processed", "b": "processed"},
                                       "search": {"a": "processed", "c": "processed"}})
    assert [ids(client) for client in clients] == [["a", "b"], ["a", "c"]]
    eventually(lambda: inbox.value("SELECT min(next_offset) FROM inbox.inbox_offsets") == 2)
    eventually(lambda: sidecar.metric("inboxd_unwanted_total", topic=payments) == 1)


def test_a_failing_consumer_does_not_hold_up_another(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {"max_attempts": 2}, "search": {"ordering": "none"}})
    failing = handler(sidecar, always(retry(delay_ms=1)), name="billing")
    handler(sidecar, always(DONE), name="search")
    for number in range(20):
        send(f"e{number}", key="k")
    eventually(lambda: set(rows(inbox).get("search", {}).values()) == {"processed"} and len(rows(inbox)["search"]) == 20)
    eventually(lambda: set(rows(inbox)["billing"].values()) == {"dead"})
    first = failing.deliveries[0]
    assert first.params["delivery"]["max_attempts"] == 2
    order = [delivery.event_id for delivery in failing.deliveries]
    assert order == sorted(order, key=lambda event_id: int(event_id[1:])), "in Kafka's order, two attempts each"
    assert len(order) == 40


def test_a_consumer_that_hangs_keeps_the_order_of_its_own_key_only(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {}, "search": {}})
    stuck = handler(sidecar, always(NEVER), name="billing")
    handler(sidecar, always(DONE), name="search")
    for number in range(5):
        send(f"e{number}", key="k")
    eventually(lambda: list(rows(inbox).get("search", {}).values()) == ["processed"] * 5)
    throughout(lambda: ids(stuck) == ["e0"], seconds=0.5)
    assert sidecar.stop() == 0


def test_handlers_choose_a_consumer_by_name(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {"timeout": "7s", "ordering": "partition"}, "search": {}})
    first = handler(sidecar, always(DONE), name="billing")
    assert first.session["consumer"] == "billing"
    assert (first.session["timeout_ms"], first.session["ordering"]) == (7000, "partition")
    worker = handler(sidecar, always(DONE), name="worker", consumer="search")
    same = handler(sidecar, always(DONE), name="worker", consumer="billing", subscribe=[{"types": ["x"]}])
    with pytest.raises(Refused) as refused:
        handler(sidecar, name="stranger")
    assert refused.value.code == -32004
    assert refused.value.data == {"reason": "unknown_consumer"}
    assert '"billing", "search"' in refused.value.message
    with pytest.raises(Refused) as refused:
        handler(sidecar, name="billing", consumer="mail")
    assert '"mail"' in refused.value.message
    with pytest.raises(Refused) as refused:
        handler(sidecar, name="other", consumer="search")
    assert refused.value.code == -32003, "an equal subscription within the consumer"
    send("a", "x")
    eventually(lambda: rows(inbox) == {"billing": {"a": "processed"}, "search": {"a": "processed"}})
    assert [ids(client) for client in (first, worker, same)] == [[], ["a"], ["a"]]


@pytest.mark.slow
def test_a_consumer_added_in_a_rolling_update_misses_nothing_from_its_start_on(start_inboxd, handler, send, inbox, topic):
    """The old sidecar stores for the consumer that only the new one lists."""
    old = start_inboxd(consumers={"billing": {}}, inbox={"instance": "old"})
    handler(old, always(DONE), name="billing")
    send("before")
    inbox.wait_processed(1)
    new = start_inboxd(consumers={"billing": {}, "search": {}}, inbox={"instance": "new"})
    handler(new, always(DONE), name="billing")
    handler(new, always(DONE), name="search")
    eventually(lambda: "search" in old.stderr and "consumer_not_listed" in old.stderr)
    for number in range(40):
        send(f"e{number}", key=f"k{number}")
    eventually(lambda: len(rows(inbox).get("search", {})) == 40, what="rows for search, from both sidecars")
    assert new.stop() == 0
    for number in range(40, 60):
        send(f"e{number}", key=f"k{number}")
    eventually(lambda: len(rows(inbox)["search"]) == 60, what="rows while no sidecar lists it")
    eventually(lambda: set(rows(inbox)["billing"].values()) == {"processed"})
    restarted = start_inboxd(consumers={"billing": {}, "search": {}}, inbox={"instance": "new"})
    handler(restarted, always(DONE), name="search")
    handler(restarted, always(DONE), name="billing")
    eventually(lambda: set(rows(inbox)["search"].values()) == {"processed"}, timeout=60)
    assert "before" not in rows(inbox)["search"]


def test_a_reload_changes_the_memory_of_consumers(start_inboxd, inbox):
    sidecar = start_inboxd(consumers={"billing": {}}, worker={"lease": "3s"})
    memory = "SELECT extract(epoch FROM memory)::int FROM inbox.inbox_consumers WHERE name = 'billing'"
    eventually(lambda: inbox.value(memory) == 603)
    sidecar.write_configuration({"inbox": {"handler_memory": "1m"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: inbox.value(memory) == 63)


def test_a_removed_consumer_ends_after_its_memory(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {}, "search": {}})
    handler(sidecar, always(DONE), name="billing")
    send("a")
    eventually(lambda: rows(inbox).get("search") == {"a": "parked"} and rows(inbox)["billing"] == {"a": "processed"})
    sidecar.stop()
    sidecar.write_configuration({"inbox": {"handler_memory": "1s"}})
    again = start_inboxd(consumers={"billing": {}}, inbox={"handler_memory": "1s"})
    handler(again, always(DONE), name="billing")
    send("b")
    eventually(lambda: rows(inbox)["billing"].get("b") == "processed")
    inbox.execute("DELETE FROM inbox.inbox_consumers WHERE name = 'search'")
    eventually(lambda: "consumer_ended" in again.stderr)
    send("c")
    eventually(lambda: rows(inbox)["billing"].get("c") == "processed")
    assert "c" not in rows(inbox)["search"]
    assert rows(inbox)["search"]["a"] == "parked", "its rows stay"


def test_messages_that_wait_for_nobody_are_reported_until_they_are_discarded(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {}, "search": {}})
    handler(sidecar, always(DONE), name="billing")
    send("a")
    send("b")
    eventually(lambda: rows(inbox).get("search") == {"a": "parked", "b": "parked"})
    sidecar.stop()
    inbox.execute("SELECT inbox.forget_consumer('search', 'removed')")
    again = start_inboxd(consumers={"billing": {}})
    eventually(lambda: again.metric("inboxd_waiting_for_nobody", consumer="search") == 2, timeout=30)
    eventually(lambda: again.stderr.count("event=rows_wait_for_nobody consumer=search rows=2") == 1)
    eventually(lambda: again.status()["waiting_for_nobody"] == 2 and again.status()["unrouted"] == 0)
    eventually(lambda: json.loads(again.get("/readyz")[2]) == {"ready": True, "notes": [
        "messages that wait for a consumer that no sidecar lists any more: 2"]})
    assert not again.metrics().has("inboxd_unrouted", consumer="search")
    again.command("discard", "--consumer", "search", "--yes", "--reason", "removed")
    eventually(lambda: not again.metrics().has("inboxd_waiting_for_nobody", consumer="search"), timeout=30)
    eventually(lambda: again.status()["waiting_for_nobody"] == 0)
    eventually(lambda: "notes" not in json.loads(again.get("/readyz")[2]))


def test_a_handler_of_a_consumer_that_nobody_lists_is_reported(start_inboxd, make_inboxd, handler, send, inbox):
    """The first section of a service: its handler goes on, until the consumer without a name is ended on purpose."""
    before = start_inboxd()
    handler(before, always(DONE), name="invoices")
    send("a")
    inbox.wait_processed(1)
    eventually(lambda: inbox.query("SELECT name FROM inbox.inbox_handlers") == [{"name": "invoices"}])
    before.stop()
    later = make_inboxd(consumers={"stats": {}, "invoices": {}})
    checked = later.command("check")
    assert checked.returncode == 6
    assert 'consumer "" (waiting: 0; handlers: invoices)' in checked.stdout and "inboxd consumers rename '' NAME" in checked.stdout
    inbox.execute("UPDATE inbox.inbox_consumers SET listed_at = '2020-01-01'")
    later.start()
    client = handler(later, always(DONE), name="invoices")
    send("b")
    assert client.wait_event("b").params["delivery"].get("consumer", "") == "", "a consumer of its name takes nothing away from it"
    assert "inboxd_handlers_lapsed{" not in later.get("/metrics")[2]

    assert later.command("consumers", "forget", "", "--reason", "ended").returncode == 0
    eventually(lambda: later.metric("inboxd_handlers_lapsed", handler="invoices") == 1, timeout=60)
    eventually(lambda: json.loads(later.get("/readyz")[2]).get("notes") == [
        "messages that wait and that no connected handler has subscribed to: 2",
        "connected handlers whose consumer no sidecar lists any more: 1"])  # the metric is set a moment before
    eventually(lambda: later.status()["handlers_lapsed"] == 1)
    eventually(lambda: "event=handler_lapsed handler=invoices" in later.stderr)
    assert "no longer known: these messages wait for nobody, and the connected handler invoices gets no new ones" in \
        later.command("status").stdout
    assert later.command("check").returncode == 6
    client.close()
    eventually(lambda: not later.metrics().has("inboxd_handlers_lapsed", handler="invoices"), timeout=60)


def test_messages_that_wait_for_nobody_do_not_pause_ingest(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(consumers={"billing": {}, "search": {}})
    handler(sidecar, always(DONE), name="billing")
    for number in range(5):
        send(f"e{number}")
    eventually(lambda: list(rows(inbox).get("search", {}).values()) == ["parked"] * 5)
    sidecar.stop()
    again = start_inboxd(consumers={"billing": {}}, ingest={"max_pending": 3}, worker={"claim_batch": 1})
    handler(again, always(DONE), name="billing")
    eventually(lambda: again.metric("inboxd_unrouted", consumer="search") > 3, timeout=30)
    eventually(lambda: again.metric("inboxd_partitions_paused") > 0, timeout=30)
    send("late")
    inbox.execute("DELETE FROM inbox.inbox_consumers WHERE name = 'search'")
    eventually(lambda: rows(inbox)["billing"].get("late") == "processed", timeout=60)
    assert list(rows(inbox)["search"].values()) == ["parked"] * 5


def test_without_consumers_no_series_has_one(inboxd, handler, send, inbox):
    handler(inboxd, always(DONE), name="billing")
    send("a")
    inbox.wait_processed(1)
    eventually(lambda: inboxd.metric("inboxd_end_to_end_seconds_count") == 1)  # counted after the COMMIT
    eventually(lambda: inboxd.metric("inboxd_deliveries_total", handler="billing", outcome="done") == 1)
    page = inboxd.get("/metrics")[2]
    assert "consumer=" not in page and "\ninboxd_waiting_for_nobody" not in page
    for line in ("inboxd_waiting ", "inboxd_unrouted ", "inboxd_oldest_waiting_seconds ", "inboxd_end_to_end_seconds_count 1",
                 'inboxd_in_flight{handler="billing"} ', 'inboxd_deliveries_total{handler="billing",outcome="done"} 1'):
        assert f"\n{line}" in page


def test_the_metrics_tell_consumers_apart(start_inboxd, handler, send):
    """Two consumers have a handler of the same name, and the third has none."""
    sidecar = start_inboxd(consumers=THREE)
    of = sidecar.metric
    handler(sidecar, always(DONE), name="same", consumer="billing")
    busy = handler(sidecar, always(NEVER), name="same", consumer="search")
    send("a")
    eventually(lambda: ids(busy) == ["a"])
    eventually(lambda: of("inboxd_deliveries_total", handler="same", consumer="billing", outcome="done") == 1)
    assert of("inboxd_deliveries_total", handler="same", consumer="search", outcome="done") == 0
    eventually(lambda: {name: of("inboxd_in_flight", handler="same", consumer=name) for name in ("billing", "search")} ==
               {"billing": 0, "search": 1})
    eventually(lambda: of("inboxd_end_to_end_seconds_count", consumer="billing") == 1)  # counted after the COMMIT
    assert {name: of("inboxd_end_to_end_seconds_count", consumer=name) for name in THREE} == \
        {"billing": 1, "search": 0, "mail": 0}
    eventually(lambda: of("inboxd_unrouted", consumer="mail") == 1, timeout=30)
    eventually(lambda: {name: of("inboxd_unrouted", consumer=name) for name in ("billing", "search")} == {"billing": 0, "search": 0})
    eventually(lambda: {name: of("inboxd_waiting", consumer=name) for name in THREE} == dict.fromkeys(THREE, 0))
    eventually(lambda: of("inboxd_oldest_waiting_seconds", consumer="mail") > 0, timeout=30)
    eventually(lambda: of("inboxd_oldest_waiting_seconds", consumer="billing") == 0)
    eventually(lambda: sidecar.status()["unrouted"] == 1)
    assert not any("consumer" not in dict(labels) for name, labels in sidecar.metrics() if name == "inboxd_waiting")


def test_the_consumer_without_a_name_lives_on_beside_the_first_named_ones(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd()
    everything = handler(sidecar, always(DONE), name="billing")
    send("a")
    inbox.wait_processed(1)
    sidecar.stop()
    named = start_inboxd(consumers={"billing": {}})
    eventually(lambda: "consumer_not_listed" in named.stderr)
    billing = handler(named, always(DONE), name="billing", consumer="billing")
    old = handler(named, always(DONE), name="old")
    assert "consumer" not in old.session
    send("b")
    eventually(lambda: rows(inbox) == {"": {"a": "processed", "b": "processed"}, "billing": {"b": "processed"}})
    assert [ids(client) for client in (everything, billing, old)] == [["a"], ["b"], ["b"]]


def test_the_newest_definition_of_a_consumer_decides(start_inboxd, handler, send, inbox):
    first = start_inboxd(consumers={"billing": {"types": ["a"]}})
    handler(first, always(DONE), name="billing")
    send("1", "a")
    inbox.wait_processed(1)
    second = start_inboxd(consumers={"billing": {"types": ["a", "b"]}})
    handler(second, always(DONE), name="billing")
    eventually(lambda: "consumer_redefined" in second.stderr)
    line = next(line for line in second.stderr.splitlines() if "consumer_redefined" in line)
    assert line.index("before=") < line.index("after=") and '\\"b\\"' in line[line.index("after="):]
    eventually(lambda: inbox.value("SELECT types FROM inbox.inbox_consumers WHERE name = 'billing'") == ["a", "b"])
    second.stop()
    eventually(lambda: send("x", "b") is None or "x" in rows(inbox)["billing"], timeout=30)
    eventually(lambda: rows(inbox)["billing"].get("x") == "processed")


@pytest.mark.parametrize("orderings", [("key", "none"), ("key", "partition"), ("none", "partition"), ("partition", "partition")])
def test_consumers_with_different_orderings_are_claimed_from_the_table(start_inboxd, handler, send, inbox, orderings):
    """A small budget: most rows wait in the table and are claimed by different statements of one claim."""
    sidecar = start_inboxd(inbox={"max_claimed": 6, "max_in_flight": 6}, worker={"claim_batch": 6},
                           consumers={f"c{number}": {"ordering": ordering} for number, ordering in enumerate(orderings)})
    clients = [handler(sidecar, always(DONE), name=f"c{number}") for number in range(2)]
    for number in range(120):
        send(f"{number:03}", key=f"k{number % 3}", partition=0)
    eventually(lambda: inbox.count("processed") == 240, timeout=90)
    for ordering, client in zip(orderings, clients):
        order = [delivery.event_id for delivery in client.deliveries]
        if ordering == "partition":
            assert order == sorted(order)
        for key in range(3) if ordering == "key" else ():
            of_key = [event_id for event_id in order if int(event_id) % 3 == key]
            assert of_key == sorted(of_key)


def test_an_overflow_ends_although_the_handler_of_its_consumer_is_gone(start_inboxd, handler, send, inbox):
    """A claim parks the messages of the overflow. The ten that are in memory when the handler leaves can come back after
    the overflow has ended; then they stay due."""
    sidecar = start_inboxd(inbox={"max_claimed": 10, "max_in_flight": 10}, worker={"poll": "100ms"},
                           consumers={"billing": {}, "search": {}})
    stuck = handler(sidecar, always(NEVER), name="search")
    for number in range(40):
        send(f"e{number}")
    eventually(lambda: list(rows(inbox).get("search", {}).values()).count("waiting") > 10)
    handler(sidecar, always(DONE), name="billing")
    stuck.close()
    eventually(lambda: set(rows(inbox)["search"].values()) <= {"parked", "waiting"})
    eventually(lambda: list(rows(inbox)["search"].values()).count("parked") >= 20)
    eventually(lambda: list(rows(inbox)["billing"].values()) == ["processed"] * 40)
    back = handler(sidecar, always(DONE), name="search")
    eventually(lambda: list(rows(inbox)["search"].values()) == ["processed"] * 40)
    assert len(back.deliveries) == 40


@pytest.mark.slow
def test_a_consumer_stays_listed_although_the_lease_is_long(start_inboxd, inbox):
    start_inboxd(worker={"lease": "10m"}, consumers={"billing": {}})
    eventually(lambda: inbox.value("SELECT status FROM inbox.consumers") == "listed")
    throughout(lambda: inbox.value("SELECT status FROM inbox.consumers") == "listed", seconds=65)
