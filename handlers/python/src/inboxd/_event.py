"""The event of a message: a CloudEvent."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Generic

from ._trace import TraceContext

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of the type checker, which has its default

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")

_PAYLOAD = ("data", "data_base64")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))")


def parse_time(text: str) -> datetime:
    """A time of RFC 3339 with any number of decimals. ValueError if it is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time of RFC 3339")
    time = datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(microsecond=int(f"{match[3] or 0:0<6}"[:6]))
    offset = timedelta(hours=int(match[5] or 0), minutes=int(match[6] or 0))
    return time.replace(tzinfo=timezone(-offset if match[4] == "-" else offset))


class Unreadable:
    """In place of data that this process cannot read, for example a number with more digits than Python reads."""

    def __init__(self, error: Exception) -> None:
        self.why = f"{type(error).__name__}: {error}"


class Event(Mapping[str, Any], Generic[D]):
    """A CloudEvent. The usual attributes are properties; all of them are items: ``event["subject"]``.

    ``source`` and ``id`` together identify the message. They are the same at each delivery.
    """

    __slots__ = ("_attributes", "_data")

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._attributes = members
        encoded = members.get("data_base64")
        self._data: Any = members.get("data") if encoded is None else base64.b64decode(encoded)

    def __getitem__(self, name: str) -> Any:
        if name in _PAYLOAD:
            raise KeyError(name)
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._attributes if name not in _PAYLOAD)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Event(id={self.id!r}, source={self.source!r}, type={self.type!r})"

    @property
    def id(self) -> str:
        return str(self._attributes.get("id", ""))

    @property
    def source(self) -> str:
        return str(self._attributes.get("source", ""))

    @property
    def type(self) -> str:
        """Empty if the message has no type."""
        return str(self._attributes.get("type") or "")

    @property
    def subject(self) -> str | None:
        return self._attributes.get("subject")

    @property
    def time(self) -> datetime | None:
        """None also if it is not a time that CloudEvents allows."""
        try:
            return parse_time(self._attributes["time"])
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def data(self) -> D:
        """The payload: an object of the model of ``on()``, or a JSON value, or bytes if the payload is not JSON, or None (see
        ``is_tombstone``).
        """
        data: D = self._data
        return data

    @property
    def is_tombstone(self) -> bool:
        """True if the record had no value. A JSON ``null`` is a value."""
        return "data" not in self._attributes and self._attributes.get("data_base64") is None

    @property
    def topic(self) -> str:
        return str(self._attributes.get("kafkatopic", ""))

    @property
    def partition(self) -> int:
        return int(self._attributes.get("kafkapartition", 0))

    @property
    def offset(self) -> int:
        return int(self._attributes.get("kafkaoffset", 0))

    @property
    def key(self) -> str | bytes | None:
        """The key of the record: a text, or bytes if it is not UTF-8, or None."""
        encoded = self._attributes.get("partitionkeybase64")
        return self._attributes.get("partitionkey") if encoded is None else base64.b64decode(encoded)

    @property
    def trace(self) -> TraceContext | None:
        """The trace that the producer has begun; None if there is none."""
        return TraceContext.parse(self._attributes.get("traceparent"), self._attributes.get("tracestate"))

    def to_cloudevent(self) -> Any:
        """This event as the type of the package ``cloudevents``, which must be installed.

        With its version 2 this is a ``cloudevents.core.v1.event.CloudEvent``, before it a ``cloudevents.http.CloudEvent``.
        """
        attributes = {name: value for name, value in self.items() if value is not None}
        try:
            from cloudevents.core.v1.event import CloudEvent
        except ImportError:
            from cloudevents.http import CloudEvent as OldCloudEvent  # type: ignore[import-not-found,unused-ignore]

            return OldCloudEvent(attributes, self._data)
        if self.time is not None:
            attributes["time"] = self.time
        return CloudEvent(attributes, self._data)
