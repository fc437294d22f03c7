"""The outbox: events that the service emits in its transactions are published to Kafka."""

import base64
import collections
import concurrent.futures
import datetime
import json
import re
import signal
import socket
import time

import psycopg
import pytest
from confluent_kafka import Producer

from support.inbox import INFINITY
from support.outbox import Outbox, first_copies, values
from support.process import free_port
from support.scripts import DONE, always
from support.wait import eventually, throughout

ON = {"enabled": True}
QUICK = {"backoff": "100ms", "backoff_max": "200ms"}


@pytest.fixture
def start(start_inboxd):
    """start(outbox={…}, …) -> a sidecar that publishes events."""
    def start_one(outbox=None, **sections):
        return start_inboxd(outbox={**ON, **(outbox or {})}, **sections)

    return start_one


@pytest.fixture
def outbox(inbox):
    return Outbox(inbox)


@pytest.fixture
def events(make_topic):
    """A topic for events, with one partition."""
    return make_topic(partitions=1)


def log_has(sidecar, event):
    return f"event={event} " in sidecar.stderr


# Records

def test_an_event_is_published_completely_and_its_row_deleted(start, outbox, streams, events, group, inbox):
    start()
    before = datetime.datetime.now(datetime.timezone.utc)
    with outbox.transaction() as emit:
        emit(events, b"c-\xff", b'{"order": 17}', type="OrderPlaced", id="e-1", subject="order/17",
             headers=json.dumps({"traceparent": "00-1", "none": None}))
    record = streams.read(events, 1)[0]
    assert (record.key(), record.value()) == (b"c-\xff", b'{"order": 17}')
    headers = record.headers()
    sent = dict(headers)["ce_time"].decode()
    assert [pair for pair in headers if pair[0] != "ce_time"] == [
        ("ce_specversion", b"1.0"), ("ce_id", b"e-1"), ("ce_source", f"/{group}".encode()),
        ("ce_type", b"OrderPlaced"), ("ce_subject", b"order/17"), ("content-type", b"text/plain"),
        ("event-id", b"e-1"), ("none", None), ("traceparent", b"00-1")]
    written = datetime.datetime.fromisoformat(sent.replace("Z", "+00:00"))
    assert abs((written - before).total_seconds()) < 30
    eventually(lambda: outbox.count() == 0)


def test_kafka_keeps_an_event_that_was_emitted_long_ago(start, outbox, streams, make_topic):
    """Kafka compares the time of a record with its own clock: at an append with the limits of the topic, later with its
    retention. So it is the time of the publication; ce_time is that of the emit."""
    days = {"week": -8, "strict": -8, "ahead": 1}
    topics = {"week": make_topic(partitions=1, retention_ms=7 * 24 * 3600 * 1000),
              "strict": make_topic(partitions=1, message_timestamp_before_max_ms=3600 * 1000),
              "ahead": make_topic(partitions=1, message_timestamp_after_max_ms=3600 * 1000)}
    start()
    began = time.time()
    with outbox.transaction() as emit:
        for name, topic in topics.items():
            emit(topic, "a", name)
            emit.connection.execute("UPDATE inbox.outbox SET created_at = created_at + make_interval(days => %s)"
                                    " WHERE topic = %s", [days[name], topic])
    records = {name: streams.read(topic, 1)[0] for name, topic in topics.items()}
    for name, record in records.items():
        assert began - 60 < record.timestamp()[1] / 1000 < time.time() + 60
        written = datetime.datetime.fromisoformat(dict(record.headers())["ce_time"].decode().replace("Z", "+00:00"))
        assert abs(written.timestamp() - began - days[name] * 24 * 3600) < 60
    control = make_topic(partitions=1, retention_ms=7 * 24 * 3600 * 1000)
    streams.produce(control, "x", timestamp=int((began - 8 * 24 * 3600) * 1000))
    eventually(lambda: streams.log_start(control)[0] == 1, what="the retention of Kafka")
    assert values(streams.read_what_is_there(topics["week"])) == ["week"]


def test_a_tombstone_has_no_value(start, outbox, streams, events):
    start()
    outbox.emit(events, "a", None)
    record = streams.read(events, 1)[0]
    assert (record.key(), record.value()) == (b"a", None)


def test_a_structured_event_is_json_and_a_plain_one_has_two_headers(start, outbox, streams, events, make_topic):
    sidecar = start(outbox={"format": "structured", "source": "/shop"})
    outbox.emit(events, "a", b'\x00"', id="e-1", subject='s"')
    with outbox.transaction() as emit:
        emit.connection.execute("SELECT inbox.emit(%s, 'a', 'T', '{\"n\": 1}', id => 'e-2')", [events])
    first, second = (json.loads(record.value()) for record in streams.read(events, 2))
    assert first.pop("time") and second.pop("time")
    assert first == {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "Tested", "subject": 's"',
                     "datacontenttype": "text/plain", "data_base64": "ACI="}
    assert second == {"specversion": "1.0", "id": "e-2", "source": "/shop", "type": "T",
                      "datacontenttype": "application/json", "data": {"n": 1}}
    assert dict(streams.read(events, 1)[0].headers()) == {
        "content-type": b"application/cloudevents+json; charset=utf-8", "event-id": b"e-1"}
    plain = make_topic(partitions=1)
    sidecar.write_configuration({"outbox": {"format": "plain"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: log_has(sidecar, "reloaded"))
    outbox.emit(plain, "a", "x", id="e-3")
    record = streams.read(plain, 1)[0]
    assert (record.value(), record.headers()) == (b"x", [("content-type", b"text/plain"), ("event-id", b"e-3")])


def test_a_structured_event_is_json_also_if_its_payload_is_not(start, outbox, streams, events):
    """Its content type says that it is JSON."""
    start(outbox={"format": "structured"})
    payloads = [b'{"n": 1} ', b'{"n": 1', b'"\xff"', b"1 2", b""]
    with outbox.transaction() as emit:
        for payload in payloads:
            emit.connection.execute("SELECT inbox.emit_bytes(%s, 'a', 'T', %s, 'application/json')", [events, payload])
    records = [json.loads(record.value()) for record in streams.read(events, len(payloads))]
    assert records[0]["data"] == {"n": 1}
    assert [base64.b64decode(record["data_base64"]) for record in records[1:]] == payloads[1:]
    assert {record["datacontenttype"] for record in records} == {"application/json"}


def test_the_topic_of_the_configuration_contains_aggregate_and_type(start, outbox, streams, make_topic, name):
    streams.create(f"{name}.order.Placed.v1", 1)
    start(outbox={"topic": f"{name}.{{aggregate}}.{{type}}.v1"})
    with outbox.transaction() as emit:
        emit(None, "a", "x", type="Placed", aggregate="order")
    assert values(streams.read(f"{name}.order.Placed.v1", 1)) == ["x"]


def test_a_key_has_the_partition_that_java_gives_it(start, outbox, streams, make_topic, kafka_server):
    theirs, ours = make_topic(partitions=7), make_topic(partitions=7)
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap, "partitioner": "murmur2_random"})
    keys = [f"order-{number}" for number in range(50)]
    for key in keys:
        producer.produce(theirs, key=key, value=b"")
    producer.flush()
    start()
    with outbox.transaction() as emit:
        for key in keys:
            emit(ours, key, "")
    assert ({record.key(): record.partition() for record in streams.read(ours, 50)}
            == {record.key(): record.partition() for record in streams.read(theirs, 50)})


