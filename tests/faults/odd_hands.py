"""Handlers that misbehave, each in one way, and also write the ledger.

An odd handler misbehaves at the first delivery of a message and not at the next one, so that every message is finished.
`hand.oddities` counts how often it did.
"""

import itertools
import json
import random
import time

from hands import CLOSE, Connection

TIMEOUT_S = 2.0  # fleet.TIMEOUT_MS
GARBAGE = [b"\0\xff\xfe", b"{", b"[]", b"null", b"{\"jsonrpc\":\"2.0\"}", b"GET / HTTP/1.1", b"\"\xed\xa0\x80\"",
           b"[" * 5000, b"{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}", b"x" * 100_000]


def is_first(delivered):
    return delivered.number == 1


class Odd(Connection):
    def _answer(self, delivery_id, delivered, decision):
        if not is_first(delivered) or decision is CLOSE:
            super()._answer(delivery_id, delivered, decision)
            return
        self.hand.oddities += 1
        try:
            self._do(delivery_id, delivered, decision)
        except OSError:
            pass  # the connection has ended; the reader notices it

    def _do(self, delivery_id, delivered, decision):
        raise NotImplementedError

    def _send_bytes(self, data):
        with self.lock:
            self.client.sendall(data)

    def _send_answer(self, delivery_id, **result):
        """Without the ledger."""
        with self.lock:
            self._send({"jsonrpc": "2.0", "id": delivery_id, "result": result})


class Leaves(Odd):
    """Ends while it processes a message."""

    def _do(self, delivery_id, delivered, decision):
        self._hang_up(delivered)


class Hangs(Odd):
    """Never answers."""

    def _do(self, delivery_id, delivered, decision):
        pass


class Late(Odd):
    """Answers a cancelled delivery, with a failure."""

    def _do(self, delivery_id, delivered, decision):
        pass

    def _take(self, line, read_at, live):
        super()._take(line, read_at, live)
        if line.get("method") == "cancel":
            self._send_answer(line["params"]["delivery"], status="dead", code="LATE")


class Babbles(Odd):
    """Sends malformed lines until it is disconnected."""

    numbers = itertools.count()

    def _do(self, delivery_id, delivered, decision):
        self._send_bytes(GARBAGE[next(self.numbers) % len(GARBAGE)] + b"\n")


class Misspells(Odd):
    """Answers with a malformed result, which counts as a retry."""

    def _do(self, delivery_id, delivered, decision):
        self.hand.ledger.finish(delivered, "retry", time.monotonic())
        self.open.pop(delivery_id, None)
        self._send_answer(delivery_id, status="perhaps")


class Stutters(Odd):
    """Sends its answers in pieces, and hangs up in the middle of some."""

    def _do(self, delivery_id, delivered, decision):
        line = json.dumps({"jsonrpc": "2.0", "id": delivery_id, "result": {"status": "retry"}}).encode()
        breaks_off = random.random() < 0.2
        with self.lock:
            for at in range(0, len(line) // 2 if breaks_off else len(line), 5):
                self.client.sendall(line[at:at + 5])
                time.sleep(0.0002)
            if not breaks_off:
                self.hand.ledger.finish(delivered, "retry", time.monotonic())
                self.open.pop(delivery_id, None)
                self.client.sendall(b"\n")
        if breaks_off:
            self._hang_up(delivered)


class Repeats(Odd):
    """Answers twice, with different verdicts."""

    def _do(self, delivery_id, delivered, decision):
        Connection._answer(self, delivery_id, delivered, decision)
        self._send_answer(delivery_id, status="done")
        self._send_answer(delivery_id, status="dead", code="REPEATED")


class Meddles(Odd):
    """Answers deliveries of others, and unknown ones."""

    def _do(self, delivery_id, delivered, decision):
        for other in self.hand.ledger.deliveries[-60:]:
            if other.handler != self.hand.hello["instance"] and other.end is None:
                seq, count, _ = other.token
                self._send_answer(f"d{seq}.{count}", status="dead", code="MEDDLED")
        self._send_answer(f"d{delivered.token[0] + 1_000_000}.1", status="dead", code="MEDDLED")
        self._send_answer("b1", entries=[{"id": f"d{delivered.token[0]}.1", "status": "dead"}])
        Connection._answer(self, delivery_id, delivered, decision)


class Shuffles(Odd):
    """Answers in any order, several answers in one write."""

    def _do(self, delivery_id, delivered, decision):
        time.sleep(random.random() * 0.1)
        Connection._answer(self, delivery_id, delivered, decision)


class Chatters(Odd):
    """Sends a thousand notifications with every answer."""

    def _do(self, delivery_id, delivered, decision):
        lines = [{"method": "window", "params": {"max_in_flight": n % 16}} for n in range(500)]
        lines += [{"method": "extend", "params": {"delivery": name, "timeout_ms": 2000}}
                  for name in ("d1.1", delivery_id, "nobody", "d999999999999999999.1") for _ in range(125)]
        lines.append({"method": "window", "params": {"max_in_flight": 16}})
        self._send_bytes(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n"
                                  for line in lines))
        Connection._answer(self, delivery_id, delivered, decision)


class Deaf(Odd):
    """Does not read for longer than the deadline of its deliveries, then reads all of them at once."""

    def _begin(self):
        time.sleep(1.5 * TIMEOUT_S)  # what it is about is time
        self.hand.oddities += 1
        return b""

    def _do(self, delivery_id, delivered, decision):
        Connection._answer(self, delivery_id, delivered, decision)


class Sips(Deaf):
    """Reads a byte a second."""

    def _begin(self):
        until = time.monotonic() + 2 * TIMEOUT_S
        read = b""
        while time.monotonic() < until:
            read += self.client.recv(1)
            time.sleep(1)
        self.hand.oddities += 1
        return read


class Forgets(Odd):
    """Takes batches and omits entries in its answers; each omitted entry counts as a retry."""

    def _take(self, line, read_at, live):
        if line.get("method") != "deliver_batch":
            super()._take(line, read_at, live)
        elif live:
            entries = [(entry["id"], self._open(entry["id"], entry, read_at)) for entry in line["params"]["entries"]]
            self.hand.submit(self._work_batch, line["id"], entries)

    def _work_batch(self, batch_id, entries):
        verdicts = []
        for number, (entry_id, delivered) in enumerate(entries):
            try:
                decision = self.hand.decide(delivered, self.hand.connect)
            except Exception:  # scripted, or its claim is lost
                decision = {"status": "retry"}
            how = decision["status"]
            if number % 3 == 0 and is_first(delivered):
                self.hand.oddities += 1
                how = "retry"
            else:
                verdicts.append({"id": entry_id, **decision})
            self.hand.ledger.finish(delivered, how, time.monotonic())
            self.open.pop(entry_id, None)
        try:
            self._send_answer(batch_id, entries=verdicts)
        except OSError:
            for _, delivered in entries:
                self.hand.ledger.take_back(delivered, self.alive_at)
