"""`inboxd forward`: each message is a POST to a service. The services are real HTTP servers."""

import datetime
import email.utils
import itertools
import json
import pathlib
import re
import shutil
import signal
import threading
import time
import types

import psycopg
import pytest

from support import process
from support.inbox import connect
from support.service import Service, json_response, response
from support.tls import Authority
from support.wait import eventually, throughout


@pytest.fixture
def service():
    """service(decide, …) -> a running Service, stopped after the test."""
    made = []

    def start(*arguments, **options):
        made.append(Service(*arguments, **options))
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.fixture
def send(produce, topic):
    def send(event_id="x", value=b'{"order": 17}', **options):
        headers = {"id": event_id, **options.pop("headers", {})}
        return produce(topic, value, headers=headers, **options)

    return send


@pytest.fixture
def forward(bridge):
    def start(sidecar, url, *options, **more):
        return bridge(sidecar, "forward", "--url", getattr(url, "url", url), *options, **more)

    return start


def by_turn(*answers):
    """The answers one after the other; the last one again and again."""
    left = list(answers)
    lock = threading.Lock()

    def decide(request):
        with lock:
            answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(request) if callable(answer) else answer

    return decide


# What the service gets


def test_a_message_is_a_cloudevent_in_binary_mode(inboxd, service, forward, send, inbox, topic):
    receiver = service()
    forward(inboxd, receiver)
    send("A 1", b'{"order": 1.50}', key=b"c-17",
         headers={"ce_type": "order.created", "ce_subject": 'say "ä" 100%', "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
    inbox.wait_status("A 1", "processed")
    request = receiver.requests[0]
    assert (request.path, request.body) == ("/events", b'{"order": 1.50}')
    assert request.headers["content-type"] == "application/json"
    assert request.headers["ce-specversion"] == "1.0" and request.headers["ce-type"] == "order.created"
    assert request.headers["ce-id"] == "A%201" and request.headers["ce-subject"] == "say%20%22%C3%A4%22%20100%25"
    assert request.headers["ce-kafkatopic"] == topic and request.headers["ce-partitionkey"] == "c-17"
    assert request.headers["ce-inboxattempt"] == "1" and request.headers["ce-inboxclaim"].count(".") == 4
    assert request.headers["traceparent"] == request.headers["ce-traceparent"]
    assert request.headers["idempotency-key"] == f"{topic}:A%201"
    assert "ce-datacontenttype" not in request.headers and "expect" not in request.headers


def test_a_message_is_a_cloudevent_in_structured_mode(inboxd, service, forward, send, inbox):
    receiver = service()
    forward(inboxd, receiver, "--mode", "structured")
    send("A1", headers={"ce_type": "order.created"})
    inbox.wait_status("A1", "processed")
    request = receiver.requests[0]
    event = json.loads(request.body)
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert (event["id"], event["type"], event["data"], event["inboxattempt"]) == ("A1", "order.created", {"order": 17}, 1)
    assert request.headers["idempotency-key"].endswith(":A1") and "ce-id" not in request.headers


def test_bytes_and_tombstones_keep_their_form(inboxd, service, forward, send, inbox):
    receiver = service()
    forward(inboxd, receiver)
    send("bytes", b"\x00\xff\n", headers={"content-type": "image/png; x=y"}, key=b"k")
    send("none", b"\x00\xff", key=b"k")
    send("tombstone", None, key=b"k")
    inbox.wait_processed(3)
    found = {request.event_id: request for request in receiver.requests}
    assert (found["bytes"].body, found["bytes"].headers["content-type"]) == (b"\x00\xff\n", "image/png; x=y")
    assert (found["none"].body, found["none"].headers["content-type"]) == (b"\x00\xff", "application/octet-stream")
    assert (found["tombstone"].body, found["tombstone"].headers["content-type"]) == (b"", None)


def test_headers_of_the_user_are_sent_and_their_files_are_read_again(inboxd, service, forward, send, inbox, tmp_path):
    receiver = service()
    token, url = tmp_path / "token", tmp_path / "url"
    token.write_text("Bearer first\n")
    url.write_text(receiver.url + "\n")
    client = forward(inboxd, f"file:{url}", "--header", f"Authorization: file:{token}", "--header", "X-Tenant:  a b ")
    for name, change in (("a", None), ("b", lambda: token.write_text("Bearer second")), ("c", token.unlink)):
        if change:
            change()
        send(name)
        inbox.wait_status(name, "processed")
    assert [request.headers["authorization"] for request in receiver.requests] == ["Bearer first", "Bearer second", "Bearer second"]
    assert {request.headers["x-tenant"] for request in receiver.requests} == {"a b"}
    assert pathlib.Path(f"/proc/{client.process.pid}/cmdline").read_text().count("Bearer") == 0
    client.wait_log("event=header_not_read")
    assert client.stderr.count("event=header_not_read") == 1 and "Bearer" not in client.stderr


def test_a_large_message_arrives(inboxd, service, forward, send, inbox):
    receiver = service()
    forward(inboxd, receiver)
    value = json.dumps({"text": "x" * 900_000}).encode()
    send("large", value)
    inbox.wait_status("large", "processed")
    assert receiver.requests[0].body == value


# What the service answers


@pytest.mark.parametrize("status, options, row_status", [
    (200, (), "processed"), (202, (), "processed"), (204, (), "processed"),
    (301, (), "dead"), (409, (), "retried"), (425, (), "retried"), (500, (), "retried"), (503, (), "retried"),
    (429, ("--status", "429=retry"), "retried"),
    (400, (), "dead"), (404, (), "dead"), (422, (), "dead"),
    (404, ("--status", "4xx=retry,404=done"), "processed"),
    (422, ("--status", "404=done,4xx=retry"), "retried"),
    (503, ("--status", "503=dead"), "dead"),
])
def test_the_status_is_the_verdict(start_inboxd, service, forward, send, inbox, status, options, row_status):
    sidecar = start_inboxd(retry={"max_attempts": 1 if status == 301 else 5})
    receiver = service(by_turn(response(status, b"because" if status != 204 else b"", Content_Type="text/plain"), response()))
    forward(sidecar, receiver, *options)
    send()
    row = inbox.wait_status("x", "processed" if row_status == "retried" else row_status)
    assert row["retry_count"] == (0 if row_status == "processed" else 1)
    assert len(receiver.requests) == (2 if row_status == "retried" else 1)
    if row_status == "dead":
        redirect = ", a redirect: give the final URL" if status == 301 else ""
        assert (row["error"], row["error_code"]) == (f"the service answered {status}{redirect}: because", f"HTTP_{status}")


def test_snooze_spends_no_attempt(inboxd, service, forward, send, inbox):
    receiver = service(by_turn(response(503), response(503), response()))
    forward(inboxd, receiver, "--status", "503=snooze")
    send()
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


def test_refused_credentials_from_a_file_spend_no_attempt(inboxd, service, forward, send, inbox, tmp_path):
    token = tmp_path / "token"
    token.write_text("Bearer expired")
    receiver = service(lambda request: response(200 if "renewed" in request.headers["authorization"] else 401))
    forward(inboxd, receiver, "--header", f"Authorization: file:{token}")
    send()
    eventually(lambda: receiver.requests)
    token.write_text("Bearer renewed")
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


def test_retry_after_is_the_delay_and_can_ask_for_it_without_an_attempt(inboxd, service, forward, send, inbox):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    answers = {
        "a429": response(429, retry_after="3600"),
        "b503": response(503, retry_after=email.utils.format_datetime(later, usegmt=True)),
        "c500": response(500, retry_after="3600"),
        "done": response(),
    }
    client = forward(inboxd, service(lambda request: answers[request.event_id]), "--jobs", 1)
    # clock_timestamp(), because a statement can see what another transaction commits after its now().
    for name, attempts in (("a429", 0), ("done", 0), ("b503", 0), ("c500", 1)):
        send(name, key=name.encode())
        row = eventually(lambda: next((row for row in inbox.query(
            """SELECT retry_count, processed_at, extract(epoch FROM available_at - clock_timestamp()) / 60 AS minutes
               FROM inbox.messages
               WHERE event_id = %s AND (processed_at IS NOT NULL OR available_at > now() + interval '1 minute')""", [name])), None))
        assert row["retry_count"] == attempts and (row["processed_at"] or 58 < row["minutes"] <= 60)
    assert inbox.query("SELECT error, error_code, attempts FROM inbox.messages WHERE event_id = 'a429'") == [
        {"error": "the service answered 429", "error_code": "HTTP_429", "attempts": None}]
    eventually(lambda: client.stderr.count("event=message_put_off") == 2)
    assert "event=service_busy" not in client.stderr


class Limiter:
    """Accepts `most` requests, then answers 429 for a second, and so on."""

    def __init__(self, most):
        self.most, self.left, self.lock = most, most, threading.Lock()
        self.until, self.accepted, self.refused = 0, [], []

    def __call__(self, request):
        with self.lock:
            now = time.monotonic()
            if self.left == 0:
                self.left, self.until = self.most, now + 1
            if now < self.until:
                self.refused.append(request.event_id)
                return response(429, retry_after=1)
            self.left -= 1
            self.accepted.append(request.event_id)
            return response()


def test_a_message_that_is_never_accepted_while_others_are_spends_attempts(
        start_inboxd, service, forward, send, streams, topic, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 1})
    receiver = service(lambda request: response(429 if request.event_id == "never" else 200))
    forward(sidecar, receiver)
    send("never", key=b"never")
    receiver.wait_count(2)  # not dead after the first one
    numbers = itertools.count()

    def is_dead():
        streams.events(topic, [f"m{next(numbers)}" for _ in range(10)])
        return inbox.message("never")["status"] == "dead"

    eventually(is_dead, every=0.2)
    assert inbox.message("never")["error_code"] == "HTTP_429"


def test_a_service_with_a_limit_gets_the_messages_in_its_time(start_inboxd, service, forward, streams, topic, inbox):
    sidecar = start_inboxd(retry={"max_attempts": 2})
    names = [f"m{number:03}" for number in range(120)]
    streams.events(topic, names, key=lambda name: b"same" if name.endswith("0") else name.encode())
    limiter = Limiter(60)
    client = forward(sidecar, service(limiter))
    inbox.wait_processed(120)
    assert all(row["retry_count"] == 0 for row in inbox.messages())
    assert 0 < len(limiter.refused) < 45
    assert [name for name in limiter.accepted if name.endswith("0")] == names[::10]
    client.wait_log("event=service_busy")
    assert client.stderr.count("event=service_busy") == 1


@pytest.mark.parametrize("body, result", [
    (json_response('{"invoice": 88}'), {"invoice": 88}),
    (response(200, b"OK", Content_Type="text/plain"), None),
    (json_response("{broken"), None),
    (json_response('"' + "x" * 3_000_000 + '"'), None),
])
def test_a_json_body_is_the_result(inboxd, service, forward, send, inbox, body, result):
    forward(inboxd, service(lambda request: body))
    send()
    row = inbox.wait_status("x", "processed")
    assert (row["result"], row["retry_count"]) == (result, 0)


# What goes wrong


def test_a_service_that_is_away_costs_no_attempt(inboxd, service, forward, send, inbox):
    port = process.free_port()
    client = forward(inboxd, f"http://127.0.0.1:{port}/events")
    for number in range(10):
        send(f"m{number}", key=str(number).encode())
    client.wait_log("event=service_not_reached")
    receiver = service(port=port)
    inbox.wait_processed(10)
    assert all(row["retry_count"] == 0 for row in inbox.messages())
    assert len(receiver.requests) == 10
    client.wait_log("event=service_reached")


@pytest.mark.parametrize("ending", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", b"HTTP/1.1 20"])
def test_a_lost_response_is_a_retry(inboxd, service, forward, send, inbox, ending):
    receiver = service(by_turn(lambda request: ending, lambda request: ending, response()))
    forward(inboxd, receiver)
    send()
    row = inbox.wait_status("x", "processed")
    assert row["retry_count"] >= 1
    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == 1


def test_a_lost_response_has_a_code(start_inboxd, service, forward, send, inbox):
    forward(start_inboxd(retry={"max_attempts": 1}), service(lambda request: None))
    send()
    row = inbox.wait_status("x", "dead")
    assert row["error_code"] == "HTTP_NO_RESPONSE" and row["error"].startswith("no response of the service: ")


def test_garbage_instead_of_http_is_a_retry(start_inboxd, service, forward, send, inbox):
    forward(start_inboxd(retry={"max_attempts": 1}), service(lambda request: b"\x15\x03\x01garbage\r\n\r\n"))
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "HTTP_NO_RESPONSE"


def test_a_slow_service_times_out(start_inboxd, service, forward, send, inbox):
    receiver = service(lambda request: receiver.closed.wait(60) and response())
    client = forward(start_inboxd(retry={"max_attempts": 1}), receiver, "--timeout", "1s")
    send()
    assert inbox.wait_status("x", "dead")["error_code"] == "TIMEOUT"
    client.wait_log("event=request_cancelled")


def test_a_lost_sidecar_ends_the_requests_and_the_messages_come_again(start_inboxd, service, forward, send, inbox):
    sidecar = start_inboxd()
    receiver = service(by_turn(lambda request: receiver.closed.wait(60) and response(), response()))
    client = forward(sidecar, receiver)
    send()
    receiver.wait_count(1)
    sidecar.kill()
    client.wait_log("event=request_cancelled what=connection_lost")
    sidecar.start()
    inbox.wait_status("x", "processed")


def test_an_attempt_is_one_request(start_inboxd, service, forward, send, inbox):
    """A worker of the service dies of a message. The message must not get to the next worker within the same attempt."""
    together = threading.Barrier(8)

    def decide(request):
        if request.event_id.startswith("deadly"):
            return None
        together.wait(30)
        return response()

    sidecar = start_inboxd(retry={"max_attempts": 1})
    receiver = service(decide)
    forward(sidecar, receiver, "--jobs", 8)
    for number in range(8):  # eight connections stay open
        send(f"m{number}", key=str(number).encode())
    inbox.wait_processed(8)
    send("deadly")
    send("deadly tombstone", None)
    assert inbox.wait_status("deadly", "dead")["error_code"] == "HTTP_NO_RESPONSE"
    inbox.wait_status("deadly tombstone", "dead")
    assert sorted(request.event_id for request in receiver.requests[8:]) == ["deadly", "deadly%20tombstone"]


def test_headers_that_are_too_large(inboxd, service, forward, send, inbox):
    """Many services accept only 8 or 16 KiB of headers. libcurl sends 1 MiB, and reads lines of 100 KiB."""
    def decide(request):
        if sum(len(name) + len(value) for name, value in request.headers.items()) > 16_000:
            return response(431)
        return response(200, X_Note="x" * (200_000 if request.event_id == "answer" else 1))

    receiver = service(decide)
    client = forward(inboxd, receiver)
    state = ",".join(f"vendor{number}={'x' * 100}" for number in range(200))
    send("huge", headers={"ce_note": "\u00e4" * 200_000})
    send("long", key=b"k" * 20_000)
    send("state", headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "tracestate": state})
    send("answer")
    row = inbox.wait_status("huge", "dead")
    assert row["error_code"] == "HEADERS_TOO_LARGE" and "--mode structured" in row["error"]
    row = inbox.wait_status("long", "dead")
    assert "bytes of headers, which" in row["error"] and "--mode structured" in row["error"]
    assert inbox.wait_status("state", "processed")["retry_count"] == 0
    assert inbox.wait_status("answer", "processed")["retry_count"] == 0
    client.wait_log("event=result_not_stored")
    assert "event=service_not_reached" not in client.stderr
    sent = {request.event_id: request.headers for request in receiver.requests}
    assert "huge" not in sent and sent["state"]["tracestate"] == sent["state"]["ce-tracestate"]
    assert state.startswith(sent["state"]["tracestate"] + ",") and 400 < len(sent["state"]["tracestate"]) <= 512


# Connections


def test_a_connection_that_the_service_has_closed_costs_no_attempt(inboxd, service, forward, send, inbox):
    receiver = service(idle_timeout=0.1)
    forward(inboxd, receiver)
    for name in ("a", "b", "c"):
        send(name)
        assert inbox.wait_status(name, "processed")["retry_count"] == 0
        receiver.wait_closed()
    assert len({request.peer for request in receiver.requests}) == len(receiver.requests) == 3


def test_connections_stay_open(inboxd, service, forward, send, inbox):
    receiver = service()
    forward(inboxd, receiver, "--jobs", 1)
    for number in range(50):
        send(f"m{number}", key=b"one", partition=0)
    inbox.wait_processed(50)
    assert [request.event_id for request in receiver.requests] == [f"m{number}" for number in range(50)]
    # A connection that was idle for two seconds is not used again, so one that is new follows a pause.
    assert all(before.peer == after.peer or after.began - before.began > 1.5
               for before, after in zip(receiver.requests, receiver.requests[1:]))


@pytest.mark.slow
def test_a_connection_that_was_idle_for_two_seconds_is_not_used_again(inboxd, service, forward, send, inbox):
    """Many services close such a connection soon, perhaps while the next request is on its way."""
    receiver = service()
    forward(inboxd, receiver)
    for name in ("a", "b"):
        send(name)
        inbox.wait_status(name, "processed")
        time.sleep(2.5)
    assert len({request.peer for request in receiver.requests}) == 2


def test_jobs_are_requests_at_the_same_time_and_no_more(inboxd, service, forward, send, inbox):
    go = threading.Event()
    receiver = service(lambda request: go.wait(60) and response())
    forward(inboxd, receiver, "--jobs", 3)
    for number in range(6):
        send(f"m{number}", key=str(number).encode())
    receiver.wait_count(3)
    throughout(lambda: len(receiver.requests) == 3, 0.5)
    go.set()
    inbox.wait_processed(6)


def test_sigterm_lets_requests_finish(inboxd, service, forward, send, inbox):
    go = threading.Event()
    receiver = service(lambda request: go.wait(60) and json_response("7"))
    client = forward(inboxd, receiver)
    send()
    receiver.wait_count(1)
    client.signal(signal.SIGTERM)
    client.wait_log("event=bridge_stopping")
    go.set()
    assert client.wait() == 0
    assert inbox.wait_status("x", "processed")["result"] == 7


# TLS and HTTP/2


@pytest.fixture(scope="module")
def authority():
    return Authority()


def test_a_private_authority_is_trusted_with_ca(inboxd, service, forward, send, inbox, authority):
    receiver = service(certificate=authority.issue("IP:127.0.0.1"))
    forward(inboxd, receiver, "--ca", authority.ca)
    send()
    assert inbox.wait_status("x", "processed")["retry_count"] == 0


def test_an_unknown_authority_is_refused_and_costs_no_attempt(inboxd, service, forward, send, inbox, authority):
    receiver = service(certificate=authority.issue("IP:127.0.0.1"))
    client = forward(inboxd, receiver)
    send()
    client.wait_log("event=service_not_reached")
    assert "certificate" in client.stderr
    row = inbox.message("x")
    assert row["processed_at"] is None and row["retry_count"] == 0 and receiver.requests == []


def test_a_service_can_require_a_client_certificate(inboxd, service, forward, send, inbox, authority):
    receiver = service(certificate=authority.issue("IP:127.0.0.1"), client_ca=authority.ca)
    cert, key = authority.issue("DNS:client")
    forward(inboxd, receiver, "--ca", authority.ca, "--cert", cert, "--key", key)
    send()
    inbox.wait_status("x", "processed")


@pytest.fixture
def nghttpd(tmp_path):
    """nghttpd(certificate=None) -> (url, log) of a server that speaks only HTTP/2. It answers 200 for /events."""
    if shutil.which("nghttpd") is None:
        pytest.fail("nghttpd is missing: install the package nghttp2-server")
    (tmp_path / "events").write_text('{"by":"nghttpd"}')
    started = []

    def start(certificate=None):
        port = process.free_port()
        log = tmp_path / "nghttpd.log"
        tls = [certificate[1], certificate[0]] if certificate else []
        started.append(process.spawn(["nghttpd", "--verbose", "--address=127.0.0.1", f"--htdocs={tmp_path}",
                                      *([] if certificate else ["--no-tls"]), str(port), *tls], str(log)))
        return f"{'https' if certificate else 'http'}://127.0.0.1:{port}/events", log

    yield start
    for server in started:
        process.end(server)


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "h2c"])
def test_http_2(inboxd, forward, send, inbox, nghttpd, authority, tls):
    url, log = nghttpd(authority.issue("IP:127.0.0.1") if tls else None)
    client = forward(inboxd, url, *(["--ca", authority.ca] if tls else ["--h2c"]), "--jobs", 8)
    for number in range(20):
        send(f"m{number}", key=str(number).encode())
    inbox.wait_processed(20)
    assert client.stop() == 0
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    assert all(f"ce-id: m{number}" in text for number in range(20))
    if tls:  # without it, libcurl 7.88 of Debian 12 cannot use a connection twice
        assert set(re.findall(r"^\[id=(\d+)\]", text, re.M)) == {"1"}