# Transactions

def test_a_rolled_back_event_never_appears_and_its_hole_is_given_up(start, outbox, streams, events, inbox):
    sidecar = start()
    with pytest.raises(ZeroDivisionError), outbox.transaction() as emit:
        emit(events, "a", "rolled back")
        raise ZeroDivisionError
    outbox.emit(events, "a", "committed")
    assert values(streams.read(events, 1)) == ["committed"]
    eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 0)


@pytest.mark.parametrize("page", [1000, 1])
def test_a_late_commit_with_a_lower_seq_is_published_and_delays_nobody(start, outbox, streams, events, page):
    sidecar = start({"batch_messages": page})
    with outbox.transaction() as late:
        late(events, "a", "late")
        for number in range(20):
            outbox.emit(events, "b", f"on time {number}")
        assert values(streams.read(events, 20)) == [f"on time {number}" for number in range(20)]
        eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 1)
    assert values(streams.read(events, 21))[20] == "late"
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_holes") == 0)


def test_a_transaction_id_above_the_completed_ones_does_not_end_a_hole(start, outbox, streams, events, inbox):
    """The xmax of a snapshot is one more than the latest completed id; the late transaction may have a greater one."""
    sidecar = start()
    with outbox.transaction() as early, outbox.transaction() as other, outbox.transaction() as late:
        for emit in (early, other, late):
            emit.connection.execute("SELECT pg_current_xact_id()")
        late(events, "a", "late")
        early(events, "b", "early")
        early.connection.commit()
        assert values(streams.read(events, 1)) == ["early"]
        eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 1)
        other.connection.commit()
        throughout(lambda: sidecar.metric("inboxd_outbox_holes") == 1, 1)
        late.connection.commit()
    assert values(streams.read(events, 2)) == ["early", "late"]


def test_a_write_transaction_in_another_database_delays_nothing(start, outbox, streams, events, inbox):
    """It holds the horizon of the whole server, so that only the hole of the rollback is remembered longer."""
    sidecar = start()
    with psycopg.connect(inbox.conninfo, dbname="postgres") as other, inbox.connect() as rolled_back:
        other.execute("SELECT pg_current_xact_id()")
        with outbox.transaction() as late:
            late(events, "a", "late")
            rolled_back.execute("SELECT nextval('inbox.outbox_seq')")
            rolled_back.rollback()
            outbox.emit(events, "a", "1")
            outbox.emit(events, "b", "2")
            assert sorted(values(streams.read(events, 2))) == ["1", "2"]
            eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 1)  # both numbers, next to each other
        assert values(streams.read(events, 3))[-1] == "late"
        throughout(lambda: sidecar.metric("inboxd_outbox_holes") == 1, 1)
    eventually(lambda: sidecar.metric("inboxd_outbox_holes") == 0)


def test_a_new_leader_finds_the_late_commit(start, outbox, streams, events):
    first = start()
    with outbox.transaction() as late:
        late(events, "a", "late")
        outbox.emit(events, "b", "on time")
        streams.read(events, 1)
        assert first.stop() == 0
        second = start()
        eventually(lambda: second.metric("inboxd_outbox_leader") == 1)
        outbox.emit(events, "b", "after")
        assert values(streams.read(events, 2)) == ["on time", "after"]
    assert "late" in values(streams.read(events, 3))


def test_a_late_commit_is_found_by_a_leader_that_comes_after_a_renewal(start, outbox, streams, events, inbox):
    """The renewal has stored a floor; the late event must not be below it."""
    first = start()
    with outbox.transaction() as late:
        late(events, "a", "late")
        outbox.emit(events, "b", "on time")
        streams.read(events, 1)
        seen = inbox.value("SELECT seen_at FROM inbox.outbox_relay")
        eventually(lambda: inbox.value("SELECT seen_at FROM inbox.outbox_relay") > seen)
        assert inbox.value("SELECT floor FROM inbox.outbox_relay") == 0
        first.kill()
        second = start()
        eventually(lambda: second.metric("inboxd_outbox_leader") == 1, timeout=60)
    assert values(streams.read(events, 2)) == ["on time", "late"]


