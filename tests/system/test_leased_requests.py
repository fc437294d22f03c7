"""Leased requests on the socket (requests.socket): the methods, their errors, their limits, and what an outage answers."""

import base64
import json
import statistics
import threading
import time
from contextlib import contextmanager

import pytest

from support.wait import eventually
from support.wire import Refused, Wire
from test_commands import run

FUNCTIONS = ("request_begin(text, bytea, text, text, interval, interval, text)", "request_complete(text, int, bytea, jsonb)",
             "request_fail(text, text)", "request_extend(text, interval, text)", "result(text, text, text)")
ON = {"requests": {"socket": True}}
MINUTE = 60_000


def coded(data):
    return base64.b64encode(data).decode()


@pytest.fixture
def start(start_inboxd, inbox, sidecar_user):
    """start(**sections) -> a sidecar with requests.socket, whose user may call the functions."""

    def run(**sections):
        sidecar = start_inboxd({**ON, **sections})
        for function in FUNCTIONS:
            inbox.execute(f"GRANT EXECUTE ON FUNCTION inbox.{function} TO {sidecar_user}")
        return sidecar

    return run


@pytest.fixture
def sidecar(start):
    return start()


@pytest.fixture
def open_client():
    """open_client(sidecar) -> a Wire that has said hello with the role, closed after the test."""
    made = []

    def make(sidecar, **options):
        made.append(Wire(sidecar.socket_path, **options))
        made[-1].hello(handler=None, role="requests")
        return made[-1]

    yield make
    for wire in made:
        wire.close()


@pytest.fixture
def client(sidecar, open_client):
    return open_client(sidecar)


def begin(client, key="k", **params):
    return client.request("request.begin", {"key": key, "lease_ms": MINUTE, **params})


def refused(client, method, code, words, **params):
    with pytest.raises(Refused) as error:
        client.request(method, params)
    assert error.value.code == code, error.value
    assert words in error.value.message


# The methods

def test_hello_with_the_role_says_what_the_connection_is_for(sidecar):
    with Wire(sidecar.socket_path) as wire:
        reply = wire.hello(handler=None, role="requests", client="shop/1")
        assert (reply["protocol"], reply["role"], reply["max_open"]) == (1, "requests", 64)
        assert reply["session"]
        refused(wire, "hello", -32002, "hello was said already", protocol=[1], role="requests")
    eventually(lambda: "event=requests_client_connected" in sidecar.stderr)


def test_a_request_is_begun_completed_and_replayed(client):
    one = begin(client, scope="tenant-a", operation="POST /orders", fingerprint=coded(b"f"))
    assert (one["verdict"], one["attempt"], one["body"]) == ("started", 1, None)
    assert one["expires_at"].endswith("Z")
    body = b"\x00\xff" + "ü".encode() + b"{}"
    assert client.request("request.complete", {"token": one["token"], "status": 201, "body": coded(body),
                                               "headers": {"location": "/orders/17"}}) == {}
    again = begin(client, scope="tenant-a", operation="POST /orders", fingerprint=coded(b"f"))
    assert (again["verdict"], again["status"], again["headers"]) == ("replay", 201, {"location": "/orders/17"})
    assert base64.b64decode(again["body"]) == body
    assert begin(client, scope="tenant-a", operation="POST /orders", fingerprint=coded(b"g"))["verdict"] == "mismatch"
    assert begin(client, scope="tenant-b")["verdict"] == "started"


def test_another_copy_is_busy_until_the_lease_ends(client):
    begin(client, lease_ms=30_000)
    copy = begin(client)
    assert copy["verdict"] == "busy"
    assert 0 < copy["retry_after_ms"] <= 30_000


def test_a_failed_request_runs_again_with_its_point(client):
    one = begin(client)
    assert client.request("request.extend", {"token": one["token"], "lease_ms": MINUTE, "point": "charged"}) == {}
    assert client.request("request.fail", {"token": one["token"], "reason": "upstream 503"}) == {}
    again = begin(client)
    assert (again["verdict"], again["attempt"], again["point"]) == ("started", 2, "charged")


