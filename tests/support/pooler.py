"""A PgBouncer in front of a PostgreSQL port, on a free port of its own.

The installed one, or one that prepares statements under names of its own: that of Debian 13, whose packages are unpacked
with their libraries and not installed.
"""

import functools
import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from support import process
from support.maven import cache
from support.postgres import unprivileged_user
from support.wait import eventually

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
RENAMES_FROM = (1, 21)
NEWER = ("pgbouncer", "libc6", "libgcc-s1", "libevent-2.1-7t64", "libcares2", "libssl3t64", "libpam0g", "libaudit1", "libcap-ng0",
         "libsystemd0", "libcap2", "libzstd1", "zlib1g")
FETCH_SECONDS = 120
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

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
    """Runs from construction until close(). auth_type any: everybody is `login` to the server. `command`: another program
    than the installed one, as renaming() returns it."""

    def __init__(self, target, mode, login="postgres", command=None, **settings):
        self.port = process.free_port()
        self.directory = process.scratch("pgbouncer")
        user = unprivileged_user()
        process.give_to(self.directory, user)
        path = os.path.join(self.directory, "pgbouncer.ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(target=f"{target} user={login}", port=self.port, mode=mode,
                                            directory=self.directory))
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self._process = process.spawn([*(command or [PROGRAM]), path], os.path.join(self.directory, "output.log"),
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


def renames(command):
    """Whether this PgBouncer has max_prepared_statements."""
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", said).groups())) >= RENAMES_FROM


@functools.cache
def renaming():
    """The command of a PgBouncer that has max_prepared_statements; StartFailed if there is none. Each run unpacks it where any
    user can read it, because the cache may be readable for root only."""
    if PROGRAM is not None and renames([PROGRAM]):
        return [PROGRAM]
    packages = cache() / "pgbouncer-debian-13"
    if not packages.is_dir():
        _fetch(packages)
    root = process.scratch("pgbouncer-newer")
    for package in packages.glob("*.deb"):
        _call("dpkg", "-x", str(package), root, cwd=root)
    (loader,) = glob.glob(f"{root}/usr/lib*/ld-linux*") or glob.glob(f"{root}/usr/lib/*/ld-linux*")
    (libraries,) = glob.glob(f"{root}/usr/lib/*-linux-gnu*")
    return [loader, "--library-path", libraries, f"{root}/usr/sbin/pgbouncer"]


def _fetch(target):
    """Downloads the packages with lists of packages of its own, which leave those of the machine alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=target.parent))
    try:
        _call("apt-get", *_apt_options(part / "state"), "-qq", "update", cwd=part)
        _call("apt-get", *_apt_options(part / "state"), "-qq", "download", *NEWER, cwd=part)
        shutil.rmtree(part / "state")
        os.rename(part, target)  # last: a cache directory is complete or absent
    except OSError:
        if not target.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _apt_options(state):
    """Those with which apt-get sees Debian 13, from where the machine has its own Debian, and nothing installed."""
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    targets = _call("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages", cwd=state)
    found = re.search(r"^Debian Debian (\S+)$", targets, re.M)
    if not found:
        raise process.StartFailed("no PgBouncer that has max_prepared_statements is installed, and packages of Debian 13 come only"
                                  " from where the machine has its own Debian, which has none")
    (state / "sources.list").write_text(f"deb [signed-by={KEYS}] {found[1]} trixie main\n", encoding="utf-8")
    options = {"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "none", "Dir::State::lists": "lists",
               "Dir::State::status": "status", "Dir::Cache": "", "Dir::Cache::archives": "archives"}
    return [word for name, value in options.items() for word in ("-o", f"{name}={state / value}")] + ["-o", "APT::Sandbox::User=root"]


def _call(*command, cwd):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise process.StartFailed(f"fetching PgBouncer: {error}") from error
    if done.returncode != 0:
        raise process.StartFailed(f"fetching PgBouncer: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
