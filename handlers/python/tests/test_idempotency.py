"""The middlewares for idempotency keys, without servers and PostgreSQL, which tests/languages of the repository has."""

import asyncio
import contextlib
import http.client
import io
import json
import threading
from datetime import timedelta
from wsgiref import simple_server

import pytest
from inboxd import asgi, wsgi
from inboxd.idempotency import MAX_RESPONSE, Rules


class Database:
    """A connection whose requests all start; fails[name] is raised where it says. busy: so many looks find another copy."""

    def __init__(self, commits=True, busy=0, **fails):
        self.commits, self.busy, self.fails, self.calls, self.values = commits, busy, fails, [], {}

    def answer(self, query, values):
        name = "begin" if "begin" in query else "complete"
        self.calls.append(name)
        self.values[name] = values
        if name in self.fails:
            raise self.fails[name]
        if name == "complete":
            return self.commits, "tomorrow" if self.commits else None
        self.busy -= 1
        busy = ("busy", None, 409, '{"retry-after": "1"}', b"busy", "", "")
        return busy if self.busy >= 0 else ("started", "token", None, None, None, "", "")

    def ended(self, error):
        self.calls.append("rollback" if error else "commit")


class SyncConnection(Database):
    def execute(self, query, values):
        row = self.answer(query, values)
        return type("Cursor", (), {"fetchone": lambda _: row})()

    @contextlib.contextmanager
    def connect(self):
        if "connect" in self.fails:
            raise self.fails["connect"]
        yield self

    @contextlib.contextmanager
    def transaction(self):
        try:
            yield
        except BaseException:
            self.ended(True)
            raise
        self.ended(False)


class AsyncConnection(Database):
    async def execute(self, query, values):
        row = self.answer(query, values)

        async def fetchone(_):
            return row

        return type("Cursor", (), {"fetchone": fetchone})()

    @contextlib.asynccontextmanager
    async def connect(self):
        if "connect" in self.fails:
            raise self.fails["connect"]
        yield self

    @contextlib.asynccontextmanager
    async def transaction(self):
        try:
            yield
        except BaseException:
            self.ended(True)
            raise
        self.ended(False)


