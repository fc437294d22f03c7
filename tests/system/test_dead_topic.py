"""The dead topic: messages that died in a delivery are produced to it from the table, at least once."""

import os
import signal

import pytest

from support.librdkafka import later_librdkafka
from support.scripts import always, by_id
from support.wait import eventually, throughout
from support.wire import CLOSE, dead, NEVER, retry


@pytest.fixture
def dead_topic(make_topic):
    return make_topic(partitions=1)


@pytest.fixture
def start(start_inboxd, dead_topic):
    """start(…) -> a sidecar with the dead topic."""
    def start_one(**sections):
        return start_inboxd(**{**sections, "retry": {"dead_topic": dead_topic, **sections.get("retry", {})}})

    return start_one


def headers(record):
    """The last value of each header, as text; None stays."""
    return {name: None if value is None else value.decode(errors="replace") for name, value in record.headers() or []}


def ids(records):
    return [headers(record)["inboxd-event-id"] for record in records]


def noted(inbox):
    """The number of deaths that are marked as produced."""
    return inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE dead_topic_at = dead_at")


def test_a_dead_message_is_produced_completely_with_its_error(start, handler, produce, streams, topic, dead_topic,
                                                              inbox, group):
    sidecar = start()
    handler(sidecar, always(dead(reason="no price for EUR", code="PRICE")))
    theirs = [("id", "a"), ("twice", "1"), ("twice", b"\xff\x00"), ("nothing", None), ("empty", ""),
              ("inboxd-topic", "of another inbox")]
    offset = produce(topic, b'{"order": 17}', key=b"c-\xff", headers=theirs, partition=2, timestamp=1_700_000_000_123)
    record = streams.read(dead_topic, 1)[0]
    row = inbox.wait_status("a", "dead")
    assert (record.key(), record.value()) == (b"c-\xff", b'{"order": 17}')
    assert record.headers()[:len(theirs)] == [(name, value.encode() if isinstance(value, str) else value)
                                              for name, value in theirs]
    ours = headers(record)
    assert ours["inboxd-dead-at"][:19] == row["dead_at"].isoformat()[:19]
    assert {name: value for name, value in ours.items()
            if name.startswith("inboxd-") and name != "inboxd-dead-at"} == {
        "inboxd-error": "no price for EUR", "inboxd-error-code": "PRICE", "inboxd-source": topic,
        "inboxd-event-id": "a", "inboxd-event-type": topic, "inboxd-topic": topic, "inboxd-partition": "2",
        "inboxd-offset": str(offset), "inboxd-timestamp": "2023-11-14T22:13:20.123Z", "inboxd-attempts": "1",
        "inboxd-crashes": "0", "inboxd-seq": str(row["seq"]), "inboxd-group": group,
    }
    eventually(lambda: noted(inbox) == 1)
    eventually(lambda: sidecar.metric("inboxd_dead_topic_produced_total") == 1
               and sidecar.metric("inboxd_dead_topic_waiting") == 0)


def test_headers_describe_the_last_attempt(start, handler, streams, topic, dead_topic):
    handler(start(retry={"max_attempts": 2}), always(retry(reason="upstream 503", code="UPSTREAM")))
    streams.events(topic, ["a"])
    told = headers(streams.read(dead_topic, 1)[0])
    assert (told["inboxd-error"], told["inboxd-error-code"], told["inboxd-attempts"]) == \
        ("upstream 503", "UPSTREAM", "2")


def test_headers_have_the_crash_count(start, handler, streams, topic, dead_topic):
    sidecar = start(retry={"max_crashes": 1})
    streams.events(topic, ["a"])
    for _ in range(2):
        eventually(lambda client=handler(sidecar, always(CLOSE)): client.deliveries)
    told = headers(streams.read(dead_topic, 1)[0])
    assert (told["inboxd-error-code"], told["inboxd-crashes"]) == ("CRASH", "1")


