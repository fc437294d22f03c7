"""The two ways a test talks to inboxd's socket.

Wire is a raw client: it sends the bytes it is told to and reads lines back, for tests of the protocol itself. Handler
is a scripted handler in its own thread, for everything else: a Python
function decides the answer to each delivery, and every delivery is recorded.
"""

import base64
import collections
import concurrent.futures
import json
import socket
import threading
import time

TIMEOUT = 30.0


class Refused(AssertionError):
    """inboxd answered a request with an error."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


def connect(path, timeout=TIMEOUT):
    """A connected socket; waits for the path to appear and be listened on."""
    deadline = time.monotonic() + timeout
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(str(path))
            return client
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def hello_params(handler="wire", **params):
    """The params of a hello; members given as None are left out."""
    members = {"protocol": [1], "handler": handler, **params}
    return {name: value for name, value in members.items() if value is not None}


class Wire:
    """One connection, byte by byte. Use it as a context manager.

    With `timeout` set to None it waits for ever; then one thread may read while another sends.
    """

    def __init__(self, path, timeout=TIMEOUT):
        self.timeout = timeout
        self.socket = connect(path, timeout)
        self._buffer = b""
        self._requests = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # Sending

    def send_bytes(self, data):
        if self.timeout is not None:
            self.socket.settimeout(self.timeout)
        self.socket.sendall(data)

    def send_line(self, line):
        """A dictionary as JSON, or text or bytes as they are; with the LF."""
        if isinstance(line, (dict, list)):
            line = json.dumps(line)
        if isinstance(line, str):
            line = line.encode()
        self.send_bytes(line + b"\n")

    def notify(self, method, **params):
        self.send_line({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, delivery_id, **result):
        self.send_line({"jsonrpc": "2.0", "id": delivery_id, "result": result})

    # Reading

    def read_bytes_line(self, timeout=None):
        """One line without its LF; None at the end of the connection."""
        timeout = self.timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._buffer:
            if deadline is not None:
                self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                assert not self._buffer, f"the connection ended inside a line: {self._buffer!r}"
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def read_line(self, timeout=None):
        """One line as a dictionary; None at the end of the connection."""
        line = self.read_bytes_line(timeout)
        if line is None:
            return None
        message = json.loads(line.decode("utf-8", "strict"))
        assert message.get("jsonrpc") == "2.0", f"not JSON-RPC 2.0: {message}"
        return message

    def expect_error(self, code, request_id=None):
        """The next line is this error; returns its message."""
        line = self.read_line()
        assert line is not None, f"the connection ended where error {code} was expected"
        assert "error" in line, f"error {code} was expected: {line}"
        assert (line["error"]["code"], line["id"]) == (code, request_id), line
        assert line["error"]["message"], "an error without words"
        return line["error"]["message"]

    def expect_delivery(self, timeout=None):
        """The next line is a `deliver` or `deliver_batch` request; returns it."""
        line = self.read_line(timeout)
        assert line is not None, "the connection ended where a delivery was expected"
        assert line.get("method") in ("deliver", "deliver_batch"), line
        return line

    def expect_cancel(self, delivery_id, reason, timeout=None):
        line = self.read_line(timeout)
        assert line == {"jsonrpc": "2.0", "method": "cancel",
                        "params": {"delivery": delivery_id, "reason": reason}}, line

    def expect_silence(self, seconds=0.5):
        """No line arrives, and the connection stays open."""
        try:
            line = self.read_line(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"nothing was expected: {line}")

    def expect_end(self, timeout=None):
        line = self.read_line(timeout)
        assert line is None, f"the end of the connection was expected: {line}"

    # Requests

    def request(self, method, params=None, request_id=None):
        """Sends a request and returns its result; Refused when it is an error. No other line may
        come in between."""
        self._requests += 1
        request_id = self._requests if request_id is None else request_id
        line = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send_line(line if params is None else {**line, "params": params})
        reply = self.read_line()
        assert reply is not None, f"the connection ended instead of a reply to {method}"
        assert reply["id"] == request_id, reply
        if "error" in reply:
            raise Refused(reply["error"])
        return reply["result"]

    def hello(self, handler="wire", **params):
        return self.request("hello", hello_params(handler, **params))


# What a handler can decide

NEVER = object()  # no answer: the delivery stays open until its deadline or answer()
CLOSE = object()  # the connection ends at once, as if the handler had crashed


def done(result=None):
    return {"status": "done"} if result is None else {"status": "done", "result": result}


def retry(reason=None, delay_ms=None, code=None):
    return _without_none(status="retry", reason=reason, delay_ms=delay_ms, code=code)


def dead(reason=None, code=None):
    return _without_none(status="dead", reason=reason, code=code)


def snooze(delay_ms, reason=None, code=None):
    return _without_none(status="snooze", delay_ms=delay_ms, reason=reason, code=code)


def settled():
    return {"status": "settled"}


class Error:
    """An error object as answer, as for an exception. Deciding by raising does the same."""

    def __init__(self, message, code=-32000, data=None):
        self.members = _without_none(code=code, message=message, data=data)


def _without_none(**members):
    return {name: value for name, value in members.items() if value is not None}


class Delivery:
    """One delivery, or one entry of a batch, as the handler received it."""

    def __init__(self, delivery_id, params, batch_id=None):
        self.received_at = time.monotonic()
        self.answered_at = None
        self.id = delivery_id
        self.batch_id = batch_id
        self.params = params
        self.delivery = params["delivery"]
        self.claim = self.delivery["claim"]
        self.seq = int(self.delivery["seq"])
        self.attempt = self.delivery["attempt"]
        self.replay = self.delivery["replay"]
        self.event = params["event"]
        self.event_id = self.event["id"]
        self.source = self.event["source"]
        self.type = self.event["type"]
        self.topic = self.event["kafkatopic"]
        self.partition = self.event["kafkapartition"]
        self.offset = int(self.event["kafkaoffset"])
        self.headers = params["headers"]

    @property
    def key(self):
        """The record's key as bytes; None when it has none."""
        if "partitionkeybase64" in self.event:
            return base64.b64decode(self.event["partitionkeybase64"])
        key = self.event.get("partitionkey")
        return None if key is None else key.encode()

    @property
    def is_tombstone(self):
        return "data" not in self.event and "data_base64" not in self.event

    @property
    def data(self):
        """JSON data as Python values, anything else as bytes; None for a tombstone."""
        if "data_base64" in self.event:
            return base64.b64decode(self.event["data_base64"])
        return self.event.get("data")

    def __repr__(self):
        return f"<{self.id} {self.event_id} attempt {self.attempt}>"


