"""A row that PostgreSQL always refuses for its own reason (here a trigger that raises) blocks only itself. A database
that refuses every row is an outage, and no row is rejected for it.
"""

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import retry

REFUSE = """
CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE {event} ON inbox.inbox_messages FOR EACH ROW WHEN ({condition})
EXECUTE FUNCTION public.refuse()
"""
ALLOW = "DROP TRIGGER refuse ON inbox.inbox_messages"


def refuse(inbox, condition, event="INSERT"):
    inbox.execute(REFUSE.format(event=event, condition=condition))


def faults(sidecar):
    return sidecar.metric("inboxd_pg_errors_total", **{"class": "other"})


def test_only_the_row_that_a_trigger_refuses_is_rejected(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id LIKE 'bad%'")
    streams.events(topic, [f"{kind}{n}" for n in range(20) for kind in ("good", "bad")], key=lambda one: one.encode())
    inbox.wait_processed(20)
    rejects = eventually(lambda: len(rejects := inbox.rejects()) == 20 and rejects)
    assert {reject["reason"] for reject in rejects} == {"storage: P0001 not this one [P0001]"}
    eventually(lambda: inboxd.metric("inboxd_rejects_total", topic=topic, reason="storage") == 20)
    inbox.execute(ALLOW)
    assert inboxd.command("replay", "--rejects", "--yes").returncode == 0
    inbox.wait_processed(40)


def replay_rejects(sidecar):
    done = sidecar.command("replay", "--rejects", "--yes")
    return done.stdout + done.stderr


def test_no_message_overtakes_a_refused_one_of_its_key(start_inboxd, handler, streams, make_topic, inbox):
    """Also after a restart, while the row is still refused, and behind a part of the replay."""
    topic = make_topic(partitions=1)
    sidecar = start_inboxd(kafka={"topics": [topic]})
    client = handler(sidecar, always(DONE))
    refuse(inbox, "NEW.event_id = 'k1'")
    streams.events(topic, ["k0", "k1", "other1", "k2"], key=lambda one: one[0])
    inbox.wait_processed(2)
    assert sidecar.stop() == 0
    sidecar.start()
    client = handler(sidecar, always(DONE))
    streams.events(topic, ["k3", "other2"], key=lambda one: one[0])
    inbox.wait_processed(3)
    eventually(lambda: [reject["reason"].split(":")[0] for reject in inbox.rejects()] == ["storage", "behind", "behind"])
    eventually(lambda: sidecar.metric("inboxd_rejects_total", topic=topic, reason="behind") == 1)
    said = replay_rejects(sidecar)
    assert said.count("stays: not this one") == 1 and said.count("stays: an earlier record of its key stays") == 2, said
    inbox.execute(ALLOW)
    streams.events(topic, ["k4", "other3"], key=lambda one: one[0])
    inbox.wait_processed(4)
    replay_rejects(sidecar)
    streams.events(topic, ["k5"], key=lambda one: one[0])
    inbox.wait_processed(9)
    assert [one for one in client.event_ids if one[0] == "k"] == ["k1", "k2", "k3", "k4", "k5"]
    assert inbox.rejects() == []


def test_with_partition_order_a_refused_row_holds_its_partition_back(start_inboxd, handler, streams, make_topic, inbox):
    """Until an operator gives the order up."""
    topic = make_topic(partitions=1)
    sidecar = start_inboxd(kafka={"topics": [topic]}, inbox={"ordering": "partition"})
    client = handler(sidecar, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'")
    streams.events(topic, ["bad", "a", "b"])
    eventually(lambda: len(inbox.rejects()) == 3)
    assert inbox.value("SELECT inbox.release_reject(seq, 'not needed') FROM inbox.inbox_rejects WHERE reason LIKE 'storage:%'")
    replay_rejects(sidecar)
    streams.events(topic, ["c"])
    inbox.wait_processed(3)
    assert client.event_ids == ["a", "b", "c"]
    assert [reject["reason"].split(":")[0] for reject in inbox.rejects()] == ["storage"]


def test_a_single_refused_row_is_rejected_only_after_another_row_is_accepted(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'")
    streams.events(topic, ["bad"])
    eventually(lambda: faults(inboxd) >= 5)
    assert inbox.rejects() == []
    streams.events(topic, ["good"])
    inbox.wait_processed(1)
    eventually(lambda: len(inbox.rejects()) == 1)


def test_when_every_row_is_refused_none_is_rejected(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "true")
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: faults(inboxd) >= 5)
    eventually(lambda: inboxd.get("/readyz")[0] == 503, every=0.02)
    assert (inbox.rejects(), inbox.count()) == ([], 0)
    inbox.execute(ALLOW)
    inbox.wait_processed(3)
    assert inbox.rejects() == []


AUDIT = """
CREATE TABLE public.audit (day date NOT NULL, body text) PARTITION BY RANGE (day);
CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.audit VALUES (current_date, NEW.event_id); RETURN NULL; END $$;
CREATE TRIGGER audit AFTER INSERT ON inbox.inbox_messages FOR EACH ROW WHEN (%s) EXECUTE FUNCTION public.audit();
GRANT INSERT ON public.audit TO PUBLIC
"""


# The error (23514) has the class of a bad value, and comes from a trigger that all rows fire, or these rows.
@pytest.mark.parametrize("condition", ["true", "NEW.payload <> '{}'"])
def test_a_table_of_the_user_that_refuses_every_row_is_an_outage(inboxd, handler, streams, topic, inbox, condition):
    client = handler(inboxd, always(DONE))
    inbox.execute(AUDIT % condition)
    first = [f"e{n}" for n in range(60)]
    streams.events(topic, first, key=lambda one: b"k", value=lambda one: b'{"n": 1}')
    eventually(lambda: inboxd.metric("inboxd_pg_errors_total", **{"class": "data"}) >= 5)
    eventually(lambda: inboxd.get("/readyz")[0] == 503, every=0.02)
    assert (inbox.rejects(), inbox.count()) == ([], 0)
    inbox.execute("CREATE TABLE public.audit_rest PARTITION OF public.audit DEFAULT")
    streams.events(topic, ["later"], key=lambda one: b"k")
    inbox.wait_processed(61)
    assert client.event_ids == [*first, "later"]
    assert inbox.rejects() == []


def test_a_table_that_accepts_no_row_is_not_ready_until_it_does(start_inboxd, streams, topic, inbox):
    """The heartbeats succeed all the time."""
    sidecar = start_inboxd(worker={"lease": "3s"})
    inbox.execute("ALTER TABLE inbox.inbox_messages ADD CONSTRAINT never CHECK (false) NOT VALID")
    streams.events(topic, ["a", "b"])
    eventually(lambda: "database" in sidecar.get("/readyz")[2])
    throughout(lambda: sidecar.get("/readyz")[0] == 503, seconds=4, every=0.05)
    inbox.execute("ALTER TABLE inbox.inbox_messages DROP CONSTRAINT never")
    eventually(lambda: sidecar.get("/readyz")[0] == 200)


def test_replaying_rejects_leaves_out_the_one_that_is_refused(inboxd, handler, streams, topic, inbox):
    streams.events(topic, ["bad", "good1", "good2"])
    inbox.wait_stored(3)
    inbox.execute("""INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, headers, payload, reason)
                     SELECT topic, kafka_partition, kafka_offset, headers, payload, 'storage' FROM inbox.inbox_messages
                     ORDER BY event_id;
                     DELETE FROM inbox.inbox_messages""")
    refuse(inbox, "NEW.event_id = 'bad'")
    done = inboxd.command("replay", "--rejects", "--yes")
    assert done.returncode == 0 and "stays: not this one" in done.stderr, done.stderr
    assert (inbox.count(), len(inbox.rejects())) == (2, 1)
    done = inboxd.command("replay", "--rejects", "--yes")
    assert done.returncode == 3 and "inboxd: not this one" in done.stderr, done.stderr


def test_a_table_that_a_trigger_misses_is_not_the_schema(inboxd, streams, topic, inbox):
    streams.events(topic, ["a"])
    inbox.wait_stored(1)
    inbox.execute("""INSERT INTO inbox.inbox_rejects (topic, kafka_partition, kafka_offset, headers, payload, reason)
                     SELECT topic, kafka_partition, kafka_offset, headers, payload, 'storage' FROM inbox.inbox_messages;
                     DELETE FROM inbox.inbox_messages""")
    inbox.execute(AUDIT % "true")
    inbox.execute("ALTER TABLE public.audit RENAME TO gone")
    done = inboxd.command("replay", "--rejects", "--yes")
    assert done.returncode == 3 and "public.audit" in done.stderr, done.stderr
    assert "inboxd migrate" not in done.stderr


def test_faults_between_successes_have_one_line_a_minute(inboxd, handler, streams, topic, inbox):
    """Each claim is refused, and everything else succeeds."""
    handler(inboxd, lambda delivery: retry(0) if "again" in delivery.event_id else DONE)
    refuse(inbox, "NEW.claimed_by IS NOT NULL AND OLD.available_at IS NOT NULL", event="UPDATE")
    streams.events(topic, ["again1", "again2"])
    for number in range(8):
        eventually(lambda wanted=number: faults(inboxd) > wanted)
        streams.events(topic, [f"good{number}"])
        inbox.wait_processed(number + 1)
    said = [line for line in inboxd.stderr.splitlines() if "event=dispatch_database" in line and "level=warn" in line]
    assert len(said) == 1 and "event=dispatch_database_refuses" in said[0], said
    assert inboxd.get("/readyz")[0] == 200


def test_a_verdict_whose_row_is_refused_delays_no_other(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'", event="UPDATE OF processed_at")
    streams.events(topic, ["bad", "behind"], key=lambda one: b"k")
    streams.events(topic, [f"good{n}" for n in range(30)], key=lambda one: one.encode())
    inbox.wait_processed(30)
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="settle") == 1)
    streams.events(topic, ["later"])
    inbox.wait_processed(31)
    assert {inbox.message(one)["status"] for one in ("bad", "behind")} == {"claimed"}
    said = [line for line in inboxd.stderr.splitlines() if "row_set_aside" in line]
    assert len(said) == 1 and "event_id=bad" in said[0]
    inbox.execute(ALLOW)
    inbox.wait_processed(33)
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="settle") == 0)
    eventually(lambda: "row_taken_back" in inboxd.stderr)