def serve_asgi(app, database, body=b"17", stays=True, more=(), rules=None, **headers):
    """(status, headers, body) of the answer. stays: the client waits for it. more: messages behind the body."""
    sent = []
    messages = [*more, {"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        if stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/orders",
        "query_string": b"a=b",
        "headers": [
            (b"idempotency-key", b"k"),
            *[
                (name.removeprefix("HTTP_").lower().replace("_", "-").encode(), value.encode())
                for name, value in headers.items()
            ],
        ],
    }
    asyncio.run(asgi.IdempotencyMiddleware(app, database.connect, rules)(scope, receive, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, sent[1]["body"]


def serve_wsgi(app, database, body=b"17", rules=None, **environ):
    """(status, headers, body) of the answer."""
    started = []
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/orders", "QUERY_STRING": "a=b", "CONTENT_LENGTH": str(len(body)),
        "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO(body), **environ,
    }  # fmt: skip
    parts = wsgi.IdempotencyMiddleware(app, database.connect, rules)(environ, lambda *start: started.append(start))
    return int(started[0][0].split()[0]), dict(started[0][1]), b"".join(parts)


async def created(scope, receive, send):
    await send({"type": "http.response.start", "status": 201, "headers": [(b"Vary", b"a"), (b"vary", b"b")]})
    await send({"type": "http.response.body", "body": b"made"})


def made(environ, start_response):
    start_response("201 Created", [("Vary", "a"), ("vary", "b")])
    return [b"ma", b"de"]


EACH = [(serve_asgi, created, AsyncConnection), (serve_wsgi, made, SyncConnection)]
each = pytest.mark.parametrize(("serve", "app", "connection"), EACH, ids=["asgi", "wsgi"])


@each
def test_the_database_gets_the_request_and_the_response(serve, app, connection):
    status, headers, body = serve(app, database := connection())
    assert (status, headers["idempotency-expires"], headers["content-length"], body) == (201, "tomorrow", "4", b"made")
    assert database.calls == ["begin", "complete", "commit"]
    assert database.values["begin"][:7] == [None, None, "k", "POST", "/orders?a=b", b"17", ""]
    assert database.values["complete"] == ["token", 201, '{"vary": ["a", "b"]}', b"made"]


@each
def test_what_the_database_does_not_store_is_sent_after_the_rollback(serve, app, connection):
    status, headers, body = serve(app, database := connection(commits=False))
    assert (status, "idempotency-expires" in headers, body) == (201, False, b"made")
    assert database.calls == ["begin", "complete", "rollback"]


class OperationalError(Exception):
    sqlstate = None


class PoolTimeout(OperationalError):
    pass


class InterfaceError(Exception):
    pass


class SqlError(Exception):
    def __init__(self, sqlstate):
        self.sqlstate = sqlstate


@each
@pytest.mark.parametrize("place", ["connect", "begin", "complete"])
@pytest.mark.parametrize(
    "error",
    [PoolTimeout(), InterfaceError(), ConnectionResetError(), asyncio.TimeoutError(), SqlError("57P01"), SqlError("55P03")],
)
def test_a_database_that_is_away_is_503(serve, app, connection, place, error):
    status, headers, body = serve(app, database := connection(**{place: error}))
    assert (status, headers["retry-after"], json.loads(body)["type"]) == (503, "1", "database-away")
    assert "commit" not in database.calls


@each
@pytest.mark.parametrize("state", ["IB010", "IB011", "42501", "25P02", "23505", "55000"])
def test_another_error_of_the_database_is_500(serve, app, connection, state):
    status, headers, body = serve(app, connection(complete=SqlError(state)))
    assert (status, "retry-after" in headers, json.loads(body)["type"]) == (500, False, "response-invalid")


@each
@pytest.mark.parametrize("place", ["connect", "begin", "complete"])
def test_a_mistake_in_the_program_is_raised(serve, app, connection, place):
    database = connection(**{place: TypeError("connect() takes no arguments")})
    with pytest.raises(TypeError, match="takes no"):
        serve(app, database)
    assert "commit" not in database.calls


def conflict(environ, start_response):
    start_response("409 Conflict", [])
    return [b"taken"]


def test_an_error_response_after_a_failed_statement_is_sent_and_not_stored():
    assert serve_wsgi(conflict, database := SyncConnection(complete=SqlError("25P02")))[::2] == (409, b"taken")
    assert database.calls == ["begin", "complete", "rollback"]


@each
def test_an_error_that_the_program_gets_from_its_database_is_its_own(serve, app, connection):
    def fails(*_):
        raise SqlError("57P01")

    with pytest.raises(SqlError):
        serve(fails, database := connection())
    assert database.calls == ["begin", "rollback"]


# --- Copies that run at the same time ---


@each
def test_a_copy_waits_a_moment_for_the_one_that_runs(serve, app, connection):
    assert serve(app, database := connection(busy=2))[0] == 201
    assert database.calls == ["begin", "rollback", "begin", "rollback", "begin", "complete", "commit"]


@each
@pytest.mark.parametrize(("wait", "looks"), [(0, 1), (25, 3)])
def test_a_copy_waits_no_longer_than_the_rule_says(serve, app, connection, wait, looks):
    rules = Rules(wait=timedelta(milliseconds=wait))
    status, headers, _ = serve(app, database := connection(busy=100), rules=rules)
    assert (status, headers["retry-after"]) == (409, "1")
    assert database.calls == ["begin", "rollback"] * looks


# --- What is compared, and what the program sees ---


def form(boundary, content):
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{content}\r\n--{boundary}--\r\n'
    ).encode()


@each
def test_the_boundary_of_a_form_is_not_compared(serve, app, connection):
    def compared(boundary, content):
        kind = {"HTTP_CONTENT_TYPE" if serve is serve_asgi else "CONTENT_TYPE": f'multipart/form-data; boundary="{boundary}"'}
        database = connection()
        assert serve(app, database, form(boundary, content), **kind)[0] == 201
        return database.values["begin"][5]

    assert compared("a", "one") == compared("bb", "one") != compared("a", "two")


@each
def test_a_fingerprint_of_the_service_is_compared_in_place_of_the_body(serve, app, connection):
    rules = Rules(fingerprint=lambda _, body: f"order {body.decode()}")
    serve(app, database := connection(), rules=rules)
    assert database.values["begin"][5] == b"order 17"


@each
def test_the_events_of_a_request_continue_its_trace(serve, app, connection):
    serve(app, database := connection(), HTTP_TRACEPARENT="00-aa-bb-01", HTTP_TRACESTATE="a=b")
    assert database.values["begin"][:2] == ["00-aa-bb-01", "a=b"]


@each
def test_all_copies_can_read_the_response(serve, app, connection):
    seen = []

    def program(scope, *others):
        seen.append(scope.get("HTTP_ACCEPT_ENCODING") or dict(scope["headers"])[b"accept-encoding"].decode())
        return app(scope, *others)

    serve(program, connection(), HTTP_ACCEPT_ENCODING="gzip")
    assert seen == ["identity"]


# --- Large responses ---


def test_asgi_a_program_that_writes_too_much_is_stopped():
    written = []

    async def endless(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
            written.append(1 << 16)

    assert serve_asgi(endless, database := AsyncConnection())[0] == 500
    assert (sum(written), database.calls) == (MAX_RESPONSE, ["begin", "rollback"])


def test_asgi_a_program_that_hides_this_stores_nothing():
    async def stubborn(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with contextlib.suppress(Exception):
            await send({"type": "http.response.body", "body": bytes(MAX_RESPONSE + 1), "more_body": True})
        raise RuntimeError

    assert json.loads(serve_asgi(stubborn, database := AsyncConnection())[2])["type"] == "response-invalid"
    assert database.calls == ["begin", "rollback"]


def test_wsgi_a_program_that_writes_too_much_is_stopped():
    class Endless:
        is_closed = False

        def __iter__(self):
            return self

        def __next__(self):
            return bytes(1 << 16)

        def close(self):
            self.is_closed = True

    endless = Endless()
    status, _, _ = serve_wsgi(lambda _, start: start("200 OK", []) and endless, database := SyncConnection())
    assert (status, database.calls, endless.is_closed) == (500, ["begin", "rollback"], True)


# --- Clients that go ---


def abandon_after(seconds):
    return Rules(abandon_after=timedelta(seconds=seconds))


def test_a_program_that_does_not_notice_that_the_client_has_gone_is_cancelled():
    ended = []

    async def waits(scope, receive, send):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append(database.calls.copy())

    serve_asgi(waits, database := AsyncConnection(), stays=False, rules=abandon_after(0.1))
    assert database.calls == ["begin", "rollback"]
    assert ended == [["begin"]]  # it had the transaction until its end


def test_a_program_whose_client_has_gone_has_time_to_end():
    async def ends(scope, receive, send):
        await receive()
        assert [(await receive())["type"] for _ in range(2)] == ["http.disconnect"] * 2
        await created(scope, receive, send)

    serve_asgi(ends, database := AsyncConnection(), stays=False, rules=abandon_after(30))
    assert database.calls == ["begin", "complete", "commit"]


def test_a_program_is_not_cancelled_while_its_client_waits():
    rules = abandon_after(0.01)

    async def slow(scope, receive, send):
        await asyncio.sleep(0.1)
        await created(scope, receive, send)

    assert serve_asgi(slow, AsyncConnection(), rules=rules)[0] == 201
    more = [{"type": "http.request", "body": b"", "more_body": False}]
    assert serve_asgi(slow, AsyncConnection(), more=more, rules=rules)[0] == 201


# --- Bodies that something else has read ---


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass

    def finish(self):
        """Reads what the application has left: to close the socket before is a reset, and the client would lose the answer."""
        self.wfile.flush()
        self.connection.settimeout(10)
        self.rfile.read()
        super().finish()


def problem_of(answer):
    return answer[0], json.loads(answer[2])["type"]


def test_a_body_that_a_filter_has_read_is_not_compared():
    database = SyncConnection()
    assert problem_of(serve_wsgi(made, database, b"", CONTENT_LENGTH="2")) == (415, "request-unread")
    assert database.calls == []


def test_a_body_that_a_filter_has_decoded_may_be_shorter():
    database = SyncConnection()
    assert serve_wsgi(made, database, b"1", CONTENT_LENGTH="2", HTTP_CONTENT_ENCODING="gzip")[0] == 201
    assert database.values["begin"][5] == b"1"


def test_a_decoded_body_may_be_longer_if_the_input_ends():
    database = SyncConnection()
    environ = {"CONTENT_LENGTH": "2", "HTTP_CONTENT_ENCODING": "gzip", "wsgi.input_terminated": True}
    assert serve_wsgi(made, database, b"12345", **environ)[0] == 201
    assert database.values["begin"][5] == b"12345"


def test_a_chunked_body_whose_end_the_server_does_not_know_is_not_compared():
    database = SyncConnection()
    app = wsgi.IdempotencyMiddleware(made, database.connect)
    with simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as client:
            client.request("POST", "/orders", iter([b"17"]), {"idempotency-key": "k"}, encode_chunked=True)
            with client.getresponse() as answer:
                assert (answer.status, json.loads(answer.read())["type"]) == (415, "request-unread")
        thread.join(10)
    assert database.calls == []


def test_a_chunked_body_that_the_server_ends_is_compared():
    database = SyncConnection()
    environ = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert serve_wsgi(made, database, b"17", **environ)[0] == 201
    assert database.values["begin"][5] == b"17"


def test_a_request_without_a_body_runs():
    environ = {"CONTENT_LENGTH": ""}
    assert serve_wsgi(made, database := SyncConnection(), b"", **environ)[0] == 201
    assert database.values["begin"][5] == b""


def test_a_body_that_ends_early_is_refused():
    assert problem_of(serve_wsgi(made, SyncConnection(), b"1", CONTENT_LENGTH="2")) == (400, "request-incomplete")


def test_a_body_that_is_too_large_is_refused():
    rules = Rules(max_body=1)
    assert problem_of(serve_wsgi(made, SyncConnection(), rules=rules)) == (413, "request-too-large")
    environ = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    assert problem_of(serve_wsgi(made, SyncConnection(), rules=rules, **environ)) == (413, "request-too-large")
