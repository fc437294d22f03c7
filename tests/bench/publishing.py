"""Programs that publish the events of an outbox table, by one clock: that of the broker, which gives each record the time
at which it appended it."""

import collections
import glob
import os
import subprocess
import time

from confluent_kafka import Consumer, TopicPartition

from support import process
from support.wait import eventually

from records import Shape

PARTITIONS = 4
KEYS = 10_000
PAYLOAD = """('{"data": "' || repeat('x', 386) || '"}')"""  # 400 bytes
PER_TRANSACTION = 100
TIMEOUT = 900
WRITERS = 8
WARM_UP = 300_000


class Topic:
    """A new topic whose records have the broker's time, in milliseconds."""

    def __init__(self, servers, name):
        self._servers = servers
        self.name = name
        servers.topic(Shape(WARM_UP))  # filled and read once, so that the JVM of the broker has compiled its code
        servers.streams.create(name, PARTITIONS, retention_ms=-1, message_timestamp_type="LogAppendTime")

    def count(self):
        return sum(self._servers.streams.log_end(self.name).values())

    def span(self):
        """The times of the first record and of the last one."""
        ends = self._servers.streams.log_end(self.name)
        places = [(number, offset) for number, end in ends.items() if end > 0 for offset in (0, end - 1)]
        return [pick(self._read([TopicPartition(self.name, *place)], 1)[0][1] for place in places) for pick in (min, max)]

    def times(self):
        """The times of all records, by key."""
        found = collections.defaultdict(list)
        for key, at in self._read([TopicPartition(self.name, number, 0) for number in range(PARTITIONS)], self.count()):
            found[key].append(at)
        return found

    def _read(self, places, count):
        records, deadline = [], time.monotonic() + TIMEOUT
        consumer = Consumer({"bootstrap.servers": self._servers.kafka.bootstrap, "group.id": "bench-reader",
                             "enable.auto.commit": False, "log_level": 2})
        try:
            consumer.assign(places)
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records of {self.name}"
                records += [((record.key() or b"").decode(), record.timestamp()[1] / 1000)
                            for record in consumer.consume(min(10_000, count), 1) if record.error() is None]
        finally:
            consumer.close()
        return records


def store(connection, insert, count):
    """Stores events before the program starts. `insert` stores those with the numbers i of SERIES."""
    assert count % PER_TRANSACTION == 0, f"{count} events are no multiple of {PER_TRANSACTION}"
    series = f"generate_series(number * {PER_TRANSACTION} + 1, (number + 1) * {PER_TRANSACTION}) AS i"
    connection.execute(f"DO $do$ BEGIN FOR number IN 0..{count // PER_TRANSACTION - 1} LOOP"
                       f" {insert.replace('SERIES', series)}; COMMIT; END LOOP; END $do$")


def drain(program, topic, count):
    """Starts the program with `count` stored events, and waits until the broker has them. What it costs from the first
    record to the last."""
    program.start()
    deadline = time.monotonic() + TIMEOUT
    while topic.count() == 0:
        program.check(deadline)
        time.sleep(0.005)
    before = program.costs()
    while topic.count() < count:
        program.check(deadline)
        time.sleep(0.1)
    program.wait_recorded()
    after, peak = program.costs(), program.peak_memory()
    assert topic.count() == count, f"{topic.count()} records of {count} events"
    first, last = topic.span()
    seconds = last - first
    return {"events": count, "seconds": round(seconds, 3), "rows_per_second": count / seconds,
            **{name: (after[name] - before[name]) / count for name in before}, "peak_rss_bytes": peak}


def paced(servers, database, statement, rate, seconds):
    """pgbench stores events at a fixed rate, each in a transaction of its own. Returns {key: when its COMMIT had returned}.
    `statement` stores the event with the key :key."""
    directory = process.scratch("pgbench")
    script = os.path.join(directory, "script")
    with open(script, "w", encoding="utf-8") as file:
        # A client counts its transactions, as the log of pgbench does.
        file.write("\\set number :number + 1\n" + statement.replace(":key", "(:client_id::text || '-' || :number::text)"))
    arguments = ["-n", "-M", "prepared", "-c", str(WRITERS), "-j", "2", "-R", str(rate), "-T", str(seconds), "-f", script,
                 "-D", "number=0", "-l", f"--log-prefix={directory}/log", "-h", "127.0.0.1", "-p", str(servers.postgres.port),
                 "-U", "postgres", database]
    done = subprocess.run([f"{servers.postgres.clients}/pgbench", *arguments], capture_output=True, text=True,
                          timeout=seconds + 60)
    assert done.returncode == 0, done.stderr
    committed = {}
    for path in glob.glob(f"{directory}/log.*"):
        with open(path, encoding="ascii") as file:
            for line in file:
                client, number, _, _, epoch, us = line.split()[:6]
                committed[f"{client}-{number}"] = int(epoch) + int(us) / 1e6
    assert committed, done.stdout
    return committed


def latency(topic, committed, warm_up, before=0):
    """From the COMMIT to the first record of the event, without those of the first `warm_up` seconds. `before`: how many
    records there were in the topic."""
    eventually(lambda: topic.count() >= before + len(committed), timeout=TIMEOUT,
               what=f"{len(committed)} events in {topic.name}")
    times = topic.times()
    since = min(committed.values()) + warm_up
    took = sorted(max(0.0, min(times[key]) - at) for key, at in committed.items() if at >= since)
    return {"counted": len(took), **{name: took[min(len(took) - 1, int(len(took) * share))] * 1e6
                                     for name, share in (("p50_us", .5), ("p90_us", .9), ("p99_us", .99))},
            "max_us": took[-1] * 1e6}
