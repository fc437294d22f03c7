"""Waiting for events. A test never sleeps for a time: it waits for something, with a deadline."""

import time

DEFAULT_TIMEOUT = 30.0


class TimedOut(AssertionError):
    """What was waited for did not happen in time."""


def eventually(condition, timeout=DEFAULT_TIMEOUT, what=None, every=0.05):
    """Calls `condition` until it returns something true, and returns that.

    AssertionErrors raised on the way count as "not yet"; the last one is part of the failure.
    """
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except AssertionError as error:
            last = error
        if time.monotonic() >= deadline:
            raise TimedOut(f"not within {timeout:g} s: {what or _source(condition)}; last seen: {last!r}")
        time.sleep(every)


def in_time(look, seconds):
    """What look() returns within `seconds`: it is called again when it took longer. For what is true for that time only, so that a
    process that was stopped meanwhile fails no test."""
    def once():
        began = time.monotonic()
        found = look()
        return (found,) if time.monotonic() - began < seconds else None

    return eventually(once, what=f"an answer within {seconds:g} s")[0]


def throughout(condition, seconds, every=0.05):
    """Asserts that `condition` holds during all of `seconds`: for things that must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"stopped holding: {_source(condition)}"
        time.sleep(every)


def _source(function):
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