def test_a_sequence_that_was_set_back_hides_no_event(start, outbox, streams, events, inbox):
    sidecar = start()
    with outbox.transaction() as emit:
        for number in range(50):
            emit(events, "a", str(number))
    streams.read(events, 50)
    inbox.query("SELECT setval('inbox.outbox_seq', 3)")
    outbox.emit(events, "a", "again")
    assert values(streams.read(events, 51, timeout=60))[50] == "again"
    eventually(lambda: log_has(sidecar, "outbox_sequence_behind"))



def test_ten_thousand_events_of_eight_writers_are_in_the_order_of_their_keys(start, outbox, streams, events):
    """The writers share the keys. Each one locks a key, and its ten events continue the numbers of the key."""
    start()
    numbers = collections.Counter()  # of a key: of the writer that has its lock

    def write(writer):
        with outbox.inbox.connect() as service:
            for turn in range(125):
                key = f"k{(writer + turn) % 7}"
                service.execute("SELECT inbox.lock_key(%s, %s)", [events, key])
                first = numbers[key]
                numbers[key] += 10
                service.execute("SELECT inbox.emit(%s, %s, 'T', to_jsonb(number)) FROM generate_series(%s::int, %s::int) number",
                                [events, key, first, first + 9])
                service.commit()

    with concurrent.futures.ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(8)))
    assert numbers.total() == 10_000 and len(numbers) == 7
    copies = first_copies(streams.read(events, 10_000, timeout=90))
    assert copies == {key.encode(): [str(number) for number in range(count)] for key, count in numbers.items()}


# Keeping and deleting

def test_published_events_are_kept_with_their_place_in_kafka(start, outbox, streams, events, inbox):
    start(retention={"outbox": "1d"})
    with outbox.transaction() as emit:
        emit(events, "a", "1")
        emit(events, "a", "2")
    records = streams.read(events, 2)
    rows = eventually(lambda: len(rows := [row for row in outbox.rows() if row["published_at"]]) == 2 and rows)
    assert [(row["kafka_partition"], row["kafka_offset"]) for row in rows] == [
        (record.partition(), record.offset()) for record in records]
    outbox.emit(events, "a", "3")
    assert values(streams.read(events, 3)) == ["1", "2", "3"]


def test_retention_deletes_published_and_dead_events(start, outbox, streams, make_topic, events):
    small = make_topic(partitions=1, max_message_bytes=20_000)
    start(retention={"outbox": "1s", "outbox_dead": "1s"}, outbox={"max_attempts": 1})
    outbox.emit(events, "a", "published")
    outbox.emit(small, "a", "L" * 30_000)
    streams.read(events, 1)
    eventually(lambda: outbox.count() == 0, timeout=90)


def test_without_the_outbox_nothing_of_it_runs(start_inboxd, outbox, events, inbox, streams):
    sidecar = start_inboxd()
    outbox.emit(events, "a", "1")
    throughout(lambda: outbox.count() == 1 and sidecar.metric("inboxd_outbox_leader") == 0, 2)
    assert inbox.value("SELECT instance FROM inbox.outbox_relay") is None
    assert streams.log_end(events) == {0: 0}


@pytest.mark.slow
def test_events_that_nobody_publishes_are_reported_by_every_sidecar(start_inboxd, start, outbox, events, inbox, streams):
    """None of the sidecars has outbox.enabled."""
    sidecar = start_inboxd()
    outbox.emit(events, "a", "1")
    eventually(lambda: sidecar.metric("inboxd_outbox_unattended") == 1, timeout=60)
    start()
    streams.read(events, 1)
    eventually(lambda: sidecar.metric("inboxd_outbox_unattended") == 0, timeout=60)


# A service that only emits

def test_a_sidecar_without_topics_only_publishes(start, outbox, streams, events, group, kafka_server):
    sidecar = start(kafka={"topics": None}, outbox={"poll": "60s", "poll_idle": "60s"})
    assert sidecar.get("/readyz")[0] == sidecar.get("/livez")[0] == 200
    assert sidecar.status()["sends_only"] is True
    assert log_has(sidecar, "sends_only")
    for number in range(1, 4):
        outbox.emit(events, "a", str(number))
        with socket.socket(socket.AF_UNIX) as service:
            service.connect(sidecar.socket_path)
            service.sendall(b'{"jsonrpc":"2.0","id":1,"method":"poke"}\n')
            assert json.loads(service.recv(1000))["result"] == {}
        assert values(streams.read(events, number)) == [str(value) for value in range(1, number + 1)]
    eventually(lambda: outbox.count() == 0)
    headers = dict(streams.read(events, 1)[0].headers())
    assert headers["ce_source"] == f"/{group}".encode()
    eventually(lambda: {sidecar.metric("inboxd_ready", check=check) for check in ("database", "group", "broker", "progress")} == {1})
    listed = kafka_server.admin().list_consumer_groups().result(30).valid
    assert group not in {one.group_id for one in listed}
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: log_has(sidecar, "reloaded"))
    outbox.emit(events, "a", "4")
    assert sidecar.stop() == 0


def test_a_sidecar_without_topics_does_not_report_handlers_of_others(start, start_inboxd, handler):
    """It gets no messages, so none waits there for a handler that is connected to another sidecar."""
    receiver = start_inboxd()
    client = handler(receiver, always(DONE), name="billing")
    sender = start(kafka={"topics": None}, worker={"lease": "3s"})
    eventually(lambda: sender.status()["handlers_away"] == ["billing"])
    assert sender.status()["broker_ok"] is None and receiver.status()["broker_ok"] is True
    assert receiver.metric("inboxd_handlers_connected", handler="billing") == 1
    assert not sender.metrics().has("inboxd_handlers_connected")
    client.close()
    assert receiver.command("handlers", "forget", "billing").returncode == 0
    eventually(lambda: sender.status()["handlers_away"] == [])
    assert "event=handler_" not in sender.stderr


