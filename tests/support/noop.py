"""The C handler that answers `done` at once and records every delivery, as fast as needed."""

import os
import pathlib

from support import process
from support.sidecar import SANITIZERS, binary


class NoopHandler:
    """examples/noop_handler from the build of the sidecar under test."""

    def __init__(self, socket_path, name="noop", window=1000, batch=1, timeout_ms=30_000, ordered=False):
        self.directory = process.scratch("noop")
        self.ledger = os.path.join(self.directory, "ledger")
        self.log = os.path.join(self.directory, "noop.log")
        build = pathlib.Path(binary()).parents[1]
        self._process = process.spawn(
            [str(build / "examples" / "noop_handler"), "--socket", socket_path, "--name", name,
             "--window", str(window), "--batch", str(batch), "--timeout", str(timeout_ms),
             "--ledger", self.ledger, *(["--ordered"] if ordered else [])],
            self.log, env={**os.environ, **SANITIZERS})

    def lines(self):
        """One line a delivery so far: event id, seq, attempt."""
        self.stop()
        return pathlib.Path(self.ledger).read_text(encoding="utf-8").splitlines()

    def count(self):
        """Deliveries so far."""
        try:
            return pathlib.Path(self.ledger).read_text(encoding="utf-8").count("\n")
        except FileNotFoundError:
            return 0

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        process.end(self._process)
