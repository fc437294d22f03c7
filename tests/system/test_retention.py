"""Retention: what a running sidecar deletes and when, and what it keeps."""

import datetime
import json
import signal

import psycopg
import pytest

from support.scripts import always, by_id, DONE
from support.wait import eventually, throughout
from support.wire import dead, NEVER, retry

NEVER_OVER = {"processed": "never", "payload": "never", "dead": "never", "rejects": "never", "conflicts": "never",
              "audit": "never"}


def retention(**ages):
    return {"retention": {**NEVER_OVER, **ages}}


def has_payload(inbox, event_id):
    return inbox.value("SELECT payload IS NOT NULL OR headers <> '[]' FROM inbox.inbox_messages WHERE event_id = %s",
                       [event_id])


def janitor(inbox):
    """The instance that does the work."""
    return inbox.value("SELECT instance FROM inbox.inbox_janitor")


def age(inbox, by="1 hour"):
    """Moves the times of receipt, processing and death into the past."""
    inbox.execute(f"UPDATE inbox.inbox_messages SET received_at = received_at - interval '{by}',"
                  f" processed_at = processed_at - interval '{by}', dead_at = dead_at - interval '{by}'")


def store_processed_later(inbox, event_id):
    """A message that was processed in an hour: it has no age before age() is called."""
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, headers, payload,"
                  " payload_digest, received_at, processed_at) VALUES ('s', %s, 'elsewhere', 0, 1, '[[\"id\", \"a\"]]', '{}', 'digest',"
                  " now() + interval '1 hour', now() + interval '1 hour')", [event_id])


