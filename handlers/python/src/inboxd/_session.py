"""One connection to inboxd: it reads lines, keeps the open deliveries, and sends each answer once.

The connection belongs to the event loop. ``begin``, ``settle`` and ``extend`` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ._delivery import Delivery
from ._lines import read
from ._verdicts import SKIPPED, Answer, to_json

log = logging.getLogger("inboxd")

MAX_LINE = 33_554_432
HELLO_TIMEOUT = 10.0
LIVED = 10.0  # seconds, the longest wait before a connection
HELLO_ID = 1
DRAIN_ID = 2
ROUNDING = 0.001  # seconds; an extension by less is no extension
# Errors of a hello that another try does not correct.
FINAL = frozenset({-32000, -32001, -32003, -32005, -32602})


class ProtocolError(Exception):
    """inboxd sent something that is not in the protocol."""


class Group:
    """A batch: its answer is sent when each of its deliveries is answered or cancelled."""

    def __init__(self, batch_id: Any, count: int) -> None:
        self._id = batch_id
        self._open = count
        self._entries: list[str] = []
        self._length = 0
        self._lock = threading.Lock()

    def add(self, delivery: Delivery, answer: Answer | None, max_line: int) -> str | None:
        """Returns the line when this was the last answer."""
        with self._lock:
            self._open -= 1
            if answer is not None:
                is_long = self._length + len(answer.members) > max_line // 2
                members = (answer.short if is_long else None) or answer.members
                self._entries.append(f'{{"id":{json.dumps(delivery.id)},{members}}}')
                self._length += len(self._entries[-1])
            if self._open > 0 or not self._entries:
                return None
        return f'{{"jsonrpc":"2.0","id":{json.dumps(self._id)},"result":{{"entries":[{",".join(self._entries)}]}}}}\n'


@dataclass(frozen=True)
class Terms:
    """What a session needs of the handler."""

    hello: Mapping[str, Any]
    timeout: float
    extend_up_to: float
    loads: Callable[[str], Any]
    accept: Callable[[Session, list[Delivery], Group | None], None]
    greeted: Callable[[], None]


class Session(asyncio.Protocol):
    def __init__(self, terms: Terms) -> None:
        self.timeout = terms.timeout
        self.ordering = "none"
        self.greeted = False
        self.draining = False
        self._greeted_at = 0.0
        self._has_delivered = False
        self.refusal: Mapping[str, Any] | None = None
        self._terms = terms
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.ended: asyncio.Future[None] = self.loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._parts: list[bytes] = []  # of a line that has not ended
        self._pending = 0
        self._max_line = MAX_LINE
        self._open: dict[str, Delivery] = {}
        self._lock = threading.Lock()  # begin() against drain()
        self._out: collections.deque[str] = collections.deque()
        self._flush_is_due = False

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self.loop.call_later(HELLO_TIMEOUT, self._fail, "no reply to hello")
        self.send({"id": HELLO_ID, "method": "hello", "params": self._terms.hello})

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        while self._open:
            _, delivery = self._open.popitem()
            delivery._cancel("connection_lost")
        if not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        try:
            for line in lines:
                if self._parts:
                    line = b"".join([*self._parts, line])
                    self._parts.clear()
                    self._pending = 0
                self._read(line)
        except Exception as error:
            self._fail(f"a line that is not in the protocol: {type(error).__name__}: {error}")
            return
        if rest:
            self._parts.append(rest)
            self._pending += len(rest)
            if self._pending > MAX_LINE:
                self._fail("a line of more than 32 MiB")

    @property
    def has_lived(self) -> bool:
        """True if the next connection may come soon. inboxd may end connections after each hello."""
        return self._has_delivered or (self.greeted and self.loop.time() - self._greeted_at >= LIVED)

    # Lines of inboxd

    def _read(self, line: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        message = read(line.decode(), self._terms.loads)
        if not isinstance(message, dict):
            raise ProtocolError("not an object")
        method = message.get("method")
        if method is None:
            self._on_reply(message)
        elif not self.greeted:
            raise ProtocolError(f"{method} before the reply to hello")
        elif method == "deliver":
            self._on_deliver(message)
        elif method == "deliver_batch":
            self._on_deliver_batch(message)
        elif method == "cancel":
            self._on_cancel(message.get("params") or {})
        elif "id" in message:
            self._refuse(message, -32601, f"this handler does not know {method}")

    def _on_reply(self, message: Mapping[str, Any]) -> None:
        if not self.greeted and message.get("id") == HELLO_ID:
            self._on_hello_reply(message)
        elif message.get("id") == DRAIN_ID and self.draining:
            self.close()
        elif "error" in message:
            log.warning("inboxd did not accept a line: %s", message["error"])

    def _on_hello_reply(self, message: Mapping[str, Any]) -> None:
        if "error" in message:
            error = message["error"]
            if error["code"] in FINAL:
                self.refusal = error
            else:
                log.warning("inboxd does not accept this handler now: %s", error.get("message"))
            self.close()
            return
        terms = message["result"]
        self.greeted = True
        self._greeted_at = self.loop.time()
        self._terms.greeted()
        self.ordering = terms.get("ordering") or "none"
        self.timeout = (terms.get("timeout_ms") or self.timeout * 1000) / 1000
        self._max_line = min(terms.get("max_line_bytes") or MAX_LINE, MAX_LINE)
        self._tick()

    def _on_deliver(self, message: Mapping[str, Any]) -> None:
        self._has_delivered = True
        params = message.get("params") or {}
        if not isinstance(params.get("event"), dict) or not isinstance(params.get("delivery"), dict):
            self._refuse(message, -32602, "deliver needs a delivery and an event")
            return
        delivery = Delivery(self, message["id"], params, self.loop.time(), None)
        self._open[delivery.id] = delivery
        self._terms.accept(self, [delivery], None)

    def _on_deliver_batch(self, message: Mapping[str, Any]) -> None:
        self._has_delivered = True
        entries = (message.get("params") or {}).get("entries")
        if not entries:
            self._refuse(message, -32602, "deliver_batch needs entries")
            return
        group = Group(message["id"], len(entries))
        now = self.loop.time()
        deliveries = [Delivery(self, entry["id"], entry, now, group) for entry in entries]
        self._open.update((delivery.id, delivery) for delivery in deliveries)
        self._terms.accept(self, deliveries, group)

    def _on_cancel(self, params: Mapping[str, Any]) -> None:
        delivery = self._open.get(params.get("delivery") or "")
        if delivery is not None:
            delivery._cancel(str(params.get("reason") or "timeout"))
            self.settle(delivery, None)

    def _refuse(self, message: Mapping[str, Any], code: int, text: str) -> None:
        if "id" in message:
            self.send({"id": message["id"], "error": {"code": code, "message": text}})

    # Deliveries

    def begin(self, delivery: Delivery) -> bool:
        """True if the function may be called now: the delivery is open, and the handler does not drain."""
        with self._lock:
            if self._open.get(delivery.id) is not delivery:
                return False
            delivery._started = not self.draining
        if not delivery._started:
            self.settle(delivery, SKIPPED)
        return delivery._started

    def settle(self, delivery: Delivery, answer: Answer | None) -> None:
        """Answers the delivery, unless it was answered or cancelled before. None: it needs no answer."""
        if self._open.pop(delivery.id, None) is not None:
            self._answer(delivery, answer)

    def _answer(self, delivery: Delivery, answer: Answer | None) -> None:
        if delivery._group is not None:
            line = delivery._group.add(delivery, answer, self._max_line)
            if line is not None:
                self._write(line)
        elif answer is not None:
            self._write(f'{{"jsonrpc":"2.0","id":{json.dumps(delivery.id)},"result":{{{answer.members}}}}}\n')

    def extend(self, delivery: Delivery, seconds: float) -> None:
        delivery._deadline = self.loop.time() + seconds
        params = {"delivery": delivery.id, "timeout_ms": max(round(seconds * 1000), 1)}
        self.send({"method": "extend", "params": params})

    def _tick(self) -> None:
        """Extends what has less than two thirds of its time left, the last time until ``extend_up_to``.

        A message that no function has seen until then is given back, so that waiting spends no attempt. In a batch, it would
        wait for the others.
        """
        now = self.loop.time()
        for delivery in list(self._open.values()):
            is_due = delivery._deadline - now < self.timeout * 2 / 3
            ends = delivery._received + self._terms.extend_up_to
            is_waiting = not delivery._started and delivery._group is None
            if is_waiting and ends - now < self.timeout / 2 and self._give_back(delivery):
                continue
            new = min(now + self.timeout, ends)
            if is_due and new - max(now, delivery._deadline) > ROUNDING:
                self.extend(delivery, new - now)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.timeout / 4, self._tick)

    def _give_back(self, delivery: Delivery) -> bool:
        """False if a thread has just begun it."""
        with self._lock:
            if delivery._started or self._open.get(delivery.id) is not delivery:
                return False
            self._open.pop(delivery.id)
        self._answer(delivery, SKIPPED)
        return True

    # The end

    def drain(self) -> None:
        """Asks inboxd to end the connection. Messages that no function has seen come again at once."""
        if not self.greeted:
            self.close()
            return
        with self._lock:
            self.draining = True
            waiting = [delivery for delivery in list(self._open.values()) if not delivery._started]
        for delivery in waiting:
            self.settle(delivery, SKIPPED)
        self.send({"id": DRAIN_ID, "method": "drain"})

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, why: str) -> None:
        log.warning("the connection to inboxd ends: %s", why)
        self.abort()

    # Sending

    def send(self, message: Mapping[str, Any]) -> None:
        self._write(to_json({"jsonrpc": "2.0", **message}) + "\n")

    def _write(self, line: str) -> None:
        """Lines that are written in one turn of the loop are sent together."""
        self._out.append(line)
        if self._flush_is_due:
            return
        self._flush_is_due = True
        if threading.get_ident() == self._thread:
            self.loop.call_soon(self._flush)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False  # first: a line that a thread adds from now on schedules another flush
        lines = []
        while self._out:
            lines.append(self._out.popleft())
        if self._transport is not None and lines:
            self._transport.write("".join(lines).encode())
