"""An outage of PostgreSQL or Kafka in the log: one line begins it, one a minute counts, one ends it."""

import collections
import json

import pytest

from support.collector import Collector
from support.librdkafka import installed_version
from support.process import free_port
from support.scripts import always, DONE
from support.wait import eventually, throughout

COUNT = 1000


def lines(sidecar, *events):
    """The lines of these events, of a log in JSON; without events: of all."""
    return [line for line in map(json.loads, sidecar.stderr.splitlines()) if not events or line["event"] in events]


def numbers(sidecar, level):
    """How many lines of this level there are, by event."""
    return collections.Counter(line["event"] for line in lines(sidecar) if line["level"] == level)


def ended(sidecar, event, failed):
    """Checks the line that ends an outage against the one that began it."""
    (first,), (last,) = lines(sidecar, failed), lines(sidecar, event)
    assert (first["failures"], first["since_s"]) == (1, 0)
    assert last["outage_ms"] > 0
    return last


@pytest.fixture
def busy(start_inboxd, handler, streams, topic):
    """A sidecar with an outbox and a dead topic, a handler, and messages that are not all processed."""
    sidecar = start_inboxd(log={"format": "json"}, outbox={"enabled": True}, retry={"dead_topic": f"{topic}.dead"})
    client = handler(sidecar, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(COUNT)], key=lambda event_id: event_id[-1])
    eventually(lambda: len(client.deliveries) > 100, every=0.005)
    return sidecar


def test_an_outage_of_postgresql_has_one_line_at_its_begin_and_one_at_its_end(busy, postgres, inbox):
    postgres.stop()
    eventually(lambda: busy.metric("inboxd_pg_errors_total") > 40, timeout=60)
    postgres.start()
    inbox.wait_processed(COUNT, timeout=90)
    eventually(lambda: lines(busy, "database_back") and lines(busy, "heartbeat_back"), timeout=30)
    eventually(lambda: lines(busy, "dispatch_database_back") or not lines(busy, "dispatch_database_lost"), timeout=30)
    found = numbers(busy, "warn")
    assert set(found) <= {"database_lost", "heartbeat_failed", "dispatch_database_lost", "group_left"}, found
    assert max(found.values()) == 1, found
    assert ended(busy, "database_back", "database_lost")["failures"] > 3
    assert ended(busy, "heartbeat_back", "heartbeat_failed")["failed"] > 3


def test_a_fault_of_fencing_has_one_line_and_the_sidecar_stays_ready(start_inboxd, postgres, inbox):
    """A trigger refuses to fence a dead instance. The lease is renewed all the same. A lease that is not renewed has its own line."""
    sidecar = start_inboxd(log={"format": "json"}, worker={"lease": "3s"})
    inbox.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;"
                  "CREATE TRIGGER refuse BEFORE UPDATE OF fenced_at ON inbox.inbox_instances EXECUTE FUNCTION refuse()")
    inbox.execute("INSERT INTO inbox.inbox_instances SELECT r.* FROM inbox.inbox_instances i, jsonb_populate_record("
                  "i, '{\"id\": 7, \"host_id\": \"another\", \"heartbeat_at\": \"2020-01-01\"}') r")
    eventually(lambda: lines(sidecar, "peers_failed"), timeout=30)
    before = sidecar.metric("inboxd_pg_errors_total")
    throughout(lambda: sidecar.get("/readyz")[0] == 200, 4)
    assert 2 <= sidecar.metric("inboxd_pg_errors_total") - before <= 25, "the pause between two tries grows"
    assert len(lines(sidecar, "peers_failed")) == 1 and not lines(sidecar, "peers_back")
    assert not lines(sidecar, "heartbeat_failed")
    postgres.stop()
    eventually(lambda: len(lines(sidecar, "heartbeat_failed")) == 1)
    postgres.start()
    assert inbox.count() == 0  # connects again
    inbox.execute("DROP TRIGGER refuse ON inbox.inbox_instances")
    eventually(lambda: lines(sidecar, "heartbeat_back") and lines(sidecar, "instances_fenced"), timeout=30)
    eventually(lambda: lines(sidecar, "peers_back"))


def test_an_outage_of_the_outbox_ends_also_without_an_event(start_inboxd, inbox):
    sidecar = start_inboxd(log={"format": "json"}, outbox={"enabled": True})
    eventually(lambda: sidecar.metric("inboxd_outbox_leader") == 1)
    inbox.execute("ALTER TABLE inbox.outbox RENAME TO outbox_away")
    eventually(lambda: lines(sidecar, "outbox_failed"))
    inbox.execute("ALTER TABLE inbox.outbox_away RENAME TO outbox")
    eventually(lambda: lines(sidecar, "outbox_back"), timeout=30)
    assert ended(sidecar, "outbox_back", "outbox_failed")["failures"] >= 1