def test_a_refused_verdict_does_not_delay_a_stop(start_inboxd, handler, streams, topic, inbox):
    inboxd = start_inboxd(inbox={"shutdown_timeout": "1m"})
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'", event="UPDATE OF processed_at")
    streams.events(topic, ["bad", "good"])
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="settle") == 1)
    assert inboxd.stop(timeout=30) == 0
    inbox.execute(ALLOW)
    inboxd.start()
    handler(inboxd, always(DONE))
    inbox.wait_processed(2)


@pytest.mark.parametrize("ordering", ["key", "none"])
def test_a_row_whose_claim_is_refused_waits_and_the_others_are_claimed(start_inboxd, handler, streams, topic, inbox,
                                                                       ordering):
    inboxd = start_inboxd(inbox={"ordering": ordering})
    refuse(inbox, "NEW.event_id = 'bad' AND NEW.claimed_by IS NOT NULL AND OLD.available_at IS NOT NULL", event="UPDATE")
    client = handler(inboxd, lambda delivery: retry(0) if delivery.attempt == 1 else DONE)
    streams.events(topic, ["bad", "behind"], key=lambda one: b"k")
    streams.events(topic, [f"good{n}" for n in range(30)], key=lambda one: one.encode())
    inbox.wait_processed(30 if ordering == "key" else 31)
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="claim") == 1)
    said = eventually(lambda: [line for line in inboxd.stderr.splitlines() if "row_set_aside" in line])
    assert len(said) == 1 and f"seq={inbox.message('bad')['seq']} " in said[0]
    inbox.execute(ALLOW)
    inbox.wait_processed(32)
    if ordering == "key":
        assert [one for one in client.event_ids if one in ("bad", "behind")] == ["bad", "bad", "behind", "behind"]
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="claim") == 0)
