"""A wake-up of inboxd's threads preempts neither the service nor the database."""

import contextlib
import os

from support.sidecar import binary


def policies(sidecar):
    found = set()
    for thread in os.listdir(f"/proc/{sidecar.pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            found.add(os.sched_getscheduler(int(thread)))
    return found


def test_every_thread_runs_as_sched_batch(start_inboxd):
    assert policies(start_inboxd()) == {os.SCHED_BATCH}


def test_a_configured_scheduling_policy_is_kept(start_inboxd, monkeypatch, tmp_path):
    program = tmp_path / "inboxd"
    program.write_text(f'#!/bin/sh\nexec chrt --idle 0 {binary()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("INBOXD_BINARY", str(program))
    assert policies(start_inboxd()) == {os.SCHED_IDLE}