def test_a_lease_that_is_over_is_taken_over_and_the_first_holder_has_lost_it(client, inbox):
    one = begin(client)
    inbox.execute("UPDATE inbox.requests SET locked_until = now() - interval '1 second'")
    assert begin(client, lost="refuse")["verdict"] == "lost"
    assert begin(client)["attempt"] == 2
    for method, more in (("request.complete", {"status": 200}), ("request.extend", {}), ("request.fail", {})):
        refused(client, method, -32011, "the token is lost", token=one["token"], **more)


def test_a_response_of_one_mebibyte_is_replayed(client):
    body = bytes(range(256)) * 4096
    one = begin(client)
    client.request("request.complete", {"token": one["token"], "status": 200, "body": coded(body)})
    for _ in range(3):
        assert base64.b64decode(begin(client)["body"]) == body
    one = begin(client, "larger")
    refused(client, "request.complete", -32602, "the limit is 1048576", token=one["token"], status=200, body=coded(body + b"x"))


def test_result_says_what_became_of_a_message(client, sidecar, handler, produce, topic, inbox):
    handler(sidecar, lambda delivery: {"status": "done", "result": {"invoice": None}}, subscribe=[{"topic": topic}])
    produce(topic, b"{}", headers=[("id", "A1")])
    inbox.wait_processed(1)
    found = client.request("result.get", {"source": topic, "event_id": "A1"})
    assert (found["status"], found["result"], found["error"]) == ("processed", {"invoice": None}, None)
    assert found["processed_at"].endswith("Z")
    assert client.request("result.get", {"source": topic, "event_id": "A2"})["status"] is None


def test_it_gets_no_delivery(client, produce, topic, inbox):
    produce(topic, b"{}", headers=[("id", "A1")])
    inbox.wait_status("A1", "parked")
    client.expect_silence()
    assert client.request("poke") == {}


# What is refused

WRONG_PARAMETERS = [
    ("request.begin", {"key": "k"}, "params.lease_ms is missing"),
    ("request.begin", {"key": "k", "lease_ms": None}, "params.lease_ms is missing"),
    ("request.begin", {"key": "k", "lease_ms": 1.5}, "params.lease_ms must be a whole number"),
    ("request.begin", {"key": "k", "lease_ms": "60000"}, "params.lease_ms must be a number"),
    ("request.begin", {"key": "k", "lease_ms": 999}, "lease is 00:00:00.999"),
    ("request.begin", {"key": "k", "lease_ms": 3_600_001}, "it is from 1 second to 1 hour"),
    ("request.begin", {"lease_ms": MINUTE}, "key is NULL"),
    ("request.begin", {"key": "", "lease_ms": MINUTE}, "key is empty"),
    ("request.begin", {"key": "x" * 256, "lease_ms": MINUTE}, "the limit is 255"),
    ("request.begin", {"key": 7, "lease_ms": MINUTE}, "params.key must be a string"),
    ("request.begin", {"key": "a\0b", "lease_ms": MINUTE}, "params cannot be stored"),
    ("request.begin", {"key": "k", "lease_ms": MINUTE, "keep_ms": 1}, "keep is 00:00:00.001"),
    ("request.begin", {"key": "k", "lease_ms": MINUTE, "lost": "maybe"}, "lost is 'maybe'"),
    ("request.begin", {"key": "k", "lease_ms": MINUTE, "fingerprint": "not base64"}, "params.fingerprint must be base64"),
    ("request.begin", {"key": "k", "lease_ms": MINUTE, "scope": ["a"]}, "params.scope must be a string"),
    ("request.complete", {"status": 200}, "params.token is missing"),
    ("request.complete", {"token": "x", "status": 200}, "token is 'x'"),
    ("request.complete", {"token": "x", "status": 99}, "params.status must be a whole number"),
    ("request.complete", {"token": "x", "status": 200, "body": "%"}, "params.body must be base64"),
    ("request.complete", {"token": "x", "status": 200, "headers": []}, "params.headers must be an object"),
    ("request.extend", {}, "params.token is missing"),
    ("request.fail", {"token": {}}, "params.token must be a string"),
    ("result.get", {"event_id": "A1"}, "params.source is missing"),
    ("result.get", {"source": "orders", "event_id": None}, "params.event_id is missing"),
]


