"""Emitting events, and reading what the relay has made of them."""

import contextlib


class Outbox:
    """Emits events into the database of a test, and queries what is left of them."""

    def __init__(self, inbox):
        self.inbox = inbox

    def emit(self, topic, key, value, **options):
        """One event in its own transaction. Returns its id."""
        with self.transaction() as emit:
            return emit(topic, key, value, **options)

    @contextlib.contextmanager
    def transaction(self):
        """A transaction of the service: emit(topic, key, value, …) as often as wanted, then COMMIT."""
        with self.inbox.connect() as connection:
            def emit(topic, key, value, type="Tested", **options):
                names = "".join(f", {name} => %({name})s" for name in options)
                row = connection.execute(
                    f"SELECT inbox.emit_bytes(%(topic)s, %(key)s, %(type)s, %(data)s, 'text/plain'{names}) AS id",
                    {"topic": topic, "key": _bytes(key), "type": type, "data": _bytes(value), **options}).fetchone()
                return row["id"]

            emit.connection = connection
            yield emit

    def rows(self):
        return self.inbox.query("SELECT * FROM inbox.outbox ORDER BY seq")

    def count(self):
        return self.inbox.value("SELECT count(*) FROM inbox.outbox")

    def states(self):
        """{value: (available_at, retry_count, error_code)} of the rows that are left."""
        return {row["payload"].decode(): (row["available_at"], row["retry_count"], row["error_code"])
                for row in self.rows()}


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def values(records):
    return [record.value().decode() for record in records]


def first_copies(records):
    """{key: the values of its records in the order of their offsets, each at its first copy}."""
    seen = {}
    for record in sorted(records, key=lambda record: (record.partition(), record.offset())):
        of_key = seen.setdefault(record.key(), [])
        if record.value() not in of_key:
            of_key.append(record.value())
    return {key: [value.decode() for value in of_key] for key, of_key in seen.items()}
