"""Routing uses the known handlers, not only the connected ones: messages wait for a handler that restarts."""

import json

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, retry, settled, Wire

QUICK = {"worker": {"lease": "3s", "poll": "100ms"}}
TOTALS = [{"types": ["order.*"]}]
BILLING = [{"types": ["order.created"]}]


def settings(**inbox):
    return {**QUICK, "inbox": inbox}


@pytest.fixture
def send(produce, topic):
    def send(event_id, kind="order.created", **options):
        produce(topic, b"{}", headers={"id": event_id, "type": kind}, **options)

    return send


@pytest.fixture
def both(handler):
    """both(sidecar) -> the clients of totals and billing."""
    def connect(sidecar):
        return (handler(sidecar, always(DONE), name="totals", subscribe=TOTALS),
                handler(sidecar, always(DONE), name="billing", subscribe=BILLING))

    return connect


def known(inbox):
    return {row["name"]: row["status"] for row in inbox.query("SELECT name, status FROM inbox.handlers")}


def leave(client, sidecar, name="billing"):
    """Disconnects the handler and waits until the sidecar knows that it is away."""
    client.close()
    eventually(lambda: sidecar.status()["handlers_away"] == [name])


def handlers_of(sidecar):
    return [json.loads(line) for line in sidecar.command("handlers", "--json").stdout.splitlines()]


def test_messages_wait_for_a_handler_that_restarts(start_inboxd, handler, both, send, inbox):
    """Two handlers, the sidecar restarts in between, and no invoice is missing."""
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    send("o1")
    inbox.wait_processed(1)
    leave(billing, sidecar)
    eventually(lambda: "event=handler_away handler=billing" in sidecar.stderr)
    send("o2")
    send("p2", "order.paid")
    inbox.wait_processed(2)
    inbox.wait_status("o2", "parked")
    eventually(lambda: sidecar.metric("inboxd_unrouted") == 1)
    assert sidecar.metric("inboxd_handlers_connected", handler="billing") == 0

    sidecar.restart()
    totals = handler(sidecar, always(DONE), name="totals", subscribe=TOTALS)
    eventually(lambda: sidecar.status()["handlers_away"] == ["billing"])
    assert sidecar.metric("inboxd_handlers_connected", handler="billing") == 0
    send("o3")
    send("p3", "order.paid")
    totals.wait_event("p3")
    inbox.wait_status("o3", "parked")
    assert totals.event_ids == ["p3"]

    billing = handler(sidecar, always(DONE), name="billing", subscribe=BILLING)
    inbox.wait_processed(5)
    assert sorted(billing.event_ids) == ["o2", "o3"]
    assert {row["event_id"]: row["handler"] for row in inbox.messages()} == \
        {"o1": "billing", "o2": "billing", "o3": "billing", "p2": "totals", "p3": "totals"}
    assert sidecar.status()["handlers_away"] == []


def test_a_sidecar_without_connections_parks_for_known_handlers(start_inboxd, handler, both, send, inbox):
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    eventually(lambda: known(inbox) == {"totals": "connected", "billing": "connected"})
    sidecar.stop()
    totals.close()
    billing.close()
    send("o1")
    sidecar.start()
    eventually(lambda: sorted(sidecar.status()["handlers_away"]) == ["billing", "totals"])
    inbox.wait_status("o1", "parked")
    totals = handler(sidecar, always(DONE), name="totals", subscribe=TOTALS)
    send("p1", "order.paid")
    totals.wait_event("p1")
    assert totals.event_ids == ["p1"]
    billing = handler(sidecar, always(DONE), name="billing", subscribe=BILLING)
    billing.wait_event("o1")


def test_undelivered_messages_wait_for_a_disconnected_handler(start_inboxd, handler, send, inbox):
    sidecar = start_inboxd(QUICK)
    totals = handler(sidecar, always(DONE), name="totals", subscribe=TOTALS)
    billing = handler(sidecar, always(NEVER), name="billing", subscribe=BILLING, max_in_flight=1)
    for event_id in ("o1", "o2", "o3"):
        send(event_id)
    billing.wait_count(1)
    eventually(lambda: inbox.count("claimed") == 3)
    leave(billing, sidecar)
    for event_id in ("o1", "o2", "o3"):
        inbox.wait_status(event_id, "parked")
    assert totals.count == 0
    back = handler(sidecar, always(DONE), name="billing", subscribe=BILLING)
    inbox.wait_processed(3)
    assert sorted(back.event_ids) == ["o1", "o2", "o3"] and totals.count == 0


