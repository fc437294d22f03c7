"""A scripted sidecar on a socket, and a handler that runs in a thread."""

import json
import socket
import threading

import inboxd
import pytest

TIMEOUT = 10


class Sidecar:
    """One connection of a handler, spoken to in lines."""

    def __init__(self, path):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(TIMEOUT)
        self._connection = None

    def accept(self, **terms):
        """Returns the params of the hello, which is accepted."""
        self.hang_up()
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(TIMEOUT)
        self._lines = self._connection.makefile("rb")
        hello = self.read()
        self.send(id=1, result={"protocol": 1, "session": "s1", "timeout_ms": 30000, "ordering": "key", **terms})
        return hello["params"]

    def read(self):
        return json.loads(self._lines.readline())

    def read_end(self):
        """What comes before the end of the connection."""
        return self._lines.read()

    def send(self, **message):
        self._connection.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def deliver(self, number, delivery=None, headers=(), **event):
        self.send(id=f"d{number}", method="deliver", params=params(number, delivery, headers, event))

    def batch(self, *events):
        entries = [{"id": f"d{number}", **params(number, None, (), event)} for number, event in enumerate(events, 1)]
        self.send(id="b1", method="deliver_batch", params={"entries": entries})

    def answer(self, number=1):
        """The result of the answer that comes next."""
        message = self.read()
        assert message["id"] == f"d{number}"
        return message["result"]

    def answers(self):
        """The entries of the answer for the batch, by the number of the delivery."""
        message = self.read()
        assert message["id"] == "b1"
        return {int(entry.pop("id")[1:]): entry for entry in message["result"]["entries"]}

    def hang_up(self):
        if self._connection is not None:
            self._connection.shutdown(socket.SHUT_RDWR)
            self._lines.close()
            self._connection.close()
            self._connection = None

    def close(self):
        self.hang_up()
        self._listener.close()


def params(number, delivery, headers, event):
    return {
        "delivery": {"claim": f"{number}.1.17", "seq": str(number), "attempt": 1, "max_attempts": 10, **(delivery or {})},
        "event": {
            "specversion": "1.0",
            "id": f"A{number}",
            "source": "orders",
            "type": "order.created",
            "kafkatopic": "orders",
            "kafkapartition": 3,
            "kafkaoffset": "7",
            "data": {"order": number},
            **event,
        },
        "headers": list(headers),
    }


@pytest.fixture
def sidecar(tmp_path):
    sidecar = Sidecar(tmp_path / "inbox.sock")
    yield sidecar
    sidecar.close()


@pytest.fixture
def start(tmp_path, sidecar):
    """start(function, **options) -> a handler that runs; it is stopped after the test. `setup` registers more functions."""
    running = []

    def begin(*functions, on=(), batches=False, setup=None, **options):
        options = {"socket": tmp_path / "inbox.sock", "drain_timeout": 2, "backoff": (0.01, 0.05), **options}
        handler = inboxd.Handler("billing", **options)
        for function in functions:
            (handler.on_batch if batches else handler.on)(*on)(function)
        if setup is not None:
            setup(handler)
        thread = threading.Thread(target=handler.run, daemon=True)
        running.append((handler, thread))
        thread.start()
        return handler

    yield begin
    for handler, thread in running:
        handler.stop()
        sidecar.close()
        thread.join(TIMEOUT)
        assert not thread.is_alive()
