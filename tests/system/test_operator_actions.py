"""Retry now, resolve and audit: what an operator does about single messages, and what shows it later."""

import json
import subprocess

import pytest

from support.scripts import always, by_id, DONE
from support.sidecar import binary
from support.wait import eventually
from support.wire import dead, NEVER, retry, snooze
from test_commands import objects, run

HOUR = 3_600_000


@pytest.fixture
def patient(start_inboxd):
    """A sidecar whose retries wait for an hour."""
    return start_inboxd(retry={"backoff": "1h", "backoff_max": "1h"})


def once(first):
    """Answers a delivery of each event with `first`, and later ones with done."""
    seen = set()

    def decide(delivery):
        if delivery.event_id in seen:
            return DONE
        seen.add(delivery.event_id)
        return first

    return decide


def test_retry_makes_a_waiting_retry_due_now_and_keeps_the_order_of_its_key(patient, handler, streams, topic, inbox):
    client = handler(patient, once(retry(reason="upstream 503", code="UPSTREAM")))
    streams.events(topic, ["a", "b"], key=lambda _: "k")
    eventually(lambda: inbox.message("a")["status"] == "retrying" and inbox.count() == 2)
    assert run(patient, "retry", "a", "--dry-run") == "dry run: retry a, which is retrying\n"
    assert run(patient, "retry", "a", "--reason", "upstream is back") == "a retried\n"
    row = inbox.wait_status("a", "processed")
    eventually(lambda: len(client.deliveries) == 3)  # b fails, too
    assert [(delivery.event_id, delivery.attempt) for delivery in client.deliveries] == [("a", 1), ("a", 2), ("b", 1)]
    assert (row["retry_count"], row["replay_count"]) == (1, 0)
    assert (row["attempts"][1]["retried_by"], row["attempts"][1]["reason"]) == \
        (inbox.value("SELECT session_user::text"), "upstream is back")
    assert "made due by" in run(patient, "show", "a") and "upstream is back" in run(patient, "show", "a")