class Handler:
    """A scripted handler. `decide(delivery)` returns what done(), retry() … return, an Error, NEVER
    or CLOSE; what it raises becomes an error answer. It is called in the handler's own thread, one
    delivery after the other, unless `workers` is above 0: then in that many threads.

    With batch > 1 the answers to a batch's entries go out together; entries decided NEVER are left
    out, and when all are, there is no answer. Raises Refused when hello is answered with an error.
    """

    def __init__(self, path, decide=None, name="handler", subscribe=None, max_in_flight=64,
                 timeout_ms=None, batch=None, batch_wait_ms=0, instance=None, workers=0,
                 **params):
        self.decide = decide or (lambda delivery: done())
        self.deliveries = []   # Delivery, in the order received
        self.batches = []      # lists of Delivery
        self.cancels = []      # params of each cancel
        self.errors = []       # error objects that were no reply to a request
        self.exceptions = []   # an exception in this class: the test fails
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._replies = collections.OrderedDict()
        self._requests = 0
        self._open = {}
        self._pool = concurrent.futures.ThreadPoolExecutor(workers) if workers else None
        self.wire = Wire(path)
        try:
            self.session = self.wire.hello(
                name, subscribe=subscribe, max_in_flight=max_in_flight, timeout_ms=timeout_ms,
                instance=instance, **params,
                batch=batch and {"max": batch, "wait_ms": batch_wait_ms})
        except BaseException:
            self.wire.close()
            raise
        self.wire.timeout = None
        self.wire.socket.settimeout(None)
        self._thread = threading.Thread(target=self._run, name=f"handler {name}", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # What it has received

    @property
    def event_ids(self):
        with self._changed:
            return [delivery.event_id for delivery in self.deliveries]

    @property
    def count(self):
        return len(self.deliveries)

    @property
    def open_ids(self):
        """Ids of deliveries that are neither answered nor cancelled."""
        with self._changed:
            return list(self._open)

    def of(self, event_id):
        """All deliveries of one event."""
        with self._changed:
            return [delivery for delivery in self.deliveries if delivery.event_id == event_id]

    def wait_for(self, condition, timeout=30.0, what="the handler"):
        """Waits until `condition()` is true and returns its value; checks it after every line."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = condition()
                if found:
                    return found
                left = deadline - time.monotonic()
                assert left > 0, f"not within {timeout:g} s: {what}; {self._summary()}"
                self._changed.wait(min(left, 0.5))

    def wait_count(self, count, timeout=30.0):
        """Waits for that many deliveries; returns them."""
        self.wait_for(lambda: len(self.deliveries) >= count, timeout, f"{count} deliveries")
        return self.deliveries[:count]

    def wait_event(self, event_id, times=1, timeout=30.0):
        """Waits for the n-th delivery of one event; returns it."""
        self.wait_for(lambda: len(self.of(event_id)) >= times, timeout,
                      f"delivery {times} of {event_id}")
        return self.of(event_id)[times - 1]

    def wait_cancel(self, delivery_id, timeout=30.0):
        """Waits for the cancel of a delivery; returns its reason."""
        return self.wait_for(lambda: next((cancel["reason"] for cancel in self.cancels
                                           if cancel["delivery"] == delivery_id), None),
                             timeout, f"cancel of {delivery_id}")

    # What it can do

    def answer(self, delivery, decision):
        """Answers a delivery that was decided NEVER. Returns False when the connection is gone."""
        if decision is CLOSE:
            self.abort()
            return False
        if decision is NEVER:
            return True
        self._close_open([delivery])
        return self._send(_answer_line(delivery.id, decision))

    def extend(self, delivery, timeout_ms):
        return self._notify("extend", delivery=delivery.id, timeout_ms=timeout_ms)

    def window(self, max_in_flight):
        """Returns when inboxd has read it: a window has no reply, but a poke has one."""
        self._notify("window", max_in_flight=max_in_flight)
        with self._changed:
            self._requests += 1
            request_id = f"poke-{self._requests}"
        self._send({"jsonrpc": "2.0", "id": request_id, "method": "poke"})
        self.wait_for(lambda: request_id in self._replies, what="the window to be read")

    def drain(self, timeout=30.0):
        """Asks for no more deliveries and waits until none is open; returns the result."""
        with self._changed:
            self._requests += 1
            request_id = f"drain-{self._requests}"
        self._send({"jsonrpc": "2.0", "id": request_id, "method": "drain"})
        return self.wait_for(lambda: self._replies.get(request_id), timeout, "the end of drain")

    def abort(self):
        """Ends the connection at once, whatever is open."""
        try:
            self.wire.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self):
        """Ends the connection and the thread. Fails when the script itself failed."""
        self.abort()
        self._thread.join(TIMEOUT)
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self.wire.close()
        assert not self.exceptions, f"the scripted handler failed: {self.exceptions[0]!r}"

    # The thread

    def _run(self):
        try:
            while (line := self.wire.read_line()) is not None:
                self._take(line)
        except OSError:
            pass  # aborted
        except Exception as error:  # close() raises it, so the test fails
            self.exceptions.append(error)
        finally:
            self.ended.set()
            with self._changed:
                self._changed.notify_all()

    def _take(self, line):
        method = line.get("method")
        if method == "deliver":
            self._take_deliveries(line["id"], [Delivery(line["id"], line["params"])], False)
        elif method == "deliver_batch":
            entries = [Delivery(entry["id"], entry, line["id"])
                       for entry in line["params"]["entries"]]
            self._take_deliveries(line["id"], entries, True)
        else:
            self._take_other(line)

    def _take_deliveries(self, request_id, deliveries, is_batch):
        with self._changed:
            self.deliveries += deliveries
            if is_batch:
                self.batches.append(deliveries)
            for delivery in deliveries:
                self._open[delivery.id] = delivery
            self._changed.notify_all()
        if self._pool:
            self._pool.submit(self._work, request_id, deliveries, is_batch)
        else:
            self._work(request_id, deliveries, is_batch)

    def _take_other(self, line):
        with self._changed:
            if line.get("method") == "cancel":
                self.cancels.append(line["params"])
                self._open.pop(line["params"]["delivery"], None)
            elif line.get("id") is not None and "result" in line:
                self._replies[line["id"]] = line["result"]
            elif "error" in line:
                self.errors.append(line["error"])
            self._changed.notify_all()

    def _work(self, request_id, deliveries, is_batch):
        decisions = [self._decide(delivery) for delivery in deliveries]
        if CLOSE in decisions:
            self.abort()
            return
        answered = [(delivery, decision) for delivery, decision in zip(deliveries, decisions)
                    if decision is not NEVER]
        if not answered:
            return
        self._close_open([delivery for delivery, _ in answered])
        self._send(_batch_line(request_id, answered) if is_batch
                   else _answer_line(request_id, answered[0][1]))

    def _decide(self, delivery):
        try:
            decision = self.decide(delivery)
        except Exception as error:  # as a handler library answers
            return Error(f"{type(error).__name__}: {error}")
        return done() if decision is None else decision

    def _close_open(self, deliveries):
        with self._changed:
            for delivery in deliveries:
                delivery.answered_at = time.monotonic()
                self._open.pop(delivery.id, None)
            self._changed.notify_all()

    def _notify(self, method, **params):
        return self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, line):
        try:
            with self._sending:
                self.wire.send_line(line)
            return True
        except OSError:
            return False

    def _summary(self):
        last = ", ".join(repr(delivery) for delivery in self.deliveries[-5:])
        return (f"{len(self.deliveries)} deliveries, the last: {last or 'none'};"
                f" {len(self.cancels)} cancels; errors: {self.errors};"
                f" exceptions: {self.exceptions};"
                f" connection {'ended' if self.ended.is_set() else 'open'}")


def _answer_line(request_id, decision):
    if isinstance(decision, Error):
        return {"jsonrpc": "2.0", "id": request_id, "error": decision.members}
    return {"jsonrpc": "2.0", "id": request_id, "result": decision}


def _batch_line(request_id, answered):
    entries = [{"id": delivery.id, **_entry(decision)} for delivery, decision in answered]
    return {"jsonrpc": "2.0", "id": request_id, "result": {"entries": entries}}


def _entry(decision):
    if isinstance(decision, Error):
        return retry(decision.members["message"], code="HANDLER_ERROR")
    return decision
