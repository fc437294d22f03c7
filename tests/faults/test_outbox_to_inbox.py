"""From the transaction of a service through its outbox, Kafka, and the inbox of another service to one effect there. Sender
and receiver have a PostgreSQL and a sidecar each. These and the broker are killed while events are on the way.

Each committed event has one effect, no other one has any, and the first copies of a key are in the order of its
transactions. The ledger compares the receiver with the records of the topic.
"""

import dataclasses
import json
import random
import threading
import time

import psycopg
import pytest
from psycopg.types.json import Jsonb

import points
from fleet import Fleet, Instance
from support.inbox import Inbox
from support.kafka import Kafka
from support.outbox import Outbox, first_copies
from support.postgres import Postgres
from support.wait import eventually

SOON = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
KEYS = [f"k{number}" for number in range(10)]
SENDER_AT = [*points.OUTBOX, "after_insert_before_commit", "after_deliver_before_settle", "before_settle"]
RECEIVER_AT = ["after_insert_before_commit", "after_commit_before_offset", "after_deliver_before_settle", "before_settle"]
BETWEEN_FAULTS = 40  # effects


@dataclasses.dataclass
class Chain:
    """All that can be killed."""

    sender: Instance
    sender_server: Postgres
    kafka: Kafka
    receiver: Instance
    receiver_server: Postgres

    def faults(self, sender_at):
        """What to do, one after the other. Everything runs again afterwards."""
        return [lambda: again(self.sender), lambda: again(self.receiver), lambda: again(self.kafka),
                lambda: crash(self.sender_server), lambda: crash(self.receiver_server),
                *(lambda point=point: killed_at(self.sender, point) for point in sender_at),
                *(lambda point=point: killed_at(self.receiver, point) for point in RECEIVER_AT)]


def again(victim):
    victim.kill()
    victim.start()


def crash(server):
    server.crash()
    server.start()


def killed_at(instance, point):
    instance.arm(f"{point} kill")
    instance.wait_killed()
    instance.disarm()
    instance.start()


@pytest.fixture
def events(make_topic):
    return make_topic(partitions=3)


@pytest.fixture
def sender_server(make_server):
    return make_server()


@pytest.fixture
def sender(make_inboxd, sender_server, streams, topic, group):
    """The fleet of the service that emits. It consumes `topic`."""
    inbox = Inbox(sender_server.conninfo(sender_server.create_database("sender")))
    made = Fleet(make_inboxd, inbox, streams, topic, f"{group}_sender")
    yield made
    made.close()
    inbox.close()


@pytest.fixture
def receiver(make_inboxd, inbox, streams, events, group):
    """The fleet of the service that has the effects. Some transactions roll back."""
    made = Fleet(make_inboxd, inbox, streams, events, group)

    def decide(delivered, connect):
        made.make_effect(delivered, connect(), fail_sometimes)
        return {"status": "settled"}

    made.scripts["done"] = decide
    yield made
    made.close()


def fail_sometimes():
    if random.random() < 0.1:
        raise RuntimeError("scripted, before COMMIT")


@pytest.fixture
def chain(sender, sender_server, kafka, receiver, postgres):
    one = sender.add(kafka={**SOON, "topics": [sender.topic], "group.id": sender.group}, outbox={"enabled": True},
                     postgres={"port": sender_server.port, "dbname": "sender"})
    two = receiver.add(kafka={**SOON, "topics": [receiver.topic]})
    return Chain(one, sender_server, kafka, two, postgres)


def all_happen(chain, fleet, sender_at, rounds, more=()):
    """In any order, with `more` faults. After each one, events go through the whole chain."""
    for _ in range(rounds):
        faults = [*chain.faults(sender_at), *more]
        fleet.random.shuffle(faults)
        for fault in faults:
            fault()
            wanted = effects(fleet) + BETWEEN_FAULTS
            eventually(lambda: effects(fleet) >= wanted, 90,  # pylint: disable=cell-var-from-loop
                       what=f"{BETWEEN_FAULTS} more effects")


def effects(fleet):
    return fleet.inbox.value("SELECT count(*) FROM effects")


def ends_clean(sender, receiver, streams):
    """Returns the records of the topic, when each of them has had its effect."""
    eventually(lambda: Outbox(sender.inbox).count() == 0, 60, what="the outbox to be empty")
    records = streams.read(receiver.topic, sum(streams.log_end(receiver.topic).values()))
    for record in records:
        headers = {name: value.decode() for name, value in record.headers()}
        receiver.ledger.produce(headers["ce_source"], headers["ce_id"], record.key(), record.partition(), record.offset(), True)
    receiver.check_offsets()
    receiver.assert_clean()
    return records


# --- A service emits --------------------------------------------------------------------------------------------------

