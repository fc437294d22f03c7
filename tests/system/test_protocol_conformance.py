"""The handler protocol, spoken byte by byte: docs/handler-protocol.md as tests.

Each test checks one sentence of the protocol. Other files test what happens to the message afterwards (backoff, death,
order); this one tests the lines on the socket and the row after the verdict.
"""

import base64
import json
import time

import pytest

from support.wait import eventually
from support.wire import Refused, Wire, hello_params

MAX_LINE = 33_554_432
LATER = 60_000  # milliseconds; longer than any test


@pytest.fixture
def connect():
    """connect(sidecar) -> Wire, closed after the test."""
    made = []

    def start(sidecar, **options):
        made.append(Wire(sidecar.socket_path, **options))
        return made[-1]

    yield start
    for wire in made:
        wire.close()


@pytest.fixture
def wire(connect, inboxd):
    """A raw connection that has not sent anything."""
    return connect(inboxd)


@pytest.fixture
def event(produce, topic):
    """event(event_id, value=…, **record) -> produces one event of type order.created."""

    def make(event_id, value=b'{"order":17}', headers=(), **record):
        fixed = [("id", event_id), ("eventType", "order.created")]
        return produce(topic, value, headers=fixed + list(headers), **record)

    return make


def serve(wire, topic, handler="wire", **params):
    """Sends a hello for the test's topic."""
    return wire.hello(handler, subscribe=[{"topic": topic}], **params)


def deliver(wire, topic, event, event_id="A1", **record):
    """One event, delivered on this connection; returns the request."""
    serve(wire, topic, timeout_ms=LATER)
    event(event_id, **record)
    return wire.expect_delivery()


def wait_status(inbox, event_id, status):
    return eventually(lambda: (row := inbox.message(event_id))["status"] == status and row,
                      what=f"{event_id} to be {status}")


def request(method, params=None, request_id=1):
    line = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return line if params is None else {**line, "params": params}


# Hello


def test_hello_is_answered_with_the_terms_of_the_session(start_inboxd, connect):
    sidecar = start_inboxd(retry={"max_attempts": 7})
    result = connect(sidecar).hello("billing", timeout_ms=12_000, max_in_flight=5)
    assert result["protocol"] == 1
    assert result["session"]
    assert result["max_line_bytes"] == MAX_LINE
    assert result["timeout_ms"] == 12_000
    assert result["max_attempts"] == 7
    assert result["ordering"] == "key"


@pytest.mark.parametrize("ordering", ["none", "partition"])
def test_the_hello_reply_has_the_order_of_messages(start_inboxd, connect, ordering):
    sidecar = start_inboxd(inbox={"ordering": ordering})
    assert connect(sidecar).hello(batch={"max": 10, "ordered": True})["ordering"] == ordering


def test_hello_needs_only_protocol_and_handler(wire):
    assert wire.request("hello", {"protocol": [1], "handler": "h"})["timeout_ms"] == 30_000


def test_the_id_of_a_request_is_returned_unchanged(connect, inboxd):
    for request_id in (0, -7, 1.5, "x", "", "ü\n\"", "1" * 200):
        connect(inboxd).request("hello", hello_params(), request_id)


def test_unknown_members_are_ignored(wire):
    line = request("hello", {**hello_params(), "later": {"handler": [1]}, "subscribe": None})
    wire.send_line({**line, "trace": [{"id": 5}]})
    assert wire.read_line()["result"]["protocol"] == 1


MALFORMED_PARAMETERS = [
    (None, "protocol"),
    ([], "params"),
    ({"protocol": [1]}, "handler"),
    ({"handler": "h"}, "protocol"),
    ({"protocol": 1, "handler": "h"}, "protocol"),
    ({"protocol": ["1"], "handler": "h"}, "protocol"),
    ({"protocol": [1], "handler": ""}, "handler"),
    ({"protocol": [1], "handler": 5}, "handler"),
    ({"protocol": [1], "handler": "h" * 256}, "handler"),
    ({"protocol": [1], "handler": "a\0b"}, "handler"),
    (hello_params(max_in_flight=-1), "max_in_flight"),
    (hello_params(max_in_flight="64"), "max_in_flight"),
    (hello_params(max_in_flight=1e300), "max_in_flight"),
    (hello_params(timeout_ms=0), "timeout_ms"),
    (hello_params(batch=[]), "batch"),
    (hello_params(batch={"max": 0}), "batch.max"),
    (hello_params(batch={"wait_ms": -1}), "batch.wait_ms"),
    (hello_params(batch={"ordered": 1}), "batch.ordered"),
    (hello_params(batch={"ordered": "true"}), "batch.ordered"),
    (hello_params(subscribe="orders"), "subscribe"),
    (hello_params(subscribe=["orders"]), "subscribe"),
    (hello_params(subscribe=[{"topic": 5}]), "topic"),
    (hello_params(subscribe=[{"types": "order.*"}]), "types"),
    (hello_params(subscribe=[{"types": [None]}]), "types"),
    (hello_params(subscribe=[{"topics": "orders"}]), 'no member "topics"; did you mean "topic"?'),
    (hello_params(subscribe=[{"topic": "orders", "type": "order.*"}]), 'no member "type"; did you mean "types"?'),
    (hello_params(subscribe=[{"topic": "orders", "partition": 1}]), 'no member "partition": there are topic and types'),
    (hello_params(subscribe=[{}] * 1001), "1000"),
]


