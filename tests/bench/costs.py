"""CPU time of processes, from /proc: seconds in user and system mode together."""

import os
import pathlib

_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name of the program.
_PARENT, _OWN, _REAPED = 1, (11, 12), (13, 14)


def _stat(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def of_process(pid):
    fields = _stat(pid)
    return sum(int(fields[at]) for at in _OWN) / _TICKS


def exactly_of_process(pid):
    """In nanoseconds instead of ticks, from the scheduler; only of threads that are alive."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


def of_server(pid):
    """A process, its living children, and those it has waited for, for PostgreSQL with its backends. A child that ends
    during the measurement is counted twice or not at all, so measure while none ends."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            total += _share(int(entry), pid)
    return total / _TICKS


def _share(candidate, server):
    try:
        fields = _stat(candidate)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended meanwhile
    if candidate == server:
        return sum(int(fields[at]) for at in _OWN + _REAPED)
    return sum(int(fields[at]) for at in _OWN) if int(fields[_PARENT]) == server else 0
