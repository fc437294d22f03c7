"""promtool, which judges metrics, alert rules and their tests as Prometheus itself does.

The machine's own when there is one. Else out of Debian's package `prometheus`, unpacked into the cache and
not installed: that would start a server.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from support.maven import cache
from support.process import StartFailed


def path():
    """The program, fetched when it is not there yet."""
    installed, unpacked = shutil.which("promtool"), cache() / "prometheus"
    if installed:
        return pathlib.Path(installed)
    if not unpacked.is_dir():
        _fetch(unpacked)
    return unpacked / "usr/bin/promtool"


def run(*arguments, text=None):
    """What promtool says of `text` on its standard input, or of files; a CompletedProcess."""
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
