"""A loop that stood still for a while does not take its own delay for somebody else's."""

import os

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import NEVER


def test_an_answer_in_time_counts_although_it_is_read_late(make_inboxd, handler, streams, topic, inbox):
    """The loop stands still until the deadline is over; the answer has been in the socket since before."""
    sidecar = make_inboxd(worker={"lease": "15s"})
    faults = os.path.join(sidecar.directory, "faults")
    sidecar.env["INBOXD_FAULTPOINTS"] = faults
    client = handler(sidecar.start(), always(NEVER), timeout_ms=1500)
    streams.events(topic, ["a"])
    delivery = client.wait_count(1)[0]
    with open(faults, "w", encoding="utf-8") as file:
        file.write("before_tick delay:3000\n")
    eventually(lambda: os.path.exists(faults + ".hits"), every=0.005)
    client.answer(delivery, DONE)
    row = inbox.wait_status("a", "processed")
    assert (row["retry_count"], client.count) == (0, 1)
