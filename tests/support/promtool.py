"""promtool, which checks metrics, alert rules and their tests like Prometheus.

The installed one, or the one of Debian's package `prometheus`, unpacked into the cache. The package is not installed,
because that would start a server.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from support.maven import cache
from support.process import StartFailed


def path():
    """The program, downloaded if the cache does not have it."""
    installed, unpacked = shutil.which("promtool"), cache() / "prometheus"
    if installed:
        return pathlib.Path(installed)
    if not unpacked.is_dir():
        _fetch(unpacked)
    return unpacked / "usr/bin/promtool"


def run(*arguments, text=None):
    """The output of promtool for `text` on its standard input, or for files; a CompletedProcess."""
    return subprocess.run([path(), *arguments], input=text, capture_output=True, text=True, timeout=60,
                          check=False)


def _fetch(target):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=target.parent))
    try:
        _call("apt-get", "-qq", "download", "prometheus", cwd=part)
        _call("dpkg", "-x", str(next(part.glob("prometheus_*.deb"))), str(part / "unpacked"), cwd=part)
        os.replace(part / "unpacked", target)  # last: a cache directory is complete or absent
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _call(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise StartFailed(f"fetching promtool: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    print(path())
