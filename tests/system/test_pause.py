"""Pause and resume: what waits, what goes on, and who sees it (rule R29)."""

import json
import re
import time

import psycopg
import pytest

from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import NEVER, retry
from test_commands import objects, run


def paused(sidecar):
    return [(pause["kind"], pause["name"]) for pause in sidecar.status()["paused"]]


def pause(sidecar, *target, code=0):
    text = run(sidecar, "pause", *target, code=code)
    eventually(lambda: (target[0][2:], target[1]) in paused(sidecar))
    return text


def resume(sidecar, *target):
    text = run(sidecar, "resume", *target)
    eventually(lambda: (target[0][2:], target[1]) not in paused(sidecar))
    return text


def target_of(kind, topic):
    return {"topic": ("--topic", topic), "consumer": ("--consumer", ""), "handler": ("--handler", "billing")}[kind]


@pytest.mark.parametrize("kind, ordering", [("topic", "none"), ("topic", "key"), ("consumer", "partition"),
                                            ("handler", "none"), ("handler", "key")])
def test_messages_wait_in_their_order_and_spend_no_attempt(start_inboxd, handler, streams, topic, inbox, kind, ordering):
    sidecar = start_inboxd(inbox={"ordering": ordering})
    client = handler(sidecar, always(DONE), name="billing")
    streams.events(topic, ["a"], key=lambda _: "k")
    inbox.wait_processed(1)
    pause(sidecar, *target_of(kind, topic), "--reason", "maintenance")
    ids = [f"e{number}" for number in range(50)]
    streams.events(topic, ids, key=lambda _: "k")
    inbox.wait_stored(51)
    time.sleep(4)  # sweeps and claims come by
    assert [delivery.event_id for delivery in client.deliveries] == ["a"]
    assert inbox.value("SELECT count(*) FROM inbox.messages WHERE status IN ('waiting', 'parked')") == 50
    assert f"waits for: the end of the pause of the {kind} '{target_of(kind, topic)[1]}'" in run(sidecar, "show", "e0")
    assert sidecar.get("/readyz")[0] == 200 and "paused" in sidecar.get("/readyz")[2]
    target = target_of(kind, topic)[1]
    assert sidecar.metric("inboxd_paused", kind=kind, **({"target": target} if target else {})) == 1
    resume(sidecar, *target_of(kind, topic))
    inbox.wait_processed(51)
    delivered = [delivery.event_id for delivery in client.deliveries][1:]
    assert sorted(delivered) == sorted(ids) if ordering == "none" else delivered == ids
    assert {delivery.attempt for delivery in client.deliveries} == {1}
    eventually(lambda: 'event=paused' in sidecar.stderr and 'event=resumed' in sidecar.stderr)


@pytest.mark.parametrize("kind", ["topic", "handler"])
def test_what_is_in_flight_finishes_and_what_is_claimed_goes_back(start_inboxd, handler, streams, topic, inbox, kind):
    sidecar = start_inboxd()
    client = handler(sidecar, always(NEVER), name="billing", max_in_flight=2)
    streams.events(topic, ["a", "b", "c"], key=lambda _: "k")
    streams.events(topic, ["x", "y", "z"], key=lambda event_id: event_id)
    eventually(lambda: len(client.deliveries) == 2)
    inbox.wait_stored(6)
    assert inbox.count("claimed") == 6
    pause(sidecar, *target_of(kind, topic))
    for delivery in list(client.deliveries):
        client.answer(delivery, DONE)
    inbox.wait_processed(2)
    eventually(lambda: inbox.count("claimed") == 0 and inbox.count("waiting") + inbox.count("parked") == 4)
    assert len(client.deliveries) == 2
    client.decide = always(DONE)
    resume(sidecar, *target_of(kind, topic))
    inbox.wait_processed(6)
    of_key = [delivery.event_id for delivery in client.deliveries if delivery.event_id in "abc"]
    assert of_key == ["a", "b", "c"]


def test_a_pause_of_one_target_stops_no_other_one(start_inboxd, handler, streams, make_topic, inbox):
    first, second = make_topic(), make_topic()
    sidecar = start_inboxd(kafka={"topics": [first, second]})
    client = handler(sidecar, always(DONE))
    pause(sidecar, "--topic", first)
    streams.events(first, ["a", "b"])
    streams.events(second, ["x", "y"])
    inbox.wait_stored(4)
    inbox.wait_processed(2)
    assert sorted(delivery.event_id for delivery in client.deliveries) == ["x", "y"]
    resume(sidecar, "--topic", first)
    inbox.wait_processed(4)