def test_a_sidecar_without_topics_and_without_the_outbox_is_refused(make_inboxd):
    sidecar = make_inboxd(kafka={"topics": None})
    assert sidecar.start(ready=False).wait(30) == 2
    assert "kafka.topics is not set" in sidecar.stderr


def test_a_sidecar_without_topics_publishes_to_no_other_cluster(start, make_inboxd, outbox, streams, events, inbox):
    """The schema belongs to the cluster that the first sidecar used. `inboxd adopt` changes that."""
    sender = start(kafka={"topics": None})
    bound = eventually(lambda: inbox.query("SELECT cluster_id, group_id FROM inbox.inbox_binding"))
    sender.stop()
    inbox.execute("UPDATE inbox.inbox_binding SET cluster_id = 'another'")
    outbox.emit(events, "a", "1")
    other = make_inboxd(kafka={"topics": None}, outbox=ON)
    assert other.start(ready=False).wait(30) == 2
    last = other.stderr.splitlines()[-1]
    assert '"another"' in last and f'"{bound[0]["cluster_id"]}"' in last and "inboxd adopt" in last
    assert outbox.count() == 1 and streams.log_end(events) == {0: 0}
    assert other.command("adopt", "--yes").returncode == 0
    other.start()
    assert values(streams.read(events, 1)) == ["1"]
    assert inbox.query("SELECT cluster_id, group_id FROM inbox.inbox_binding") == bound


def test_without_events_kafka_may_be_away(make_inboxd, outbox, events):
    sidecar = make_inboxd(kafka={"topics": None, "bootstrap.servers": f"127.0.0.1:{free_port()}"}, outbox=ON).start(ready=False)
    eventually(lambda: log_has(sidecar, "outbox_elected"))
    throughout(lambda: sidecar.metric("inboxd_outbox_failures_total") == 0, 3)
    outbox.emit(events, "a", "1")
    eventually(lambda: sidecar.metric("inboxd_outbox_failures_total") > 0)


def test_a_sidecar_without_topics_takes_no_messages_of_others(start, start_inboxd, handler, streams, topic, inbox, outbox, events):
    """Two sidecars of one schema: one reads, the other one only publishes."""
    sender = start(kafka={"topics": None})
    reader = start_inboxd()
    handler(reader)
    streams.events(topic, [f"e{number}" for number in range(10)])
    inbox.wait_processed(10)
    outbox.emit(events, "a", "1")
    assert values(streams.read(events, 1)) == ["1"]
    assert sender.metric("inboxd_outbox_leader") == 1
    reader.stop()
    outbox.emit(events, "a", "2")
    assert values(streams.read(events, 2)) == ["1", "2"]


# Refused events and unusable topics

def test_a_too_large_event_stops_only_its_key_until_the_limit_is_raised(start, outbox, streams, make_topic):
    small = make_topic(partitions=1, max_message_bytes=100_000)
    sidecar = start(retry=QUICK, outbox={"max_attempts": 1000})
    with outbox.transaction() as emit:
        emit(small, "a", "a1")
        emit(small, "a", "L" * 200_000)
        emit(small, "a", "a3")
        emit(small, None, "unkeyed")
        for number in range(100):
            emit(small, "b", f"b{number:02}")
    copies = first_copies(streams.read(small, 102))
    assert copies == {b"a": ["a1"], None: ["unkeyed"], b"b": [f"b{number:02}" for number in range(100)]}
    outbox.emit(small, "a", "a4")
    states = eventually(lambda: len(states := outbox.states()) == 3 and states["a4"][0] is not None and states)
    assert states["a3"][0] == states["a4"][0] == INFINITY
    eventually(lambda: sidecar.metric("inboxd_outbox_held_keys") == 1)
    assert states["L" * 200_000][2] == "REFUSED"
    streams.configure(small, max_message_bytes=1_000_000)
    copies = first_copies(streams.read(small, 105))
    assert copies[b"a"] == ["a1", "L" * 200_000, "a3", "a4"]
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_keys") == 0)


def test_a_refused_event_is_dead_after_its_attempts_and_its_key_goes_on(start, outbox, streams, make_topic):
    small = make_topic(partitions=1, max_message_bytes=100_000)
    sidecar = start(retry=QUICK, outbox={"max_attempts": 3})
    with outbox.transaction() as emit:
        for value in ("a1", "L" * 200_000, "a3"):
            emit(small, "a", value)
    assert values(streams.read(small, 2)) == ["a1", "a3"]
    row = eventually(lambda: len(rows := outbox.rows()) == 1 and rows[0])
    assert row["dead_at"] is not None and (row["retry_count"], row["error_code"]) == (3, "REFUSED")
    eventually(lambda: log_has(sidecar, "outbox_event_dead"))
    eventually(lambda: sidecar.metric("inboxd_outbox_refused_total") == 3)


def test_a_compacted_topic_refuses_an_event_without_a_key_and_no_other_topic_waits(start, outbox, streams, events, make_topic):
    compacted = make_topic(partitions=1, cleanup_policy="compact")
    sidecar = start(retry=QUICK, outbox={"max_attempts": 3})
    with outbox.transaction() as emit:
        emit(compacted, None, "unkeyed")
        emit(compacted, "a", "keyed")
        emit(events, "a", "other")
    assert values(streams.read(compacted, 1)) == ["keyed"] and values(streams.read(events, 1)) == ["other"]
    row = eventually(lambda: len(rows := outbox.rows()) == 1 and rows[0]["dead_at"] is not None and rows[0])
    assert (row["retry_count"], row["error_code"]) == (3, "REFUSED") and "takes no event without a key" in row["error"]
    assert "facility=FATAL" not in sidecar.stderr, "the producer of all topics goes on"