def test_a_malformed_parameter_of_hello_is_named(connect, inboxd):
    for params, words in MALFORMED_PARAMETERS:
        wire = connect(inboxd)
        wire.send_line(request("hello", params, "h1"))
        assert words in wire.expect_error(-32602, "h1"), params
        wire.hello()


@pytest.mark.parametrize("subscribe, understood", [
    (None, [{"topic": "*", "types": ["*"]}]),
    ([{"topic": "orders"}], [{"topic": "orders", "types": ["*"]}]),
    ([{"topic": "orders", "types": ["order.*", "paid"]}, {"types": ["audit"]}],
     [{"topic": "orders", "types": ["order.*", "paid"]}, {"topic": "*", "types": ["audit"]}]),
])
def test_the_hello_reply_repeats_the_subscriptions(wire, inboxd, subscribe, understood):
    result = wire.hello("billing", subscribe=subscribe)
    assert result["subscribe"] == understood
    assert "subscribe_omitted" not in result
    said = " ".join(f"{entry['topic']}:{kind}" for entry in understood for kind in entry["types"])
    eventually(lambda: event_lines(inboxd, "handler_connected"))
    assert f"subscribe={said}" in event_lines(inboxd, "handler_connected")[-1].replace('"', "")


def test_the_hello_reply_counts_the_subscriptions_it_omits(wire, inboxd):
    types = [f"type-{number:04}-{'x' * 100}" for number in range(1000)]
    result = wire.hello("billing", subscribe=[{"topic": "orders", "types": types}])
    said = result["subscribe"][0]["types"]
    assert said == types[:len(said)] and len(said) > 100
    assert result["subscribe_omitted"] == 1000 - len(said)
    eventually(lambda: event_lines(inboxd, "handler_connected"))
    line = event_lines(inboxd, "handler_connected")[-1]
    assert "orders:type-0000" in line and " more" in line and len(line) < 2000


def event_lines(inboxd, event):
    return [line for line in inboxd.stderr.splitlines() if f"event={event} " in line]


@pytest.mark.parametrize("line, code, words", [
    (request("hello", hello_params("billing", subscribe=[{"topics": "orders"}])), -32602, "topics"),
    (request("hello", {"protocol": [2], "handler": "billing"}), -32001, "protocol version"),
    (request("hello", hello_params("billing", timeout_ms=0)), -32602, "timeout_ms"),
])
def test_a_refused_hello_is_in_the_log_with_code_and_reason(wire, inboxd, line, code, words):
    wire.send_line(line)
    wire.expect_error(code, 1)
    eventually(lambda: event_lines(inboxd, "hello_refused"))
    logged = event_lines(inboxd, "hello_refused")[-1]
    assert f"handler=billing code={code} why=" in logged and words in logged


def test_another_line_in_place_of_a_hello_is_logged(wire, inboxd):
    wire.send_line(request("drain", request_id=5))
    wire.expect_error(-32002, 5)
    eventually(lambda: "code=-32002" in "".join(event_lines(inboxd, "hello_refused")))


def test_a_refused_duplicate_subscription_is_logged(wire, connect, inboxd):
    wire.hello("billing", subscribe=[{"topic": "orders"}])
    with pytest.raises(Refused):
        connect(inboxd).hello("audit", subscribe=[{"topic": "orders"}])
    eventually(lambda: event_lines(inboxd, "hello_refused"))
    logged = event_lines(inboxd, "hello_refused")[-1]
    assert "handler=audit code=-32003" in logged and "billing" in logged


