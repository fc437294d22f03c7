"""W3C trace context: the trace that a message belongs to."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


@dataclass(frozen=True)
class TraceContext:
    """The trace that the producer of a message has begun.

    Programs with OpenTelemetry pass ``headers()`` to ``opentelemetry.propagate.extract()``. Programs without a tracing library
    send ``child().headers()`` with their own requests.
    """

    trace_id: str
    parent_id: str
    flags: str = "01"
    state: str | None = None

    @classmethod
    def parse(cls, traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
        """The context of these headers; None if they are absent or not valid."""
        match = _TRACEPARENT.fullmatch(traceparent or "")
        if match is None or match[1] == "ff" or set(match[2]) == {"0"} or set(match[3]) == {"0"}:
            return None
        if match[1] == "00" and match[0] != match[0][:55]:
            return None
        return cls(match[2], match[3], match[4], tracestate)

    @property
    def sampled(self) -> bool:
        return bool(int(self.flags, 16) & 1)

    def child(self) -> TraceContext:
        """The same trace with a new span as the parent."""
        return replace(self, parent_id=secrets.token_hex(8))

    def headers(self) -> dict[str, str]:
        """``traceparent`` and, if there is one, ``tracestate``."""
        headers = {"traceparent": f"00-{self.trace_id}-{self.parent_id}-{self.flags}"}
        if self.state:
            headers["tracestate"] = self.state
        return headers