def test_small_events_together_may_exceed_the_limit_of_their_topic(start, outbox, streams, make_topic):
    small = make_topic(partitions=1, max_message_bytes=20_000)
    sidecar = start()
    with outbox.transaction() as emit:
        for number in range(500):
            emit(small, "a", f"{number:03}" + "x" * 1000)
    copies = first_copies(streams.read(small, 500))[b"a"]
    assert copies == sorted(copies)
    assert sidecar.metric("inboxd_outbox_refused_total") == 0
    assert "facility=FATAL" not in sidecar.stderr, "the brokers have refused no request: that would end the producer"


def test_a_limit_that_was_lowered_unseen_keeps_the_order(start, outbox, streams, make_topic):
    """The brokers refuse a whole request. No event behind it may be in the log before those of the request."""
    shrunk = make_topic(partitions=1)
    start(retry=QUICK, outbox={"max_attempts": 2})
    outbox.emit(shrunk, "a", "before")
    streams.read(shrunk, 1)
    streams.configure(shrunk, max_message_bytes=50_000)
    with outbox.transaction() as emit:
        for number in range(2000):
            emit(shrunk, f"k{number % 3}", f"{number:04}" + ("L" * 60_000 if number == 700 else "x" * 500))
    copies = first_copies(streams.read(shrunk, 2000, timeout=90))
    for number in range(3):
        assert copies[f"k{number}".encode()] == [f"{at:04}" + "x" * 500 for at in range(number, 2000, 3) if at != 700]


def test_nothing_behind_a_refused_request_is_in_the_log(start, outbox, streams, make_topic):
    """No two of the events fit into one request, so a small one comes behind each that is too large."""
    shrunk = make_topic(partitions=1)
    sidecar = start(retry=QUICK, outbox={"max_attempts": 1000})
    outbox.emit(shrunk, "a", "before")
    streams.read(shrunk, 1)
    streams.configure(shrunk, max_message_bytes=100_000)
    with outbox.transaction() as emit:
        for number in range(3):
            emit(shrunk, "a", f"{number} large" + "L" * 950_000)
            emit(shrunk, "a", f"{number} small" + "s" * 60_000)
    eventually(lambda: sidecar.metric("inboxd_outbox_refused_total") > 0)
    streams.configure(shrunk, max_message_bytes=1_048_588)
    copies = first_copies(streams.read(shrunk, 7, timeout=90))[b"a"]
    assert [copy[:7] for copy in copies[1:]] == [f"{number} {size}" for number in range(3) for size in ("large", "small")]


def test_a_missing_topic_stops_only_its_events(start, outbox, streams, events, name):
    sidecar = start()
    missing = f"{name}.missing"
    with outbox.transaction() as emit:
        for number in range(10):
            emit(missing, f"k{number % 2}", f"m{number}")
            emit(events, "a", f"e{number}")
    assert values(streams.read(events, 10)) == [f"e{number}" for number in range(10)]
    eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 1)
    eventually(lambda: log_has(sidecar, "outbox_topic_held"))
    outbox.emit(missing, "k0", "m10")
    streams.create(missing, 1)
    assert first_copies(streams.read(missing, 11)) == {b"k0": [f"m{number}" for number in range(0, 11, 2)],
                                                       b"k1": [f"m{number}" for number in range(1, 10, 2)]}
    eventually(lambda: outbox.count() == 0 and sidecar.metric("inboxd_outbox_held_topics") == 0)
    assert sidecar.metric("inboxd_outbox_refused_total") == 0


def test_an_event_without_a_finite_time_is_published_like_others(start, outbox, streams, events):
    """Somebody has written it into the table. The relay stays elected, and its gauges stay right."""
    sidecar = start()
    with outbox.transaction() as emit:
        for number, never in enumerate(["infinity", "-infinity"]):
            emit(events, "a", f"e{number}")
            emit(f"{events}.missing", "a", f"m{number}")
            emit.connection.execute("UPDATE inbox.outbox SET created_at = %s WHERE isfinite(created_at)", [never])
    times = [dict(record.headers())["ce_time"] for record in streams.read(events, 2)]
    assert times == [b"9999-12-31T23:59:59.999Z", b"0000-01-01T00:00:00.000Z"]
    eventually(lambda: sidecar.metric("inboxd_outbox_waiting") == 2)
    assert sidecar.metric("inboxd_outbox_oldest_seconds") == 0
    assert not log_has(sidecar, "outbox_failed")


def test_a_topic_that_refuses_the_time_of_sending_holds_its_events(start, outbox, streams, events, make_topic):
    """This host's clock differs from that of the brokers. No event is the cause, so no attempt counts and none dies."""
    start(outbox={"max_attempts": 1})
    strict = make_topic(partitions=1, message_timestamp_before_max_ms=0)

    def refused():
        outbox.emit(strict, None, "s")  # accepted if it arrives within the same millisecond
        return next((row for row in outbox.rows() if row["error_code"] == "TOPIC"), None)

    row = eventually(refused)
    assert re.search(r"the time of this host's clock, 20\d\d-\S+Z: .* message.timestamp.before.max.ms=0, message.timestamp.after.max.ms=\d+",
                     row["error"]), row["error"]
    assert (row["retry_count"], row["dead_at"]) == (0, None)
    outbox.emit(events, "a", "e")
    assert values(streams.read(events, 1)) == ["e"]
    streams.configure(strict, message_timestamp_before_max_ms=3600000)
    eventually(lambda: outbox.count() == 0)


def test_a_new_leader_releases_what_the_one_before_has_parked(start, outbox, streams, events, name):
    first = start()
    missing = f"{name}.missing"
    with outbox.transaction() as emit:
        for number in range(5):
            emit(missing, "a", f"m{number}")
    eventually(lambda: [row["available_at"] for row in outbox.rows()].count(INFINITY) == 4)
    first.kill()
    streams.create(missing, 1)
    outbox.emit(missing, "a", "m5")
    start()
    assert values(streams.read(missing, 6, timeout=60)) == [f"m{number}" for number in range(6)]


