"""The HTTP port: metrics, liveness, readiness, status."""

import contextlib
import json
import socket
import time

import pytest

from support.scripts import always, DONE
from support import metrics
from support.wait import eventually
from support.wire import NEVER


COUNTERS = """messages_received_total duplicates_total conflicts_total rejects_total skipped_total
    deliveries_total rescued_total claim_lost_total pg_errors_total pg_reconnects_total purged_total
    payloads_dropped_total topic_recreated_total offset_gaps_total""".split()
GAUGES = """in_flight handlers_connected waiting dead unrouted oldest_waiting_seconds kafka_lag
    partitions_paused partitions_stalled oldest_xmin_seconds build_info""".split()
HISTOGRAMS = """ingest_batch_seconds claim_seconds settle_seconds handler_seconds
    end_to_end_seconds""".split()


def test_every_family_is_there_from_the_start(inboxd):
    status, headers, text = inboxd.get("/metrics")
    _, families = metrics.parse(text)
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    wanted = {**{f"inboxd_{name}": "counter" for name in COUNTERS},
              **{f"inboxd_{name}": "gauge" for name in GAUGES},
              **{f"inboxd_{name}": "histogram" for name in HISTOGRAMS}}
    assert {name: families.get(name) for name in wanted} == wanted
    for name in wanted:
        assert f"# HELP {name} " in text


def test_counters_exist_before_the_first_event(inboxd, topic):
    of_topics = ["messages_received", "duplicates", "conflicts", "skipped", "topic_recreated", "offset_gaps"]
    eventually(lambda: inboxd.metrics().has("inboxd_messages_received_total", topic=topic))
    scrape = inboxd.metrics()
    assert {name: scrape.get((f"inboxd_{name}_total", (("topic", topic),))) for name in of_topics} == \
        dict.fromkeys(of_topics, 0)
    for kind in ("connection", "busy", "timeout", "resources", "read_only", "refused", "stale", "data", "other"):
        assert scrape.has("inboxd_pg_errors_total", **{"class": kind})


def answers(sidecar):
    try:
        return sidecar.get("/livez")[0] == 200
    except OSError:
        return False


def test_hundreds_of_idle_connections_do_not_block_others(inboxd, handler, streams, topic, inbox):
    """There are more connections than the process may have open files; PostgreSQL, Kafka and handlers need some, too."""
    host, port = inboxd.configuration["http"]["listen"].split(":")
    with contextlib.ExitStack() as stack:
        for number in range(400):
            slow = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            with contextlib.suppress(OSError):
                slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: " + b"y" * (number % 3))
        eventually(lambda: answers(inboxd))
        assert inboxd.metric("process_open_fds") < 64 + 100
        handler(inboxd, always(DONE))
        streams.events(topic, ["a"])
        inbox.wait_processed(1)
        for path in ("/livez", "/readyz", "/metrics", "/status"):
            assert inboxd.get(path)[0] == 200
    assert inboxd.stderr.count("event=http_connections_closed") == 1


def test_openmetrics_is_returned_on_request(inboxd):
    status, headers, text = inboxd.get("/metrics", accept="application/openmetrics-text")
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert "# TYPE inboxd_messages_received counter" in text


def test_a_message_with_a_timestamp_in_the_future_is_counted(inboxd, handler, streams, topic):
    """The estimate of the database's clock can also be some milliseconds behind the clock of the producer."""
    handler(inboxd, always(DONE), name="billing")
    streams.produce(topic, b"{}", headers={"id": "a"}, timestamp=int((time.time() + 3600) * 1000))
    eventually(lambda: inboxd.metric("inboxd_end_to_end_seconds_count") == 1)
    assert inboxd.metric("inboxd_end_to_end_seconds_sum") == 0


def test_counters_count(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE), name="billing")
    streams.events(topic, ["a", "b", "c", "a"])
    inbox.wait_processed(3)
    eventually(lambda: inboxd.metric("inboxd_messages_received_total", topic=topic) == 4)
    eventually(lambda: inboxd.metric("inboxd_deliveries_total", handler="billing",
                                     outcome="done") == 3)
    eventually(lambda: inboxd.metric("inboxd_duplicates_total", topic=topic) == 1)
    eventually(lambda: inboxd.metric("inboxd_end_to_end_seconds_count") == 3)
    eventually(lambda: inboxd.metric("inboxd_handler_seconds_count", handler="billing") == 3)
    eventually(lambda: inboxd.metric("inboxd_in_flight", handler="billing") == 0)
    assert inboxd.metric("inboxd_build_info") == 1