def test_a_tombstone_and_a_missing_key_are_kept(start, handler, produce, streams, topic, dead_topic):
    handler(start(), always(dead()))
    produce(topic, None, key=b"k", headers=[("id", "a")])
    produce(topic, b"", key=None, headers=[("id", "b")])
    found = {headers(record)["inboxd-event-id"]: (record.key(), record.value())
             for record in streams.read(dead_topic, 2)}
    assert found == {"a": (b"k", None), "b": (None, b"")}


def test_a_message_that_dies_again_after_a_replay_is_produced_again(start, handler, streams, topic, dead_topic, inbox):
    handler(start(), by_id({"a": [dead(reason="first"), dead(reason="second")]}))
    streams.events(topic, ["a"])
    eventually(lambda: noted(inbox) == 1)
    assert inbox.value("SELECT inbox.replay(%s, 'a')", [topic])
    records = streams.read(dead_topic, 2)
    assert [headers(record)["inboxd-error"] for record in records] == ["first", "second"]


def test_a_discarded_message_is_not_produced(start, handler, streams, topic, dead_topic, inbox):
    handler(start(), by_id({"a": retry(delay_ms=3_600_000), "b": dead()}))
    streams.events(topic, ["a"])
    inbox.wait_status("a", "retrying")
    assert inbox.value("SELECT inbox.discard(%s, 'a')", [topic])
    streams.events(topic, ["b"])
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(dead_topic)) == ["b"]


@pytest.fixture
def library():
    """The environment with the librdkafka of the sidecar."""
    return dict


@pytest.fixture
def one_dead(start, handler, streams, topic, inbox, library):
    """A sidecar that has no dead topic yet, and a dead message `a`."""
    sidecar = start(retry={"dead_topic": ""}, worker={"connections": 1}, env=library())
    handler(sidecar, always(dead()))
    streams.events(topic, ["a"])
    inbox.wait_status("a", "dead")
    return sidecar


def configure(sidecar, dead_topic):
    """Sets the dead topic of a running sidecar."""
    sidecar.write_configuration({"retry": {"dead_topic": dead_topic}})
    sidecar.signal(signal.SIGHUP)


def test_earlier_dead_messages_are_produced_when_the_topic_is_set(one_dead, streams, dead_topic, inbox):
    configure(one_dead, dead_topic)
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(dead_topic)) == ["a"]


def test_a_kill_between_producing_and_marking_produces_twice(one_dead, streams, dead_topic, inbox):
    with inbox.connect() as transaction:
        transaction.execute("SELECT FROM inbox.inbox_messages FOR UPDATE")  # it cannot be marked
        configure(one_dead, dead_topic)
        streams.read(dead_topic, 1)
        one_dead.kill()
    one_dead.start()
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(dead_topic)) == ["a", "a"]


def test_a_locked_row_is_produced_once_and_marked_when_it_is_free(one_dead, handler, streams, topic, dead_topic, inbox):
    with inbox.connect() as transaction:
        transaction.execute("SELECT FROM inbox.inbox_messages FOR UPDATE")
        configure(one_dead, dead_topic)
        streams.read(dead_topic, 1)
        streams.events(topic, ["b"])
        eventually(lambda: noted(inbox) == 1, what="the other message to be noted")
    eventually(lambda: noted(inbox) == 2)
    assert ids(streams.read_what_is_there(dead_topic)) == ["a", "b"]


def test_a_restart_produces_nothing_again(start, handler, streams, topic, dead_topic, inbox):
    sidecar = start()
    handler(sidecar, always(dead()))
    streams.events(topic, [f"e{number}" for number in range(50)])
    streams.read(dead_topic, 1)
    assert sidecar.stop() == 0
    sidecar.start()
    handler(sidecar, always(dead()))
    streams.events(topic, ["last"])
    eventually(lambda: noted(inbox) == 51)
    wanted = [*(f"e{number}" for number in range(50)), "last"]
    assert sorted(ids(streams.read_what_is_there(dead_topic))) == sorted(wanted)


