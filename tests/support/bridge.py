"""A handler that is a command of inboxd: `inboxd exec` or `inboxd forward`, from the build of the sidecar under test."""

import os
import pathlib
import signal

from support import process
from support.sidecar import SANITIZER_REPORT, SANITIZERS, binary
from support.wait import eventually


class Bridge:
    """One such process. `arguments` follow the options that every handler needs."""

    def __init__(self, command, socket_path, *arguments, name="bridge", env=None, connected=True,
                 errors=None):
        self.directory = process.scratch("bridge")
        self.log = os.path.join(self.directory, "bridge.log")
        self.process = process.spawn(
            [binary(), command, "--handler", name, "--socket", socket_path, *map(str, arguments)],
            self.log, env={**os.environ, **SANITIZERS, **(env or {})}, cwd=self.directory, errors=errors)
        if connected:
            self.wait_log("connected to")

    @property
    def stderr(self):
        """Everything that its thread has written so far; wait_log() waits for a line."""
        return pathlib.Path(self.log).read_text(encoding="utf-8", errors="replace")

    def wait_log(self, text, timeout=30):
        return eventually(lambda: text in self.stderr, timeout, what=f"{text!r} in {self.stderr!r}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def wait(self, timeout=30):
        return self.process.wait(timeout)

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def sanitizer_report(self):
        found = SANITIZER_REPORT.search(self.stderr)
        return self.stderr[found.start():][:6000] if found else None