def test_a_client_that_is_refused_repeatedly_does_not_flood_the_log(connect, inboxd):
    for _ in range(30):
        client = connect(inboxd)
        for _ in range(9):
            client.send_line(request("hello", hello_params("billing", timeout_ms=0)))
            client.expect_error(-32602, 1)
    inboxd.stop()
    assert 10 <= len(event_lines(inboxd, "hello_refused")) <= 50
    assert "of=hello_refused about=billing/-32602" in inboxd.stderr


@pytest.mark.parametrize("versions", [[], [2], [0, 2, 99]])
def test_hello_without_a_common_version_is_refused_with_the_supported_ones(wire, versions):
    with pytest.raises(Refused, match=r"\[1\]") as refused:
        wire.request("hello", {"protocol": versions, "handler": "h"})
    assert refused.value.code == -32001


def test_the_common_version_is_found_among_others(wire):
    assert wire.request("hello", {"protocol": [3, 1], "handler": "h"})["protocol"] == 1


def test_hello_comes_first(wire):
    wire.send_line(request("drain", request_id=5))
    wire.expect_error(-32002, 5)
    wire.notify("window", max_in_flight=1)
    wire.expect_error(-32002)
    wire.hello()


def test_hello_comes_once(wire):
    wire.hello()
    wire.send_line(request("hello", hello_params(), 2))
    wire.expect_error(-32002, 2)
    assert wire.request("drain") == {"in_flight": 0}


def test_an_equal_subscription_of_another_handler_is_refused_by_name(wire, connect, inboxd):
    subscribe = [{"topic": "orders", "types": ["order.*"]}]
    wire.hello("billing", subscribe=subscribe)
    other = connect(inboxd)
    with pytest.raises(Refused, match="billing") as refused:
        other.hello("audit", subscribe=subscribe)
    assert refused.value.code == -32003
    other.hello("audit", subscribe=[{"topic": "orders", "types": ["order.created"]}])
    eventually(lambda: event_lines(inboxd, "subscription_takes"))
    logged = event_lines(inboxd, "subscription_takes")
    assert len(logged) == 1 and "handler=audit from=billing" in logged[0] and "list both as consumers" in logged[0]


def test_connections_of_one_handler_share_its_subscriptions(wire, connect, inboxd):
    wire.hello("billing", subscribe=[{"topic": "orders"}])
    connect(inboxd).hello("billing", subscribe=[{"topic": "orders"}])


# Framing and broken lines


def test_a_line_may_come_in_pieces_and_lines_may_come_together(wire):
    line = json.dumps(request("hello", hello_params())).encode()
    for byte in line[:20]:
        wire.send_bytes(bytes([byte]))
    rest = json.dumps(request("drain", request_id=2)).encode()
    wire.send_bytes(line[20:] + b"\n" + rest + b"\n" + rest[:5])
    assert wire.read_line()["id"] == 1
    assert wire.read_line() == {"jsonrpc": "2.0", "id": 2, "result": {"in_flight": 0}}
    wire.expect_silence(0.2)


def test_more_lines_than_are_read_at_a_time_are_all_read(wire):
    windows = [json.dumps({"jsonrpc": "2.0", "method": "window", "params": {"max_in_flight": number}})
               for number in range(2000)]
    lines = [json.dumps(request("hello", hello_params())), *windows,
             json.dumps(request("drain", request_id=2))]
    text = "\n".join(lines).encode()
    assert len(text) > 2 * 65536
    wire.send_bytes(text[:-9])
    assert wire.read_line()["id"] == 1
    wire.expect_silence(0.2)
    wire.send_bytes(text[-9:] + b"\n")
    assert wire.read_line() == {"jsonrpc": "2.0", "id": 2, "result": {"in_flight": 0}}


def test_a_carriage_return_at_the_end_of_a_line_is_white_space(wire):
    wire.send_bytes(json.dumps(request("hello", hello_params())).encode() + b"\r\n")
    assert "result" in wire.read_line()


