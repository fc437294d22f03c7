"""The sidecars of a run, one or several of one group, each with its own handler."""

import json
import os
import pathlib
import signal

from support import process
from support.sidecar import SANITIZERS, Sidecar, binary
from support.wait import eventually

import costs

HANDLER = "bench"
BUILD = pathlib.Path(binary()).parents[1]


def program(*path):
    """A program of the build that is measured, also while another inboxd is measured for comparison."""
    return str(BUILD.joinpath(*path))


class Handler:
    """examples/noop_handler of the same build, without a ledger."""

    def command(self, sidecar, batch, count):
        return [program("examples", "noop_handler"), "--socket", sidecar.socket_path,
                "--name", self.name, "--batch", str(batch), "--count-to-file", count]

    def __init__(self, sidecar, batch, name=HANDLER):
        self.name = name
        self._count = os.path.join(sidecar.directory, f"count.{name}")
        self._log = os.path.join(sidecar.directory, f"handler.{name}.log")
        self._process = process.spawn(
            self.command(sidecar, batch, self._count), self._log, env={**os.environ, **SANITIZERS})

    def cpu_seconds(self):
        return costs.of_process(self._process.pid)

    def stop(self):
        """What it has counted: {"deliveries": …, "distinct": …}"""
        code = process.end(self._process, signal.SIGTERM)
        assert code == 0, f"the handler ended with {code}: {process.tail(self._log)}"
        return json.loads(pathlib.Path(self._count).read_text(encoding="ascii"))


class Fleet:
    """`first` and more of the same kind: same database and group, different sockets and ports."""

    def __init__(self, first, instances=1, batch=1, handler=Handler, names=None):
        """`names`: of the handlers; otherwise there is one for each consumer of the configuration, with its name."""
        shared = {name: first.configuration[name] for name in first.configuration
                  if name not in ("socket", "http")}
        self.sidecars = [first] + [Sidecar(shared) for _ in range(instances - 1)]
        self._batch = batch
        self._handler = handler
        self._names = names or list(first.configuration.get("consumers", {})) or [HANDLER]
        self._handlers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sidecar in self.sidecars:
            if sidecar.is_running():
                sidecar.kill()

    def start(self):
        self._handlers = [self._handler(sidecar, self._batch, name) for sidecar in self.sidecars for name in self._names]
        for sidecar in self.sidecars:
            sidecar.start("run", ready=False)

    def stop_each(self):
        """The counts that each handler prints at its end."""
        said = [handler.stop() for handler in self._handlers]
        for sidecar in self.sidecars:
            assert sidecar.stop() == 0, process.tail(sidecar.log)
        return said

    def stop(self):
        """The sum of the handlers' counts. A message that two handlers got counts twice."""
        counted = self.stop_each()
        return {name: sum(one[name] for one in counted) for name in counted[0]}

    def connected(self):
        try:
            return all(sidecar.metric("inboxd_handlers_connected", handler=name) == 1
                       for sidecar in self.sidecars for name in self._names)
        except OSError:
            return False

    def wait_assigned(self, connection, partitions):
        """Waits until the handlers are connected and the table has an owner for every partition."""
        eventually(self.connected, timeout=30, every=0.02,
                   what=f"the handlers to connect; inboxd: {self.log()}")
        assert _owned(connection) == 0, "partitions were assigned before the handlers were connected"
        eventually(lambda: _owned(connection) == partitions, timeout=60, every=0.005,
                   what=f"partitions; inboxd: {self.log()}")

    def is_running(self):
        return all(sidecar.is_running() for sidecar in self.sidecars)

    def log(self):
        return "\n".join(process.tail(sidecar.log) for sidecar in self.sidecars)

    def counters(self):
        return [sidecar.metrics() for sidecar in self.sidecars]

    def cpu_seconds(self):
        return sum(costs.of_process(sidecar.pid) for sidecar in self.sidecars)

    def handler_cpu_seconds(self):
        return sum(handler.cpu_seconds() for handler in self._handlers)

    def peak_memory(self):
        """The highest value of all sidecars."""
        return max(sidecar.peak_memory() for sidecar in self.sidecars)


def _owned(connection):
    return connection.execute("SELECT count(owner) FROM inbox.inbox_offsets").fetchone()[0]
