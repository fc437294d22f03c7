"""POST with a key, effect and event in one COMMIT, Kafka, inbox, handler: handlers/python/examples/idempotent_asgi.py with a sidecar
that publishes the events, reads them again, and gives them to shipments.py. All of them and PostgreSQL are killed on the way, in the
long test also Kafka.
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import signal
import time
import uuid

import pytest

from languages.libraries import PYTHON, ROOT
from support import process
from support.wait import eventually

COPIES = 2  # of each request, from different clients
TABLES = """
CREATE TABLE public.orders (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, item text);
CREATE TABLE public.shipments (order_id bigint, item text, event_id text)"""

pytestmark = pytest.mark.parametrize("sidecar", [{"outbox": {"enabled": True}, "retry": {"max_crashes": 1000}}], indirect=True)


class Program:
    """A process that is killed and started again."""

    def __init__(self, env, *command):
        self.env, self.command = {**os.environ, **env}, command
        self.log = os.path.join(process.scratch("program"), "log")
        self.start()

    def start(self):
        self.process = process.spawn([PYTHON, *self.command], self.log, env=self.env)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


class Api(Program):
    """The example in uvicorn, always at the same port."""

    def __init__(self, env):
        self.port = process.free_port()
        super().__init__(env, "-m", "uvicorn", "--app-dir", str(ROOT / "handlers/python/examples"), "--port", str(self.port),
                         "idempotent_asgi:app")

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

        return eventually(attempt, timeout=120, what=lambda: process.tail(self.log))


class Restarted:
    """The sidecar. Nobody waits until it is ready."""

    def __init__(self, sidecar):
        self.kill = sidecar.kill
        self.start = lambda: sidecar.start(ready=False)


class Shop:
    """The clients, all that can be killed, and what the clients know: {item: (its key, the answers to all its copies)}."""

    def __init__(self, api, shipments, sidecar, postgres, kafka, inbox, name):
        self.api, self.inbox, self.name = api, inbox, name
        self.processes = [api, shipments, Restarted(sidecar)]
        self.postgres, self.kafka = postgres, kafka
        self.known = {}

    def faults(self):
        """What to do, one after the other. Everything starts again afterwards."""
        return [*(lambda one=one: self.kill([one]) for one in self.processes), lambda: self.kill([], True),
                lambda: self.kill(self.processes, True)]

    def kill(self, processes, with_postgres=False):
        for one in processes:
            one.kill()
        if with_postgres:
            self.postgres.crash()
            self.postgres.start()
        for one in processes:
            one.start()

    def kill_kafka(self):
        self.kafka.kill()
        self.kafka.start()

    def order_during(self, fault, count):
        """Clients send `count` requests while the fault happens, and for ever, until they have their answers."""
        wanted = {f"{self.name}-{len(self.known) + number}": str(uuid.uuid4()) for number in range(count)}
        with concurrent.futures.ThreadPoolExecutor(count * COPIES) as pool:
            answers = {item: [pool.submit(self.api.post, key, item) for _ in range(COPIES)] for item, key in wanted.items()}
            time.sleep(random.uniform(0, 0.2))
            fault()
        for item, key in wanted.items():
            self.known[item] = key, [answer.result() for answer in answers[item]]

    def rows(self, sql):
        return self.inbox.query(sql, [f"{self.name}-%"])

    def events(self):
        return self.rows("SELECT event_id, status, payload_json ->> 'item' AS item FROM inbox.messages WHERE payload_json ->> 'item' LIKE %s")

    def wait_shipped(self):
        eventually(lambda: len(self.events()) == len(self.known) and {row["status"] for row in self.events()} == {"processed"}, timeout=90)
        eventually(lambda: self.inbox.value("SELECT count(*) FROM inbox.outbox") == 0)

    def published(self, streams):
        """{item: the ids of its records}; a record can be there twice."""
        found = {}
        for record in streams.read("orders", sum(streams.log_end("orders").values())):
            item = json.loads(record.value()).get("item") if b'"item"' in record.value() else None
            if str(item).startswith(f"{self.name}-"):
                found.setdefault(item, set()).add(dict(record.headers())["ce_id"].decode())
        return found

    def check(self, streams):
        """One order, one event id, one effect, and the same answer to each copy, also to one that comes now."""
        self.wait_shipped()
        items = sorted(self.known)
        orders = self.rows("SELECT id, item FROM public.orders WHERE item LIKE %s ORDER BY item")
        shipments = self.rows("SELECT order_id AS id, item, event_id FROM public.shipments WHERE item LIKE %s ORDER BY item")
        events = {row["item"]: {row["event_id"]} for row in self.events()}
        assert [row["item"] for row in orders] == items == [row["item"] for row in shipments]
        assert {row["item"]: row["id"] for row in orders} == {row["item"]: row["id"] for row in shipments}
        assert events == {row["item"]: {row["event_id"]} for row in shipments} == self.published(streams)
        for row in orders:
            key, answers = self.known[row["item"]]
            assert set([*answers, self.api.post(key, row["item"])]) == {
                (201, f"/orders/{row['id']}", json.dumps({"id": row["id"]}).encode())}, row


@pytest.fixture
def shop(sidecar, inbox, postgres, kafka, database, name):
    inbox.execute(TABLES)
    env = postgres.environment(database)
    api = Api(env)
    shipments = Program({**env, "INBOXD_SOCKET_PATH": sidecar.socket_path}, str(pathlib.Path(__file__).with_name("shipments.py")))
    yield Shop(api, shipments, sidecar, postgres, kafka, inbox, name)
    api.kill()
    shipments.kill()


def test_one_order_and_one_effect_for_each_key(shop, streams, inbox):
    for fault in shop.faults():
        shop.order_during(fault, 4)
    shop.check(streams)
    row = inbox.query("SELECT source, event_id FROM inbox.messages LIMIT 1")[0]
    assert inbox.query("SELECT status, result FROM inbox.result(%s, %s)", list(row.values())) == [
        {"status": "processed", "result": {"shipped": True}}]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_order_and_one_effect_for_each_key_in_many_outages(shop, streams):
    for _ in range(5):
        faults = [*shop.faults(), shop.kill_kafka]
        random.shuffle(faults)
        for fault in faults:
            shop.order_during(fault, 10)
    shop.check(streams)
