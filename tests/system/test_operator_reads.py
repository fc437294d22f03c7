"""What operators read: list and show, and the numbers on which they agree."""

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
