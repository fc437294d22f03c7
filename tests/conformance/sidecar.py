"""The socket of inboxd, played by the kit: it listens, accepts connections, sends bytes, and reads lines.

Each line of the handler is checked as inboxd checks it: UTF-8, one JSON object, JSON-RPC 2.0, no member twice. A thread
reads all the time, unless the case says that inboxd does not read.
"""

import json
import os
import queue
import socket
import threading
import time

MAX_LINE = 33_554_432


class Failure(Exception):
    """The handler did not do what the case expects."""

    def __init__(self, expected, came):
        super().__init__(f"expected {expected}; came {came}")
        self.expected = expected
        self.came = came


class Listener:
    def __init__(self, path):
        self.path = path
        self._socket = None

    def open(self):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(128)

    def close(self):
        if self._socket is not None:
            self._socket.close()
            os.unlink(self.path)
            self._socket = None

    def accept(self, within_s):
        """The next connection; None when there is none in time."""
        self._socket.settimeout(max(within_s, 0.001))
        try:
            return Connection(self._socket.accept()[0])
        except (socket.timeout, BlockingIOError):
            return None


class Connection:
    def __init__(self, accepted):
        accepted.settimeout(None)
        self.reading = threading.Event()
        self.reading.set()
        self._socket = accepted
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, data, piece=None, pause_s=0.0):
        """Sends the bytes, at once or in pieces with a pause between them. Ignores a handler that is gone: what the
        case expects next shows it."""
        step = piece or max(len(data), 1)
        try:
            for start in range(0, len(data), step):
                self._socket.sendall(data[start:start + step])
                if piece:
                    time.sleep(pause_s)
        except OSError:
            pass

    def read(self, within_s):
        """The next line, parsed; None at the end of the connection. Failure if it is late or not a line."""
        try:
            line = self._lines.get(timeout=max(within_s, 0.001))
        except queue.Empty:
            raise Failure("a line", f"nothing within {within_s:.1f} s") from None
        return line if line is None else parse(line)

    def pending(self, within_s):
        """The next line if there is one within this time, "" if there is none, None at the end."""
        try:
            return self._lines.get(timeout=max(within_s, 0.001))
        except queue.Empty:
            return b""

    def close(self):
        # shutdown() also ends the recv() of the thread, which would keep the connection open.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.reading.set()
        self._socket.close()

    def _read(self):
        parts = []
        while True:
            self.reading.wait()
            try:
                data = self._socket.recv(1 << 20)
            except OSError:
                data = b""
            if not data:
                break
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._lines.put(b"".join([*parts, line]))
                parts = []
            parts.append(rest)
        if any(parts):
            self._lines.put(b"".join(parts) + b" (the connection ended inside of this line)")
        self._lines.put(None)


def parse(line):
    """The object of a line. Failure with what inboxd would say about it."""
    if len(line) >= MAX_LINE:
        raise Failure(f"a line of less than {MAX_LINE} bytes", f"{len(line)} bytes")
    try:
        message = json.loads(line.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant)
    except ValueError as error:
        raise Failure("a line that is UTF-8 and JSON", f"{line[:200]!r} ({error})") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Failure('an object with "jsonrpc":"2.0"', repr(line[:200]))
    answer = ("result" in message) + ("error" in message)
    if ("method" in message) + answer != 1 or (answer and "id" not in message):
        raise Failure("a request, a notification or an answer with an id and either result or error", repr(line[:200]))
    return message


def _members(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice in its object")
    return members


def _no_constant(text):
    raise ValueError(f"{text} is not JSON")