def test_a_wrong_parameter_is_named(client):
    for method, params, words in WRONG_PARAMETERS:
        refused(client, method, -32602, words, **params)
    assert begin(client, "other")["verdict"] == "started"


def test_a_member_that_is_given_twice_is_refused(client):
    client.send_line('{"jsonrpc":"2.0","id":1,"method":"request.begin","params":{"key":"a","key":"b","lease_ms":60000}}')
    assert "params.key is given twice" in client.expect_error(-32602, 1)


def test_parameters_have_a_limit(client):
    one = begin(client)
    refused(client, "request.complete", -32602, "the limit is 2097152", token=one["token"], status=200, body=coded(bytes(3 << 20)))
    refused(client, "request.complete", -32602, "headers", token=one["token"], status=200, headers={"x": "y" * 20000})
    refused(client, "request.complete", -32602, "headers has Set-Cookie", token=one["token"], status=200, headers={"Set-Cookie": "a=b"})


def test_wrong_parameters_of_some_callers_do_not_end_the_connection_of_the_others(client):
    for number in range(12):
        refused(client, "request.begin", -32602, "params.lease_ms is missing", key=f"k{number}")
    assert begin(client)["verdict"] == "started"


def test_a_token_of_a_transaction_is_lost(client, inbox):
    token = inbox.value("SELECT token FROM inbox.request_begin('in-one', NULL)")
    refused(client, "request.complete", -32011, "the token is lost", token=token, status=200)
    refused(client, "request.extend", -32602, "without a lease", token=token)


def test_the_role_has_no_subscriptions_and_no_other_name(sidecar):
    with Wire(sidecar.socket_path) as wire:
        for params, words in (({"role": "shop"}, 'params.role must be "requests"'), ({"role": 1}, "params.role must be a string"),
                              ({"role": "requests", "subscribe": []}, "params.subscribe is for handlers")):
            refused(wire, "hello", -32602, words, protocol=[1], **params)
        refused(wire, "hello", -32001, "supported [1]", protocol=[2], role="requests")
        assert wire.hello(handler=None, role="requests")


def test_a_handler_cannot_send_requests_and_nobody_before_a_hello(sidecar):
    with Wire(sidecar.socket_path) as wire:
        refused(wire, "request.begin", -32002, "say hello first", key="k", lease_ms=MINUTE)
        wire.hello()
        refused(wire, "request.begin", -32002, "the role requests", key="k", lease_ms=MINUTE)


def test_off_it_is_refused_with_the_option_to_set(inboxd):
    with Wire(inboxd.socket_path) as wire:
        refused(wire, "hello", -32006, "requests.socket", protocol=[1], role="requests")
        refused(wire, "request.begin", -32002, "say hello first", key="k", lease_ms=MINUTE)
        assert wire.hello()["session"]
    eventually(lambda: "code=-32006" in inboxd.stderr)


def test_a_user_that_is_not_allowed_cannot_connect(start):
    sidecar = start(socket={"allow_uid": [12345]})
    with Wire(sidecar.socket_path) as wire:
        wire.expect_error(-32000)
        wire.expect_end()


def test_check_names_the_role_that_the_requests_need(start_inboxd, inbox, name):
    sidecar = start_inboxd(ON)
    assert sidecar.command("migrate", "--roles=inboxd").returncode == 0
    user = f"a_{name}"[:60]
    inbox.execute(f'CREATE ROLE "{user}" LOGIN IN ROLE inboxd_sidecar')

    def check(*options):
        answer = json.loads(sidecar.command("check", "--json", "--set", f"postgres.user={user}", *options).stdout)
        return next(check for check in answer["checks"] if check["name"] == "privileges")

    try:
        assert "EXECUTE ON FUNCTION inbox.request_begin(" in check()["text"]
        assert check()["advice"].endswith("and GRANT inboxd_service to the user")
        assert "has all privileges" in check("--set", "requests.socket=false")["text"]
        inbox.execute(f'GRANT inboxd_service TO "{user}"')
        assert "has all privileges" in check()["text"]
    finally:
        inbox.execute(f'DROP ROLE "{user}"')