class Service:
    """Threads that place orders: each one counts in its cart and is emitted. One in five rolls back, and some are slow.
    `carts` says in the end what was committed."""

    def __init__(self, inbox, topic, threads=3):
        self._inbox = inbox
        self._topic = topic
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=[number]) for number in range(threads)]
        inbox.execute("CREATE TABLE carts AS SELECT unnest(%s::text[]) AS key, 0 AS orders", [KEYS])

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number):
        chance = random.Random(number)
        while not self._stop.is_set():
            try:
                with self._inbox.connect() as connection:
                    while not self._stop.is_set():
                        self._order(connection, chance)
                        time.sleep(0.02)
            except (psycopg.OperationalError, psycopg.Rollback):  # a rollback that found no connection is raised again
                time.sleep(0.05)  # the database is away

    def _order(self, connection, chance):
        key = chance.choice(KEYS)
        with connection.transaction():
            number = connection.execute("UPDATE carts SET orders = orders + 1 WHERE key = %s RETURNING orders",
                                        [key]).fetchone()["orders"]
            connection.execute("SELECT inbox.emit(%s, %s, 'order.placed', %s, source => '/shop', id => %s)",
                               [self._topic, key, Jsonb(number), f"{key}.{number}"])
            if chance.random() < 0.05:
                time.sleep(0.1)
            if chance.random() < 0.2:
                raise psycopg.Rollback

    def committed(self):
        """{key: the numbers of its orders}, as first_copies() has them."""
        return {row["key"].encode(): [str(number + 1) for number in range(row["orders"])]
                for row in self._inbox.query("SELECT key, orders FROM carts WHERE orders > 0")}


@pytest.mark.timeout(900)
def test_each_committed_order_has_one_effect(chain, sender, receiver, streams, long_run):
    with Service(sender.inbox, receiver.topic) as service:
        all_happen(chain, receiver, points.OUTBOX, rounds=10 if long_run else 1)
    records = ends_clean(sender, receiver, streams)
    assert first_copies(records) == service.committed()


# --- A handler emits --------------------------------------------------------------------------------------------------

def emits(sender, topic):
    """Its messages have an effect here, and an event that names them."""
    def complete(delivered, connection):
        key, = connection.execute("SELECT key FROM inbox.messages WHERE source = %s AND event_id = %s",
                                  [delivered.source, delivered.event_id]).fetchone()
        event = {"topic": topic, "key": key and key.decode(), "type": "seen", "data": delivered.event_id, "source": "/shop"}
        connection.execute("SELECT inbox.complete(%s, NULL::jsonb, %s)", [delivered.claim, Jsonb([event])])

    def decide(delivered, connect):
        sender.make_effect(delivered, connect(), fail_sometimes, complete)
        return {"status": "settled"}

    return decide


@pytest.mark.timeout(900)
def test_each_message_has_one_effect_in_each_of_two_services(chain, sender, receiver, streams, long_run):
    """The first one emits with inbox.complete()."""
    sender.kinds = {"effect": 1}
    sender.scripts["effect"] = emits(sender, receiver.topic)
    sender.produce_in_background(50)
    all_happen(chain, receiver, SENDER_AT, rounds=10 if long_run else 1)
    sender.assert_clean()
    records = ends_clean(sender, receiver, streams)
    assert causes(records) == by_key(sender.ledger)


def answers_with_an_event(sender, topic):
    """As emits(), but in the answer, and without an effect here."""
    def decide(delivered, connect):
        key, = connect().execute("SELECT key FROM inbox.messages WHERE source = %s AND event_id = %s",
                                 [delivered.source, delivered.event_id]).fetchone()
        connect().rollback()
        return {"status": "done", "emit": [{"topic": topic, "key": key and key.decode(), "type": "seen",
                                            "data": delivered.event_id, "source": "/shop"}]}

    return decide


def answer_lost(instance, error):
    """The answers to three COMMITs of workers, for example of verdicts with their events."""
    before = instance.hits().count((error, "error"))
    instance.arm(f"{error} error *")
    eventually(lambda: instance.hits().count((error, "error")) >= before + 3, what=f"three times {error}")
    instance.disarm()


@pytest.mark.timeout(900)
def test_each_message_whose_answer_has_an_event_has_one_effect_in_the_other_service(chain, sender, receiver, streams, long_run):
    """Each message has one event, also when its answer, its COMMIT or the answer to that is lost."""
    sender.kinds = {"answered": 1}
    sender.scripts["answered"] = answers_with_an_event(sender, receiver.topic)
    sender.produce_in_background(50)
    more = [lambda error=error: answer_lost(chain.sender, error)
            for error in ("error_after_settle", "worker:error_after_commit", "worker:error_before_commit")]
    all_happen(chain, receiver, SENDER_AT, rounds=10 if long_run else 1, more=more)
    sender.assert_clean()
    records = ends_clean(sender, receiver, streams)
    assert causes(records) == by_key(sender.ledger)
    assert len({dict(record.headers())["ce_id"] for record in records}) == len(sender.ledger.first_copies())


def causes(records):
    """{key: the messages that its events name}, in the order of their first copies. Those without a key have no order."""
    found = {key: [json.loads(value) for value in of_key] for key, of_key in first_copies(records).items()}
    found[None] = sorted(found[None])
    return found


def by_key(ledger):
    found = {}
    for record in sorted(ledger.first_copies().values(), key=lambda record: record.offset):
        found.setdefault(record.key, []).append(record.event_id)
    found[None].sort()
    return found
