"""A private PostgreSQL with its own data directory and port; never the machine's cluster.

If we are root, it runs as an unprivileged user, because initdb and postgres refuse root. fsync stays on.
From a shell: `python3 -m support.postgres --env FILE` writes PG* variables to FILE once it answers
and runs until SIGTERM.
"""

import argparse
import contextlib
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess

from support import embedded, process
from support.wait import eventually

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %q%d %a ",
    "max_wal_size": "2GB",
    "max_prepared_transactions": "4",
}


def binaries():
    """The directory of the newest server installed, and of its clients."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if found:
        return os.path.dirname(max(found, key=lambda path: float(path.split("/")[4])))
    config = shutil.which("pg_config")
    if config:
        return subprocess.check_output([config, "--bindir"], text=True).strip()
    raise process.StartFailed("PostgreSQL is not installed; tests/run.sh installs it")


def server_binaries():
    """As binaries(), unless the environment asks for another version of the server."""
    version = embedded.wanted()
    return embedded.binaries(version) if version else binaries()


def unprivileged_user():
    """The user that runs the server; None if we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise process.StartFailed("running as root and there is no user postgres or nobody")


class Postgres:
    """One private server. start() and stop() may alternate; the port stays the same."""

    def __init__(self, directory=None, port=None, settings=None):
        self.directory = directory or process.scratch("pg")
        self.data = os.path.join(self.directory, "data")
        self.log = os.path.join(self.directory, "postgres.log")
        self.port = port or process.free_port()
        self.settings = {**SETTINGS, **(settings or {})}
        self.user = unprivileged_user()
        self.bin = server_binaries()
        self.clients = binaries()
        self._process = None

    def start(self):
        if not os.path.exists(os.path.join(self.data, "PG_VERSION")):
            self._initialise()
        arguments = [f"{self.bin}/postgres", "-D", self.data, "-p", str(self.port),
                     "-k", self.directory]
        for name, value in self.settings.items():
            arguments += ["-c", f"{name}={value}"]
        # SIGQUIT: when the tests die, the server must not leave its backends and memory behind.
        self._process = process.spawn(arguments, self.log, user=self.user, cwd=self.directory,
                                      death_signal=signal.SIGQUIT)
        eventually(self._answers, timeout=60, what="PostgreSQL to answer")
        return self

    def stop(self):
        """Orderly: disconnects everybody, writes a checkpoint."""
        process.end(self._process, signal.SIGINT)
        self._process = None

    def crash(self):
        """Like a power failure: no checkpoint, recovery at the next start."""
        process.end(self._process, signal.SIGQUIT)
        self._process = None

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def restart(self):
        self.stop()
        self.start()

    def hba(self, *rules):
        """Only these rules of pg_hba.conf from now on, and `trust` on the Unix socket."""
        with open(os.path.join(self.data, "pg_hba.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(("local all all trust", *rules)) + "\n")
        os.kill(self.pid(), signal.SIGHUP)

    def environment(self, dbname="postgres"):
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres",
                "PGDATABASE": dbname}

    def conninfo(self, dbname="postgres"):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={dbname}"

    def connect(self, dbname="postgres"):
        import psycopg

        return psycopg.connect(self.conninfo(dbname), autocommit=True)

    def create_database(self, name, template="template1"):
        """Creates a database with a name derived from `name`, and returns its name."""
        name = re.sub(r"[^a-z0-9_]", "_", name.lower())[:63]
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name):
        """Also with prepared transactions that a failed test left: they would hold back the snapshots of all databases."""
        with self.connect() as connection:
            if connection.execute("SELECT 1 FROM pg_prepared_xacts WHERE database = %s", [name]).fetchone():
                self._roll_back_prepared(name)
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def pid(self):
        return self._process.pid

    def _roll_back_prepared(self, name):
        from psycopg import sql

        with self.connect(name) as connection:
            for gid, in connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]).fetchall():
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))

    def _initialise(self):
        os.makedirs(self.directory, exist_ok=True)
        process.give_to(self.directory, self.user)
        # --no-sync concerns the files of initdb only, and a new data directory can be created again.
        first = process.spawn([f"{self.bin}/initdb", "-D", self.data, "-U", "postgres", "-A", "trust",
                               "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
                              self.log, user=self.user, cwd=self.directory)
        if first.wait(120) != 0:
            raise process.StartFailed(f"initdb failed:\n{process.tail(self.log)}")

    def _answers(self):
        if self._process.poll() is not None:
            raise process.StartFailed(f"PostgreSQL ended with exit code {self._process.returncode}:\n"
                                      f"{process.tail(self.log)}")
        return subprocess.call([f"{self.clients}/pg_isready", "-q", "-h", "127.0.0.1",
                                "-p", str(self.port)]) == 0


def main():
    parser = argparse.ArgumentParser(description="Run a private PostgreSQL until SIGTERM.")
    parser.add_argument("--directory", help="where its data lives (default: a temporary directory)")
    parser.add_argument("--port", type=int, help="default: a free one")
    parser.add_argument("--env", help="file to write PG* variables to once it answers")
    options = parser.parse_args()
    server = Postgres(options.directory, options.port).start()
    if options.env:
        process.write_exports(options.env, server.environment())
    process.wait_for_stop()
    server.stop()


if __name__ == "__main__":
    main()