BROKEN_LINES = [
    (b"", -32700, None),
    (b"\r", -32700, None),
    (b"hello", -32700, None),
    (b"{", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"drain"', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"drain"}}', -32700, None),
    (b'{"jsonrpc":"2.0","id":01,"method":"drain"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"drain",}', -32700, None),
    (b"{'jsonrpc':'2.0'}", -32700, None),
    (b'{"jsonrpc":"2.0","id":"\xff","method":"drain"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":"\xed\xa0\x80","method":"drain"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":"\t","method":"drain"}', -32700, None),
    (b'{\v"jsonrpc":"2.0","id":1,"method":"drain"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"drain"}\f', -32700, None),
    (b'{"jsonrpc":"2.0",\0"id":1}', -32700, None),
    (b"\xef\xbb\xbf{}", -32700, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"drain"}]', -32600, None),
    (b"7", -32600, None),
    (b"null", -32600, None),
    (b'"text"', -32600, None),
    (b"{}", -32600, None),
    (b'{"id":5,"method":"drain"}', -32600, 5),
    (b'{"jsonrpc":"1.0","id":5,"method":"drain"}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":5}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":[5],"method":"drain"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":5,"id":6,"method":"drain"}', -32600, 5),
    (b'{"jsonrpc":"2.0","method":"hello"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"drain"}', -32600, None),
    (b'{"jsonrpc":"2.0","result":{"status":"done"}}', -32600, None),
    (b'{"jsonrpc":"2.0","id":5,"x":' + b"[" * 600 + b"]" * 600 + b"}", -32600, None),
    (b'{"jsonrpc":"2.0","id":5,"method":"subscribe"}', -32601, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"drain\\u0000"}', -32601, 5),
    (b'{"jsonrpc":"2.0","method":"extend"}', -32602, None),
    (b'{"jsonrpc":"2.0","method":"extend","params":{"delivery":"d1.1","timeout_ms":-1}}',
     -32602, None),
    (b'{"jsonrpc":"2.0","method":"window","params":{"max_in_flight":-1}}', -32602, None),
    (b'{"jsonrpc":"2.0","method":"window","params":{"max_in_flight":1.5}}', -32602, None),
    (b'{"jsonrpc":"2.0","method":"window","params":[5]}', -32602, None),
]


def test_a_broken_line_is_answered_and_the_connection_stays_open(connect, inboxd):
    for line, code, request_id in BROKEN_LINES:
        wire = connect(inboxd)
        wire.hello()
        wire.send_line(line)
        wire.expect_error(code, request_id)
        assert wire.request("drain") == {"in_flight": 0}, line


def test_an_array_is_refused_because_batches_are_not_used(wire):
    wire.send_line([request("hello", hello_params())])
    assert "batch" in wire.expect_error(-32600).lower()


@pytest.mark.parametrize("first", [b"Content-Length: 52\r\n\r\n{}", b"content-length: 52\r\n"])
def test_another_framing_is_named_and_ends_the_connection(wire, first):
    wire.send_bytes(first)
    assert "Content-Length" in wire.expect_error(-32700)
    wire.expect_end()


def test_ten_broken_lines_end_the_connection(wire):
    wire.hello()
    for _ in range(10):
        wire.send_line("nonsense")
    for _ in range(10):
        wire.expect_error(-32700)
    wire.expect_end()


def test_a_line_at_the_limit_is_read(wire):
    line = json.dumps(request("hello", hello_params())).encode()
    wire.send_line(line + b" " * (MAX_LINE - len(line) - 1))
    assert "result" in wire.read_line()


def test_a_line_over_the_limit_is_refused_before_its_end_and_ends_the_connection(wire):
    wire.hello()
    try:
        wire.send_bytes(b'{"x":"' + b"x" * MAX_LINE)
    except OSError:
        pass  # it may close while we still send
    refused = wire.read_line()["error"]
    assert (refused["code"], refused["data"]["reason"]) == (-32004, "line_too_long"), refused
    wire.expect_end()


def test_too_many_unfinished_lines_are_an_internal_error_and_not_a_line_over_the_limit(inboxd, connect):
    """64 MiB of all connections together. No line is too long, and the client may try again. The line that ends is of the
    handler that has the most, not the line that came last."""
    wires = [connect(inboxd) for _ in range(3)]
    for number, each in enumerate(wires):
        each.hello(f"h{number}", subscribe=[{"topic": f"t{number}"}])
    try:
        for each in wires:
            each.send_bytes(b'{"x":"' + b"x" * (MAX_LINE - 2_000_000))
    except OSError:
        pass  # it may close while we still send
    refused = wires[0].read_line()["error"]
    assert (refused["code"], "data" in refused) == (-32603, False), refused
    assert "too many unfinished lines" in refused["message"]
    wires[0].expect_end()
    wires[2].send_bytes(b'"}\n')
    assert wires[2].read_line()["error"]["code"] == -32600


def test_the_input_of_one_client_does_not_affect_others(wire, connect, inboxd, topic, event, inbox):
    serve(wire, topic)
    for line in (b"\0" * 100, b"{" * 100_000, b"\xff\xfe", b'{"jsonrpc":"2.0"', b"[[[["):
        other = connect(inboxd)
        other.send_line(line)
        other.close()
    half = connect(inboxd)
    half.send_bytes(b'{"never":"ended')
    event("A1")
    wire.answer(wire.expect_delivery()["id"], status="done")
    wait_status(inbox, "A1", "processed")


