"""CPU time of processes: seconds in user and system mode together."""

import contextlib
import os
import pathlib
import time

_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name of the program.
_PARENT, _OWN, _REAPED = 1, (11, 12), (13, 14)
_SCHED = 2  # CPUCLOCK_SCHED of the kernel


def _stat(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def of_process(pid):
    """In nanoseconds instead of ticks, threads that have ended among them."""
    return time.clock_gettime(~pid << 3 | _SCHED)  # as clock_getcpuclockid(3) makes it, which Python lacks


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


def exactly_of_server(pid):
    """{process: seconds} of a process and its living children, as of_process; under None those of the children that it has
    waited for. spent() compares two of them, also when children end in between."""
    found = {None: sum(int(_stat(pid)[at]) for at in _REAPED) / _TICKS}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if pid in (int(entry), int(_stat(entry)[_PARENT])):
                    found[int(entry)] = of_process(int(entry))
    return found


def spent(before, after, without):
    """The seconds between two results of exactly_of_server(), but for the process `without`."""
    ended = sum(before[process] for process in before.keys() - after.keys())
    living = sum(after[process] - before.get(process, 0) for process in after if process not in (None, without))
    return living + max(0, after[None] - before[None] - ended)
