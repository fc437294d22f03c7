"""Methods with @InboxHandler in an application of Spring Boot (TestApplication of handlers/java/spring), and requests with a key in it."""

import json
import os
import signal
import urllib.error
import urllib.request

import pytest

from languages.libraries import spring
from languages.test_requests import Service
from support import process
from support.wait import eventually
from system.test_examples import INVOICES, wait_processed


@pytest.fixture
def application(sidecar, inbox, postgres_server, database):
    """The application with its methods, connected to the sidecar."""
    inbox.execute(INVOICES)
    program = Service("spring-handler", {**postgres_server.environment(database), "INBOXD_SOCKET_PATH": sidecar.socket_path})
    yield program
    program.stop()


def get(program, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{program.port}/actuator/{path}", timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def health(program):
    return get(program, "health")["components"]["inboxd"]


def calls(program, method, outcome):
    found = get(program, f"metrics/inboxd.handler.calls?tag=method:{method}&tag=outcome:{outcome}")
    return next(one["value"] for one in found["measurements"] if one["statistic"] == "COUNT")


def effects(inbox, ids):
    wanted = [int(one.rpartition("-")[2]) for one in ids]
    return inbox.value("SELECT count(*) FROM invoices WHERE order_id = ANY(%s)", [wanted])


@pytest.mark.parametrize("sidecar", [{"retry": {"max_attempts": 2, "backoff": "10ms"}, "outbox": {"enabled": True}}], indirect=True)
def test_a_method_and_its_completion_share_a_transaction(application, sidecar, inbox, orders):
    good = {name: orders(3, cents=1, event_type=name) for name in ("typed", "verdict", "batch")}
    itself = orders(1, cents=3, event_type="typed")
    failing, unreadable = orders(1, cents=2, event_type="typed"), orders(1, cents="much", event_type="typed")
    refused = orders(1, cents=2, event_type="verdict")
    wait_processed(inbox, [one for ids in (*good.values(), itself) for one in ids])
    for ids in good.values():
        assert effects(inbox, ids) == 3
    assert effects(inbox, itself) == 1
    codes = [(inbox.wait_status(ids[0], "dead")["error_code"], effects(inbox, ids)) for ids in (failing, unreadable, refused)]
    assert codes == [("IllegalStateException", 0), ("DATA", 0), ("NO", 0)]
    assert inbox.value("SELECT count(*) FROM inbox.events WHERE event_type = 'made'") == 3
    assert inbox.value("SELECT result FROM inbox.messages WHERE event_id = %s", [itself[0]]) == {"by": "itself"}
    assert calls(application, "Handlers.typed", "done") == 4
    assert calls(application, "Handlers.typed", "error") == 2
    assert calls(application, "Handlers.verdict", "dead") == 1
    assert health(application) == {"status": "UP", "details": {"handler": "connected"}}
    sidecar.kill()
    eventually(lambda: health(application)["status"] == "DOWN")
    assert get(application, "metrics/inboxd.handler.connected")["measurements"][0]["value"] == 0
    sidecar.start()
    eventually(lambda: health(application)["status"] == "UP")


def test_the_end_of_the_application_waits_for_its_methods(application, inbox, orders):
    ids = orders(2, event_type="slow")
    eventually(lambda: inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
                                   " AND datname = current_database()") == 2)
    os.killpg(application.process.pid, signal.SIGTERM)
    assert application.process.wait(30) == 128 + signal.SIGTERM, process.tail(application.log)
    wait_processed(inbox, ids)
    assert effects(inbox, ids) == 2
    assert "Connection is closed" not in process.tail(application.log)


def test_a_refusal_behind_a_transaction_that_failed_is_sent_and_not_stored(make_inboxd, inbox, postgres_server, database):
    assert make_inboxd().command("migrate").returncode == 0
    inbox.execute("CREATE TABLE public.orders (id bigint, tenant text)")
    program = Service("spring-mvc", postgres_server.environment(database))
    try:
        for _ in range(2):
            answer = program.post(then="refuse")
            assert (answer.status, answer.headers.get("idempotent-replayed")) == (422, None)
        assert inbox.value("SELECT count(*) FROM public.orders") == inbox.value("SELECT count(*) FROM inbox.requests") == 0
        assert program.post().status == 201
    finally:
        program.stop()


def test_the_programs_have_no_classes_of_boot_4():
    """What is compiled for Boot 4 must not be needed with Boot 3."""
    arguments = spring("x")[-2].removeprefix("@")
    with open(arguments, encoding="utf-8") as found:
        assert "spring-boot-health" not in found.read()
