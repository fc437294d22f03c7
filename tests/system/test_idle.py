"""What a sidecar without a message costs PostgreSQL."""

import collections
import os
import re
import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually

SECONDS = 20
WINDOW_SECONDS = 30
REST_AFTER_SECONDS = 60
DEFAULTS = {"worker": {"poll": "5s", "lease": "15s"}}

# What an idle sidecar sends: the beginning of each statement, and how often in the window, at least and at most. The upper bounds
# allow for a stall of the machine.
EXPECTED = {
    r'UPDATE "inbox"\.inbox_instances SET heartbeat_at': (4, 9),
    r"SELECT \(SELECT CASE WHEN min\(d\.available_at\)": (4, 9),  # the look
    r"SELECT \(SELECT count\(\*\) FROM \(SELECT 1 FROM unnest": (2, 6),  # the gauges
    r"SELECT count\(\*\) FILTER \(WHERE NOT u\.paused\)": (2, 6),
    r"WITH own AS": (2, 6),
    r'SELECT \(SELECT count\(\*\) FROM \(SELECT 1 FROM "inbox"\.inbox_messages WHERE dead_at': (2, 6),
    r"SELECT p\.kind, p\.name": (0, 4),  # the exchange of handlers and consumers
    r"WITH listed AS": (0, 4),
    r"WITH said AS": (0, 4),
    r"SELECT h\.name, h\.known": (0, 4),
    r"SELECT set_config\('lock_timeout'": (0, 4),
    r"SELECT set_config\('plan_cache_mode'": (0, 12),
    r"SELECT set_config\('idle_in_transaction_session_timeout'": (10, 40),
    r"BEGIN": (0, 12),
    r"COMMIT": (0, 12),
}
RETENTION = {
    r"SELECT r\.elected": (2, 8),
    r"SELECT greatest\(CASE WHEN t\.count": (2, 6),  # requests
}

class Statements:
    """Those of the sidecars in a database over connections that are opened from now on, from the log of the server."""

    def __init__(self, server, database):
        self._log = server.log
        self._line = re.compile(rf"\S+ \S+ \S+ \[\d+\] {re.escape(database)} (inboxd/\d+) LOG:  (?:execute \S+|statement): (.*)", re.S)
        with server.connect() as connection:
            connection.execute(f'ALTER DATABASE "{database}" SET log_statement = \'all\'')
        self.forget()

    def forget(self):
        self._position = os.path.getsize(self._log)

    def found(self):
        """[(instance, statement)] since the last forget()."""
        with open(self._log, encoding="utf-8", errors="replace") as log:
            log.seek(self._position)
            entries = re.split(r"\n(?=\d{4}-\d\d-\d\d )", log.read())
        return [(match[1], re.sub(r"\s+", " ", match[2])) for match in map(self._line.match, entries) if match]


def connections(inbox):
    return inbox.value("SELECT count(*) FROM pg_stat_activity"
                       " WHERE datname = current_database() AND application_name LIKE 'inboxd/%'")


def transactions(inbox):
    return inbox.value("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")


@pytest.mark.slow
def test_an_idle_sidecar_makes_one_transaction_a_second_and_finds_a_due_row(start_inboxd, handler, streams, topic, inbox):
    """Before the heartbeat and the look said what is due, it made three a second."""
    client = handler(start_inboxd(DEFAULTS), always(DONE))
    streams.events(topic, ["e1"])
    inbox.wait_processed(1)
    time.sleep(10)  # until the backlog of the start is gone
    before = transactions(inbox)
    time.sleep(SECONDS)
    assert transactions(inbox) - before < 1.4 * SECONDS
    inbox.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, available_at)"
                  " VALUES ('s', 'late', %s, 0, 1000, now())", [topic])  # nobody is notified
    eventually(lambda: len(client.deliveries) == 2, timeout=60)


@pytest.mark.slow
def test_an_idle_sidecar_keeps_three_connections_and_stores_over_a_new_one(
        start_inboxd, handler, streams, topic, inbox, postgres_server, database):
    """One each for the heartbeat, retention and a worker. Before, there is that of ingest, and perhaps that of another worker."""
    sidecar = start_inboxd(worker={"connections": 2})
    client = handler(sidecar, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(5000)])
    eventually(lambda: connections(inbox) >= 4)
    inbox.wait_processed(5000)
    statements = Statements(postgres_server, database)
    eventually(lambda: connections(inbox) == 3, timeout=REST_AFTER_SECONDS + 60)
    streams.events(topic, ["late", "e7"])
    eventually(lambda: len(client.deliveries) == 5001 and sidecar.metric("inboxd_duplicates_total", topic=topic) == 1,
               timeout=30)
    sent = [statement for _, statement in statements.found()]
    assert any('INSERT INTO "inbox".inbox_messages' in statement for statement in sent), "over a connection that is logged: a new one"
    assert not any("FOR UPDATE OF o" in statement for statement in sent), "no resync"
    assert sidecar.metric("inboxd_pg_reconnects_total") == 0
    assert sidecar.metric("inboxd_messages_received_total", topic=topic) == 5002, "nothing is read again"
    assert "event=database_lost" not in sidecar.stderr


def of_kinds(statements, kinds):
    """How often each kind was sent, as a list of what is unexpected."""
    counted = collections.Counter(next((kind for kind in kinds if re.match(kind, statement)), statement[:200])
                                  for statement in statements)
    return [(kind, count) for kind, count in counted.items() if kind not in kinds or count > kinds[kind][1]] + \
        [(kind, counted[kind]) for kind, (least, _) in kinds.items() if counted[kind] < least]


@pytest.mark.slow
def test_an_idle_sidecar_sends_three_statements_a_second_and_one_of_two_runs_retention(
        start_inboxd, handler, streams, topic, inbox, postgres_server, database):
    """With their settings. The second sidecar has no connection for retention."""
    statements = Statements(postgres_server, database)
    for _ in range(2):
        handler(start_inboxd(DEFAULTS), always(DONE))
    streams.events(topic, [f"e{number}" for number in range(20)])
    inbox.wait_processed(20)
    eventually(lambda: connections(inbox) == 5, timeout=REST_AFTER_SECONDS + 60)
    statements.forget()
    time.sleep(WINDOW_SECONDS)
    sent = collections.defaultdict(list)
    for instance, statement in statements.found():
        sent[instance].append(statement)
    elected = sent.pop(f"inboxd/{inbox.value('SELECT instance FROM inbox.inbox_janitor')}")
    (other,) = sent.values()
    assert of_kinds(elected, EXPECTED | RETENTION) == []
    assert of_kinds(other, EXPECTED) == []
    assert len(elected) < 2.9 * WINDOW_SECONDS, "about 2.1 a second"
    assert len(other) < 2.4 * WINDOW_SECONDS, "about 1.6 a second"
    assert connections(inbox) == 5
