"""The other examples of the libraries, with a real sidecar."""

import pytest

from languages.libraries import EMITTERS, OTHERS
from system import test_examples as shared


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_an_example_handles_messages_and_stops_cleanly(example, orders, inbox, name):
    ids = orders(20)
    program = example(name)
    shared.wait_processed(inbox, ids)
    assert program.stop() == 0, program.output


@pytest.mark.parametrize("name", sorted(EMITTERS))
def test_an_example_emits_an_event_for_each_message(example, orders, inbox, name):
    ids = orders(20, event_type="order.paid")
    program = example(name)
    shared.wait_processed(inbox, ids)
    events = inbox.query("SELECT topic, event_type, key, payload_json FROM inbox.events ORDER BY seq")
    assert sorted(one["payload_json"]["order"] for one in events) == sorted(int(order.rpartition("-")[2]) for order in ids)
    assert {(one["topic"], one["event_type"], bytes(one["key"]).decode() == str(one["payload_json"]["order"])) for one in events} == {
        ("shipments", "shipment.created", True)}
    assert program.stop() == 0, program.output
