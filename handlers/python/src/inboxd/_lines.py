"""Reads a line of inboxd, also if Python cannot read the data of an event in it.

The JSON of a payload is the producer's, byte for byte. Some of it is beyond the limits of this process: a number of more than
4,300 digits, a deep nesting, a number that ``parse_float`` does not take. This must not end the connection, because all open
messages would come again, and the payload, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ._event import Unreadable

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+')
_EVENTS = ([None, '"params"', '"event"'], [None, '"params"', '"entries"', None, '"event"'])


def read(line: str, loads: Callable[[str], Any]) -> Any:
    """The JSON of the line, with Unreadable in place of data that cannot be read. Other errors pass."""
    try:
        return loads(line)
    except Exception as error:
        rest, payloads = _cut(line)
        if not payloads:
            raise
        message = loads(rest)
        params = message["params"]
        for one in params.get("entries") or [params]:
            event = one["event"]
            if "data" in event:
                event["data"] = _load(payloads[event["data"]], loads)
        if not _has_unreadable(params):
            raise ValueError("not JSON") from error
        return message


def _load(text: str, loads: Callable[[str], Any]) -> Any:
    try:
        return loads(text)
    except Exception as error:
        return Unreadable(error)


def _has_unreadable(params: Any) -> bool:
    return any(isinstance(one["event"].get("data"), Unreadable) for one in params.get("entries") or [params])


def _cut(line: str) -> tuple[str, list[str]]:
    """The line with a number in place of the data of each event, and the texts of the data by this number."""
    pieces: list[str] = []
    payloads: list[str] = []
    path: list[str | None] = []  # the names of the open objects and arrays
    name = last = None
    place = 0
    tokens = _TOKEN.finditer(line)
    for match in tokens:
        token = match[0]
        if token in "{[":
            path.append(name)
            name = None
        elif token in "}]":
            path.pop()
        elif token == ",":
            name = None
        elif token == ":":
            name = last
            if name == '"data"' and path in _EVENTS:
                start, end = _value(tokens)
                pieces += line[place:start], str(len(payloads))
                payloads.append(line[start:end])
                place = end
        last = token
    return "".join([*pieces, line[place:]]), payloads


def _value(tokens: Iterator[re.Match[str]]) -> tuple[int, int]:
    """Where the value that comes next begins and ends."""
    depth, start = 0, None
    for match in tokens:
        start = match.start() if start is None else start
        depth += (match[0] in "{[") - (match[0] in "}]")
        if depth == 0:
            return start, match.end()
    raise ValueError("the line ends in a value")
