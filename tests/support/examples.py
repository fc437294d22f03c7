"""Programs of examples/, as whoever reads the documentation runs them."""

import os
import pathlib
import re
import sys

from support import process
from support.sidecar import SANITIZERS, binary

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Example:
    """One that runs: a .py file by this Python, a .c file as the build of the sidecar under test made it."""

    def __init__(self, file, socket_path, env=None):
        name = pathlib.Path(file)
        command = [sys.executable, str(EXAMPLES / file)] if name.suffix == ".py" else \
            [str(pathlib.Path(binary()).parents[1] / "examples" / name.stem)]
        self.log = os.path.join(process.scratch("example"), "output")
        self._process = process.spawn(
            command, self.log, env={**os.environ, **SANITIZERS, "INBOXD_SOCKET_PATH": socket_path, **(env or {})})

    @property
    def output(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8")

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        """Asks it to end; returns the exit code."""
        return process.end(self._process)


def blocks(document, language):
    """The fenced blocks of a document that are in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.M | re.S)
