"""Plays one case against a handler: starts its process, executes the steps, and ends it.

Each step of a case is a JSON object. Its first member names the step and is its main argument; README.md lists them.
"""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from match import MISSING, differences
from sidecar import MAX_LINE, Failure, Listener, parse

WITHIN_MS = 30000
SHOWN_LINE = 300
LATE_MOST = 2        # connections later than `soon_ms`: the machine may stall
LONGEST_WAIT_S = 15  # more than the longest wait between two connections
GREETED_S = 0.02     # so long a connection lives after its hello, so that the handler has read the reply
GROWN_WAITS = 6      # so many waits that are nearly as long as they can be are not random

# Option of a case: the environment variable that has it for the handler.
OPTIONS = {
    "name": "CONFORMANCE_NAME",
    "subscribe": "CONFORMANCE_SUBSCRIBE",
    "max_in_flight": "CONFORMANCE_MAX_IN_FLIGHT",
    "timeout_ms": "CONFORMANCE_TIMEOUT_MS",
    "batch_max": "CONFORMANCE_BATCH_MAX",
    "batch_wait_ms": "CONFORMANCE_BATCH_WAIT_MS",
    "ordered": "CONFORMANCE_ORDERED",
    "consumer": "CONFORMANCE_CONSUMER",
}


class Play:
    def __init__(self, case, command, patience=1.0):
        self.case = case
        self.patience = patience
        self.dialogue = []
        self._directory = tempfile.mkdtemp(prefix="conformance-")
        self._log = os.path.join(self._directory, "stderr")
        self._listener = Listener(os.path.join(self._directory, "inbox.sock"))
        self._connection = None
        self._held = b""       # lines that go out together with the next ones
        self._request_id = None  # of the last request of the handler
        self._may = set()      # deliveries that the handler may answer or not
        self._late = 0         # connections that came later than `soon_ms`
        self._exited = False
        self._process = self._start(command)

    def _start(self, command):
        options = {"name": "conformance", **self.case["options"]}
        env = {name: value for name, value in os.environ.items() if not name.startswith("CONFORMANCE_")}
        env["INBOXD_SOCKET_PATH"] = self._listener.path
        for option, value in options.items():
            env[OPTIONS[option]] = str(int(value) if isinstance(value, bool) else value)
        if not self.case.get("absent"):
            self._listener.open()
        with open(self._log, "wb") as log:
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)

    def run(self):
        """Executes the steps. Failure names the step that failed in `step`."""
        for step in self.case["steps"]:
            try:
                getattr(self, "step_" + next(iter(step)))(*self._arguments(step))
            except Failure as failure:
                failure.step = step
                raise
        self._nothing_else()

    def output(self):
        """What the handler has written to its standard streams."""
        with open(self._log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def end(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    # Steps that wait for the handler

    def step_accept(self, hello, step):
        """A connection and its hello, which gets the reply of the step."""
        started = time.monotonic()
        within_s = self._within(step)
        if self._connection is not None:
            self._connection.close()
        self._connection = self._listener.accept(within_s)
        if self._connection is None:
            raise Failure("a connection", f"none within {within_s:.1f} s" + self._process_state())
        self._late += time.monotonic() - started > step.get("soon_ms", math.inf) / 1000
        if self._late > LATE_MOST:
            raise Failure(f"most connections within {step['soon_ms']} ms", f"{self._late} that were later")
        message = self._read(within_s - (time.monotonic() - started))
        self._matches({"id": {"$any": True}, "method": "hello", "params": {
            "protocol": [1], "handler": self.case["options"].get("name", "conformance"), **hello}}, message)
        self._request_id = message["id"]
        if "error" in step:
            self._send_message({"jsonrpc": "2.0", "id": message["id"], "error": step["error"]}, step)
        elif "reply" not in step or step["reply"] is not None:
            self._send_message({"jsonrpc": "2.0", "id": message["id"], "result": self._hello_reply(step)}, step)

    def step_answers(self, expected, step):
        """One answer for each delivery, in any order; also a request that the step names with `and`."""
        open_ids = {self._id(pattern_id): pattern for pattern_id, pattern in _repeated(expected, step)}
        request = step.get("and")
        deadline = time.monotonic() + self._within(step)
        while open_ids or request:
            message = self._read(deadline - time.monotonic(), f"answers for {', '.join(map(str, open_ids))}"
                                 if open_ids else json.dumps(request))
            if request and not differences(request, message):
                self._request_id, request = message.get("id"), None
            elif "method" not in message and message["id"] in open_ids:
                self._matches(_whole(open_ids.pop(message["id"])), message)
            elif not self._is_allowed(message, step):
                raise Failure("an answer for each delivery, once, and nothing else", json.dumps(message)[:SHOWN_LINE])

    def step_answer_batch(self, batch_id, step):
        """The one answer of a batch, with its entries by their ids."""
        deadline = time.monotonic() + self._within(step)
        while True:
            message = self._read(deadline - time.monotonic(), f"the answer for the batch {batch_id}")
            if "method" in message or message["id"] != batch_id:
                if self._is_allowed(message, step):
                    continue
                raise Failure(f"the answer for the batch {batch_id}", json.dumps(message)[:SHOWN_LINE])
            break
        self._matches({"result": {"entries": {"$any": True}}}, message)
        entries = message["result"]["entries"]
        by_id = {entry["id"]: entry for entry in entries}
        if len(by_id) != len(entries):
            raise Failure("each entry once", json.dumps(entries)[:SHOWN_LINE])
        expected = dict(_repeated(step["entries"], step))
        for entry_id, pattern in expected.items():
            found = differences(_entry(pattern), by_id.pop(entry_id, MISSING), entry_id)
            if found:
                raise Failure(json.dumps({entry_id: pattern}), "; ".join(found))
        if by_id:
            raise Failure(f"only the entries {', '.join(expected)}", f"also {', '.join(by_id)}")

    def step_expect(self, pattern, step):
        """One line. Its id is kept for `reply`."""
        message = self._read(self._within(step), json.dumps(pattern))
        while self._is_allowed(message, step) and differences(pattern, message):
            message = self._read(self._within(step), json.dumps(pattern))
        self._matches(pattern, message)
        self._request_id = message.get("id")

    def step_quiet_ms(self, time_ms, step):
        """No line, and the connection stays."""
        deadline = time.monotonic() + time_ms / 1000
        while (left := deadline - time.monotonic()) > 0:
            line = self._connection.pending(left)
            if line is None or line and not self._is_allowed(parse(line), step):
                raise Failure(f"no line for {time_ms} ms", "the end of the connection" if line is None
                              else line[:SHOWN_LINE].decode(errors="replace"))

    def step_end(self, _, step):
        """The handler closes the connection."""
        deadline = time.monotonic() + self._within(step)
        while (line := self._connection.pending(deadline - time.monotonic())) is not None:
            if line and self._is_allowed(parse(line), step):
                continue
            raise Failure("the end of the connection", line[:SHOWN_LINE].decode(errors="replace") or "nothing")

    def step_exit(self, expected, step):
        """The process ends: with this code, or "failure": with any but 0, and not by a signal."""
        try:
            code = self._process.wait(self._within(step))
        except subprocess.TimeoutExpired:
            raise Failure(f"exit code {expected}", "the process still runs") from None
        if code < 0 or (code == 0 if expected == "failure" else code != expected):
            raise Failure(f"exit code {expected}", f"exit code {code}")
        self._exited = True

    def step_output(self, expression, _):
        """The handler's standard streams have this text."""
        if not re.search(expression, self.output()):
            raise Failure(f"a text with /{expression}/ on the standard streams", self.output()[-SHOWN_LINE:] or "nothing")

    def step_churn_ms(self, time_ms, step):
        """Every connection is closed at once, or after its hello. The handler connects again, and not too often."""
        low, high = step["connections"]
        times = []

        def closes_one(within_s):
            """The wait of the handler begins with the end of the connection, so two times are never nearer than its wait is long."""
            connection = self._listener.accept(within_s)
            if connection is not None:
                times.append(time.monotonic())
                if step.get("greet"):
                    hello = connection.read(self._within(step)) or {}
                    reply = {"jsonrpc": "2.0", "id": hello.get("id"), "result": self._hello_reply(step)}
                    connection.send(json.dumps(reply).encode() + b"\n")
                    connection.pending(GREETED_S)
                connection.close()
            return connection is not None

        if step.get("greet"):
            closes_one(self._within(step))  # a handler may need long to start
        ends = time.monotonic() + time_ms / 1000
        while (left := ends - time.monotonic()) > 0:
            closes_one(left)
        if len(times) > high:
            raise Failure(f"at most {high} connections in {time_ms} ms", len(times))
        while len(times) < low or step.get("random") and _grows(times) and len(times) <= GROWN_WAITS:
            if not closes_one(max(self._within(step), LONGEST_WAIT_S)):
                raise Failure("another connection", f"none after {len(times)}" + self._process_state())
        if step.get("random") and _grows(times):
            raise Failure("waits that are multiplied by a random number", "waits that double from 100 ms")

    # Steps that do something to the handler

    def step_deliver(self, delivery_id, step):
        for number in range(step.get("times", 1)):
            unique = self._id(delivery_id, number)
            params = _delivery(step, number)
            self._send_message({"jsonrpc": "2.0", "id": unique, "method": "deliver", "params": params}, step,
                               hold=number + 1 < step.get("times", 1) or step.get("hold"))

    def step_batch(self, batch_id, step):
        entries = [{"id": self._id(entry["id"], number), **_delivery(entry, number)}
                   for entry in step["entries"] for number in range(entry.get("times", 1))]
        self._send_message({"jsonrpc": "2.0", "id": batch_id, "method": "deliver_batch",
                            "params": {"entries": entries}}, step)

    def step_cancel(self, delivery_id, step):
        self._send_message({"jsonrpc": "2.0", "method": "cancel", "params": {
            "delivery": delivery_id, "reason": step.get("reason", "timeout")}}, step)

    def step_send(self, message, step):
        self._send_message(message, step)

    def step_raw(self, text, step):
        self._send(text.encode(), step)

    def step_reply(self, result, step):
        self._send_message({"jsonrpc": "2.0", "id": self._request_id, "result": result}, step)

    def step_reading(self, on, _):
        (self._connection.reading.set if on else self._connection.reading.clear)()

    def step_may(self, ids, _):
        self._may.update(ids)

    def step_close(self, *_):
        self._connection.close()

    def step_listen(self, on, _):
        (self._listener.open if on else self._listener.close)()

    def step_signal(self, name, _):
        os.kill(self._process.pid, getattr(signal, "SIG" + name))

    def step_wait_ms(self, time_ms, _):
        time.sleep(time_ms / 1000)

    # Inside

    @staticmethod
    def _arguments(step):
        return next(iter(step.values())), step

    def _within(self, step):
        """A time that the case names is a limit of the protocol, which impatience does not shorten."""
        if "within_ms" in step:
            return step["within_ms"] / 1000 * max(self.patience, 1)
        return WITHIN_MS / 1000 * self.patience

    @staticmethod
    def _id(text, number=0):
        return text.replace("%d", str(number)) if isinstance(text, str) else text

    def _read(self, within_s, expected="a line"):
        try:
            message = self._connection.read(within_s)
        except Failure as failure:
            if failure.expected == "a line":
                failure.expected = expected
                failure.came += self._process_state()
            raise
        if message is None:
            raise Failure(expected, "the end of the connection" + self._process_state())
        self._note("→", json.dumps(message, ensure_ascii=False))
        return message

    def _process_state(self):
        code = self._process.poll()
        return "" if code is None else f" (the process ended with exit code {code})"

    def _is_allowed(self, message, step):
        if "method" in message:
            return message["method"] in step.get("allow", ())
        if message["id"] in self._may:
            self._may.discard(message["id"])
            return True
        return False

    @staticmethod
    def _matches(pattern, message):
        found = differences(pattern, message)
        if found:
            raise Failure(json.dumps(pattern, ensure_ascii=False)[:2 * SHOWN_LINE], "; ".join(found))

    def _hello_reply(self, step):
        reply = {"protocol": 1, "session": "s1", "max_line_bytes": MAX_LINE, "max_attempts": 10, "ordering": "key",
                 "timeout_ms": self.case["options"].get("timeout_ms", 30000),
                 "subscribe": [{"topic": "*", "types": ["*"]}], **step.get("reply", {})}
        return {name: value for name, value in reply.items() if value != "$absent"}

    def _send_message(self, message, step, hold=None):
        text = json.dumps(message, ensure_ascii=step.get("ascii", False))
        self._send(text.encode() + (b"\r\n" if step.get("crlf") else b"\n"), step, hold)

    def _send(self, data, step, hold=None):
        self._note("←", data.decode(errors="replace").rstrip("\n"))
        self._held += data
        if step.get("hold") if hold is None else hold:
            return
        data, self._held = self._held, b""
        self._connection.send(data, step.get("piece"), step.get("pause_ms", 0) / 1000)

    def _note(self, arrow, text):
        self.dialogue.append(f"{arrow} {text[:SHOWN_LINE]}{'…' if len(text) > SHOWN_LINE else ''}")

    def _nothing_else(self):
        """At the end the process still runs, unless the case ended it, and no line is left over."""
        step = {"allow": self.case.get("allow", ())}
        while not self._exited and self._connection is not None and (line := self._connection.pending(0)):
            if not self._is_allowed(parse(line), step):
                raise Failure("no further line", line[:SHOWN_LINE].decode(errors="replace"))
        if not self._exited and self._process.poll() is not None:
            raise Failure("a process that runs on", f"exit code {self._process.poll()}")


def _grows(times):
    """True for the connections of a handler without jitter: no wait is shorter than nine tenths of the longest one allowed. Six
    random waits look like this once in a million times, and a stall of the machine makes a wait only longer."""
    return all(later - earlier >= 0.09 * 2 ** number for number, (earlier, later) in enumerate(zip(times, times[1:])))


def _repeated(patterns, step):
    """(id, pattern) for each; an id with %d stands for `times` ids."""
    for name, pattern in patterns.items():
        for number in range(step.get("times", 1) if "%d" in name else 1):
            yield name.replace("%d", str(number)), pattern


def _whole(pattern):
    """The answer that a word stands for."""
    return {"result": {"status": pattern}} if isinstance(pattern, str) else pattern


def _entry(pattern):
    if isinstance(pattern, str):
        return {"status": pattern}
    if "$absent" in pattern and isinstance(pattern["$absent"], str):
        return {"$absent": {"status": pattern["$absent"]}}
    return pattern


def _delivery(step, number):
    """The params of a delivery: those of a real one, with the members that the step gives."""
    seq = step.get("seq", 9001) + number
    delivery = {"claim": f"{seq}.1.17", "seq": str(seq), "attempt": 1, "max_attempts": 10,
                "deadline": "2036-11-21T05:42:00.000Z", "replay": False, **step.get("delivery", {})}
    event = {"specversion": "1.0", "id": f"A{seq}", "source": "orders", "type": "done",
             "time": "2026-11-21T05:40:59.120Z", "datacontenttype": "application/json", "kafkatopic": "orders",
             "kafkapartition": 3, "kafkaoffset": "918273", "data": {"order": 17}, **step.get("event", {})}
    if "large" in step:
        event["data"] = {"text": "x" * step["large"]}
    if "deep" in step:
        event["data"] = 1
        for _ in range(step["deep"]):
            event["data"] = [event["data"]]
    event = {name: value for name, value in event.items() if value != "$absent"}
    return {**step.get("params", {}), "delivery": delivery, "event": event, "headers": step.get("headers", [])}
