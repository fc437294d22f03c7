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
    """To the nanosecond instead of a tick, as the scheduler counts it; of the threads that are alive."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


def of_server(pid):
    """A process, its living children, and those it has waited for: a PostgreSQL whose backends come
    and go. A child that ends in between is counted twice or not at all: measure while none does."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            total += _share(int(entry), pid)
    return total / _TICKS


def _share(candidate, server):
    try:
        fields = _stat(candidate)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended while we looked
    if candidate == server:
        return sum(int(fields[at]) for at in _OWN + _REAPED)
    return sum(int(fields[at]) for at in _OWN) if int(fields[_PARENT]) == server else 0
