"""A shell in which a test types commands, as a reader of the documentation does."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from support.wait import eventually


class Terminal:
    """A bash in its own process group, whose output is a file."""

    def __init__(self, directory, *command, cwd):
        self._log = pathlib.Path(directory) / f"terminal-{time.monotonic_ns()}"
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(command or ["bash"], cwd=cwd, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                             start_new_session=True)

    @property
    def output(self):
        return self._log.read_text(encoding="utf-8")

    def is_running(self):
        return self._process.poll() is None

    def run(self, command):
        """Runs a command and returns its output."""
        before, end = len(self.output), f"END-{time.monotonic_ns()}"
        self._process.stdin.write(f"{command}\necho {end}\n".encode())
        self._process.stdin.flush()
        eventually(lambda: f"{end}\n" in self.output[before:], timeout=120, what=f"{command} to end")
        return self.output[before:].replace(f"{end}\n", "")

    def close(self):
        """Sends SIGINT, like Ctrl-C."""
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            return self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise
