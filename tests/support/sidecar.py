"""One inboxd under test: a generated configuration, a process, its log, its HTTP endpoints.

The binary is build-asan/src/inboxd unless INBOXD_BINARY names another one.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from support import metrics, process
from support.wait import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_TIMEOUT = 30
STOP_TIMEOUT = 40
SANITIZER_REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer")
SANITIZER_EXIT = 99
SANITIZERS = {
    "ASAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:detect_leaks=1:quarantine_size_mb=16",
    "LSAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:suppressions={ROOT}/tests/support/lsan.supp"
                    ":print_suppressions=0",
    "UBSAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:suppressions={ROOT}/tests/support/tsan.supp",
}


def binary():
    return os.environ.get("INBOXD_BINARY") or str(ROOT / "build-asan" / "src" / "inboxd")


def next_binary():
    """inboxd-next of the same build. A build without tests, as that of the shipped librdkafka, takes it from the one with sanitizers."""
    beside = pathlib.Path(binary()).resolve().parents[1] / "tests/sql/inboxd-next"
    return beside if beside.exists() else ROOT / "build-asan/tests/sql/inboxd-next"


def merge(*configurations):
    """Sections of later configurations override key by key; a value of None removes the key."""
    merged = {}
    for configuration in configurations:
        for section, keys in (configuration or {}).items():
            if isinstance(keys, dict):
                merged[section] = {name: value for name, value
                                   in {**merged.get(section, {}), **keys}.items()
                                   if value is not None}
            elif keys is not None:
                merged[section] = keys
    return merged


def to_yaml(value, indent=0):
    """The subset of YAML that a configuration needs: mappings, scalars and lists of scalars."""
    lines = []
    for name, item in value.items():
        lead = f"{'  ' * indent}{json.dumps(name)}:"
        if isinstance(item, dict):
            lines += [lead, to_yaml(item, indent + 1)]
        elif isinstance(item, (list, tuple)):
            lines.append(f"{lead} [{', '.join(json.dumps(entry) for entry in item)}]")
        else:
            lines.append(f"{lead} {json.dumps(item)}")
    return "\n".join(line for line in lines if line)


class Sidecar:
    """One configured instance, started and stopped any number of times."""

    def __init__(self, configuration, directory=None, env=None):
        self.directory = directory or process.scratch("sidecar")
        self.http_port = process.free_port()
        self.configuration = merge({
            "socket": {"path": os.path.join(self.directory, "inbox.sock")},
            "http": {"listen": f"127.0.0.1:{self.http_port}"},
        }, configuration)
        self.socket_path = self.configuration["socket"]["path"]
        self.config_file = os.path.join(self.directory, "inboxd.yaml")
        self.log = os.path.join(self.directory, "inboxd.log")
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("INBOXD_", "PYTEST_"))}
        self.env = {**inherited, **SANITIZERS, **(env or {})}
        self.user = None  # its database user; None: the one of its configuration
        self.program = binary()
        self.migrated = False  # whether its schema is there already, with the grants of the roles
        self.process = None
        self.write_configuration()

    def write_configuration(self, changes=None):
        """Writes the file again with `changes`, for reloads and restarts."""
        self.configuration = merge(self.configuration, changes)
        pathlib.Path(self.config_file).write_text(to_yaml(self.configuration) + "\n",
                                                  encoding="utf-8")

    # Life

    def start(self, *arguments, ready=True, errors=None):
        """`run`, with `--migrate` if needed, unless `arguments` say otherwise; waits for /readyz. `errors`: a descriptor for
        stderr."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        env = self.env if arguments else {**self.env, **self._as_user()}
        command = [self.program, *(arguments or self._run()), "-c", self.config_file]
        self.process = process.spawn(command, self.log, env=env, cwd=self.directory, errors=errors)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self, timeout=START_TIMEOUT):
        eventually(self._is_ready, timeout=timeout,
                   what=f"inboxd to be ready; its log ends with:\n{process.tail(self.log)}")

    def stop(self, number=signal.SIGTERM, timeout=STOP_TIMEOUT):
        """Sends SIGTERM; returns the exit code. A stop that takes too long is a failure."""
        self.signal(number)
        return self.wait(timeout)

    def wait(self, timeout=STOP_TIMEOUT):
        """Waits for its end; returns the exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise AssertionError(f"inboxd did not end within {timeout} s; its log ends with:\n"
                                 f"{process.tail(self.log)}") from None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait(10)

    def restart(self, **options):
        self.stop()
        return self.start(**options)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    # Its output

    @property
    def stderr(self):
        """Everything it has written, across restarts. A thread of its own writes the log: this waits for what was logged
        before an answer that the test has seen. It does not wait for a stopped process."""
        if self.process is not None and self.process.poll() is None:
            deadline = time.monotonic() + 5
            while process.is_writing_its_log(self.process.pid) and time.monotonic() < deadline:
                time.sleep(0.001)
        return pathlib.Path(self.log).read_text(encoding="utf-8", errors="replace")

    def sanitizer_report(self):
        """The report of a sanitizer in its log, or None."""
        found = SANITIZER_REPORT.search(self.stderr) if os.path.exists(self.log) else None
        return self.stderr[found.start():][:6000] if found else None

    def command(self, *arguments, env=None, timeout=60):
        """Runs one command of the program with the same configuration."""
        return subprocess.run([self.program, *arguments, "-c", self.config_file], capture_output=True,
                              text=True, env={**self.env, **(env or {})}, timeout=timeout,
                              cwd=self.directory)

    def _as_user(self):
        """The environment that makes it run as `user`. The schema's owner migrates once before."""
        if self.user is None:
            return {}
        if not self.migrated:
            self.migrate()
        return {"INBOXD_POSTGRES_USER": self.user}

    def _run(self):
        return ("run",) if self.migrated else ("run", "--migrate")

    def migrate(self):
        """As the owner of the schema, with the roles."""
        done = self.command("migrate", "--roles=inboxd")
        if done.returncode != 0:
            raise process.StartFailed(f"migrate --roles: {done.stderr}")
        self.migrated = True

    # HTTP

    def get(self, path, accept=None, method="GET", timeout=30):
        """(status, headers, body) of a request."""
        request = urllib.request.Request(f"http://{self.configuration['http']['listen']}{path}",
                                         headers={"Accept": accept} if accept else {},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers, answer.read().decode()

    def metrics(self):
        return metrics.parse(self.get("/metrics")[2])[0]

    def metric(self, name, **labels):
        return self.metrics().value(name, **labels)

    def status(self):
        return json.loads(self.get("/status")[2])

    # Its memory

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self):
        """Bytes resident at most so far."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024

    def _is_ready(self):
        if self.process.poll() is not None:
            raise process.StartFailed(f"inboxd ended with exit code {self.process.returncode}:\n"
                                      f"{process.tail(self.log)}")
        try:
            return self.get("/readyz", timeout=5)[0] == 200
        except OSError:
            return False