# Exactly once


def test_a_service_with_a_transaction_has_its_effect_exactly_once(
        inboxd, service, forward, send, inbox, postgres_server, database):
    inbox.execute("CREATE TABLE effects (id text)")

    def make(request):
        with connect(postgres_server.conninfo(database)) as connection:
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO effects VALUES (%s)", [request.event_id])
                    connection.execute("SELECT inbox.complete(%s)", [request.headers["ce-inboxclaim"]])
            except psycopg.Error:
                return response(500)
        return None if request.headers["ce-inboxattempt"] == "1" else response()  # the first response is lost

    receiver = service(make)
    forward(inboxd, receiver, "--settled")
    for number in range(10):
        send(f"m{number}", key=str(number).encode())
    inbox.wait_processed(10)
    eventually(lambda: inbox.value("SELECT count(*) FROM effects") == 10)
    assert inbox.value("SELECT count(DISTINCT id) FROM effects") == 10


# The command line


@pytest.mark.parametrize("arguments, words", [
    ([], "the URL is missing"),
    (["--url", "ftp://127.0.0.1/"], "does not begin with http:// or https://"),
    (["--url", "http://127.0.0.1/", "--status", "404"], '"404" is not STATUS=VERDICT'),
    (["--url", "http://127.0.0.1/", "--status", "4xx=settled"], '"4xx=settled" is not STATUS=VERDICT'),
    (["--url", "http://127.0.0.1/", "--key", "x.pem"], "give --cert, too"),
    (["--url", "file:/nowhere/url"], "--url: cannot read /nowhere/url: No such file"),
    (["--url", "http://127.0.0.1/", "--header", "Authorization"], "--header: the text is not \"Name: value\""),
    (["--url", "http://127.0.0.1/", "--header", "a b: c"], "--header: the text is not \"Name: value\""),
    (["--url", "http://127.0.0.1/", "--header", "X-A: b\r\nc: d"], "--header: X-A: the value has a control character"),
    (["--url", "http://127.0.0.1/", "--header", "X-A:"], "--header: X-A: the value is empty"),
    (["--url", "http://127.0.0.1/", "--header", "CE-id: 7"], "--header: CE-id cannot be changed"),
    (["--url", "http://127.0.0.1/", "--header", "X-A: file:/nowhere/token"], "--header: X-A: cannot read /nowhere/token: No such file"),
    (["--url", "http://127.0.0.1/", "--header", "X-A: file:/dev/zero"], "--header: X-A: /dev/zero is not a regular file"),
    (["--url", "http://127.0.0.1/", "--mode", "batch"], "is none of: binary structured"),
    (["--url", "http://127.0.0.1:99999/"], "--url: "),
    (["--url", "https://[::1/"], "--url: "),
    (["--url", "https://127.0.0.1/", "--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
    (["--url", "https://127.0.0.1/", "--ca", __file__], "--ca, --cert or --key: "),
    (["--url", "https://127.0.0.1/", "--cert", "/nowhere/client.pem"], "--ca, --cert or --key: "),
])
def test_a_wrong_command_line_is_refused(bridge, arguments, words):
    nothing = types.SimpleNamespace(socket_path="/nowhere/inbox.sock")
    client = bridge(nothing, "forward", *arguments, connected=False)
    assert client.wait() == 1
    assert words in client.stderr