def test_a_retry_that_comes_due_during_a_pause_waits(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd()
    client = handler(sidecar, by_id({"a": [retry(delay_ms=3_600_000)]}))
    streams.events(topic, ["a", "b"], key=lambda _: "k")
    eventually(lambda: inbox.message("a")["status"] == "retrying")
    pause(sidecar, "--topic", topic)
    inbox.execute("UPDATE inbox.inbox_messages SET available_at = now() WHERE event_id = 'a'")
    time.sleep(3)  # claims come by
    assert inbox.message("a")["status"] == "retrying" and inbox.message("a")["retry_count"] == 1
    assert len(client.deliveries) == 1
    resume(sidecar, "--topic", topic)
    inbox.wait_processed(2)
    assert [delivery.event_id for delivery in client.deliveries] == ["a", "a", "b"]


def test_a_pause_outlasts_restarts_and_is_obeyed_by_all_sidecars(start_inboxd, handler, streams, topic, inbox):
    first = start_inboxd()
    second = start_inboxd()
    clients = [handler(first, always(DONE)), handler(second, always(DONE))]
    pause(first, "--topic", topic, "--reason", "maintenance")
    eventually(lambda: paused(second) == [("topic", topic)])
    first.restart()
    clients[0] = handler(first, always(DONE))
    eventually(lambda: paused(first) == [("topic", topic)])
    streams.events(topic, [f"e{number}" for number in range(20)])
    inbox.wait_stored(20)
    time.sleep(3)
    assert [client.deliveries for client in clients] == [[], []]
    resume(second, "--topic", topic)
    inbox.wait_processed(20)


@pytest.mark.parametrize("kind, connected", [
    pytest.param("topic", True, id="topic-connected", marks=pytest.mark.slow),
    pytest.param("topic", False, id="topic-away"),
    pytest.param("consumer", True, id="consumer-connected"),
    pytest.param("consumer", False, id="consumer-away", marks=pytest.mark.slow),
    pytest.param("handler", True, id="handler-connected"),
    pytest.param("handler", False, id="handler-away", marks=pytest.mark.slow),
])
def test_what_is_paused_is_not_in_the_age_of_what_waits(start_inboxd, handler, streams, topic, inbox, kind, connected):
    """The alerts InboxdWaiting and InboxdUnrouted use these gauges."""
    def oldest():
        return sidecar.metric("inboxd_oldest_waiting_seconds")

    sidecar = start_inboxd()
    client = handler(sidecar, always(DONE), name="billing")
    pause(sidecar, *target_of(kind, topic))
    if not connected:
        client.close()
    streams.events(topic, ["a", "b"])
    inbox.wait_stored(2)
    inbox.execute("UPDATE inbox.inbox_messages SET received_at = received_at - interval '1 hour',"
                  " available_at = available_at - interval '1 hour'")
    throughout(lambda: oldest() == 0 and sidecar.metric("inboxd_unrouted") == 0, 13)
    if connected:
        resume(sidecar, *target_of(kind, topic))
        inbox.wait_processed(2)
    else:
        resume(sidecar, *target_of(kind, topic))
        eventually(lambda: oldest() > 3000, timeout=30)


def test_another_topic_than_the_paused_one_keeps_its_age(start_inboxd, streams, make_topic, inbox):
    first, second = make_topic(), make_topic()
    sidecar = start_inboxd(kafka={"topics": [first, second]})
    pause(sidecar, "--topic", first)
    streams.events(first, ["a"])
    streams.events(second, ["b"])
    inbox.wait_stored(2)
    inbox.execute("UPDATE inbox.inbox_messages SET received_at = received_at - CASE topic WHEN %s THEN interval '2 hours'"
                  " ELSE interval '1 hour' END, available_at = available_at - interval '1 hour'", [first])
    eventually(lambda: 3600 <= sidecar.metric("inboxd_oldest_waiting_seconds") < 7200, timeout=30)
    assert 3600 <= json.loads(run(sidecar, "status", "--json"))["oldest_waiting_seconds"] < 7200


def test_with_ingest_the_topic_is_not_read(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd()
    handler(sidecar, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    pause(sidecar, "--topic", topic, "--ingest")
    time.sleep(1)
    streams.events(topic, ["b", "c"])
    time.sleep(4)
    assert inbox.count() == 1
    assert sidecar.get("/readyz")[0] == 200
    assert sidecar.metric("inboxd_partitions_paused") == 0, "an operator wants it"
    run(sidecar, "pause", "--topic", topic)  # from now on it is only not delivered
    inbox.wait_stored(3)
    time.sleep(2)
    assert inbox.count("processed") == 1
    resume(sidecar, "--topic", topic)
    inbox.wait_processed(3)


def test_a_second_pause_keeps_the_reason_that_is_not_given_and_says_what_changed(start_inboxd, topic, inbox):
    sidecar = start_inboxd()
    end = f"; to end the pause: inboxd resume --topic {topic}\n"
    assert run(sidecar, "pause", "--topic", topic, "--reason", "why", "--ingest") == \
        f'topic "{topic}" is paused; it is not read from Kafka{end}'
    (before,) = inbox.query("SELECT * FROM inbox.inbox_pauses")
    assert run(sidecar, "pause", "--topic", topic) == f'topic "{topic}" is already paused; it is read from Kafka again{end}'
    (after,) = inbox.query("SELECT * FROM inbox.inbox_pauses")
    assert {**after, "ingest": True} == before and after["reason"] == "why"
    assert run(sidecar, "pause", "--topic", topic, "--reason", "other") == f'topic "{topic}" is already paused; the reason is new{end}'
    assert run(sidecar, "pause", "--topic", topic, "--ingest") == f'topic "{topic}" is already paused; it is not read from Kafka{end}'
    assert inbox.value("SELECT reason FROM inbox.inbox_pauses") == "other"
    assert run(sidecar, "resume", "--topic", topic) == \
        f'topic "{topic}" is resumed: delivery begins within seconds, unless another pause applies\n'


@pytest.mark.parametrize("kind, word, shown", [("topic", "ordrs", "ordrs"), ("consumer", "it's", "'it'\\''s'"),
                                               ("handler", "a\x1bb", None)], ids=["topic", "consumer", "handler"])
def test_a_name_that_nobody_knows_gets_a_note_and_controls_no_terminal(start_inboxd, kind, word, shown):
    sidecar = start_inboxd()
    done = sidecar.command("pause", f"--{kind}", word)
    assert done.returncode == 0 and f"note: nothing is known of the {kind} " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert shown is None or done.stdout.endswith(f"inboxd resume --{kind} {shown}\n")


def test_a_name_that_is_configured_or_connected_gets_no_note(start_inboxd, handler, topic):
    sidecar = start_inboxd(consumers={"search": {"types": ["*"]}})
    handler(sidecar, always(DONE), name="indexer", consumer="search")
    for target in (("--topic", topic), ("--consumer", "search"), ("--handler", "indexer")):
        eventually(lambda target=target: sidecar.command("pause", *target).stderr == "")


def test_a_pause_of_a_consumer_with_a_name_stops_no_other_consumer(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(consumers={"search": {"types": ["*"]}, "mail": {"types": ["*"]}})
    clients = {name: handler(sidecar, always(DONE), name=name, consumer=name) for name in ("search", "mail")}
    pause(sidecar, "--consumer", "search")
    streams.events(topic, ["a", "b"])
    inbox.wait_processed(2)
    time.sleep(2)
    assert (len(clients["search"].deliveries), len(clients["mail"].deliveries)) == (0, 2)
    assert sidecar.metric("inboxd_paused", kind="consumer", target="search") == 1
    resume(sidecar, "--consumer", "search")
    inbox.wait_processed(4)
    eventually(lambda: "inboxd_paused{" not in sidecar.get("/metrics")[2], what="the series to end")


def test_the_functions_refuse_and_are_audited(make_inboxd, db):
    assert make_inboxd().command("migrate").returncode == 0
    for call, words in [("pause(NULL, 'a')", "kind is NULL"), ("pause('queue', 'a')", "kind is 'queue'"),
                        ("pause('topic', NULL)", "name must be given"), ("pause('topic', '')", "name must be given"),
                        ("pause('handler', 'a', NULL, true)", "ingest may be true for a topic only"),
                        ("pause('topic', 'a', NULL, NULL)", "ingest may be true"), ("resume(NULL, 'a')", "kind is NULL"),
                        ("resume('topic', NULL)", "name must be given")]:
        with pytest.raises(psycopg.Error, match=re.escape(words)):
            db.execute(f"SELECT inbox.{call}")
    for call, changed in [("pause('consumer', '')", True), ("pause('consumer', '')", False), ("resume('consumer', '')", True),
                          ("resume('consumer', '')", False)]:
        assert db.execute(f"SELECT inbox.{call} AS changed").fetchone()["changed"] is changed
    assert [(row["action"], row["affected"]) for row in db.execute("SELECT * FROM inbox.inbox_audit ORDER BY seq").fetchall()] == \
        [("pause", 1), ("pause", 0), ("resume", 1), ("resume", 0)]


def test_with_ingest_nothing_is_read_before_the_pauses_are_known(start_inboxd, streams, topic, inbox):
    sidecar = start_inboxd()
    streams.events(topic, ["a"])
    inbox.wait_stored(1)
    pause(sidecar, "--topic", topic, "--ingest")
    sidecar.stop()
    streams.events(topic, ["b", "c"])
    with inbox.connect() as holder, holder.transaction():
        holder.execute("LOCK inbox.inbox_pauses IN ACCESS EXCLUSIVE MODE")
        sidecar.start()
        eventually(lambda: "event=pauses_unknown" in sidecar.stderr, timeout=40)
        assert inbox.count() == 1
    eventually(lambda: paused(sidecar) == [("topic", topic)], timeout=20)
    time.sleep(1)
    assert inbox.count() == 1
    resume(sidecar, "--topic", topic)
    inbox.wait_stored(3)


def test_a_pause_takes_effect_while_somebody_locks_the_handlers(start_inboxd, handler, topic, inbox):
    sidecar = start_inboxd()
    handler(sidecar, always(DONE))
    with inbox.connect() as holder, holder.transaction():
        holder.execute("LOCK inbox.inbox_handlers IN ACCESS EXCLUSIVE MODE")
        inbox.execute("SELECT inbox.pause('topic', %s)", [topic])
        eventually(lambda: paused(sidecar) == [("topic", topic)], timeout=20)
    resume(sidecar, "--topic", topic)


def test_a_pause_that_ends_with_the_lease_is_shown_no_longer(start_inboxd, topic, inbox):
    sidecar = start_inboxd()
    pause(sidecar, "--topic", topic)
    before = sidecar.status()["instance"]
    inbox.execute("WITH resumed AS (DELETE FROM inbox.inbox_pauses)"
                  f" UPDATE inbox.inbox_instances SET fenced_at = now() WHERE id = {before}")
    eventually(lambda: sidecar.status()["instance"] not in (0, before))
    eventually(lambda: sidecar.metric("inboxd_paused", kind="topic", target=topic) == 0)
    eventually(lambda: "paused" not in sidecar.get("/readyz")[2])


def test_the_commands_name_what_is_wrong_and_are_audited(start_inboxd, topic):
    sidecar = start_inboxd()
    assert "give one of --topic, --consumer and --handler" in run(sidecar, "pause", code=1)
    assert "give one of" in run(sidecar, "pause", "--topic", "t", "--handler", "h", code=1)
    assert "--ingest needs --topic" in run(sidecar, "pause", "--handler", "h", "--ingest", code=1)
    assert f'topic "{topic}" is not paused' in run(sidecar, "resume", "--topic", topic, code=6)
    assert json.loads(run(sidecar, "pause", "--topic", topic, "--reason", "why", "--json")) == \
        {"action": "pause", "count": 1, "dry_run": False}
    assert run(sidecar, "pause", "--topic", topic) == \
        f'topic "{topic}" is already paused; to end the pause: inboxd resume --topic {topic}\n'
    assert f"topic   {topic}" in run(sidecar, "status") and "why" in run(sidecar, "status")
    (shown,) = json.loads(run(sidecar, "status", "--json"))["pauses"]
    assert (shown["kind"], shown["name"], shown["reason"], shown["ingest"]) == ("topic", topic, "why", False)
    resume(sidecar, "--topic", topic)
    actions = [(entry["action"], entry["affected"]) for entry in objects(run(sidecar, "audit", "--json"))]
    assert actions == [("resume", 1), ("pause", 0), ("pause", 1), ("resume", 0)]
