"""Conditions that every run must fulfil."""

import collections
import typing

import records


class Run(typing.NamedTuple):
    shape: records.Shape
    fresh: int      # messages that were not in the table before
    first_seq: int  # rows from here on are theirs
    consumers: int = 1  # each has a row for every message


def check(connection, run, counters, counted):
    """Every message once in the table and processed, none missing and no unknown one; and the counts of the sidecars
    and of their handlers agree."""
    _rows(connection, run)
    watermark = connection.execute("SELECT sum(next_offset) FROM inbox.inbox_offsets"
                                   " WHERE topic = %s", (run.shape.topic(),)).fetchone()[0]
    assert watermark == run.shape.messages, f"the watermarks are at {watermark} of {run.shape.messages}"
    assert counted["distinct"] == run.fresh * run.consumers, f"the handlers have seen {counted['distinct']}"
    for name, count in (("inboxd_messages_received_total", run.shape.messages),
                        ("inboxd_duplicates_total", run.shape.messages - run.fresh),
                        ("inboxd_conflicts_total", 0), ("inboxd_rejects_total", 0)):
        found = sum(one.value(name) for one in counters)
        assert found == count, f"{name} is {found}, not {count}"


def check_order(connection, run, ordering, counted):
    """The handlers got every message once and in order, and no message is processed while an earlier one of its key,
    or of its partition, waits. This also holds after a run that was stopped."""
    assert counted["violations"] == 0, f"{counted['violations']} of {counted['deliveries']} came out of order"
    lane = "kafka_partition, key" if ordering == "key" else "kafka_partition"
    early, processed, dead = connection.execute(
        "SELECT count(*) FILTER (WHERE last > waiting), sum(processed), sum(dead)::int"
        " FROM (SELECT max(kafka_offset) FILTER (WHERE processed_at IS NOT NULL) AS last,"
        " min(kafka_offset) FILTER (WHERE processed_at IS NULL) AS waiting,"
        " count(processed_at) AS processed, count(dead_at) AS dead"
        f" FROM inbox.inbox_messages WHERE seq >= %s GROUP BY {lane}) AS lanes", (run.first_seq,)).fetchone()
    assert early == 0, f"{early} lanes were not processed in their order"
    assert dead == 0, f"{dead} messages are dead"
    assert processed == counted["deliveries"], f"{processed} processed, the handlers have seen {counted}"


def _rows(connection, run):
    rows = connection.execute("SELECT event_id, processed_at IS NOT NULL, dead_at IS NOT NULL, consumer"
                              " FROM inbox.inbox_messages WHERE seq >= %s", (run.first_seq,)).fetchall()
    wanted = {records.event_id(number) for number in range(run.fresh)}
    of_consumers = collections.defaultdict(set)
    for row in rows:
        of_consumers[row[3]].add(row[0])
    assert len(rows) == run.fresh * run.consumers, f"{len(rows)} rows, {run.fresh * run.consumers} expected"
    assert len(of_consumers) == (run.consumers if run.fresh else 0), f"rows of the consumers {sorted(of_consumers)}"
    assert all(found == wanted for found in of_consumers.values()), "messages are missing, others were never sent"
    assert all(row[1] for row in rows), f"{sum(not row[1] for row in rows)} are not processed"
    assert not any(row[2] for row in rows), "messages are dead"
