"""Memory and table do not disagree permanently: a sidecar whose memory is invalid starts a new instance run with a new
id. If an operator moves its watermark, it follows.
"""

import pytest

from support.scripts import always, DONE
from support.wait import eventually, throughout
from support.wire import NEVER


@pytest.fixture
def topic(make_topic):
    return make_topic(partitions=1)


def own_id(sidecar):
    return sidecar.status()["instance"]


def own_row(sidecar):
    return f"UPDATE inbox.inbox_instances SET %s WHERE id = {own_id(sidecar)}"


def watermark_row(change):
    return f"UPDATE inbox.inbox_offsets SET {change}"


VOID = {
    "another timeline": lambda sidecar: own_row(sidecar) % "timeline = '0000002A'",
    "fenced": lambda sidecar: own_row(sidecar) % "fenced_at = now()",
    "its row is gone": lambda sidecar: f"DELETE FROM inbox.inbox_instances WHERE id = {own_id(sidecar)}",
    "a lower watermark": lambda sidecar: watermark_row("next_offset = next_offset - 1"),
    "the watermark is gone": lambda sidecar: "DELETE FROM inbox.inbox_offsets",
    "another owner, who never comes": lambda sidecar: watermark_row("owner = 1, epoch = epoch + 1"),
}


@pytest.mark.parametrize("why", VOID)
def test_invalid_memory_starts_a_new_instance_run(start_inboxd, handler, streams, topic, inbox, why):
    """Open deliveries are cancelled, the instance takes another id, and the rows of the old id are handled again."""
    sidecar = start_inboxd(inbox={"ordering": "none"})
    first = handler(sidecar, always(NEVER), timeout_ms=60000)
    streams.events(topic, ["a", "b"])
    opened = first.wait_count(2)
    before = own_id(sidecar)
    inbox.execute(VOID[why](sidecar))
    assert {first.wait_cancel(delivery.id) for delivery in opened} == {"lease_lost"}
    eventually(lambda: own_id(sidecar) not in (0, before))
    handler(sidecar, always(DONE))
    inbox.wait_processed(2)
    assert {row["retry_count"] for row in inbox.messages()} == {0}


def test_a_watermark_set_back_by_hand_is_followed(start_inboxd, handler, streams, topic, inbox):
    """The partition keeps its owner and gets another epoch: records that are read again are duplicates, and the
    instance run continues."""
    sidecar = start_inboxd()
    client = handler(sidecar, always(DONE))
    streams.events(topic, ["a", "b", "c"])
    inbox.wait_processed(3)
    before = own_id(sidecar)
    inbox.execute(watermark_row("next_offset = 1, epoch = epoch + 1, forced = true"))
    eventually(lambda: sidecar.metric("inboxd_duplicates_total", topic=topic) == 2)
    streams.events(topic, ["d"])
    inbox.wait_processed(4)
    assert (own_id(sidecar), client.event_ids) == (before, ["a", "b", "c", "d"])


def test_a_deleted_row_of_a_dead_instance_leaves_no_message_behind(inboxd, handler, streams, topic, inbox):
    """The row of an instance is needed to find the rows of a dead one, so DELETE fences it instead."""
    first = handler(inboxd, always(NEVER))
    streams.events(topic, ["a", "b"])
    first.wait_count(2)
    inboxd.kill()
    inbox.execute("DELETE FROM inbox.inbox_instances")
    inboxd.start()
    handler(inboxd, always(DONE))
    inbox.wait_processed(2, timeout=20)


def test_a_live_instance_with_an_equal_host_id_is_not_fenced(start_inboxd, inbox):
    """Two cloned hosts can have the same value: only an instance that existed before the process started has ended."""
    one, other = start_inboxd(), start_inboxd()
    ids = (own_id(one), own_id(other))
    inbox.execute("UPDATE inbox.inbox_instances SET host_id = (SELECT host_id FROM inbox.inbox_instances WHERE id = %s)"
                  " WHERE id = %s", ids)
    throughout(lambda: (own_id(one), own_id(other)) == ids, 3)  # two heartbeats of each
    inbox.execute(own_row(one) % "fenced_at = now()")
    eventually(lambda: own_id(one) not in (0, ids[0]))
    throughout(lambda: own_id(other) == ids[1], 3)


SLOW_RESCUE = """
CREATE FUNCTION public.take_time() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
CREATE TRIGGER take_time BEFORE UPDATE OF rescue_count ON inbox.inbox_messages FOR EACH ROW EXECUTE FUNCTION public.take_time()
"""
DEAD = """
WITH dead AS (SELECT i FROM generate_series(%(first)s, %(first)s + %(dead)s - 1) i),
rows AS (INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, claimed_by, delivery_count)
         SELECT 's', i || '.' || n, 'away', 0, n, i, 1 FROM dead, generate_series(1, %(rows)s) n)
INSERT INTO inbox.inbox_instances (id, name, low_seq, fenced_at) SELECT i, 'dead', 1, now() FROM dead
"""


@pytest.mark.parametrize("dead, rows", [(1, 3000), (16, 200)], ids=["many rows", "many instances"])
def test_a_slow_rescue_does_not_delay_a_heartbeat(start_inboxd, inbox, dead, rows):
    """R6: otherwise the survivors of a failover leave the group, and nobody works. A machine that stands still delays the
    heartbeat, too, so one of three rescues must do."""
    sidecar = start_inboxd(worker={"lease": "3s"})
    inbox.execute(SLOW_RESCUE)
    oldest = []

    def is_rescued():
        ages.append(float(inbox.value("SELECT coalesce(extract(epoch FROM clock_timestamp() - max(heartbeat_at)), 9)"
                                      " FROM inbox.inbox_instances WHERE fenced_at IS NULL")))
        return inbox.count("waiting") == dead * rows * (len(oldest) + 1)

    while min(oldest, default=9) >= 2.5 and len(oldest) < 3:
        ages = []
        inbox.execute(DEAD, {"dead": dead, "rows": rows, "first": 1 + dead * len(oldest)})
        eventually(is_rescued, timeout=60)
        oldest.append(max(ages))
    assert min(oldest) < 2.5, f"a third of the lease, on a busy machine: {oldest}"
    assert len(oldest) > 1 or "group_left" not in sidecar.stderr
