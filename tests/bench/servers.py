"""The two servers of a benchmark, with settings of a production database."""

import contextlib
import itertools
import time
import uuid

from confluent_kafka import Consumer, TopicPartition

from support.kafka import Kafka
from support.postgres import Postgres
from support.sidecar import Sidecar, merge
from support.streams import Streams

import costs
import records

# Durability has PostgreSQL's defaults. The other settings avoid checkpoints within a short run.
POSTGRES = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
            "shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min",
            # For idle.py, which turns it on for its database; elsewhere nothing is tracked.
            "shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "none"}
# The group waits this long for its first member, so that the handler connects before the first message is stored.
KAFKA = {"group.initial.rebalance.delay.ms": "3000"}

READ_TIMEOUT = 120


class Servers:
    def __init__(self):
        self.postgres = Postgres(settings=POSTGRES).start()
        # The port that the measured programs connect to. The measuring code uses the server's own port.
        self.database_port = self.postgres.port
        self.kafka = Kafka(properties=KAFKA, options=("-Xmx512m",)).start()
        self.streams = Streams(self.kafka)
        self._numbers = itertools.count(1)
        self._topics = set()

    def close(self):
        self.streams.close()
        self.kafka.stop()
        self.postgres.stop()

    def topic(self, shape):
        """A topic with records of a shape; filled once."""
        if shape.topic() not in self._topics:
            self.streams.create(shape.topic(), shape.partitions, retention_ms=-1)
            self.streams.produce_many(shape.topic(), records.records(shape))
            self._read_once(shape)
            self._topics.add(shape.topic())
        return shape.topic()

    def _read_once(self, shape):
        """Reads the topic once before the runs, so that no run includes the compilations of the broker's JVM. A broker
        in production has finished them."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": "bench-reader",
                             "max.partition.fetch.bytes": 65536, "enable.auto.commit": False,
                             "log_level": 2})
        seen, deadline = 0, time.monotonic() + READ_TIMEOUT
        try:
            consumer.assign([TopicPartition(shape.topic(), number, 0)
                             for number in range(shape.partitions)])
            while seen < shape.messages:
                assert time.monotonic() < deadline, f"{seen} of {shape.messages} records read"
                seen += sum(record.error() is None for record in consumer.consume(10_000, 1))
        finally:
            consumer.close()

    def empty_topic(self, partitions):
        return self.known_topic(f"bench.empty.{next(self._numbers)}", partitions)

    def known_topic(self, name, partitions):
        """The topic of that name, created empty if it did not exist."""
        if name not in self._topics:
            self.streams.create(name, partitions, retention_ms=-1)
            self._topics.add(name)
        return name

    @contextlib.contextmanager
    def sidecar(self, *configurations):
        """An inboxd that is not started, its schema in a new database, all pages written out."""
        database = self.postgres.create_database(f"bench_{next(self._numbers)}")
        sidecar = Sidecar(merge({
            "kafka": {"topics": ["bench"], "bootstrap.servers": self.kafka.bootstrap,
                      "group.id": f"bench-{uuid.uuid4()}"},
            "postgres": {"host": "127.0.0.1", "port": self.database_port, "user": "postgres",
                         "dbname": database},
        }, *configurations))
        try:
            migrated = sidecar.command("migrate")
            assert migrated.returncode == 0, migrated.stderr
            with self.postgres.connect() as connection:
                connection.execute("CHECKPOINT")
            yield sidecar
        finally:
            if sidecar.is_running():
                sidecar.kill()
            self.postgres.drop_database(database)

    def cpu_seconds(self):
        """Of PostgreSQL."""
        return costs.of_server(self.postgres.pid())


def wal_position(connection):
    """Bytes of WAL ever written."""
    return int(connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()[0])
