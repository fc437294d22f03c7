"""From the moment a record was due to be produced until the handler has it, at fixed rates.

The producer keeps its rate whatever happens (an open loop), and time counts from when a record was
due, not from when it left: if everything stalls for a second, all records due in that second are late by up to a
second. Every message is in the result, so the percentiles are exact.
"""

import array
import functools
import json
import os
import signal
import subprocess

from support import process
from support.wait import eventually

import report
from fleet import HANDLER, Fleet, program
from group import Group

RATES = (100, 1_000, 10_000)
SECONDS, SMOKE_SECONDS = 30, 3
WARM_UP = 1 / 3  # this part of the run does not count: it warms up connections, caches, plans and the JVM
PARTITIONS = 4


class Handler:
    def __init__(self, sidecar, _batch, name):
        assert name == HANDLER, "the program has one name"
        self._log = os.path.join(sidecar.directory, "handler.log")
        self.file = os.path.join(sidecar.directory, "latencies")
        self._process = process.spawn(
            [program("tests", "bench", "latency_handler"), sidecar.socket_path, self.file], self._log)

    def stop(self):
        code = process.end(self._process, signal.SIGTERM)
        assert code == 0, f"the handler ended with {code}: {process.tail(self._log)}"
        found = array.array("q")
        with open(self.file, "rb") as file:
            found.frombytes(file.read())
        return list(zip(found[::2], found[1::2]))


def _measure(servers, options, *, rate):
    seconds = SMOKE_SECONDS if options.smoke else SECONDS
    topic = servers.empty_topic(PARTITIONS)
    with servers.sidecar({"kafka": {"topics": [topic]}}) as sidecar:
        database = sidecar.configuration["postgres"]["dbname"]
        with servers.postgres.connect(database) as connection, \
                Fleet(sidecar, handler=Handler) as fleet:
            fleet.start()
            fleet.wait_assigned(connection, PARTITIONS)
            began = fleet.cpu_seconds(), servers.cpu_seconds()
            load = produced(producer(servers, topic, rate, seconds))
            eventually(lambda: sidecar.metric("inboxd_deliveries_total", handler=HANDLER,
                                              outcome="done") >= load["sent"],
                       timeout=120, every=0.2, what=f"{load['sent']} messages to be done")
            used = fleet.cpu_seconds() - began[0], servers.cpu_seconds() - began[1]
            return {**percentiles(_counted(fleet.stop_each()[0], load["sent"])), **load,
                    "inboxd_us": used[0] / load["sent"] * 1e6,
                    "postgres_us": used[1] / load["sent"] * 1e6}


def producer(servers, topic, rate, seconds):
    """The running program. produced() waits for its end."""
    return subprocess.Popen([program("tests", "bench", "paced_producer"), servers.kafka.bootstrap, topic,
                             str(rate), str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def produced(running):
    found, words = running.communicate()
    assert running.returncode == 0, words
    return json.loads(found)


def _counted(pairs, sent):
    """The pairs (due, latency) of all records but those of the warm-up, in the order in which they were due."""
    assert len(pairs) == sent, f"the handler has seen {len(pairs)} of {sent}"
    return sorted(pairs)[int(sent * WARM_UP):]


def percentiles(pairs):
    took = sorted(latency for _, latency in pairs)
    return {"counted": len(took), **{name: took[min(len(took) - 1, int(len(took) * share))]
                                     for name, share in (("p50_us", .5), ("p90_us", .9),
                                                         ("p99_us", .99), ("p999_us", .999))},
            "max_us": took[-1]}


def milliseconds(title, key):
    return report.column(title, key, "{:.2f}", 1e-3)


GROUP = Group(
    "latency", "milliseconds from when a record was due until the handler has it", None,
    [report.column("messages", "counted", "{:,}"), milliseconds("p50", "p50_us"), milliseconds("p90", "p90_us"),
     milliseconds("p99", "p99_us"), milliseconds("p99.9", "p999_us"), milliseconds("max", "max_us"),
     milliseconds("producer late, p99", "late_p99_us"), milliseconds("producer late, max", "late_max_us"),
     *report.COSTS[:1], *report.COSTS[2:3]],
    [(f"{rate:,}/s", functools.partial(_measure, rate=rate)) for rate in RATES],
    compared=[("p50", "p50_us"), ("p99", "p99_us"), ("inboxd µs", "inboxd_us"), ("PostgreSQL µs", "postgres_us")])