def test_messages_wait_while_the_topic_does_not_exist(start, handler, streams, topic, name, inbox):
    missing = f"{name}.missing"
    sidecar = start(retry={"dead_topic": missing})
    client = handler(sidecar, by_id({"a": dead()}))
    streams.events(topic, ["a"])
    eventually(lambda: "event=dead_topic_failed" in sidecar.stderr)
    assert f'topic \\"{missing}\\" does not exist' in sidecar.stderr
    eventually(lambda: sidecar.metric("inboxd_dead_topic_waiting") == 1
               and sidecar.metric("inboxd_dead_topic_failures_total") >= 1)
    streams.events(topic, ["b"])
    inbox.wait_status("b", "processed")
    assert sidecar.get("/readyz")[0] == 200
    assert len(client.deliveries) == 2
    streams.create(missing, 1)
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(missing)) == ["a"]
    eventually(lambda: "event=dead_topic_back" in sidecar.stderr)
    assert sidecar.stderr.count("event=dead_topic_failed") == 1, "repeats are held back"


def test_messages_wait_while_the_broker_is_away(start, handler, kafka, streams, topic, dead_topic, inbox):
    sidecar = start()
    client = handler(sidecar, always(NEVER))
    streams.events(topic, ["a"])
    delivery = eventually(lambda: client.deliveries)[0]
    kafka.stop()
    client.answer(delivery, dead())
    inbox.wait_status("a", "dead")
    eventually(lambda: "event=dead_topic_failed" in sidecar.stderr)
    kafka.start()
    eventually(lambda: noted(inbox) == 1, timeout=60)
    assert "a" in ids(streams.read_what_is_there(dead_topic))


@pytest.mark.slow
def test_an_unconfirmed_message_is_not_marked_and_is_produced_first_later(start, handler, kafka, streams, topic,
                                                                          dead_topic, inbox):
    """The producer exists already: it accepts the message, which is never confirmed."""
    sidecar = start()
    client = handler(sidecar, by_id({"a": dead(), "b": NEVER}))
    streams.events(topic, ["a", "b"])
    eventually(lambda: noted(inbox) == 1)
    delivery = eventually(lambda: [one for one in client.deliveries if one.event_id == "b"])[0]
    kafka.stop()
    client.answer(delivery, dead())
    inbox.wait_status("b", "dead")
    eventually(lambda: "event=dead_topic_failed" in sidecar.stderr, timeout=40)
    assert noted(inbox) == 1
    kafka.start()
    eventually(lambda: noted(inbox) == 2, timeout=50)
    assert set(ids(streams.read_what_is_there(dead_topic))) == {"a", "b"}


def test_a_sidecar_stops_in_time_with_the_broker_away(start, handler, kafka, streams, topic, inbox):
    sidecar = start()
    client = handler(sidecar, always(NEVER))
    streams.events(topic, ["a"])
    delivery = eventually(lambda: client.deliveries)[0]
    kafka.stop()
    client.answer(delivery, dead())
    inbox.wait_status("a", "dead")
    assert sidecar.stop(timeout=30) == 0


def test_only_one_of_two_sidecars_produces_each_message_once(start, handler, streams, topic, dead_topic, inbox):
    sidecars = [start(), start(inbox={"instance": "second"})]
    for sidecar in sidecars:
        handler(sidecar, always(dead()))
    wanted = [f"e{number}" for number in range(1000)]
    streams.events(topic, wanted, key=lambda event_id: event_id)
    eventually(lambda: noted(inbox) == 1000, timeout=60)
    assert sorted(ids(streams.read_what_is_there(dead_topic))) == sorted(wanted)
    assert sum(sidecar.metric("inboxd_dead_topic_produced_total") == 0 for sidecar in sidecars) == 1