def test_no_message_is_routed_before_the_known_handlers_are_read(start_inboxd, handler, both, send, inbox):
    """Otherwise the first messages after a start would go to the less specific handler."""
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    eventually(lambda: "billing" in known(inbox))
    sidecar.stop()
    totals.close()
    billing.close()
    inbox.execute("REVOKE SELECT ON inbox.inbox_handlers FROM inboxd_sidecar")
    inbox.execute("GRANT SELECT (name, consumer) ON inbox.inbox_handlers TO inboxd_sidecar")  # is read at the start
    sidecar.start(ready=False)
    eventually(lambda: Wire(sidecar.socket_path).close() is None)
    totals = handler(sidecar, always(DONE), name="totals", subscribe=TOTALS)
    send("o1")
    send("p1", "order.paid")
    inbox.wait_status("o1", "parked")
    inbox.wait_status("p1", "parked")
    # Longer than from one sweep of the parked to the next.
    throughout(lambda: {inbox.message(name)["status"] for name in ("o1", "p1")} == {"parked"}, 4)
    inbox.execute("GRANT SELECT ON inbox.inbox_handlers TO inboxd_sidecar")
    totals.wait_event("p1")
    eventually(lambda: sidecar.status()["handlers_away"] == ["billing"])
    handler(sidecar, always(DONE), name="billing", subscribe=BILLING).wait_event("o1")
    assert totals.event_ids == ["p1"]


def test_an_uncommitted_forget_does_not_delay_messages(start_inboxd, handler, send, inbox):
    """The row of the handler is locked; the workers still run claims."""
    sidecar = start_inboxd(QUICK)
    handler(sidecar, lambda delivery: retry(0) if delivery.attempt < 4 else DONE, name="billing", subscribe=BILLING)
    eventually(lambda: "billing" in known(inbox))
    with inbox.connect() as operator:
        operator.autocommit = False
        operator.execute("SELECT inbox.forget_handler('billing')")
        eventually(lambda: "sqlstate=55P03" in sidecar.stderr)
        send("o1")
        inbox.wait_processed(1)
        operator.rollback()


def test_show_and_status_name_the_handler_a_message_waits_for(start_inboxd, both, send, inbox):
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    eventually(lambda: "billing" in known(inbox))
    leave(billing, sidecar)
    eventually(lambda: known(inbox)["billing"] == "away")
    send("o1")
    inbox.wait_status("o1", "parked")
    assert "waits for: handler billing, away since 2" in sidecar.command("show", "o1").stdout
    assert json.loads(sidecar.command("show", "o1", "--json").stdout)["waits_for"] == "billing"
    status = json.loads(sidecar.command("status", "--json").stdout)["handlers"]
    assert {(h["name"], h["status"]) for h in status} == {("billing", "away"), ("totals", "connected")}
    text = sidecar.command("status").stdout
    assert "billing  away since 2" in text and "totals   connected to " in text


def test_handlers_lists_known_handlers_and_forget_removes_one_at_once(start_inboxd, both, send, inbox):
    sidecar = start_inboxd(QUICK, inbox={"instance": "pod-7"})
    totals, billing = both(sidecar)
    eventually(lambda: [h["status"] for h in handlers_of(sidecar)] == ["connected", "connected"])
    listed = {h["name"]: h for h in handlers_of(sidecar)}
    assert listed["billing"]["instances"] == ["pod-7"]
    assert listed["billing"]["subscriptions"] == BILLING
    assert listed["billing"]["known_since"] == listed["billing"]["connected_at"]
    leave(billing, sidecar)
    eventually(lambda: {h["name"]: h["status"] for h in handlers_of(sidecar)} ==
               {"billing": "away", "totals": "connected"})
    table = sidecar.command("handlers").stdout
    assert "HANDLER" in table and "*/order.created" in table and "pod-7" in table
    send("o1")
    inbox.wait_status("o1", "parked")

    done = sidecar.command("handlers", "forget", "billing", "--reason", "retired")
    assert done.returncode == 0, done.stderr
    totals.wait_event("o1")
    assert [h["name"] for h in handlers_of(sidecar)] == ["totals"]
    eventually(lambda: 'handler="billing"' not in str(sidecar.get("/metrics")))
    assert inbox.query("SELECT filter, reason, affected FROM inbox.inbox_audit WHERE action = 'forget_handler'") == \
        [{"filter": {"handler": "billing"}, "reason": "retired", "affected": 1}]
    again = sidecar.command("handlers", "forget", "billing")
    assert again.returncode == 6 and "billing" in again.stderr
    assert sidecar.command("handlers", "lose", "billing").returncode == 1
    assert sidecar.command("handlers", "forget").returncode == 1
    eventually(lambda: "event=handler_forgotten handler=billing" in sidecar.stderr)


def test_a_handler_is_forgotten_after_handler_memory(start_inboxd, both, send, inbox):
    sidecar = start_inboxd(settings(handler_memory="2s"))
    totals, billing = both(sidecar)
    eventually(lambda: "billing" in known(inbox))
    billing.close()
    eventually(lambda: "event=handler_away handler=billing" in sidecar.stderr)  # it is away for two seconds only
    send("o1")
    inbox.wait_stored(1)
    totals.wait_event("o1")
    assert sidecar.status()["handlers_away"] == []
    assert known(inbox)["billing"] == "lapsed" and [h["name"] for h in handlers_of(sidecar)] == ["totals"]
    assert sidecar.metric("inboxd_handlers_connected", handler="billing") == 0, "the alert goes on"


