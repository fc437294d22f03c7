"""The inboxd before migration 0015, whose claims have three parts, built once from the history of the repository into the cache."""

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

from support import process
from support.maven import cache

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_LATER = "sql/migrations/0015_claim_secrets.sql"
BUILD_SECONDS = 900


@functools.cache
def program():
    """Its path; StartFailed if a clone lacks the history."""
    later = _call("git", "log", "--diff-filter=A", "--format=%H", "--", FIRST_LATER, cwd=ROOT).split()
    if not later:
        raise process.StartFailed(f"git does not say which commit added {FIRST_LATER}: fetch the whole history")
    commit = _call("git", "rev-parse", "--verify", f"{later[-1]}^", cwd=ROOT).strip()
    target = cache() / f"inboxd-{commit[:12]}"
    if not target.is_file():
        _build(commit, target)
    return str(target)


def _build(commit, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=target.parent))
    try:
        _call("git", "archive", "-o", part / "source.tar", commit, cwd=ROOT)
        _call("tar", "-xf", "source.tar", cwd=part)
        _call("meson", "setup", "build", "-Dtests=false", cwd=part)
        _call("ninja", "-C", "build", "src/inboxd", cwd=part)
        os.replace(part / "build/src/inboxd", target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _call(*command, cwd):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise process.StartFailed(f"the earlier inboxd: {error}") from error
    if done.returncode != 0:
        raise process.StartFailed(f"the earlier inboxd: {' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