def test_retry_ends_a_snooze(patient, handler, streams, topic, inbox):
    handler(patient, once(snooze(HOUR)))
    streams.events(topic, ["a", "b"])
    eventually(lambda: inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE available_at > now()") == 2)
    assert run(patient, "retry", "a") == "a retried\n"
    inbox.wait_status("a", "processed")
    assert run(patient, "retry", "--topic", topic, code=6) == "inboxd: no message matches\n"
    assert run(patient, "retry", "--status", "waiting", "--topic", topic, "--yes") == "1 retried\n"
    inbox.wait_processed(2)


def test_retry_with_filters_makes_only_matching_retries_due(patient, handler, streams, topic, inbox):
    first = {"a": retry(code="UPSTREAM", reason="503"), "b": retry(code="UPSTREAM", reason="503"),
             "c": retry(code="PRICE", reason="no price")}
    seen = set()

    def decide(delivery):
        again = delivery.event_id in seen
        seen.add(delivery.event_id)
        return DONE if again else first[delivery.event_id]

    handler(patient, decide)
    streams.events(topic, ["a", "b", "c"])
    eventually(lambda: inbox.count("retrying") == 3)
    assert run(patient, "retry", "--code", "UPSTREAM", "--dry-run") == "dry run: retry 2 messages\n"
    assert json.loads(run(patient, "retry", "--code", "UPSTREAM", "--yes", "--json")) == \
        {"action": "retry", "count": 2, "dry_run": False}
    eventually(lambda: inbox.count("processed") == 2)
    assert inbox.message("c")["status"] == "retrying"


def test_retry_says_the_state_of_each_message_that_waits_for_no_retry(patient, handler, streams, topic, inbox):
    client = handler(patient, by_id({"d": dead(reason="no"), "n": NEVER, "r": retry()}))
    streams.events(topic, ["d", "n", "p", "r"])
    eventually(lambda: inbox.count("dead") == 1 and inbox.count("processed") == 1 and inbox.count("retrying") == 1
               and len(client.deliveries) == 4)
    result = patient.command("retry", "d", "n", "p", "r", "missing")
    assert (result.returncode, result.stdout) == (6, "r retried\n")
    assert 'event "d" is dead, so it was not retried. To run it again: `inboxd replay EVENT_ID`' in result.stderr
    assert 'event "n" is claimed, so it was not retried. Wait until its handler has answered' in result.stderr
    assert 'event "p" is processed, so it was not retried. To run it again' in result.stderr
    assert 'there is no message with event id "missing"' in result.stderr
    assert inbox.message("n")["status"] == "claimed"
    assert "give event ids, or filters such as --status retrying" in run(patient, "retry", code=1)


def test_resolve_makes_a_dead_message_processed_and_keeps_the_reason(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd()
    client = handler(sidecar, by_id({"x": dead(reason="no price", code="PRICE"), "y": dead(reason="no price")}))
    streams.events(topic, ["x", "y", "z"], key=lambda _: "k")
    eventually(lambda: inbox.count("dead") == 2 and inbox.count("processed") == 1)
    assert "give --reason" in run(sidecar, "resolve", "x", code=1)
    assert "give an event id" in run(sidecar, "resolve", code=1)
    assert run(sidecar, "resolve", "x", "--reason", "booked by hand", "--dry-run").startswith("dry run: resolve x, which has been dead since 2")
    assert inbox.count("dead") == 2
    assert run(sidecar, "resolve", "x", "--reason", "booked by hand") == "x resolved\n"
    row = inbox.message("x")
    assert (row["status"], row["dead_at"], row["error"], row["error_code"]) == \
        ("processed", None, "booked by hand", "RESOLVED")
    me = inbox.value("SELECT session_user::text")
    (failed, entry) = row["attempts"]
    assert failed["code"] == "PRICE"
    assert (entry["called_done_by"], entry["reason"], entry["was"], entry["error"], entry["code"]) == \
        (me, "booked by hand", "dead", "no price", "PRICE")
    assert f"resolved by {me}, was dead: booked by hand" in run(sidecar, "show", "x")
    assert f"\n  handler: none: resolved by {me}\n" in run(sidecar, "show", "x")
    eventually(lambda: sidecar.metric("inboxd_dead") == 1, timeout=60)
    assert run(sidecar, "replay", "--dead", "--dry-run") == "dry run: replay 1 message\n"
    assert len(client.deliveries) == 3
    run(sidecar, "replay", "x", "--yes")
    eventually(lambda: [delivery.event_id for delivery in client.deliveries].count("x") == 2)


def test_resolve_changes_no_message_that_is_not_dead(patient, handler, streams, topic, inbox):
    client = handler(patient, by_id({"n": NEVER, "r": retry()}))
    streams.events(topic, ["n", "p", "r"])
    eventually(lambda: inbox.count("processed") == 1 and inbox.count("retrying") == 1 and len(client.deliveries) == 3)
    before = inbox.messages()
    result = patient.command("resolve", "n", "p", "r", "--reason", "done")
    assert (result.returncode, result.stdout) == (6, "")
    assert 'event "n" is claimed, so it was not resolved. Wait until its handler has answered' in result.stderr
    assert 'event "p" is processed, so it was not resolved. There is nothing to do' in result.stderr
    assert "To make it dead first: `inboxd discard EVENT_ID`" in result.stderr
    assert inbox.messages() == before


def test_audit_lists_who_did_what_newest_first(start_inboxd, handler, streams, topic, inbox):
    sidecar = start_inboxd()
    handler(sidecar, always(dead(reason="no")))
    streams.events(topic, ["x", "y"])
    eventually(lambda: inbox.count("dead") == 2)
    run(sidecar, "resolve", "x", "--reason", "booked by hand")
    run(sidecar, "replay", "y", "--reason", "again")
    me = inbox.value("SELECT session_user::text")
    lines = run(sidecar, "audit").splitlines()
    assert lines[0].split() == ["AT", "WHO", "ACTION", "AFFECTED", "REASON", "WHAT"]
    assert [line.split()[1:4] for line in lines[1:]] == [[me, "replay", "1"], [me, "resolve", "1"]]
    assert f"source={topic} event_id=x" in lines[2]
    newest, oldest = objects(run(sidecar, "audit", "--json"))
    assert (newest["action"], newest["reason"], oldest["action"]) == ("replay", "again", "resolve")
    assert set(newest) == {"seq", "at", "who", "action", "filter", "reason", "affected"}
    assert [entry["seq"] for entry in objects(run(sidecar, "audit", "--action", "resolve", "--json"))] == [oldest["seq"]]
    inbox.execute("SELECT inbox.audit('skip_key', '{}', NULL, 0)")
    assert len(objects(run(sidecar, "audit", "--action", "skip", "--json"))) == 1
    assert run(sidecar, "audit", "--action", "ski", "--json") == ""
    inbox.execute("DELETE FROM inbox.inbox_audit WHERE action = 'skip_key'")
    assert run(sidecar, "audit", "--who", "nobody", "--json") == ""
    assert len(objects(run(sidecar, "audit", "--who", me, "--json"))) == 2
    assert run(sidecar, "audit", "--until", "1h", "--json") == ""
    assert len(objects(run(sidecar, "audit", "--since", "1h", "--json"))) == 2
    limited = sidecar.command("audit", "--limit", "1")
    assert (len(limited.stdout.splitlines()), limited.stderr) == (2, "there are 2 actions; all of them: --limit 2\n")


@pytest.mark.parametrize("command", ["audit", "list", "list --dead", "list --rejects", "list --conflicts", "outbox list"])
def test_a_period_that_ends_before_it_begins_is_a_usage_error(inboxd, command):
    result = inboxd.command(*command.split(), "--since", "1h", "--until", "2h")
    assert (result.returncode, result.stdout) == (1, "") and "--since must be earlier than --until" in result.stderr
    assert inboxd.command(*command.split(), "--since", "2h", "--until", "1h").returncode == 0


@pytest.mark.parametrize("word, hint", [
    ("dead", "list --dead"), ("failed", "list --dead"), ("errors", "list --dead"), ("dlq", "list --dead"),
    ("requeue", "replay"), ("redrive", "replay"), ("ack", "resolve EVENT_ID"), ("logs", "audit"), ("inspect", "show EVENT_ID")])
def test_near_words_name_the_command(word, hint):
    result = subprocess.run([binary(), word], capture_output=True, text=True, timeout=30)
    assert result.returncode == 1
    assert f'there is no command "{word}"; use `inboxd {hint}`' in result.stderr
