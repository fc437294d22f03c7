"""The test handler of the conformance kit without a library: the protocol in one file, with every feature.

One thread reads, one works on the messages one after the other, and one extends deadlines. test_kit.py damages copies of this
file, line by line, to show that each case can fail.
"""

import base64
import collections
import json
import os
import random
import signal
import socket
import sys
import threading
import time

PATH = os.environ["INBOXD_SOCKET_PATH"]
MAX_LINE = 33_554_432
LIVED_S = 10
REFUSED = (-32000, -32001, -32003, -32005, -32602)
FINISHED = ("done", "dead", "settled")


def option(name, default):
    return int(os.environ.get(f"CONFORMANCE_{name}", default))


TIMEOUT_MS = option("TIMEOUT_MS", 30000)
BATCH = {"max": option("BATCH_MAX", 1), "wait_ms": option("BATCH_WAIT_MS", 0), "ordered": bool(option("ORDERED", 0))}


def subscriptions():
    """"orders order.created order.*;* audit.*": a topic and its types, separated by blanks."""
    for part in filter(None, os.environ.get("CONFORMANCE_SUBSCRIBE", "").split(";")):
        topic, *types = part.split()
        yield {**({"topic": topic} if topic != "*" else {}), **({"types": types} if types else {})}


def hello():
    params = {"protocol": [1], "handler": os.environ["CONFORMANCE_NAME"], "client": "reference.py/1",
              "max_in_flight": option("MAX_IN_FLIGHT", 64), "timeout_ms": TIMEOUT_MS, "batch": BATCH}
    if subscribe := list(subscriptions()):
        params["subscribe"] = subscribe
    if "CONFORMANCE_CONSUMER" in os.environ:
        params["consumer"] = os.environ["CONFORMANCE_CONSUMER"]
    return params


class Cancelled(Exception):
    pass