# Deliveries


def test_a_delivery_has_all_its_members(wire, topic, event, inbox):
    serve(wire, topic, timeout_ms=LATER)
    offset = event("A1", key="c-17", partition=2, timestamp=1_795_239_659_120,
                   headers=[("traceparent", "00-1-2-3"), ("x", "1"), ("x", None),
                            ("bin", b"\xff\x00")])
    line = wire.expect_delivery()
    row = inbox.message("A1")
    assert line["method"] == "deliver"
    assert line["params"].keys() == {"delivery", "event", "headers"}
    delivery = line["params"]["delivery"]
    assert delivery.keys() == {"claim", "seq", "attempt", "max_attempts", "deadline", "replay"}
    assert delivery["seq"] == str(row["seq"])
    assert (delivery["attempt"], delivery["max_attempts"]) == (1, 10)
    assert delivery["replay"] is False
    assert delivery["deadline"].endswith("Z") and len(delivery["deadline"]) == 24
    assert line["params"]["event"] == {
        "specversion": "1.0", "id": "A1", "source": topic, "type": "order.created",
        "time": "2026-11-21T05:40:59.120Z", "datacontenttype": "application/json",
        "partitionkey": "c-17", "kafkatopic": topic, "kafkapartition": 2,
        "kafkaoffset": str(offset), "traceparent": "00-1-2-3", "data": {"order": 17}}
    assert line["params"]["headers"] == [
        ["id", "A1"], ["eventType", "order.created"], ["traceparent", "00-1-2-3"], ["x", "1"],
        ["x", None], ["bin", {"base64": base64.b64encode(b"\xff\x00").decode()}]]


def test_json_data_is_passed_through_digit_by_digit_on_one_line(wire, topic, event):
    value = b'{"n":1.50e2,\r\n "big":123456789012345678901234567890, "u":"\\u00fc"}'
    serve(wire, topic)
    event("A1", value)
    line = wire.read_bytes_line()
    assert value.replace(b"\r", b" ").replace(b"\n", b" ") in line


def test_data_that_is_not_json_is_delivered_as_base64(wire, topic, event):
    serve(wire, topic, timeout_ms=LATER)
    for number, value in enumerate((b"plain text", b"\xff\x00", b"{'a':1}", b"{}{}", b"\v{}", b"")):
        event(f"A{number}", value)
        params = wire.expect_delivery()["params"]
        assert "data" not in params["event"]
        assert base64.b64decode(params["event"]["data_base64"]) == value


def test_a_tombstone_has_no_data(wire, topic, event):
    params = deliver(wire, topic, event, value=None, key="k")["params"]
    assert "data" not in params["event"]
    assert "data_base64" not in params["event"]


def test_a_binary_key_is_delivered_as_base64(wire, topic, event):
    params = deliver(wire, topic, event, key=b"\xff\xfe")["params"]
    assert "partitionkey" not in params["event"]
    assert base64.b64decode(params["event"]["partitionkeybase64"]) == b"\xff\xfe"


# Answers


def test_done_stores_its_result(wire, topic, event, inbox):
    wire.answer(deliver(wire, topic, event)["id"], status="done", result={"n": [1, None, "ü"]})
    assert wait_status(inbox, "A1", "processed")["result"] == {"n": [1, None, "ü"]}


def test_a_result_that_cannot_be_stored_is_replaced_and_the_verdict_is_kept(wire, topic, event, inbox):
    serve(wire, topic, timeout_ms=LATER)
    for number, result in enumerate((
            '"\\u0000"', '{"a\\u0000":1}', '"\\ud800"', '"\\udc00x"', "1e400000", "1e-400000", '"' + "x" * 1_048_576 + '"')):
        event(f"A{number}")
        wire.send_line('{"jsonrpc":"2.0","id":"%s","result":{"status":"done","result":%s}}'
                       % (wire.expect_delivery()["id"], result))
        stored = wait_status(inbox, f"A{number}", "processed")["result"]
        assert stored["inboxd"].startswith("result not stored: "), result[:20]


def test_retry_with_a_delay_waits_with_its_reason_and_code(wire, topic, event, inbox):
    wire.answer(deliver(wire, topic, event)["id"], status="retry", delay_ms=LATER,
                reason="upstream 503", code="UPSTREAM")
    row = wait_status(inbox, "A1", "retrying")
    assert (row["error"], row["error_code"], row["retry_count"]) == ("upstream 503", "UPSTREAM", 1)


