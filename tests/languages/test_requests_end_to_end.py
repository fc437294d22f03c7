"""POST with a key, effect and event in one COMMIT, Kafka, inbox, handler: handlers/python/examples/idempotent_asgi.py with a sidecar
that publishes the events, reads them again, and gives them to a handler. Everything is killed on the way."""

import http.client
import json
import os
import signal
import uuid

import pytest

from languages.libraries import PYTHON, ROOT
from support import process
from support.scripts import always
from support.wait import eventually
from support.wire import done

ORDERS = 12


class Api:
    """The example in uvicorn, always at the same port."""

    def __init__(self, env):
        self.port, self.env = process.free_port(), {**os.environ, **env}
        self.log = os.path.join(process.scratch("api"), "log")
        self.start()

    def start(self):
        self.process = process.spawn([PYTHON, "-m", "uvicorn", "--app-dir", str(ROOT / "handlers/python/examples"), "--port", str(self.port),
                                      "idempotent_asgi:app"], self.log, env=self.env)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def post(self, key, item):
        """As a client does it: again with the same key until there is an answer that is not 409."""
        def attempt():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                connection.request("POST", "/orders", json.dumps({"item": item}), {"Idempotency-Key": key})
                answer = connection.getresponse()
                return answer.status not in (409, 500, 503) and (answer.status, answer.getheader("location"), answer.read())
            except (OSError, http.client.HTTPException):
                return None
            finally:
                connection.close()

        return eventually(attempt, timeout=60, what=lambda: process.tail(self.log))


@pytest.fixture
def api(sidecar, inbox, postgres_server, database):
    assert sidecar
    inbox.execute("CREATE TABLE public.orders (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, item text)")
    api = Api(postgres_server.environment(database))
    yield api
    api.kill()


@pytest.mark.parametrize("sidecar", [{"outbox": {"enabled": True}}], indirect=True)
def test_one_order_and_one_effect_for_each_key(api, sidecar, handler, inbox, name):
    def messages(columns):
        return inbox.query(f"SELECT {columns} FROM inbox.messages WHERE payload_json ->> 'item' LIKE %s ORDER BY seq", [f"{name}-%"])

    keys = [str(uuid.uuid4()) for _ in range(ORDERS)]
    shipped = always(done({"shipped": True}))
    handler(sidecar, shipped)
    answers = {}
    for number, key in enumerate(keys):
        answers[key] = api.post(key, f"{name}-{number}")
        if number % 4 == 1:
            api.kill()
            api.start()
        if number == ORDERS // 2:
            sidecar.kill()
            sidecar.start()
            handler(sidecar, shipped)
    for number, key in enumerate(keys):
        assert api.post(key, f"{name}-{number}") == answers[key]
    assert inbox.value("SELECT count(*) FROM public.orders") == ORDERS
    eventually(lambda: len(messages("seq")) == ORDERS and all(row["status"] == "processed" for row in messages("status")), timeout=60)
    assert sorted(row["item"] for row in messages("payload_json ->> 'item' AS item")) == sorted(f"{name}-{number}" for number in range(ORDERS))
    message = messages("source, event_id")[0]
    assert inbox.query("SELECT status, result FROM inbox.result(%s, %s)", list(message.values())) == [
        {"status": "processed", "result": {"shipped": True}}]
