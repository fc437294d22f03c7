"""Child processes that never outlive the test run, and the ports they listen on."""

import atexit
import ctypes
import fcntl
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_spawned = []
_ports = set()  # that free_port() has returned
_claims = None  # a file of this user, in which each process has locked the bytes with the numbers of its ports


# In the background of a shell SIGINT is ignored, and processes started here would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


class StartFailed(RuntimeError):
    """A server did not start; the message has the end of its log."""


def _claim(port):
    """Whether no other process of the tests has got this port. The claim ends with this process."""
    global _claims
    if _claims is None:
        path = os.path.join(tempfile.gettempdir(), f"inboxd-ports-{os.getuid()}")
        _claims = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ports.add(port)
    return True


def free_port():
    """A free port below the range that the kernel assigns, so that a restarted server gets it again. No port is returned
    twice, also not to another process of the tests: the first one who got it may not use it yet, or its server is stopped."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in _ports and _claim(port):
                return port
    raise StartFailed("no free port between 20000 and 32000 on 127.0.0.1")


def is_writing_its_log(pid):
    """Whether the thread of the program that writes its log is at work. A thread that was woken counts at once."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            name, state = task.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # the thread has ended
        if name == "log":
            return state.split()[0] in ("R", "D")
    return False


class FullPipe:
    """A pipe that is full, and that nobody reads until read_some() is called: for a log whose reader has stalled."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        try:
            while os.write(self.writer, b"full\n" * 800):
                pass
        except BlockingIOError:
            os.set_blocking(self.writer, True)
        os.set_blocking(self.reader, False)

    def read_some(self):
        """What can be read at once; the writers can go on."""
        try:
            return os.read(self.reader, 1 << 20).decode(errors="replace")
        except BlockingIOError:
            return ""

    def close(self):
        os.close(self.reader)
        os.close(self.writer)


def spawn(arguments, log, user=None, env=None, cwd=None, death_signal=signal.SIGKILL, errors=None):
    """Starts a process whose output goes to the file `log`, except that stderr goes to the descriptor `errors` if there is
    one; it gets `death_signal` when we die."""

    def die_with_parent():
        _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)

    identity = {}
    if user is not None:
        entry = pwd.getpwnam(user)
        identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    with open(log, "ab") as output:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=output if errors is None else errors,
                                 env=env, cwd=cwd, preexec_fn=die_with_parent,
                                 start_new_session=True, **identity)
    _spawned.append(child)
    return child


def end(process, number=signal.SIGTERM, timeout=30):
    """Signals a process, waits, and kills it if it does not end. Returns its exit code."""
    if process is None or process.poll() is not None:
        return None if process is None else process.returncode
    process.send_signal(number)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(10)


def give_to(path, user):
    """Makes `user` the owner of a directory; None = no change."""
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def scratch(prefix):
    """A fresh directory for one server or test, removed at exit (kept with INBOXD_KEEP=1)."""
    path = tempfile.mkdtemp(prefix=f"inboxd-{prefix}-")
    os.chmod(path, 0o711)
    if os.environ.get("INBOXD_KEEP") != "1":
        atexit.register(_remove, path)
    return path


def _remove(path):
    """No process may write there while it is removed."""
    for child in _spawned:
        end(child, signal.SIGKILL)
    shutil.rmtree(path, ignore_errors=True)


def tail(path, lines=30):
    """The last lines of a file, for error messages."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def write_exports(path, variables):
    """Writes `export NAME='value'` lines for a shell to source, complete or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        for name, value in variables.items():
            file.write(f"export {name}='{value}'\n")
    os.replace(path + ".new", path)


def wait_for_stop():
    """Blocks until SIGTERM or SIGINT: used by a server started from a shell."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
