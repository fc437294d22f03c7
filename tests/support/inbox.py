"""Queries of the tests on the inbox's tables, with names."""

import datetime

import psycopg
import psycopg.rows
from psycopg.types.datetime import TimestamptzLoader

from support.wait import eventually

INFINITY = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)


class _Loader(TimestamptzLoader):
    """Parked rows are available at 'infinity', which Python's datetime lacks."""

    def load(self, data):
        return INFINITY if bytes(data) == b"infinity" else super().load(data)


def connect(conninfo, **options):
    """A connection whose rows are dictionaries."""
    connection = psycopg.connect(conninfo, row_factory=psycopg.rows.dict_row, connect_timeout=5,
                                 **options)
    connection.adapters.register_loader("timestamptz", _Loader)
    return connection


class Inbox:
    """Queries on one database's inbox. Connects lazily, and again after the server was away."""

    def __init__(self, conninfo, schema="inbox"):
        self.conninfo = conninfo
        self.schema = schema
        self._connection = None

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connect(self):
        """A separate connection, for transactions of a test; close it."""
        return connect(self.conninfo)

    def query(self, sql, parameters=None):
        """Rows as dictionaries. Table names need the schema: inbox.inbox_messages."""
        for last_try in (False, True):
            try:
                cursor = self._open().execute(sql, parameters)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                self.close()
                if last_try:
                    raise
        return []

    def execute(self, sql, parameters=None):
        """Number of rows the statement changed."""
        return self._open().execute(sql, parameters).rowcount

    def value(self, sql, parameters=None):
        row = self.query(sql, parameters)[0]
        return next(iter(row.values()))

    def messages(self, order="topic, kafka_partition, kafka_offset"):
        return self.query(f"SELECT * FROM {self.schema}.messages ORDER BY {order}")

    def message(self, event_id):
        """The one row with this event id, from the view `messages`."""
        rows = self.query(f"SELECT * FROM {self.schema}.messages WHERE event_id = %s", [event_id])
        assert len(rows) == 1, f"{len(rows)} rows with event_id {event_id!r}"
        return rows[0]

    def count(self, status=None):
        if status is None:
            return self.value(f"SELECT count(*) FROM {self.schema}.inbox_messages")
        return self.value(f"SELECT count(*) FROM {self.schema}.messages WHERE status = %s",
                          [status])

    def rejects(self):
        return self.query(f"SELECT * FROM {self.schema}.inbox_rejects ORDER BY seq")

    def conflicts(self):
        return self.query(f"SELECT * FROM {self.schema}.inbox_conflicts ORDER BY seq")

    def offsets(self):
        """{(topic, partition): next_offset}"""
        rows = self.query(f"SELECT topic, kafka_partition, next_offset"
                          f" FROM {self.schema}.inbox_offsets")
        return {(row["topic"], row["kafka_partition"]): row["next_offset"] for row in rows}

    # Waiting

    def wait_stored(self, count, timeout=60):
        eventually(lambda: self.count() >= count, timeout, what=f"{count} messages stored")
        assert self.count() == count

    def wait_processed(self, count, timeout=60):
        """Waits until `count` messages are processed and no other one is unfinished."""
        def are_processed():
            found = {row["status"]: row["count"] for row in self.query(
                f"SELECT status, count(*) FROM {self.schema}.messages GROUP BY status")}
            assert found.get("processed", 0) >= count, f"messages by status: {found}"
            return True

        eventually(are_processed, timeout, what=f"{count} messages processed")
        assert self.count("processed") == count

    def wait_status(self, event_id, status, timeout=30):
        """Waits for a message's status; returns its row."""
        def has_status():
            row = self.message(event_id)
            assert row["status"] == status, f"its status is {row['status']}"
            return row

        return eventually(has_status, timeout, what=f"message {event_id} to be {status}")

    def _open(self):
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.conninfo, autocommit=True)
        return self._connection