def test_without_the_right_the_reply_says_what_to_grant(start_inboxd, open_client):
    client = open_client(start_inboxd(ON))
    refused(client, "request.begin", -32603, "inboxd_service", key="k", lease_ms=MINUTE)
    assert client.request("poke") == {}


def test_garbage_ends_only_its_own_connection(sidecar, client):
    with Wire(sidecar.socket_path) as wire:
        wire.hello(handler=None, role="requests")
        for line in (b"\xff\xfe", b"{", b"[]", b'{"jsonrpc":"2.0","method":"request.begin"}', b"7", b"null", b'""', b"{}",
                     b'{"jsonrpc":"2.0","id":{},"method":"request.begin"}', b"\x00"):
            wire.send_line(line)
            assert wire.read_line()["error"]["code"] in (-32700, -32600)
        wire.expect_end()
    assert begin(client)["verdict"] == "started"


# Limits

def send_begins(client, keys):
    for number, key in enumerate(keys):
        client.send_line({"jsonrpc": "2.0", "id": f"r{number}", "method": "request.begin",
                          "params": {"key": key, "lease_ms": MINUTE}})


@pytest.fixture
def held(inbox):
    """held() -> a context in which each call of the functions that write waits in PostgreSQL, without a lock."""

    @contextmanager
    def hold():
        inbox.execute("CREATE TABLE public.held ()")
        inbox.execute("GRANT SELECT ON public.held TO public")
        inbox.execute("CREATE FUNCTION public.wait_while_held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                      " WHILE EXISTS (SELECT FROM public.held) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NULL; END $$")
        inbox.execute("CREATE TRIGGER held BEFORE INSERT ON inbox.requests FOR EACH STATEMENT"
                      " EXECUTE FUNCTION public.wait_while_held()")
        inbox.execute("INSERT INTO public.held DEFAULT VALUES")
        try:
            yield
        finally:
            inbox.execute("DELETE FROM public.held")

    return hold


def waits(inbox):
    """The backends whose call is held."""
    return inbox.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")


def replies(client, count):
    return {line["id"]: line for line in (client.read_line() for _ in range(count))}


def test_the_65th_open_request_is_refused_and_the_others_are_answered(client, held):
    with held():
        send_begins(client, [f"k{number}" for number in range(65)])
        line = client.read_line()
        assert (line["id"], line["error"]["code"]) == ("r64", -32012)
        assert "64 requests" in line["error"]["message"]
    found = replies(client, 64)
    assert {line["result"]["verdict"] for line in found.values()} == {"started"}
    assert begin(client, "next")["verdict"] == "started"


def test_connections_take_turns(sidecar, open_client, held, inbox):
    """One has 64 requests open. A request of another one is not the 65th."""
    greedy, other = open_client(sidecar), open_client(sidecar)
    with held():
        send_begins(greedy, [f"k{number}" for number in range(64)])
        eventually(lambda: waits(inbox) > 0)
        greedy.request("poke", request_id="read")  # the sidecar has read all of them
        send_begins(other, ["other"])
        other.request("poke", request_id="read")
    assert replies(other, 1)["r0"]["result"]["verdict"] == "started"
    assert len(replies(greedy, 64)) == 64
    begun = [row["key"] for row in inbox.query("SELECT key FROM inbox.requests ORDER BY created_at")]
    assert begun.index("other") <= 4


def test_large_requests_leave_room_to_other_connections(sidecar, open_client, held, inbox):
    greedy, other = open_client(sidecar), open_client(sidecar)
    with held():
        for number in range(40):
            greedy.send_line({"jsonrpc": "2.0", "id": number, "method": "request.begin",
                              "params": {"key": f"k{number}", "lease_ms": MINUTE, "x": "x" * 2_000_000}})
        assert "that wait are too large" in greedy.read_line()["error"]["message"]
        for number in range(3):
            other.send_line({"jsonrpc": "2.0", "id": number, "method": "request.begin",
                             "params": {"key": f"other{number}", "lease_ms": MINUTE, "x": "x" * 2_000_000}})
        other.expect_silence(0.5)
        greedy.close()
    assert {line["result"]["verdict"] for line in replies(other, 3).values()} == {"started"}


def test_drain_waits_for_the_open_requests(client, held):
    with held():
        send_begins(client, ["a"])
        client.send_line({"jsonrpc": "2.0", "id": "end", "method": "drain"})
        client.expect_silence(0.2)
    assert [client.read_line()["id"], client.read_line()["id"]] == ["r0", "end"]
    refused(client, "request.begin", -32600, "drain was asked for", key="b", lease_ms=MINUTE)


def test_requests_do_not_keep_messages_waiting(sidecar, client, handler, produce, topic, inbox):
    """Settles and claims have their turn beside a client that always has 64 requests open."""
    handler(sidecar, subscribe=[{"topic": topic}])
    stop = threading.Event()

    def flood():
        number = 0
        while not stop.is_set():
            send_begins(client, [f"{number}-{at}" for at in range(64)])
            replies(client, 64)
            number += 1

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for number in range(50):
            produce(topic, b"{}", headers=[("id", f"A{number}")])
        inbox.wait_processed(50)
    finally:
        stop.set()
        thread.join()


def test_with_one_worker_requests_and_messages_take_turns(start, open_client, handler, produce, topic, inbox):
    sidecar = start(worker={"connections": 1})
    client = open_client(sidecar)
    handler(sidecar, lambda delivery: {"status": "retry", "delay_ms": 2500} if delivery.attempt == 1 else None,
            subscribe=[{"topic": topic}])
    produce(topic, b"{}", headers=[("id", "A1")])  # claimed again after its retry
    end = time.monotonic() + 30
    while not inbox.count("processed"):
        send_begins(client, [f"{time.monotonic()}-{at}" for at in range(32)])
        replies(client, 32)
        assert time.monotonic() < end, "the message was not claimed beside requests"


def test_with_two_workers_requests_and_a_backlog_take_turns(start, open_client, handler, streams, topic, inbox):
    """The replayed messages of a paused handler are parked, one claim after the other."""
    sidecar = start(worker={"connections": 2, "claim_batch": 1})
    client = open_client(sidecar)
    handler(sidecar, name="other", subscribe=[{"topic": "other"}])
    handler(sidecar, name="billing", subscribe=[{"topic": topic}])
    streams.events(topic, [f"e{number}" for number in range(1500)])
    inbox.wait_processed(1500)
    run(sidecar, "pause", "--handler", "billing")
    eventually(lambda: sidecar.status()["paused"])
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
    eventually(lambda: inbox.count("parked") > 0)
    parked = [inbox.count("parked")]
    for number in range(20):
        begin(client, f"k{number}")
        parked.append(inbox.count("parked"))
    # A machine that stands still delays some of the requests. Behind the backlog, the first one would have waited for all of it.
    assert statistics.median(after - before for before, after in zip(parked, parked[1:])) < 70 and parked[1] < 1500


def test_a_call_does_not_wait_for_a_lock(client, inbox):
    """It would keep a worker from claims and settles."""
    with inbox.connect() as holder, holder.transaction():
        holder.execute("LOCK inbox.requests IN ACCESS EXCLUSIVE MODE")
        took = []
        while min(took, default=9) >= 2 and len(took) < 3:  # longer on a machine that stands still in between
            began = time.monotonic()
            refused(client, "request.begin", -32013, "lock timeout", key="k", lease_ms=MINUTE)
            took.append(time.monotonic() - began)
        assert min(took) < 2
    assert begin(client)["verdict"] == "started"


def test_the_error_of_a_table_of_the_user_is_not_one_of_the_arguments(client, inbox):
    inbox.execute("""CREATE TABLE public.audit (day date NOT NULL, key text) PARTITION BY RANGE (day);
                     CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN INSERT INTO public.audit VALUES (current_date, NEW.key); RETURN NULL; END $$;
                     CREATE TRIGGER audit AFTER INSERT ON inbox.requests FOR EACH ROW EXECUTE FUNCTION public.audit();
                     GRANT INSERT ON public.audit TO PUBLIC""")
    refused(client, "request.begin", -32603, "no partition", key="k", lease_ms=MINUTE)
    inbox.execute("CREATE TABLE public.audit_rest PARTITION OF public.audit DEFAULT")
    assert begin(client)["verdict"] == "started"


def test_a_client_that_reads_nothing_disturbs_nobody(sidecar, client, open_client):
    one = begin(client, "large")
    client.request("request.complete", {"token": one["token"], "status": 200, "body": coded(bytes(1 << 20))})
    deaf = open_client(sidecar)
    send_begins(deaf, ["large"] * 64)
    for number in range(20):
        assert begin(client, f"k{number}")["verdict"] == "started"
    assert sidecar.is_running()


# Logs

def test_no_response_is_in_a_log(start, open_client, postgres, inbox):
    """Neither body nor headers, on any level and after any error."""
    body, header, key = b"marker-of-a-body", "marker-of-a-header", "x-marker-of-a-name"
    sidecar = start(log={"level": "debug"})
    assert "debug" in sidecar.get("/log-level")[2]
    client = open_client(sidecar)
    response = {"status": 201, "body": coded(body), "headers": {key: header}}
    one = begin(client)
    client.request("request.complete", {"token": one["token"], **response})
    assert base64.b64decode(begin(client)["body"]) == body
    refused(client, "request.complete", -32011, "the token is lost", token=one["token"], **response)
    other = begin(client, "other")["token"]
    for wrong, words in (({"headers": {key: header, "Set-Cookie": header}}, "Set-Cookie"), ({"headers": {key: header + "\n"}}, "control"),
                         ({"headers": {key: [header]}}, "headers"), ({"headers": [key, header]}, "must be an object"),
                         ({"headers": {key: header * 2000}}, "headers"), ({"body": coded(body) + "%"}, "must be base64"),
                         ({"body": coded(body * 70_000)}, "body"), ({"status": 99}, "params.status"), ({"token": "x"}, "token is 'x'")):
        refused(client, "request.complete", -32602, words, **{"token": other, **response, **wrong})
    inbox.execute("ALTER TABLE inbox.requests ADD CONSTRAINT refused CHECK (status <> 418)")  # its error has the whole row
    refused(client, "request.complete", -32602, "refused", token=other, **{**response, "status": 418})
    inbox.execute("CREATE FUNCTION public.killer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM"
                  " pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; CREATE TRIGGER killer AFTER UPDATE ON inbox.requests"
                  " FOR EACH ROW EXECUTE FUNCTION public.killer()")
    refused(client, "request.complete", -32013, "", token=other, **response)
    with Wire(sidecar.socket_path) as wire:
        for _ in range(3):
            wire.send_line('{"jsonrpc": "2.0", "id": 1, "method": "request.complete", "params": ' + json.dumps(response)[:-1])
        wire.send_line({"jsonrpc": "2.0", "id": 2, "method": "request.complete", "params": {"token": "x", **response}})
        assert {wire.read_line()["error"]["code"] for _ in range(4)} == {-32700, -32002}
    postgres.stop()
    refused(client, "request.complete", -32013, "", token=other, **response)
    postgres.start()
    eventually(lambda: sidecar.get("/readyz")[0] == 200, timeout=60)
    assert sidecar.stop() == 0
    assert "event=dispatch_database_lost" in sidecar.stderr
    for text in (body.decode(), coded(body), body.hex(), header, key):
        assert text not in sidecar.stderr


# Disconnects, kills, outages

def test_the_request_of_a_client_that_has_gone_is_dropped_or_executed_whole(sidecar, client, open_client, inbox, held):
    with held():
        gone = open_client(sidecar)
        send_begins(gone, [f"k{number}" for number in range(30)])
        eventually(lambda: waits(inbox) > 0)
        gone.close()
        eventually(lambda: "event=handler_disconnected" in sidecar.stderr)
    assert begin(client, "after")["verdict"] == "started"
    eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'request_begin\\('"
                                   " AND pid <> pg_backend_pid()") == 0)
    assert inbox.value("SELECT count(*) FROM inbox.requests WHERE key ~ '^k'") < 30  # those that waited are dropped
    assert sidecar.is_running()


