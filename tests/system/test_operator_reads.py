"""What operators read: list and show, and the numbers on which they agree."""

import datetime
import json
import re

import pytest

from support.scripts import always
from support.wait import eventually
from support.wire import CLOSE, dead, NEVER, retry


def run(sidecar, *arguments):
    result = sidecar.command(*arguments)
    assert result.returncode == 0, (result.stdout, result.stderr)
    return result.stdout


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def cells(table):
    """The rows of a printed table as dictionaries; its columns begin where their titles do."""
    head, *lines = table.splitlines()
    titles = [(match.start(), match[0]) for match in re.finditer(r"\S+(?: \S+)*", head)]
    ends = [start for start, _ in titles[1:]] + [None]
    return [{title: line[start:end].strip() for (start, title), end in zip(titles, ends)} for line in lines]


# Counts that agree


@pytest.mark.parametrize("answer, settings, spent, crashes", [
    (dead(reason="no price", code="PRICE"), {}, 1, 0),
    (retry(reason="upstream 503", delay_ms=0), {"max_attempts": 2}, 2, 0),
    (NEVER, {"max_attempts": 1}, 1, 0),
    (CLOSE, {"max_crashes": 1}, 0, 1),
], ids=["verdict", "max_attempts", "timeout", "crash"])
def test_counts_agree(start_inboxd, make_topic, handler, streams, topic, inbox, answer, settings, spent, crashes):
    """However a message died, the row, list, show and the dead topic have the same number of attempts."""
    dead_topic = make_topic(partitions=1)
    sidecar = start_inboxd(retry={"dead_topic": dead_topic, "backoff": "10ms", **settings})
    streams.events(topic, ["x"])
    for _ in range(2 if answer is CLOSE else 1):
        eventually(lambda client=handler(sidecar, always(answer), timeout_ms=300): client.deliveries)
    headers = {name: value.decode() for name, value in streams.read(dead_topic, 1)[0].headers()}
    row = inbox.wait_status("x", "dead")
    shown = run(sidecar, "show", "x")
    assert (row["retry_count"], row["crash_count"]) == (spent, crashes)
    assert cells(run(sidecar, "list", "--dead"))[0]["TRIES"] == str(spent)
    assert [each["retry_count"] for each in objects(run(sidecar, "list", "--json"))] == [spent]
    assert json.loads(run(sidecar, "show", "x", "--json"))["retry_count"] == spent
    assert f"\n  attempts spent: {spent}\n" in shown
    assert ("\n  crashes: 1\n" in shown) is (crashes == 1)
    assert (headers["inboxd-attempts"], headers["inboxd-crashes"]) == (str(spent), str(crashes))
    run(sidecar, "replay", "x", "--yes")
    entry = inbox.message("x")["attempts"][-1]
    assert (entry["was"], entry["attempts"]) == ("dead", spent)


# Dead messages by the time of death


@pytest.fixture
def deaths(start_inboxd, handler, streams, topic, inbox):
    """e0, e1 and e2, of which e1 died first, e0 yesterday before noon, and e2 last."""
    sidecar = start_inboxd()
    client = handler(sidecar, always(dead(reason="no price", code="PRICE")))
    streams.events(topic, ["e0", "e1", "e2"])
    eventually(lambda: inbox.count("dead") == 3)
    client.close()
    for event_id, age in (("e1", "3 days"), ("e0", "2 days")):
        inbox.execute("UPDATE inbox.inbox_messages SET dead_at = dead_at - %s::interval WHERE event_id = %s", [age, event_id])
    inbox.execute("UPDATE inbox.inbox_messages SET received_at = received_at - interval '9 days'")
    return sidecar


def test_list_dead_is_by_time_of_death(deaths, inbox):
    def ids(*options):
        return [row["event_id"] for row in objects(run(deaths, "list", "--json", *options))]

    table = cells(run(deaths, "list", "--dead"))
    assert [row["EVENT ID"] for row in table] == ["e2", "e0", "e1"]
    died = inbox.message("e1")["dead_at"].astimezone(datetime.timezone.utc)
    assert table[2]["DIED"] == f"{died:%Y-%m-%dT%H:%M:%SZ}"
    assert ids("--dead") == ids("--status", "dead") == ["e2", "e0", "e1"]
    assert ids("--dead", "--reverse") == ["e1", "e0", "e2"]
    by_seq = [row["event_id"] for row in inbox.messages(order="seq")]
    assert ids("--dead", "--order", "seq") == ids() == by_seq
    assert ids("--reverse") == ids("--dead", "--order", "seq", "--reverse") == by_seq[::-1]
    assert "DIED" not in run(deaths, "list")
    result = deaths.command("list", "--dead", "--limit", "1")
    seq = inbox.message("e2")["seq"]
    assert result.stderr == f"there may be more: --after {seq}\n"
    assert ids("--dead", "--after", str(seq)) == ["e0", "e1"]


def test_since_is_about_the_death_of_dead_messages(deaths, inbox):
    def ids(*options):
        return [row["event_id"] for row in objects(run(deaths, "list", "--json", *options))]

    assert ids("--dead", "--since", "1h") == ["e2"]
    assert ids("--dead", "--since", "60h", "--until", "1h") == ["e0"]
    assert ids("--since", "1h") == [] and len(ids("--since", "10d")) == 3
    groups = objects(run(deaths, "list", "--dead", "--group", "--since", "60h", "--json"))
    assert [group["messages"] for group in groups] == [2]
    assert deaths.command("list", "--dead", "--since", "1h").stderr == \
        "--since and --until select dead messages by the time of death\n"
    assert run(deaths, "replay", "--dead", "--since", "60h", "--dry-run") == "dry run: replay 2 messages\n"
    assert run(deaths, "replay", "--since", "60h", "--yes") == "2 replayed\n"
    assert [row["event_id"] for row in inbox.messages() if row["dead_at"]] == ["e1"]


@pytest.mark.parametrize("line, words", [
    ("list --order died", "--order died requires --dead"), ("list --status waiting --order died", "--order died requires --dead"),
    ("list --dead --group --reverse", "--reverse is for messages only"), ("list --rejects --order seq", "--order is for messages only"),
    ("list --order age", '"age" is none of: seq died'), ("list --dead --since 1h --until 2h", "--since must be earlier"),
    ("list --dead --after 999999", "did not die, or was deleted"),
])
def test_a_wrong_order_is_a_usage_error(inboxd, line, words):
    result = inboxd.command(*line.split())
    assert result.returncode == 1 and words in result.stderr, result.stderr
