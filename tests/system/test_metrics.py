"""/metrics: well formed under load, correct, and without queries to the database."""

import time

import pytest

from support import metrics, promtool
from support.inbox import connect
from support.scripts import always, by_id, DONE
from support.wait import eventually
from support.wire import NEVER, dead, retry

# One worker, ingest, heartbeats and retention have one each. The peers have one in their first round.
CONNECTIONS = 4


def connections(sidecar, state):
    return sidecar.metric("inboxd_pg_connections", state=state)


def test_promtool_finds_nothing_wrong_under_load(start_inboxd, handler, streams, topic, inbox):
    name = 'odd "name" \\ of a handler'
    sidecar = start_inboxd(topics={"*": {"accept": ["*"], "missing_id": "reject"}})
    handler(sidecar, by_id({"e1": [retry()], "e2": dead("no", code="NO")}), name=name)
    streams.produce(topic, b"without an id")
    streams.events(topic, [f"e{number}" for number in range(2000)] + ["e5"])
    texts = []
    while inbox.count("processed") < 1999:
        texts.append(sidecar.get("/metrics")[2])
    texts.append(sidecar.get("/metrics")[2])
    assert metrics.parse(texts[-1])[0].value("inboxd_deliveries_total", handler=name, outcome="dead") == 1
    for text in (texts[0], texts[-1]):
        said = promtool.run("check", "metrics", text=text)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_promtool_can_find_something_wrong():
    text = "# TYPE a_count counter\na_count 1\na_count 2\n"
    assert promtool.run("check", "metrics", text=text).returncode != 0


def test_the_process_is_shown_as_the_kernel_sees_it(inboxd):
    scrape, page = inboxd.metrics(), 4096
    with open(f"/proc/{inboxd.pid}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * page
    assert scrape.value("process_resident_memory_bytes") == pytest.approx(resident, rel=0.3)
    assert scrape.value("process_virtual_memory_bytes") > scrape.value("process_resident_memory_bytes")
    assert 20 < scrape.value("process_open_fds") < scrape.value("process_max_fds")
    assert time.time() - 60 < scrape.value("process_start_time_seconds") <= time.time()
    before = scrape.value("process_cpu_seconds_total")
    assert 0 < before < 60
    eventually(lambda: inboxd.metric("process_cpu_seconds_total") > before)


def test_connections_are_shown_by_their_state(postgres, start_inboxd):
    inboxd = start_inboxd(worker={"connections": 1})

    def total():
        scrape = inboxd.metrics()
        return sum(scrape.value("inboxd_pg_connections", state=state)
                   for state in ("closed", "idle", "busy", "transaction"))

    eventually(lambda: connections(inboxd, "closed") == 0)
    eventually(lambda: total() == CONNECTIONS)
    eventually(lambda: connections(inboxd, "idle") >= CONNECTIONS - 1)
    postgres.stop()
    # The alert requires half of the connections.
    eventually(lambda: connections(inboxd, "closed") >= CONNECTIONS - 1)
    postgres.start()
    eventually(lambda: connections(inboxd, "closed") <= 1)
    eventually(lambda: total() == CONNECTIONS)


def test_a_long_transaction_is_measured(postgres_server, database, sidecar_user_made, inboxd):
    eventually(lambda: inboxd.metrics().has("inboxd_oldest_xmin_seconds"))
    with connect(f"{postgres_server.conninfo(database)} user={sidecar_user_made}") as forgotten:
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT 1")
        eventually(lambda: inboxd.metric("inboxd_oldest_xmin_seconds") > 1, timeout=40)
        shown = inboxd.metric("inboxd_oldest_xmin_seconds")
        assert shown < 60
    eventually(lambda: inboxd.metric("inboxd_oldest_xmin_seconds") < 1, timeout=40)


def test_the_lag_of_a_paused_partition_grows(start_inboxd, streams, make_topic, inbox):
    topic = make_topic(partitions=1)
    sidecar = start_inboxd(kafka={"topics": [topic]}, ingest={"max_pending": 10, "batch_messages": 10})
    streams.events(topic, [f"e{number}" for number in range(1000)])
    eventually(lambda: sidecar.metric("inboxd_partitions_paused") == 1)
    eventually(lambda: 0 < sidecar.metric("inboxd_kafka_lag", topic=topic) < 1000, timeout=40)
    streams.events(topic, [f"f{number}" for number in range(5000)])
    stored = inbox.count()
    eventually(lambda: sidecar.metric("inboxd_kafka_lag", topic=topic) > 5000, timeout=40)
    assert sidecar.metric("inboxd_kafka_lag", topic=topic) <= 6000 - stored


def test_a_scrape_does_not_query_the_database(postgres, inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE), name="billing")
    streams.events(topic, ["a", "b"])
    inbox.wait_processed(2)
    eventually(lambda: inboxd.metric("inboxd_deliveries_total", handler="billing", outcome="done") == 2)
    postgres.stop()
    for _ in range(50):
        status, _, text = inboxd.get("/metrics")
        assert status == 200
        assert metrics.parse(text)[0].value("inboxd_messages_received_total", topic=topic) == 2


@pytest.mark.slow
def test_ready_means_progress(start_inboxd, handler, streams, topic, inbox, db):
    """Everything is up: database, broker, heartbeats, both loops. But no message is stored."""
    sidecar = start_inboxd()
    handler(sidecar, always(NEVER))
    streams.events(topic, ["a"])
    inbox.wait_stored(1)
    with db.transaction():
        db.execute("LOCK TABLE inbox.inbox_messages IN SHARE MODE")
        streams.events(topic, ["b"])
        eventually(lambda: sidecar.get("/readyz")[0] == 503 and '"progress"' in sidecar.get("/readyz")[2],
                   timeout=100)
        assert sidecar.get("/livez")[0] == 200
    inbox.wait_stored(2)
    eventually(lambda: sidecar.get("/readyz")[0] == 200)


def test_dead_messages_are_counted_at_once_and_replays_soon(inboxd, handler, streams, topic, inbox):
    client = handler(inboxd, always(dead("no", code="NO")))
    for number in (1, 2):
        streams.events(topic, [f"e{number}"])
        eventually(lambda: inboxd.metric("inboxd_dead") == number, timeout=8)
    client.decide = always(DONE)
    inbox.execute("UPDATE inbox.inbox_messages SET dead_at = NULL WHERE event_id = 'e1'")
    eventually(lambda: inboxd.metric("inboxd_dead") == 1, timeout=40)
