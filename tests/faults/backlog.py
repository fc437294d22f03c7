"""A large table, a load beside it, and the longest time without a message of that load."""

import time

from support.wait import eventually

# Every hundredth row is not finished: parked behind no message, or dead.
BACKLOG = """
INSERT INTO inbox.inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset, key, headers,
    payload, payload_digest, received_at, available_at, claimed_by, processed_at, dead_at, delivery_count)
SELECT 'old', 'old' || i, 't', 'elsewhere', 0, i, ('k' || i)::bytea, '[["name", "value"]]', repeat('x', 300)::bytea, 'd',
    now() - interval '30 days' + i * interval '1 ms',
    CASE WHEN i % 200 = 0 THEN 'infinity'::timestamptz END, NULL,
    CASE WHEN i % 100 > 0 THEN now() - interval '29 days' END,
    CASE WHEN i % 200 = 100 THEN now() - interval '29 days' END, 1
FROM generate_series({first}, {last}) i"""


def fill(inbox, rows):
    for first in range(1, rows, 200_000):
        inbox.execute(BACKLOG.format(first=first, last=min(first + 199_999, rows)))


def longest_gap(inbox, column, began):
    """The longest time in seconds between two messages of the load."""
    return float(inbox.value(f"""
        SELECT extract(epoch FROM max(g.gap)) FROM (
            SELECT m.{column} - lag(m.{column}) OVER (ORDER BY m.{column}) AS gap
            FROM inbox.inbox_messages m WHERE m.source <> 'old' AND m.{column} >= %s) g""", [began]))


class Load:
    def __init__(self, streams, topic, handled):
        self.streams, self.topic, self.handled = streams, topic, handled
        self.sent = 0

    def send(self, count):
        self.streams.events(self.topic, [f"e{self.sent + number}" for number in range(count)],
                            key=lambda event_id: event_id[-3:], value=lambda _: b'{"text": "%s"}' % (b"x" * 300))
        self.sent += count

    def wait(self):
        eventually(lambda: self.handled() >= self.sent, timeout=300, what="the load to be handled")

    def run(self, count):
        """Sends messages and waits until they are handled; returns rows per second."""
        began = time.monotonic()
        self.send(count)
        self.wait()
        return count / (time.monotonic() - began)
