"""The records of the benchmark, the same in each run; floor_rows.c makes the same rows."""

import base64
import bisect
import functools
import itertools
import random
import typing

KEYS = 10_000
REPEATS_OF = 10         # one record in so many repeats an earlier one
REPEATS_WITHIN = 5_000  # a repetition is one of the last so many distinct records
COMPRESSIBLE = 1_000    # up to so many bytes PostgreSQL does not try to compress a row
_MASK = (1 << 64) - 1


class Shape(typing.NamedTuple):
    messages: int
    payload: int = 400   # bytes
    partitions: int = 4
    repeats_of: int = REPEATS_OF
    keys: int = KEYS
    zipf: bool = False   # the n-th key has 1/n of the messages of the first; otherwise all keys have equally many

    def distinct(self):
        """The number of distinct records."""
        return self.messages - self.messages // self.repeats_of

    def topic(self):
        return (f"bench.{self.messages}.{self.payload}.{self.partitions}.{self.repeats_of}"
                f".{self.keys}{'.zipf' if self.zipf else ''}")

    def key(self, number):
        """The number of the key of a distinct record."""
        drawn = _scatter(~number & _MASK)
        if not self.zipf:
            return drawn % self.keys
        weights = _zipf_weights(self.keys)
        return bisect.bisect(weights, drawn / (_MASK + 1) * weights[-1])


@functools.cache
def _zipf_weights(keys):
    """The cumulated weights."""
    return list(itertools.accumulate(1 / number for number in range(1, keys + 1)))


def _scatter(x):
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


def event_id(number):
    text = f"{_scatter(2 * number):016x}{_scatter(2 * number + 1):016x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def records(shape):
    """Arguments of Streams.produce() for each record."""
    fresh = 0
    for position in range(1, shape.messages + 1):
        if position % shape.repeats_of == 0:
            yield _record(_earlier(position, fresh), shape)
        else:
            yield _record(fresh, shape)
            fresh += 1


def _earlier(position, fresh):
    """The earlier record that is repeated at a position of the stream."""
    return fresh - 1 - _scatter(~position & _MASK) % min(fresh, REPEATS_WITHIN)


def _record(number, shape):
    key = f"c-{shape.key(number)}"
    head = f'{{"order":{number},"customer":"{key}","note":"'
    identity = event_id(number)
    return {"value": (head + _note(number, shape.payload - len(head) - 2) + '"}').encode(), "key": key,
            "headers": [("id", identity), ("eventType", "order.created")]}


def _note(number, length):
    """Large ones cannot be compressed by PostgreSQL."""
    if length <= COMPRESSIBLE:
        return "n" * length
    return base64.b64encode(random.Random(number).randbytes(length)).decode()[:length]
