"""SQL handlers while sidecars and backends are killed and answers to COMMIT are lost: one effect for each message, and those of
a key in their order."""

import json
import signal
import time

import pytest

import points
from armed import Armed
from support.wait import eventually

SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
SHORT_LEASE = {"lease": "3s"}
KEYS = 20
COUNT = 600
# A fifth of the messages fails once, and one in fifty is dead.
FUNCTION = """CREATE FUNCTION orders.on_event(event inbox.messages) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders.effects (event_id, key) VALUES (event.event_id, convert_from(event.key, 'UTF8'));
    PERFORM pg_sleep(0.002);
    IF event.kafka_offset % 50 = 7 THEN RAISE EXCEPTION 'never' USING ERRCODE = 'IB100'; END IF;
    IF event.kafka_offset % 5 = 3 AND event.retry_count = 0 THEN RAISE EXCEPTION 'once'; END IF;
    RETURN to_jsonb(event.event_id);
END $$"""


class Orders:
    """The service: its table of effects, and what it produces to one partition."""

    def __init__(self, inbox, streams, topic):
        self.inbox = inbox
        self._streams = streams
        self._topic = topic
        self.produced = 0

    def create(self):
        self.inbox.execute("CREATE SCHEMA orders")
        self.inbox.execute("CREATE TABLE orders.effects (n bigint GENERATED ALWAYS AS IDENTITY, event_id text, key text)")
        self.inbox.execute(FUNCTION)

    def produce(self, count):
        numbers = range(self.produced, self.produced + count)
        self.produced += count
        self._streams.produce_many(self._topic, [
            {"value": json.dumps({"n": number}).encode(), "key": f"k{number % KEYS}", "partition": 0,
             "headers": [("id", f"e{number}")]} for number in numbers])

    def effects(self):
        return self.inbox.value("SELECT count(*) FROM orders.effects")

    def check(self):
        """Every message is finished, and the effects are those of the processed ones, once and in the order of their key."""
        eventually(lambda: self.inbox.value("SELECT count(*) FROM inbox.messages WHERE status IN ('processed', 'dead')")
                   == self.produced, timeout=120, what="every message to be finished")
        dead = {f"e{number}" for number in range(self.produced) if number % 50 == 7}
        rows = self.inbox.query("SELECT event_id, key FROM orders.effects ORDER BY n")
        found = {}
        for row in rows:
            found.setdefault(row["key"], []).append(row["event_id"])
        wanted = {f"k{key}": [f"e{number}" for number in range(key, self.produced, KEYS) if f"e{number}" not in dead]
                  for key in range(KEYS)}
        assert found == wanted
        states = self.inbox.query("SELECT event_id, status, retry_count, result, error_code FROM inbox.messages")
        assert {row["event_id"] for row in states if row["status"] == "dead"} == dead
        assert {row["error_code"] for row in states if row["status"] == "dead"} == {"IB100"}
        assert all(row["result"] == row["event_id"] for row in states if row["status"] == "processed")
        assert not [row["event_id"] for row in states
                    if row["retry_count"] != int(row["event_id"] in dead or int(row["event_id"][1:]) % 5 == 3)], "only failures spend attempts"


@pytest.fixture
def orders(inbox, streams, make_topic):
    return Orders(inbox, streams, make_topic(partitions=1))


@pytest.fixture
def armed(make_inboxd, orders):
    """A sidecar with the SQL handler, which has begun to work."""
    sidecar = make_inboxd(kafka={**SOON, "topics": [orders._topic]}, worker=SHORT_LEASE,  # pylint: disable=protected-access
                          retry={"max_crashes": 100},
                          handlers={"orders": {"call": "orders.on_event", "batch": 20, "connections": 2}})
    made = Armed(sidecar)
    assert sidecar.command("migrate").returncode == 0
    orders.create()
    sidecar.start()
    orders.produce(COUNT)
    eventually(lambda: orders.effects() > 40)
    return made


@pytest.mark.parametrize("point", points.SQL_HANDLERS)
def test_a_sidecar_killed_at_each_point_makes_each_effect_once(armed, orders, point):
    armed.arm(f"{point} kill 3")
    assert armed.sidecar.wait() == -signal.SIGKILL
    assert armed.hits(point) == 1
    armed.arm()
    armed.sidecar.start()
    orders.check()


@pytest.mark.parametrize("point", points.SQL_HANDLERS)
def test_a_sidecar_that_hangs_at_each_point_for_longer_than_its_lease_makes_each_effect_once(armed, orders, point):
    armed.arm(f"{point} delay:5000 2")
    armed.wait_hit(point)
    orders.check()


@pytest.mark.parametrize("error", ["worker:error_before_commit", "worker:error_after_commit"])
def test_a_lost_answer_to_a_commit_makes_each_effect_once(armed, orders, error):
    for _ in range(5):
        hits = armed.hits(error)
        armed.arm(f"{error} error")
        armed.wait_hit(error, hits + 1)
        armed.arm()
    orders.check()


def test_terminated_backends_make_each_effect_once(armed, orders, inbox):
    ended = 0
    until = time.monotonic() + 20
    while ended < 20 and time.monotonic() < until and orders.effects() < COUNT * 0.8:
        ended += len(inbox.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'inboxd/%'"
                                 " AND (wait_event = 'PgSleep' OR query LIKE '%call_handler%') AND datname = current_database()"))
        time.sleep(0.05)
    assert ended > 2
    orders.check()


def test_a_killed_server_makes_each_effect_once(armed, orders, postgres):
    postgres.crash()
    postgres.start()
    orders.produce(50)
    orders.check()
