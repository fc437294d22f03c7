"""A row that PostgreSQL always refuses for its own reason (here a trigger that raises) blocks only itself. A database
that refuses every row is an outage, and no row is rejected for it.
"""

import pytest

from support.scripts import always, DONE
from support.wait import eventually
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
    rejects = inbox.rejects()
    assert len(rejects) == 20
    assert {reject["reason"] for reject in rejects} == {"storage: P0001 not this one [P0001]"}
    assert inboxd.metric("inboxd_rejects_total", topic=topic, reason="storage") == 20
    inbox.execute(ALLOW)
    assert inboxd.command("replay", "--rejects", "--yes").returncode == 0
    inbox.wait_processed(40)


def test_a_single_refused_row_is_rejected_only_after_another_row_is_accepted(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'")
    streams.events(topic, ["bad"])
    eventually(lambda: faults(inboxd) >= 5)
    assert inbox.rejects() == []
    streams.events(topic, ["good"])
    inbox.wait_processed(1)
    assert len(inbox.rejects()) == 1


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
    assert inboxd.metric("inboxd_rows_set_aside", operation="settle") == 0
    assert "row_taken_back" in inboxd.stderr


def test_a_refused_verdict_does_not_delay_a_stop(inboxd, handler, streams, topic, inbox):
    handler(inboxd, always(DONE))
    refuse(inbox, "NEW.event_id = 'bad'", event="UPDATE OF processed_at")
    streams.events(topic, ["bad", "good"])
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="settle") == 1)
    assert inboxd.stop(timeout=5) == 0  # shutdown_timeout is 10 s
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
    said = [line for line in inboxd.stderr.splitlines() if "row_set_aside" in line]
    assert len(said) == 1 and f"seq={inbox.message('bad')['seq']} " in said[0]
    inbox.execute(ALLOW)
    inbox.wait_processed(32)
    if ordering == "key":
        assert [one for one in client.event_ids if one in ("bad", "behind")] == ["bad", "bad", "behind", "behind"]
    eventually(lambda: inboxd.metric("inboxd_rows_set_aside", operation="claim") == 0)