def test_when_the_producing_sidecar_is_killed_another_continues(start, handler, streams, topic, dead_topic, inbox):
    sidecars = {sidecar.pid: sidecar for sidecar in (start(), start(inbox={"instance": "second"}))}
    for sidecar in sidecars.values():
        handler(sidecar, always(dead()))
    streams.events(topic, ["a"])
    eventually(lambda: noted(inbox) == 1)
    first = eventually(lambda: next((sidecar for sidecar in sidecars.values()
                                     if sidecar.metric("inboxd_dead_topic_produced_total")), None))  # counted behind the COMMIT
    first.kill()
    streams.events(topic, ["b"])
    eventually(lambda: noted(inbox) == 2, timeout=60)
    assert ids(streams.read_what_is_there(dead_topic)) == ["a", "b"]
    first.start()


def test_a_message_too_large_for_the_topic_is_produced_without_its_value(start, handler, produce, streams, topic,
                                                                         make_topic, inbox):
    small = make_topic(partitions=1, max_message_bytes=20_000)
    sidecar = start(retry={"dead_topic": small})
    handler(sidecar, always(dead(reason="no")))
    for number in range(5):
        produce(topic, os.urandom(9_000), key=b"k", headers=[("id", f"s{number}")])
    produce(topic, os.urandom(100_000), key=b"k", headers=[("id", "large")])
    eventually(lambda: noted(inbox) == 6)
    found = {headers(record)["inboxd-event-id"]: record for record in streams.read_what_is_there(small)}
    assert all(len(found[f"s{number}"].value()) == 9_000 for number in range(5))
    large = found["large"]
    assert (large.value(), large.key(), headers(large)["inboxd-value-omitted"]) == (b"", b"k", "refused")
    assert "event=dead_message_cut" in sidecar.stderr
    assert len(inbox.message("large")["payload"]) == 100_000


def test_a_refused_message_does_not_block_later_ones(start, handler, produce, streams, topic, make_topic, inbox):
    """A compacted topic refuses records without a key."""
    compacted = make_topic(partitions=1, cleanup_policy="compact")
    sidecar = start(retry={"dead_topic": compacted})
    handler(sidecar, always(dead()))
    produce(topic, b"{}", key=None, headers=[("id", "without")], partition=0)
    inbox.wait_status("without", "dead")
    produce(topic, b"{}", key=b"k", headers=[("id", "with")], partition=0)
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(compacted)) == ["with"]
    eventually(lambda: sidecar.metric("inboxd_dead_topic_failures_total") >= 1)
    assert inbox.message("without")["dead_topic_at"] is None
    eventually(lambda: "event=dead_message_refused" in sidecar.stderr)
    assert "event=dead_topic_failed" not in sidecar.stderr, "nothing waits for what the topic refuses"


def test_a_row_that_postgresql_refuses_to_mark_does_not_block_others(start, handler, streams, topic, dead_topic, inbox):
    """Its record is sent once."""
    sidecar = start()
    handler(sidecar, always(dead()))
    inbox.execute("""CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.event_id = 'b' THEN RAISE EXCEPTION 'not this row'; END IF; RETURN NEW; END $$""")
    inbox.execute("CREATE TRIGGER refuse BEFORE UPDATE OF dead_topic_at ON inbox.inbox_messages FOR EACH ROW EXECUTE FUNCTION public.refuse()")
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: noted(inbox) == 2)
    streams.events(topic, ["d"])
    eventually(lambda: noted(inbox) == 3)
    assert sorted(ids(streams.read_what_is_there(dead_topic))) == ["a", "b", "c", "d"]
    eventually(lambda: "event=dead_message_unmarked" in sidecar.stderr)
    assert "not this row" in sidecar.stderr and "event=dead_topic_failed" not in sidecar.stderr


def test_a_refused_message_that_was_deleted_does_not_block(start, handler, produce, streams, topic, make_topic, inbox):
    compacted = make_topic(partitions=1, cleanup_policy="compact")
    sidecar = start(retry={"dead_topic": compacted})
    handler(sidecar, always(dead()))
    produce(topic, b"{}", key=None, headers=[("id", "without")], partition=0)
    eventually(lambda: "event=dead_message_refused" in sidecar.stderr)
    inbox.execute("DELETE FROM inbox.inbox_messages")
    produce(topic, b"{}", key=b"k", headers=[("id", "with")], partition=0)
    eventually(lambda: noted(inbox) == 1)
    assert ids(streams.read_what_is_there(compacted)) == ["with"]


