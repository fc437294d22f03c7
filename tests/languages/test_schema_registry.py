"""The examples that decode Avro, with a real schema registry and Confluent's serializer."""

import itertools
import json
import pathlib
import re
import subprocess

import pytest

from languages.libraries import DECODERS, PYTHON
from support.examples import Example
from support.proxy import Proxy
from support.registry import Registry
from support.wait import eventually

PRODUCER = pathlib.Path(__file__).with_name("avro_orders.py")
TYPE = {"eventType": "order.placed"}
LIMIT = 60
FIRST = [{"name": "order", "type": "long"}, {"name": "cents", "type": "long"}]
SECOND = FIRST + [{"name": "currency", "type": "string", "default": "EUR"}]
THIRD = SECOND + [{"name": "note", "type": ["null", "string"], "default": None}]
numbers = itertools.count()

pytestmark = pytest.mark.parametrize("language", sorted(DECODERS))


@pytest.fixture(scope="session")
def registry():
    server = Registry()
    yield server.start()
    server.stop()


@pytest.fixture
def proxy(registry):  # pylint: disable=redefined-outer-name
    with Proxy(registry.port) as between:
        yield between


@pytest.fixture
def decoder(inboxd, registry, proxy):  # pylint: disable=redefined-outer-name
    """decoder(language, url=…) -> its example, which reaches the registry through the proxy; it must end with success."""
    made = []

    def start(language, url=None):
        made.append(Example(language, inboxd.socket_path, {"SCHEMA_REGISTRY_URL": url or registry.url(proxy.port)},
                            DECODERS[language]))
        return made[-1]

    yield start
    for one in made:
        assert one.stop() == 0, one.output


@pytest.fixture
def orders(kafka_server, registry, topic):  # pylint: disable=redefined-outer-name
    """orders((fields, more members)…) -> the event ids and the schema ids of one order with each."""

    def make(*wanted):
        lines = []
        for fields, more in wanted:
            number = next(numbers)
            schema = {"type": "record", "name": "Order", "fields": fields}
            lines.append([schema, f"A{number}", f"key-{number}", {"order": number, "cents": 1250, **more}])
        done = subprocess.run([PYTHON, str(PRODUCER), kafka_server.bootstrap, registry.url(), topic], check=False, text=True,
                              capture_output=True, timeout=LIMIT, input="".join(json.dumps(line) + "\n" for line in lines))
        assert done.returncode == 0, done.stderr
        return [line[1] for line in lines], [int(schema_id) for schema_id in done.stdout.split()]

    return make


def test_orders_of_older_and_newer_schemas_are_decoded_with_one_request_for_each(language, decoder, orders, proxy, inbox):
    each = ((FIRST, {}), (SECOND, {"currency": "USD"}), (THIRD, {"currency": "CHF", "note": "urgent"}))
    requests = []
    proxy.change_requests(lambda data: requests.append(data) or data)
    decoder(language)
    ids, schemas = orders(*each)
    for event_id in ids:
        inbox.wait_status(event_id, "processed", timeout=LIMIT)
    results = [inbox.message(event_id)["result"] for event_id in ids]
    assert results == [{"order": int(event_id[1:]), "cents": 1250, "currency": currency}
                       for event_id, currency in zip(ids, ("EUR", "USD", "CHF"))]
    for event_id in orders(*each * 5)[0]:
        inbox.wait_status(event_id, "processed", timeout=LIMIT)
    asked = re.findall(rb"/schemas/ids/(\d+)", b"\n".join(requests))
    assert sorted(map(int, asked)) == sorted(schemas)


def test_while_the_registry_is_away_messages_wait_and_spend_no_attempt(language, decoder, orders, proxy, inbox):
    proxy.blackhole()  # it accepts connections, and does not answer
    (silent,), _ = orders((FIRST, {}))
    decoder(language)
    eventually(lambda: inbox.message(silent)["error_code"] == "REGISTRY_AWAY", timeout=LIMIT)
    proxy.refuse()
    (refused,), _ = orders((FIRST, {}))
    eventually(lambda: inbox.message(refused)["error_code"] == "REGISTRY_AWAY", timeout=LIMIT)
    proxy.heal()
    proxy.accept()
    for event_id in (silent, refused):
        inbox.wait_status(event_id, "processed", timeout=LIMIT)
        assert inbox.message(event_id)["retry_count"] == 0


def test_a_wrong_address_of_the_registry_makes_no_message_dead(language, decoder, orders, registry, inbox):
    ids, _ = orders((FIRST, {}))
    decoder(language, url=f"http://127.0.0.1:{registry.port}/wrong")
    eventually(lambda: inbox.message(ids[0])["error_code"] == "REGISTRY_AWAY", timeout=LIMIT)
    assert "404" in inbox.message(ids[0])["error"]


def test_what_is_no_order_of_a_known_schema_is_dead(language, decoder, orders, registry, produce, topic, inbox):
    names = registry.register("names", {"type": "record", "name": "Order", "fields": [{"name": "name", "type": "string"}]})
    (good,), (orders_schema,) = orders((FIRST, {}))
    values = {"json": b'{"order":1}', "bytes": b"\xff\xfe", "short": b"\0\0\0", "unknown": b"\0\x7f\0\0\1\2\2",
              "other": b"\0" + names.to_bytes(4, "big") + b"\2a", "cut": b"\0" + orders_schema.to_bytes(4, "big") + b"\2"}
    for event_id, value in values.items():
        produce(topic, value, headers={"id": event_id, **TYPE})
    produce(topic, None, headers={"id": "tombstone", **TYPE})
    decoder(language)
    for event_id in values:
        row = inbox.wait_status(event_id, "dead", timeout=LIMIT)
        assert row["error_code"] == "DATA", row["error"]
    assert "unknown schema" in inbox.message("unknown")["error"]
    for event_id in (good, "tombstone"):
        inbox.wait_status(event_id, "processed", timeout=LIMIT)
