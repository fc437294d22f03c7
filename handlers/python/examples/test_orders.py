"""Tests of a function, without inboxd and Kafka. Run them with pytest."""

import pathlib

import inboxd
from inboxd.testing import deliver, load, message

CASE = pathlib.Path(__file__).with_name("a17.json")
handler = inboxd.Handler("billing")


@handler.on("orders")
def make_invoice(delivery):
    if "address" not in delivery.event.data:
        raise inboxd.Dead("an order without an address", code="ADDRESS")
    return inboxd.Done({"cents": delivery.event.data["cents"]}, [inboxd.Emit("invoice.made", topic="invoices")])


def test_an_order_without_an_address():  # the exported message
    outcome = deliver(handler, load(CASE))
    assert (outcome.status, outcome.code) == ("dead", "ADDRESS")


def test_an_order():
    outcome = deliver(handler, message({"cents": 1250, "address": "Main Street 1"}, topic="orders"))
    assert outcome.result == {"cents": 1250}, outcome.error
    assert [event["type"] for event in outcome.events] == ["invoice.made"]
