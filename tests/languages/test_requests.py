"""The middlewares for idempotency keys, each in a real server of its language with a real PostgreSQL: uvicorn, gunicorn, Express,
Fastify, net/http, Tomcat and Spring Boot. The services do the same (orders_service.py, orders-service.js, orders_service of Go,
OrdersService.java, TestApplication.java), so one list of tests is for all."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import time

import pytest

from languages.libraries import PYTHON, ROOT, java, spring
from support import process
from support.wait import eventually

PYTHON_SERVICE, NODE_SERVICE = (str(ROOT / path) for path in
                                ("handlers/python/tests/orders_service.py", "handlers/node/tests/orders-service.js"))
SERVICES = {name: [PYTHON, PYTHON_SERVICE, name] for name in ("asgi-psycopg", "asgi-asyncpg", "asgi-sqlalchemy", "wsgi",
                                                                    "wsgi-django")} | {
    name: ["node", NODE_SERVICE, name] for name in ("express", "fastify")} | {
    f"go-{driver}": [str(ROOT / ".cache/languages/go/orders_service"), driver] for driver in ("pgx", "sql")} | {
    "servlet": [*java("io.inboxd.servlet.OrdersService"), "servlet"],
    "spring-mvc": [*spring("application.TestApplication"), "spring-mvc"]}
OTHERS = {"spring-handler": [*spring("application.TestApplication"), "handler"]}
HTML = gzip.compress(b"\0" * 100, mtime=0)


class Answer:
    def __init__(self, response):
        self.status, self.body = response.status, response.read()
        self.headers = {}
        for name, value in response.getheaders():
            self.headers[name.lower()] = ", ".join(filter(None, [self.headers.get(name.lower()), value]))

    def same(self):
        """What must be equal in each copy."""
        return self.status, self.body, {name: self.headers.get(name) for name in ("content-type", "content-encoding", "location", "vary",
                                                                                  "idempotency-expires", "content-length")}


class Service:
    def __init__(self, name, env):
        self.port = process.free_port()
        self.log = os.path.join(process.scratch("service"), "log")
        self.process = process.spawn([*(SERVICES | OTHERS)[name], str(self.port)], self.log, env={**os.environ, **env})
        eventually(self._answers, timeout=120, what=lambda: process.tail(self.log))

    def _answers(self):
        assert self.process.poll() is None, process.tail(self.log)
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def post(self, key="k", id=1, tenant=None, method="POST", body=None, kind="application/json",  # pylint: disable=redefined-builtin
             timeout=30, headers=(), **order):
        keys = [key] if isinstance(key, str) else key or []
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        body = json.dumps({"id": id, **order}).encode() if body is None else body
        connection.putrequest(method, "/orders")
        for name, value in [("content-type", kind), ("content-length", str(len(body))),
                            *[("idempotency-key", one) for one in keys], *([("x-tenant", tenant)] if tenant else []), *headers]:
            connection.putheader(name, value)
        connection.endheaders(body)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait(30)


@pytest.fixture(params=sorted(SERVICES))
def start(request, make_inboxd, inbox, postgres_server, database):
    """start(**environment) -> a service of this language; all have one database."""
    assert make_inboxd().command("migrate").returncode == 0
    inbox.execute("CREATE TABLE public.orders (id bigint, tenant text)")
    started = []

    def make(**environment):
        started.append(Service(request.param, {**postgres_server.environment(database), **environment}))
        return started[-1]

    yield make
    for service in started:
        service.stop()


@pytest.fixture
def service(start):
    return start()


def orders(inbox):
    return [row["id"] for row in inbox.query("SELECT id FROM public.orders ORDER BY id")]


def test_copies_get_the_response_of_the_first_one(service, inbox):
    first = service.post()
    assert (first.status, first.headers["location"], "idempotent-replayed" in first.headers) == (201, "/orders/1", False)
    assert first.headers["idempotency-expires"].endswith("GMT")
    for key in ("k", '"k"'):
        again = service.post(key)
        assert again.same() == first.same()
        assert again.headers["idempotent-replayed"] == "true"
    assert orders(inbox) == [1]
    assert inbox.value("SELECT count(*) FROM inbox.events") == 1
    assert inbox.query("SELECT operation, length(fingerprint) AS length FROM inbox.requests") == [{"operation": "POST /orders", "length": 32}]


def test_a_cookie_is_for_the_first_client_only(service):
    assert service.post().headers["set-cookie"] == "a=b"
    assert "set-cookie" not in service.post().headers


@pytest.mark.parametrize("key", [None, "", "a" * 256, '"open', '"a" "b"', "a, b", "ü", ["a", "b"]])
def test_a_missing_or_wrong_key_is_refused(service, inbox, key):
    answer = service.post(key)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert json.loads(answer.body)["type"] == ("key-missing" if key is None else "key-invalid")
    assert orders(inbox) == []


def test_a_quoted_key_may_have_escapes(service, inbox):
    service.post(r'"a \"b\" \\"')
    assert inbox.value("SELECT key FROM inbox.requests") == r'a "b" \ '.strip()


def test_another_body_is_refused_and_another_tenant_is_independent(service, inbox):
    service.post(tenant="a")
    answer = service.post(id=2, tenant="a")
    assert (answer.status, json.loads(answer.body)["type"]) == (422, "key-reused")
    assert service.post(id=2, tenant="b").status == 201
    assert orders(inbox) == [1, 2]


@pytest.mark.parametrize("then", [{"status": 500}, {"status": 503}, {"status": 401}, {"status": 409}, {"status": 429}, {"then": "raise"}])
def test_an_error_of_the_service_keeps_nothing(service, inbox, then):
    for _ in range(2):
        answer = service.post(**then)
        assert answer.status == then.get("status", 500)
        assert "idempotent-replayed" not in answer.headers
    assert orders(inbox) == []
    assert inbox.value("SELECT count(*) FROM inbox.requests") == inbox.value("SELECT count(*) FROM inbox.events") == 0
    assert service.post().status == 201


@pytest.mark.parametrize("then", [{"status": 404}, {"status": 422}, {"then": "bytes"}, {"then": "nothing"}])
def test_other_responses_are_replayed_byte_for_byte(service, inbox, then):
    first, again = service.post(**then), service.post(**then)
    assert again.same() == first.same()
    assert again.headers["idempotent-replayed"] == "true"
    if then.get("then") == "bytes":
        assert again.body.endswith(b"\0\xff")
        assert again.headers["vary"].replace(" ", "") == "a,b"
    assert orders(inbox) == [1]


def test_of_copies_at_once_one_runs(start, inbox):
    services = [start() for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        for number in range(5):
            answers = list(pool.map(lambda n, number=number: services[n % 3].post(f"k{number}", number), range(50)))
            assert {answer.status for answer in answers} <= {201, 409}
            assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status == 409)
            answers += [one.post(f"k{number}", number) for one in services]
            assert all(answer.status == 201 for answer in answers[50:])
            assert len({str(answer.same()) for answer in answers if answer.status == 201}) == 1
    assert orders(inbox) == list(range(5))


def test_the_events_of_a_request_continue_its_trace(service, inbox):
    traces = [["traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01"], ["tracestate", "a=b"]]
    assert service.post(headers=traces).status == 201
    assert service.post("other").status == 201
    assert [row["headers"] for row in inbox.query("SELECT headers FROM inbox.outbox ORDER BY seq")] == [traces, []]


def test_a_copy_waits_a_moment_for_a_request_that_ends_soon(service, inbox):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number in range(5):
            one, other = pool.map(lambda _, number=number: service.post(f"k{number}", number, then="slow", ms=30), range(2))
            assert one.same() == other.same()
            assert {answer.headers.get("idempotent-replayed") for answer in (one, other)} == {None, "true"}
    assert orders(inbox) == list(range(5))


def test_a_request_takes_effect_although_its_client_has_gone(service, inbox):
    with pytest.raises(TimeoutError):
        service.post(then="slow", ms=1500, timeout=0.5)
    eventually(lambda: orders(inbox) == [1])
    assert service.post(then="slow", ms=1500).headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("start", ["express", "fastify"], indirect=True)
def test_a_program_that_fails_behind_its_response_sends_what_is_stored(start, inbox):
    service = start()
    first, again = service.post(then="answered"), service.post(then="answered")
    assert (first.status, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.same() == first.same()
    assert orders(inbox) == [1]


def test_a_killed_service_leaves_the_key_free(start, inbox):
    first, second = start(), start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first.post, then="wait")
        eventually(lambda: second.post(then="wait").status == 409 if inbox.value(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())") else False)
        first.stop(signal.SIGKILL)
        assert waiting.exception() is not None
    eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'"
                                   " AND datname = current_database()") == 0)
    began = time.monotonic()
    assert second.post().status == 201
    assert time.monotonic() - began < 10
    assert orders(inbox) == [1]


def test_other_methods_pass_without_a_transaction(service):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.request("GET", "/orders")
    assert connection.getresponse().read() == b"no"


def test_a_response_that_is_too_large_to_store_makes_no_effect(service, inbox):
    assert service.post(body=b'{"id": 1, "then": "' + b"x" * 200_000 + b'"}').status == 413
    assert orders(inbox) == []


def problem_of(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status, json.loads(answer.body)["type"]


def test_a_response_over_one_mebibyte_is_an_error_and_makes_no_effect(start, inbox):
    service = start(KEY_REQUIRED="no")
    for key in (None, "k"):
        assert problem_of(service.post(key, then="large")) == (500, "response-invalid")
    assert orders(inbox) == []
    assert service.post().status == 201


def test_without_the_database_the_answer_is_503_and_later_the_request_runs(service, inbox, postgres):
    assert service.post("before").status == 201
    postgres.stop()
    for _ in range(2):
        answer = service.post(timeout=60)
        assert (problem_of(answer), answer.headers["retry-after"]) == ((503, "database-away"), "1")
    postgres.start()
    eventually(lambda: service.post(timeout=60).status == 201, timeout=60)
    assert orders(inbox) == [1, 1]


def test_a_backend_that_ends_before_the_commit_is_503_and_keeps_nothing(start, inbox):
    service = start()
    inbox.execute("CREATE FUNCTION public.killer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM"
                  " pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER killer AFTER INSERT"
                  " ON public.orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.killer()")
    answer = service.post()
    assert (problem_of(answer), answer.headers["retry-after"]) == ((503, "database-away"), "1")
    inbox.execute("DROP TRIGGER killer ON public.orders")
    assert service.post().status == 201
    assert orders(inbox) == [1]


def test_a_lease_that_ended_without_a_result_is_lost_until_an_operator_decides(service, inbox):
    inbox.execute("SELECT inbox.request_begin('k', NULL, operation => 'POST /orders', lease => '1 hour')")
    assert problem_of(service.post()) == (409, "request-outstanding")
    inbox.execute("UPDATE inbox.requests SET locked_until = now() - interval '1 second'")
    for _ in range(2):
        answer = service.post()
        assert (problem_of(answer), answer.headers.get("retry-after")) == ((409, "outcome-unknown"), None)
    assert orders(inbox) == []
    assert inbox.value("SELECT inbox.request_forget('', 'k', 'looked it up')")
    assert service.post().status == 201
    assert orders(inbox) == [1]


@pytest.mark.parametrize("start", ["servlet"], indirect=True)
def test_a_servlet_cannot_become_asynchronous(start, inbox):
    assert start().post(then="asynchronous").status == 500
    assert orders(inbox) == []


def test_a_response_that_breaks_off_keeps_nothing_and_frees_the_key(service, inbox):
    with contextlib.suppress(http.client.RemoteDisconnected):  # Go ends the connection
        assert service.post(then="breaks").status == 500
    assert orders(inbox) == []
    assert service.post().status == 201


def test_a_body_that_is_cut_off_does_not_run(service, inbox):
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as client, contextlib.suppress(ConnectionError):
        client.sendall(b"POST /orders HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nidempotency-key: k\r\n"
                       b'content-length: 50\r\n\r\n{"id": 1}')
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    assert service.post(id=2).status == 201
    assert orders(inbox) == [2]


def test_a_hidden_error_of_a_statement_is_no_success(start, inbox):
    service = start(KEY_REQUIRED="no")
    for key in (None, "k"):
        assert service.post(key, then="hide").status == 500
    assert orders(inbox) == []


def test_an_unknown_scope_is_not_the_empty_one(service, inbox):
    assert service.post(tenant="nobody").status == 500
    assert orders(inbox) == []


@pytest.mark.parametrize("start", ["express", "fastify"], indirect=True)
def test_a_request_that_never_ends_keeps_neither_its_key_nor_its_connection(start, inbox):
    service = start()
    with pytest.raises(OSError):
        service.post(then="never", timeout=1)
    eventually(lambda: service.post().status == 201)
    assert orders(inbox) == [1]
    eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'"
                                   " AND datname = current_database()") == 0)


@pytest.mark.parametrize("start", ["express"], indirect=True)
def test_a_body_that_no_parser_has_read_is_refused(start, inbox):
    answer = start().post(kind="text/plain")
    assert (answer.status, json.loads(answer.body)["type"]) == (415, "request-unread")
    assert orders(inbox) == []