def test_requests_of_a_client_that_has_gone_take_no_memory(sidecar, open_client, held, inbox):
    with held():
        gone = open_client(sidecar)
        for number in range(40):
            gone.send_line({"jsonrpc": "2.0", "id": number, "method": "request.begin",
                            "params": {"key": f"k{number}", "lease_ms": MINUTE, "x": "x" * 2_000_000}})
        assert "that wait are too large" in gone.read_line()["error"]["message"]
        gone.close()
        client = open_client(sidecar)
        client.send_line({"jsonrpc": "2.0", "id": "after", "method": "request.begin",
                          "params": {"key": "after", "lease_ms": MINUTE, "x": "x" * 2_000_000}})
        client.expect_silence(0.5)
    assert client.read_line()["result"]["verdict"] == "started"


def test_a_lost_lease_frees_the_requests_that_wait(sidecar, client, held, inbox):
    """A leak would end the sidecar with an error."""
    before = sidecar.status()["instance"]
    with held():
        send_begins(client, [f"k{number}" for number in range(20)])
        eventually(lambda: waits(inbox) > 0)
        inbox.execute(f"UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = {before}")
        client.expect_end()
    eventually(lambda: sidecar.status()["instance"] not in (0, before))


def test_a_killed_backend_is_an_error_with_a_next_step(sidecar, client, inbox, held):
    with held():
        send_begins(client, ["k"])
        pid = eventually(lambda: inbox.value("SELECT min(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        inbox.execute("SELECT pg_terminate_backend(%s)", [pid])
        assert "outcome is unknown" in client.expect_error(-32013, "r0")
    assert begin(client)["verdict"] == "started"


def test_a_stopped_database_is_an_error_and_never_a_hang(sidecar, client, postgres, inbox):
    begin(client, "before")
    postgres.stop()
    began = time.monotonic()
    with pytest.raises(Refused) as error:
        begin(client, "during")
    assert error.value.code == -32013
    assert time.monotonic() - began < 45
    postgres.start()

    def works():
        try:
            with Wire(sidecar.socket_path) as again:
                again.hello(handler=None, role="requests")
                return begin(again, "during")["verdict"] in ("started", "busy")
        except (Refused, AssertionError, OSError):
            return False

    eventually(works, timeout=60)


def test_a_killed_sidecar_loses_no_completion(start, open_client, inbox):
    sidecar = start()
    client = open_client(sidecar)
    token = begin(client)["token"]
    sidecar.kill()
    client.expect_end()
    sidecar.start()
    client = open_client(sidecar)
    assert begin(client)["verdict"] == "busy"
    client.request("request.complete", {"token": token, "status": 204})
    assert begin(client)["status"] == 204


def test_a_stop_answers_what_is_under_way(start, open_client, held, inbox):
    sidecar = start()
    client = open_client(sidecar)
    with held():
        send_begins(client, ["a"])
        eventually(lambda: waits(inbox) > 0)
        sidecar.signal(15)
        eventually(lambda: "event=dispatch_stopping" in sidecar.stderr)
        client.send_line({"jsonrpc": "2.0", "id": "late", "method": "request.begin", "params": {"key": "b", "lease_ms": MINUTE}})
        client.expect_error(-32020, "late")
    assert client.read_line()["result"]["verdict"] == "started"
    assert sidecar.wait() == 0
