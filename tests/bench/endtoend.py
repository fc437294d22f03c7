"""One run from Kafka to a handler that answers at once, and what it cost.

The clock starts when the handler is connected and the database shows an owner for every partition;
it stops at the greatest processed_at, the beginning of the transaction that settled the last
message. Costs are those between these two, a message being a distinct one: repetitions are part of
the work, not of the result.
"""

import json
import os
import pathlib
import signal
import time

from support import process
from support.sidecar import SANITIZERS, binary
from support.wait import eventually

import costs
import records
from servers import wal_position

HANDLER = "bench"
TIMEOUT = 900


class Handler:
    """examples/noop_handler of the same build, without a ledger."""

    def __init__(self, sidecar, batch):
        program = pathlib.Path(binary()).parents[1] / "examples" / "noop_handler"
        self._count = os.path.join(sidecar.directory, "count")
        self._log = os.path.join(sidecar.directory, "handler.log")
        self._process = process.spawn(
            [str(program), "--socket", sidecar.socket_path, "--name", HANDLER, "--batch",
             str(batch), "--count-to-file", self._count],
            self._log, env={**os.environ, **SANITIZERS})

    def cpu_seconds(self):
        return costs.of_process(self._process.pid)

    def stop(self):
        """{"deliveries": …, "distinct": …}"""
        code = process.end(self._process, signal.SIGTERM)
        assert code == 0, f"the handler ended with {code}: {process.tail(self._log)}"
        return json.loads(pathlib.Path(self._count).read_text(encoding="ascii"))


def measure(servers, scenario):
    """`scenario` has ordering, batch and messages; `during(sidecar, handler)` is called as the clock
    starts, when it has that, too."""
    topic = servers.topic(scenario["messages"])
    with servers.sidecar({"inbox": {"ordering": scenario["ordering"]},
                          "kafka": {"topics": [topic]}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection:
            handler = Handler(sidecar, scenario["batch"])
            sidecar.start("run", ready=False)
            return _run(_Watch(servers, sidecar, handler, connection), scenario)


def _run(watch, scenario):
    expected = records.distinct(scenario["messages"])
    watch.wait_assigned()
    began, before = time.time(), watch.costs()
    watch.wait_done(expected)
    after, peak = watch.costs(), watch.sidecar.peak_memory()
    counters = watch.sidecar.metrics()
    counted = watch.handler.stop()
    assert watch.sidecar.stop() == 0, process.tail(watch.sidecar.log)
    _complete(watch.connection, counters, counted, scenario["messages"])
    seconds = watch.last_processed() - began
    return {"messages": expected, "records": scenario["messages"], "seconds": round(seconds, 3),
            "rows_per_second": expected / seconds,
            "records_per_second": scenario["messages"] / seconds,
            **{name: (after[name] - before[name]) / expected for name in before},
            **watch.table(expected), "peak_rss_bytes": peak,
            **_batches("insert", counters, "inboxd_ingest_batch_seconds", scenario["messages"]),
            **_batches("settle", counters, "inboxd_settle_seconds", expected),
            "again": counted["deliveries"] - expected}


def _batches(name, counters, histogram, rows):
    """How big the transactions were that a histogram has timed, and how long one took."""
    count = counters.value(f"{histogram}_count")
    return {f"{name}_rows": rows / count,
            f"{name}_ms": counters.value(f"{histogram}_sum") / count * 1e3}


class _Watch:
    """All that is looked at during a run."""

    def __init__(self, servers, sidecar, handler, connection):
        self.servers = servers
        self.sidecar = sidecar
        self.handler = handler
        self.connection = connection

    def wait_assigned(self):
        eventually(self._connected, timeout=30, every=0.02,
                   what=f"the handler to connect; inboxd: {process.tail(self.sidecar.log)}")
        assert self._owned() == 0, "partitions were assigned before the handler was connected"
        eventually(lambda: self._owned() == records.PARTITIONS, timeout=60, every=0.005,
                   what=f"partitions; inboxd: {process.tail(self.sidecar.log)}")

    def wait_done(self, expected):
        def done():
            assert self.sidecar.is_running(), process.tail(self.sidecar.log)
            return self.sidecar.metric("inboxd_deliveries_total", outcome="done") >= expected

        eventually(done, timeout=TIMEOUT, every=0.25, what=f"{expected} messages to be done")

    def costs(self):
        return {"inboxd_us": self.sidecar.cpu_seconds() * 1e6,
                "handler_us": self.handler.cpu_seconds() * 1e6,
                "postgres_us": self.servers.cpu_seconds() * 1e6,
                "wal_bytes": wal_position(self.connection)}

    def last_processed(self):
        return float(self._value("SELECT extract(epoch FROM max(processed_at))"
                                 " FROM inbox.inbox_messages"))

    def table(self, expected):
        """Of the rows: how many went through the table, and which updates touched no index."""
        slow = self._value("SELECT count(*) FROM inbox.inbox_messages WHERE delivery_count > 1")
        statistics = ("FROM pg_stat_user_tables WHERE relname = 'inbox_messages'")
        # Backends tell their counts when they end.
        updates = eventually(
            lambda: (found := self._value(f"SELECT n_tup_upd {statistics}")) >= expected and found,
            what="the statistics of the table")
        return {"slow_share": slow / expected,
                "hot_share": self._value(f"SELECT n_tup_hot_upd {statistics}") / updates}

    def _connected(self):
        try:
            return self.sidecar.metric("inboxd_handlers_connected", handler=HANDLER) == 1
        except OSError:
            return False

    def _owned(self):
        return self._value("SELECT count(owner) FROM inbox.inbox_offsets")

    def _value(self, sql):
        return self.connection.execute(sql).fetchone()[0]


def _complete(connection, counters, counted, messages):
    """Every message once in the table and processed, none missing, none that was not sent; and the
    counts of inboxd and of the handler agree."""
    expected = records.distinct(messages)
    rows = connection.execute("SELECT event_id, processed_at IS NOT NULL"
                              " FROM inbox.inbox_messages").fetchall()
    wanted = {records.event_id(number) for number in range(expected)}
    assert len(rows) == expected, f"{len(rows)} rows, {expected} expected"
    assert {row[0] for row in rows} == wanted, "messages are missing, others were never sent"
    assert all(row[1] for row in rows), f"{sum(not row[1] for row in rows)} are not processed"
    watermark = connection.execute("SELECT sum(next_offset) FROM inbox.inbox_offsets").fetchone()[0]
    assert watermark == messages, f"the watermarks are at {watermark} of {messages}"
    assert counted["distinct"] == expected, f"the handler has seen {counted['distinct']}"
    for name, count in (("inboxd_messages_received_total", messages),
                        ("inboxd_duplicates_total", messages - expected),
                        ("inboxd_conflicts_total", 0), ("inboxd_rejects_total", 0),
                        ("inboxd_dead", 0)):
        assert counters.value(name) == count, f"{name} is {counters.value(name)}, not {count}"