class Session:
    """One connection, its open messages, and the queue of those that no thread has begun."""

    def __init__(self, connection):
        self.connection = connection
        self.open = {}  # id of a message: when its deadline passes
        self.queue = collections.deque()
        self.ordering = "none"
        self.news = threading.Condition()
        self.sending = threading.Lock()
        self.greeted = False
        self.has_delivered = False
        self.ended = False

    def send(self, **message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self.sending:
            try:
                self.connection.sendall(line)
            except OSError:
                pass

    # Reading

    def lines(self):
        buffer = bytearray()
        while data := self.connection.recv(1 << 20):
            searched = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                if end > MAX_LINE:
                    return
                yield bytes(buffer[:end])
                del buffer[:end + 1]
                searched = 0
            if len(buffer) > MAX_LINE:
                return

    def serve(self):
        """Until the end of the connection."""
        self.send(id=1, method="hello", params=hello())
        for line in self.lines():
            message = json.loads(line)
            if not isinstance(message, dict):
                break
            method, params = message.get("method"), message.get("params") or {}
            if method is None and not self.greeted:
                if not self.is_accepted(message):
                    break
            elif method is None:
                if message.get("id") == 2:
                    break
            elif method == "deliver" and params.get("event") is not None:
                self.accept([{**params, "id": message["id"]}], message["id"], batch=False)
            elif method == "deliver_batch":
                self.accept(params["entries"], message["id"], batch=True)
            elif method == "cancel":
                self.open.pop(params.get("delivery"), None)
            elif "id" in message:
                self.send(id=message["id"], error={"code": -32601, "message": f"cannot do {method}"})

    def has_lived(self):
        """False also if inboxd ends connections after their hello: then the waits between them grow."""
        return self.has_delivered or self.greeted and time.monotonic() - self.greeted_at >= LIVED_S

    def is_accepted(self, message):
        """The reply to hello."""
        if "error" in message:
            if message["error"]["code"] in REFUSED:
                print(message["error"]["message"], file=sys.stderr, flush=True)
                os._exit(1)
            return False
        self.greeted = True
        self.greeted_at = time.monotonic()
        self.ordering = message["result"].get("ordering") or "none"
        for act in (self.work, self.extend_all):
            threading.Thread(target=act, daemon=True).start()
        return True

    def accept(self, entries, answer_id, batch):
        self.has_delivered = True
        with self.news:
            for entry in entries:
                self.open[entry["id"]] = time.monotonic() + TIMEOUT_MS / 1000
            self.queue.append((entries, answer_id, batch))
            self.news.notify()

    # Working

    def work(self):
        while True:
            with self.news:
                self.news.wait_for(lambda: self.queue or self.ended)
                if self.ended:
                    return
                entries, answer_id, batch = self.queue.popleft()
            answers = list(self.handle_all(entries, batch))
            if self.ended:
                return
            if batch:
                self.send(id=answer_id, result={"entries": answers})
            elif answers:
                del answers[0]["id"]
                error = answers[0].pop("error", None)
                self.send(id=answer_id, **({"error": error} if error else {"result": answers[0]}))

    def handle_all(self, entries, batch):
        unfinished = set()
        for entry in entries:
            key = self.order_of(entry["event"]) if BATCH["ordered"] else None
            answer = {"status": "skipped"} if key in unfinished else self.handle(entry, batch)
            if self.open.pop(entry["id"], None) is None:
                answer = {}
            if answer.get("status") not in FINISHED and key is not None:
                unfinished.add(key)
            if answer:
                yield {"id": entry["id"], **answer}

    def order_of(self, event):
        place = (event.get("kafkatopic"), event.get("kafkapartition"))
        if self.ordering == "partition":
            return place
        key = key_of(event)
        return (*place, key) if self.ordering == "key" and key is not None else None

    def handle(self, entry, batch):
        try:
            return act(self, entry)
        except Cancelled:
            return {}
        except Exception as error:  # pylint: disable=broad-except
            text = f"{type(error).__name__}: {error}"
            return {"status": "retry", "reason": text} if batch else {"error": {"code": -32000, "message": text}}

    def extend_all(self):
        while not self.ended:
            time.sleep(0.05)
            for name, due in list(self.open.items()):
                if due - time.monotonic() < TIMEOUT_MS / 1000 / 2:
                    self.extend(name, TIMEOUT_MS)

    def extend(self, name, timeout_ms):
        if name in self.open:
            self.open[name] = time.monotonic() + timeout_ms / 1000
            self.send(method="extend", params={"delivery": name, "timeout_ms": timeout_ms})

    def end(self):
        self.connection.close()
        with self.news:
            self.ended = True
            self.news.notify()


def key_of(event):
    if event.get("partitionkeybase64") is not None:
        return base64.b64decode(event["partitionkeybase64"])
    return None if event.get("partitionkey") is None else event["partitionkey"].encode()


def act(session, entry):
    """Does what the type of the event says; returns the answer."""
    event = entry["event"]
    kind = event.get("type")
    extra = {name: event[name] for name in ("reason", "code") if name in event}
    if "delayms" in event:
        extra["delay_ms"] = int(event["delayms"])
    if kind in ("retry", "dead", "snooze", "settled", "skipped"):
        return {"status": kind, **extra}
    if kind == "raise":
        raise ValueError(event["reason"])
    if kind == "work":
        ends = time.monotonic() + int(event["workms"]) / 1000
        while time.monotonic() < ends:
            if entry["id"] not in session.open or session.ended:
                raise Cancelled
            time.sleep(0.01)
    if kind == "extend":
        session.extend(entry["id"], int(event["timeoutms"]))
    if kind == "window":
        session.send(method="window", params={"max_in_flight": int(event["window"])})
    if kind == "result":
        return {"status": "done", "result": event["data"]}
    if kind == "emit":
        return {"status": "done", "emit": event["data"]}
    if kind == "echo":
        return {"status": "done", "result": echo(entry)}
    return {"status": "done"}


def echo(entry):
    delivery, event = entry["delivery"], entry["event"]
    seen = {name: delivery.get(name) for name in ("claim", "seq", "attempt", "replay")}
    seen.update({name: event.get(name) for name in ("id", "source", "type", "traceparent")})
    seen.update(topic=event.get("kafkatopic"), partition=event.get("kafkapartition"), offset=event.get("kafkaoffset"))
    if (key := key_of(event)) is not None:
        seen["key_base64"] = encoded(key)
    if "data" in event:
        seen["data"] = event["data"]
    if event.get("data_base64") is not None:
        seen["data_base64"] = encoded(base64.b64decode(event["data_base64"]))
    seen["headers"] = [[text(name).decode(), None if value is None else encoded(text(value))]
                       for name, value, *_ in entry.get("headers") or ()]
    return seen


def text(value):
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def encoded(value):
    return base64.b64encode(value).decode()


stopping = threading.Event()
current = None


def drain_on_sigterm():
    """In a thread of its own: a signal does not always interrupt the recv() of the main one."""
    signal.sigwait({signal.SIGTERM})
    stopping.set()
    if current is not None and current.greeted:
        current.send(id=2, method="drain")
    elif current is not None:
        current.connection.shutdown(socket.SHUT_RDWR)


def main():
    global current
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=drain_on_sigterm, daemon=True).start()
    failures = 0
    while not stopping.is_set():
        current = None
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(PATH)
                current = Session(connection)
                current.serve()
            except (OSError, ValueError) as error:
                print(error, file=sys.stderr, flush=True)
            finally:
                if current is not None:
                    current.end()
        failures = 0 if current is not None and current.has_lived() else failures
        stopping.wait(random.random() * min(0.1 * 2 ** failures, 10))
        failures += 1


main()