def test_under_load_only_processed_messages_are_deleted(start_inboxd, handler, streams, topic, inbox):
    """The table also has waiting, failing, open and dead messages."""
    sidecar = start_inboxd(retention(payload="1s", processed="2s"))
    script = {**{f"hangs{n}": NEVER for n in range(5)}, **{f"fails{n}": retry(delay_ms=3600000) for n in range(5)},
              **{f"dead{n}": dead(reason="no") for n in range(5)}}
    client = handler(sidecar, by_id(script), timeout_ms=120000)
    good = [f"e{number}" for number in range(10_000)]
    for start in range(0, len(good), 2000):
        streams.events(topic, good[start:start + 2000], key=lambda event_id: event_id)
        streams.events(topic, [name for name in script if name.endswith(str(start // 2000))], key=lambda name: name)
    eventually(lambda: inbox.count() == len(script) and len(client.deliveries) >= len(good), timeout=90,
               what="the processed rows to be deleted")
    assert {row["event_id"] for row in inbox.messages()} == set(script)
    assert all(has_payload(inbox, event_id) for event_id in script)
    assert sorted(delivery.event_id for delivery in client.deliveries) == sorted([*good, *script])
    eventually(lambda: sidecar.metric("inboxd_purged_total") == len(good))
    assert "heartbeat_failed" not in sidecar.stderr


def test_the_payload_is_dropped_before_the_row_is_deleted(start_inboxd, inbox):
    sidecar = start_inboxd(retention(payload="1s", processed="8s"))
    store_processed_later(inbox, "a")
    throughout(lambda: has_payload(inbox, "a"), 2)
    age(inbox)
    eventually(lambda: not has_payload(inbox, "a"))
    assert bytes(inbox.message("a")["payload_digest"]) == b"digest"
    eventually(lambda: inbox.count() == 0)
    eventually(lambda: sidecar.metric("inboxd_purged_total") == 1)
    eventually(lambda: sidecar.metric("inboxd_payloads_dropped_total") == 1)


@pytest.fixture
def dropped(start_inboxd, handler, streams, topic, inbox):
    """A sidecar whose message `a` was handled and has lost its payload, and the handler."""
    sidecar = start_inboxd(retention(payload="1s"))
    client = handler(sidecar, always(DONE))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    eventually(lambda: not has_payload(inbox, "a"))
    return sidecar, client


def test_a_copy_is_a_duplicate_after_the_payload_was_dropped(dropped, streams, topic, inbox):
    sidecar, client = dropped
    streams.events(topic, ["a", "b"], key=lambda _: "one partition")
    inbox.wait_status("b", "processed")
    eventually(lambda: sidecar.metric("inboxd_duplicates_total", topic=topic) == 1)
    assert inbox.conflicts() == []
    assert [delivery.event_id for delivery in client.deliveries] == ["a", "b"]


def test_a_dropped_payload_is_not_replayed(dropped, topic, inbox):
    _, client = dropped
    for sql in (f"SELECT inbox.replay('{topic}', 'a')", "UPDATE inbox.inbox_messages SET processed_at = NULL"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            inbox.query(sql)
    assert inbox.value("SELECT inbox.replay_where('processed')") == 0
    assert inbox.message("a")["status"] == "processed"
    assert len(client.deliveries) == 1


def test_a_message_replayed_in_time_keeps_its_payload(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retention(payload="30m", processed="40m"))
    client = handler(sidecar, by_id({"a": [DONE, NEVER]}))
    streams.events(topic, ["a"])
    inbox.wait_processed(1)
    inbox.query(f"SELECT inbox.replay('{topic}', 'a')")
    eventually(lambda: len(client.deliveries) == 2)
    age(inbox)
    streams.events(topic, ["b"])
    inbox.wait_status("b", "processed")
    inbox.execute("UPDATE inbox.inbox_messages SET received_at = received_at - interval '1 hour',"
                  " processed_at = processed_at - interval '1 hour' WHERE event_id = 'b'")
    eventually(lambda: inbox.count() == 1)
    assert has_payload(inbox, "a")


def test_a_locked_row_is_deleted_after_the_lock_is_released(start_inboxd, inbox):
    sidecar = start_inboxd(retention(processed="2s"))
    for name in ("locked", "free"):
        store_processed_later(inbox, name)
    with inbox.connect() as other:
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'locked' FOR KEY SHARE")
        age(inbox)
        eventually(lambda: [row["event_id"] for row in inbox.messages()] == ["locked"])
        other.rollback()
    eventually(lambda: inbox.count() == 0)
    assert "retention_failed" not in sidecar.stderr


def test_one_of_two_sidecars_runs_retention_and_the_other_takes_over(start_inboxd, handler, streams, topic, group,
                                                                     inbox):
    sidecars = [start_inboxd(retention(processed="20s"), inbox={"instance": name}) for name in ("one", "two")]
    for sidecar in sidecars:
        handler(sidecar, always(DONE))

    def old_messages(count):
        """Messages that Kafka does not deliver again; otherwise a deleted id would be stored again."""
        streams.events(topic, [f"{count}/{number}" for number in range(count)])
        inbox.wait_processed(count)
        eventually(lambda: streams.lag(group, topic) == 0)
        age(inbox)

    first = eventually(lambda: janitor(inbox))
    old_messages(200)
    eventually(lambda: sum(sidecar.metric("inboxd_purged_total") for sidecar in sidecars) == 200)
    assert janitor(inbox) == first
    idle, busy = sorted(sidecars, key=lambda sidecar: sidecar.metric("inboxd_purged_total"))
    assert (idle.metric("inboxd_purged_total"), busy.status()["instance"]) == (0, first)
    assert busy.stop() == 0
    old_messages(100)
    eventually(lambda: idle.metric("inboxd_purged_total") == 100)
    eventually(lambda: janitor(inbox) == idle.status()["instance"])


@pytest.mark.slow  # a shorter retention waits a minute
def test_ages_are_reloaded_at_sighup(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retention())
    handler(sidecar, by_id({"dead": [dead(reason="no")]}))
    streams.events(topic, ["dead", "done"])
    inbox.wait_status("dead", "dead")
    inbox.wait_status("done", "processed")
    age(inbox)
    throughout(lambda: inbox.count() == 2, 2)
    sidecar.write_configuration(retention(dead="30m", processed="2h"))
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: [row["event_id"] for row in inbox.messages()] == ["done"], timeout=120)  # it waits a minute


def test_rejects_conflicts_and_audit_have_ages_of_their_own(start_inboxd, handler, produce, topic, inbox):
    sidecar = start_inboxd(retention(rejects="1s", conflicts="1s", audit="1s"))
    handler(sidecar, always(DONE))
    produce(topic, b"{}", headers=[("id", "")])
    produce(topic, b"{}", headers=[("id", "a")], partition=0)
    produce(topic, b"{1}", headers=[("id", "a")], partition=0)
    inbox.query("SELECT inbox.discard('s', 'none')")
    eventually(lambda: sidecar.metric("inboxd_purged_total") == 3)
    assert (inbox.rejects(), inbox.conflicts(), inbox.query("SELECT * FROM inbox.inbox_audit")) == ([], [], [])
    assert inbox.message("a")["status"] == "processed"


def test_a_blocked_janitor_delays_no_message_and_no_stop(start_inboxd, handler, streams, topic, inbox):
    """The audit table is locked: its batch times out, fails, and is tried again later."""
    sidecar = start_inboxd(retention(audit="1s"), inbox={"shutdown_timeout": "1m"})
    client = handler(sidecar, always(DONE))
    with inbox.connect() as other:
        other.execute("LOCK TABLE inbox.inbox_audit IN ACCESS EXCLUSIVE MODE")
        eventually(lambda: "retention_failed" in sidecar.stderr)
        streams.events(topic, ["a"])
        eventually(lambda: client.deliveries)
        inbox.wait_processed(1)
        assert sidecar.get("/readyz")[0] == 200
        eventually(lambda: inbox.value("SELECT count(*) FROM pg_locks WHERE NOT granted"), every=0.01)
        assert sidecar.stop(timeout=30) == 0
        other.rollback()
    sidecar.start()
    eventually(lambda: janitor(inbox) == sidecar.status()["instance"])


def test_a_row_that_the_service_refers_to_keeps_no_other_row(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retention(processed="1s"))
    handler(sidecar, always(DONE))
    inbox.execute("""CREATE TABLE public.orders (event_id text, source text, consumer text, FOREIGN KEY (event_id, source, consumer)
                         REFERENCES inbox.inbox_messages (event_id, source, consumer));
                     CREATE FUNCTION public.refer() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN INSERT INTO public.orders VALUES (NEW.event_id, NEW.source, NEW.consumer); RETURN NULL; END $$;
                     GRANT INSERT ON public.orders TO PUBLIC;
                     CREATE TRIGGER refer AFTER INSERT ON inbox.inbox_messages FOR EACH ROW
                         WHEN (NEW.event_id = 'e7') EXECUTE FUNCTION public.refer();
                     INSERT INTO inbox.requests (scope, key, holder, completed_at, expires_at)
                         VALUES ('', 'k', 0, now() - interval '2 days', now() - interval '1 day')""")
    streams.events(topic, [f"e{n}" for n in range(20)])
    eventually(lambda: sidecar.metric("inboxd_purged_total") == 19)
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.requests") == 0)
    assert [message["event_id"] for message in inbox.messages()] == ["e7"]
    eventually(lambda: sidecar.metric("inboxd_retention_refused_total", what="processed") >= 1)
    eventually(lambda: "retention_refused" in sidecar.stderr)
    said = [line for line in sidecar.stderr.splitlines() if "retention_refused" in line]
    assert len(said) == 1 and "event e7" in said[0] and "23503" in said[0]
    assert "retention_failed" not in sidecar.stderr


def test_a_kind_that_fails_stops_no_other(start_inboxd, inbox):
    with inbox.connect() as other:
        sidecar = start_inboxd(retention(audit="1s"))
        other.execute("LOCK TABLE inbox.inbox_audit IN ACCESS EXCLUSIVE MODE")
        eventually(lambda: "retention_failed" in sidecar.stderr)
        inbox.execute("""INSERT INTO inbox.requests (scope, key, holder, completed_at, expires_at)
                         VALUES ('', 'k', 0, now() - interval '2 days', now() - interval '1 day')""")
        eventually(lambda: inbox.value("SELECT count(*) FROM inbox.requests") == 0)
        assert "what=audit" in next(line for line in sidecar.stderr.splitlines() if "retention_failed" in line)


def test_the_end_of_a_fault_is_logged_also_after_a_reload(start_inboxd, inbox):
    sidecar = start_inboxd(retention(audit="1s"))
    with inbox.connect() as other:
        other.execute("LOCK TABLE inbox.inbox_audit IN ACCESS EXCLUSIVE MODE")
        eventually(lambda: "retention_failed" in sidecar.stderr)
        other.rollback()
    sidecar.write_configuration(retention(audit="2s"))
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: "retention_back" in sidecar.stderr)


def test_deletions_are_logged_at_most_once_an_interval(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd(retention(processed="1s"), log={"format": "json"})
    handler(sidecar, always(DONE))

    def lines():
        return [line for line in map(json.loads, sidecar.stderr.splitlines()) if line["event"] == "retention_done"]

    streams.events(topic, ["a", "b"], key=lambda _: "one partition")
    assert eventually(lines)[0]["processed_deleted"] > 0
    streams.events(topic, ["c"])
    eventually(lambda: sidecar.metric("inboxd_purged_total") == 3)
    assert eventually(lambda: lines()[1:])[0]["payloads_dropped"] == 0
    eventually(lambda: sum(line["processed_deleted"] for line in lines()) == 3)
    first, second, *_ = (datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")) for line in lines())
    assert (second - first).total_seconds() > 9, "the interval is ten seconds"


def test_run_warns_when_ids_are_deleted_before_the_records_in_kafka(make_inboxd, make_topic):
    short, long = make_topic(retention_ms=600_000), make_topic(retention_ms=7_200_000)
    sidecar = make_inboxd(retention(processed="1h"), kafka={"topics": [short, long]}, log={"format": "json"}).start()

    def lines():
        return [line for line in map(json.loads, sidecar.stderr.splitlines()) if line["event"] == "retention_short"]

    assert eventually(lines)[0]["topic"] == long
    assert (lines()[0]["topic_keeps_s"], lines()[0]["retention_processed_s"]) == (7200, 3600)
    assert len(lines()) == 1
