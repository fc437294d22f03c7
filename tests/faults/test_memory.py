"""Memory: it does not grow with time, and nothing that arrives makes it grow beyond its budgets.

Memory is what the kernel counts as resident. A soak test compares equal states: everything is settled and nothing
arrives.
"""

import base64
import itertools
import pathlib
import re
import subprocess
import threading

import pytest

from support.scripts import always, DONE
from support.wait import eventually
from support.wire import CLOSE, Error, NEVER, retry

MIB = 1 << 20
PARTITIONS = 4
ROUND = 14_000       # messages
ROUNDS = {False: (6, 6), True: (145, 145)}  # long: warm-up, and after it; 145 rounds are 2 million messages
GROWTH = 1.05        # over all rounds after the warm-up, in which buffers, arenas and caches grow to their size
STEP = {False: 3 * MIB, True: 0}  # by which the allocator grows; in the long form it has done so by then
ODD = 100            # one message of so many is one for the troublesome handler


def resident(sidecar):
    text = pathlib.Path(f"/proc/{sidecar.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


class Troublesome:
    """Decides in turn: late, an error, a retry, done; sometimes it closes its connection."""

    def __init__(self):
        self.numbers = itertools.count(1)
        self.closed = threading.Event()

    def __call__(self, delivery):
        number = next(self.numbers)
        if number % 97 == 0:
            self.closed.set()
            return CLOSE
        if delivery.attempt > 1 or number % 3 == 0:
            return DONE
        return Error("no luck") if number % 2 else retry("later", delay_ms=5)


def records(start, count):
    for number in range(start, start + count):
        kind = "odd" if number % ODD == 0 else "even"
        yield {"value": b'{"number":%d,"text":"%s"}' % (number, b"x" * 300),
               "key": f"k{number % 5000}", "partition": number % PARTITIONS,
               "headers": [("id", f"e{number}"), ("eventType", kind)]}


class Soak:
    """Equal rounds: messages arrive, handlers fail, disconnect and reconnect, and all messages are handled."""

    def __init__(self, sidecar, streams, inbox, topic, connect):
        self.sidecar, self.streams, self.inbox, self.topic = sidecar, streams, inbox, topic
        self.connect = connect
        self.sent = 0
        self.quick = None
        self.odd = None

    def round(self):
        """Returns the resident memory once everything is handled."""
        self._replace_handlers()
        self.streams.produce_many(self.topic, records(self.sent, ROUND // 2))
        self._replace_handlers()
        self.streams.produce_many(self.topic, records(self.sent + ROUND // 2, ROUND // 2))
        self.sent += ROUND
        eventually(self._all_done, timeout=120, every=0.2, what=f"{self.sent} messages settled")
        return resident(self.sidecar)

    def _replace_handlers(self):
        """While they process messages, like a crash; the odd handler also does it itself."""
        if self.quick is not None:
            self.quick.kill()
        self.quick = self.connect.quick(self.sidecar, window=100)
        self._reconnect_odd()

    def _reconnect_odd(self):
        if self.odd is not None:
            self.odd.abort()
        self.odd = self.connect.odd(self.sidecar, Troublesome(), name="odd", max_in_flight=20,
                                    subscribe=[{"types": ["odd"]}])

    def _all_done(self):
        if self.odd.decide.closed.is_set():
            self._reconnect_odd()
        return self.inbox.value("SELECT count(*) FROM inbox.inbox_messages"
                                " WHERE processed_at IS NOT NULL") == self.sent


class Connections:
    def __init__(self, quick, odd):
        self.quick, self.odd = quick, odd


@pytest.mark.timeout(3600)
def test_memory_does_not_grow_with_time(start_inboxd, streams, inbox, make_topic, noop_handler, handler, long_run):
    topic = make_topic(PARTITIONS)
    # Budgets of a few thousand messages are filled in the first round, not by and by.
    sidecar = start_inboxd(kafka={"topics": [topic]}, inbox={"max_claimed": 2000}, worker={"claim_batch": 500},
                           retry={"max_attempts": 20, "max_crashes": 20})
    soak = Soak(sidecar, streams, inbox, topic, Connections(noop_handler, handler))
    warm_up, rounds = ROUNDS[long_run]
    warm = max(soak.round() for _ in range(warm_up))
    sizes = [soak.round() for _ in range(rounds)]
    assert sidecar.metric("inboxd_deliveries_total", outcome="retry") > 100
    assert sidecar.metric("inboxd_deliveries_total", outcome="crash") > 0
    print("resident MiB:", round(warm / MIB, 1), [round(size / MIB, 1) for size in sizes])
    # The allocator returns more or less memory each time; a leak is visible in the minimum.
    assert min(sizes[-3:]) <= warm * GROWTH + STEP[long_run], [warm, *sizes]


LARGEST = 16 * MIB   # ingest.max_payload
LARGE = 24           # messages of that size: 384 MiB in all, more than the bound below


def large(number):
    """Half of them as JSON, which is passed through, half as bytes, which travel as base64."""
    if number % 2:
        return b'"' + b"x" * (LARGEST - 2) + b'"'
    return b"\xff" * LARGEST


# What may be in memory at the same time with the configuration below. Each line has its own limit.
BOUND = sum((
    40 * MIB,            # the program itself, its libraries, idle connections
    2 * MIB + 2 * LARGEST,   # librdkafka: what is fetched ahead, gone over by an answer of each partition
    3 * LARGEST,         # the batch being stored: the message, its parameters, libpq's buffer
    2 * LARGEST,         # inbox.max_claimed_bytes
    2 * LARGEST,         # a claim on its way: libpq's result and the message made of it
    4 * 32 * MIB,        # a line in base64: rendered, put into the line, in the socket's buffer, grown
))


def test_messages_of_the_largest_size_stay_within_the_budgets(start_inboxd, streams, inbox, make_topic, handler):
    topic = make_topic(2, max_message_bytes=33554432)
    sidecar = start_inboxd(kafka={"topics": [topic]}, inbox={"max_claimed_bytes": "32MiB"},
                           ingest={"max_payload": "16MiB"})
    script = {"open": False}
    client = handler(sidecar, lambda delivery: DONE if script["open"] else NEVER,
                     timeout_ms=600_000)
    streams.produce_many(topic, ({"value": large(number), "partition": number % 2,
                                  "headers": [("id", f"e{number}")]}
                                 for number in range(LARGE)))
    inbox.wait_stored(LARGE, timeout=120)
    eventually(lambda: client.count > 0)
    # They have no handler: one fits into the budget, and at most one more was being stored.
    assert client.count <= 2
    held = sidecar.peak_memory()
    script["open"] = True
    for delivery in list(client.deliveries):
        client.answer(delivery, DONE)
    inbox.wait_processed(LARGE, timeout=150)
    print("peak MiB:", held // MIB, "while held,", sidecar.peak_memory() // MIB, "at the end")
    assert sidecar.peak_memory() <= BOUND
    for delivery in client.deliveries:
        number = int(delivery.event_id[1:])
        assert delivery.attempt == 1
        assert delivery.data == (large(number).decode()[1:-1] if number % 2 else large(number))


def test_a_batch_of_large_messages_is_readable_for_a_handler(start_inboxd, streams, inbox, make_topic, noop_handler):
    topic = make_topic(1, max_message_bytes=33554432)
    sidecar = start_inboxd(kafka={"topics": [topic]}, inbox={"max_claimed_bytes": "256MiB"})
    streams.produce_many(topic, ({"value": b"\xff" * 3 * MIB, "headers": [("id", f"e{number}")]}
                                 for number in range(20)))
    inbox.wait_stored(20)
    library = noop_handler(sidecar, batch=20)
    inbox.wait_processed(20)
    assert len(library.lines()) == 20
    assert sidecar.metric("inboxd_deliveries_total", outcome="crash") == 0


def test_a_message_above_the_largest_size_is_kept_as_a_reject(start_inboxd, streams, inbox, produce, make_topic,
                                                              handler):
    topic = make_topic(1, max_message_bytes=33554432)
    sidecar = start_inboxd(kafka={"topics": [topic]})
    client = handler(sidecar, always(DONE))
    produce(topic, b"{}", headers={"id": "before"})
    produce(topic, b"x" * (LARGEST + 1), key=b"k", headers={"id": "above"})
    produce(topic, b"x" * LARGEST, headers={"id": "largest"})
    produce(topic, b"{}", headers={"id": "after"})
    inbox.wait_processed(3)
    assert sorted(client.event_ids) == ["after", "before", "largest"]
    rejects = inbox.query("SELECT length(payload) AS length, key, kafka_offset, reason"
                          " FROM inbox.inbox_rejects")
    assert [(row["length"], bytes(row["key"]), row["kafka_offset"]) for row in rejects] == [
        (LARGEST + 1, b"k", 1)]
    assert sidecar.metric("inboxd_rejects_total", topic=topic) == 1


# Difficult input. The producer's library accepts header names as text only; kcat writes the others.
NASTY = {
    "open-string": {"value": b'{"a":1}"'},
    "open-word": {"value": b"1 tru"},
    "nul": {"value": b"\0", "key": b"\0\0"},
    "nul-in-json": {"value": b'{"a":"\\u0000"}'},
    "half-a-pair": {"value": b'"\\ud800"'},
    "surrogate": {"value": b'"\xed\xa0\x80"', "key": b"\xed\xa0\x80"},
    "overlong": {"value": b"\xc0\xaf", "key": b"\xc0\xaf"},
    "cut-off": {"value": b'"\xf0\x9f\x98', "key": b"\xf0\x9f\x98"},
    "line-breaks": {"value": b'{\n\r\n"a"\r:\n1}\n'},
    "vertical-tab": {"value": b"[1,\v2]"},
    "bom": {"value": b"\xef\xbb\xbf{}"},
    "deep": {"value": b"[" * 100_000},
    "digits": {"value": b"1" * 4_000},
    "empty": {"value": b"", "key": b""},
    "tombstone": {"value": None, "key": b"k"},
    "headers": {"value": b"{}", "extra": [(f"h{n:03}", b"\xff" * 96) for n in range(1000)]},
    "nul-in-header": {"value": b"{}", "extra": [("h", b"a\0b"), ("n", None), ("e", b"")]},
    "same-header": {"value": b"{}", "extra": [("h", b"\xc3\x28"), ("h", b"2")] * 50},
    "attributes": {"value": b"{}", "extra": [(f"ce_a{n}", b"\xff\x01\"\\") for n in range(100)]},
}


def expected_data(value):
    """As documented: strict JSON is passed through, anything else is sent as bytes."""
    return {b'{"a":"\\u0000"}': {"a": "\0"}, b'"\\ud800"': "\ud800",
            b'{\n\r\n"a"\r:\n1}\n': {"a": 1}, b"{}": {},
            b"1" * 4_000: int("1" * 4_000)}.get(value, value)


def header_bytes(name_or_value):
    if name_or_value is None:
        return None
    if isinstance(name_or_value, dict):
        return base64.b64decode(name_or_value["base64"])
    return name_or_value.encode()


def assert_handed_over(delivery, record):
    assert delivery.attempt == 1
    assert delivery.key == record.get("key")
    assert delivery.data == expected_data(record["value"])
    if not any(name.startswith("ce_") for name, _ in record.get("extra", [])):
        assert [(header_bytes(name), header_bytes(value)) for name, value in delivery.headers] == [
            (b"id", delivery.event_id.encode()),
            *((name.encode(), value) for name, value in record.get("extra", []))]


def test_any_bytes_are_stored_and_delivered(start_inboxd, streams, inbox, topic, handler, noop_handler):
    sidecar = start_inboxd()
    client = handler(sidecar, always(DONE))
    good = [f"good{number}" for number in range(len(NASTY))]
    streams.produce_many(topic, (record for number, (name, nasty) in enumerate(NASTY.items())
                                 for record in (
        {"value": nasty["value"], "key": nasty.get("key"), "partition": 0,
         "headers": [("id", name), *nasty.get("extra", [])]},
        {"value": b"{}", "partition": 0, "headers": [("id", good[number])]})))
    inbox.wait_processed(2 * len(NASTY))
    assert sorted(client.event_ids) == sorted([*NASTY, *good])
    for name, record in NASTY.items():
        assert_handed_over(client.of(name)[0], record)
        row = inbox.message(name)
        assert (row["payload"] and bytes(row["payload"])) == (record["value"] or row["payload"])
        assert row["delivery_count"] == 1
    assert not client.errors and not client.ended.is_set()
    # The same for the C library: it reads every line without an error.
    client.close()
    library = noop_handler(sidecar, name="handler")
    inbox.execute("UPDATE inbox.inbox_messages SET processed_at = NULL")
    inbox.wait_processed(2 * len(NASTY))
    assert len(library.lines()) == 2 * len(NASTY)
    assert sidecar.metric("inboxd_deliveries_total", outcome="crash") == 0
    assert sidecar.metric("inboxd_rejects_total", topic=topic) == 0


def kcat(kafka, topic, *arguments):
    """Writes one record whose header names are bytes."""
    done = subprocess.run([b"kcat", b"-P", b"-b", kafka.bootstrap.encode(), b"-t", topic.encode(),
                           b"-p", b"0", *arguments], input=b"{}", capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_header_names_may_be_any_bytes(start_inboxd, kafka_server, inbox, topic, handler):
    sidecar = start_inboxd()
    client = handler(sidecar, always(DONE))
    kcat(kafka_server, topic, b"-H", b"id=a", b"-H", b"\xff\xfe=\xff", b"-H", b"\xed\xa0\x80=1",
         b"-H", b"ce_\xff=2", b"-H", b"\x01\"\\=3")
    kcat(kafka_server, topic, b"-H", b"id=b")
    inbox.wait_processed(2)
    assert [(header_bytes(name), header_bytes(value)) for name, value in client.of("a")[0].headers] == [
        (b"id", b"a"), (b"\xff\xfe", b"\xff"), (b"\xed\xa0\x80", b"1"), (b"ce_\xff", b"2"),
        (b"\x01\"\\", b"3")]
    assert {row["delivery_count"] for row in inbox.messages()} == {1}