def test_a_retried_message_is_delivered_with_a_new_id_and_claim(wire, topic, event):
    first = deliver(wire, topic, event)
    wire.answer(first["id"], status="retry", delay_ms=0)
    second = wire.expect_delivery()
    assert second["params"]["delivery"]["attempt"] == 2
    assert second["params"]["event"] == first["params"]["event"]
    assert second["id"] != first["id"]
    assert second["params"]["delivery"]["claim"] != first["params"]["delivery"]["claim"]


def test_dead_ends_the_attempts(wire, topic, event, inbox):
    wire.answer(deliver(wire, topic, event)["id"], status="dead", reason="schema v9 unknown",
                code="SCHEMA")
    row = wait_status(inbox, "A1", "dead")
    assert (row["error"], row["error_code"]) == ("schema v9 unknown", "SCHEMA")


def test_snooze_counts_no_attempt(wire, topic, event, inbox):
    wire.answer(deliver(wire, topic, event)["id"], status="snooze", delay_ms=10)
    again = wire.expect_delivery()
    assert again["params"]["delivery"]["attempt"] == 1
    wire.answer(again["id"], status="done")
    assert wait_status(inbox, "A1", "processed")["retry_count"] == 0


def test_a_skipped_message_comes_again_and_nothing_is_counted(wire, topic, event, inbox):
    first = deliver(wire, topic, event)
    begin = time.monotonic()
    wire.answer(first["id"], status="skipped", delay_ms=LATER, reason="not tried")
    again = wire.expect_delivery()
    assert time.monotonic() - begin > 0.1, "an endless loop of skips would be too fast"
    assert again["params"]["delivery"]["attempt"] == 1
    assert again["id"] != first["id"]
    wire.answer(again["id"], status="done")
    row = wait_status(inbox, "A1", "processed")
    assert (row["retry_count"], row["crash_count"], row["error"]) == (0, 0, None)


def test_settled_is_verified(wire, topic, event, inbox):
    wire.answer(deliver(wire, topic, event)["id"], status="settled")
    again = wire.expect_delivery()
    assert again["params"]["delivery"]["attempt"] == 2
    assert inbox.message("A1")["error_code"] == "NOT_SETTLED"


def test_settled_after_complete_in_the_handlers_transaction_is_done(wire, topic, event, inbox, db):
    line = deliver(wire, topic, event)
    with db.transaction():
        db.execute("SELECT inbox.complete(%s, %s)",
                   [line["params"]["delivery"]["claim"], '{"paid":true}'])
    wire.answer(line["id"], status="settled")
    assert wait_status(inbox, "A1", "processed")["result"] == {"paid": True}
    wire.expect_silence()


def test_an_error_object_is_a_retry_with_its_message(start_inboxd, connect, topic, event, inbox):
    wire = connect(start_inboxd(retry={"max_attempts": 1}))
    delivery_id = deliver(wire, topic, event)["id"]
    wire.send_line({"jsonrpc": "2.0", "id": delivery_id,
                    "error": {"code": -32000, "message": "ValueError: no such order"}})
    row = wait_status(inbox, "A1", "dead")
    assert row["error"] == "ValueError: no such order"
    assert row["error_code"] == "HANDLER_ERROR"
    assert row["retry_count"] == 1


MALFORMED_RESULTS = [
    "null", "true", "[]", '"done"', "{}", '{"status":"ok"}', '{"status":1}',
    '{"status":"done","status":"dead"}', '{"status":"retry","delay_ms":-1}',
    '{"status":"retry","delay_ms":"5s"}', '{"status":"dead","reason":{}}',
    '{"status":"dead","code":5}', '{"status":"done"},"error":{"code":1,"message":"x"}']


def test_a_malformed_answer_is_a_retry_with_its_reason(start_inboxd, connect, topic, event, inbox):
    wire = connect(start_inboxd(retry={"max_attempts": 1}))
    serve(wire, topic, timeout_ms=LATER)
    for number, result in enumerate(MALFORMED_RESULTS):
        event(f"A{number}")
        wire.send_line(f'{{"jsonrpc":"2.0","id":"{wire.expect_delivery()["id"]}","result":{result}}}')
        row = wait_status(inbox, f"A{number}", "dead")
        assert row["error_code"] == "PROTOCOL", result
        assert row["error"], result


