"""Handlers that write the ledger: one thread per connection, which reconnects until it is closed.

Each records a delivery only after it has checked that the connection is still open, and remembers the time of that
check: ledger.py says why.
"""

import concurrent.futures
import datetime
import json
import select
import socket
import threading
import time

import psycopg

HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLRDHUP
TICK_MS = 5
RECONNECT_S = 0.02

CLOSE = object()  # decision: the connection ends at once, as if the process had crashed
NEVER = object()  # decision: no answer, the delivery times out


class Hand(threading.Thread):
    """A handler process: one connection to one socket, with several deliveries at the same time.

    `decide(delivered, connect)` returns an answer's result, an exception, CLOSE or NEVER; `connect()`
    returns a connection to the database for its thread only.
    """

    def __init__(self, ledger, instance, path, decide, conninfo, workers=6, window=16,
                 timeout_ms=2000, name="h1", connection=None, consumer="", **hello):
        super().__init__(name=f"{name} of {instance}", daemon=True)
        self.connection = connection or Connection
        self.ledger = ledger
        self.instance = instance
        self.path = path
        self.decide = decide
        self.conninfo = conninfo
        self.consumer = consumer  # "" = the one without a name
        self.hello = {"protocol": [1], "handler": "fleet", "instance": name,
                      "max_in_flight": window, "timeout_ms": timeout_ms, **hello}
        if consumer:
            self.hello["consumer"] = consumer
        self.failures = []    # what went wrong in here: a failed test
        self.connections = 0  # that got as far as an answer to hello
        self.oddities = 0     # how often it misbehaved: see odd_hands.py
        self._ended = threading.Event()
        self._local = threading.local()
        self._pool = concurrent.futures.ThreadPoolExecutor(workers, f"work of {self.name}")
        self.start()

    def end(self):
        self._ended.set()

    def close(self):
        self.end()
        self.join(20)
        self._pool.shutdown(wait=True, cancel_futures=True)
        assert not self.is_alive(), f"{self.name} does not end"
        assert not self.failures, f"{self.name} failed: {self.failures[0]!r}"

    def run(self):
        while not self._ended.is_set():
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                    client.connect(self.path)
                    self.connection(self, client).serve()
            except OSError:
                pass  # not there yet, or gone again
            except Exception as error:  # a failed test, told by close()
                self.failures.append(error)
                return
            self._ended.wait(RECONNECT_S)

    @property
    def has_ended(self):
        return self._ended.is_set()

    def submit(self, *arguments):
        if not self._ended.is_set():
            self._pool.submit(*arguments)

    def connect(self):
        """The calling thread's own connection to the database."""
        found = getattr(self._local, "connection", None)
        if found is None or found.closed or found.broken:
            found = self._local.connection = psycopg.connect(self.conninfo, connect_timeout=5)
        return found


class Connection:
    def __init__(self, hand, client):
        self.hand = hand
        self.client = client
        self.alive_at = time.monotonic()
        self.open = {}
        self.lock = threading.Lock()  # of sending
        self.poll = select.poll()
        self.poll.register(client, select.POLLIN | select.POLLRDHUP)

    def serve(self):
        self._send({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": self.hand.hello})
        try:
            rest = self._begin()
            while not self.hand.has_ended and (data := self._read()) is not None:
                *lines, rest = (rest + data).split(b"\n")
                read_at = time.monotonic()
                live = self._is_alive(read_at)
                for line in lines:
                    self._take(json.loads(line), read_at, live)
        finally:
            for delivered in list(self.open.values()):
                self.hand.ledger.finish(delivered, "lost", self.alive_at, noticed=time.monotonic())

    def _begin(self):
        """Called before the normal reading; returns the data read so far."""
        return b""

    def _read(self):
        """Returns the received data, possibly empty; None at the end of the connection."""
        looked_at = time.monotonic()
        events = self.poll.poll(TICK_MS)
        if not any(mask & HUNG_UP for _, mask in events):
            self.alive_at = looked_at
        if not events:
            return b""
        try:
            return self.client.recv(1 << 18) or None
        except ConnectionResetError:
            return None

    def _is_alive(self, since):
        alive = not any(mask & HUNG_UP for _, mask in self.poll.poll(0))
        if alive:
            self.alive_at = since
        return alive

    def _take(self, line, read_at, live):
        if line.get("method") == "deliver":
            if live:
                self._deliver(line["id"], line["params"], read_at)
            elif read_at >= _monotonic(line["params"]["delivery"]["deadline"]):
                self.hand.ledger.miss(line["params"]["event"]["source"], line["params"]["event"]["id"])
        elif line.get("method") == "cancel":
            delivered = self.open.pop(line["params"]["delivery"], None)
            if delivered is not None:
                self.hand.ledger.finish(delivered, _cancelled(line["params"]["reason"]), read_at)
        elif line.get("id") == 1 and "result" in line:
            self.hand.connections += 1
        elif "error" in line and line.get("id") is not None:
            raise ConnectionResetError(line["error"]["message"])  # refused: come again later

    def _deliver(self, delivery_id, params, read_at):
        self.hand.submit(self._work, delivery_id, self._open(delivery_id, params, read_at))

    def _open(self, delivery_id, params, read_at):
        event = params["event"]
        consumer = params["delivery"].get("consumer", "")
        assert consumer == self.hand.consumer, f"a handler of {self.hand.consumer!r} got a message of {consumer!r}"
        deadline = _monotonic(params["delivery"]["deadline"])
        delivered = self.hand.ledger.begin(
            self.hand.instance, self.hand.hello["instance"], event["source"], event["id"],
            params["delivery"]["claim"], params["delivery"]["attempt"],
            min(read_at, deadline), deadline=deadline,  # read too late, it was never open here
            consumer=consumer)
        self.open[delivery_id] = delivered
        return delivered

    def _work(self, delivery_id, delivered):
        try:
            decision = self.hand.decide(delivered, self.hand.connect)
        except Exception as error:
            decision = error
        if decision is CLOSE:
            self._hang_up(delivered)
        elif decision is not NEVER:
            self._answer(delivery_id, delivered, decision)

    def _hang_up(self, delivered):
        self.hand.ledger.finish(delivered, "lost", time.monotonic())
        try:
            self.client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _answer(self, delivery_id, delivered, decision):
        line = {"jsonrpc": "2.0", "id": delivery_id}
        if isinstance(decision, Exception):
            line["error"] = {"code": -32000, "message": f"{type(decision).__name__}: {decision}"}
        else:
            line["result"] = decision
        how = "error" if "error" in line else getattr(decision, "how", decision["status"])
        with self.lock:
            self.hand.ledger.finish(delivered, how, time.monotonic())
            self.open.pop(delivery_id, None)
            try:
                self._send(line)
            except OSError:
                self.hand.ledger.take_back(delivered, self.alive_at)

    def _send(self, line):
        self.client.sendall(json.dumps(line).encode() + b"\n")


def _cancelled(reason):
    return "timeout" if reason == "timeout" else "cancel"


def _monotonic(deadline):
    """Converts a deadline in calendar time to time.monotonic()."""
    at = datetime.datetime.fromisoformat(deadline.replace("Z", "+00:00"))
    return at.timestamp() - time.time() + time.monotonic()