def test_a_new_leader_sends_what_is_parked_before_anything_new(start, outbox, streams, events, inbox):
    """The leader before it published the head, and ended before it released the others."""
    assert start().stop() == 0
    for number in range(3):
        outbox.emit(events, "a", f"e{number}")
    inbox.execute("UPDATE inbox.outbox SET available_at = 'infinity'")
    outbox.emit(events, "a", "e3")
    start()
    assert values(streams.read(events, 4)) == [f"e{number}" for number in range(4)]


def test_the_key_goes_on_when_an_operator_discards_its_head(start, outbox, streams, make_topic, inbox):
    small = make_topic(partitions=1, max_message_bytes=100_000)
    start(retry={"backoff": "1h", "backoff_max": "1h"})
    with outbox.transaction() as emit:
        emit(small, "a", "L" * 200_000)
        emit(small, "a", "a2")
    eventually(lambda: INFINITY in [row["available_at"] for row in outbox.rows()])
    inbox.execute("UPDATE inbox.outbox SET available_at = NULL, dead_at = now() WHERE retry_count = 1")
    assert values(streams.read(small, 1)) == ["a2"]


# Old snapshots

def blocks(inbox):
    """Pages that all statements so far have read of the outbox and its indexes."""
    inbox.execute("SELECT pg_stat_clear_snapshot()")
    return inbox.value("SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables"
                       " WHERE relid = 'inbox.outbox'::regclass")


def polls(inbox):
    return inbox.value("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelid = 'inbox.outbox_pkey'::regclass")


def idle_cost(inbox):
    """Pages of an idle poll. Retention, once a minute, is not part of it, so the least of several times counts."""
    def once():
        first, before = polls(inbox), blocks(inbox)
        eventually(lambda: polls(inbox) >= first + 30, timeout=60)
        return (blocks(inbox) - before) / (polls(inbox) - first)

    return min(once() for _ in range(3))


def drain_cost(outbox, sidecar, topic, count):
    """Pages to publish an event, with its INSERT."""
    before, published = blocks(outbox.inbox), sidecar.metric("inboxd_outbox_published_total")
    outbox.inbox.execute("INSERT INTO inbox.outbox (topic, event_type, payload)"
                         " SELECT %s, 'T', 'x' FROM generate_series(1, %s)", [topic, count])
    eventually(lambda: sidecar.metric("inboxd_outbox_published_total") >= published + count, timeout=600, every=0.5)
    idle_cost(outbox.inbox)  # the statistics arrive after a pause
    return (blocks(outbox.inbox) - before) / count


@pytest.mark.big
@pytest.mark.timeout(900)
def test_polls_cost_the_same_behind_a_million_events_that_an_old_snapshot_keeps(start, outbox, inbox, events, streams):
    sidecar = start()
    inbox.execute("ALTER TABLE inbox.outbox SET (autovacuum_enabled = off)")
    with inbox.connect() as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM inbox.outbox")
        drain = drain_cost(outbox, sidecar, events, 20_000)
        idle = idle_cost(inbox)
        drain_cost(outbox, sidecar, events, 1_000_000)
        assert inbox.value("SELECT pg_relation_size('inbox.outbox')") > 50 * 1024 * 1024, "no row is reused"
        assert idle_cost(inbox) < 1.5 * idle + 2
        assert drain_cost(outbox, sidecar, events, 20_000) < 1.5 * drain + 2
    assert sum(streams.log_end(events).values()) == 1_040_000


def test_a_hole_that_stays_open_makes_no_poll_of_a_later_relay_dear(start, outbox, inbox, events, streams):
    """An open transaction keeps its own hole, and the index entries of all events that are published behind it."""
    count = 20_000
    sidecar = start()
    inbox.execute("ALTER TABLE inbox.outbox SET (autovacuum_enabled = off)")
    with outbox.transaction() as emit:
        emit(events, "a", "late")
        inbox.execute("INSERT INTO inbox.outbox (topic, event_type, payload) SELECT %s, 'T', 'x'"
                      " FROM generate_series(1, %s)", [events, count])
        eventually(lambda: sidecar.metric("inboxd_outbox_published_total") == count, timeout=60)
        for end in ("stop", "kill"):
            eventually(lambda: inbox.value("SELECT tip FROM inbox.outbox_relay") == count + 1)
            getattr(sidecar, end)()
            sidecar = start()
            eventually(lambda: sidecar.metric("inboxd_outbox_leader"), timeout=40)
            assert idle_cost(inbox) < 50
            assert inbox.value("SELECT (inbox.outbox_status() ->> 'waiting')::int") == 0
        assert sum(streams.log_end(events).values()) == count
    eventually(lambda: sum(streams.log_end(events).values()) == count + 1)
    eventually(lambda: inbox.value("SELECT floor = tip AND hole_first = '{}' FROM inbox.outbox_relay"))


def test_an_event_that_appears_below_the_tip_is_published_soon(start, outbox, streams, events, inbox):
    """An INSERT with a number of its own, and a published event whose state somebody has cleared, behind others that are kept."""
    start(retention={"outbox": "1h"})
    with outbox.transaction() as emit:
        for number in range(1, 151):
            emit(events, "a", str(number))
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.outbox WHERE published_at IS NOT NULL") == 150)
    inbox.execute("DELETE FROM inbox.outbox WHERE seq = 130")
    inbox.execute("INSERT INTO inbox.outbox (seq, topic, event_type, payload) VALUES (130, %s, 'T', 'new')", [events])
    inbox.execute("UPDATE inbox.outbox SET published_at = NULL WHERE seq = 140")
    assert values(streams.read(events, 152))[150:] == ["new", "140"]


# Elections and brokers