def test_messages_without_handler_are_counted(inboxd, streams, topic, inbox):
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_stored(3)
    eventually(lambda: inboxd.metric("inboxd_unrouted") == 3)


def test_waiting_messages_are_counted(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(inbox={"max_claimed": 5}, worker={"claim_batch": 5})
    handler(sidecar, always(NEVER), max_in_flight=5)
    streams.events(topic, [f"e{number}" for number in range(100)])
    inbox.wait_stored(100)
    eventually(lambda: sidecar.metric("inboxd_waiting") >= 90)
    eventually(lambda: sidecar.metric("inboxd_oldest_waiting_seconds") > 0)


def test_the_lag_is_measured(postgres, inboxd, streams, topic, inbox):
    streams.events(topic, ["a"], key=lambda _: "k")
    inbox.wait_stored(1)
    eventually(lambda: inboxd.metrics().has("inboxd_kafka_lag", topic=topic))
    eventually(lambda: inboxd.metric("inboxd_kafka_lag", topic=topic) == 0)


def test_it_is_live_and_ready(inboxd):
    assert inboxd.get("/livez")[0] == 200
    status, _, body = inboxd.get("/readyz")
    assert (status, json.loads(body)["ready"]) == (200, True)


def test_it_is_live_but_not_ready_without_its_database(postgres, inboxd):
    postgres.stop()
    eventually(lambda: inboxd.get("/readyz")[0] == 503)
    answer = json.loads(inboxd.get("/readyz")[2])
    assert answer["ready"] is False
    assert "database" in {reason["check"] for reason in answer["reasons"]}
    assert inboxd.get("/livez")[0] == 200
    postgres.start()
    eventually(lambda: inboxd.get("/readyz")[0] == 200)


def test_it_is_live_but_not_ready_without_its_broker(kafka, inboxd):
    kafka.stop()
    eventually(lambda: inboxd.get("/readyz")[0] == 503, timeout=60)
    assert inboxd.get("/livez")[0] == 200
    eventually(lambda: inboxd.metric("inboxd_ready", check="broker") == 0)
    assert inboxd.metric("inboxd_ready", check="database") == 1
    kafka.start()
    eventually(lambda: inboxd.get("/readyz")[0] == 200, timeout=60)
    eventually(lambda: {inboxd.metric("inboxd_ready", check=check)
                        for check in ("running", "database", "group", "broker", "progress")} == {1})


@pytest.fixture
def silent_port():
    """A port that neither accepts nor refuses a connection, like a broker behind a firewall."""
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):  # the queue is full, so new connections are not answered
            waiting = ends.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_broker_lost_just_after_the_join_is_reported(kafka, make_inboxd, silent_port, end):
    """librdkafka seldom says that all brokers are down: it still waits for the other one. The session is long, so there
    is no other sign."""
    sidecar = make_inboxd(kafka={"bootstrap.servers": f"{kafka.bootstrap},127.0.0.1:{silent_port}",
                                 "session.timeout.ms": 300_000, "max.poll.interval.ms": 300_000}).start()
    getattr(kafka, end)()
    eventually(lambda: sidecar.metric("inboxd_ready", check="broker") == 0, timeout=60)
    eventually(lambda: sidecar.get("/readyz")[0] == 503)
    kafka.start()
    eventually(lambda: sidecar.metric("inboxd_ready", check="broker") == 1, timeout=60)
    eventually(lambda: sidecar.get("/readyz")[0] == 200, timeout=60)


def test_status_is_json(inboxd):
    status, headers, body = inboxd.get("/status")
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    assert isinstance(json.loads(body), dict)


@pytest.mark.parametrize("method, path, wanted", [
    ("GET", "/nothing", 404), ("POST", "/metrics", 405), ("DELETE", "/livez", 405),
    ("HEAD", "/livez", 200),
])
def test_other_requests_get_their_error(inboxd, method, path, wanted):
    assert inboxd.get(path, method=method)[0] == wanted


def test_the_port_can_be_off(make_inboxd, streams, topic, inbox):
    make_inboxd(http={"listen": ""}).start(ready=False)
    streams.events(topic, ["a"])
    eventually(lambda: inbox.value("SELECT to_regclass('inbox.inbox_messages') IS NOT NULL"))
    inbox.wait_stored(1)


def test_a_port_in_use_exits_5_and_names_it(inboxd, make_inboxd):
    listen = inboxd.configuration["http"]["listen"]
    other = make_inboxd(http={"listen": listen}).start(ready=False)
    assert other.wait() == 5
    assert listen in other.stderr
