"""A new owner of a partition searches the rows that others hold. This search delays nothing else."""

import os

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER

MANY = 200_000

# Rows that were born claimed by `holder` and that it has completed.
DONE_ROWS = """
INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, key, claimed_by,
    delivery_count, processed_at)
SELECT 'bulk', i::text, %s, 0, i, 'k', %s, 1, now() FROM generate_series(1000000, 1000000 + %s - 1) i"""

# An instance that is not declared dead and may hold every row.
SOMEBODY_ELSE = """
INSERT INTO inbox.inbox_instances (id, name, low_seq, heartbeat_at) VALUES (7, 'else', %s, now() + interval '1 h')"""


def slow_looks(sidecar, delay_ms):
    """Delays each search of 20,000 rows, as if they were read from a disk."""
    faults = os.path.join(sidecar.directory, "faults")
    sidecar.env["INBOXD_FAULTPOINTS"] = faults
    with open(faults, "w", encoding="utf-8") as file:
        file.write(f"before_foreign_window delay:{delay_ms} *\n")
    return faults + ".hits"


def count_lines(path):
    with open(path, encoding="utf-8") as file:
        return len(file.readlines())


def test_with_one_open_message_a_joining_sidecar_delivers_soon(make_inboxd, handler, produce, topic, inbox):
    first = make_inboxd().start()
    holding = handler(first, lambda delivery: NEVER if delivery.event_id == "open" else DONE, timeout_ms=120000)
    produce(topic, b"{}", key="o", headers=[("id", "open")])
    holding.wait_event("open")
    inbox.execute(DONE_ROWS, (topic, first.status()["instance"], MANY))
    produce(topic, b"{}", key="n", headers=[("id", "behind")])
    inbox.wait_status("behind", "processed")
    eventually(lambda: inbox.value("SELECT low_seq + %s <= low_rest FROM inbox.inbox_instances", [MANY]),
               what="the bound to pass all but the open one")
    inbox.execute(SOMEBODY_ELSE, [MANY - 60_000])  # four searches, in four rounds
    second = make_inboxd()
    slow_looks(second, 500)
    joined = handler(second.start(), always(DONE))
    eventually(lambda: "partitions_assigned count=2" in second.stderr)
    for number in range(40):
        produce(topic, b"{}", key=f"k{number}", headers=[("id", f"e{number}")])
    eventually(lambda: joined.count > 0, timeout=5)
    holding.answer(holding.of("open")[0], DONE)
    eventually(lambda: inbox.count("processed") == MANY + 42)


def test_while_one_partition_is_searched_the_others_continue(make_inboxd, handler, produce, topic, inbox):
    stays = make_inboxd()
    hits = slow_looks(stays, 1000)
    client = handler(stays.start(), always(DONE))
    goes = make_inboxd().start()
    owned = "SELECT kafka_partition AS p FROM inbox.inbox_offsets WHERE owner = %s ORDER BY 1"
    of_goes = goes.status()["instance"]
    eventually(lambda: len(inbox.query(owned, [of_goes])) == 2)
    here, there = (inbox.query(owned, [sidecar.status()["instance"]])[0]["p"] for sidecar in (stays, goes))
    inbox.execute(DONE_ROWS, (topic, of_goes, MANY))
    inbox.execute(SOMEBODY_ELSE, [1])
    goes.stop()
    eventually(lambda: os.path.exists(hits), what="the look at what others hold")
    produce(topic, b"{}", partition=there, headers=[("id", "there")])
    for number in range(3):
        event_id = f"here-{number}"
        produce(topic, b"{}", partition=here, headers=[("id", event_id)])
        client.wait_event(event_id)
    assert client.of("there") == []
    assert stays.get("/livez")[0] == 200
    revoked = stays.stderr.count("event=partitions_revoked")
    handler(goes.start(), always(DONE))
    eventually(lambda: stays.stderr.count("event=partitions_revoked") > revoked)
    looks = count_lines(hits)
    assert looks < MANY / 20_000, "revoked too late: all was looked through before"
    inbox.wait_status("there", "processed")
    throughout(lambda: count_lines(hits) <= looks + 1, 2)
    assert client.of("there") == []