def test_one_of_two_sidecars_publishes_and_the_other_one_follows(start, outbox, streams, events):
    first, second = start(), start()
    leader, other = eventually(lambda: (first.metric("inboxd_outbox_leader") and (first, second))
                               or (second.metric("inboxd_outbox_leader") and (second, first)))
    outbox.emit(events, "a", "1")
    assert values(streams.read(events, 1)) == ["1"]
    assert other.metric("inboxd_outbox_leader") == 0
    assert leader.stop() == 0
    outbox.emit(events, "a", "2")
    assert values(streams.read(events, 2, timeout=10)) == ["1", "2"]
    eventually(lambda: other.metric("inboxd_outbox_leader") == 1)


def test_the_transactional_producer_publishes_committed_records(start, outbox, streams, events, make_topic):
    sidecar = start(outbox={"producer": "transactional", "max_attempts": 2}, retry=QUICK)
    small = make_topic(partitions=1, max_message_bytes=20_000)
    with outbox.transaction() as emit:
        for number in range(300):
            emit(events, "a", f"{number:03}")
        emit(small, "a", "L" * 30_000)
        emit(small, "a", "after")
    copies = first_copies(streams.read(events, 300, timeout=60))
    assert copies[b"a"] == [f"{number:03}" for number in range(300)]
    assert values(streams.read(small, 1)) == ["after"]
    eventually(lambda: outbox.count() == 1)
    eventually(lambda: sidecar.metric("inboxd_outbox_published_total") == 301)


@pytest.mark.parametrize("kept", ["0s", "1h"])
def test_a_locked_row_delays_no_other_event(start, start_inboxd, outbox, streams, events, inbox, kept):
    """A service reads it FOR UPDATE. It is published once, and recorded when the lock is gone."""
    def open_rows():
        return [row["payload"] for row in outbox.rows() if row["published_at"] is None]

    start_inboxd().stop()  # creates the schema
    outbox.emit(events, "a", "locked")
    with inbox.connect() as own:
        own.execute("SELECT FROM inbox.outbox FOR UPDATE")
        start(retention={"outbox": kept})
        assert values(streams.read(events, 1)) == ["locked"]
        outbox.emit(events, "a", "1")
        assert values(streams.read(events, 2)) == ["locked", "1"]
        eventually(lambda: open_rows() == [b"locked"])
        outbox.emit(events, "a", "2")
        assert values(streams.read(events, 3)) == ["locked", "1", "2"]
    eventually(lambda: open_rows() == [])
    assert values(streams.read_what_is_there(events)) == ["locked", "1", "2"]
    assert outbox.count() == (0 if kept == "0s" else 3)


def test_a_locked_event_that_must_be_deferred_stops_nothing(start, start_inboxd, outbox, streams, events, name, inbox):
    """Its topic is missing, and psql has its row. It waits in memory, with those behind it whose rows are locked, too."""
    start_inboxd().stop()  # creates the schema
    missing = f"{name}.missing"
    with outbox.transaction() as emit:
        for number in range(4):
            emit(missing, "a", f"m{number}")
            emit(events, "a", f"e{number}")
    with inbox.connect() as psql:
        psql.execute("SELECT FROM inbox.outbox WHERE payload IN ('m0', 'm2') FOR UPDATE")
        sidecar = start()
        assert values(streams.read(events, 4)) == ["e0", "e1", "e2", "e3"]
        eventually(lambda: {row["payload"] for row in outbox.rows()} == {b"m0", b"m1", b"m2", b"m3"})
        eventually(lambda: log_has(sidecar, "outbox_rows_locked"))
        outbox.emit(events, "a", "e4")
        assert values(streams.read(events, 5)) == ["e0", "e1", "e2", "e3", "e4"]
        streams.create(missing, 1)
        assert values(streams.read(missing, 4)) == ["m0", "m1", "m2", "m3"]
        eventually(lambda: {row["payload"] for row in outbox.rows()} == {b"m0", b"m2"})
    eventually(lambda: outbox.count() == 0)
    assert values(streams.read_what_is_there(events)) == ["e0", "e1", "e2", "e3", "e4"]
    assert values(streams.read_what_is_there(missing)) == ["m0", "m1", "m2", "m3"]


def refuse_to_record(inbox, by):
    """PostgreSQL refuses to delete or update the rows with the payload 'refused'. Returns the statement that ends it."""
    if by == "a foreign key":
        inbox.execute("CREATE TABLE ledger (event bigint REFERENCES inbox.outbox (seq) DEFERRABLE INITIALLY DEFERRED)")
        return "DROP TABLE ledger"
    inbox.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'is kept'; END$$;"
                  "CREATE TRIGGER keep BEFORE UPDATE ON inbox.outbox FOR EACH ROW WHEN (OLD.payload = 'refused')"
                  " EXECUTE FUNCTION keep()")
    return "DROP TRIGGER keep ON inbox.outbox"


@pytest.mark.parametrize("kept, by", [("0s", "a foreign key"), ("1h", "a trigger")])
def test_a_row_that_postgresql_refuses_is_recorded_alone(start, start_inboxd, outbox, streams, events, inbox, kept, by):
    """In a page with others, and alone. Its event is published once, as all others, and recorded when nothing refuses it."""
    def open_rows():
        return [row["payload"].decode() for row in outbox.rows() if row["published_at"] is None]

    def emit(*texts):
        with outbox.transaction() as emit_one:
            for text in texts:
                emit_one(events, "a", text)
            if by == "a foreign key":
                emit_one.connection.execute(
                    "INSERT INTO ledger SELECT seq FROM inbox.outbox WHERE payload = 'refused' ON CONFLICT DO NOTHING")

    start_inboxd().stop()  # creates the schema
    end = refuse_to_record(inbox, by)
    emit("1", "2", "refused", "3", "4")
    sidecar = start(retention={"outbox": kept})
    eventually(lambda: open_rows() == ["refused"])
    emit("refused")
    assert values(streams.read(events, 6)) == ["1", "2", "refused", "3", "4", "refused"]
    eventually(lambda: sidecar.metric("inboxd_rows_set_aside", operation="record") == 2)
    emit("5")
    eventually(lambda: open_rows() == ["refused", "refused"])
    eventually(lambda: log_has(sidecar, "outbox_rows_refused"))
    assert not log_has(sidecar, "outbox_failed")
    inbox.execute(end)
    eventually(lambda: open_rows() == [])
    eventually(lambda: sidecar.metric("inboxd_rows_set_aside", operation="record") == 0)
    assert values(streams.read_what_is_there(events)) == ["1", "2", "refused", "3", "4", "refused", "5"]


