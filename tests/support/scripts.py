"""Decisions of scripted handlers, for tests that need only a table of answers."""

import threading

from support.wire import done, settled

DONE = done()
SETTLED = settled()


def always(decision):
    return lambda delivery: decision


def by_id(script, otherwise=DONE):
    """Answers event X with the decisions script[X] in turn, then `otherwise`.

    A single decision instead of a list is used every time.
    """
    lock = threading.Lock()
    left = {event_id: list(decisions) for event_id, decisions in script.items()
            if isinstance(decisions, list)}

    def decide(delivery):
        if delivery.event_id not in left:
            return script.get(delivery.event_id, otherwise)
        with lock:
            decisions = left[delivery.event_id]
            return decisions.pop(0) if decisions else otherwise

    return decide