def test_without_a_memory_only_connected_handlers_count(start_inboxd, both, send, inbox):
    sidecar = start_inboxd(settings(handler_memory=0))
    totals, billing = both(sidecar)
    eventually(lambda: "billing" in known(inbox))
    billing.close()
    eventually(lambda: sidecar.status()["handlers"] == ["totals"])
    send("o1")
    totals.wait_event("o1")
    assert sidecar.status()["handlers_away"] == [] and "handler_away" not in sidecar.stderr


def test_a_handler_of_another_sidecar_is_known(start_inboxd, handler, both, send, inbox):
    """The second sidecar has never seen billing, and yet does not give its messages to totals."""
    never = {"inbox": {"handler_absence": "never"}}
    first = start_inboxd(QUICK, **never)
    totals, billing = both(first)
    eventually(lambda: "billing" in known(inbox))
    second = start_inboxd(QUICK, inbox={"handler_absence": "never", "instance": "second"})
    others = handler(second, always(DONE), name="totals", subscribe=TOTALS)
    eventually(lambda: second.status()["handlers_away"] == ["billing"])
    eventually(lambda: inbox.value("SELECT count(DISTINCT owner) FROM inbox.inbox_offsets") == 2, timeout=40)
    for number in range(40):
        send(f"o{number}")
    inbox.wait_stored(40)
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.messages WHERE status IN ('parked', 'processed')") == 40)
    assert others.count == 0 and totals.count == 0
    first.stop()
    handler(second, always(DONE), name="billing", subscribe=BILLING)
    inbox.wait_processed(40)
    assert others.count == 0


def test_a_renamed_handler_replaces_its_old_name(start_inboxd, handler, both, send, inbox):
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    wire = Wire(sidecar.socket_path)
    wire.send_line({"jsonrpc": "2.0", "id": 1, "method": "hello",
                    "params": {"protocol": [1], "handler": "invoices", "subscribe": BILLING}})
    assert wire.read_line()["error"]["code"] == -32003, "connected here at this moment"
    wire.close()
    leave(billing, sidecar)
    send("o1")
    inbox.wait_status("o1", "parked")
    invoices = handler(sidecar, always(DONE), name="invoices", subscribe=BILLING)
    invoices.wait_event("o1")
    eventually(lambda: "event=handler_took_over handler=invoices from=billing" in sidecar.stderr)
    eventually(lambda: known(inbox).get("invoices") == "connected")
    leave_two(invoices, sidecar)
    send("o2")
    inbox.wait_status("o2", "parked")
    throughout(lambda: totals.count == 0, 1)


def leave_two(client, sidecar):
    client.close()
    eventually(lambda: sorted(sidecar.status()["handlers_away"]) == ["billing", "invoices"])


def test_a_returning_handler_replaces_its_subscriptions(start_inboxd, handler, both, send, inbox):
    sidecar = start_inboxd(QUICK)
    totals, billing = both(sidecar)
    leave(billing, sidecar)
    send("o1")
    inbox.wait_status("o1", "parked")
    changed = handler(sidecar, always(DONE), name="billing", subscribe=[{"types": ["order.paid"]}])
    totals.wait_event("o1")
    eventually(lambda: inbox.value("SELECT subscriptions::text FROM inbox.inbox_handlers WHERE name = 'billing'") ==
               '[{"types": ["order.paid"]}]')
    leave(changed, sidecar)
    send("o2")
    totals.wait_event("o2")
    send("p2", "order.paid")
    inbox.wait_status("p2", "parked")


def test_a_row_names_its_handler_after_every_outcome(start_inboxd, handler, send, inbox):
    def by_itself(delivery):
        inbox.execute("SELECT inbox.complete(%s)", [delivery.claim])
        return settled()

    sidecar = start_inboxd(QUICK)
    handler(sidecar, by_itself, name="exact", subscribe=[{"types": ["exact"]}])
    handler(sidecar, always(DONE), name="plain", subscribe=[{"types": ["plain"]}])
    handler(sidecar, lambda delivery: {"status": "dead", "reason": "no"}, name="strict",
            subscribe=[{"types": ["strict"]}])
    for kind in ("exact", "plain", "strict"):
        for number in range(5):
            send(f"{kind}{number}", kind)
    inbox.wait_processed(10)
    eventually(lambda: inbox.count("dead") == 5)
    eventually(lambda: {(row["event_type"], row["handler"]) for row in inbox.messages()} ==
               {("exact", "exact"), ("plain", "plain"), ("strict", "strict")})
    assert "handler: exact" in sidecar.command("show", "exact0").stdout
    assert json.loads(sidecar.command("list", "--type", "plain", "--json").stdout.splitlines()[0])["handler"] == "plain"
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL WHERE event_id = 'plain0'")
    eventually(lambda: inbox.message("plain0")["processed_at"] is not None)
    assert inbox.message("plain0")["handler"] == "plain"
