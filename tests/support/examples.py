"""Programs of examples/, run as the documentation shows."""

import os
import pathlib
import re
import signal
import sys

from support import process
from support.sidecar import SANITIZERS, binary

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Example:
    """A running example: a .py file with this Python, a .c file from the build of the sidecar under test."""

    def __init__(self, file, socket_path, env=None, command=None, arguments=()):
        self._is_java = bool(command) and command[0] == "java"
        name = pathlib.Path(file)
        command = command or ([sys.executable, str(EXAMPLES / file)] if name.suffix == ".py" else
                              [str(pathlib.Path(binary()).parents[1] / "examples" / name.with_suffix(""))])
        self.log = os.path.join(process.scratch("example"), "output")
        self._process = process.spawn(
            [*command, *map(str, arguments)], self.log, env={**os.environ, **SANITIZERS, "INBOXD_SOCKET_PATH": socket_path, **(env or {})})

    @property
    def output(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8")

    def is_running(self):
        return self._process.poll() is None

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        """Sends SIGTERM; returns the exit code. A JVM ends with 143 when its shutdown hooks have ended; that counts as 0."""
        code = process.end(self._process)
        return 0 if self._is_java and code == 128 + signal.SIGTERM else code


def blocks(document, language):
    """The fenced blocks of a document that are in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.M | re.S)
