"""Retention under load: the backlog of a large table is deleted without delays.

The backlog has 60,000 rows, with --long ten million, or as many as --retention-rows says. Rows a second with and without
the janitor at work, its longest transaction and the longest time without a stored or a handled message are printed (-s
shows them).
"""

import signal
import time

import pytest

from backlog import fill, Load, longest_gap
from support.inbox import Inbox
from support.wait import eventually

SHARE = 0.1          # of the time of its connection
TOLERATED = 0.35     # on a busy machine, in some hundred checks
LONGEST_MS = 2000    # a transaction of the janitor; its own limit is ten seconds
GAP_SECONDS = 5      # without a message stored, or handled, while some arrive all the time
TICK_SECONDS = 0.05
A_TICK = 100         # messages
NEVER = {"processed": "never", "payload": "never", "dead": "never", "rejects": "never", "conflicts": "never",
         "audit": "never"}

def left(inbox):
    """Rows of the backlog that the walks have not come to, cheaply."""
    return inbox.value("SELECT count(*) FROM (SELECT FROM inbox.inbox_messages WHERE source = 'old'"
                       " AND processed_at IS NOT NULL LIMIT 1) r")


def longest_ms(inbox):
    return inbox.value("SELECT max(max_exec_time) FROM pg_stat_statements WHERE query LIKE '%%retain($1%%'")


def is_at_work(inbox):
    return inbox.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%retain($1%%'"
                       " AND pid <> pg_backend_pid()")


def watch(inbox, load, timeout):
    """Sends some messages at each tick until the backlog is gone; returns how often the janitor was seen working."""
    samples = []
    until = time.monotonic() + timeout
    while len(samples) < 200 or left(inbox):
        assert time.monotonic() < until, "the backlog is not gone"
        next_tick = time.monotonic() + TICK_SECONDS
        load.send(A_TICK)
        samples.append(is_at_work(inbox))
        time.sleep(max(0.0, next_tick - time.monotonic()))
    load.wait()
    return sum(samples) / len(samples)


@pytest.fixture
def server(make_server):
    """Counts its statements."""
    made = make_server(shared_preload_libraries="pg_stat_statements")
    with made.connect() as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
    return made


@pytest.fixture
def inbox(server):
    view = Inbox(server.conninfo())
    yield view
    view.close()


@pytest.fixture
def backlog(request, long_run):
    return request.config.getoption("--retention-rows") or (10_000_000 if long_run else 60_000)


@pytest.mark.timeout(10_000)
def test_a_backlog_is_deleted_under_load_without_delays(make_inboxd, noop_handler, streams, topic, server, inbox,
                                                        backlog):
    load_rows = 20_000 if backlog < 1_000_000 else 200_000
    sidecar = make_inboxd(retention=NEVER, postgres={"port": server.port, "dbname": "postgres"})
    assert sidecar.command("migrate").returncode == 0
    fill(inbox, backlog)
    sidecar.start()
    handler = noop_handler(sidecar)
    load = Load(streams, topic, handler.count)
    alone = load.run(load_rows)

    sidecar.write_configuration({"retention": {**NEVER, "processed": "14d", "payload": "7d"}})
    sidecar.signal(signal.SIGHUP)
    eventually(lambda: sidecar.metric("inboxd_purged_total") > 0, timeout=120)  # a shorter age is applied after a minute
    since = inbox.value("SELECT now()")
    beside, purged, began = load.run(load_rows), sidecar.metric("inboxd_purged_total"), time.monotonic()
    at_work = watch(inbox, load, timeout=150 + backlog / 1000)
    seconds = time.monotonic() - began
    gone = sidecar.metric("inboxd_purged_total")
    gaps = {column: longest_gap(inbox, column, since) for column in ("received_at", "processed_at")}
    print(f"\nhandled: {alone:,.0f} rows/s alone, {beside:,.0f} rows/s with the janitor at work;"
          f" deleted: {gone:,.0f}, {(gone - purged) / seconds:,.0f} rows/s; at work {at_work:.0%};"
          f" its longest transaction {longest_ms(inbox):.0f} ms; longest gap: stored {gaps['received_at']:.2f} s,"
          f" handled {gaps['processed_at']:.2f} s")

    assert gone == backlog - backlog // 100
    assert inbox.value("SELECT count(*) FROM inbox.inbox_messages WHERE source = 'old' AND payload IS NOT NULL"
                       " AND (available_at IS NOT NULL OR dead_at IS NOT NULL)") == backlog // 100
    assert inbox.count() == backlog // 100 + load.sent
    assert handler.count() == load.sent
    assert longest_ms(inbox) < LONGEST_MS
    assert max(gaps.values()) < GAP_SECONDS, gaps
    assert at_work < TOLERATED, f"a tenth ({SHARE}) is meant"
    assert "retention_failed" not in sidecar.stderr
    assert "heartbeat_failed" not in sidecar.stderr