def many_dead(inbox, count):
    """Inserts dead messages without a key, as if they had died in deliveries of another sidecar."""
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset,"
                  " headers, payload, payload_digest, claimed_by, delivery_count, dead_at)"
                  " SELECT 'elsewhere', 'm' || i, 't', 'elsewhere', 0, i, '[]', '{}', 'd', 1, 1,"
                  " now() - interval '1 hour' + i * interval '1 ms' FROM generate_series(1, %s) i", [count])


# since version 2.4 librdkafka gives another code to the records that are refused because of others
@pytest.mark.parametrize("library, count", [
    (dict, 300), (later_librdkafka, 300), pytest.param(dict, 9_500, marks=[pytest.mark.big, pytest.mark.timeout(600)]),
], ids=["300", "300-later", "9500"])
def test_many_refused_messages_do_not_block_later_ones(one_dead, handler, produce, streams, topic, make_topic, inbox,
                                                       count):
    """More than a batch, and more than inboxd remembers."""
    compacted = make_topic(partitions=1, cleanup_policy="compact")
    inbox.execute("DELETE FROM inbox.inbox_messages")
    many_dead(inbox, count)
    produce(topic, b"{}", key=b"k", headers=[("id", "with")], partition=0)
    inbox.wait_status("with", "dead")
    configure(one_dead, compacted)
    eventually(lambda: noted(inbox) == 1, timeout=30 + count / 20)
    assert ids(streams.read_what_is_there(compacted)) == ["with"]


def test_its_connection_is_counted_while_a_topic_is_set(one_dead, dead_topic):
    def connections():
        scrape = one_dead.metrics()
        return sum(scrape.value("inboxd_pg_connections", state=state)
                   for state in ("closed", "idle", "busy", "transaction"))

    without = 4  # as in test_metrics.py
    eventually(lambda: connections() == without)
    for name, more in ((dead_topic, 1), ("", 0)):
        configure(one_dead, name)
        eventually(lambda: connections() == without + more)  # pylint: disable=cell-var-from-loop


def test_retention_keeps_messages_that_were_not_produced(start, handler, streams, topic, name, inbox):
    missing = f"{name}.missing"
    sidecar = start(retry={"dead_topic": missing}, retention={"dead": "100ms"})
    handler(sidecar, by_id({"a": dead()}))
    streams.events(topic, ["a"])
    eventually(lambda: "event=dead_topic_failed" in sidecar.stderr)
    throughout(lambda: inbox.count("dead") == 1, seconds=3)
    streams.create(missing, 1)
    eventually(lambda: inbox.count() == 0)
    assert ids(streams.read_what_is_there(missing)) == ["a"]


def test_a_dropped_payload_is_marked_in_a_header(one_dead, streams, dead_topic, inbox):
    inbox.execute("UPDATE inbox.inbox_messages SET payload = NULL, headers = '[]'")
    configure(one_dead, dead_topic)
    (record,) = streams.read(dead_topic, 1)
    assert (record.value(), headers(record)["inboxd-value-omitted"]) == (b"", "retention")


def test_check_reports_a_missing_dead_topic(make_inboxd, name):
    sidecar = make_inboxd(retry={"dead_topic": f"{name}.missing"})
    assert sidecar.command("migrate").returncode == 0
    done = sidecar.command("check")
    assert done.returncode == 6
    assert f'retry.dead_topic: topic "{name}.missing" does not exist' in done.stdout


def test_check_names_the_topic(make_inboxd, dead_topic):
    sidecar = make_inboxd(retry={"dead_topic": dead_topic})
    assert sidecar.command("migrate").returncode == 0
    done = sidecar.command("check")
    assert done.returncode == 0, done.stdout
    assert f"dead topic {dead_topic}: 1 partition\n" in done.stdout
