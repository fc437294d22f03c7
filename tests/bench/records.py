"""What the benchmark puts into Kafka: the same records every time; floor.c stores the same rows."""

import random

PAYLOAD_BYTES = 400
KEYS = 10_000
PARTITIONS = 4
REPEATS_OF = 10        # one record in so many repeats an earlier one …
REPEATS_WITHIN = 5_000  # … of the last so many distinct ones
_MASK = (1 << 64) - 1


def _scatter(x):
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


def event_id(number):
    text = f"{_scatter(2 * number):016x}{_scatter(2 * number + 1):016x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def distinct(messages):
    """How many of so many records are no repetition."""
    return messages - messages // REPEATS_OF


def records(messages):
    """Arguments of Streams.produce() for each record."""
    chance = random.Random(1)
    fresh = 0
    for position in range(1, messages + 1):
        if position % REPEATS_OF == 0:
            yield _record(chance.randrange(max(0, fresh - REPEATS_WITHIN), fresh))
        else:
            yield _record(fresh)
            fresh += 1


def _record(number):
    key = f"c-{_scatter(~number & _MASK) % KEYS}"
    head = f'{{"order":{number},"customer":"{key}","note":"'
    identity = event_id(number)
    return {"value": (head + "n" * (PAYLOAD_BYTES - len(head) - 2) + '"}').encode(), "key": key,
            "headers": [("id", identity), ("eventType", "order.created")]}