def test_an_outage_of_kafka_has_one_line_at_its_begin_and_one_at_its_end(busy, kafka, streams, topic, inbox):
    inbox.wait_processed(COUNT, timeout=60)
    kafka.stop()
    eventually(lambda: lines(busy, "partitions_revoked"), timeout=60)  # the session has ended
    eventually(lambda: lines(busy, "kafka_error"), timeout=60)
    kafka.start()
    eventually(lambda: lines(busy, "kafka_back"), timeout=30)
    streams.events(topic, ["after"])
    inbox.wait_processed(COUNT + 1, timeout=90)
    assert ended(busy, "kafka_back", "kafka_error")["failures"] >= 1
    assert lines(busy, "kafka_error")[0]["code"] == "_ALL_BROKERS_DOWN"
    assert not [line for line in lines(busy, "kafka") if line["facility"] == "FAIL"]


def told(sidecar, failed, back):
    """The lines of an outage are one at its begin, one after a minute, and one at its end, which has the duration."""
    (first, second), (last,) = lines(sidecar, failed), lines(sidecar, back)
    assert (first["failures"], first["since_s"]) == (1, 0)
    assert second["failures"] > 1 and 60 <= second["since_s"] < 120
    assert last["outage_ms"] >= 1000 * second["since_s"]


@pytest.mark.slow
def test_the_loss_of_one_broker_is_logged_while_another_one_answers(start_inboxd, kafka):
    """librdkafka reports a broker that stays away about every 30 s. From 2.10 on it forgets an address that no broker has."""
    if installed_version() >= (2, 10):
        pytest.skip("this librdkafka forgets an address that no broker has")
    servers = f"{kafka.bootstrap},127.0.0.1:{free_port()}"
    sidecar = start_inboxd(log={"format": "json"}, kafka={"bootstrap.servers": servers, "enable.sparse.connections": False})
    (lost,) = eventually(lambda: lines(sidecar, "kafka_error"), timeout=130)
    assert (lost["code"], lost["failures"], lost["next"]) == ("_TRANSPORT", 1, "other brokers answer; librdkafka retries")
    assert sidecar.get("/readyz")[0] == 200


@pytest.mark.slow
def test_outages_of_the_outbox_and_of_the_collector_have_a_line_a_minute(start_inboxd, handler, streams, topic, inbox, db):
    port = free_port()
    sidecar = start_inboxd(log={"format": "json"}, outbox={"enabled": True}, otlp={"endpoint": f"http://127.0.0.1:{port}"})
    handler(sidecar, always(DONE))
    with db.transaction():
        db.execute("SELECT inbox.emit(%s, 'k', 'order.placed', '{}')", [topic])
        db.execute("ALTER TABLE inbox.outbox RENAME TO outbox_away")
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    eventually(lambda: len(lines(sidecar, "outbox_failed")) == len(lines(sidecar, "otlp_export_failed")) == 2, timeout=130)
    db.execute("ALTER TABLE inbox.outbox_away RENAME TO outbox")
    with Collector(port):
        eventually(lambda: lines(sidecar, "outbox_back") and lines(sidecar, "otlp_export_back"), timeout=90)
    told(sidecar, "outbox_failed", "outbox_back")
    told(sidecar, "otlp_export_failed", "otlp_export_back")


@pytest.mark.slow
def test_an_outage_of_postgresql_has_a_line_a_minute_also_for_a_sql_handler(make_inboxd, start_inboxd, postgres, db, sidecar_user,
                                                                          streams, topic, inbox):
    assert make_inboxd().command("migrate", "--roles=inboxd").returncode == 0
    db.execute("CREATE FUNCTION public.bill(event inbox.messages) RETURNS void LANGUAGE sql AS ''")
    db.execute(f"GRANT EXECUTE ON FUNCTION public.bill TO {sidecar_user}")
    sidecar = start_inboxd({"handlers": {"billing": {"call": "public.bill"}}}, log={"format": "json"})
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    postgres.stop()
    streams.events(topic, ["b"])
    eventually(lambda: len(lines(sidecar, "database_lost")) == 2, timeout=130)
    postgres.start()
    inbox.wait_processed(2, timeout=90)
    eventually(lambda: lines(sidecar, "database_back"))
    told(sidecar, "database_lost", "database_back")
    assert len(lines(sidecar, "sql_handler_database_lost")) <= 2
    assert len(lines(sidecar, "sql_handler_database_back")) == bool(lines(sidecar, "sql_handler_database_lost"))
