"""A PgBouncer in front of a PostgreSQL port, on a free port of its own."""

import os
import shutil

from support import process
from support.postgres import unprivileged_user
from support.wait import eventually

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 20
server_login_retry = 1
logfile = {directory}/pgbouncer.log
"""


class Pooler:
    """Runs from construction until close(). auth_type any: everybody is `login` to the server."""

    def __init__(self, target, mode, login="postgres"):
        self.port = process.free_port()
        self.directory = process.scratch("pgbouncer")
        user = unprivileged_user()
        process.give_to(self.directory, user)
        path = os.path.join(self.directory, "pgbouncer.ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(target=f"{target} user={login}", port=self.port, mode=mode,
                                            directory=self.directory))
        self._process = process.spawn([PROGRAM, path], os.path.join(self.directory, "output.log"),
                                      user=user, cwd=self.directory)
        eventually(self._listens, what="PgBouncer to listen")

    def close(self):
        process.end(self._process)

    def _listens(self):
        import socket

        if self._process.poll() is not None:
            raise process.StartFailed(f"PgBouncer ended with exit code {self._process.returncode}:\n"
                                      f"{process.tail(os.path.join(self.directory, 'output.log'))}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
