"""What a sidecar without a message costs PostgreSQL."""

import os
import re
import time

import pytest

from support.scripts import always, DONE
from support.wait import eventually

SECONDS = 20
REST_AFTER_SECONDS = 60
DEFAULTS = {"worker": {"poll": "5s", "lease": "15s"}}

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
    """One each for the heartbeat, retention and a worker. Many messages make both workers work at the same time."""
    sidecar = start_inboxd(worker={"connections": 2})
    client = handler(sidecar, always(DONE))
    streams.events(topic, [f"e{number}" for number in range(5000)])
    eventually(lambda: connections(inbox) == 5)
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
