"""Retention beside a load: the backlog of a large table goes, and nobody notices.

The backlog has 60,000 rows, with --long ten million. Rows a second with and without the janitor at work are printed
(-s shows them); a time is no test.
"""

import signal
import time

import pytest

from support.wait import eventually

SHARE = 0.1          # of the time of its connection
TOLERATED = 0.35     # on a busy machine, by looking some hundred times
NEVER = {"processed": "never", "payload": "never", "dead": "never", "rejects": "never", "conflicts": "never",
         "audit": "never"}

# Every hundredth row is not finished: parked where nobody looks, or dead.
BACKLOG = """
INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, key, headers,
    payload, payload_digest, received_at, available_at, claimed_by, processed_at, dead_at, delivery_count)
SELECT 'old', 'old' || i, 't', 'elsewhere', 0, i, ('k' || i)::bytea, '[["name", "value"]]', repeat('x', 300)::bytea, 'd',
    now() - interval '30 days' + i * interval '1 ms',
    CASE WHEN i % 200 = 0 THEN 'infinity'::timestamptz END, NULL,
    CASE WHEN i % 100 > 0 THEN now() - interval '29 days' END,
    CASE WHEN i % 200 = 100 THEN now() - interval '29 days' END, 1
FROM generate_series({first}, {last}) i"""


def left(inbox):
    """Rows of the backlog that the walks have not come to, cheaply."""
    return inbox.value("SELECT count(*) FROM (SELECT FROM inbox.inbox_messages WHERE source = 'old'"
                       " AND processed_at IS NOT NULL LIMIT 1) r")


def is_at_work(inbox):
    return inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%retain($1%%'"
                       " AND pid <> pg_backend_pid()")


class Load:
    def __init__(self, streams, topic, inbox, handled):
        self.streams, self.topic, self.inbox, self.handled = streams, topic, inbox, handled
        self.sent = 0

    def run(self, count):
        """Sends so many and waits until they are handled; rows a second."""
        began = time.monotonic()
        self.streams.events(self.topic, [f"e{self.sent + number}" for number in range(count)],
                            key=lambda event_id: event_id[-3:], value=lambda _: b'{"text": "%s"}' % (b"x" * 300))
        self.sent += count
        eventually(lambda: self.handled() >= self.sent, timeout=300, what="the load to be handled")
        return count / (time.monotonic() - began)


@pytest.mark.timeout(10_000)
def test_a_backlog_goes_beside_a_load_and_holds_up_nobody(make_inboxd, noop_handler, streams, topic, inbox, long_run):
    rows, load_rows = (10_000_000, 200_000) if long_run else (60_000, 20_000)
    sidecar = make_inboxd(retention=NEVER)
    assert sidecar.command("migrate").returncode == 0
    for first in range(1, rows, 200_000):
        inbox.execute(BACKLOG.format(first=first, last=min(first + 199_999, rows)))
    sidecar.start()
    handler = noop_handler(sidecar)
    load = Load(streams, topic, inbox, handler.count)
    alone = load.run(load_rows)

    sidecar.write_configuration({"retention": {**NEVER, "processed": "14d", "payload": "7d"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: sidecar.metric("inboxd_purged_total") > 0)
    beside, purged, began = load.run(load_rows), sidecar.metric("inboxd_purged_total"), time.monotonic()
    samples = []
    eventually(lambda: samples.append(is_at_work(inbox)) or (len(samples) >= 200 and not left(inbox)),
               timeout=9000 if long_run else 150, what="the backlog to be gone")
    seconds = time.monotonic() - began
    gone = sidecar.metric("inboxd_purged_total")
    print(f"\nhandled: {alone:,.0f} rows/s alone, {beside:,.0f} rows/s with the janitor at work;"
          f" deleted: {gone:,.0f}, {(gone - purged) / seconds:,.0f} rows/s; at work {sum(samples) / len(samples):.0%}")

    assert gone == rows - rows // 100
    assert inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE source = 'old' AND payload IS NOT NULL"
                       " AND (available_at IS NOT NULL OR dead_at IS NOT NULL)") == rows // 100
    assert inbox.count() == rows // 100 + load.sent
    assert handler.count() == load.sent
    assert sum(samples) / len(samples) < TOLERATED, f"a tenth ({SHARE}) is meant"
    assert "retention_failed" not in sidecar.stderr
    assert "heartbeat_failed" not in sidecar.stderr