def test_a_refused_row_that_must_be_deferred_keeps_its_key(start, start_inboxd, outbox, streams, events, name, inbox):
    """Its topic is missing, and a trigger refuses to defer it. Later events of its key wait for it."""
    start_inboxd().stop()  # creates the schema
    end = refuse_to_record(inbox, "a trigger")
    missing = f"{name}.missing"
    with outbox.transaction() as emit:
        for topic, text in [(missing, "refused"), (events, "e0"), (missing, "m1"), (events, "e1")]:
            emit(topic, "a", text)
    sidecar = start()
    eventually(lambda: {row["payload"] for row in outbox.rows()} == {b"refused", b"m1"})
    eventually(lambda: log_has(sidecar, "outbox_rows_refused"))
    streams.create(missing, 1)
    assert values(streams.read(missing, 2)) == ["refused", "m1"]
    eventually(lambda: outbox.count() == 0)
    inbox.execute(end)
    assert values(streams.read_what_is_there(events)) == ["e0", "e1"]
    assert values(streams.read_what_is_there(missing)) == ["refused", "m1"]


def test_while_postgresql_refuses_all_rows_nothing_is_sent_twice(start, start_inboxd, outbox, streams, events, inbox):
    start_inboxd().stop()  # creates the schema
    inbox.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'is kept'; END$$;"
                  "CREATE TRIGGER keep BEFORE DELETE ON inbox.outbox FOR EACH ROW EXECUTE FUNCTION keep()")
    texts = [f"{number:03}" for number in range(100)]
    with outbox.transaction() as emit:
        for text in texts:
            emit(events, "a", text)
    sidecar = start()
    eventually(lambda: sidecar.metric("inboxd_rows_set_aside", operation="record") == 100)
    inbox.execute("DROP TRIGGER keep ON inbox.outbox")
    eventually(lambda: outbox.count() == 0)
    assert values(streams.read_what_is_there(events)) == texts


@pytest.mark.slow
def test_a_table_that_is_locked_for_long_makes_no_copies(start, start_inboxd, outbox, streams, events, inbox):
    """CREATE INDEX lets others read, and lets nobody write."""
    start_inboxd().stop()  # creates the schema
    outbox.emit(events, "a", "1")
    with inbox.connect() as owner:
        owner.execute("LOCK TABLE inbox.outbox IN SHARE MODE")
        sidecar = start()
        assert values(streams.read(events, 1)) == ["1"]
        throughout(lambda: "event=outbox_failed" not in sidecar.stderr, 35)
    eventually(lambda: outbox.count() == 0)
    assert values(streams.read_what_is_there(events)) == ["1"]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_an_open_discard_of_an_operator_stops_nothing(start, outbox, streams, events, name, inbox, end):
    missing = f"{name}.missing"
    sidecar = start()
    outbox.emit(missing, "a", "m0")
    eventually(lambda: [row["error_code"] for row in outbox.rows()] == ["TOPIC"])
    with inbox.connect() as operator:
        operator.execute("SELECT inbox.outbox_discard_where('retrying', reason => 'a look')")
        eventually(lambda: log_has(sidecar, "outbox_rows_locked"))  # when it was tried again
        for number in range(3):
            outbox.emit(events, "a", f"e{number}")
            eventually(lambda: outbox.count() == 1)
        operator.execute(end)
    if end == "COMMIT":
        eventually(lambda: [row["error_code"] for row in outbox.rows()] == ["DISCARDED"])
        eventually(lambda: sidecar.metric("inboxd_outbox_held_topics") == 0)
    else:
        streams.create(missing, 1)
        assert values(streams.read(missing, 1)) == ["m0"]
    assert values(streams.read_what_is_there(events)) == ["e0", "e1", "e2"]


def test_a_large_locked_event_does_not_keep_others_from_their_turn(start, start_inboxd, outbox, streams, make_topic, inbox):
    """It is published, its row is still due, and alone it fills a page."""
    start_inboxd().stop()  # creates the schema
    large = make_topic(partitions=1, max_message_bytes=8_000_000)
    outbox.emit(large, "a", "L" * (4 << 20))
    outbox.emit(large, "b", "small")
    inbox.execute("UPDATE inbox.outbox SET available_at = now() - interval '1 hour' + seq * interval '1 second'")
    with inbox.connect() as psql:
        psql.execute("SELECT FROM inbox.outbox WHERE key = 'a' FOR UPDATE")
        start(kafka={"message.max.bytes": 8_000_000, "fetch.max.bytes": 8_000_000})
        assert [len(value) for value in values(streams.read(large, 2))] == [4 << 20, len("small")]
    eventually(lambda: outbox.count() == 0)
    assert len(streams.read_what_is_there(large)) == 2


def test_a_poke_wakes_the_relay_without_a_hello(start, outbox, streams, events):
    sidecar = start(outbox={"poll": "60s", "poll_idle": "60s"})
    outbox.emit(events, "a", "1")
    with socket.socket(socket.AF_UNIX) as service:
        service.connect(sidecar.socket_path)
        for number in range(1, 4):
            service.sendall(b'{"jsonrpc":"2.0","id":%d,"method":"poke"}\n' % number)
            assert json.loads(service.recv(1000)) == {"jsonrpc": "2.0", "id": number, "result": {}}
            assert values(streams.read(events, number)) == [str(value) for value in range(1, number + 1)]
            outbox.emit(events, "a", str(number + 1))
