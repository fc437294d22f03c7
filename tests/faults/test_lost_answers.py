"""Answers of the database are missing for a long time: other work continues."""

import os

import pytest

from support.scripts import by_id
from support.wait import eventually
from support.wire import NEVER, done, retry

OTHERS = 400


class Faults:
    """The fault points of one sidecar that does not run yet."""

    def __init__(self, sidecar):
        self._file = os.path.join(sidecar.directory, "faults")
        sidecar.env["INBOXD_FAULTPOINTS"] = self._file

    def arm(self, *rules):
        with open(self._file + ".new", "w", encoding="utf-8") as file:
            file.write("".join(f"{rule}\n" for rule in rules))
        os.replace(self._file + ".new", self._file)

    def wait_hits(self, count=1):
        eventually(lambda: len(self._hits()) >= count, every=0.01, what=f"{count} hits")

    def _hits(self):
        if not os.path.exists(self._file + ".hits"):
            return []
        with open(self._file + ".hits", encoding="utf-8") as file:
            return file.readlines()


@pytest.mark.parametrize("connections", [1, 2, 4])
def test_claims_continue_while_settles_are_not_answered(make_inboxd, handler, streams, topic, inbox, connections):
    """Verdicts that are sent repeatedly leave one worker for the retries of other messages."""
    sidecar = make_inboxd(worker={"connections": connections})
    faults = Faults(sidecar)
    client = handler(sidecar.start(), by_id({"later": [retry("not now", delay_ms=1500)]}))
    streams.events(topic, ["later"])
    inbox.wait_status("later", "retrying")
    faults.arm("error_after_settle error *")
    streams.events(topic, ["done"])
    faults.wait_hits(3)
    client.wait_event("later", times=2, timeout=20)
    assert sidecar.metric("inboxd_deliveries_total", outcome="done") == 0  # still without an answer
    faults.arm()
    inbox.wait_processed(2)
    assert {name: inbox.message(name)["retry_count"] for name in ("done", "later")} == {
        "done": 0, "later": 1}
    assert sorted(client.event_ids) == ["done", "later", "later"]


def test_an_answer_counts_while_the_verdict_before_it_is_repeated(make_inboxd, handler, streams, topic, inbox):
    """The retry was committed and its answer lost, so memory has two claims of the row after the next one. The others
    make memory sort its messages again."""
    sidecar = make_inboxd()
    faults = Faults(sidecar)
    client = handler(sidecar.start(), by_id({"again": [retry("not now", delay_ms=0), NEVER]}))
    faults.arm("error_after_settle error *")
    streams.events(topic, ["again"])
    delivery = client.wait_event("again", times=2)
    streams.events(topic, map(str, range(OTHERS)))
    client.wait_count(2 + OTHERS)
    client.answer(delivery, done())
    faults.arm()
    inbox.wait_processed(1 + OTHERS)
    assert client.of("again") == client.deliveries[:2]
    assert inbox.message("again")["retry_count"] == 1
