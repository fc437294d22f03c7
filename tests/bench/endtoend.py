"""One run from Kafka to a handler that answers at once, and what it cost.

The clock starts when the handlers are connected and the database shows an owner for every partition;
it stops at the greatest processed_at, the beginning of the transaction that settled the last
message. Costs are measured between these two, per distinct message and consumer: repeated records are part of the work,
not of the result.
"""

import contextlib
import dataclasses
import time
import typing

from support.wait import eventually

import complete
from fleet import Fleet
from records import Shape
from servers import wal_position

TIMEOUT = 900
_STATISTICS = "FROM pg_stat_user_tables WHERE relname = 'inbox_messages'"


@dataclasses.dataclass
class Scenario:
    shape: Shape
    ordering: str = "key"
    batch: int = 1        # of the handler
    instances: int = 1
    configuration: dict = dataclasses.field(default_factory=dict)  # beside the defaults
    # Called with a connection before the start.
    prepare: typing.Callable | None = None
    # Every record is already in the table, so that all records are duplicates.
    known: bool = False
    # A context manager for the run; it gets that connection.
    during: typing.Callable | None = None


def measure(servers, scenario):
    topic = servers.topic(scenario.shape)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(servers.sidecar(
            {"inbox": {"ordering": scenario.ordering}, "kafka": {"topics": [topic]}},
            scenario.configuration))
        database = first.configuration["postgres"]["dbname"]
        connection = stack.enter_context(servers.postgres.connect(database))
        if scenario.prepare:
            scenario.prepare(connection)
            connection.execute("CHECKPOINT")
        if scenario.during:
            stack.enter_context(scenario.during(connection))
        fleet = stack.enter_context(Fleet(first, scenario.instances, scenario.batch))
        return _run(Watch(servers, fleet, connection), scenario)


def _run(watch, scenario):
    shape = scenario.shape
    fresh = 0 if scenario.known else shape.distinct()
    watch.fleet.start()
    watch.fleet.wait_assigned(watch.connection, shape.partitions)
    began, before = time.time(), watch.costs()
    consumers = len(scenario.configuration.get("consumers", {})) or 1
    watch.wait_done(fresh * consumers, fresh * consumers + shape.messages - fresh)
    after, peak = watch.costs(), watch.fleet.peak_memory()
    counters = watch.fleet.counters()
    counted = watch.fleet.stop()
    complete.check(watch.connection, complete.Run(shape, fresh, watch.first_seq, consumers), counters, counted)
    ended = watch.last_stored() if scenario.known else watch.last_processed()
    seconds, messages = ended - began, fresh * consumers or shape.messages
    return {"messages": messages, "records": shape.messages, "seconds": round(seconds, 3),
            "rows_per_second": messages / seconds,
            "records_per_second": shape.messages / seconds,
            "busy_seconds": round(ended - watch.first_received(), 3) if fresh else None,
            "payload_bytes_per_second": shape.messages * shape.payload / seconds,
            **{name: (after[name] - before[name]) / messages for name in before},
            **({} if scenario.known else watch.table(messages)), "peak_rss_bytes": peak,
            **batches("insert", counters, "inboxd_ingest_batch_seconds", shape.messages),
            **batches("settle", counters, "inboxd_settle_seconds", fresh * consumers),
            "again": counted["deliveries"] - fresh * consumers}


def batches(name, counters, histogram, rows):
    """The size and the duration of the transactions in a histogram."""
    count = sum(one.value(f"{histogram}_count") for one in counters)
    if count == 0:
        return {}
    return {f"{name}_rows": rows / count,
            f"{name}_ms": sum(one.value(f"{histogram}_sum") for one in counters) / count * 1e3}


class Watch:
    """All measurements of a run."""

    def __init__(self, servers, fleet, connection):
        self.servers = servers
        self.fleet = fleet
        self.connection = connection
        # Rows that were there before do not count.
        self.first_seq = self._value("SELECT coalesce(max(seq), 0) + 1 FROM inbox.inbox_messages")
        self._updates_before = self._value(f"SELECT n_tup_upd {_STATISTICS}")
        self._hot_before = self._value(f"SELECT n_tup_hot_upd {_STATISTICS}")

    def wait_done(self, fresh, received, limit=None):
        """Waits until every message is handled and all other records are counted, which is later if the last records
        are repetitions. Returns False if that takes longer than `limit` seconds."""
        began = time.monotonic()

        def done():
            assert self.fleet.is_running(), self.fleet.log()
            counters = self.fleet.counters()
            return (total(counters, "inboxd_deliveries_total", outcome="done") >= fresh
                    and sum(total(counters, f"inboxd_{name}_total")
                            for name in ("duplicates", "conflicts", "rejects")) >= received - fresh)

        def over():
            return done() or limit and time.monotonic() - began >= limit

        eventually(over, timeout=TIMEOUT, every=0.25, what=f"{fresh} messages to be done")
        return done()

    def costs(self):
        return {"inboxd_us": self.fleet.cpu_seconds() * 1e6,
                "handler_us": self.fleet.handler_cpu_seconds() * 1e6,
                "postgres_us": self.servers.cpu_seconds() * 1e6,
                "wal_bytes": wal_position(self.connection)}

    def last_processed(self):
        return float(self._value("SELECT extract(epoch FROM max(processed_at))"
                                 " FROM inbox.inbox_messages WHERE seq >= %s", self.first_seq))

    def first_received(self):
        return float(self._value("SELECT extract(epoch FROM min(received_at))"
                                 " FROM inbox.inbox_messages WHERE seq >= %s", self.first_seq))

    def last_stored(self):
        return float(self._value("SELECT extract(epoch FROM max(updated_at))"
                                 " FROM inbox.inbox_offsets WHERE next_offset > 0"))

    def now(self):
        """The time of the database's clock."""
        return self._value("SELECT clock_timestamp()")

    def done_until(self, until):
        """The number of rows that were processed until then, the seconds from the first row stored to the last row
        processed, and how many of the rows were claimed from the table."""
        return self.connection.execute(
            "SELECT count(*), extract(epoch FROM max(processed_at) - (SELECT min(received_at)"
            " FROM inbox.inbox_messages WHERE seq >= %(first)s))::float8,"
            " count(*) FILTER (WHERE delivery_count > 1) FROM inbox.inbox_messages"
            " WHERE seq >= %(first)s AND processed_at <= %(until)s::timestamptz",
            {"first": self.first_seq, "until": until}).fetchone()

    def table(self, fresh):
        """How many rows were claimed from the table, and how many updates were HOT."""
        slow = self._value("SELECT count(*) FROM inbox.inbox_messages"
                           " WHERE seq >= %s AND delivery_count > 1", self.first_seq)
        return {"slow_share": slow / fresh, "hot_share": self.hot_share(fresh)}

    def hot_share(self, processed):
        """The share of HOT updates. There was at least one update per processed row."""
        # Backends report their counts when they end.
        updates = eventually(
            lambda: (found := self._value(f"SELECT n_tup_upd {_STATISTICS}")
                     - self._updates_before) >= processed and found,
            what="the statistics of the table")
        return (self._value(f"SELECT n_tup_hot_upd {_STATISTICS}") - self._hot_before) / updates

    def _value(self, sql, *arguments):
        return self.connection.execute(sql, arguments or None).fetchone()[0]


def total(counters, name, **labels):
    return sum(one.value(name, **labels) for one in counters)