def test_a_reason_with_nul_is_replaced_and_the_verdict_is_kept(wire, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.send_line('{"jsonrpc":"2.0","id":"%s","result":'
                   '{"status":"dead","reason":"a\\u0000b","code":"\\u0000"}}' % delivery_id)
    assert wait_status(inbox, "A1", "dead")["error"].startswith("reason not stored: ")


@pytest.mark.parametrize("delivery_id", ["d999999.1", "b1", "", 17, None, "d1.1\0x"])
def test_an_answer_to_an_unknown_delivery_gets_no_reply(wire, delivery_id):
    wire.hello()
    wire.answer(delivery_id, status="done")
    wire.expect_silence(0.3)
    assert wire.request("drain") == {"in_flight": 0}


def test_a_second_answer_changes_nothing(wire, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.answer(delivery_id, status="done", result=1)
    wire.answer(delivery_id, status="dead", reason="too late")
    assert wait_status(inbox, "A1", "processed")["result"] == 1
    wire.expect_silence(0.3)
    assert inbox.message("A1")["status"] == "processed"


def test_an_answer_on_another_connection_is_ignored(wire, connect, inboxd, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    other = connect(inboxd)
    other.hello("other", subscribe=[{"topic": "elsewhere"}])
    other.answer(delivery_id, status="done")
    other.expect_silence(0.3)
    assert inbox.message("A1")["status"] == "claimed"
    wire.answer(delivery_id, status="done")
    wait_status(inbox, "A1", "processed")


# Time


def test_a_timeout_cancels_the_delivery_and_spends_an_attempt(wire, topic, event, inbox):
    first = deliver(wire, topic, event)
    wire.notify("extend", delivery=first["id"], timeout_ms=300)  # this delivery only: the second one has its time
    wire.expect_cancel(first["id"], "timeout")
    again = wire.expect_delivery()
    assert again["params"]["delivery"]["attempt"] == 2
    wire.answer(first["id"], status="dead", reason="a late answer is ignored")
    wire.answer(again["id"], status="done")
    row = wait_status(inbox, "A1", "processed")
    assert row["retry_count"] == 1


def test_extend_moves_the_deadline(wire, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.notify("extend", delivery=delivery_id, timeout_ms=1_000)
    wire.notify("extend", delivery=delivery_id, timeout_ms=LATER)  # it is read with the line before, or soon after it
    wire.expect_silence(2.0)
    wire.answer(delivery_id, status="done")
    assert wait_status(inbox, "A1", "processed")["retry_count"] == 0


def test_extend_can_shorten_a_deadline(wire, topic, event):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.notify("extend", delivery=delivery_id, timeout_ms=200)
    wire.expect_cancel(delivery_id, "timeout")


def test_an_extend_of_an_unknown_delivery_gets_no_reply(wire):
    wire.hello()
    wire.notify("extend", delivery="d999999.1", timeout_ms=1_000)
    wire.expect_silence(0.3)
    assert wire.request("drain") == {"in_flight": 0}


# Windows


def test_a_window_of_zero_pauses_and_a_larger_one_resumes(wire, topic, event):
    serve(wire, topic, max_in_flight=0, timeout_ms=LATER)
    event("A1")
    wire.expect_silence()
    wire.notify("window", max_in_flight=1)
    wire.expect_delivery()


def test_the_window_limits_the_open_deliveries(wire, topic, event):
    serve(wire, topic, max_in_flight=2, timeout_ms=LATER)
    for number in range(5):
        event(f"A{number}")
    first = wire.expect_delivery()
    wire.expect_delivery()
    wire.expect_silence()
    wire.answer(first["id"], status="done")
    wire.expect_delivery()
    wire.expect_silence()


def test_a_window_is_absolute(wire, topic, event):
    serve(wire, topic, max_in_flight=1, timeout_ms=LATER)
    for number in range(5):
        event(f"A{number}")
    wire.expect_delivery()
    wire.notify("window", max_in_flight=2)
    wire.notify("window", max_in_flight=2)
    wire.expect_delivery()
    wire.expect_silence()


def test_a_smaller_window_cancels_no_delivery(wire, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.notify("window", max_in_flight=0)
    wire.expect_silence(0.3)
    wire.answer(delivery_id, status="done")
    wait_status(inbox, "A1", "processed")


# Batches


def batch_of(wire, topic, event, count, ordered=False):
    serve(wire, topic, timeout_ms=LATER, batch={"max": count, "wait_ms": 5_000, "ordered": ordered})
    for number in range(count):
        event(f"A{number}")
    line = wire.expect_delivery()
    assert line["method"] == "deliver_batch"
    return line["id"], {entry["event"]["id"]: entry for entry in line["params"]["entries"]}


def test_a_batch_holds_entries_like_deliveries(wire, topic, event):
    _, entries = batch_of(wire, topic, event, 3)
    assert entries.keys() == {"A0", "A1", "A2"}
    for entry in entries.values():
        assert entry.keys() == {"id", "delivery", "event", "headers"}
        assert entry["delivery"]["attempt"] == 1


def test_a_batch_answer_settles_each_entry_by_its_id(wire, topic, event, inbox):
    batch_id, entries = batch_of(wire, topic, event, 3)
    wire.answer(batch_id, entries=[
        {"id": entries["A2"]["id"], "status": "dead", "reason": "no"},
        {"id": entries["A0"]["id"], "status": "done", "result": 0},
        {"id": entries["A1"]["id"], "status": "retry", "delay_ms": LATER}])
    assert wait_status(inbox, "A0", "processed")["result"] == 0
    assert wait_status(inbox, "A1", "retrying")
    assert wait_status(inbox, "A2", "dead")["error"] == "no"


def test_an_entry_missing_from_the_answer_is_retried(wire, topic, event, inbox):
    batch_id, entries = batch_of(wire, topic, event, 2)
    wire.notify("window", max_in_flight=0)
    wire.answer(batch_id, entries=[{"id": entries["A0"]["id"], "status": "done"}])
    wait_status(inbox, "A0", "processed")
    eventually(lambda: inbox.message("A1")["retry_count"] == 1)


def test_an_ordered_batch_without_a_key_in_common_is_a_batch(wire, topic, event, inbox):
    batch_id, entries = batch_of(wire, topic, event, 3, ordered=True)
    wire.notify("window", max_in_flight=0)
    wire.answer(batch_id, entries=[{"id": entries["A0"]["id"], "status": "retry", "delay_ms": LATER},
                                   {"id": entries["A2"]["id"], "status": "done"}])
    wait_status(inbox, "A0", "retrying")
    wait_status(inbox, "A2", "processed")
    eventually(lambda: inbox.message("A1")["error_code"] == "PROTOCOL")


def test_an_error_answers_all_entries_of_a_batch(start_inboxd, connect, topic, event, inbox):
    wire = connect(start_inboxd(retry={"max_attempts": 1}))
    batch_id, _ = batch_of(wire, topic, event, 2)
    wire.send_line({"jsonrpc": "2.0", "id": batch_id,
                    "error": {"code": -32000, "message": "the whole batch"}})
    for event_id in ("A0", "A1"):
        assert wait_status(inbox, event_id, "dead")["error"] == "the whole batch"


def test_a_partial_batch_is_sent_after_its_wait(wire, topic, event):
    serve(wire, topic, timeout_ms=LATER, batch={"max": 100, "wait_ms": 200})
    event("A1")
    assert len(wire.expect_delivery()["params"]["entries"]) == 1


# The end of a connection


def test_drain_is_answered_at_once_when_nothing_is_open(wire):
    wire.hello()
    assert wire.request("drain") == {"in_flight": 0}


def test_drain_is_answered_when_the_last_delivery_is(wire, topic, event, inbox):
    delivery_id = deliver(wire, topic, event)["id"]
    wire.send_line(request("drain", request_id="end"))
    event("A2")
    wire.expect_silence()
    wire.answer(delivery_id, status="done")
    assert wire.read_line() == {"jsonrpc": "2.0", "id": "end", "result": {"in_flight": 0}}
    wire.expect_silence()
    wait_status(inbox, "A1", "processed")


def test_open_deliveries_of_a_closed_connection_go_to_the_next(wire, connect, inboxd, topic, event, inbox):
    deliver(wire, topic, event)
    wire.close()
    other = connect(inboxd)
    serve(other, topic, timeout_ms=LATER)
    again = other.expect_delivery()
    assert again["params"]["event"]["id"] == "A1"
    assert again["params"]["delivery"]["attempt"] == 1
    other.answer(again["id"], status="done")
    assert wait_status(inbox, "A1", "processed")["crash_count"] == 0


def test_a_connection_of_the_same_handler_continues_when_another_ends(wire, connect, inboxd, topic, event, inbox):
    second = connect(inboxd)
    serve(wire, topic, timeout_ms=LATER)
    serve(second, topic, timeout_ms=LATER)
    second.close()
    for number in range(4):
        event(f"A{number}")
        wire.answer(wire.expect_delivery()["id"], status="done")
    for number in range(4):
        wait_status(inbox, f"A{number}", "processed")
